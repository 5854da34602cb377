# SPDX-License-Identifier: Apache-2.0
"""Show how wide the recurrence's loads and stores are as Triton's compiler makes them, for an H100 or H200 (sm_90).

The kernel of ``when_to_write_a_kernel.py``, compiled as for 16 series of 2,048 steps and 4,096 channels in float32:
blocks of 128 channels, 32 threads, 16 stages. It needs no GPU.

Units: bytes that a thread moves by one instruction. Source: the PTX.

Run it with ``python recurrence_compiled.py``.
"""

from collections import Counter

import torch

from snippets.compiler.see_your_own_kernel import accesses, compile_for
from snippets.start.when_to_write_a_kernel import recurrence_kernel


def widths() -> list[str]:
    """Return how many loads, stores and copies a thread makes, by their bytes."""
    a = b = h = torch.float32
    options = {"BLOCK": 128, "STAGES": 16, "num_warps": 1}
    ptx = compile_for("sm_90", recurrence_kernel, a, b, h, 2048, 4096, **options).asm["ptx"]
    operations = {"loads": "ld", "stores": "st", "copies to shared memory": "cp.async"}
    counts = {what: Counter(accesses(ptx, operation)) for what, operation in operations.items()}
    return [f"{what}, {size} bytes: {n}" for what, sizes in counts.items() for size, n in sizes.items()]


def main():
    print(*widths(), sep="\n")


if __name__ == "__main__":
    main()
