# SPDX-License-Identifier: Apache-2.0
"""A wrong way to time memory: own a buffer far larger than the caches, but walk only through a little of it.

``walk_a_little_bug`` repeats the same 2¹⁶ steps, through 8 MiB, however large the buffer is. From the second time on,
L2 has these 8 MiB, and its latency is taken for that of memory.

Units: cycles of a multiprocessor's clock for a step. Run it with ``python memory_bug.py``; it needs a GPU.
"""

import statistics

import torch
import triton

from snippets.gpu.memory import LINE, chase, cycle, walk_through

STEPS = 2**16


# --8<-- [start:bug]
def walk_a_little_bug(size, times=5):
    following = cycle(size // LINE)
    found = [chase(following, STEPS)[1].item() / STEPS for _ in range(times)]
    return statistics.median(found)
# --8<-- [end:bug]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="owned",
        x_names=["bytes"],
        x_vals=[2**24, 2**26, 2**28, 2**30],
        x_log=True,
        xlabel="bytes owned",
        ylabel="cycles for a step",
        line_arg="walk",
        line_vals=["little", "much"],
        line_names=["8 MiB of it walked, again and again", "128 MiB of it walked, or all"],
        args={},
    )
)
def owned(bytes, walk):
    """Cycles for a step, the wrong and the right way."""
    if walk == "little":
        return walk_a_little_bug(bytes)
    return statistics.median(cycles for cycles, _ in walk_through(bytes))


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found: there is nothing to time")
    following = cycle(2**23)
    i, visited = 0, set()
    small = following[:: LINE // 8].tolist()  # the first element of each line
    for _ in range(STEPS):
        visited.add(i)
        i = small[i // (LINE // 8)]
    print("MiB owned:", following.numel() * 8 // 2**20)
    print("MiB walked:", len(visited) * LINE // 2**20)


if __name__ == "__main__":
    main()
