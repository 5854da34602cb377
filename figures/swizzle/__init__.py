# SPDX-License-Identifier: Apache-2.0
"""The order in which programs take up the tiles of a product, drawn from what two launches touched.

Both launches are of a matmul kernel in the interpreter, small enough that their accesses were written down. The tile
of C that a program stores is its place in the order; the tiles of A and B that it loads go through a cache here, in the
order in which programs read that run at the same time, a step along K together. `orders` is the picture of both after
the first of those waves. `<swizzle-explorer>` begins with that of the second launch, and has it race the first.
"""

import json
from dataclasses import dataclass

from markupsafe import Markup

from figures import svg
from figures.registry import EXPLORER, figure
from figures.svg import element
from figures.templates import render
from figures.words import plural
from recorder.project import RecorderError
from recorder.recording import Recording

Tile = tuple[str, int, int]  # ("A", row, column)

WIDE = 20  # of a tile of C, in the drawing; along K a tile is half as wide
MOST_ROWS = 12  # of tiles, and so of a group
# What the sliders under "Try other sizes" set: a name in the address, what stands beside the slider, its largest value.
FIELDS = [
    ("m", "Tiles along M", MOST_ROWS), ("n", "Tiles along N", 12), ("k", "Tiles along K", 12),
    ("sms", "SMs", 24), ("cache", "Cache, tiles", 240), ("axes", "Grid axes", 2),
]  # fmt: skip
PRESETS = {  # and what they set, all else being as it was recorded
    "As recorded": {},
    "All fits": {"cache": 200},
    "B fits": {"cache": 120},
    "16 at once": {"sms": 16},
    "Tall A": {"m": 12, "n": 2, "k": 4, "sms": 4, "cache": 20},
    "2-D grid": {"n": 10, "axes": 2},
}
MOST_STEPS = 12**3  # programs one after the other
WAVES = 2  # that have run where the explorer rests
SECONDS = 12  # that all waves are played


@dataclass(frozen=True)
class Order:
    """One launch: how many tiles there are along each axis, and of each program the tile of C and those it loads."""

    m: int
    n: int
    k: int
    group: int  # GROUP_M, in rows of tiles
    tiles: list[tuple[int, int]]
    loads: list[list[Tile]]

    @property
    def title(self) -> str:
        middle = f"Groups of {self.group} rows" if self.group < self.m else "Column-major"
        return "Row-major" if self.group == 1 else middle

    @property
    def numbers(self) -> str:
        """Return which program computes which tile of C, a line a row."""
        pids = {tile: pid for pid, tile in enumerate(self.tiles)}
        return "\n".join(" ".join(f"{pids[i, j]:3}" for j in range(self.n)) for i in range(self.m))


@dataclass(frozen=True)
class Run:
    """A run, or the steps of its first waves."""

    kept: dict[Tile, None]  # what is in the cache, in the order of its last use
    now: dict[Tile, bool]  # the tiles of the last step, and whether each came from memory
    resident: list[tuple[int, int]]
    reads: int
    misses: int


@figure(of="launches", foot=EXPLORER)
def swizzle(recording: Recording, *, launches=..., sms=9, cache=60, id="swizzle"):
    """`<swizzle-explorer>`, beginning with two recorded launches: row-major and grouped."""
    both = _both(recording, launches, sms, cache)
    begun = both[1]
    values = {"m": begun.m, "n": begun.n, "k": begun.k, "sms": sms, "cache": cache, "axes": 1}
    for name, words, most in FIELDS:
        if values[name] > most:
            raise RecorderError(f"the explorer goes up to {most} for {words!r}, not to {values[name]}")
    return render(
        "swizzle/template.html",
        parts=[_part(order, sms, cache, WAVES) for order in both],
        fields=[(name, words, most, values[name]) for name, words, most in FIELDS],
        presets={name: json.dumps(values | changed) for name, changed in PRESETS.items()},
        id=id, group=begun.group, most_rows=MOST_ROWS, step=WAVES * begun.k, most_steps=MOST_STEPS, seconds=SECONDS,
    )  # fmt: skip


@figure(of="launches")
def orders(recording: Recording, *, launches=..., sms=9, cache=60):
    """Draw two recorded launches after their first wave, without an explorer."""
    parts = [_part(order, sms, cache) for order in _both(recording, launches, sms, cache)]
    return render("swizzle/template.html", parts=parts, fields=[])


def _both(recorded: Recording, launches, sms, cache) -> list[Order]:
    if not isinstance(launches, list) or len(launches) != 2:
        raise RecorderError(f"launches must list two, such as [matmul_kernel[0], matmul_kernel[1]], not {launches!r}")
    if not all(isinstance(number, int) and number >= 1 for number in (sms, cache)):
        raise RecorderError(f"sms and cache must be whole numbers from 1, not {sms!r} and {cache!r}")
    both = [read(recorded, name) for name in launches]
    first, second = ((each.m, each.n, each.k) for each in both)
    if first != second:
        raise RecorderError(f"launches {launches} are of {first} and {second} tiles, not of as many")
    if both[0].group != 1:
        raise RecorderError(f"launch {launches[0]} is not row-major: its GROUP_M is {both[0].group}")
    return both


def read(recorded: Recording, name: str) -> Order:
    """Return the order of a launch. Raise ``RecorderError`` if a program loads other tiles than its product needs."""
    launch = recorded.traced(name)
    given = launch.arguments
    m, n, k = (-(-given[axis] // given[f"BLOCK_{axis}"]) for axis in "MNK")
    blocks = {"a_ptr": ("M", "K"), "b_ptr": ("K", "N"), "c_ptr": ("M", "N")}
    loads, stores = ([[] for _ in range(m * n)] for _ in "ls")
    for access in launch.accesses:
        place = divmod(access.offsets[access.mask.index(True)], given[access.tensor]["strides"][0])
        row, column = (at // given[f"BLOCK_{axis}"] for at, axis in zip(place, blocks[access.tensor], strict=True))
        of = loads if access.op == "load" else stores
        of[access.pid[0]].append((access.tensor[0].upper(), row, column))
    for pid, (loaded, stored) in enumerate(zip(loads, stores, strict=True)):
        (_, i, j), *others = stored
        if others or loaded != [tile for s in range(k) for tile in (("A", i, s), ("B", s, j))]:
            raise RecorderError(f"launch {name} is no product of tiles: program {pid} loads others than it needs")
    return Order(m, n, k, given["GROUP_M"], [stored[0][1:] for stored in stores], loads)


def run(order: Order, sms: int, cache: int, waves: int | None = None) -> Run:
    """Count what the programs read, ``sms`` of them at a time, through a cache that drops what was used longest ago."""
    kept, now, reads, misses = {}, {}, 0, 0
    firsts = range(0, len(order.tiles), sms)[:waves]
    for first in firsts:
        for step in range(order.k):
            now = {}
            for tile in (tile for loads in order.loads[first : first + sms] for tile in loads[2 * step : 2 * step + 2]):
                hit = tile in kept
                kept.pop(tile, None)
                kept[tile] = None
                if len(kept) > cache:
                    del kept[next(iter(kept))]
                now[tile] = now.get(tile, False) or not hit
                reads += 1
                misses += not hit
    return Run(kept, now, order.tiles[firsts[-1] : firsts[-1] + sms], reads, misses)


def _part(order: Order, sms: int, cache: int, waves: int = 1) -> dict:
    """Return the picture of an order, its caption, and how many reads went to memory: so far, and in the end."""
    now, end = run(order, sms, cache, waves), run(order, sms, cache)
    rows, columns = (len({tile[axis] for tile in now.resident}) for axis in (0, 1))
    caption = (
        f"Now: {plural(rows, 'row')} of A, {plural(columns, 'column')} of B. "
        f"From memory: {now.misses} of {now.reads} reads so far, {end.misses} of {end.reads} in the end."
    )
    width, height = (10 * order.k + WIDE * tiles + 8 for tiles in (order.n, order.m))
    size = {"viewBox": f"-2 -2 {width} {height}", "width": 1.6 * width}
    label = f"{order.title}. {caption}"
    return {
        "title": order.title, "caption": caption, "numbers": order.numbers,
        "picture": element("svg", draw(order, now, sms, waves), class_="swizzle", role="img", **size, aria_label=label),
        "now": now.misses, "end": end.misses, "reads": end.reads,
    }  # fmt: skip


def draw(order: Order, now: Run, sms: int, waves: int = 1) -> Markup:
    """C with A at its left and B above it, at the end of some waves; as ``draw`` of ``script.js``."""
    edge = 10 * order.k + 6
    paths: dict[str, list[str]] = {}  # by kind of tile

    def put(kind, x, y, w, h):
        paths.setdefault(kind, []).append(f"M{x} {y}h{w}v{h}h-{w}z")

    def kind(tile):
        return ("miss" if now.now[tile] else "hit") if tile in now.now else "kept" if tile in now.kept else "memory"

    for s in range(order.k):
        for i in range(order.m):
            put(kind(("A", i, s)), 10 * s, edge + WIDE * i, 8, 18)
        for j in range(order.n):
            put(kind(("B", s, j)), edge + WIDE * j, 10 * s, 18, 8)
    texts = []
    for pid, (i, j) in enumerate(order.tiles):
        wave = pid // sms
        when = "done" if wave < waves - 1 else "now" if wave == waves - 1 else "later"
        put(f"{svg.pid(wave)} {when}", edge + WIDE * j, edge + WIDE * i, 18, 18)
        texts.append(element("text", pid, class_=when, x=edge + WIDE * j + 9, y=edge + WIDE * i + 12))
    texts.append(element("text", "B", x=edge - 9, y=5 * order.k + 4))
    texts.append(element("text", "A", x=5 * order.k - 1, y=edge - 6))
    tiles = (element("path", class_=kind, d="".join(path)) for kind, path in paths.items())
    return Markup("").join([*tiles, *texts])
