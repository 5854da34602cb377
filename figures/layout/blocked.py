# SPDX-License-Identifier: Apache-2.0
"""Blocked layouts: which thread holds which elements of a block, read from TritonGPU IR.

The compiler writes, for example::

    #blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>

A thread holds a rectangle of ``sizePerThread`` neighboring elements, a warp is a rectangle of ``threadsPerWarp``
threads, a program one of ``warpsPerCTA`` warps; threads and warps are counted along axis ``order[0]`` first. A block
that is larger repeats the pattern; in one that is smaller, several threads hold the same element.
"""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from figures.words import plural, runs
from recorder.project import RecorderError, nearest

FIELDS = "sizePerThread", "threadsPerWarp", "warpsPerCTA", "order"


@dataclass(frozen=True)
class Layout:
    """A blocked layout of a block of this shape; every other field has one number for each axis."""

    shape: tuple[int, ...]
    per_thread: tuple[int, ...]
    threads: tuple[int, ...]  # in a warp
    warps: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def warp_size(self) -> int:
        return prod(self.threads)

    @property
    def number_of_threads(self) -> int:
        return self.warp_size * prod(self.warps)

    def members(self) -> list[range]:
        """Return the numbers of the threads in each warp."""
        return [range(first, first + self.warp_size) for first in range(0, self.number_of_threads, self.warp_size)]

    def held(self, thread: int) -> list[list[int]]:
        """Return the coordinates, axis by axis, of the elements that a thread holds: all combinations."""
        warp, lane = divmod(thread, self.warp_size)
        lanes, warps = self._place(lane, self.threads), self._place(warp, self.warps)
        return [self._along(axis, warps[axis] * self.threads[axis] + lanes[axis]) for axis in range(len(self.shape))]

    def _place(self, number: int, sizes: tuple[int, ...]) -> dict[int, int]:
        """Return the position of the thread or warp of this number, by axis."""
        place = {}
        for axis in self.order:
            number, place[axis] = divmod(number, sizes[axis])
        return place

    def _along(self, axis: int, position: int) -> list[int]:
        size, each = self.shape[axis], self.per_thread[axis]
        tile = each * self.threads[axis] * self.warps[axis]
        starts = range(position * each, max(size, tile), tile)
        return sorted({(start + i) % size for start in starts for i in range(each)})

    def holders(self) -> dict[tuple[int, ...], list[int]]:
        """Return the threads that hold each element."""
        owners = {}
        for thread in range(self.number_of_threads):
            for element in itertools.product(*self.held(thread)):
                owners.setdefault(element, []).append(thread)
        return owners

    # ---- In words ----

    def __str__(self) -> str:
        """As the compiler writes it."""
        numbers = self.per_thread, self.threads, self.warps, self.order
        return f"#ttg.blocked<{{{', '.join(f'{key} = {[*n]}' for key, n in zip(FIELDS, numbers, strict=True))}}}>"

    def sentence(self) -> str:
        held = f"{plural(prod(map(len, self.held(0))), 'element')} in each thread"
        copies = len(self.holders()[(0,) * len(self.shape)])
        held += f", each element in {copies} threads" if copies > 1 else ""
        size = " × ".join(f"{number:,}" for number in self.shape)
        return f"{size} elements, {plural(prod(self.warps), 'warp')} of {self.warp_size} threads, {held}"

    def where(self, threads: Iterable[int]) -> str:
        """Return the elements that some threads hold."""
        axes = [runs(itertools.chain(*along)) for along in zip(*map(self.held, threads), strict=True)]
        return f"elements {axes[0]}" if len(axes) == 1 else f"rows {axes[0]}, columns {axes[1]}"


def parse(ttgir: str, name: str | None = None) -> Layout:
    """Return the blocked layout ``name``, or that of the first access. Raise ``RecorderError`` if there is none."""
    blocked = dict(re.findall(r"^#(\w+) = #ttg\.blocked<\{(.*)\}>", ttgir, re.M))
    if name is None:
        accesses = re.findall(r"^.*\b(?:load|store|atomic)\w*\b.*$", ttgir, re.M)
        used = [used_name for line in accesses for used_name in re.findall(r"tensor<[^#>]*>?, #(\w+)>", line)]
        name = next((one for one in [*used, *blocked] if one in blocked), None)
    if name not in blocked:
        raise RecorderError(f"there is no blocked layout {name!r}{nearest(str(name), blocked)}")
    written = re.findall(r"(\w+) = \[([\d, ]+)\]", blocked[name])
    fields = {key: tuple(map(int, numbers.split(","))) for key, numbers in written}
    if others := sorted(set(re.findall(r"(\w+) =", blocked[name])) - set(FIELDS)):
        raise RecorderError(f"this figure cannot draw {others[0]}, which the layout {name!r} has")
    shapes = re.findall(rf"tensor<((?:\d+x)+)(?:!tt\.ptr<[^>]*>|[^#<>,]+), #{name}>", ttgir)
    if not shapes:
        raise RecorderError(f"no tensor has the layout {name!r}")
    shape = max((tuple(map(int, text.split("x")[:-1])) for text in shapes), key=prod)
    if len(shape) > 2:
        raise RecorderError(f"the layout {name!r} has {len(shape)} axes; this figure draws one or two")
    return Layout(shape, *(fields[key] for key in FIELDS))
