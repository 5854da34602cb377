# SPDX-License-Identifier: Apache-2.0
"""A matrix product that is in too much of a hurry: it loads over tiles in use, or reads sums that aren't finished.

Neither hangs and neither is reported, so the result is wrong, and perhaps only sometimes. Each case is launched many
times; then once by Triton's ConSan, which knows what is in flight, in a process of its own.

Shapes: a is (128, K), b is (K, 256), bfloat16: a single tile.

Run it on a Hopper GPU with ``python wgmma_bug.py``, or one case with ``python wgmma_bug.py "too early"``.
"""

import os
import re
import subprocess
import sys

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from snippets.below.wgmma import load, make_buffers, multiply, store, zeros

M, K, N, BLOCK_K, BUFFERS, LAUNCHES = 128, 4096, 256, 64, 3, 100
CASES = {
    "as it should be": {},
    "loads a step too early": {"AHEAD": BUFFERS},
    "reads the sums too early": {"LAST": 1},
}


# --8<-- [start:kernel]
@gluon.jit
def hasty_kernel(
    a, b, c, K, BUFFERS: gl.constexpr, AHEAD: gl.constexpr, LAST: gl.constexpr
):  # fmt: skip
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    a_tiles, b_tiles, arrived = make_buffers(a, b, BUFFERS)
    steps = gl.cdiv(K, depth)
    for i in range(AHEAD):
        load(a, b, 0, 0, i * depth, i, i < steps, a_tiles, b_tiles, arrived)
    acc = zeros(rows, columns)
    for i in range(steps):
        acc = multiply(acc, i, a_tiles, b_tiles, arrived)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        ahead = i + AHEAD
        load(a, b, 0, 0, ahead * depth, ahead, ahead < steps,
             a_tiles, b_tiles, arrived)  # fmt: skip
    acc = warpgroup_mma_wait(LAST, deps=(acc,))
    store(c, 0, 0, acc)
# --8<-- [end:kernel]


def product(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Launch a case."""
    # ConSan keeps its notes in memory that Triton asks us for.
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
    out = torch.zeros(M, N, dtype=a.dtype, device=a.device)
    shapes = [M, BLOCK_K], [BLOCK_K, N], [M, N // 4]
    described = [
        TensorDescriptor.from_tensor(x, shape, gl.NVMMASharedLayout.get_default_for(shape, gl.bfloat16))
        for x, shape in zip((a, b, out), shapes, strict=True)
    ]
    options = {"BUFFERS": BUFFERS, "AHEAD": BUFFERS - 1, "LAST": 0} | CASES[name]
    hasty_kernel[(1,)](*described, a.shape[1], num_warps=8, **options)
    return out


def whole_numbers(depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = (M, depth), (depth, N)
    return tuple(torch.randint(-2, 3, shape, generator=random).to("cuda", torch.bfloat16) for shape in shapes)


# --8<-- [start:count]
def count(name: str) -> str:
    """Return how many launches of a case are right, and how much of the worst result is wrong."""
    a, b = whole_numbers(K)
    right = (a.float() @ b.float()).bfloat16()
    wrong = [(product(name, a, b) != right).float().mean().item() for _ in range(LAUNCHES)]
    return f"{wrong.count(0)} of {LAUNCHES} launches right, up to {max(wrong):.0%} of a result wrong"
# --8<-- [end:count]


def consan(name: str) -> str:
    """Return what ConSan says of a case, with few steps, for it is slow."""
    command = [sys.executable, "-m", "snippets.below.wgmma_bug", name]
    environment = os.environ | {"TRITON_INSTRUMENTATION_MODE": "consan"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    found = re.search(r"(\w+\.py):(\d+): .*Assertion `(.+?)` failed", done.stderr)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else done.stdout or done.stderr.splitlines()[-1]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU")
    if len(sys.argv) > 1:
        product(sys.argv[1], *whole_numbers(6 * BLOCK_K))
        torch.cuda.synchronize()
        print("nothing to report", end="")
        return
    print("## what comes out")
    for name in CASES:
        print(f"{name}: {count(name)}")
    print("## what ConSan says")
    for name in CASES:
        print(f"{name}: {consan(name)}")


if __name__ == "__main__":
    main()
