# SPDX-License-Identifier: Apache-2.0
"""Two debugging helpers that do not help, in the manner of some that are in circulation, and what they let through.

- ``check_ready_bug`` can never fail: it asks whether a tensor has a method, not what the method says.
- ``matches_bug`` takes one character for the comparison, so that it cannot read ``>=2``.

Run it on a GPU with ``python debugging_helpers_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.tools.debugging import check_tensors_gpu_ready, copy_kernel, matches


# --8<-- [start:check]
def check_ready_bug(*tensors):
    for tensor in tensors:
        assert tensor.is_contiguous, "a tensor is not contiguous"
# --8<-- [end:check]


# --8<-- [start:matches]
def matches_bug(conditions, pid):
    for condition, i in zip(conditions.split(","), pid, strict=False):
        if condition:
            sign, number = condition[0], int(condition[1:])
            if not {"=": i == number, "<": i < number, ">": i > number}[sign]:
                return False
    return True
# --8<-- [end:matches]


def main():
    device = "cuda" if isinstance(copy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## contiguous")
    x = torch.arange(6.0, device=device).view(2, 3).t()
    out = torch.empty(3, 2, device=device)
    for check in (check_ready_bug, check_tensors_gpu_ready):
        try:
            check(x, out)
            print(f"{check.__name__}: accepted")
        except (AssertionError, ValueError) as error:
            print(f"{check.__name__}: refused: {error}")
    copy_kernel[(1,)](x, out, x.numel(), BLOCK=8)
    print("x:             ", x.tolist())
    print("copy_kernel(x):", out.tolist())
    print("## conditions")
    for parser in (matches_bug, matches):
        for conditions in (">1", ">1,=0", ">=2"):
            try:
                print(f"{parser.__name__}({conditions!r}, (2, 0, 0)):", parser(conditions, (2, 0, 0)))
            except ValueError as error:
                print(f"{parser.__name__}({conditions!r}, (2, 0, 0)): ValueError: {error}")


if __name__ == "__main__":
    main()
