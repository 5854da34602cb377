# SPDX-License-Identifier: Apache-2.0
"""Waits that never end, or end too early: an mbarrier with a wrong number of bytes, of arrivals, or a wrong phase.

Each case runs in a process of its own, which is ended when it hangs. Three ways to see where it waits: the kernel
writes down how far it has come, into memory of the host, which can be read while the kernel still runs; Python says
which line of the host waits for the GPU; and Triton's ConSan follows every mbarrier and stops the kernel.

Shapes: x and out are (M, N), float32; each program copies a strip of its own, one tile after another.
Sources: ``mbarrier`` in NVIDIA's PTX ISA; ConSan in Triton's ``TritonInstrument.md``.

Run it on a Hopper GPU with ``python tma_bug.py``, or one case with ``python tma_bug.py "twice the bytes"``.
"""

import faulthandler
import os
import re
import subprocess
import sys
import time

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from snippets.below.tma import descriptors

TILE, LAPS, PROGRAMS = (32, 64), 4, 8
BYTES = 32 * 64 * 4
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


# --8<-- [start:run]
def run(name: str) -> str:
    """Launch a case and return what became of it; if it hangs, the process cannot use the GPU any more."""
    x = torch.arange(1.0, 1 + LAPS * PROGRAMS * BYTES // 4, device="cuda").view(-1, 64)
    out = torch.zeros_like(x)
    progress = torch.zeros(PROGRAMS, dtype=torch.int32, pin_memory=True)
    options = {"COUNT": 1, "EXPECTED": BYTES, "PHASE": 0, "FLIP": 1} | CASES[name]
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))  # ConSan keeps notes
    strip_kernel[(PROGRAMS,)](
        *descriptors(x, out, tile=TILE), progress, LAPS=LAPS, **options, num_warps=1
    )  # fmt: skip
    done = torch.cuda.Event()
    done.record()
    until = time.monotonic() + PATIENCE
    while not done.query():
        if time.monotonic() > until:
            return f"hangs; {where(progress.tolist())}"
        time.sleep(0.01)
    wrong = int((out != x).sum())
    return "ends, and the copy is right" if not wrong else f"ends, and {wrong / x.numel():.0%} of the copy is wrong"
# --8<-- [end:run]


def where(progress: list[int]) -> str:
    """Say in words how far the programs have come.

    >>> where([1, 1, 4])
    '2 programs wait in lap 0, 1 program is past the wait of lap 1'
    """
    said = []
    for each in sorted(set(progress)):
        count = progress.count(each)
        lap, past = divmod(each - 1, 2)
        who = f"{count} program{'s' if count > 1 else ''}"
        verb = ("are" if count > 1 else "is") + " past the wait of" if past else "wait in" if count > 1 else "waits in"
        said.append(f"{who} {verb} lap {lap}" if each else f"{who} have not begun to wait")
    return ", ".join(said)


# --8<-- [start:apart]
def apart(name: str, **environment: str) -> tuple[str, str]:
    """Run a case in a process of its own; return what it printed, and what came to stderr."""
    command = [sys.executable, "-m", "snippets.below.tma_bug", name]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )  # fmt: skip
    try:
        return tuple(text.strip() for text in process.communicate(timeout=60))
    except subprocess.TimeoutExpired:
        process.kill()
        return tuple(text.strip() for text in process.communicate())
# --8<-- [end:apart]


def consan(name: str) -> str:
    """Return what ConSan says of a case."""
    said, errors = apart(name, TRITON_INSTRUMENTATION_MODE="consan")
    found = re.search(r"Assertion `(.+?)` failed", errors)
    return found.group(1) if found else said or errors.splitlines()[-1]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU or a newer one")
    if len(sys.argv) > 1:
        faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
        print(run(sys.argv[1]), flush=True)
        os._exit(0)  # without the end of a process that Python knows, which would wait for the kernel
    print("## alone")
    for name in CASES:
        print(f"{name}: {apart(name)[0]}")
    print("## ConSan")
    for name in CASES:
        print(f"{name}: {consan(name)}")


if __name__ == "__main__":
    main()
