# SPDX-License-Identifier: Apache-2.0
"""`<strides-explorer>`: matrices that are read from one line of memory, and the way to the element that was asked for.

Each view is a launch that reads a matrix by its strides. The offsets in its squares are those that the run loaded, by
row and column; the picture is refused if they are not ``row * stride_row + column * stride_column``. The script only
shows another view or another element.
"""

import itertools
from dataclasses import dataclass

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Launch, Recording

STEP = 40  # from one place in memory to the next, in the units of the drawing


@dataclass(frozen=True)
class View:
    """A matrix as strides make it from memory; ``before``: places of the memory in front of its first element."""

    name: str
    shape: tuple[int, int]
    strides: tuple[int, int]
    before: int
    places: int

    def offset(self, row: int, column: int) -> int:
        return row * self.strides[0] + column * self.strides[1]

    @property
    def offsets(self) -> set[int]:
        return {self.offset(*place) for place in itertools.product(*map(range, self.shape))}

    @property
    def memory(self) -> range:
        return range(-self.before, self.places - self.before)

    def jumps(self, row: int, column: int) -> list[tuple[str, int, int]]:
        """Return the way to an element: of what stride a jump is, where it begins and where it ends."""
        down = [("row", i * self.strides[0], (i + 1) * self.strides[0]) for i in range(row)]
        start = row * self.strides[0]
        across = [("column", start + i * self.strides[1], start + (i + 1) * self.strides[1]) for i in range(column)]
        return down + across


@figure(of="launches")
def strides(recording: Recording, *, views=..., row=2, column=3, id="strides"):
    """``views``: a name for each launch, with the ``launch``, the ``places`` in memory and how many lie ``before``."""
    read = [_view(recording, name, **view) for name, view in views.items()]
    first = read[0]
    if not (row < first.shape[0] and column < first.shape[1]):
        raise RecorderError(f"{first.name} has no row {row} and column {column}: its shape is {first.shape}")
    return render(
        "strides/template.html", id=id, views=read, first=first, row=row, column=column, step=STEP,
        rows=max(view.shape[0] for view in read), columns=max(view.shape[1] for view in read),
        most=max(view.places for view in read),
        ends={end for _, *both in first.jumps(row, column) for end in both},
        names={str(number): view.name for number, view in enumerate(read)},
    )  # fmt: skip


def _view(recording: Recording, name: str, *, launch: str, places: int, before: int = 0, tensor="x_ptr") -> View:
    seen = recording.traced(launch)
    argument = seen.arguments[tensor]
    view = View(name, tuple(argument["shape"]), tuple(argument["strides"]), before, places)
    if _loaded(seen, tensor) != view.offsets:
        raise RecorderError(f"{launch} loads other offsets than strides {view.strides} give for {view.shape}")
    if not view.offsets <= set(view.memory):
        raise RecorderError(f"{name} has elements beyond the {places} places of its memory")
    return view


def _loaded(seen: Launch, tensor: str) -> set[int]:
    accesses = [each for each in seen.accesses or () if (each.op, each.tensor) == ("load", tensor)]
    return {offset for each in accesses for offset in itertools.compress(each.offsets, each.mask)}
