# SPDX-License-Identifier: Apache-2.0
"""The view that draws a layout: which thread holds which elements of a block, read from the TritonGPU IR of a launch.

The compiler writes, for example::

    #blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>

A thread holds a rectangle of ``sizePerThread`` neighboring elements, a warp is a rectangle of ``threadsPerWarp``
threads, a program one of ``warpsPerCTA`` warps; threads and warps are counted along axis ``order[0]`` first. A block
that is larger repeats the pattern; in one that is smaller, several threads hold the same element.
"""

import itertools
import re
from dataclasses import dataclass
from math import prod

from recorder.picture import _each, escape
from recorder.project import RecorderError, Snippet, nearest

WIDTH = 544  # of the boxes of one row, in CSS pixels; a phone scrolls
ROWS, COLUMNS = 32, 64  # boxes that one picture may have and still be read
FIELDS = "sizePerThread", "threadsPerWarp", "warpsPerCTA", "order"
SHADES = 0.08, 0.2, 0.32, 0.44  # of warps 0, 1, 2, 3, and again


@dataclass(frozen=True)
class Layout:
    """A blocked layout of a block of this shape; every other field has one number for each axis."""

    shape: tuple[int, ...]
    per_thread: tuple[int, ...]
    threads: tuple[int, ...]  # in a warp
    warps: tuple[int, ...]
    order: tuple[int, ...]

    def held(self, thread: int) -> list[list[int]]:
        """The coordinates, axis by axis, of the elements that a thread of the program holds: all combinations."""
        warp, lane = divmod(thread, prod(self.threads))
        lanes, warps = (self._place(lane, self.threads), self._place(warp, self.warps))
        return [self._along(axis, warps[axis] * self.threads[axis] + lanes[axis]) for axis in range(len(self.shape))]

    def _place(self, number: int, sizes: tuple[int, ...]) -> dict[int, int]:
        """Where the thread or warp of this number stands, by axis."""
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
        """The threads that hold each element."""
        found = {}
        for thread in range(prod(self.threads) * prod(self.warps)):
            for element in itertools.product(*self.held(thread)):
                found.setdefault(element, []).append(thread)
        return found


def parse(ttgir: str, name: str | None = None) -> Layout:
    """The blocked layout ``name``, by default that of the first load or store; RecorderError if there is none."""
    blocked = dict(re.findall(r"^#(\w+) = #ttg\.blocked<\{(.*)\}>", ttgir, re.M))
    if name is None:
        accesses = re.findall(r"^.*\b(?:load|store|atomic)\w*\b.*$", ttgir, re.M)
        used = [found for line in accesses for found in re.findall(r"tensor<[^#>]*>?, #(\w+)>", line)]
        name = next((one for one in [*used, *blocked] if one in blocked), None)
    if name not in blocked:
        raise RecorderError(f"there is no blocked layout {name!r}{nearest(str(name), blocked)}")
    written = re.findall(r"(\w+) = \[([\d, ]+)\]", blocked[name])
    fields = {key: tuple(map(int, numbers.split(","))) for key, numbers in written}
    if others := sorted(set(re.findall(r"(\w+) =", blocked[name])) - set(FIELDS)):
        raise RecorderError(f"the view cannot draw {others[0]}, which the layout {name!r} has")
    shapes = re.findall(rf"tensor<((?:\d+x)+)(?:!tt\.ptr<[^>]*>|[^#<>,]+), #{name}>", ttgir)
    if not shapes:
        raise RecorderError(f"no tensor has the layout {name!r}")
    shape = max((tuple(map(int, text.split("x")[:-1])) for text in shapes), key=prod)
    if len(shape) > 2:
        raise RecorderError(f"the layout {name!r} has {len(shape)} axes; the view draws one or two")
    return Layout(shape, *(fields[key] for key in FIELDS))


def layout(snippet: Snippet, recorded: dict, *, launch=0, target="sm_90", name=None, thread=None):
    """Which thread holds which elements of a block; `name`: a layout such as `blocked1`; `thread`: one to outline."""
    from recorder import claims  # what it imports is not there where a GPU test reads a layout

    drawn = parse(claims.stage(recorded, launch, target, "ttgir")["text"], name)
    if thread is not None and not 0 <= thread < prod(drawn.threads) * prod(drawn.warps):
        raise RecorderError(f"there is no thread {thread!r} in this program")
    text = f'<details class="as-table"><summary>As a table</summary>{table(drawn)}</details>'
    picture = svg(drawn, f"layout-{snippet.name.replace('/', '-')}-{launch}-{target}-{name or 'first'}", thread)
    return (
        f"<p><code>{escape(written(drawn))}</code></p>"
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(sentence(drawn))}">{picture}</div>'
        f"{text}"
    )


def written(drawn: Layout) -> str:
    """The layout as the compiler writes it."""
    numbers = drawn.per_thread, drawn.threads, drawn.warps, drawn.order
    return f"#ttg.blocked<{{{', '.join(f'{key} = {[*n]}' for key, n in zip(FIELDS, numbers, strict=True))}}}>"


def _times(numbers) -> str:
    return " × ".join(f"{number:,}" for number in numbers)


def sentence(drawn: Layout) -> str:
    """The layout in words."""
    warps, threads = prod(drawn.warps), prod(drawn.threads)
    per_thread = prod(map(len, drawn.held(0)))
    copies = len(drawn.holders()[(0,) * len(drawn.shape)])
    held = f"{per_thread} element{'s' * (per_thread > 1)} in each thread"
    if copies > 1:
        held += f", each element in {copies} threads"
    return f"{_times(drawn.shape)} elements, {warps} warp{'s' * (warps > 1)} of {threads} threads, {held}"


def _names(threads: list[int]) -> str:
    """``5``, ``5, 69``, or ``5 … (8×)``: the threads that hold an element, to write into its box."""
    return ", ".join(map(str, threads)) if len(threads) < 3 else f"{threads[0]} … ({len(threads)}×)"


def svg(drawn: Layout, id: str, thread: int | None = None) -> str:
    """The picture: a box is a thread, divided into the elements that it holds side by side; a shade is a warp."""
    holders, flat = drawn.holders(), len(drawn.shape) == 1
    box = [min(a, b) for a, b in zip(drawn.per_thread, drawn.shape, strict=True)]
    across, down = box[-1], 1 if flat else box[0]
    longest = max(len(_names(threads)) for threads in holders.values())
    side = max(8, -(-max(22, 7 * longest + 6) // across))  # of an element
    columns = drawn.shape[-1] // across
    if flat:
        columns = min(columns, 1 << (WIDTH // (side * across + 2)).bit_length() - 1)
    elif columns > COLUMNS:
        raise RecorderError(f"{columns} threads side by side are too many to draw; the view draws {COLUMNS}")
    high = max(18, 9 * down)
    rows = drawn.shape[-1] // (columns * across) if flat else drawn.shape[0] // down
    shown = min(rows, ROWS)
    parts, y, last = [], 22, None
    for row in range(shown):
        here = [(row * columns + i) * across if flat else i * across for i in range(columns)]
        corners = [(first,) if flat else (row * down, first) for first in here]
        warps = sorted({t // prod(drawn.threads) for corner in corners for t in holders[corner]})
        label = f"warp{'s' * (len(warps) > 1)} {_each(warps)}"
        where = f"{here[0]}–{here[-1] + across - 1}" if flat else _each(range(row * down, (row + 1) * down))
        parts.append(_text(62, y + high / 2 + 4, where, anchor="end", font="mono", muted=True))
        for column, corner in enumerate(corners):
            x = 70 + column * (side * across + 2)
            parts.append(_box(x, y, side, high, across, down, holders[corner], drawn, corner, thread))
        if label != last:
            parts.append(_text(76 + columns * (side * across + 2), y + high / 2 + 4, label))
        last, y = label, y + high + 2
    if shown < rows:
        parts.append(_text(70, y + 14, f"and {rows - shown} rows more, not drawn", muted=True))
        y += 20
    head = "elements" if flat else "row"
    parts.insert(0, _text(62, 13, head, anchor="end", muted=True))
    parts.insert(1, _text(70, 13, "threads, by number: one box each, divided into its elements", muted=True))
    width = max(76 + columns * (side * across + 2) + 76, 440)
    return (
        f'<svg class="layout-picture" role="img" aria-labelledby="{id}-title {id}-desc" viewBox="0 0 {width} {y + 2}" '
        f'width="{width}" style="max-width:none" xmlns="http://www.w3.org/2000/svg" color="var(--pid-0)">'
        f'<title id="{id}-title">{escape(sentence(drawn))}</title>'
        f'<desc id="{id}-desc">{escape(described(drawn))}</desc>{"".join(parts)}</svg>'
    )


def _text(x, y, text, *, anchor="start", font="sans", muted=False, size=11.5) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-family="var(--{font})" text-anchor="{anchor}" '
        f'fill="var(--ink{"-muted" * muted})">{escape(text)}</text>'
    )


def _box(x, y, side, high, across, down, threads, drawn, corner, thread) -> str:
    """The elements that some threads hold side by side, with the threads' numbers over them."""
    warp = threads[0] // prod(drawn.threads)
    bold = thread in threads
    width, weight = side * across, ' font-weight="700"' * bold
    lines = "".join(f"M{x + side * i} {y}v{high}" for i in range(1, across))
    lines += "".join(f"M{x} {y + high // down * i}h{width}" for i in range(1, down))
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{high}" rx="2" fill="currentColor" '
        f'fill-opacity="{SHADES[warp % len(SHADES)]}" stroke="{"var(--ink)" if bold else "currentColor"}" '
        f'stroke-width="{2 if bold else 1}"/>'
        + (f'<path d="{lines}" stroke="currentColor" stroke-width="0.6" stroke-opacity="0.7"/>' if lines else "")
        + f'<text x="{x + width / 2:g}" y="{y + high / 2 + 4:g}" font-size="11" font-family="var(--mono)" '
        'text-anchor="middle" fill="var(--ink)" stroke="var(--paper)" stroke-width="3" stroke-linejoin="round" '
        f'stroke-opacity="0.8" paint-order="stroke"{weight}>{escape(_names(threads))}</text>'
    )


def described(drawn: Layout) -> str:
    """The text alternative of the picture."""
    size = prod(drawn.threads)
    warps = [range(warp * size, (warp + 1) * size) for warp in range(prod(drawn.warps))]
    return " ".join(
        f"Warp {warp}, threads {_each(threads)}: {_where(drawn, threads)}." for warp, threads in enumerate(warps)
    )


def _where(drawn: Layout, threads) -> str:
    """The elements that some threads hold, in words."""
    axes = [set().union(*along) for along in zip(*(map(set, drawn.held(t)) for t in threads), strict=True)]
    if len(axes) == 1:
        return f"elements {_each(axes[0])}"
    return f"rows {_each(axes[0])}, columns {_each(axes[1])}"


def table(drawn: Layout) -> str:
    """A row for each warp: its threads, the elements that it holds, and those of its first thread."""
    size = prod(drawn.threads)
    rows = "".join(
        f'<tr><th scope="row">{warp}</th><td>{warp * size}–{(warp + 1) * size - 1}</td>'
        f"<td>{_where(drawn, range(warp * size, (warp + 1) * size))}</td>"
        f"<td>thread {warp * size}: {_where(drawn, [warp * size])}</td></tr>"
        for warp in range(prod(drawn.warps))
    )
    label = escape(f"Table: {sentence(drawn)}")
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Warp", "Threads", "Hold", "Its first thread holds"))
    return (
        f'<div class="table-scroll table-scroll--words" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
