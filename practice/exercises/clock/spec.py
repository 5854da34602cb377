# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise clock."""

import statistics

import torch
from coach.spec import Spec

COMPILES, BUSY, LAUNCH = 1e6, 500.0, 1.0  # microseconds
OFTEN = 5  # every so many launches, something else runs
CACHED = 2  # sets of operands that the toy's cache holds


class Gpu:
    """A toy with a clock, in microseconds: the host's. Kernels run one after another, while the host goes on."""

    def __init__(self, cold: float):
        self._cold, self._warm = cold, cold / 5
        self._host = self._done = 0.0
        self._launches, self._recent = 0, []

    def launched(self, x: torch.Tensor):
        self._launches += 1
        if self._launches == 1:
            self._host += COMPILES
        takes = self._warm if x.data_ptr() in self._recent else self._cold
        takes += BUSY if self._launches % OFTEN == 0 else 0
        self._done = max(self._done, self._host) + takes
        self._host += LAUNCH
        self._recent = [*(p for p in self._recent if p != x.data_ptr()), x.data_ptr()][-CACHED:]

    def now(self) -> float:
        return self._host

    def wait(self):
        self._host = max(self._host, self._done)


def inputs(size, rng):
    cold = float(torch.randint(20, 60, (), generator=rng))
    return {"x": torch.randn(size["sets"], size["n"], generator=rng), "gpu": Gpu(cold)}


def rate(microseconds, x, each=8):
    return torch.tensor([each * x.shape[1] / microseconds], dtype=torch.float64)


def means(x, gpu, before=True):
    """Return the mean of readings that are right one by one."""
    toy = Gpu(gpu._cold)
    rows, readings = list(torch.empty(len(x), 1)), []
    for row in [rows[0], *rows] if before else rows:
        toy.wait()
        begin = toy.now()
        toy.launched(row)
        toy.wait()
        readings.append(toy.now() - begin)
    return statistics.mean(readings[1:] if before else readings)


SPEC = Spec(
    title="A benchmark that means something",
    kind="gap",
    lesson="tools/benchmarking.md",
    also=("pytorch/launch-overhead.md",),
    goal="Measure how many bytes a kernel moves per microsecond. Make sure that the data is not in the cache, that "
    "the clock runs until the kernel has finished, that compilation doesn't count, and that a single disturbed "
    "reading changes nothing.",
    hints=(
        "Which launch compiles the kernel, which launches find their operands in the cache, and how do you know that "
        "a kernel has finished?",
        "What a timer has to do: tools/benchmarking.md#what-do_bench-does",
        "gpu.wait(); begin = gpu.now(); double(x[i], out[i], gpu); gpu.wait()",
    ),
    function="bandwidth",
    signature=("x", "gpu"),
    inputs=inputs,
    reference=lambda x, gpu: rate(gpu._cold, x),
    sizes=({"sets": 8, "n": 20}, {"sets": 11, "n": 100}),
    awkward=("n",),
    blocks={"n": 16},
    smallest=1,
    strides="refused",
    rtol=1e-9,
    mistaken={
        "Those are the bytes that are read. Which others does a call move?": lambda x, gpu: rate(gpu._cold, x, 4),
        "Those are elements. How many bytes does each have, and is it read and written?": lambda x, gpu: rate(
            gpu._cold, x, 1
        ),
        "Those are elements, read and written. How many bytes does each have?": lambda x, gpu: rate(gpu._cold, x, 2),
        "That is the time of the launch. Had the kernel ended when the second time was taken?": lambda x, gpu: rate(
            LAUNCH, x
        ),
        "The operands are in the cache. Each call needs operands that are not.": lambda x, gpu: rate(gpu._warm, x),
        "The first launch is in the reading. What does it do that no later one does?": lambda x, gpu: rate(
            COMPILES + gpu._cold, x
        ),
        "That is the mean, which one disturbed reading changes. Which number would not change?": (
            lambda x, gpu: rate(means(x, gpu), x)
        ),
        "That is the mean, including the first launch. Which number would one long reading not change?": (
            lambda x, gpu: rate(means(x, gpu, before=False), x)
        ),
        "Those are the bytes of all sets, divided by the time of one call.": lambda x, gpu: rate(
            gpu._cold, x, 8 * len(x)
        ),
        "That is the longest reading, in which something else ran.": lambda x, gpu: rate(gpu._cold + BUSY, x),
        "That is microseconds per byte. Which should be divided by which?": lambda x, gpu: 1 / rate(gpu._cold, x),
    },
    stored=False,
)
