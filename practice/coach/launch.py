# SPDX-License-Identifier: Apache-2.0
"""Hold what was recorded of a call: launches, accesses, memory. Needs no torch and no NumPy.

``record`` fills this in from Triton's interpreter, and the site's model of Triton from its own memory. What judges it,
explains it and draws it is the same for both, and asks for nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol


class Region(Protocol):
    """One tensor in memory of its own, and what kernels did to its elements. An offset counts from the first of them;
    elements are numbered row by row."""

    tensor: Any  # as it was made
    name: str
    given: bool  # whether it is an input
    size: int  # bytes of an element
    base: int  # its address
    span: int  # how many offsets there are, with those between elements

    def element(self, offset: int) -> int:
        """Return the number of the element at an offset, or -1 between elements."""

    def storer(self, offset: int) -> int:
        """Return the program of the last launch that stored it, or -1."""

    def stored(self) -> bool:
        """Return whether a kernel stored anything."""

    def missed(self) -> list[int]:
        """Return the offsets of elements that no kernel stored."""

    def reads(self) -> list[int]:
        """Return how often each element was loaded, by its number."""

    def altered(self, offsets: list[int]) -> bool:
        """Return whether something else changed what kernels had stored there."""


@dataclass
class Access:
    """One load, store or atomic of one program. Sequences are flat, an entry a lane."""

    launch: "Launch"
    program: int  # counted along x first
    op: str  # "load", "store" or "atomic"
    region: Region
    offsets: Sequence[int]  # in elements of the region's tensor
    mask: Sequence[bool]
    inside: Sequence[bool]  # which offsets are elements of the tensor
    shape: tuple[int, ...]
    line: int  # of the reader's file
    masked: bool  # whether a mask was given
    other: bool  # whether lanes that are off were given a value
    adds: bool = False  # whether an atomic adds, the others of which depend on no order

    @property
    def pid(self) -> tuple[int, ...]:
        return self.launch.pid(self.program)

    def on(self) -> list[int]:
        """Return the lanes that are on."""
        return [lane for lane, on in enumerate(self.mask) if on]

    def touched(self) -> list[int]:
        """Return the offsets of lanes that are on and have an element."""
        return [at for at, on, inside in zip(self.offsets, self.mask, self.inside, strict=True) if on and inside]


@dataclass
class Launch:
    kernel: str
    grid: tuple[int, int, int]
    names: dict[int, str]  # the kernel's parameter for a region, by the region's identity
    given: dict[str, Any] = field(default_factory=dict)  # what its other parameters were passed
    constants: dict[str, Any] = field(default_factory=dict)  # numbers of the file that are called as parameters are
    line: int = 0  # of the launch
    accesses: list[Access] = field(default_factory=list)

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def pid(self, program: int) -> tuple[int, ...]:
        x, y, _ = self.grid
        at = program % x, program // x % y, program // (x * y)
        return at[: max((axis + 1 for axis in range(3) if self.grid[axis] > 1), default=1)]


@dataclass
class Trouble:
    """An access that is not allowed: outside, twice, race (another program touched it), into an input, or unordered
    (another lane of the same program stored it, or loads what this one stores, and no barrier stands between)."""

    kind: str
    access: Access
    lane: int
    other: int | None = None  # the other program


def index_of(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return an element's index by its number.

    >>> index_of(7, (2, 5))
    (1, 2)
    """
    at = []
    for n in reversed(shape):
        number, i = divmod(number, n)
        at.append(i)
    return tuple(reversed(at))


def number_of(at: Sequence[int], shape: Sequence[int]) -> int:
    """Return an element's number by its index.

    >>> number_of((1, 2), (2, 5))
    7
    """
    number = 0
    for i, n in zip(at, shape, strict=True):
        number = number * n + i
    return number


def offsets_of(region: Region, tensor: Any, numbers: Sequence[int]) -> list[int]:
    """Return the offsets in a region of elements of a tensor that lies there."""
    strides, shape = tensor.stride(), tensor.shape
    start = (tensor.data_ptr() - region.base) // region.size
    return [start + sum(i * s for i, s in zip(index_of(n, shape), strides, strict=True)) for n in numbers]


def called(name: str) -> str:
    """Return what a sentence calls a result."""
    return {"out": "the result", "out[1]": "the second result", "out[2]": "the third result"}.get(name, name)


def is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr")


def numbers(tensor: Any) -> list:
    """Return a tensor's numbers, row by row."""
    return tensor.detach().flatten().tolist()
