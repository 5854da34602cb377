# SPDX-License-Identifier: Apache-2.0
"""The picture of a launch: the lanes of each program, and below them the elements of each tensor."""

import itertools
import textwrap

from markupsafe import Markup

from figures import svg
from figures.accesses.canvas import GAP, PITCH, SIDE, Canvas
from figures.accesses.reading import Program, Strip, Tensor, described, read
from figures.words import plural
from recorder.project import RecorderError
from recorder.recording import Launch

COLUMNS = 12  # as many squares as fit side by side on a phone (358 px)
WRAPPED = 8  # where lines of more squares than that are broken: a power of two, as blocks are
LARGEST = 512  # squares that one picture may have and still be read
LETTER = 7.3  # width of a letter of a label, which is set in the face of code


def picture(launch: Launch, tensors: list[str] | None = None) -> Markup:
    """Draw a launch as one ``<svg>``; ``tensors``: the arguments to draw, in this order, all by default.

    Raises ``RecorderError`` if it has no recorded accesses, no tensor of such a name, or is too large to be legible.
    """
    programs, shown = legible(launch, tensors)
    return _Drawing(programs, shown).draw(title_of(launch, programs))


def pictures(launch: Launch, tensors: list[str] | None = None) -> list[list[Markup]]:
    """Draw a launch as :func:`picture` does; where lanes do not stand above their elements anyway, as pictures of its
    programs and of its tensors, which a page has side by side: each line in its own list, or all in one if they are
    two. Programs of a grid of two axes stay one picture, in which they keep their places."""
    programs, shown = legible(launch, tensors)
    title = title_of(launch, programs)
    if (whole := _Drawing(programs, shown)).aligned:
        return [[whole.draw(title)]]
    touches, touched = f"{title}: what each program touches", f"{title}: who touches each element"
    if whole.columns or len(programs) == 1:
        first = [_Drawing(programs, shown).draw(touches, tensors=False)]
    else:
        each = [(program, _Drawing([program], shown, aligned=False)) for program in programs]
        first = [drawing.draw(f"{touches}, {program.label}", tensors=False) for program, drawing in each]
    each = [(tensor, _Drawing(programs, [tensor], aligned=False)) for tensor in shown]
    second = [drawing.draw(f"{touched}, {tensor.name}", programs=False) for tensor, drawing in each]
    return [first + second] if len(first) == len(second) == 1 else [first, second]


def aligned(programs: list[Program], tensors: list[Tensor]) -> bool:
    """Return whether each lane can stand right above the element that it touches."""
    return _Drawing(programs, tensors).aligned


def legible(launch: Launch, tensors: list[str] | None) -> tuple[list[Program], list[Tensor]]:
    """Return the programs and the tensors of a launch, if they are few enough to be drawn. Raise ``RecorderError``."""
    programs, shown = read(launch, tensors)
    strips = [strip for program in programs for strip in program.strips]
    if (squares := sum(len(part.offsets) for part in [*shown, *strips])) > LARGEST:
        raise RecorderError(f"{launch.kernel}: a picture of {squares} squares is not legible; at most {LARGEST} are")
    return programs, shown


def title_of(launch: Launch, programs: list[Program]) -> str:
    return f"The memory accesses of {launch.kernel}, launched as {plural(len(programs), 'program')}"


class _Drawing(Canvas):
    """Lays squares out from top to bottom, collecting elements; ``y`` is where the next one goes."""

    def __init__(self, programs: list[Program], tensors: list[Tensor], aligned: bool | None = None):
        super().__init__()
        self.programs, self.tensors = programs, tensors
        self.words = self.x = self.y = 0
        self.strips = [strip for program in programs for strip in program.strips]
        every = [offset for part in [*self.strips, *tensors] for offset in part.offsets]
        flat = all(len(part.shape) == 1 for part in [*self.strips, *tensors])
        # Where all offsets fit side by side, a lane stands right above the element that it touches.
        fits = flat and bool(every) and min(every) >= 0 and max(every) < COLUMNS
        self.aligned = fits if aligned is None else aligned
        self.end = self._end()

    def _end(self) -> int | None:
        """Return the offset at which all tensors end, if lanes stand beyond it: a line is drawn there."""
        if not self.aligned or len({tuple(tensor.shape) for tensor in self.tensors}) != 1:
            return None
        end, last = self.tensors[0].shape[0], max((max(strip.offsets) for strip in self.strips), default=-1)
        return end if end <= last else None

    def draw(self, title: str, *, programs=True, tensors=True) -> Markup:
        if programs:
            self._programs()
            self.y += 6
        for tensor in self.tensors if tensors else ():
            self._tensor(tensor)
        width = max(self.width, 300 if programs and tensors else self.words) + 2
        return svg.picture(
            self.id, title, described(self.programs if programs else [], self.tensors if tensors else []),
            self._patterns(), *self.parts,
            class_="launch-picture", viewBox=f"-2 0 {svg.number(width)} {self.y}", width=f"{width / 16:g}em",
            style=f"--width: {width / 16:g}em; flex-grow: {width / 16:g}",
        )  # fmt: skip

    def _heading(self, bold: str, note: str = "", warning: str = "", *, font="sans", halo=0):
        """Draw a line of text: bold, then muted, then red."""
        spans = [
            svg.element("tspan", text, fill=f"var(--{ink})", **face)
            for text, ink, face in (
                (bold, "ink", {"font_size": 12.5, "font_weight": 600, "font_family": f"var(--{font})"}),
                (note, "ink-muted", {"font_size": 12, "font_weight": 400, "font_family": "var(--sans)"}),
                (warning, "out-of-bounds", {"font_size": 12, "font_weight": 600, "font_family": "var(--sans)"}),
            )
            if text
        ]
        self.words = max(self.words, self.x + 8 * len(bold) + 6.4 * len(note + warning) + 16)
        around = {**svg.HALO, "stroke_width": halo} if halo else {}
        line = {"font_size": 12, "xml:space": "preserve"}  # the spaces between, too, or the page's size makes it taller
        self.parts.append(svg.element("text", Markup("  ").join(spans), x=self.x, y=self.y + 12, **line, **around))
        self.y += 19

    # ---- Programs ----

    def _programs(self):
        line = self.end is not None
        if line:
            x, left = self.end * PITCH, self.end * PITCH > 120
            anchor = "end" if left else "start"
            self._text(x - 6 if left else x + 6, 11, "the tensors end here", size=12, ink="ink-muted", anchor=anchor)
            self.y += 16
        behind, top, bottom = len(self.parts), self.y, self.y
        widths, columns = self.widths, self.columns
        for number, (program, width) in enumerate(zip(self.programs, widths, strict=True)):
            if columns:
                width, full = columns[number % len(columns)], number % len(columns) == 0
            else:
                full = self.aligned or self.x + width > COLUMNS * PITCH
            if self.x and full:
                self.x, top = 0, bottom
            self.y = top
            broken = max(COLUMNS * PITCH, *(_wide(strip, _label(strip, program)) for strip in program.strips), 0)
            if self.aligned or len(self.programs) > 1:  # else what is drawn is as wide as the picture
                self.width = max(self.width, self.x + min(width, broken))
            self._program(program)
            bottom = max(bottom, self.y)
            self.x += width + GAP
        self.x, self.y = 0, bottom
        if line:
            stroke = {"stroke": "var(--ink-muted)", "stroke_dasharray": "4 3", "fill": "none"}
            path = svg.element("path", d=f"M{x - 0.5:g} 2V{self.y - 4:g}", **stroke)
            self.parts.insert(behind, path)  # what a program's heading says may reach across the line

    @property
    def widths(self) -> list[float]:
        return [self._width(program) for program in self.programs]

    @property
    def columns(self) -> list[float]:
        """Return the width of each column of a grid of two axes, if all of them fit side by side; else none."""
        pids = [program.label.strip("()").split(", ") for program in self.programs]
        if self.aligned or not pids or len(pids[0]) != 2:
            return []
        across, widths = len({pid[0] for pid in pids}), self.widths
        columns = [max(widths[column::across]) for column in range(across)]
        return columns if sum(columns) + GAP * (across - 1) <= COLUMNS * PITCH else []

    def _width(self, program: Program) -> float:
        """Return the width of a program's lanes, with the text above them, on one line."""
        notes = [sum(7 * len(note) + GAP for note in strip.notes if note) - GAP for strip in program.strips]
        lanes = sum(_wide(strip, _label(strip, program)) + GAP for strip in program.strips) - GAP
        return max(8 * len(f"program {program.label}"), lanes, *notes, 0)

    def _program(self, program: Program):
        fine, bad = ("", "") if program.strips else ("no access", "")
        if len(program.strips) == 1:
            fine, bad = program.strips[0].notes
        if self.aligned:
            self._heading(f"program {program.label}", fine, bad, halo=8 * (self.end is not None))
        else:  # programs may stand side by side: the text about one goes below its name
            self._heading(f"program {program.label}")
            if fine or bad:
                self.y -= 4
                self._heading("", fine, bad)
        x, height = self.x, 0
        for strip in program.strips:
            columns, label = _columns(strip), _label(strip, program)
            wide = _wide(strip, label)
            if x > self.x and (self.aligned or x + wide > COLUMNS * PITCH):
                x, self.y, height = self.x, self.y + height + 4, 0
            top = self.y
            for line in label:
                self._text(x, top + 10, line, size=12, font="mono", ink="ink-muted")
                top += 14
            rows = _rows(strip, columns, self.aligned)
            for lane, (offset, on, outside) in enumerate(zip(strip.offsets, strip.mask, strip.outside, strict=True)):
                left = offset * PITCH if self.aligned else x + lane % columns * PITCH
                color = "out-of-bounds" if outside else svg.pid(program.number)
                self._lane(left, top + rows[lane] * PITCH, offset, color, on, outside)
            height = max(height, top - self.y + (max(rows, default=-1) + 1) * PITCH)
            self.width = max(self.width, x + wide)
            x += wide + GAP
        self.y += height + 8

    def _lane(self, x, y, offset, color, on, outside):
        if on:
            self._square(x, y, offset, color, fill="currentColor", opacity=0.12, radius=9, stroke=2 if outside else 1.5)
        else:
            self._hatched(x, y, offset, color, radius=9)

    # ---- Tensors ----

    def _tensor(self, tensor: Tensor):
        self._heading(tensor.name, f"{tensor.size} of {tensor.dtype}, {tensor.verb}", font="mono")
        lines = tensor.rows
        if self.aligned:  # squares beyond the end stand right behind it
            lines = [lines[0] + tensor.outside]
        else:
            lines = _broken(lines[0]) if len(lines) == 1 and len(lines[0]) > COLUMNS else lines
            lines = lines + _broken(tensor.outside)
        owners = [[tensor.owner(offset) for offset in line] for line in lines]
        for line, own, following in zip(lines, owners, [*owners[1:], None], strict=True):
            for column, (offset, (kind, programs)) in enumerate(zip(line, own, strict=True)):
                self._element(offset if self.aligned else column, offset, kind, programs, offset in tensor.stores)
            self.y += PITCH
            # Lines that belong to the same programs share the labels below the last of them.
            if own != following:
                self._labels(line, own)
        self.y += 8

    def _element(self, column: int, offset: int, kind: str, programs: frozenset[int], stored: bool):
        if kind.startswith("not"):
            style = {"color": "untouched", "fill": "currentColor", "stroke": 0}
        else:
            style = {"color": _color(kind, programs), "stroke": 2}
            style |= {"fill": "currentColor", "opacity": 0.42} if stored else {}
        self._square(column * PITCH, self.y, offset, **style)

    def _labels(self, line: list[int], owners: list[tuple[str, frozenset[int]]]):
        """Under each run of squares with one owner, a line in its color and its name."""
        beyond = False
        for (kind, programs), run in itertools.groupby(range(len(line)), key=lambda i: owners[i]):
            run = list(run)
            first, last = (line[i] if self.aligned else i for i in (run[0], run[-1]))
            start, end = first * PITCH + 1, last * PITCH + 1 + SIDE
            names = self._names(kind, programs)
            name = next((name for name in names if 6.4 * len(name) <= end - start + 4), names[-1])
            path = f"M{start:g} {self.y + 2}H{end:g}"
            self.parts.append(svg.element("path", d=path, stroke=f"var(--{_color(kind, programs)})", stroke_width=2))
            self._text((start + end) / 2, self.y + 15, name, size=12, anchor="middle", ink="ink-muted")
            if kind == "out of bounds":
                beyond = True
                x, anchor = (end, "end") if end > 110 else (start, "start")
                self._text(x, self.y + 29, kind, size=12, anchor=anchor, ink="out-of-bounds", weight=600)
        self.y += 34 if beyond else 20

    def _names(self, kind: str, programs: frozenset[int]) -> list[str]:
        """Return the names of an owner, the longest first."""
        if kind.startswith("not"):
            return [kind, "none"]
        labels = [self.programs[number].label for number in sorted(programs)]
        names, many = ", ".join(labels), len(labels) > 1
        shortest = [f"{len(labels)}×"] if many else [names.strip("()").replace(" ", "")]
        return [f"program{'s' * many} {names}", f"pid {names}", names, *shortest]


def _columns(strip: Strip) -> int:
    columns = strip.shape[-1] if strip.shape else 1
    return columns if columns <= COLUMNS else WRAPPED


def _rows(strip: Strip, columns: int, aligned: bool) -> list[int]:
    """Return the row of each lane. Lanes above one element stand one below the other: each of them can be seen."""
    if not aligned:
        return [lane // columns for lane in range(len(strip.offsets))]
    return [strip.offsets[:lane].count(offset) for lane, offset in enumerate(strip.offsets)]


def _label(strip: Strip, program: Program) -> list[str]:
    """Return the names of what a strip touches, where its program has several, on as many lines as they take."""
    if len(program.strips) == 1:
        return []
    names = ", ".join(dict.fromkeys(name for _, name in strip.accesses))
    return textwrap.wrap(names, int(COLUMNS * PITCH / LETTER), break_long_words=False)


def _wide(strip: Strip, label: list[str]) -> float:
    return max(_columns(strip) * PITCH, *(LETTER * len(line) for line in label), 0)


def _broken(line: list[int]) -> list[list[int]]:
    return [line[i : i + WRAPPED] for i in range(0, len(line), WRAPPED)]


def _color(kind: str, programs: frozenset[int]) -> str:
    """Return the color of an owner. Elements that several programs touch, or none, have none of their colors."""
    if kind == "out of bounds":
        return "out-of-bounds"
    return svg.pid(min(programs)) if len(programs) == 1 else "ink-muted"
