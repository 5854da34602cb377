# SPDX-License-Identifier: Apache-2.0
"""Six kernels with a bug that a first test doesn't find, and which tool finds each. Do not copy from here.

A kernel named ``…_bug`` has a bug; the one behind it does the same without. Each pair runs under each of ``TOOLS``, in
processes of their own, since some tools end a process at the first thing they find. ``find_bug.py TOOL CASE`` is one
of these runs: it prints ``right`` or ``wrong: …``.

Run it with ``python find_bug.py``, on an NVIDIA GPU under Triton 3.9 or newer, with compute-sanitizer on the path.
Source: NVIDIA, *Compute Sanitizer*; Triton's GSan and FpSan.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
MARK = 12345.0  # what guard zones hold


# --8<-- [start:bounds]
@triton.jit
def double_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(i < n, "an element that isn't there")
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i))


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=mask), mask=mask)
# --8<-- [end:bounds]


# --8<-- [start:programs]
@triton.jit
def count_bug(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    positive = tl.load(x_ptr + i, mask=i < n, other=0) > 0
    count = tl.load(count_ptr)
    tl.store(count_ptr, count + tl.sum(positive.to(tl.int32)))


@triton.jit
def count(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    positive = tl.load(x_ptr + i, mask=i < n, other=0) > 0
    tl.atomic_add(count_ptr, tl.sum(positive.to(tl.int32)))
# --8<-- [end:programs]


# --8<-- [start:threads]
@triton.jit
def turn_bug(x_ptr, scratch_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, tl.load(x_ptr + i))
    tl.store(out_ptr + i, tl.load(scratch_ptr + N - 1 - i))


@triton.jit
def turn(x_ptr, scratch_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, tl.load(x_ptr + i))
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(scratch_ptr + N - 1 - i))
# --8<-- [end:threads]


# --8<-- [start:nan]
@triton.jit
def softmax_bug(x_ptr, lengths_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    seen = i < tl.load(lengths_ptr + row)
    x = tl.load(x_ptr + row * columns + i, mask=seen, other=float("-inf"))
    weight = tl.exp(x - tl.max(x))
    out = weight / tl.sum(weight)
    tl.device_assert(out == out, "not a number")
    tl.store(out_ptr + row * columns + i, out, mask=i < columns)


@triton.jit
def softmax(x_ptr, lengths_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    seen = i < tl.load(lengths_ptr + row)
    x = tl.load(x_ptr + row * columns + i, mask=seen, other=float("-inf"))
    weight = tl.where(seen, tl.exp(x - tl.max(x)), 0)
    out = weight / tl.maximum(tl.sum(weight), 1e-30)
    tl.store(out_ptr + row * columns + i, out, mask=i < columns)
# --8<-- [end:nan]


# --8<-- [start:precision]
@triton.jit
def mean_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float16)
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr, tl.sum(total.to(tl.float32)) / n)


@triton.jit
def mean(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr, tl.sum(total) / n)
# --8<-- [end:precision]


# --8<-- [start:formula]
@triton.jit
def gelu_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * tl.sigmoid(1.702 * x), mask=i < n)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    inner = 1.5957691216 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + i, x * tl.sigmoid(inner), mask=i < n)
# --8<-- [end:formula]


# --8<-- [start:memory]
class Memory:
    """Tensors with guard zones before and behind them, or, under tools that watch memory themselves, without."""

    def __init__(self, guard: int):
        self.guard, self.buffers = guard, []

    def keep(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy of the values in memory of its own."""
        buffer = torch.full((values.numel() + 2 * self.guard,), MARK, dtype=torch.float64)
        buffer = buffer.to(values.dtype).to(DEVICE)
        self.buffers.append(buffer)
        inside = buffer[self.guard : self.guard + values.numel()].view(values.shape)
        return inside.copy_(values)

    def room(self, n: int) -> torch.Tensor:
        """Return memory for n float32, in which nothing was written yet."""
        return self.keep(torch.zeros(n)) if self.guard else torch.empty(n, device=DEVICE)

    def broken(self) -> bool:
        """Return whether a guard zone was written to."""
        zones = [zone for b in self.buffers if self.guard for zone in (b[: self.guard], b[-self.guard :])]
        return any((zone != zone.new_tensor(MARK)).any().item() for zone in zones)
# --8<-- [end:memory]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


# --8<-- [start:cases]
def run_double(kernel, memory, awkward):
    n = 1000 if awkward else 1024
    x, out = memory.keep(random(n)), memory.room(n)
    kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
    return out, 2 * x


def run_count(kernel, memory, awkward):
    n = 100_000 if awkward else 100
    x, out = memory.keep(random(n)), memory.keep(torch.zeros(1, dtype=torch.int32))
    kernel[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)
    return out, (x > 0).sum(dtype=torch.int32)[None]


def run_turn(kernel, memory, awkward):
    n = 8192 if awkward else 32
    x, scratch, out = memory.keep(random(n)), memory.room(n), memory.room(n)
    kernel[(1,)](x, scratch, out, N=n, num_warps=16 if awkward else 1)
    return out, x.flip(0)


def run_softmax(kernel, memory, awkward):
    lengths = torch.tensor([0, 1, 40] if awkward else [64, 64, 64], dtype=torch.int32)
    x, out = memory.keep(random(3, 64)), memory.keep(torch.zeros(3, 64))
    kernel[(3,)](x, memory.keep(lengths), out, 64, BLOCK=64)
    seen = torch.arange(64) < lengths[:, None]
    want = torch.where(seen, x.cpu(), float("-inf")).softmax(1).nan_to_num()
    return out, want.to(DEVICE)


def run_mean(kernel, memory, awkward):
    n = 2**20 if awkward else 512
    x, out = memory.keep(1 + 0.1 * random(n).half()), memory.keep(torch.zeros(1))
    kernel[(1,)](x, out, n, BLOCK=128)
    return out, x.double().mean().float()[None]


def run_gelu(kernel, memory, awkward):
    n = 1000 if awkward else 1024
    x, out = memory.keep(random(n)), memory.room(n)
    kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
    return out, torch.nn.functional.gelu(x, approximate="tanh")


class Case(NamedTuple):
    bug: object
    right: object
    run: Callable
    tolerance: float


CASES = {
    "a missing mask": Case(double_bug, double, run_double, 0),
    "programs that race": Case(count_bug, count, run_count, 0),
    "a missing barrier": Case(turn_bug, turn, run_turn, 0),
    "a row of nothing": Case(softmax_bug, softmax, run_softmax, 1e-5),
    "a sum in float16": Case(mean_bug, mean, run_mean, 2e-2),
    "a formula, nearly right": Case(gelu_bug, gelu, run_gelu, 3e-2),
}
# --8<-- [end:cases]

SANITIZER = ["compute-sanitizer", "--error-exitcode=9"]


# --8<-- [start:tools]
@dataclass(frozen=True)
class Tool:
    awkward: bool  # sizes that no block fits, empty rows, long sums
    guards: bool = False  # zones around each tensor
    compares: bool = False  # whether it looks at the result
    before: tuple[str, ...] = ()  # what the command begins with
    module: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)  # environment variables


UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
FPSAN = {"TRITON_INSTRUMENTATION_MODE": "fpsan", "TRITON_FPSAN_HOMOMORPHIC_CASTS": "1"}
TOOLS = {
    "test": Tool(awkward=False, compares=True),
    "awkward": Tool(awkward=True, compares=True),
    "guards": Tool(awkward=True, guards=True, compares=True),
    "interpreter": Tool(awkward=True, guards=True, compares=True, settings={"TRITON_INTERPRET": "1"}),
    "assert": Tool(awkward=True, settings={"TRITON_DEBUG": "1"}),
    "memcheck": Tool(awkward=True, before=(*SANITIZER, "--tool=memcheck"), settings=UNCACHED),
    "racecheck": Tool(awkward=True, before=(*SANITIZER, "--tool=racecheck")),
    "initcheck": Tool(awkward=True, before=(*SANITIZER, "--tool=initcheck"), settings=UNCACHED),
    "GSan": Tool(awkward=True, module=("-m", "triton.tools.gsan")),
    "FpSan": Tool(awkward=False, settings=FPSAN),
}
# --8<-- [end:tools]


def judge(tool: str, name: str, version: str) -> str:
    """Return ``right``, or what is wrong, of one version of a case, in this process."""
    case, setting = CASES[name], TOOLS[tool]
    kernel = getattr(case, version)
    memory = Memory(guard=64 if setting.guards else 0)
    out, want = case.run(kernel, memory, setting.awkward)
    if tool == "FpSan":  # its numbers are no results, so they are compared with another kernel's, bit for bit
        want, _ = case.run(case.right, Memory(0), setting.awkward)
        return "right" if torch.equal(out.view(torch.int32), want.view(torch.int32)) else "wrong: another formula"
    if not setting.compares:
        return "right"
    if memory.broken():
        return "wrong: a guard zone was written to"
    if torch.isnan(out).any() > torch.isnan(want).any():
        return "wrong: NaN"
    far = (out.double() - want.double()).abs().max().item()
    return f"wrong: off by {far:.2g}" if far > case.tolerance else "right"


def run(tool: str, name: str, version: str) -> subprocess.CompletedProcess:
    setting = TOOLS[tool]
    command = [*setting.before, sys.executable, *setting.module, __file__, tool, name, version]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | setting.settings
    return subprocess.run(command, capture_output=True, text=True, env=environment)


SAID = (  # what tools write, the surest first
    r"Invalid __\w+__ \w+ of size \d+ bytes",
    r"Uninitialized __global__ memory read of size \d+ bytes",
    r"(?:Error|Warning): Race reported.*",
    r"Assertion `.*?` failed",
    r"\w+Error: .*",
)


def verdict(done: subprocess.CompletedProcess) -> str:
    """Return what a run came to: ``right``, or the words of what noticed something first.

    >>> verdict(subprocess.CompletedProcess([], 0, "wrong: NaN\\n", ""))
    'wrong: NaN'
    >>> verdict(subprocess.CompletedProcess([], 9, "right\\n========= Invalid __global__ read of size 4 bytes\\n", ""))
    'Invalid __global__ read of size 4 bytes'
    """
    text = done.stdout + done.stderr
    for pattern in SAID:
        if found := re.search(pattern, text):
            return found[0]
    if found := re.search(r"^(right|wrong.*)$", text, re.M):
        return found[1]
    return f"failed with {done.returncode}: {(text.strip().splitlines() or ['no message'])[-1]}"


def main():
    if len(sys.argv) > 1:
        print(judge(*sys.argv[1:]))
        return
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; most of the tools take one")
    if not shutil.which("compute-sanitizer"):
        raise SystemExit("compute-sanitizer is not on the path; it comes with CUDA")
    jobs = [(tool, name, version) for version in ("bug", "right") for name in CASES for tool in TOOLS]
    with ThreadPoolExecutor(max_workers=12) as pool:
        found = dict(zip(jobs, (verdict(done) for done in pool.map(lambda job: run(*job), jobs)), strict=True))
    print("  ".join(["kernel", *TOOLS]))
    for name in CASES:
        print("  ".join([name, *("-" if found[tool, name, "bug"] == "right" else "CAUGHT" for tool in TOOLS)]))
    print("## What each says")
    for name in CASES:
        for tool in TOOLS:
            if found[tool, name, "bug"] != "right":
                print(f"{name}, {tool}: {found[tool, name, 'bug']}")
    print("## Of the kernels without a bug")
    false = {job: said for job, said in found.items() if job[2] == "right" and said != "right"}
    print("runs:", sum(version == "right" for *_, version in jobs))
    print("reports:", len(false))
    for (tool, name, _), said in false.items():
        print(f"{name}, {tool}: {said}")


if __name__ == "__main__":
    main()
