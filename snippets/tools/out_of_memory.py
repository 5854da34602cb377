# SPDX-License-Identifier: Apache-2.0
"""Ask how much memory a tensor would take, without taking it, and ask for more than any machine has.

A tensor on the device ``meta`` has a shape and a dtype, and no numbers. So the size of what a host function allocates
can be known before the GPU runs out of memory. On the CPU, torch refuses what cannot be had in other words than on a
GPU, and for the same reason.

Source: https://docs.pytorch.org/docs/stable/meta.html
"""

import re
from collections.abc import Callable

import torch


# --8<-- [start:size]
def gibibytes(make: Callable[[str], torch.Tensor]) -> float:
    """Return the size in GiB of the tensor that ``make("meta")`` returns. No memory is taken for it.

    >>> gibibytes(lambda device: torch.empty(2**28, device=device))
    1.0
    """
    return make("meta").untyped_storage().nbytes() / 2**30


# --8<-- [end:size]


def refused(numbers: int) -> str:
    """Return what torch's allocator says when it is asked for so many float32 on the CPU, or an empty text."""
    try:
        torch.empty(numbers)
    except RuntimeError as error:
        return re.search("DefaultCPUAllocator.*", str(error))[0]
    return ""


def differences(device: str) -> torch.Tensor:
    """Return x[:, None] - x for 131,072 float32: one number for each pair."""
    x = torch.empty(131072, device=device)
    return x[:, None] - x


ASKED = {
    "a product of 8,192 × 8,192 in bfloat16": lambda on: torch.empty(8192, 8192, dtype=torch.bfloat16, device=on),
    "its partial sums, with K split 16 times": lambda on: torch.empty(16, 8192, 8192, device=on),
    "32,768 rows of 128,256 logits": lambda on: torch.empty(32768, 128256, device=on),
    "x[:, None] - x of 131,072 numbers": differences,
}


def main() -> None:
    print("## GiB")
    for name, make in ASKED.items():
        print(f"{name}: {gibibytes(make):.3f}")
    print("\n## refused")
    print(refused(2**58))


if __name__ == "__main__":
    main()
