# SPDX-License-Identifier: Apache-2.0
"""Two processes that run one model: one compiles while the other waits for it, both warm up, each has its own cache.

They compile for an H200 and launch nothing, so it needs no GPU; what they send each other goes through ``gloo``.

Run it with ``python ranks.py``.
Source: PyTorch, *torch.distributed*; Triton, ``runtime/cache.py``.
"""

import errno
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import triton
from torch import distributed

from snippets.pytorch.compile_once import add_one_constant_kernel
from snippets.pytorch.compile_versions import NoGPU

RANKS = 2
LENGTHS = range(1, 9)
PATIENCE = timedelta(seconds=5)


HOW = []


def listen(*, cache_hit, **about):
    HOW.append("found on disk" if cache_hit else "compiled")


def call(n: int) -> None:
    """Do all of a launch but the launch itself."""
    x = torch.zeros(n)
    add_one_constant_kernel.warmup(x, x, n, BLOCK=128, grid=(1,))


def how() -> str:
    """Return how the calls since the last question came by their kernels."""
    counts = {word: HOW.count(word) for word in ("compiled", "found on disk")}
    HOW.clear()
    return ", ".join(f"{count} {word}" for word, count in counts.items())


# --8<-- [start:together]
def together(rank: int, folder: Path) -> None:
    """Return when every rank is ready, and all are connected."""
    store = distributed.FileStore(str(folder / "store"), RANKS)
    store.set(f"ready {rank}", "")
    ready = [f"ready {each}" for each in range(RANKS)]
    store.wait(ready, timedelta(minutes=10))
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=PATIENCE
    )
# --8<-- [end:together]


# --8<-- [start:cold]
def cold(rank: int, folder: Path) -> None:
    """Rank 0 meets lengths that are new to it; rank 1 waits."""
    together(rank, folder)
    for n in itertools.count(1):
        if rank == 1 or (folder / "rank 1 has ended").exists():
            break
        call(n)
    distributed.all_reduce(torch.ones(1))
# --8<-- [end:cold]


# --8<-- [start:warm]
def warm(rank: int, folder: Path) -> None:
    """Every rank calls every length before the ranks connect."""
    for n in LENGTHS:
        call(n)
    print(f"rank {rank}, before:", how())
    together(rank, folder)
    for n in LENGTHS:
        call(n)
        distributed.all_reduce(torch.ones(1))
    print(f"rank {rank}, at work:", how())
# --8<-- [end:warm]


def fill(rank: int, folder: Path) -> None:
    for n in LENGTHS:
        call(n)
    print(f"rank {rank}, {os.environ['TRITON_CACHE_DIR'].rpartition('/')[2]}:", how())


# --8<-- [start:busy]
def busy(rank: int, folder: Path) -> None:
    """Call twice; at first no file can be given its name."""
    error = OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    with mock.patch("os.replace", side_effect=error):
        try:
            call(1)
        except OSError as error:
            print(said(error))
    HOW.clear()
    call(1)
    print("the same call again:", how())
# --8<-- [end:busy]


def said(error: BaseException) -> str:
    """Return what an error says, without what differs from run to run: ports, and whether a send or receive waited."""
    differs = r"^\[/.*?\] | \[[\da-f.:]+\]:\d+| for (?:send|recv) operation to complete"
    text = re.sub(differs, "", str(error)).split(". ")[0]
    return f"{type(error).__name__}: {text}"


def on_a_rank(what: str, rank: int, folder: Path) -> None:
    triton.runtime.driver.set_active(NoGPU())
    triton.knobs.compilation.listener = listen
    try:
        globals()[what](rank, folder)
    except RuntimeError as error:
        print(f"rank {rank}: {said(error)}")
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def start(what: str, rank: int, folder: Path, cache: str) -> subprocess.Popen:
    """Start this file as a rank, in which kernels are compiled, with a folder for what it compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder / cache)
    command = [sys.executable, __file__, what, str(rank), str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*ranks: subprocess.Popen) -> None:
    for rank in ranks:
        printed, errors = rank.communicate()
        if not printed:
            raise SystemExit(errors)
        print(printed, end="")


def in_a_new_folder(run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))


def one_waits(folder: Path) -> None:
    ranks = [start("cold", rank, folder, f"cache {rank}") for rank in range(RANKS)]
    ranks[1].wait()
    (folder / "rank 1 has ended").touch()
    finish(*ranks)


def both_warm_up(folder: Path) -> None:
    finish(*[start("warm", rank, folder, f"cache {rank}") for rank in range(RANKS)])


# --8<-- [start:seed]
def seeded(folder: Path) -> None:
    """Let rank 0 fill a folder, and give each rank a copy."""
    print("## A folder that one process filled, and copies of it")
    finish(start("fill", 0, folder, "seed"))
    every = range(RANKS)
    for rank in every:
        shutil.copytree(folder / "seed", folder / f"copy {rank}")
    finish(*[start("fill", rank, folder, f"copy {rank}") for rank in every])
# --8<-- [end:seed]


def main():
    if len(sys.argv) > 1:
        what, rank, folder = sys.argv[1:]
        return on_a_rank(what, int(rank), Path(folder))
    print("## One rank compiles, the other waits", flush=True)
    in_a_new_folder(one_waits)
    print("## Both ranks warm up first", flush=True)
    in_a_new_folder(both_warm_up)
    in_a_new_folder(seeded)
    print("## No file can be given its name")
    in_a_new_folder(lambda folder: finish(start("busy", 0, folder, "cache")))


if __name__ == "__main__":
    main()
