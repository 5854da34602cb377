# SPDX-License-Identifier: Apache-2.0
"""Several ways to round a gray value, on every color that three bytes can say.

The kernel of :mod:`greyscale` is exact. A kernel that computes in floating point is almost the same, and not the same
everywhere: ``0.299 * red`` with uint8 ``red`` is float32, and no binary number is exactly 0.299, so a sum that should
end in one half may come out below it. A GPU fuses a product and a sum into one step with one rounding; the interpreter
rounds twice.

Run it on a GPU with ``python greyscale_rounding.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.programs.greyscale import greyscale


# --8<-- [start:kernel]
@triton.jit
def float_kernel(picture_ptr, gray_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    red = tl.load(picture_ptr + offsets, mask=mask)
    green = tl.load(picture_ptr + n + offsets, mask=mask)
    blue = tl.load(picture_ptr + 2 * n + offsets, mask=mask)
    gray = 0.299 * red + 0.587 * green + 0.114 * blue  # float32
    tl.store(gray_ptr + offsets, (gray + 0.5).to(tl.uint8), mask=mask)
# --8<-- [end:kernel]


def greyscale_float(picture: torch.Tensor) -> torch.Tensor:
    """Return the gray version of a contiguous uint8 picture (3, height, width), by float32.

    >>> device = "cuda" if torch.cuda.is_available() else "cpu"
    >>> greyscale_float(torch.full((3, 1, 2), 255, dtype=torch.uint8, device=device)).tolist()
    [[255, 255]]
    """
    gray = torch.empty(picture.shape[1:], dtype=torch.uint8, device=picture.device)
    float_kernel[(triton.cdiv(gray.numel(), 16384),)](picture, gray, gray.numel(), BLOCK_SIZE=16384, num_warps=8)
    return gray


def main():
    device = "cuda" if isinstance(float_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    values = torch.arange(256, dtype=torch.uint8, device=device)
    colors = torch.stack(torch.meshgrid(values, values, values, indexing="ij")).view(3, 4096, 4096)
    red, green, blue = colors.int()
    exact = (299 * red + 587 * green + 114 * blue).double() / 1000  # float64 has room for every half
    right = (exact + 0.5).floor().to(torch.uint8)
    print(f"colors: {right.numel():,}")
    for label, gray in (
        ("our kernel, in integers", greyscale(colors, block=(64, 1024), num_warps=32)),
        ("the same in float32", greyscale_float(colors)),
        ("Pillow's weights, in 1/65536", (19595 * red + 38470 * green + 7471 * blue + 2**15) >> 16),
        ("torchvision's weights, cut off", (0.2989 * red + 0.587 * green + 0.114 * blue).to(torch.uint8)),
    ):
        print(f"wrong by one, {label}: {(gray != right).sum().item():,}")
        assert (gray.int() - right.int()).abs().max() <= 1


if __name__ == "__main__":
    main()
