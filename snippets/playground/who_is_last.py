# SPDX-License-Identifier: Apache-2.0
"""Four programs store to the same element, and nobody promises which one is last.

Run it on a GPU with ``python who_is_last.py``, or with ``TRITON_INTERPRET=1 python who_is_last.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def store_pid_kernel(out_ptr):
    pid = tl.program_id(axis=0)
    tl.store(out_ptr, pid)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = torch.full((1,), -1, dtype=torch.int32, device=device)
    store_pid_kernel[(4,)](out)
    print("the last program was", out.item())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
