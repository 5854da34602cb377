# SPDX-License-Identifier: Apache-2.0
"""Draw the Mandelbrot set in characters: a program per line, a lane per character.

Run it on a GPU with ``python mandelbrot.py``, or with ``TRITON_INTERPRET=1 python mandelbrot.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def mandelbrot_kernel(steps_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    c_x = -2.25 + column * (3.0 / BLOCK)
    c_y = -1.2 + row * 0.15
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(20):
        x, y = x * x - y * y + c_x, 2 * x * y + c_y
        # a point that has escaped would overflow, so it stays
        near = x * x + y * y < 4
        x = tl.where(near, x, 2.0)
        y = tl.where(near, y, 2.0)
        steps += near.to(tl.int32)
    tl.store(steps_ptr + row * BLOCK + column, steps)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    steps = torch.empty(17, 64, dtype=torch.int32, device=device)
    mandelbrot_kernel[(17,)](steps, BLOCK=64)
    for row in steps.tolist():
        print("".join(" .:-=+*#%@@"[count // 2] for count in row))
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
