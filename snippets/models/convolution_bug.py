# SPDX-License-Identifier: Apache-2.0
"""Two windows that see what they must not, or forget what they must know, both wrong on purpose.

- :func:`blur_kernel_bug` asks only whether a neighbor's offset lies in the picture. That of a pixel beyond the end of a
  row does: it is the first of the next row.
- :func:`kept_bug` hands on the first inputs of a text, where the next piece needs the last ones.

Shapes: as in ``stencil.py`` and ``convolution.py``.

Run it on a GPU with ``python convolution_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.models.convolution import causal_conv1d, last_inputs


# --8<-- [start:kernel]
@triton.jit
def blur_kernel_bug(
    x_ptr, out_ptr, height, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    # --8<-- [start:mask]
    for down in tl.static_range(-1, 2):
        for right in tl.static_range(-1, 2):
            h, w = row + down, column + right
            offset = h[:, None] * width + w[None, :]
            inside = (offset >= 0) & (offset < height * width)
            total += tl.load(x_ptr + offset, mask=inside, other=0.0)
    # --8<-- [end:mask]
    tl.store(
        out_ptr + row[:, None] * width + column[None, :],
        total / 9,
        mask=(row < height)[:, None] & (column < width)[None, :],
    )
# --8<-- [end:kernel]


def blur_bug(x: torch.Tensor) -> torch.Tensor:
    """Blur a contiguous picture, (height, width), float32, wrong at its left and right edges."""
    out = torch.empty_like(x)
    height, width = x.shape
    blur_kernel_bug[triton.cdiv(width, 8), triton.cdiv(height, 8)](x, out, height, width, ROWS=8, COLUMNS=8)
    return out


# --8<-- [start:kept]
def kept_bug(x, width):
    """Return what the next step is to know."""
    return x[:, :, : width - 1]
# --8<-- [end:kept]


def main():
    device = "cuda" if isinstance(blur_kernel_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## the edge")
    x = torch.zeros(6, 6, device=device)
    x[2, 5] = 9
    for row, blurred in zip(x.tolist(), blur_bug(x).round(decimals=4).tolist(), strict=True):
        print(" ".join(f"{value:g}" for value in row), "->", " ".join(f"{value:g}" for value in blurred))

    print("## the state")
    text = torch.tensor([[[1.0, 2, 3, 4, 5, 6, 7, 8]]], device=device)
    weight = torch.tensor([[1.0, 10, 100, 1000]], device=device)
    print(f"all at once:         {causal_conv1d(text, weight)[0, 0, 5:].int().tolist()}")
    first, rest = text[:, :, :5], text[:, :, 5:]
    for name, kept in (("with the last three", last_inputs(first, 4)), ("with the first three", kept_bug(first, 4))):
        print(f"{name + ':':<21}{causal_conv1d(rest, weight, None, kept)[0, 0].int().tolist()}")


if __name__ == "__main__":
    main()
