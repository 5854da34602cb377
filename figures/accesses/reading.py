# SPDX-License-Identifier: Apache-2.0
"""Read the accesses of a launch: which lanes each program has, and which program touched which element."""

import itertools
from dataclasses import dataclass, field
from math import prod

from figures.words import numbered, plural, runs
from recorder.project import RecorderError
from recorder.recording import Launch


@dataclass
class Tensor:
    """One tensor of a launch: where its elements are and which programs loaded and stored each offset."""

    name: str
    dtype: str
    shape: list[int]
    strides: list[int]  # in elements
    loads: dict[int, set[int]] = field(default_factory=dict)  # offset -> programs, also beyond the tensor
    stores: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self):
        self.rows = self._rows()  # the offsets of its elements, as they are drawn
        self.offsets = {offset for row in self.rows for offset in row}

    def _rows(self) -> list[list[int]]:
        """Return one row for a vector, and one for each row of any other tensor."""
        if not self.shape:
            return [[0]]
        *leading, inner = self.strides
        places = itertools.product(*map(range, self.shape[:-1]))
        starts = [sum(i * stride for i, stride in zip(place, leading, strict=True)) for place in places]
        return [[start + i * inner for i in range(self.shape[-1])] for start in starts]

    @property
    def outside(self) -> list[int]:
        """Return the offsets beyond the tensor that were touched."""
        return sorted((self.loads.keys() | self.stores.keys()) - self.offsets)

    @property
    def untouched(self) -> set[int]:
        return self.offsets - self.loads.keys() - self.stores.keys()

    @property
    def size(self) -> str:
        if len(self.shape) > 1:
            return " × ".join(map(str, self.shape)) + " elements"
        return plural(prod(self.shape), "element")

    @property
    def verb(self) -> str:
        verbs = [word for word, touched in (("loaded", self.loads), ("stored", self.stores)) if touched]
        return " and ".join(verbs) or "not touched"

    def owner(self, offset: int) -> tuple[str, frozenset[int]]:
        """Return how an offset was touched, and by which programs. A store counts for more than a load."""
        programs = frozenset(self.stores.get(offset) or self.loads.get(offset) or ())
        if offset not in self.offsets:
            return "out of bounds", programs
        return "touched" if programs else "not written" if self.stores else "not read", programs


@dataclass
class Strip:
    """Lanes of one program that share offsets, mask and what is out of bounds, with the accesses that do."""

    shape: list[int]
    offsets: list[int]
    mask: list[bool]
    accesses: list[tuple[str, str]] = field(default_factory=list)  # ("load", "x_ptr"), …

    def __post_init__(self):
        self.outside = [False] * len(self.offsets)  # of each lane: not masked, and yet beyond a tensor

    def add(self, op: str, tensor: Tensor) -> None:
        if (op, tensor.name) not in self.accesses:
            self.accesses.append((op, tensor.name))
        for lane, (offset, on) in enumerate(zip(self.offsets, self.mask, strict=True)):
            self.outside[lane] |= on and offset not in tensor.offsets

    @property
    def strays(self) -> str:
        """Return the offsets out of bounds."""
        return runs(itertools.compress(self.offsets, self.outside))

    @property
    def notes(self) -> tuple[str, str]:
        """Describe the lanes in words: which are masked off, and which are at fault."""
        off = [lane for lane, on in enumerate(self.mask) if not on]
        outside = [lane for lane, out in enumerate(self.outside) if out]
        which = numbered("lane", off) if runs(off).count(",") < 3 else f"{len(off)} of {len(self.mask)} lanes"
        which = "all lanes" if len(off) == len(self.mask) else which
        return f"{which} masked off" if off else "", f"{numbered('lane', outside)} out of bounds" if outside else ""


@dataclass
class Program:
    number: int
    label: str  # its pid, such as "2" or "(1, 0)"
    strips: list[Strip] = field(default_factory=list)


def tensors_of(launch: Launch) -> dict[str, Tensor]:
    """Return the arguments of a launch that are tensors, before any access."""
    return {
        name: Tensor(name, value["dtype"], value["shape"], value["strides"])
        for name, value in launch.arguments.items()
        if isinstance(value, dict) and "shape" in value  # not a dtype
    }


def read(launch: Launch, names: list[str] | None = None) -> tuple[list[Program], list[Tensor]]:
    """Return a launch's programs, with their accesses to the named tensors (or all), and these. Raise RecorderError."""
    if launch.accesses is None:
        raise RecorderError(f"the accesses of this launch of {launch.kernel} were not recorded")
    tensors = tensors_of(launch)
    if unknown := [name for name in names or [] if name not in tensors]:
        raise RecorderError(f"{launch.kernel} has no tensor {unknown[0]!r}; it has {', '.join(tensors)}")
    tensors = {name: tensors[name] for name in names or tensors}
    axes = max([axis + 1 for axis, size in enumerate(launch.grid) if size > 1], default=1)
    programs, strips = {}, {}
    for number, pid in enumerate(itertools.product(*map(range, reversed(launch.grid)))):  # axis 0 is counted first
        pid = pid[::-1]
        programs[pid] = Program(number, str(pid[0]) if axes == 1 else f"({', '.join(map(str, pid[:axes]))})")
    for access in launch.accesses:
        if access.tensor not in tensors:
            continue
        program, tensor = programs[access.pid], tensors[access.tensor]
        touched = tensor.stores if access.op == "store" else tensor.loads
        for offset in itertools.compress(access.offsets, access.mask):
            touched.setdefault(offset, set()).add(program.number)
        lanes = zip(access.offsets, access.mask, strict=True)
        outside = [on and offset not in tensor.offsets for offset, on in lanes]
        key = access.pid, *map(tuple, (access.shape, access.offsets, access.mask, outside))
        if key not in strips:
            strips[key] = Strip(access.shape, access.offsets, access.mask)
            program.strips.append(strips[key])
        strips[key].add(access.op, tensor)
    return list(programs.values()), list(tensors.values())


def described(programs: list[Program], tensors: list[Tensor]) -> str:
    """Describe a launch in sentences."""
    sentences = []
    for program in programs:
        for strip in program.strips:
            accesses = ", ".join(f"{op} {name}" for op, name in strip.accesses)
            notes = "".join(f", {note}" for note in strip.notes if note) or ", no lane masked off"
            sentences.append(f"Program {program.label}: {accesses} at offsets {runs(strip.offsets)}{notes}.")
        if not program.strips:
            sentences.append(f"Program {program.label}: no access.")
    for tensor in tensors:
        sentences.append(f"{tensor.name} has {tensor.size}; {tensor.verb}.")
        if tensor.untouched:
            verb, word = "is" if len(tensor.untouched) == 1 else "are", "written" if tensor.stores else "read"
            sentences.append(f"Its {numbered('offset', tensor.untouched)} {verb} not {word}.")
        if tensor.outside:
            sentences.append(f"Offsets beyond its end that are touched all the same: {runs(tensor.outside)}.")
    return " ".join(sentences)
