# SPDX-License-Identifier: Apache-2.0
"""Let Helion search for the settings of its softmax, quickly, and say how long that took and what it gained.

Both times are of ``do_bench``, of calls that find nothing of theirs in the cache.
Run it on a GPU with ``python helion_search.py``, where Helion is installed.
"""

import time

import torch
import triton

from snippets.reference.which_language import COLUMNS, ROWS


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; a search times kernels on one")
    from torch._inductor.runtime import triton_compat

    if not hasattr(triton_compat, "IntelGPUError"):  # Helion 1.5 imports it, and torch 2.11 lacks it
        triton_compat.IntelGPUError = type("IntelGPUError", (Exception,), {})
    import helion

    from snippets.reference.softmax_helion import softmax

    x = torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)
    microseconds = lambda run: 1000 * triton.testing.do_bench(lambda: run(x), return_mode="median")
    first = helion.kernel(softmax.fn, autotune_effort="none")
    print(f"without a search, microseconds: {microseconds(first):.1f}", flush=True)
    tuned = helion.kernel(softmax.fn, autotune_effort="quick")
    begin = time.perf_counter()
    right = torch.allclose(tuned(x).float(), x.float().softmax(1), atol=1e-3)
    print(f"search, seconds: {time.perf_counter() - begin:.0f}")
    print(f"after it, microseconds: {microseconds(tuned):.1f}")
    print("the result:", "as PyTorch's" if right else "wrong")


if __name__ == "__main__":
    main()
