# SPDX-License-Identifier: Apache-2.0
"""Hold what tensors store, in one flat address space; check each access, and record it.

Between two allocations lie addresses that belong to none, so that a pointer that leaves its tensor touches nothing.
"""

import math
import operator
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .dtypes import dtype

ALIGNED, GUARD = 512, 1 << 16  # bytes: of an allocation's address; between two allocations, at least
LARGEST = 1 << 28  # bytes of a tensor
SMALL = 2048  # elements of a tensor of which each step can be shown
POISON = 0xFF  # a NaN of each floating-point type
WORDS = {"load": "reads", "store": "writes", "atomic": "changes"}


class Allocation:
    """Some bytes at an address. ``elements``, if given, says which of them belong to the tensor: none in its gaps."""

    def __init__(self, address: int, data: bytearray, elements: frozenset[int] | None = None):
        self.address, self.data, self.elements = address, data, elements
        self._views: dict[str, memoryview] = {}

    def view(self, code: str) -> memoryview:
        """Return the bytes as elements; what is left over at the end, too short for one, is not there."""
        if code not in self._views:
            whole = memoryview(self.data)
            size = whole[:0].cast(code).itemsize
            self._views[code] = whole[: len(self.data) // size * size].cast(code)
        return self._views[code]


@dataclass(frozen=True)
class Origin:
    """Where offsets of a pointer count from: an element of an allocation, and whose argument it was."""

    name: str
    allocation: Allocation
    start: int  # in elements
    of: dtype
    shape: tuple[int, ...] = ()

    def values(self) -> list:
        """Return the elements from the first on, as far as the memory goes."""
        return self.of.decode(list(self.allocation.view(self.of.code)[self.start :]))

    def address(self, size: int) -> int:
        return self.allocation.address + self.start * size


@dataclass
class Access:
    """One load, store or atomic of one program; lists have an entry a lane. ``mask`` is None where none was given."""

    launch: "Launch | None"
    program: tuple[int, int, int]
    op: str
    line: int  # of the kernel's file
    name: str  # the argument, or "?" for a pointer that was made of a number
    offsets: list[int]  # in elements, from the argument's first
    mask: list[bool] | None
    shape: tuple[int, ...]
    outside: list[int] = field(default_factory=list)  # active lanes that point to no element
    origin: Origin | None = None  # from where offsets count
    barrier: int = 0  # how many barriers came before it
    other: bool = False  # whether lanes that are off were given a value
    adds: bool = False  # whether an atomic operation adds
    values: list = field(default_factory=list)  # that were loaded, or stored, or are there after an atomic operation


@dataclass
class Launch:
    """One launch of a kernel, and what its programs did, in their order."""

    kernel: str
    grid: tuple[int, int, int]
    line: int  # that launched it
    arguments: list[str]
    given: dict[str, Any] = field(default_factory=dict)  # what its parameters were passed, but for tensors
    constants: dict[str, Any] = field(default_factory=dict)  # numbers of the file that are called as parameters are
    origins: dict[str, Origin] = field(default_factory=dict)  # of its tensors, by name
    accesses: list[Access] = field(default_factory=list)
    before: dict[str, list] = field(default_factory=dict)  # what small tensors held, by name


class OutOfBounds(IndexError):
    """An active lane points to no element of the tensor. ``access`` and ``lane`` say which."""

    def __init__(self, access: Access, lane: int, size: int):
        self.access, self.lane, self.offset = access, lane, access.offsets[lane]
        pid = access.program
        pid = pid[0] if pid[1:] == (0, 0) else pid
        if self.offset < 0:
            where = "before its first element"
        elif self.offset >= size:
            where = f"and its last element is at {size - 1}" if size else "and it has no element"
        else:
            where = "which is between its elements"
        mask = "which is on, because there is no mask" if access.mask is None else "and its mask is on"
        super().__init__(
            f"program {pid} {WORDS[access.op]} {access.name} at offset {self.offset}, {where}. "
            f"It is lane {lane}, {mask} (line {access.line})."
        )


class Memory:
    """The address space. ``fill`` is the byte of fresh memory; ``strict`` says whether a stray access raises."""

    def __init__(self):
        self.reset()

    def reset(self, fill: int = 0, strict: bool = True, record: bool = False):
        """Begin anew: fresh memory of ``fill`` (0, or POISON), raise at stray accesses or note them, record or not."""
        self.fill, self.strict, self.record = fill, strict, record
        self.next = 1 << 32  # beyond what an int32 holds, as on a GPU
        self.addresses: list[int] = []
        self.known: weakref.WeakValueDictionary[int, Allocation] = weakref.WeakValueDictionary()
        self.launches: list[Launch] = []
        self.troubles: list[OutOfBounds] = []
        self.launch: Launch | None = None  # which is running
        self.program = (0, 0, 0)
        self.barriers = 0  # how many were passed
        self.tf32 = 0  # the first line in which a product is rounded as a GPU rounds it
        self.line = lambda: 0

    def allocate(self, data: bytearray, elements: frozenset[int] | None = None) -> Allocation:
        made = Allocation(self.next, data, elements)
        self.addresses.append(made.address)
        self.known[made.address] = made
        self.next += -(-(len(data) + GUARD) // ALIGNED) * ALIGNED
        return made

    def fresh(self, size: int) -> Allocation:
        """Allocate bytes that nobody has written yet."""
        if size > LARGEST:
            raise MemoryError(f"{size:,} bytes are more than a browser's Python should take: {LARGEST:,}")
        return self.allocate(bytearray(bytes([self.fill]) * size))

    def find(self, address: int) -> Allocation | None:
        at = bisect_right(self.addresses, address) - 1
        found = self.known.get(self.addresses[at]) if at >= 0 else None
        return found if found and address < found.address + len(found.data) else None

    @contextmanager
    def launching(self, launch: Launch) -> Iterator[None]:
        before = self.launch, self.program, self.line
        self.launch = launch
        self.launches.append(launch)
        if self.record:
            small = (each for each in launch.origins.values() if math.prod(each.shape) <= SMALL)
            launch.before = {each.name: each.values() for each in small}
        try:
            yield
        finally:
            self.launch, self.program, self.line = before

    # Accesses

    def _access(self, op: str, pointers, mask):
        """Return the view, the index of each lane, the mask with strays off, and the access; check and record it."""
        of = pointers.dtype.element_ty
        size, offsets, origin = of.size, pointers.data, pointers.dtype.origin
        if origin is None:
            first = next((a for a, on in zip(offsets, mask or [True] * len(offsets), strict=True) if on), 0)
            allocation = self.find(first) or Allocation(0, bytearray())
            if any(a % size for a, on in zip(offsets, mask or [True] * len(offsets), strict=True) if on):
                raise ValueError(f"misaligned address: a pointer to {of} is no multiple of {size} bytes")
            known = [o for o in self.launch.origins.values() if o.allocation is allocation] if self.launch else []
            name = known[0].name if known else "?"
            same = (each for each in known if each.of.size == size)
            origin = next(same, None) or Origin(name, allocation, 0, of, (len(allocation.data) // size,))
            start = origin.start
            offsets = [(a - origin.address(size)) // size for a in offsets]
        else:
            allocation, start, name = origin.allocation, origin.start, origin.name
        index = [i + start for i in offsets] if start else offsets
        view = allocation.view(of.code)
        active = index if mask is None else [i for i, on in zip(index, mask, strict=True) if on]
        holes = allocation.elements
        fits = not active or (
            min(active) >= 0 and max(active) < len(view) and (holes is None or holes.issuperset(active))
        )
        outside, access = [], None
        if not fits:
            held = range(len(view)) if holes is None else holes
            on = mask or [True] * len(index)
            outside = [lane for lane, i in enumerate(index) if on[lane] and i not in held]
        if self.record or outside:
            shape = tuple(pointers.shape)
            access = Access(self.launch, self.program, op, self.line(), name, offsets, mask, shape, outside, origin,
                            self.barriers)  # fmt: skip
            if self.record and self.launch is not None:
                self.launch.accesses.append(access)
            if outside:
                trouble = OutOfBounds(access, outside[0], len(view) - start)
                if self.strict:
                    raise trouble
                self.troubles.append(trouble)
                mask = list(mask or [True] * len(index))
                for lane in outside:
                    mask[lane] = False
        return view, index, mask, access

    def load(self, pointers, mask: list | None, other: list | None) -> list:
        """Return what active lanes point to. Others hold ``other``, or what is undefined: 0, or if poisoned, worse."""
        of = pointers.dtype.element_ty
        view, index, on, access = self._access("load", pointers, mask)
        if on is None:
            got = of.decode([view[i] for i in index])
            if access:
                access.values = got
            return got
        got = of.decode([view[i] if m else 0 for i, m in zip(index, on, strict=True)])
        if other is not None:
            got = [g if m else o for g, m, o in zip(got, on, other, strict=True)]
        elif self.fill and mask is not None and not all(mask):
            strange = undefined(of)
            for turn, lane in enumerate(lane for lane, m in enumerate(mask) if not m):
                got[lane] = strange[turn % len(strange)]
        if access:
            access.other = other is not None
            for lane in access.outside:
                got[lane] = of.from_bytes(bytes([self.fill]) * of.size)[0]
            access.values = got
        return got

    def store(self, pointers, values: list, mask: list | None):
        view, index, on, access = self._access("store", pointers, mask)
        if access:
            access.values = list(values)
        values = pointers.dtype.element_ty.encode(values)
        if on is None:
            for i, value in zip(index, values, strict=True):
                view[i] = value
        else:
            for i, value, m in zip(index, values, on, strict=True):
                if m:
                    view[i] = value

    def update(self, pointers, values: list, mask: list | None, change) -> list:
        """Replace what each lane points to by ``change(old, value)``, lane by lane; return what was there."""
        of, olds = pointers.dtype.element_ty, []
        view, index, on, access = self._access("atomic", pointers, mask)
        for i, value, m in zip(index, values, on or [True] * len(index), strict=True):
            old = of.decode([view[i]])[0] if m else 0
            olds.append(old)
            if m:
                view[i] = of.encode(of.round([change(old, value)]))[0]
        if access:
            access.adds = change is operator.add
            access.values = [
                of.decode([view[i]])[0] if m else 0 for i, m in zip(index, on or [True] * len(index), strict=True)
            ]
        return olds


def undefined(of: dtype) -> list:
    """Return values for lanes that hold nothing in particular. NaN alone would not do: a maximum drops it."""
    if of.is_floating():
        quarter = {"fp32": (2 - 2.0**-23) * 2.0**125, "fp64": (2 - 2.0**-52) * 2.0**1021}  # of the largest
        large = ({"fp16": 65504 / 4, "bf16": 2.0**127} | quarter)[of.name]
        return [large, -large, math.nan]
    if of.is_int() and not of.is_bool():
        return [of.high // 4, of.low // 4]
    return of.from_bytes(bytes([POISON]) * of.size)


MEMORY = Memory()
load, store, update = (partial(getattr(Memory, name), MEMORY) for name in ("load", "store", "update"))
