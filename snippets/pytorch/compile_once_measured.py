# SPDX-License-Identifier: Apache-2.0
"""Measure a first launch, with nothing on disk and with everything, and what it costs to compile less often.

``first``: seconds of a new process, part by part. ``price``: the speed of a kernel that knows its row length to be a
multiple of 16, and of one that has been told to look at no number.

``python compile_once_measured.py`` says what there is to measure; measuring needs a GPU.
"""

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import triton
import triton.language as tl

from snippets.tools.benchmarking_cold import compare_in_rotation

# --8<-- [start:child]
CHILD = """
import json, time
begin = time.perf_counter()
import torch
torch.zeros(1, device="cuda")
after_torch = time.perf_counter()
from snippets.pytorch.compile_once_measured import {name} as example
example_call = example()
after_import = time.perf_counter()
example_call()
torch.cuda.synchronize()
after_first = time.perf_counter()
example_call()
torch.cuda.synchronize()
after_second = time.perf_counter()
print(json.dumps([
    after_torch - begin, after_import - after_torch, after_first - after_import, after_second - after_first
]))
"""
# --8<-- [end:child]


def call_of_add():
    from snippets.programs.vector_add import add

    x = torch.rand(2, 4096, device="cuda")
    return lambda: add(*x)


def call_of_matmul():
    from snippets.matmul.naive import matmul

    x = torch.rand(2, 512, 512, device="cuda", dtype=torch.float16)
    return lambda: matmul(*x)


def call_of_attention():
    from snippets.library.attention import attention

    q, k, v = torch.rand(3, 1, 8, 512, 128, device="cuda", dtype=torch.float16).requires_grad_()
    return lambda: attention(q, k, v, causal=True).sum().backward()


CALLS = {"add": "call_of_add", "matmul": "call_of_matmul", "attention, both ways": "call_of_attention"}


@functools.lru_cache
def measure_first(what: str, rounds: int = 3) -> dict[str, list[list[float]]]:
    """Return the seconds of each part, for rounds with an empty cache and for the process after each."""
    code = CHILD.format(name=CALLS[what])
    found = {"empty": [], "full": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for cache in found:
                environment = os.environ | {"TRITON_CACHE_DIR": folder}
                command = [sys.executable, "-c", code]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                found[cache].append(json.loads(done.stdout.splitlines()[-1]))
    return found


PARTS = {"import torch": 0, "import the kernel": 1, "first call": 2, "second call": 3}


@triton.testing.perf_report([
    triton.testing.Benchmark(
        plot_name=name,
        x_names=["part"],
        x_vals=list(PARTS),
        xlabel="what a new process does",
        ylabel="ms",
        line_arg="cache",
        line_vals=["empty", "full"],
        line_names=["nothing on disk", "all on disk"],
        args={"what": what},
    )
    for name, what in {"first_add": "add", "first_matmul": "matmul", "first_attention": "attention, both ways"}.items()
])  # fmt: skip
def first(part, cache, what):
    """Milliseconds of each part in a new process: median, fastest and slowest of 3 processes.

    Importing torch includes its first use of the GPU.
    """
    times = [1000 * each[PARTS[part]] for each in measure_first(what)[cache]]
    return statistics.median(times), min(times), max(times)


# --8<-- [start:rows]
@triton.jit
def copy_rows_kernel(x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    for first in range(0, columns, BLOCK):
        i = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns)
        tl.store(out_ptr + row + i, x, mask=i < columns)


@triton.jit(do_not_specialize=["columns", "stride"])
def copy_any_rows_kernel(
    x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * stride
    for first in range(0, columns, BLOCK):
        i = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns)
        tl.store(out_ptr + row + i, x, mask=i < columns)


@triton.jit(do_not_specialize=["columns8", "stride8"])
def copy_rows_of_eights_kernel(
    x_ptr, out_ptr, columns8, stride8, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * stride8 * 8
    for first in range(0, columns8 * 8, BLOCK):
        i = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < columns8 * 8)
        tl.store(out_ptr + row + i, x, mask=i < columns8 * 8)
# --8<-- [end:rows]


def copy_rows(kernel, x, out):
    unit = 8 if kernel is copy_rows_of_eights_kernel else 1
    kernel[(len(x),)](x, out, x.shape[1] // unit, x.stride(0) // unit, BLOCK=1024)


KERNELS = {
    "specialized": copy_rows_kernel,
    "not specialized": copy_any_rows_kernel,
    "not specialized, in units of 8": copy_rows_of_eights_kernel,
}


@functools.lru_cache
def measure_price(columns: int):
    def make():
        x = torch.randn(2**25 // columns, columns, device="cuda", dtype=torch.bfloat16)
        return x, torch.empty_like(x)

    x, out = make()
    for kernel in KERNELS.values():
        copy_rows(kernel, x, out)
        assert torch.equal(x, out)
        out.zero_()
    sides = {name: functools.partial(copy_rows, kernel) for name, kernel in KERNELS.items()}
    sides["torch"] = lambda x, out: out.copy_(x)
    return compare_in_rotation(sides, make)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="price",
        x_names=["columns"],
        x_vals=[1024, 4096, 4088],
        xlabel="columns",
        ylabel="GB/s",
        line_arg="side",
        line_vals=[*KERNELS, "torch"],
        line_names=[*KERNELS, "a copy"],
        args={},
    )
)
def price(columns, side):
    """GB/s of copying rows in bfloat16, 64 MiB: median, slowest and fastest of 10 rounds, operands in rotation."""
    return measure_price(columns)[side].rate(4 * (2**25 // columns) * columns)


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (first, price):
        for benchmark in mark.benchmarks if isinstance(mark.benchmarks, list) else [mark.benchmarks]:
            print(f"{benchmark.plot_name}.run(print_data=True)  # {mark.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
