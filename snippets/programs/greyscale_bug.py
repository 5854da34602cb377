# SPDX-License-Identifier: Apache-2.0
"""Greyscale, wrong on purpose in four ways. Do not copy these kernels.

- ``average_bytes_bug`` adds three bytes in a byte: sums above 255 wrap around. It writes ``bytes.jpg``.
- ``weights_bytes_bug`` multiplies a byte by 299, which is no byte: it does not compile.
- ``swapped_axes_bug`` takes the stride of the rows for x and that of the columns for y. It writes ``axes.jpg``.
- ``one_mask_bug`` has a mask along y only: it writes into the next row, and at the end past the picture.

Run it on a GPU with ``python greyscale_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.programs.greyscale import greyscale, to_gray
from snippets.programs.greyscale_photo import read_photo, write_picture


# --8<-- [start:bytes]
@triton.jit
def average_bytes_bug(
    picture_ptr, gray_ptr, height, width, stride_c, stride_y, stride_x,
    BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr,
):
    x = tl.program_id(axis=0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
    y = tl.program_id(axis=1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    mask = (y < height) & (x < width)
    red_ptr = picture_ptr + y * stride_y + x * stride_x
    red = tl.load(red_ptr, mask=mask)
    green = tl.load(red_ptr + stride_c, mask=mask)
    blue = tl.load(red_ptr + 2 * stride_c, mask=mask)
    tl.store(gray_ptr + y * width + x, (red + green + blue) // 3, mask=mask)
# --8<-- [end:bytes]


# --8<-- [start:weights]
@triton.jit
def weights_bytes_bug(picture_ptr, gray_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    red = tl.load(picture_ptr + offsets, mask=offsets < n)
    tl.store(gray_ptr + offsets, 299 * red // 1000, mask=offsets < n)
# --8<-- [end:weights]


# --8<-- [start:axes]
@triton.jit
def swapped_axes_bug(
    picture_ptr, gray_ptr, height, width, stride_c, stride_y, stride_x,
    BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr,
):
    x = tl.program_id(axis=0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
    y = tl.program_id(axis=1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    mask = (y < height) & (x < width)
    red_ptr = picture_ptr + x * stride_y + y * stride_x
    red = tl.load(red_ptr, mask=mask)
    green = tl.load(red_ptr + stride_c, mask=mask)
    blue = tl.load(red_ptr + 2 * stride_c, mask=mask)
    tl.store(gray_ptr + y * width + x, to_gray(red, green, blue), mask=mask)
# --8<-- [end:axes]


# --8<-- [start:mask]
@triton.jit
def one_mask_bug(
    picture_ptr, gray_ptr, height, width, stride_c, stride_y, stride_x,
    BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr,
):
    x = tl.program_id(axis=0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
    y = tl.program_id(axis=1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    mask = y < height
    red_ptr = picture_ptr + y * stride_y + x * stride_x
    red = tl.load(red_ptr, mask=mask)
    green = tl.load(red_ptr + stride_c, mask=mask)
    blue = tl.load(red_ptr + 2 * stride_c, mask=mask)
    tl.store(gray_ptr + y * width + x, to_gray(red, green, blue), mask=mask)
# --8<-- [end:mask]


def launch(kernel, picture: torch.Tensor, gray: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """Run a wrong kernel on a picture whose first dimension is its channels, and return ``gray``."""
    _, height, width = picture.shape
    grid = triton.cdiv(width, block[1]), triton.cdiv(height, block[0])
    kernel[grid](picture, gray, height, width, *picture.stride(), BLOCK_Y=block[0], BLOCK_X=block[1])
    return gray


# --8<-- [start:buffers]
def buffers(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 3 × 5 × 6 elements for a planar picture and 5 × 6 for its gray version, each with two more behind it."""
    picture = (torch.arange(92, device=device) * 2).to(torch.uint8)
    gray = torch.full((32,), 255, dtype=torch.uint8, device=device)  # 255 stands for: nobody wrote here
    return picture, gray
# --8<-- [end:buffers]


def reason(error: BaseException) -> str:
    """Return what was wrong: versions of the compiler and the interpreter wrap it differently."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[-1].removeprefix("ValueError('").removesuffix("')")


def main():
    device = "cuda" if isinstance(one_mask_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    picture, gray = buffers(device)
    toy = picture[:90].view(3, 5, 6)
    launch(one_mask_bug, toy, gray[:30].view(5, 6), (2, 4))
    print("a mask along y only")
    print("  the picture is right:", torch.equal(gray[:30].view(5, 6), greyscale(toy)))
    print("  past it, 255 before:", gray[30:].tolist())

    photo = read_photo(device).movedim(-1, 0)
    empty = torch.empty(photo.shape[1:], dtype=torch.uint8, device=device)
    print("three bytes added in a byte")
    white = torch.full((3, 1, 1), 255, dtype=torch.uint8, device=device)
    print("  gray of white:", launch(average_bytes_bug, white, empty[:1, :1], (1, 1)).item())
    dark = launch(average_bytes_bug, photo, empty, (16, 64))
    print("  largest gray of the photo:", dark.max().item())
    write_picture("bytes.jpg", dark, quality=50)

    print("a byte times 299")
    try:
        weights_bytes_bug[(1,)](white, white, 3, BLOCK_SIZE=4)
    except Exception as error:
        print("  refused:", reason(error))

    print("x with the stride of y")
    wrong = launch(swapped_axes_bug, photo, empty, (16, 64))
    right = greyscale(photo)
    print("  pixels that are right by chance:", int((wrong == right).sum()), "of", right.numel())
    print("  it is the transpose, as far as that goes:", torch.equal(wrong[:250, :250], right[:250, :250].T))
    write_picture("axes.jpg", wrong)


if __name__ == "__main__":
    main()
