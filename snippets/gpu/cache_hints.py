# SPDX-License-Identifier: Apache-2.0
"""Hints to the caches: ``cache_modifier`` and ``eviction_policy`` of loads and stores, and whether they are any use.

- :func:`copy`: a copy, each element used once; nothing is worth keeping
- :func:`add_table`: adds a table to every row of a tensor, as one adds the embeddings of positions to a batch. Rows
  are used once and pass by; the table is worth keeping.

``out[r, i] = x[r, i] + table[i]``

Shapes: ``x`` and the result ``(rows, columns)``, ``table`` ``(columns,)``, float32.
Traffic that counts as useful: x read and the result written.
Source: NVIDIA's PTX ISA, on cache operators and on cache eviction priority hints; Triton's ``tl.load``.

Run it on a GPU with ``python cache_hints.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import ctypes
import functools
import re
import statistics
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from snippets.gpu.counters import counters
from snippets.tools.benchmarking import Timing, compare

BLOCK = 2048
LOADS = "", ".ca", ".cg", ".cv"
STORES = "", ".wb", ".cg", ".cs", ".wt"
POLICIES = "", "evict_first", "evict_last"


# --8<-- [start:copy]
@triton.jit
def copy_kernel(
    x_ptr,
    out_ptr,
    n,
    LOAD: tl.constexpr,
    STORE: tl.constexpr,
    POLICY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK + tl.arange(
        0, BLOCK
    )
    mask = offsets < n
    x = tl.load(
        x_ptr + offsets,
        mask=mask, cache_modifier=LOAD, eviction_policy=POLICY,
    )
    tl.store(
        out_ptr + offsets, x,
        mask=mask, cache_modifier=STORE, eviction_policy=POLICY,
    )
# --8<-- [end:copy]


# --8<-- [start:table]
@triton.jit
def add_table_kernel(
    x_ptr,
    table_ptr,
    out_ptr,
    columns,
    blocks,
    STREAM: tl.constexpr,
    KEEP: tl.constexpr,
    RESULT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(axis=0)  # along a row, then along the next one
    column = pid % blocks * BLOCK + tl.arange(0, BLOCK)
    offsets = (pid // blocks).to(tl.int64) * columns + column
    mask = column < columns
    x = tl.load(x_ptr + offsets, mask=mask, eviction_policy=STREAM)
    table = tl.load(table_ptr + column, mask=mask, eviction_policy=KEEP)
    tl.store(
        out_ptr + offsets, x + table, mask=mask, eviction_policy=RESULT
    )
# --8<-- [end:table]


def copy(x: torch.Tensor, *, load: str = "", store: str = "", policy: str = "") -> torch.Tensor:
    """Return a copy of ``x``.

    Args:
        x: float32, contiguous, one dimension; on a GPU, or in the interpreter on the CPU.
        load, store: One of ``LOADS`` and of ``STORES``: the cache modifier of the load and of the store.
        policy: One of ``POLICIES``: the eviction policy of both. Not together with a modifier.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> copy(torch.arange(3.0), load=".cg")
    tensor([0., 1., 2.])
    """
    check_tensor("x", x, 1)
    check_one_of(load=(load, LOADS), store=(store, STORES), policy=(policy, POLICIES))
    if policy and (load or store):
        raise ValueError(f"a modifier and a policy exclude each other; got {load!r}, {store!r} and {policy!r}")
    if triton.cdiv(len(x), BLOCK) >= 2**31:  # CUDA's limit for programs along one axis
        raise ValueError(f"x is too large: {len(x)} elements")
    out = torch.empty_like(x)
    if len(x):
        options = {"LOAD": load, "STORE": store, "POLICY": policy, "BLOCK": BLOCK}
        with torch.cuda.device_of(x):
            copy_kernel[(triton.cdiv(len(x), BLOCK),)](x, out, len(x), **options)
    return out


def add_table(
    x: torch.Tensor, table: torch.Tensor, *, stream: str = "", keep: str = "", result: str = ""
) -> torch.Tensor:
    """Return ``x + table``.

    Args:
        x: ``(rows, columns)`` float32, contiguous, on a GPU, or interpreted on the CPU; fewer than 2**30 columns.
        table: ``(columns,)``, otherwise like ``x``.
        stream, keep, result: The eviction policies of x, of the table and of the result, each one of ``POLICIES``.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> add_table(torch.zeros(2, 3), torch.arange(3.0), keep="evict_last").tolist()
    [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    """
    check_tensor("x", x, 2), check_tensor("table", table, 1)
    check_one_of(stream=(stream, POLICIES), keep=(keep, POLICIES), result=(result, POLICIES))
    rows, columns = x.shape
    if len(table) != columns or table.device != x.device or columns >= 2**30:
        raise ValueError(
            f"table must have as many elements as x has columns, less than 2**30, and be on {x.device}; "
            f"got {len(table)} on {table.device} for {columns} columns"
        )
    out = torch.empty_like(x)
    if out.numel():
        blocks = triton.cdiv(columns, BLOCK)  # in a row
        if rows * blocks >= 2**31:  # CUDA's limit for programs along one axis
            raise ValueError(f"x is too large: {rows} rows of {columns}")
        options = {"STREAM": stream, "KEEP": keep, "RESULT": result, "BLOCK": BLOCK}
        with torch.cuda.device_of(x):
            add_table_kernel[(rows * blocks,)](x, table, out, columns, blocks, **options)
    return out


def check_tensor(name: str, x: torch.Tensor, dimensions: int) -> None:
    """Raise ``ValueError`` for a tensor that the kernels would read wrongly or not at all."""
    interpreted = not isinstance(copy_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):
        where = "the CPU, interpreted" if interpreted else "a GPU"
        raise ValueError(f"{name} is on {x.device}; kernels run on {where}")
    if x.dtype != torch.float32 or x.ndim != dimensions or not x.is_contiguous() or x.requires_grad or x.is_neg():
        raise ValueError(
            f"{name} must be contiguous float32 without a gradient, of {dimensions} dimensions; got {x.dtype}, "
            f"shape {tuple(x.shape)}, strides {x.stride()}, requires_grad {x.requires_grad}, negated {x.is_neg()}"
        )


def check_one_of(**choices: tuple[str, tuple[str, ...]]) -> None:
    for name, (given, allowed) in choices.items():
        if given not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {given!r}")


COPIES = {  # load, store, policy
    "none": ("", "", ""),
    "load .ca": (".ca", "", ""),
    "load .cg": (".cg", "", ""),
    "load .cv": (".cv", "", ""),
    "store .cg": ("", ".cg", ""),
    "store .cs": ("", ".cs", ""),
    "store .wt": ("", ".wt", ""),
    "evict_first": ("", "", "evict_first"),
    "evict_last": ("", "", "evict_last"),
}
TABLES = {  # policies of x, of the table, of the result
    "none": ("", "", ""),
    "keep": ("", "evict_last", ""),
    "keep_result": ("", "evict_last", "evict_first"),
    "all": ("evict_first", "evict_last", "evict_first"),
}
TABLE_NAMES = ["no hint", "table evict_last", "and result evict_first", "and x evict_first"]
SIZES = 4, 8, 16, 24, 32, 48  # MiB of the table
ELEMENTS = 2**29  # of x, 2 GiB


# --8<-- [start:forget]
def forget() -> bool:
    """Take back that lines in L2 are to be thrown out last, and return
    whether the driver did it.

    Writing other data, as ``do_bench`` does to empty L2, does not throw
    them out.
    """
    torch.cuda.synchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    return getattr(driver, "cuCtxResetPersistingL2Cache", lambda: 1)() == 0


def milliseconds_from(
    before: Callable[[], object],
    run: Callable[[], object],
    *,
    calls: int = 15,
) -> float:
    """Return the median time of ``calls`` calls; before each, ``before`` is called and L2 is filled with other data."""
    # While it is filled, Python launches the run.
    other_data = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    run()  # compiles
    times = []
    for _ in range(calls):
        before()
        begin, end = (
            torch.cuda.Event(enable_timing=True) for _ in range(2)
        )
        other_data.zero_()
        # Or the run would wait while the last of the zeros go to memory.
        other_data.view(torch.int64).sum()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


forgotten = functools.partial(milliseconds_from, forget)
# --8<-- [end:forget]


def operands(size):
    """Return x and a table of ``size`` MiB."""
    columns = size * 2**18
    return torch.rand(ELEMENTS // columns, columns, device="cuda"), torch.rand(columns, device="cuda")


def sides_of(x, table):
    sides = {
        name: functools.partial(add_table, x, table, stream=stream, keep=keep, result=result)
        for name, (stream, keep, result) in TABLES.items()
    }
    return sides | {"torch": lambda: x + table}


@functools.lru_cache(maxsize=1)
def measure_tables():
    """Return timings by size and side: first those without hints, in a process that gave none, then those with."""
    found = {}
    for hinted in (False, True):
        for size in SIZES:
            sides = sides_of(*operands(size))
            sides = {name: run for name, run in sides.items() if (name not in ("none", "torch")) == hinted}
            found |= {(size, side): t for side, t in compare(sides, rounds=4, timer=forgotten).items()}
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="tables",
        x_names=["MiB"],
        x_vals=list(SIZES),
        xlabel="MiB of the table",
        ylabel="useful GB/s",
        line_arg="hints",
        line_vals=[*TABLES, "torch"],
        line_names=[*TABLE_NAMES, "torch"],
        args={},
    )
)
def tables(MiB, hints):
    """Useful bytes per second, x and result, of 2 GiB each: median, slowest and fastest of 4 rounds."""
    return measure_tables()[MiB, hints].rate(2 * 4 * ELEMENTS)


# --8<-- [start:leftover]
@functools.lru_cache(maxsize=4)
def measure_leftover(size):
    """Time the kernel without hints: before any was given, after each call with hints, and after those were taken back.
    """
    fresh = measure_tables()[size, "none"]
    sides = sides_of(*operands(size))
    after = functools.partial(milliseconds_from, sides["all"])
    taken_back = functools.partial(milliseconds_from, lambda: (sides["all"](), forget()))
    found = {"after": after, "taken_back": taken_back}
    found = {name: compare({name: sides["none"]}, rounds=3, timer=timer)[name] for name, timer in found.items()}
    return {name: timing.rate(2 * 4 * ELEMENTS) for name, timing in ({"fresh": fresh} | found).items()}
# --8<-- [end:leftover]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="leftover",
        x_names=["MiB"],
        x_vals=[8, 16, 24],
        xlabel="MiB of the table",
        ylabel="useful GB/s",
        line_arg="when",
        line_vals=["fresh", "after", "taken_back"],
        line_names=["no hint given yet", "after a kernel with hints", "after that, hints taken back"],
        args={},
    )
)
def leftover(MiB, when):
    """Useful bytes per second of the kernel without hints, by what ran before it: median, slowest and fastest."""
    return measure_leftover(MiB)[when]


@functools.lru_cache(maxsize=1)
def measure_copies(n=2**28):
    x = torch.rand(n, device="cuda")
    sides = {
        name: functools.partial(copy, x, load=load, store=store, policy=policy)
        for name, (load, store, policy) in COPIES.items()
    }
    found = {name: milliseconds_from(lambda: None, run) for name, run in sides.items() if name == "evict_last"}
    found = {"flushed": Timing((found["evict_last"],))} | compare(sides, rounds=6, timer=forgotten)
    return {side: timing.rate(2 * 4 * n) for side, timing in found.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="copies",
        x_names=["hint"],
        x_vals=[*COPIES, "flushed"],
        xlabel="hint",
        ylabel="GB/s",
        line_arg="what",
        line_vals=["rate"],
        line_names=["copy of 1 GiB"],
        args={},
    )
)
def copies(hint, what):
    """Bytes read and written per second; "flushed" is evict_last if L2 is only filled with other data between calls."""
    return measure_copies()[hint]


def run_all():
    """Run what ``ncu`` watches."""
    for size in SIZES:
        x, table = operands(size)
        for stream, keep, result in TABLES.values():
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                add_table(x, table, stream=stream, keep=keep, result=result)
                torch.cuda.synchronize()


@functools.lru_cache(maxsize=1)
def measure_counted():
    launches = counters(["dram__bytes_read.sum"], __file__, "run", cache="all")
    cases = [(size, hints) for size in SIZES for hints in TABLES]
    return {case: launch["dram__bytes_read.sum"] / ELEMENTS for case, launch in zip(cases, launches, strict=True)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="read",
        x_names=["MiB"],
        x_vals=list(SIZES),
        xlabel="MiB of the table",
        ylabel="bytes",
        line_arg="hints",
        line_vals=list(TABLES),
        line_names=TABLE_NAMES,
        args={},
    )
)
def read(MiB, hints):
    """Bytes that came from memory for each element, by the GPU's counters: 4 for x, at most 4 more for the table."""
    return measure_counted()[MiB, hints]


def instructions(ptx: str) -> list[str]:
    """Return the different loads and stores of a kernel in PTX, without their operands.

    >>> instructions("  @%p1 ld.global.cg.v4.b32 { %r1 }, [ %rd1 + 0 ];\\n  st.global.b32 [ %rd2 + 0 ], { %r1 };")
    ['ld.global.cg.v4.b32', 'st.global.b32']
    """
    return sorted(set(re.findall(r"\b(?:ld|st)\.global\S*", ptx)))


def main():
    device = "cuda" if isinstance(copy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    if sys.argv[1:] == ["run"]:
        run_all()
        return
    print("## checked")
    torch.manual_seed(0)
    x = torch.rand(3, 5000).to(device)
    flat, table = x.flatten(), x[0].contiguous()
    for name, (load, store, policy) in COPIES.items():
        made = copy(flat, load=load, store=store, policy=policy)
        print(f"copy, {name}:", "equal" if torch.equal(made, flat) else "NOT equal")
    for name, (stream, keep, result) in zip(TABLE_NAMES, TABLES.values(), strict=True):
        added = add_table(x, table, stream=stream, keep=keep, result=result)
        print(f"add_table, {name}:", "equal" if torch.equal(added, x + table) else "NOT equal")
    if device == "cuda":
        print("## compiled")
        for name, (load, store, policy) in COPIES.items():
            options = {"LOAD": load, "STORE": store, "POLICY": policy, "BLOCK": BLOCK}
            compiled = copy_kernel[(1,)](flat, made, BLOCK, **options)
            print(f"{name + ':':12}", *instructions(compiled.asm["ptx"]))
        print("## taken back")
        print("the driver takes hints back:", forget())


if __name__ == "__main__":
    main()
