# SPDX-License-Identifier: Apache-2.0
"""Turn a color picture gray: ``gray[y, x] = (299 red + 587 green + 114 blue) / 1000``, rounded, a half up.

A kernel over two dimensions: a grid with two axes, blocks with two sides, a mask along each.
Bytes come in and bytes go out; between them the kernel computes in integers, so the result is exact.

Shapes: a picture is (3, height, width) or, with ``channel_dim=-1``, (height, width, 3), with any strides;
the result is (height, width), contiguous. All uint8.
Traffic: three bytes read and one written for each pixel.
Source: the weights of ITU-R Recommendation BT.601, which Pillow and torchvision use too.

Run it on a GPU with ``python greyscale.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python greyscale.py``.
"""

import torch
import triton
import triton.language as tl

BLOCK = (1, 1024)  # rows and columns of the tile that one program turns gray


# --8<-- [start:to_gray]
@triton.jit
def to_gray(red, green, blue):
    """Compute gray bytes from bytes, with sums of up to 255,500 between."""
    red, green, blue = (
        red.to(tl.int32), green.to(tl.int32), blue.to(tl.int32)
    )  # fmt: skip
    return (
        (299 * red + 587 * green + 114 * blue + 500) // 1000
    ).to(tl.uint8)  # fmt: skip
# --8<-- [end:to_gray]


# --8<-- [start:kernel]
@triton.jit
def greyscale_kernel(
    picture_ptr, gray_ptr, height, width, stride_c, stride_y, stride_x,
    BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr,
):
    # --8<-- [start:offsets]
    x = tl.program_id(axis=0).to(tl.int64) * BLOCK_X + tl.arange(0, BLOCK_X)
    y = tl.program_id(axis=1).to(tl.int64) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    x, y = x[None, :], y[:, None]
    # --8<-- [end:offsets]
    # --8<-- [start:mask]
    mask = (y < height) & (x < width)
    # --8<-- [end:mask]
    # --8<-- [start:memory]
    red_ptr = picture_ptr + y * stride_y + x * stride_x
    green_ptr = red_ptr + stride_c
    blue_ptr = green_ptr + stride_c
    red = tl.load(red_ptr, mask=mask)
    green = tl.load(green_ptr, mask=mask)
    blue = tl.load(blue_ptr, mask=mask)
    tl.store(gray_ptr + y * width + x, to_gray(red, green, blue), mask=mask)
    # --8<-- [end:memory]
# --8<-- [end:kernel]


# --8<-- [start:host]
def greyscale(
    picture: torch.Tensor, *, channel_dim: int = 0, block: tuple[int, int] = BLOCK, num_warps: int = 4
) -> torch.Tensor:
    """Return the gray version of an RGB picture, computed by :func:`greyscale_kernel`.

    Args:
        picture: A uint8 tensor on a GPU (or, in the interpreter, on the CPU) with three dimensions and any strides.
        channel_dim: Which dimension holds red, green and blue: 0 for planar, -1 for interleaved pictures.
        block: Rows and columns of the tile of one program, each a power of two, together at most 2**16 pixels.
        num_warps: Warps that share the work of one program: a power of two, at most 32.

    Returns:
        A new uint8 tensor (height, width). The kernel may still be running when it is returned.

    Raises:
        ValueError: The picture or the block is something that the kernel cannot serve.

    >>> red_green_blue_white = torch.tensor([[[255, 0, 0, 255], [0, 255, 0, 255], [0, 0, 255, 255]]], dtype=torch.uint8)
    >>> greyscale(red_green_blue_white.view(3, 2, 2))
    tensor([[ 76, 150],
            [ 29, 255]], dtype=torch.uint8)
    """
    check_arguments(picture, channel_dim, block, num_warps)
    # --8<-- [start:launch]
    planes = picture.movedim(channel_dim, 0)  # a view, with strides of its own
    _, height, width = planes.shape
    if height > block[0] * 65535:  # CUDA's limit of programs along axis 1
        raise ValueError(f"{height} rows take a block of more rows than {block[0]}")
    gray = torch.empty(height, width, dtype=torch.uint8, device=picture.device)
    if gray.numel() == 0:
        return gray  # nothing to launch

    def grid(meta):
        columns = triton.cdiv(width, meta["BLOCK_X"])
        rows = triton.cdiv(height, meta["BLOCK_Y"])
        return columns, rows

    # Triton launches on the current device, which need not be that of the picture.
    with torch.cuda.device_of(picture):
        greyscale_kernel[grid](
            planes, gray, height, width, *planes.stride(),
            BLOCK_Y=block[0], BLOCK_X=block[1], num_warps=num_warps,
        )
    return gray
    # --8<-- [end:launch]
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(picture: torch.Tensor, channel_dim: int, block: tuple[int, int], num_warps: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`greyscale` would get wrong, or can't serve at all."""
    if picture.dtype != torch.uint8:
        raise ValueError(f"picture has dtype {picture.dtype}; it takes torch.uint8, values 0 to 255")
    if picture.ndim != 3:
        raise ValueError(f"picture has shape {tuple(picture.shape)}; it takes one picture: three dimensions")
    if not isinstance(channel_dim, int) or not -3 <= channel_dim < 3:
        raise ValueError(f"channel_dim is {channel_dim}; it takes a dimension of the picture, from -3 to 2")
    if picture.shape[channel_dim] != 3:
        raise ValueError(
            f"picture has shape {tuple(picture.shape)}, so {picture.shape[channel_dim]} channels in dimension "
            f"{channel_dim}; it takes 3: set channel_dim, or slice off what is not red, green or blue"
        )
    if picture.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"picture is on {picture.device}; move it to a GPU, as in picture.cuda()")
    if picture.device.type == "cpu" and isinstance(greyscale_kernel, triton.JITFunction):
        raise ValueError(
            "picture is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file"
        )
    if picture.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("picture is negated lazily; pass picture.resolve_neg()")
    if len(block) != 2 or not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in block):
        raise ValueError(f"block must be two powers of two, rows and columns; got {block}")
    if block[0] * block[1] > 2**16:
        raise ValueError(f"block {block} has {block[0] * block[1]} pixels; it takes at most 2**16")
    if num_warps not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"num_warps must be a power of two, at most 32; got {num_warps}")
# --8<-- [end:check]


# --8<-- [start:flat]
@triton.jit
def greyscale_flat_kernel(picture_ptr, gray_ptr, n, stride_c, stride_x, BLOCK_SIZE: tl.constexpr):
    """Do the same over one dimension, for pictures without gaps: pixel i lies ``i * stride_x`` behind the first one."""
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    red_ptr = picture_ptr + offsets * stride_x
    green_ptr = red_ptr + stride_c
    blue_ptr = green_ptr + stride_c
    red = tl.load(red_ptr, mask=mask)
    green = tl.load(green_ptr, mask=mask)
    blue = tl.load(blue_ptr, mask=mask)
    tl.store(gray_ptr + offsets, to_gray(red, green, blue), mask=mask)
# --8<-- [end:flat]


def greyscale_flat(picture: torch.Tensor, *, channel_dim: int = 0, block_size: int = 1024) -> torch.Tensor:
    """Return :func:`greyscale` by one-dimensional blocks, to compare with. Take pictures whose rows have no gaps.

    Raises:
        ValueError: What :func:`greyscale` refuses, and a picture whose pixels are not evenly spaced.

    >>> greyscale_flat(torch.full((3, 2, 2), 7, dtype=torch.uint8)).tolist()
    [[7, 7], [7, 7]]
    """
    check_arguments(picture, channel_dim, (1, block_size), 4)
    planes = picture.movedim(channel_dim, 0)
    _, height, width = planes.shape
    stride_c, stride_y, stride_x = planes.stride()
    n = height * width
    if n > 0 and height > 1 and stride_y != width * stride_x:
        raise ValueError(f"picture has strides {picture.stride()}, so gaps between its rows; use greyscale")
    if n > block_size * (2**31 - 1):
        raise ValueError(f"{n} pixels are too many for block_size {block_size}; use a larger block_size")
    gray = torch.empty(height, width, dtype=torch.uint8, device=picture.device)
    if n == 0:
        return gray
    with torch.cuda.device_of(picture):
        greyscale_flat_kernel[(triton.cdiv(n, block_size),)](planes, gray, n, stride_c, stride_x, BLOCK_SIZE=block_size)
    return gray


# --8<-- [start:eager]
def by_torch(picture: torch.Tensor, channel_dim: int = 0) -> torch.Tensor:
    """Return the same result by torch's own operations, each of which reads and writes whole pictures."""
    red, green, blue = picture.int().unbind(channel_dim)
    return ((299 * red + 587 * green + 114 * blue + 500) // 1000).to(torch.uint8)
# --8<-- [end:eager]


def interleaved(planar: torch.Tensor) -> torch.Tensor:
    return planar.permute(1, 2, 0).contiguous()




# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(greyscale_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    # Small enough to follow by hand: five rows of six pixels, in tiles of two rows and four columns.
    torch.manual_seed(0)
    picture = torch.randint(0, 256, (3, 5, 6), dtype=torch.uint8).to(device)
    gray = greyscale(picture, block=(2, 4))
    for name, rows in zip(("red", "green", "blue", "gray"), [*picture.tolist(), gray.tolist()], strict=True):
        print(f"{name:>5} =", "\n        ".join(" ".join(f"{value:3}" for value in row) for row in rows))

    # Sizes of a real call: rows of a multiple of 16 pixels in both layouts, and rows one pixel shorter.
    picture = torch.randint(0, 256, (3, 60, 2048), dtype=torch.uint8).to(device)
    for label, planes, channel_dim in (
        ("planar, 60 × 2048", picture, 0),
        ("interleaved, 60 × 2048", interleaved(picture), -1),
        ("planar, 60 × 2047", picture[:, :, 1:].contiguous(), 0),
        ("planar, every other column", picture[:, :, ::2], 0),
    ):
        wrong = greyscale(planes, channel_dim=channel_dim) != by_torch(planes, channel_dim)
        print(f"pixels unlike torch's, {label}: {wrong.sum().item()}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
