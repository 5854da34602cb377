# SPDX-License-Identifier: Apache-2.0
"""Find out which part of a model is slow, with torch's profiler, before a kernel is written for it.

The model is small: a linear layer makes gates and inputs, a recurrence runs along time, RMSNorm, and a linear layer
again. Each part is named by ``record_function``, so that the profiler adds up what it takes.

Units: milliseconds of one call, of the host and of the GPU, if there is one; shares of the host's time.
Source: PyTorch's ``torch.profiler``.

Run it with ``python profile_a_model.py``, on a machine with a GPU or without.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from snippets.start.when_to_write_a_kernel import recurrence_eager

CALLS = 20  # that are added up


# --8<-- [start:model]
class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.into = nn.Linear(channels, 2 * channels)
        self.norm = nn.RMSNorm(channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, x):
        with record_function("part: linear, in"):
            a, b = self.into(x).chunk(2, dim=-1)
        with record_function("part: recurrence"):
            h = recurrence_eager(torch.sigmoid(a), b)
        with record_function("part: norm"):
            h = self.norm(h)
        with record_function("part: linear, out"):
            return self.out(h)
# --8<-- [end:model]


class Part(NamedTuple):
    """A part of one call of the model, as the profiler saw it: how often it was called, and for how long."""

    name: str
    calls: int
    ms: float
    gpu_ms: float


def profiled(model: nn.Module, x: torch.Tensor) -> tuple[list[Part], list[Part]]:
    """Return the parts of ``model``, and its operations, each slowest first. An operation's time is its own."""
    # --8<-- [start:profile]
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * x.is_cuda
    with torch.no_grad():
        # The first call is slow, and so is the profiler's first.
        for calls in (1, CALLS):
            with profile(activities=activities, acc_events=True) as profiler:
                for _ in range(calls):
                    model(x)
    # --8<-- [end:profile]
    parts, operations = [], []
    of_host = lambda event: event.device_type == DeviceType.CPU  # the GPU has rows of its own, with the same names
    for event in filter(of_host, profiler.key_averages()):
        calls = event.count // CALLS
        if event.key.startswith("part: "):
            times = event.cpu_time_total, event.device_time_total
            parts.append(Part(event.key.removeprefix("part: "), calls, *(t / CALLS / 1e3 for t in times)))
        elif event.key.startswith("aten::"):
            times = event.self_cpu_time_total, event.self_device_time_total
            operations.append(Part(event.key, calls, *(t / CALLS / 1e3 for t in times)))
    slowest_first = lambda rows: sorted(rows, key=lambda part: -part.ms)
    return slowest_first(parts), slowest_first(operations)


def at_most(share: float) -> float:
    """Return how many times as fast the whole gets, at most, if what takes this share of it took no time at all.

    >>> at_most(0.5)
    2.0
    """
    return 1 / (1 - share)


# --8<-- [start:main]
def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, x = Model(128).to(device), torch.randn(2, 512, 128, device=device)
    parts, operations = profiled(model, x)
    whole = sum(part.ms for part in parts)
    print("## parts")
    print(f"{'part':<14}{'ms':>8}{'share':>8}{'at most':>10}" + f"{'on GPU, ms':>12}" * x.is_cuda)
    for part in parts:
        share = part.ms / whole
        on_gpu = f"{part.gpu_ms:>12.2f}" * x.is_cuda
        print(f"{part.name:<14}{part.ms:>8.2f}{share:>8.0%}{at_most(share):>9.2f}×{on_gpu}")
    print("## operations")
    print(f"{'operation':<24}{'calls':>7}{'ms':>8}")
    for operation in operations[:6]:
        print(f"{operation.name:<24}{operation.calls:>7}{operation.ms:>8.2f}")
    print("## numbers")
    for part in parts:
        print(f"{part.name}, share: {part.ms / whole:.3f}")
        print(f"{part.name}, at most: {at_most(part.ms / whole):.2f}")
    for name in ("aten::mul", "aten::add"):
        print(f"{name}, calls: {next(operation.calls for operation in operations if operation.name == name)}")
    print(f"largest share of an operation: {operations[0].ms / whole:.3f}")
    if x.is_cuda:
        on_gpu = sum(part.gpu_ms for part in parts)
        for part in parts:
            print(f"{part.name}, share of the GPU's time: {part.gpu_ms / on_gpu:.3f}")
        print(f"the GPU's time, of the host's: {on_gpu / whole:.3f}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
