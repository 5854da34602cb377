# SPDX-License-Identifier: Apache-2.0
"""Waits that never end, or end too early: an mbarrier with a wrong number of bytes, of arrivals, or a wrong phase.

Each case runs in a process of its own, which is ended when it hangs. Three ways to see where it waits: the kernel
writes down how far it has come, into memory of the host, which can be read while the kernel still runs; Python says
which line of the host waits for the GPU; and Triton's ConSan follows every mbarrier and stops the kernel.

Shapes: x and out are (M, N), float32; each program copies a strip of its own, one tile after another.
Sources: ``mbarrier`` in NVIDIA's PTX ISA; ConSan in Triton's ``TritonInstrument.md``.

Run it on a Hopper GPU with ``python tma_bug.py``, or one case with ``python tma_bug.py run "twice the bytes"``.
"""

import faulthandler
import linecache
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from snippets.below.tma import descriptors

TILE, LAPS, PROGRAMS = (32, 64), 4, 8
BYTES = TILE[0] * TILE[1] * 4
NUMBERS = PROGRAMS * LAPS * TILE[0] * TILE[1]
PATIENCE = 3.0  # seconds after which a kernel of microseconds hangs
CASES = {
    "as it should be": {},
    "twice the bytes": {"EXPECTED": 2 * BYTES},
    "half of the bytes": {"EXPECTED": BYTES // 2},
    "16 bytes too few": {"EXPECTED": BYTES - 16},
    "two arrivals": {"COUNT": 2},
    "the first phase is 1": {"PHASE": 1},
    "the phase stays 0": {"FLIP": 0},
}


# --8<-- [start:kernel]
@gluon.jit
def strip_kernel(
    x, out, progress_ptr, LAPS: gl.constexpr, COUNT: gl.constexpr,
    EXPECTED: gl.constexpr, PHASE: gl.constexpr, FLIP: gl.constexpr,
):  # fmt: skip
    rows: gl.constexpr = x.block_type.shape[0]
    columns: gl.constexpr = x.block_type.shape[1]
    progress_ptr += gl.program_id(0)
    tile = gl.allocate_shared_memory(x.dtype, [rows, columns], x.layout)
    arrived = mbarrier.allocate_mbarrier()
    mbarrier.init(arrived, count=COUNT)
    fence_async_shared()
    phase = gl.to_tensor(PHASE)
    for lap in range(LAPS):
        row = (gl.program_id(0) * LAPS + lap) * rows
        mbarrier.expect(arrived, EXPECTED)
        tma.async_load(x, [row, 0], arrived, tile)
        gl.store(progress_ptr, 2 * lap + 1)  # it waits in this lap
        mbarrier.wait(arrived, phase)
        gl.store(progress_ptr, 2 * lap + 2)  # and is past the wait
        tma.async_store(out, [row, 0], tile)
        tma.store_wait(pendings=0)
        phase ^= FLIP
# --8<-- [end:kernel]


# --8<-- [start:launch]
def launch(name: str):
    """Return what is copied, the copy, and how far the programs are."""
    # ConSan keeps its notes in memory that Triton asks us for.
    triton.set_allocator(
        lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda")
    )  # fmt: skip
    x = torch.arange(1.0, 1 + NUMBERS, device="cuda").view(-1, TILE[1])
    out = torch.zeros_like(x)
    progress = torch.zeros(PROGRAMS, dtype=torch.int32, pin_memory=True)
    options = {"COUNT": 1, "EXPECTED": BYTES, "PHASE": 0, "FLIP": 1}
    strip_kernel[(PROGRAMS,)](
        *descriptors(x, out, tile=TILE), progress, LAPS=LAPS, num_warps=1,
        **options | CASES[name],
    )  # fmt: skip
    return x, out, progress
# --8<-- [end:launch]


# --8<-- [start:run]
def run(name: str) -> str:
    """Launch a case and return what became of it; if it hangs, this process cannot use the GPU any more."""
    x, out, progress = launch(name)
    done = torch.cuda.Event()
    done.record()
    until = time.monotonic() + PATIENCE
    while not done.query():
        if time.monotonic() > until:
            return f"hangs; {where(progress.tolist())}"
        time.sleep(0.01)
    return "ends, right" if torch.equal(out, x) else "ends, wrong"
# --8<-- [end:run]


def where(progress: list[int]) -> str:
    """Say in words how far the programs have come.

    >>> where([1, 1, 4])
    '2 programs wait in lap 0, 1 is past the wait of lap 1'
    """
    said = []
    for each in sorted(set(progress)):
        count = progress.count(each)
        lap, past = divmod(each - 1, 2)
        one, more = ("is past the wait of", "are past that of") if past else ("waits in", "wait in")
        verb = one if count == 1 else more
        said.append(f"{count}{'' if said else ' programs' if count > 1 else ' program'} {verb} lap {lap}")
    return ", ".join(said)


def wait_for_it(name: str) -> None:
    """Wait for a case as programs usually do; after a while, Python says on which line it stands."""
    launch(name)
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    torch.cuda.synchronize()


# --8<-- [start:apart]
def apart(name: str, how: str = "run", **environment: str) -> tuple[str, str]:
    """Run a case in a process of its own, ended if need be; return what it printed, and what came to stderr."""
    command = [sys.executable, "-m", "snippets.below.tma_bug", how, name]
    process = subprocess.Popen(
        command, env=os.environ | environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()
    return said[0].strip(), said[1].strip()
# --8<-- [end:apart]


def alone(name: str) -> str:
    """Say what becomes of a case."""
    said, errors = apart(name)
    failed = re.search(r"CUDA error: .+", errors)
    return said or (f"fails; {failed[0]}" if failed else errors.splitlines()[-1])


def consan(name: str) -> str:
    """Say what ConSan says of a case."""
    said, errors = apart(name, TRITON_INSTRUMENTATION_MODE="consan")
    found = re.search(r"tma_bug\.py:(\d+): .*Assertion `(.+?)` failed", errors)
    return f"{found[2]}, in {line(found[1])}" if found else said or errors.splitlines()[-1]


def on_the_host(name: str) -> str:
    """Return the line of this file on which Python stands while a case hangs."""
    _, errors = apart(name, "wait_for_it")
    return line(re.search(r'tma_bug\.py", line (\d+)', errors)[1])


def line(number: str) -> str:
    return f"line {number}: {linecache.getline(__file__, int(number)).strip()}"


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU or a newer one")
    if len(sys.argv) > 2:
        print({"run": run, "wait_for_it": wait_for_it}[sys.argv[1]](sys.argv[2]), flush=True)
        os._exit(0)  # without the end of a process that Python knows, which would wait for the kernel
    with ThreadPoolExecutor() as pool:  # all at once: most of the time, they wait
        found = {how: pool.map(how, CASES) for how in (alone, consan)}
        host = pool.submit(on_the_host, "twice the bytes")
        for how, title in ((alone, "what becomes of it"), (consan, "what ConSan says")):
            print(f"## {title}")
            for name, said in zip(CASES, found[how], strict=True):
                print(f"{name}: {said}")
    print(f"## on the host\n{host.result()}")


if __name__ == "__main__":
    main()
