# SPDX-License-Identifier: Apache-2.0
"""A photograph turned gray by :mod:`greyscale`, magnified, and with the tiles of its programs.

The photograph is matplotlib's sample ``grace_hopper.jpg``, a picture of the U.S. Navy in the public domain, so this
needs matplotlib too. It writes ``photo.jpg``, ``gray.jpg`` and ``tiles.jpg`` into the working directory.

Run it on a GPU with ``python greyscale_photo.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python greyscale_photo.py``.
"""

import torch
import triton
import triton.language as tl

from snippets.programs.greyscale import greyscale

# Of programs 0 to 7, then again.
COLORS = ["#0072b2", "#c77d00", "#008f68", "#b3589a", "#2f8fd0", "#8a7a00", "#6a5acd", "#5f6b73"]


# --8<-- [start:read]
def read_photo(device: str) -> torch.Tensor:
    """Return (300, 250, 3), uint8: every other pixel of the middle of the file's 600 × 512, not copied together."""
    try:
        from matplotlib import cbook, image
    except ImportError as error:
        raise SystemExit("this reads and writes pictures with matplotlib: pip install matplotlib") from error
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        photo = torch.from_numpy(image.imread(file, format="jpg").copy())
    return photo.to(device)[::2, 6:-6:2]
# --8<-- [end:read]


def write_picture(name: str, picture: torch.Tensor, quality: int = 70) -> None:
    """Write a uint8 tensor, (height, width) or (height, width, 3), as a JPEG file."""
    from matplotlib import image

    image.imsave(name, picture.cpu().numpy(), cmap="gray", vmin=0, vmax=255, pil_kwargs={"quality": quality})


# --8<-- [start:sign]
@triton.jit
def sign_kernel(owner_ptr, height, width, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    x = tl.program_id(axis=0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
    y = tl.program_id(axis=1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    number = tl.program_id(axis=1) * tl.num_programs(axis=0) + tl.program_id(axis=0)
    tl.store(owner_ptr + y * width + x, number, mask=(y < height) & (x < width))
# --8<-- [end:sign]


def owners(height: int, width: int, block: tuple[int, int], device: str) -> torch.Tensor:
    """Return which program has each pixel: what every program signed its own with, and -1 where none did.

    >>> owners(3, 5, (2, 4), "cuda" if torch.cuda.is_available() else "cpu").tolist()
    [[0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [2, 2, 2, 2, 3]]
    """
    owner = torch.full((height, width), -1, dtype=torch.int32, device=device)
    grid = triton.cdiv(width, block[1]), triton.cdiv(height, block[0])
    sign_kernel[grid](owner, height, width, BLOCK_Y=block[0], BLOCK_X=block[1])
    return owner


def write_tiles(name: str, gray: torch.Tensor, block: tuple[int, int]) -> None:
    """Write the picture with each program's pixels in its color, and hatched where its lanes are masked off."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import colors, figure, patches

    height, width = gray.shape
    owner = owners(height, width, block, gray.device).cpu()
    palette = 255 * torch.tensor([colors.to_rgb(color) for color in COLORS])
    tinted = 0.6 * gray.cpu()[:, :, None] + 0.4 * palette[owner % len(COLORS)]
    rows, columns = triton.cdiv(height, block[0]), triton.cdiv(width, block[1])
    sheet = figure.Figure(figsize=(columns * block[1] / 64, rows * block[0] / 64), dpi=96)
    axes = sheet.add_axes((0, 0, 1, 1))
    axes.imshow(tinted.byte().numpy(), extent=(0, width, height, 0), interpolation="bilinear", zorder=2)
    for number in range(rows * columns):
        corner = number % columns * block[1], number // columns * block[0]
        color = COLORS[number % len(COLORS)]
        hatched = {"fc": "white", "ec": color, "hatch": "////", "lw": 0, "zorder": 1}
        axes.add_patch(patches.Rectangle(corner, block[1], block[0], **hatched))
        axes.add_patch(patches.Rectangle(corner, block[1], block[0], fill=False, ec=color, lw=1.5, zorder=3))
        label = f"({number % columns}, {number // columns})"
        box = {"fc": color, "ec": "none", "pad": 2}
        axes.text(
            corner[0] + 3, corner[1] + 3, label, color="white", va="top", size=8, family="monospace", bbox=box, zorder=4
        )
    axes.axis("off")
    axes.set(xlim=(0, columns * block[1]), ylim=(rows * block[0], 0))
    sheet.savefig(name, pil_kwargs={"quality": 50})


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(sign_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    photo = read_photo(device)
    gray = greyscale(photo, channel_dim=-1)
    print("photo: shape", tuple(photo.shape), "strides", photo.stride())
    print("gray:  shape", tuple(gray.shape), "strides", gray.stride())
    planar = photo.movedim(-1, 0).contiguous()
    print("planar: shape", tuple(planar.shape), "strides", planar.stride())
    print("the same gray:", torch.equal(greyscale(planar), gray))
    write_picture("photo.jpg", photo)
    write_picture("gray.jpg", gray)
    write_tiles("tiles.jpg", gray, block=(64, 64))

    # A magnified patch of 8 × 8 pixels: a few of her ribbons.
    top, left = 248, 176
    patch = slice(top, top + 8), slice(left, left + 8)
    for row in photo[patch].tolist():
        print("patch in: ", *(",".join(map(str, pixel)) for pixel in row))
    for row in gray[patch].tolist():
        print("patch out:", *row)
# --8<-- [end:main]


if __name__ == "__main__":
    main()
