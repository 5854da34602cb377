# SPDX-License-Identifier: Apache-2.0
"""From a slow step of a model to the kernel that is slow, to the reason, to the fix, with three profilers.

The step normalizes rows, turns the matrix, and multiplies it. torch.profiler says which kernel takes the time; Proton,
which comes with Triton, says it by the scopes that one named, with the bytes that a kernel says it moves; ncu asks the
hardware why. The fix turns the matrix by tiles.

Shapes: ``x`` ``(rows, columns)``, ``weight`` ``(rows, n)``; the result is ``rms_norm(x).T @ weight``.
Run it on an NVIDIA GPU with ``python find_time.py``, with ``ncu`` on the path.
Source: Triton, *Proton*; NVIDIA, *Nsight Compute*, on the metrics of ``l1tex``.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl
import triton.profiler as proton
from torch import Tensor

from snippets.gpu.counters import counters
from snippets.pytorch.compile import plain as rms_norm

SIDE = 4096


def bytes_of(grid, metadata, arguments):
    """Say for Proton what a launch of the two kernels moves."""
    x = arguments["x_ptr"]
    return {"name": metadata.name, "bytes": 2 * x.numel() * x.element_size()}


# --8<-- [start:slow]
@triton.jit(launch_metadata=bytes_of)
def turn_row_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask)
    tl.store(out_ptr + column.to(tl.int64) * rows + row, x, mask=mask)
# --8<-- [end:slow]


# --8<-- [start:fast]
@triton.jit(launch_metadata=bytes_of)
def turn_tile_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(axis=1).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (row < rows)[:, None] & (column < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column, mask=mask)
    turned = out_ptr + column[:, None] * rows + row
    tl.store(turned, x.trans(1, 0), mask=mask.trans(1, 0))
# --8<-- [end:fast]


def turn_by_rows(x: Tensor) -> Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns, rows)
    turn_row_kernel[(rows,)](x, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
    return out


def turn_by_tiles(x: Tensor) -> Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns, rows)
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
    turn_tile_kernel[grid](x, out, rows, columns, TILE=64)
    return out


TURNS = {"by rows": turn_by_rows, "by tiles": turn_by_tiles}


# --8<-- [start:step]
def step(x: Tensor, scale: Tensor, weight: Tensor, turn=turn_by_rows) -> Tensor:
    with proton.scope("normalize"):
        normal = rms_norm(x, scale)
    with proton.scope("turn"):
        turned = turn(normal)
    with proton.scope("multiply"):
        return turned @ weight
# --8<-- [end:step]


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator("cuda").manual_seed(0)
    options = {"device": "cuda", "dtype": torch.bfloat16, "generator": made}
    return torch.randn(SIDE, SIDE, **options), torch.rand(SIDE, **options), torch.randn(SIDE, SIDE, **options)


# --8<-- [start:profiler]
def by_profiler(run) -> dict[str, float]:
    """Return the microseconds of each kernel in ten calls, by its name."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _ in range(10):
            run()
        torch.cuda.synchronize()
    events = profile.key_averages()
    return {e.key: e.self_device_time_total for e in events if e.self_device_time_total}
# --8<-- [end:profiler]


# --8<-- [start:proton]
def by_proton(run, folder: str) -> dict:
    """Return the tree of scopes and kernels of ten calls, as Proton wrote it."""
    path = Path(folder) / "step"
    proton.start(str(path), hook="triton")
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    proton.finalize()
    return json.loads(path.with_suffix(".hatchet").read_text())[0]
# --8<-- [end:proton]


def write_tree(node: dict, depth: int = 0) -> None:
    """Print a node of Proton's tree and what is below it, with milliseconds and, where it knows bytes, GB/s."""
    metrics, below = node["metrics"], node["children"]
    time, moved = total(node, "time (ns)"), metrics.get("bytes", 0)
    rate = f", {moved / time:,.0f} GB/s" if moved and time else ""
    name = node["frame"]["name"].split("<")[0][:40]
    print(f"{'    ' * depth}{name}: {time / 10e6:.3f} ms{rate}")
    for child in below:
        write_tree(child, depth + 1)


def total(node: dict, metric: str) -> float:
    """Return the sum of a metric over a node and all below it.

    >>> total({"metrics": {"a": 1}, "children": [{"metrics": {"a": 2}, "children": []}]}, "a")
    3
    """
    return node["metrics"].get(metric, 0) + sum(total(child, metric) for child in node["children"])


# --8<-- [start:metrics]
METRICS = {
    "microseconds": "gpu__time_duration.sum",
    "bytes from memory": "dram__bytes_read.sum",
    "bytes to memory": "dram__bytes_write.sum",
    "sectors loaded": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sectors stored": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
}
# --8<-- [end:metrics]


def by_counters() -> dict[str, dict[str, float]]:
    """Return what the hardware counted in each way to turn a matrix, with empty caches."""
    launches = counters(list(METRICS.values()), __file__, "turn", cache="all")
    return {
        name: {what: launch[metric] for what, metric in METRICS.items()}
        for name, launch in zip(TURNS, launches, strict=True)
    }


def turn_each() -> None:
    """Do what ``ncu`` watches: turn a matrix in each way, once."""
    x, *_ = inputs()
    for turn in TURNS.values():
        turn(x)
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            turn(x)
            torch.cuda.synchronize()


def milliseconds(run) -> float:
    return statistics.median(triton.testing.do_bench(run, return_mode="all"))


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; profilers watch one")
    if sys.argv[1:] == ["turn"]:
        return turn_each()
    given = inputs()
    if sys.argv[1:] == ["proton"]:
        step(*given)  # compiled before it is watched
        with tempfile.TemporaryDirectory() as folder:
            return write_tree(by_proton(lambda: step(*given), folder))
    wanted = (rms_norm(*given[:2]).t() @ given[2]).float()
    for name, turn in TURNS.items():
        assert torch.allclose(step(*given, turn).float(), wanted, rtol=1e-2, atol=1.0), name
    print("## torch.profiler")
    found = by_profiler(lambda: step(*given))
    for name, us in sorted(found.items(), key=lambda each: -each[1]):
        print(f"{us / 10:7.1f} us  {us / sum(found.values()):4.0%}  {name[:50]}")
    print("## Proton", flush=True)
    subprocess.run([sys.executable, __file__, "proton"], check=True)  # a process has room for one profiler
    try:
        proton.start("step")
    except RuntimeError as error:
        print("in the same process:", error)
    print("## ncu")
    for name, counted in by_counters().items():
        print(f"{name}, microseconds: {counted['microseconds'] / 1000:.1f}")
        for way in ("load", "store"):
            each = counted[f"sectors {way}{'ed' if way == 'load' else 'd'}"] / counted[f"{way} requests"]
            print(f"{name}, sectors a {way}: {each:.1f}")
        for way in ("from", "to"):
            print(f"{name}, MB {way} memory: {counted[f'bytes {way} memory'] / 1e6:.0f}")
    print("## The step")
    for name, turn in TURNS.items():
        print(f"{name}, ms: {milliseconds(lambda turn=turn: step(*given, turn)):.3f}")
        print(f"{name}, the turn alone, ms: {milliseconds(lambda turn=turn: turn(given[0])):.3f}")
    print(f"torch's t().contiguous(), ms: {milliseconds(lambda: given[0].t().contiguous()):.3f}")


if __name__ == "__main__":
    main()
