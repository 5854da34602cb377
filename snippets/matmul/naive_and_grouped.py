# SPDX-License-Identifier: Apache-2.0
"""Find out what makes ``grouped.py`` faster than ``naive.py``: both orders of programs, by offsets of 64 and 32 bits.

One kernel, of which these are chosen apart from each other:

- ``GROUP_M``: the order of programs: 1 is row-major as in ``naive.py``, 8 is what ``grouped.py`` takes
- ``WIDTH``: bits of the offsets within a tile. A whole tile of them is added to the pointers
- ``MOVE``: pointers move on from step to step as in ``grouped.py``, instead of being computed anew as in ``naive.py``

Then there is

- :func:`speed`: TFLOP/s of all of these, of both files and of ``torch.matmul``, in turns, on operands in rotation
- :func:`code`: what the loop is compiled to, for an H100 or H200

Square matrices of bfloat16, tiles of 128 × 128, steps of 64, 8 warps, 3 stages. Units: 2 * size**3 FLOPs; machine
instructions of one step; registers of a thread.
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
from snippets.tools.benchmarking_cold import rates

SIZES = (2048, 4096, 8192)
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
OPTIONS = {"num_warps": 8, "num_stages": 3}


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, WIDTH: tl.constexpr, MOVE: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = grouped_tile(
        tl.program_id(axis=0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N),
        GROUP_M,
    )
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    rows, columns, k = (
        tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K),
    )
    inside_m, inside_n = (rows < M - m)[:, None], (columns < N - n)[None, :]
    if WIDTH == 64:  # a tile of whole offsets
        rows, columns, at = (
            m.to(tl.int64) + rows, n.to(tl.int64) + columns, k.to(tl.int64),
        )
    else:  # one offset leads to the tile, and those within it are short
        at = k
        a_ptr += m.to(tl.int64) * stride_am
        b_ptr += n.to(tl.int64) * stride_bn
    a_ptrs = a_ptr + (rows[:, None] * stride_am + at[None, :] * stride_ak)
    b_ptrs = b_ptr + (
        at[:, None] * stride_bk + columns[None, :] * stride_bn
    )
    step = tl.full((), BLOCK_K, tl.int64)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = k < K - start
        if not MOVE:
            first = tl.cast(start, tl.int64)
            if WIDTH == 64:
                at = first + k
                a_ptrs = a_ptr + (
                    rows[:, None] * stride_am + at[None, :] * stride_ak
                )
                b_ptrs = b_ptr + (
                    at[:, None] * stride_bk + columns[None, :] * stride_bn
                )
            else:
                a_ptrs = (
                    a_ptr
                    + first * stride_ak
                    + (rows[:, None] * stride_am + k[None, :] * stride_ak)
                )
                b_ptrs = (
                    b_ptr
                    + first * stride_bk
                    + (
                        k[:, None] * stride_bk
                        + columns[None, :] * stride_bn
                    )
                )
        a = tl.load(a_ptrs, mask=inside_m & left[None, :], other=0)
        b = tl.load(b_ptrs, mask=left[:, None] & inside_n, other=0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        if MOVE:
            a_ptrs += step * stride_ak
            b_ptrs += step * stride_bk
    rows, columns = (
        m.to(tl.int64) + tl.arange(0, BLOCK_M),
        n.to(tl.int64) + tl.arange(0, BLOCK_N),
    )
    c_ptrs = c_ptr + (
        rows[:, None] * stride_cm + columns[None, :] * stride_cn
    )
    tl.store(c_ptrs, accumulator, mask=inside_m & inside_n)
# --8<-- [end:kernel]


VARIANTS = {
    f"groups of {group}, {width} bits{'' if move else ', computed anew'}":
        {"GROUP_M": group, "WIDTH": width, "MOVE": move}
    for group, width, move in (
        (1, 64, False), (1, 64, True), (1, 32, False), (1, 32, True), (8, 64, True), (8, 32, True),
    )
}  # fmt: skip


def matmul(a: torch.Tensor, b: torch.Tensor, variant: str, tile: dict[str, int] = TILE) -> torch.Tensor:
    """Return ``a @ b`` by one of ``VARIANTS``; arguments as in ``naive.py``.

    >>> a, b, tile = torch.ones(2, 3), torch.ones(3, 1), {"BLOCK_M": 4, "BLOCK_N": 4, "BLOCK_K": 16}
    >>> matmul(a, b, "groups of 8, 32 bits", tile).tolist()
    [[3.0], [3.0]]
    """
    naive.check_arguments(a, b)
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    m, n, k = (tile[f"BLOCK_{side}"] for side in "MNK")
    for name, x, sides in (("a", a, (m, k)), ("b", b, (k, n))):  # c is stored by offsets of 64 bits
        naive.check_span(name, x.shape, x.stride(), sides)
    programs = triton.cdiv(M, m) * triton.cdiv(N, n)
    if programs:
        matmul_kernel[(programs,)](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **tile, **VARIANTS[variant], **OPTIONS
        )
    return c


SIDES = {
    "naive.py": naive.matmul,
    **{variant: functools.partial(matmul, variant=variant) for variant in VARIANTS},
    "grouped.py": grouped.matmul,
    "torch.matmul": torch.matmul,
}


@functools.cache
def measure_speed(size):
    return rates(SIDES, lambda: matrices(size).unbind(), 2 * size**3)


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
    """Return the instructions of the loop that multiplies, without operands: from its label to the jump back there.

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
    """Count what a kernel's loop consists of: ``all``, ``multiply``, ``copy``, ``rest``; and ``registers`` of a thread.
    """
    strides = {f"stride_{name}": "i32" for name in ("am", "bk", "cm")}
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*bf16") | dict.fromkeys("MNK", "i32") | strides
    constants = TILE | dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    if kernel in VARIANTS:
        made = compiled(matmul_kernel, types, constants | VARIANTS[kernel], **OPTIONS)
    elif kernel == "naive.py":
        made = compiled(naive.matmul_kernel, types, constants, **OPTIONS)
    else:
        made = compiled(grouped.matmul_kernel, types, constants | {"GROUP_M": 8}, **OPTIONS)
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
