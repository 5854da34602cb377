# SPDX-License-Identifier: Apache-2.0
"""Draw the Mandelbrot set finely: a program per line, a lane per point.

It is the playground's kernel with more lines and more steps. Run it on a GPU with ``python mandelbrot_fine.py``, or
with ``TRITON_INTERPRET=1 python mandelbrot_fine.py`` without one.
"""

import math

import torch
import triton
import triton.language as tl

WIDTH, HEIGHT, STEPS = 128, 101, 48
SHADES = " .,:;-=+ox*%#&@"  # from points that escape at once to those that never do


# --8<-- [start:kernel]
@triton.jit
def mandelbrot_fine_kernel(
    steps_ptr,
    left,
    top,
    pitch,  # from one point to the next
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    c_x = left + column * pitch
    c_y = top + row * pitch
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(STEPS):
        x, y = x * x - y * y + c_x, 2 * x * y + c_y
        # a point that has escaped would overflow, so it stays
        near = x * x + y * y < 4
        x = tl.where(near, x, 2.0)
        y = tl.where(near, y, 2.0)
        steps += near.to(tl.int32)
    tl.store(steps_ptr + row * BLOCK + column, steps)
# --8<-- [end:kernel]


def shade(steps: int) -> str:
    """Return the character of a point: each next one takes a fixed factor more steps."""
    return SHADES[int(math.log1p(steps) / math.log1p(STEPS) * (len(SHADES) - 1))]


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    steps = torch.empty(HEIGHT, WIDTH, dtype=torch.int32, device=device)
    pitch = 3.0 / WIDTH
    top = -(HEIGHT // 2) * pitch
    mandelbrot_fine_kernel[(HEIGHT,)](
        steps, -2.25, top, pitch, STEPS=STEPS, BLOCK=WIDTH
    )
    for row in steps.tolist():
        print("".join(map(shade, row)))


if __name__ == "__main__":
    main()
