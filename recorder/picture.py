# SPDX-License-Identifier: Apache-2.0
"""Draw the recorded memory accesses of one launch: an inline SVG, and the table that says the same in text.

A square is an element, a rounded one a lane. Its color is the program that touches it; hatched is masked off, outlined
is loaded, filled is stored, gray is untouched, red is out of bounds. A label repeats in words what each color says.
"""

import itertools
from dataclasses import dataclass, field
from html import escape
from math import prod

PITCH = 28  # from one square to the next, in the SVG's own units, which are CSS pixels at its natural size
SIDE = 25
COLUMNS = 12  # as many squares as fit side by side on a phone (358 px)
WRAPPED = 8  # where lines of more squares than that are broken: a power of two, as blocks are
COLORS = 8  # --pid-0 … --pid-7
LARGEST = 512  # squares that one picture may have and still be read

_counter = itertools.count(1)


@dataclass
class Tensor:
    """One tensor of a launch: where its elements are and which programs loaded and stored each offset."""

    name: str
    dtype: str
    shape: list[int]
    rows: list[list[int]]  # the offsets of its elements, as they are drawn: one list a row
    loads: dict[int, set[int]] = field(default_factory=dict)  # offset -> programs, also beyond the tensor
    stores: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self):
        self.offsets = {offset for row in self.rows for offset in row}

    @property
    def outside(self) -> list[int]:
        return sorted((self.loads.keys() | self.stores.keys()) - self.offsets)


@dataclass
class Strip:
    """Lanes of one program that share offsets and mask, with the accesses that do."""

    shape: list[int]
    offsets: list[int]
    mask: list[bool]
    accesses: list[tuple[str, str]]  # ("load", "x_ptr"), …
    outside: list[bool]  # per lane: not masked, and yet beyond a tensor


def launch_svg(launch: dict, *, tensors: list[str] | None = None) -> str:
    """Return the picture of a recorded launch as one accessible inline ``<svg>``.

    Args:
        launch: One of the ``launches`` of a recording, with its ``accesses``.
        tensors: The arguments to draw, in this order; all tensors of the launch by default.

    Raises:
        ValueError: The launch has no recorded accesses, no tensor of such a name, or is too large to be legible.
    """
    pids, shown, strips = _read(launch, tensors)
    squares = sum(len(t.offsets) for t in shown) + sum(len(s.offsets) for many in strips for s in many)
    if squares > LARGEST:
        raise ValueError(f"{launch['kernel']}: a picture of {squares} squares is not legible; at most {LARGEST} are")
    return _Drawing(launch, pids, shown, strips).svg()


def launch_text(launch: dict) -> str:
    """Return the recorded accesses of a launch as a small HTML table: program, accesses, offsets, mask.

    Raises:
        ValueError: The launch has no recorded accesses.
    """
    pids, _, strips = _read(launch)
    rows = []
    for pid, many in zip(pids, strips, strict=True):
        for strip in many:
            accesses = ", ".join(f"{op} <code>{escape(name)}</code>" for op, name in strip.accesses)
            outside = _each(itertools.compress(strip.offsets, strip.outside))
            note = f" (out of bounds: {outside})" if outside else ""
            rows.append(
                f'<tr><th scope="row">{pid}</th><td>{accesses}</td><td>{" ".join(map(str, strip.offsets))}{note}</td>'
                f"<td>{' '.join(str(int(on)) for on in strip.mask)}</td></tr>"
            )
    return (
        f'<table class="launch-table"><caption>Accesses of <code>{escape(launch["kernel"])}</code>, per program. '
        "Mask: 1 is on, 0 is off.</caption>"
        '<thead><tr><th scope="col">pid</th><th scope="col">accesses</th>'
        '<th scope="col">offsets</th><th scope="col">mask</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _read(launch: dict, names: list[str] | None = None) -> tuple[list[str], list[Tensor], list[list[Strip]]]:
    """The programs' labels, the named tensors (or all) and, for each program, its strips."""
    if launch["accesses"] is None:
        raise ValueError(f"the accesses of this launch of {launch['kernel']} were not recorded")
    grid = launch["grid"]
    axes = max([axis + 1 for axis, size in enumerate(grid) if size > 1], default=1)
    pids = [[x, y, z] for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    number = {tuple(pid): i for i, pid in enumerate(pids)}
    tensors = {
        name: Tensor(name, value["dtype"], value["shape"], _rows(value["shape"], value["strides"]))
        for name, value in launch["arguments"].items()
        if isinstance(value, dict) and "shape" in value  # not a dtype
    }
    unknown = [name for name in names or [] if name not in tensors]
    if unknown:
        raise ValueError(f"{launch['kernel']} has no tensor {unknown[0]!r}; it has {', '.join(tensors)}")
    tensors = {name: tensors[name] for name in names or tensors}
    strips: list[dict] = [{} for _ in pids]
    for access in launch["accesses"]:
        if access["tensor"] not in tensors:
            continue
        program, tensor = number[tuple(access["pid"])], tensors[access["tensor"]]
        touched = tensor.stores if access["op"] == "store" else tensor.loads
        for offset, on in zip(access["offsets"], access["mask"], strict=True):
            if on:
                touched.setdefault(offset, set()).add(program)
        key = tuple(access["shape"]), tuple(access["offsets"]), tuple(access["mask"])
        strip = strips[program].setdefault(key, Strip(access["shape"], access["offsets"], access["mask"], [], []))
        if (access["op"], access["tensor"]) not in strip.accesses:
            strip.accesses.append((access["op"], access["tensor"]))
    for strip in (strip for many in strips for strip in many.values()):
        strip.outside = [
            on and any(offset not in tensors[name].offsets for _, name in strip.accesses)
            for offset, on in zip(strip.offsets, strip.mask, strict=True)
        ]
    labels = [str(pid[0]) if axes == 1 else f"({', '.join(map(str, pid[:axes]))})" for pid in pids]
    return labels, list(tensors.values()), [list(many.values()) for many in strips]


def _rows(shape: list[int], strides: list[int]) -> list[list[int]]:
    """The offsets of a tensor's elements: one row for a vector, one row for each of its rows for anything else."""
    if not shape:
        return [[0]]
    leading = itertools.product(*(range(size) for size in shape[:-1]))
    starts = [sum(i * stride for i, stride in zip(index, strides[:-1], strict=True)) for index in leading]
    return [[start + i * strides[-1] for i in range(shape[-1])] for start in starts]


def _columns(strip: Strip) -> int:
    columns = strip.shape[-1] if strip.shape else 1
    return columns if columns <= COLUMNS else WRAPPED


def _broken(line: list[int]) -> list[list[int]]:
    return [line[i : i + WRAPPED] for i in range(0, len(line), WRAPPED)]


def _each(values) -> str:
    """``1, 2, 3, 7`` as ``1–3, 7``."""
    values, runs = sorted(set(values)), []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    parts = [[a] if a == b else [a, b] if b == a + 1 else [f"{a}–{b}"] for a, b in runs]
    return ", ".join(str(part) for run in parts for part in run)


def _halo(width: int) -> str:
    """Attributes that keep a text readable where a hatch or a line runs behind it."""
    return f' stroke="var(--paper)" stroke-width="{width}" stroke-linejoin="round" paint-order="stroke"'


def _plural(values) -> str:
    return "" if len(values) == 1 else "s"


class _Drawing:
    """Lays squares out from top to bottom, collecting SVG elements; ``y`` is where the next one goes."""

    def __init__(self, launch: dict, pids: list[str], tensors: list[Tensor], strips: list[list[Strip]]):
        self.launch, self.pids, self.tensors, self.strips = launch, pids, tensors, strips
        self.id = f"launch-picture-{next(_counter)}"
        self.parts: list[str] = []
        self.hatches: set[str] = set()
        self.width = self.x = self.y = 0
        self.line = False  # whether a line runs behind what is drawn next
        every = [o for many in strips for s in many for o in s.offsets] + [o for t in tensors for o in t.offsets]
        flat = all(len(t.shape) == 1 for t in tensors) and all(len(s.shape) == 1 for many in strips for s in many)
        # Where all offsets fit side by side, a lane stands right above the element that it touches.
        self.aligned = flat and bool(every) and min(every) >= 0 and max(every) < COLUMNS

    def svg(self) -> str:
        self._programs()
        self.y += 6
        for tensor in self.tensors:
            self._tensor(tensor)
        width, height = max(self.width, 300), self.y
        patterns = "".join(
            f'<pattern id="{self.id}-{color}" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)" color="var(--{color})">'
            '<path d="M1 0V6" stroke="currentColor" stroke-width="1.5" stroke-opacity="0.6"/></pattern>'
            for color in sorted(self.hatches)
        )
        return (
            f'<svg class="launch-picture" role="img" aria-labelledby="{self.id}-title {self.id}-desc" '
            f'viewBox="-2 0 {width + 2} {height}" width="{(width + 2) / 16:g}em" xmlns="http://www.w3.org/2000/svg">'
            f'<title id="{self.id}-title">{escape(self._title())}</title>'
            f'<desc id="{self.id}-desc">{escape(self._description())}</desc>'
            f"<defs>{patterns}</defs>{''.join(self.parts)}</svg>"
        )

    def _title(self) -> str:
        programs = f"{len(self.pids)} program{_plural(self.pids)}"
        return f"The memory accesses of {self.launch['kernel']}, launched as {programs}"

    def _description(self) -> str:
        said = []
        for pid, strips in zip(self.pids, self.strips, strict=True):
            for strip in strips:
                accesses = ", ".join(f"{op} {name}" for op, name in strip.accesses)
                note = "".join(f", {text}" for text, _ in _notes(strip)) or ", no lane masked off"
                said.append(f"Program {pid}: {accesses} at offsets {_each(strip.offsets)}{note}.")
            if not strips:
                said.append(f"Program {pid}: no access.")
        for tensor in self.tensors:
            untouched = tensor.offsets - tensor.loads.keys() - tensor.stores.keys()
            said.append(f"{tensor.name} has {_size(tensor)}; {_verb(tensor)}.")
            if untouched:
                word = "written" if tensor.stores else "read"
                said.append(f"Its offset{_plural(untouched)} {_each(untouched)} {_are(untouched)} not {word}.")
            if tensor.outside:
                said.append(f"Offsets beyond its end that are touched all the same: {_each(tensor.outside)}.")
        return " ".join(said)

    def _text(self, x, y, text, *, size=12, fill="ink", font="sans", anchor="start", weight=400, extra=""):
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-family="var(--{font})" font-weight="{weight}" '
            f'text-anchor="{anchor}" fill="var(--{fill})"{extra}>{escape(text)}</text>'
        )

    def _heading(self, bold: str, note: str = "", warning: str = "", *, font="sans"):
        """A line of text: bold, then muted, then red."""
        spans = [
            f'<tspan font-size="{size}" font-weight="{weight}" fill="var(--{fill})" font-family="var(--{face})">'
            f"{escape(text)}</tspan>"
            for text, size, weight, fill, face in (
                (bold, 12.5, 600, "ink", font),
                (note, 12, 400, "ink-muted", "sans"),
                (warning, 12, 600, "out-of-bounds", "sans"),
            )
            if text
        ]
        place = f'x="{self.x:g}" y="{self.y + 12:g}" xml:space="preserve"'
        self.parts.append(f"<text {place}{_halo(8) if self.line else ''}>{'  '.join(spans)}</text>")
        self.y += 19

    def _square(self, x, y, offset, color, *, fill="none", opacity=1.0, stroke=1.5, radius=3, dashed=False):
        self.width = max(self.width, x + PITCH)
        dash = ' stroke-dasharray="3 2.5"' if dashed else ""
        self.parts.append(
            f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{SIDE}" height="{SIDE}" rx="{radius}" color="var(--{color})" '
            f'fill="{fill}" fill-opacity="{opacity:g}" stroke="{"currentColor" if stroke else "none"}" '
            f'stroke-width="{stroke:g}"{dash}/>'
        )
        text = str(offset)
        size = 12 if len(text) < 4 else 9
        extra = _halo(4) if dashed else ""
        self._text(x + 1 + SIDE / 2, y + 18, text, size=size, font="mono", anchor="middle", extra=extra)

    def _color(self, programs: set[int]) -> str:
        """The color of a program; what several of them touch belongs to none of their colors."""
        return f"pid-{min(programs) % COLORS}" if len(programs) == 1 else "ink-muted"

    def _programs(self):
        sizes = {tuple(t.shape) for t in self.tensors}
        lanes = [offset for many in self.strips for strip in many for offset in strip.offsets]
        end = self.tensors[0].shape[0] if self.aligned and len(sizes) == 1 else None
        if end is None or end > max(lanes, default=-1):  # all tensors end at one place, and lanes lie beyond it
            end = None
        if end is not None:
            x, left = end * PITCH, end * PITCH > 120
            self._text(
                x - 6 if left else x + 6, 11, "the tensors end here", size=11, fill="ink-muted",
                anchor="end" if left else "start",
            )  # fmt: skip
            self.y += 16
        self.line, behind = end is not None, len(self.parts)
        top = bottom = self.y
        for program in range(len(self.pids)):
            width = self._width(program)
            if self.x and (self.aligned or self.x + width > COLUMNS * PITCH):
                self.x, top = 0, bottom
            self.y = top
            self.width = max(self.width, self.x + width)
            self._program(program)
            bottom = max(bottom, self.y)
            self.x += width + 14
        self.x, self.y = 0, bottom
        if end is not None:
            line = f"M{x - 0.5:g} 2V{self.y - 4:g}"
            path = f'<path d="{line}" stroke="var(--ink-muted)" stroke-dasharray="4 3" fill="none"/>'
            self.parts.insert(behind, path)  # what a program's heading says may reach across the line
        self.line = False

    def _width(self, program: int) -> float:
        """How wide a program's lanes are, with what is written above them."""
        strips = self.strips[program]
        notes = [sum(7 * len(text) + 14 for text, _ in _notes(strip)) - 14 for strip in strips]  # on one line
        lanes = sum(_columns(strip) * PITCH + 14 for strip in strips) - 14
        return max(8 * len(f"program {self.pids[program]}"), lanes, *notes, 0)

    def _program(self, program: int):
        strips = self.strips[program]
        notes = [note for strip in strips for note in _notes(strip)] if len(strips) == 1 else []
        notes = notes if strips else [("no access", False)]
        fine, bad = ("; ".join(text for text, wrong in notes if wrong is kind) for kind in (False, True))
        title = f"program {self.pids[program]}"
        if self.aligned:
            self._heading(title, fine, bad)
        else:  # programs may stand side by side: what is said about one goes below its name
            self._heading(title)
            if notes:
                self.y -= 4
                self._heading("", fine, bad)
        x, height = self.x, 0
        for strip in strips:
            columns = _columns(strip)
            rows = -(-len(strip.offsets) // columns)
            label = ", ".join(dict.fromkeys(name for _, name in strip.accesses)) if len(strips) > 1 else ""
            wide = max(columns * PITCH, 7 * len(label))
            if x > self.x and (self.aligned or x + wide > COLUMNS * PITCH):
                x, self.y, height = self.x, self.y + height + 4, 0
            top = self.y
            if label:
                self._text(x, top + 10, label, size=11, font="mono", fill="ink-muted")
                top += 14
            for lane, (offset, on, outside) in enumerate(zip(strip.offsets, strip.mask, strip.outside, strict=True)):
                row, column = divmod(lane, columns)
                left = offset * PITCH if self.aligned else x + column * PITCH
                self._lane(left, top + row * PITCH, offset, program, on, outside)
            height = max(height, top - self.y + rows * PITCH)
            x += wide + 14
        self.y += height + 8

    def _lane(self, x, y, offset, program, on, outside):
        color = "out-of-bounds" if outside else self._color({program})
        if on:
            self._square(x, y, offset, color, fill="currentColor", opacity=0.12, radius=9, stroke=2 if outside else 1.5)
        else:
            self.hatches.add(color)
            self._square(x, y, offset, color, fill=f"url(#{self.id}-{color})", radius=9, dashed=True)

    def _tensor(self, tensor: Tensor):
        self._heading(tensor.name, f"{_size(tensor)} of {tensor.dtype}, {_verb(tensor)}", font="mono")
        lines = list(tensor.rows)
        if self.aligned:  # squares beyond the end stand right behind it
            lines[0] = lines[0] + tensor.outside
        elif len(lines) == 1 and len(lines[0]) > COLUMNS:
            lines = _broken(lines[0])
        if not self.aligned:
            lines += _broken(tensor.outside)
        for number, line in enumerate(lines):
            for column, offset in enumerate(line):
                self._element((offset if self.aligned else column) * PITCH, self.y, offset, tensor)
            self.y += PITCH
            owners = [_owner(tensor, offset) for offset in line]
            following = [_owner(tensor, o) for o in lines[number + 1]] if number + 1 < len(lines) else None
            # Lines that belong to the same programs share the labels below the last of them.
            if owners != following:
                self._labels(line, owners)
        self.y += 8

    def _element(self, x, y, offset, tensor):
        kind, programs = _owner(tensor, offset)
        color = self._color(programs) if kind == "touched" else "out-of-bounds"
        if kind in ("not written", "not read"):
            self._square(x, y, offset, "untouched", fill="currentColor", stroke=0)
        elif offset in tensor.stores:
            self._square(x, y, offset, color, fill="currentColor", opacity=0.42, stroke=2)
        else:
            self._square(x, y, offset, color, stroke=2)

    def _labels(self, line: list[int], owners: list[tuple]):
        """Under each run of squares with one owner, a line in its color and its name."""
        beyond = False
        for (kind, programs), run in itertools.groupby(range(len(line)), key=lambda i: owners[i]):
            run = list(run)
            first, last = ((line[i] if self.aligned else i) for i in (run[0], run[-1]))
            start, end = first * PITCH + 1, last * PITCH + 1 + SIDE
            names = ", ".join(self.pids[p] for p in sorted(programs))
            color = "ink-muted" if kind.startswith("not") else "out-of-bounds"
            if kind == "touched":
                color = self._color(programs)
            labels = {"not written": ["not written", "none"], "not read": ["not read", "none"]}.get(
                kind,
                [f"program{_plural(programs)} {names}", f"pid {names}", names]
                + ([names.strip("()").replace(" ", "")] if len(programs) == 1 else [f"{len(programs)}×"]),
            )
            label = next((text for text in labels if 6.4 * len(text) <= end - start + 4), labels[-1])
            self.parts.append(f'<path d="M{start:g} {self.y + 2}H{end:g}" stroke="var(--{color})" stroke-width="2"/>')
            middle = (start + end) / 2
            self._text(middle, self.y + 15, label, size=11, anchor="middle", fill="ink-muted")
            if kind == "out of bounds":
                beyond = True
                x, anchor = (end, "end") if end > 110 else (start, "start")
                self._text(x, self.y + 29, kind, size=11.5, anchor=anchor, fill="out-of-bounds", weight=600)
        self.y += 34 if beyond else 20


def _owner(tensor: Tensor, offset: int) -> tuple[str, frozenset]:
    """What became of an element: whether it was touched, and by which programs. A store counts for more than a load."""
    programs = frozenset(tensor.stores.get(offset) or tensor.loads.get(offset) or ())
    if offset not in tensor.offsets:
        return "out of bounds", programs
    if programs:
        return "touched", programs
    return ("not written" if tensor.stores else "not read"), programs


def _notes(strip: Strip) -> list[tuple[str, bool]]:
    """What is special about the lanes of a strip, in words, and whether it is a fault."""
    off = [lane for lane, on in enumerate(strip.mask) if not on]
    outside = [lane for lane, out in enumerate(strip.outside) if out]
    notes = []
    if off:
        every = len(off) == len(strip.mask)
        which = (
            f"lane{_plural(off)} {_each(off)}"
            if _each(off).count(",") < 3
            else f"{len(off)} of {len(strip.mask)} lanes"
        )
        notes.append(("all lanes masked off" if every else f"{which} masked off", False))
    if outside:
        notes.append((f"lane{_plural(outside)} {_each(outside)} out of bounds", True))
    return notes


def _are(values) -> str:
    return "is" if len(values) == 1 else "are"


def _size(tensor: Tensor) -> str:
    if len(tensor.shape) > 1:
        return " × ".join(map(str, tensor.shape)) + " elements"
    count = prod(tensor.shape)
    return f"{count} element{'' if count == 1 else 's'}"


def _verb(tensor: Tensor) -> str:
    verbs = [word for word, touched in (("loaded", tensor.loads), ("stored", tensor.stores)) if touched]
    return " and ".join(verbs) or "not touched"
