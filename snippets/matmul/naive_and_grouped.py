# SPDX-License-Identifier: Apache-2.0
"""Why ``grouped.py`` is faster than ``naive.py`` in the same order: five changes, each alone and all but each.

One kernel, which is ``naive.py``'s product with none of these, and ``grouped.py``'s in groups of 1 with all:

- ``FORMULA``: a program's tile comes from ``grouped``, which for groups of 1 says the same as dividing, the other way
- ``EARLY``: a tile's number becomes 64 bits wide before it is multiplied by the tile's size, instead of after
- ``ELEMENTS``: the loop counts elements, ``range(0, K, BLOCK_K)``, instead of steps, ``range(0, cdiv(K, BLOCK_K))``
- ``MOVE``: pointers move on from step to step, instead of being computed anew from the number of the step
- ``LEFT``: what is left of K is compared with the first step's indices, instead of K with this step's

Then there is

- :func:`speed`: TFLOP/s of all of these, of both files and of ``torch.matmul``, in turns
- :func:`code`: what the loop is compiled to, for an H100 or H200

Square matrices of bfloat16 in row-major order of programs, tiles of 128 × 128, steps of 64, 8 warps, 3 stages. Units:
2 * size**3 FLOPs; machine instructions of one step; registers of a thread.
Source: NVIDIA's ``nvdisasm`` and ``cuobjdump``, which come with Triton.

``python naive_and_grouped.py`` says what there is to measure, for which it takes a GPU.
"""

import functools
import re

import torch
import triton
import triton.language as tl
from triton import knobs

from snippets.matmul import grouped, naive
from snippets.matmul.fused_compiled import compiled, said
from snippets.matmul.grouped import grouped as grouped_tile
from snippets.matmul.grouped_counted import matrices
from snippets.matmul.naive import indices
from snippets.tools.benchmarking_graph import rates

SIZES = (2048, 4096, 8192)
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
OPTIONS = {"num_warps": 8, "num_stages": 3}


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    FORMULA: tl.constexpr, EARLY: tl.constexpr, ELEMENTS: tl.constexpr,
    MOVE: tl.constexpr, LEFT: tl.constexpr,
):  # fmt: skip
    pid, tiles_n = tl.program_id(axis=0), tl.cdiv(N, BLOCK_N)
    if FORMULA:
        tile_m, tile_n = grouped_tile(pid, tl.cdiv(M, BLOCK_M), tiles_n, 1)
    else:
        tile_m, tile_n = pid // tiles_n, pid % tiles_n
    if EARLY:
        m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    else:
        m, n = indices(tile_m, BLOCK_M), indices(tile_n, BLOCK_N)
    lanes = tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + (m[:, None] * stride_am + lanes[None, :] * stride_ak)
    b_ptrs = b_ptr + (lanes[:, None] * stride_bk + n[None, :] * stride_bn)
    one_step = tl.full((), BLOCK_K, tl.int64)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(
        0, K if ELEMENTS else tl.cdiv(K, BLOCK_K), BLOCK_K if ELEMENTS else 1
    ):
        start = i if ELEMENTS else i * BLOCK_K
        k = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        at, end = (lanes, K - start) if LEFT else (k, K)
        if not MOVE:
            a_ptrs = a_ptr + (m[:, None] * stride_am + k[None, :] * stride_ak)
            b_ptrs = b_ptr + (k[:, None] * stride_bk + n[None, :] * stride_bn)
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (at[None, :] < end), other=0)
        b = tl.load(b_ptrs, mask=(at[:, None] < end) & (n[None, :] < N), other=0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        if MOVE:
            a_ptrs += one_step * stride_ak
            b_ptrs += one_step * stride_bk
    c_ptrs = c_ptr + (m[:, None] * stride_cm + n[None, :] * stride_cn)
    tl.store(c_ptrs, accumulator, mask=(m[:, None] < M) & (n[None, :] < N))
# --8<-- [end:kernel]


CHANGES = ("formula", "early", "elements", "move", "left")
VARIANTS = {
    "none": (),
    **{f"only {change}": (change,) for change in CHANGES},
    **{f"all but {change}": tuple(other for other in CHANGES if other != change) for change in CHANGES},
    "all": CHANGES,
}


def flags(variant: str) -> dict[str, bool]:
    return {change.upper(): change in VARIANTS[variant] for change in CHANGES}


def matmul(a: torch.Tensor, b: torch.Tensor, variant: str, tile: dict[str, int] = TILE) -> torch.Tensor:
    """Return ``a @ b`` by one of ``VARIANTS``; arguments as in ``naive.py``.

    >>> matmul(torch.ones(2, 3), torch.ones(3, 1), "all", {"BLOCK_M": 4, "BLOCK_N": 4, "BLOCK_K": 16}).tolist()
    [[3.0], [3.0]]
    """
    naive.check_arguments(a, b)
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    programs = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"])
    if programs:
        matmul_kernel[(programs,)](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **tile, **flags(variant), **OPTIONS
        )
    return c


SIDES = {
    "naive.py": naive.matmul,
    **{variant: functools.partial(matmul, variant=variant) for variant in VARIANTS},
    "grouped.py": functools.partial(grouped.matmul, group=1),
    "torch.matmul": torch.matmul,
}


@functools.cache
def measure_speed(size):
    a, b = matrices(size)
    return rates({name: functools.partial(run, a, b) for name, run in SIDES.items()}, 2 * size**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="speed",
        x_names=["kernel"],
        x_vals=list(SIDES),
        ylabel="TFLOP/s",
        line_arg="size",
        line_vals=[f"size_{size}" for size in SIZES],
        line_names=[f"{size:,}" for size in SIZES],
        args={},
    )
)
def speed(kernel, size):
    """TFLOP/s by kernel and size, all of a size in turns."""
    return measure_speed(int(size.removeprefix("size_")))[kernel]


# --8<-- [start:code]
def loop(sass: str) -> list[str]:
    """The instructions of the loop that multiplies, without their operands: from its label to the jump back there.

    >>> loop(".L_1: /*0*/ HGMMA R1 ; /*8*/ @P0 BRA `(.L_1) ;".replace(" /*", chr(10) + " /*"))
    ['HGMMA', 'BRA']
    """
    lines = sass.splitlines()
    label = {found[1]: i for i, line in enumerate(lines) if (found := re.match(r"\s*(\.L\w+):", line))}
    jumps = [(label[to[1]], i) for i, line in enumerate(lines) if (to := re.search(r"BRA.*`\((\.L\w+)\)", line))]
    loops = [lines[start : end + 1] for start, end in jumps if start < end]
    (body,) = [found for found in loops if any("HGMMA" in line for line in found)]
    return re.findall(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", "\n".join(body))


@functools.cache
def counts(kernel: str) -> dict[str, int]:
    """What a kernel's loop consists of: ``all``, ``multiply``, ``copy``, ``rest``; and ``registers`` of a thread."""
    strides = {f"stride_{name}": "i32" for name in ("am", "bk", "cm")}
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*bf16") | dict.fromkeys("MNK", "i32") | strides
    constants = TILE | dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    if kernel in VARIANTS:
        made = compiled(matmul_kernel, types, constants | flags(kernel), **OPTIONS)
    elif kernel == "naive.py":
        made = compiled(naive.matmul_kernel, types, constants, **OPTIONS)
    else:
        made = compiled(grouped.matmul_kernel, types, constants | {"GROUP_M": 1}, **OPTIONS)
    found = loop(said(knobs.nvidia.nvdisasm, "--print-code", made))
    multiply, copy = found.count("HGMMA"), found.count("LDGSTS")
    usage = said(knobs.nvidia.cuobjdump, "--dump-resource-usage", made)
    return {
        "all": len(found), "multiply": multiply, "copy": copy, "rest": len(found) - multiply - copy,
        "registers": int(re.search(r"\bREG:(\d+)", usage)[1]),
    }  # fmt: skip
# --8<-- [end:code]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="code",
        x_names=["kernel"],
        x_vals=[name for name in SIDES if name != "torch.matmul"],
        ylabel="instructions; registers",
        line_arg="what",
        line_vals=["multiply", "copy", "rest", "registers"],
        line_names=["wgmma", "copies", "others", "registers"],
        args={},
    )
)
def code(kernel, what):
    """Machine instructions of the loop along K, of one step, and registers of a thread."""
    return counts(kernel)[what]


def main():
    for mark in (speed, code):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
