# SPDX-License-Identifier: Apache-2.0
"""Measure what it costs to move bytes: within the GPU's memory, from the host to the GPU, to another process by TCP.

The other process runs this file, too. Both are on one host, and their bytes go through its network stack but over no
cable: torch.distributed's backend ``gloo`` sends them by TCP to 127.0.0.1. So this is what sockets cost the two
processors. A network between two machines has all of that, and its own wait; one that goes around the processors, as
RDMA does, is another thing, and so is NVLink between two GPUs.

Units: GB/s and microseconds, by the host's clock, from the call until the data is there.
Source: PyTorch's ``torch.distributed``.

Run it with ``python memory_network.py``; it needs a GPU.
"""

import contextlib
import datetime
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import triton

from snippets.gpu.memory_host import until_done
from snippets.tools.benchmarking import Timing, compare

WAYS = {
    "gpu": "within the GPU's memory",
    "pinned": "from the host, pinned",
    "tcp": "to another process, by TCP",
}
HOST, LIMIT = "127.0.0.1", 60.0  # seconds that one process waits for the other
SIZES = [2**k for k in range(12, 29, 4)]


# --8<-- [start:join]
def join(store: dist.Store, rank: int, seconds: float) -> None:
    """Make this process the one of number ``rank`` in a group of two."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # the host's own network, whatever else it has
    limit = datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
# --8<-- [end:join]


# --8<-- [start:answer]
def answer(port: int, seconds: float) -> None:
    """Send back what comes, each time after its length, until that is 0."""
    limit = datetime.timedelta(seconds=seconds)
    store = dist.TCPStore(
        HOST, port, world_size=2, is_master=False, timeout=limit
    )
    store.set("here", "yes")
    join(store, rank=1, seconds=seconds)
    size, buffer = (
        torch.zeros(1, dtype=torch.int64),
        torch.empty(0, dtype=torch.uint8),
    )
    while dist.recv(size, src=0) == 0 and size.item():
        if len(buffer) != size.item():
            buffer = torch.empty(size.item(), dtype=torch.uint8)
        dist.recv(buffer, src=0)
        dist.send(buffer, dst=0)
    dist.destroy_process_group()
# --8<-- [end:answer]


# --8<-- [start:echo]
@contextlib.contextmanager
def echo(*, seconds: float = LIMIT) -> Iterator[Callable[[torch.Tensor, torch.Tensor], None]]:
    """Start the other process; give a function that sends it a tensor and receives it into another.

    Args:
        seconds: How long one waits for the other.

    Raises:
        RuntimeError: The other process did not come, or went away; the message has what it said last.
    """
    limit = datetime.timedelta(seconds=seconds)
    port = 0  # which is to say, any that is free
    store = dist.TCPStore(HOST, port, world_size=2, is_master=True, timeout=limit, wait_for_workers=False)
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, __file__, str(store.port), str(seconds)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        other = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        try:
            wait_for(store, other, seconds)
            join(store, rank=0, seconds=seconds)
            yield send_and_receive
            dist.send(torch.zeros(1, dtype=torch.int64), dst=1)
            other.wait(seconds)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            said.seek(0)
            last = said.read().strip().splitlines()[-1:] or ["nothing"]
            raise RuntimeError(f"an exchange with the other process failed: {error}; it said: {last[0]}") from error
        finally:
            other.kill()
            other.wait()
            if dist.is_initialized():
                dist.destroy_process_group()


def wait_for(store: dist.Store, other: subprocess.Popen, seconds: float) -> None:
    """Return when the other process has come. Raises ``RuntimeError`` if it ends, or takes too long."""
    until = time.monotonic() + seconds
    while not store.check(["here"]):
        if other.poll() is not None:
            raise RuntimeError(f"it ended with status {other.returncode}")
        if time.monotonic() > until:
            raise RuntimeError(f"it did not come within {seconds:g} s")
        time.sleep(0.05)


def send_and_receive(data: torch.Tensor, back: torch.Tensor) -> None:
    """Send ``data``, contiguous bytes on the CPU, and receive as many into ``back``."""
    for name, tensor in (("data", data), ("back", back)):
        if tensor.dtype != torch.uint8 or tensor.dim() != 1 or not tensor.is_contiguous() or tensor.is_cuda:
            raise ValueError(f"{name} must be contiguous bytes on the CPU; got {tensor.dtype} on {tensor.device}")
    if len(data) != len(back) or not len(data):
        raise ValueError(f"data and back must have the same length, at least 1; got {len(data)} and {len(back)}")
    dist.send(torch.tensor([len(data)]), dst=1)
    dist.send(data, dst=1)
    dist.recv(back, src=1)
# --8<-- [end:echo]


@functools.cache
def measure():
    """Return, for each size, a ``Timing`` of each of ``WAYS``: milliseconds for that many bytes, one way."""
    found = {}
    with echo() as exchange:
        for size in SIZES:
            data = torch.ones(size, dtype=torch.uint8)  # written, so that every page of it exists
            back, pinned = torch.zeros_like(data), data.pin_memory()
            source, target = torch.ones(2, size, dtype=torch.uint8, device="cuda")
            sides = {
                "gpu": lambda target=target, source=source: target.copy_(source),
                "pinned": lambda target=target, pinned=pinned: target.copy_(pinned, non_blocking=True),
                "tcp": lambda data=data, back=back: exchange(data, back),
            }
            timer = functools.partial(until_done, calls=20 if size < 2**24 else 3)
            found[size] = compare(sides, rounds=4, timer=timer)
            found[size]["tcp"] = Timing(tuple(ms / 2 for ms in found[size]["tcp"].rounds))  # there and back is two ways
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="rate",
        x_names=["bytes"],
        x_vals=SIZES,
        x_log=True,
        xlabel="bytes",
        ylabel="GB/s",
        line_arg="way",
        line_vals=list(WAYS),
        line_names=list(WAYS.values()),
        args={},
    )
)
def rate(bytes, way):
    """Bytes that arrive per second: median, slowest and fastest of 4 rounds."""
    return measure()[bytes][way].rate(bytes)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        x_names=["bytes"],
        x_vals=SIZES,
        x_log=True,
        xlabel="bytes",
        ylabel="times as long as within the GPU's memory",
        line_arg="way",
        line_vals=["pinned", "tcp"],
        line_names=[WAYS["pinned"], WAYS["tcp"]],
        args={},
    )
)
def times(bytes, way):
    """How many times as long the same bytes take, by medians."""
    timings = measure()[bytes]
    return timings[way].median / timings["gpu"].median


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found: there is nothing to compare a network with")
    with echo() as exchange:
        for size in (1, 10_001):
            data = torch.arange(size, dtype=torch.uint8) % 251
            back = torch.zeros_like(data)
            exchange(data, back)
            print(f"{size} bytes, there and back:", "equal" if torch.equal(back, data) else "NOT equal")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        answer(int(sys.argv[1]), float(sys.argv[2]))
    else:
        main()
