# SPDX-License-Identifier: Apache-2.0
"""Small kernels that people ask for: a helper function, two blocks in a row, products in int8, of a batch, and with
sums in float16, a stencil and a causal convolution. Each runs. Some are compiled for two GPUs, too, which takes none of
them; so is an atomic addition in bfloat16.

Run it with ``TRITON_INTERPRET=1 python asked.py``, or without the variable on a machine with a GPU.
"""

import os
import re
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {"A100": GPUTarget("cuda", 80, 32), "H200": GPUTarget("cuda", 90, 32)}
SIDE = 64  # rows, columns and depth of the products that are compiled
INSTRUCTION = re.compile(r"\b(?:(?:wgmma\.mma_async|mma\.sync)\S*|(?:atom|red)\.\S*)")


# --8<-- [start:helper]
@triton.jit
def low_and_high(x):
    return tl.min(x, axis=0), tl.max(x, axis=0)


@triton.jit
def range_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    low, high = low_and_high(tl.load(x_ptr + tl.arange(0, BLOCK)))
    tl.store(out_ptr, low)
    tl.store(out_ptr + 1, high)
# --8<-- [end:helper]


# --8<-- [start:cat]
@triton.jit
def cat_kernel(a_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    block = tl.arange(0, BLOCK)
    both = tl.cat(tl.load(a_ptr + block), tl.load(b_ptr + block))
    tl.store(out_ptr + tl.arange(0, 2 * BLOCK), both)
# --8<-- [end:cat]


# --8<-- [start:int8]
@triton.jit
def int8_kernel(a_ptr, b_ptr, c_ptr, K, SIDE: tl.constexpr):
    i = tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), tl.int32)
    for k in range(0, K, SIDE):
        a = tl.load(a_ptr + i[:, None] * K + k + i[None, :])
        b = tl.load(b_ptr + (k + i[:, None]) * SIDE + i[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    tl.store(c_ptr + i[:, None] * SIDE + i[None, :], acc)
# --8<-- [end:int8]


# --8<-- [start:float16]
@triton.jit
def float16_kernel(a_ptr, b_ptr, c_ptr, K, SIDE: tl.constexpr):
    i = tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), tl.float16)
    for k in range(0, K, SIDE):
        a = tl.load(a_ptr + i[:, None] * K + k + i[None, :])
        b = tl.load(b_ptr + (k + i[:, None]) * SIDE + i[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.float16)
    tl.store(c_ptr + i[:, None] * SIDE + i[None, :], acc)
# --8<-- [end:float16]


# --8<-- [start:batch]
@triton.jit
def batch_kernel(
    a_ptr, b_ptr, c_ptr, stride_a, stride_b, stride_c, SIDE: tl.constexpr
):  # fmt: skip
    # axis 0 has the tiles of one product: here one tile
    batch = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, SIDE)
    tile = i[:, None] * SIDE + i[None, :]
    a = tl.load(a_ptr + batch * stride_a + tile)
    b = tl.load(b_ptr + batch * stride_b + tile)
    tl.store(
        c_ptr + batch * stride_c + tile,
        tl.dot(a, b, input_precision="ieee"),
    )


@triton.jit
def small_batch_kernel(
    a_ptr, b_ptr, c_ptr, BATCH: tl.constexpr, SIDE: tl.constexpr
):  # fmt: skip
    i = tl.arange(0, SIDE)
    tiles = (
        tl.arange(0, BATCH)[:, None, None] * SIDE * SIDE
        + (i[:, None] * SIDE + i[None, :])[None, :, :]
    )  # fmt: skip
    c = tl.dot(
        tl.load(a_ptr + tiles),
        tl.load(b_ptr + tiles),
        input_precision="ieee",
    )
    tl.store(c_ptr + tiles, c)
# --8<-- [end:batch]


# --8<-- [start:stencil]
@triton.jit
def stencil_kernel(
    x_ptr, out_ptr, n, RADIUS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(2 * RADIUS + 1):
        near = i + k - RADIUS
        there = (near >= 0) & (near < n)
        total += tl.load(x_ptr + near, mask=there, other=0)
    tl.store(out_ptr + i, total, mask=i < n)
# --8<-- [end:stencil]


# --8<-- [start:conv]
@triton.jit
def causal_conv_kernel(
    x_ptr, weight_ptr, state_ptr, out_ptr, channels,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = channel < channels
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(WIDTH):
        # from the oldest of WIDTH tokens to this one
        t = token + k - (WIDTH - 1)
        if t >= 0:
            x = tl.load(x_ptr + t * channels + channel, mask=mask, other=0)
        else:
            old = (t + WIDTH - 1) * channels + channel
            x = tl.load(state_ptr + old, mask=mask, other=0)
        w = tl.load(weight_ptr + k * channels + channel, mask=mask, other=0)
        total += x * w
    tl.store(out_ptr + token * channels + channel, total, mask=mask)
# --8<-- [end:conv]


# --8<-- [start:steps]
def causal_conv(x, weight, state):
    """Return the result for x (tokens, channels), and the next state.

    weight: (width, channels). state: (width - 1, channels), the tokens
    before x; zeros at the beginning of a text.
    """
    (tokens, channels), width = x.shape, len(weight)
    out, grid = torch.empty_like(x), (tokens, triton.cdiv(channels, 16))
    causal_conv_kernel[grid](
        x, weight, state, out, channels, WIDTH=width, BLOCK=16
    )
    return out, torch.cat([state, x])[tokens:]
# --8<-- [end:steps]


@triton.jit
def atomic_kernel(out_ptr, x_ptr, BLOCK: tl.constexpr):
    block = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + block, tl.load(x_ptr + block), sem="relaxed")


def run(device: str) -> None:
    """Launch each kernel, and print what it says beside torch."""
    random = torch.Generator().manual_seed(0)
    number = lambda shape, dtype: torch.randint(-8, 8, shape, generator=random).to(dtype).to(device)
    agrees = lambda ours, theirs: "as torch says" if torch.equal(ours.cpu(), theirs.cpu()) else "WRONG"
    x, out = torch.tensor([3.0, 1.0, 4.0, 2.0], device=device), torch.empty(2, device=device)
    range_kernel[(1,)](x, out, BLOCK=4)
    print("lowest and highest of 3, 1, 4, 2:", *map(int, out.tolist()))

    a, b, out = torch.arange(4, device=device), torch.arange(4, 8, device=device), torch.empty(8, device=device)
    cat_kernel[(1,)](a, b, out, BLOCK=4)
    print("0 to 3, then 4 to 7:", *map(int, out.tolist()))

    a, b = number((32, 96), torch.int8), number((96, 32), torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32, device=device)
    int8_kernel[(1,)](a, b, c, 96, SIDE=32)
    print("int8, 32 × 96 by 96 × 32:", agrees(c, a.cpu().int() @ b.cpu().int()))

    a = torch.full((16, 4096), 3.0, dtype=torch.float16, device=device)
    c = torch.empty(16, 16, dtype=torch.float16, device=device)
    float16_kernel[(1,)](a, a.reshape(4096, 16), c, 4096, SIDE=16)
    print(f"4,096 × 9 = 36,864, in float16: {c[0, 0].item():,.0f}")

    a, b = number((3, 16, 16), torch.float32), number((3, 16, 16), torch.float32)
    c = torch.empty_like(a)
    batch_kernel[(1, 3)](a, b, c, a.stride(0), b.stride(0), c.stride(0), SIDE=16)
    print("batch of 3, a program for each:", agrees(c, torch.bmm(a.cpu(), b.cpu())))

    a, b = number((4, 16, 16), torch.float32), number((4, 16, 16), torch.float32)
    c = torch.empty_like(a)
    small_batch_kernel[(1,)](a, b, c, BATCH=4, SIDE=16)
    print("batch of 4 in one tl.dot:", agrees(c, torch.bmm(a.cpu(), b.cpu())))

    x, out = torch.arange(1.0, 6.0, device=device), torch.empty(5, device=device)
    stencil_kernel[(2,)](x, out, 5, RADIUS=1, BLOCK=4)
    print("1 to 5, each with its neighbors:", *map(int, out.tolist()))

    x, weight = number((6, 20), torch.float32), number((4, 20), torch.float32)
    wanted = torch.nn.functional.conv1d(x.t(), weight.t()[:, None], padding=3, groups=20)[:, :6].t()
    begin = x.new_zeros(3, 20)
    print("causal convolution, all tokens at once:", agrees(causal_conv(x, weight, begin)[0], wanted))
    outs, state = [], begin
    for token in x.split(1):
        out, state = causal_conv(token, weight, state)
        outs.append(out)
    print("causal convolution, token by token:", agrees(torch.cat(outs), wanted))


def instruction(kernel, types: dict[str, str], constants: dict[str, int], target: GPUTarget) -> str:
    """Return the first matrix or atomic instruction in the PTX of a kernel, compiled for a GPU that need not be there.
    """
    signature = types | dict.fromkeys(constants, "constexpr")
    compiled = triton.compile(ASTSource(kernel, signature, constants), target=target)
    found = INSTRUCTION.search(compiled.asm["ptx"])
    return found[0] if found else "none"


def compiled() -> None:
    three = lambda pair, result: dict.fromkeys(("a_ptr", "b_ptr"), f"*{pair}") | {"c_ptr": f"*{result}"}
    cases = {
        "int8": (int8_kernel, three("i8", "i32") | {"K": "i32"}, {"SIDE": SIDE}),
        "float16 sums": (float16_kernel, three("fp16", "fp16") | {"K": "i32"}, {"SIDE": SIDE}),
        "tl.dot of a batch": (small_batch_kernel, three("fp16", "fp16"), {"BATCH": 4, "SIDE": 32}),
        "bfloat16 atomic": (atomic_kernel, {"out_ptr": "*bf16", "x_ptr": "*bf16"}, {"BLOCK": 128}),
    }
    for gpu, target in GPUS.items():
        for name, case in cases.items():
            print(f"{name}, {gpu}: {instruction(*case, target)}", flush=True)


def main():
    if "--compile" in sys.argv:
        return compiled()
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## run")
    run("cpu" if interpreted else "cuda")
    print("## compiled", flush=True)  # in another process, for nothing compiles under TRITON_INTERPRET
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, os.path.abspath(__file__), "--compile"], env=without, check=True)


if __name__ == "__main__":
    main()
