# SPDX-License-Identifier: Apache-2.0
"""One backward that takes its gradient for contiguous, on the gradient that ``sum`` hands it. Do not copy from here.

``out.sum()`` has a gradient of 1 for each element, and PyTorch doesn't write down 15 ones: it passes one number, with
strides of 0. The bug of ``gradients.py`` reads 15 elements from there, one row of 5 after another.

Run it with ``TRITON_INTERPRET=1 python gradients_bug.py``.
"""

import torch

from snippets.pytorch.gradients import StridesBug


def main():
    x, weight = torch.ones(3, 5, requires_grad=True), torch.arange(1.0, 6.0)
    out = StridesBug.apply(x, weight)
    out.register_hook(say)
    out.sum().backward()


def say(grad: torch.Tensor) -> None:
    print("shape of the gradient:", tuple(grad.shape))
    print("strides of the gradient:", grad.stride())
    print("numbers that it has in memory:", grad.untyped_storage().nbytes() // grad.itemsize)


if __name__ == "__main__":
    main()
