# SPDX-License-Identifier: Apache-2.0
"""The views of the order in which programs take up the tiles of a product, drawn from what two launches touched.

Both launches are of a matmul kernel in the interpreter, small enough that their accesses were written down. The tile
of C that a program stores is its place in the order; the tiles of A and B that it loads go through a cache here, in the
order in which programs read that run at the same time, a step along K together. `orders` is the picture after the first
of those waves, and `swizzle` the same picture as the first state of `<swizzle-explorer>`, which computes others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from recorder import explorers
from recorder.project import RecorderError

WIDE = 20  # of a tile of C, in the drawing; along K a tile is half as wide
COLORS = 8  # --pid-0 to --pid-7
# What the sliders set: a name in the address, what stands beside the slider, its largest value.
FIELDS = [
    ("m", "Tiles along M", 12), ("n", "Tiles along N", 12), ("k", "Tiles along K", 12),
    ("group", "Group, rows", 12), ("sms", "SMs", 24), ("cache", "Cache, tiles", 240),
]  # fmt: skip
LEGEND = {  # of the kinds of tiles
    "C, a color a wave": {"now": "runs now", "done": "done", "later": "later"},
    "A and B": {
        "miss": "read now, from memory", "hit": "read now, from the cache", "kept": "in the cache",
        "memory": "only in memory",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Order:
    """One launch: the tile of C of each program, and the tiles that it loads, as ``("A", row, column)``."""

    m: int
    n: int
    k: int
    group: int
    tiles: list[tuple[int, int]]
    loads: list[list[tuple[str, int, int]]]

    @property
    def title(self) -> str:
        middle = f"Groups of {self.group} rows" if self.group < self.m else "Column-major"
        return "Row-major" if self.group == 1 else middle


@dataclass(frozen=True)
class Run:
    """A run, or the steps of its first wave."""

    kept: dict[tuple[str, int, int], None]  # what is in the cache, in the order of its last use
    now: dict[tuple[str, int, int], bool]  # the tiles of the last step, and whether each came from memory
    resident: list[tuple[int, int]]
    reads: int
    misses: int


def swizzle(snippet, recorded, *, launches=..., sms=9, cache=60, id="swizzle") -> str:
    """`<swizzle-explorer>`, beginning with two recorded launches: row-major and grouped."""
    both = _both(recorded, launches, sms, cache)
    values = {**{name: getattr(both[1], name) for name in ("m", "n", "k", "group")}, "sms": sms, "cache": cache}
    for name, words, most in FIELDS:
        if values[name] > most:
            raise RecorderError(f"the explorer goes up to {most} for {words!r}, not to {values[name]}")
    fields = "".join(
        f'<div class="explorer__field"><span aria-hidden="true">{words}</span><input type="range" name="{name}" '
        f'aria-label="{words}" min="1" max="{most}" value="{values[name]}">'
        f'<b aria-hidden="true">{values[name]}</b></div>'
        for name, words, most in FIELDS
    )
    most = 12**3  # programs one after the other
    return (
        f'<swizzle-explorer id="{escape(id)}"><form class="explorer" autocomplete="off">'
        f'<div class="explorer__fields" hidden>{fields}</div>{_pictures(both, sms, cache)}'
        f'<div class="swizzle__steps" hidden>{explorers.steps("Back", "Step", plays="step", pace=200)}'
        f'<input type="range" name="step" aria-label="Step" min="1" max="{most}" value="{both[1].k}"></div>'
        f'<output hidden><span></span> <span class="explorer__said"></span></output>{_legend()}</form>'
        f"{_tables(both)}</swizzle-explorer>"
    )


def orders(snippet, recorded, *, launches=..., sms=9, cache=60) -> str:
    """The picture of two recorded launches after their first wave, without an explorer."""
    both = _both(recorded, launches, sms, cache)
    return f'<div class="swizzle-picture">{_pictures(both, sms, cache)}{_legend()}</div>{_tables(both)}'


def _both(recorded, launches, sms, cache) -> list[Order]:
    if not isinstance(launches, list) or len(launches) != 2:
        raise RecorderError(f"launches must list two launches, such as [0, 1], not {launches!r}")
    if not all(isinstance(number, int) and number >= 1 for number in (sms, cache)):
        raise RecorderError(f"sms and cache must be whole numbers from 1, not {sms!r} and {cache!r}")
    both = [read(recorded["launches"], number) for number in launches]
    first, second = ((each.m, each.n, each.k) for each in both)
    if first != second:
        raise RecorderError(f"launches {launches} are of {first} and {second} tiles, not of as many")
    if both[0].group != 1:
        raise RecorderError(f"launch {launches[0]} is not row-major: its GROUP_M is {both[0].group}")
    return both


def read(launches: list[dict], number: int) -> Order:
    """The order of a launch, from its stores and loads."""
    if not isinstance(number, int) or not 0 <= number < len(launches):
        raise RecorderError(f"there is no launch {number}; the run made {len(launches)}, counted from 0")
    seen = launches[number]
    if not seen["accesses"]:
        raise RecorderError(f"the accesses of launch {number} were not written down")
    given = seen["arguments"]
    m, n, k = (-(-given[axis] // given[f"BLOCK_{axis}"]) for axis in "MNK")
    blocks = {"a_ptr": ("M", "K"), "b_ptr": ("K", "N"), "c_ptr": ("M", "N")}
    loads, stores = ([[] for _ in range(m * n)] for _ in "ls")
    for access in seen["accesses"]:
        tensor = access["tensor"]
        place = divmod(access["offsets"][access["mask"].index(True)], given[tensor]["strides"][0])
        row, column = (at // given[f"BLOCK_{axis}"] for at, axis in zip(place, blocks[tensor], strict=True))
        of = loads if access["op"] == "load" else stores
        of[access["pid"][0]].append((tensor[0].upper(), row, column))
    for pid, (loaded, stored) in enumerate(zip(loads, stores, strict=True)):
        (_, i, j), *others = stored
        if others or loaded != [tile for s in range(k) for tile in (("A", i, s), ("B", s, j))]:
            raise RecorderError(f"launch {number} is no product of tiles: program {pid} loads others than it needs")
    return Order(m, n, k, given["GROUP_M"], [stored[0][1:] for stored in stores], loads)


def run(order: Order, sms: int, cache: int, waves: int | None = None) -> Run:
    """What the programs read, `sms` of them at a time, through a cache that drops what was used longest ago."""
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


def _pictures(both: list[Order], sms: int, cache: int) -> str:
    return f'<div class="swizzle__orders">{"".join(_part(order, sms, cache) for order in both)}</div>'


def _legend() -> str:
    tile = (
        '<svg class="swizzle" width="14" height="14" viewBox="-2 -2 22 22" aria-hidden="true">'
        '<path class="pid-0 {}" d="M0 0h18v18h-18z"></path></svg>'
    )
    lines = []
    for title, kinds in LEGEND.items():
        words = " ".join(f"<span>{tile.format(kind)}{meaning}</span>" for kind, meaning in kinds.items())
        lines.append(f"<p><strong>{title}:</strong> {words}</p>")
    return f'<div class="swizzle__legend">{"".join(lines)}</div>'


def _part(order: Order, sms: int, cache: int) -> str:
    now, end = run(order, sms, cache, waves=1), run(order, sms, cache)
    rows, columns = ({tile[axis] for tile in now.resident} for axis in (0, 1))
    caption = (
        f"Now: {_count(rows, 'row')} of A, {_count(columns, 'column')} of B. "
        f"From memory: {now.misses} of {now.reads} reads so far, {end.misses} of {end.reads} in the end."
    )
    shares = "; ".join(f"--{name}: {seen.misses / end.reads:%}" for name, seen in (("now", now), ("end", end)))
    width, height = (10 * order.k + WIDE * tiles + 8 for tiles in (order.n, order.m))
    return (
        f'<div class="swizzle__order"><strong>{order.title}</strong>'
        f'<svg class="swizzle" role="img" viewBox="-2 -2 {width} {height}" width="{1.6 * width:g}" '
        f'aria-label="{order.title}. {caption}">{draw(order, now, sms)}</svg>'
        f'<i style="{shares}"></i><p>{caption}</p></div>'
    )


def _count(some: set, word: str) -> str:
    return f"{len(some)} {word}{'' if len(some) == 1 else 's'}"


def draw(order: Order, now: Run, sms: int) -> str:
    """C with A at its left and B above it, at the end of the first wave; as `draw` of the explorer's script."""
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
        put(f"pid-{wave % COLORS} {'later' if wave else 'now'}", edge + WIDE * j, edge + WIDE * i, 18, 18)
        texts.append(f'<text x="{edge + WIDE * j + 9}" y="{edge + WIDE * i + 12}">{pid}</text>')
    all_paths = (f'<path class="{kind}" d="{"".join(path)}"></path>' for kind, path in paths.items())
    names = f'<text x="{edge - 9}" y="{5 * order.k + 4}">B</text><text x="{5 * order.k - 1}" y="{edge - 6}">A</text>'
    return "".join(all_paths) + "".join(texts) + names


def _tables(both: Iterable[Order]) -> str:
    """The order as numbers: which program computes which tile."""
    tables = []
    for order in both:
        pids = {tile: pid for pid, tile in enumerate(order.tiles)}
        lines = [" ".join(f"{pids[i, j]:3}" for j in range(order.n)) for i in range(order.m)]
        label = f"{order.title}: the program of each tile of C"
        lines = "\n".join(lines)
        tables.append(f'<p>{label}</p><pre class="output" tabindex="0" aria-label="{label}">{lines}</pre>')
    return f'<details class="as-table"><summary>The numbers</summary>{"".join(tables)}</details>'
