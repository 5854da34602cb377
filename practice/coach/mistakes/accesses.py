# SPDX-License-Identifier: Apache-2.0
"""Look at the accesses of a launch; the rules of the other modules share these."""

from collections.abc import Iterator
from math import prod

from ..launch import Access


def siblings(access: Access) -> dict[int, list[Access]]:
    """Return the accesses of every program in the same line, by program."""
    groups: dict[int, list[Access]] = {}
    for other in access.launch.accesses:
        if other.line == access.line and other.op == access.op and other.region is access.region:
            groups.setdefault(other.program, []).append(other)
    return groups


def all_the_same(access: Access) -> bool:
    """Return whether every program of the launch works on the same offsets."""
    programs = [[offset for a in many for offset in a.offsets] for many in siblings(access).values()]
    return len(programs) > 1 and all(offsets == programs[0] for offsets in programs[1:])


def lies_between_elements(trouble) -> bool:
    """Return whether the offset lies in the tensor, in a gap between its elements."""
    return 0 <= trouble.access.offsets[trouble.lane] < trouble.access.region.span


def steps_along(access: Access, axis: int) -> Iterator[int]:
    """Yield how far the offset moves from each lane of a block to the next one along an axis."""
    apart, count = prod(access.shape[axis + 1 :]), access.shape[axis]
    for lane in range(len(access.offsets)):
        if lane // apart % count < count - 1:
            yield access.offsets[lane + apart] - access.offsets[lane]


def steps_of(access: Access) -> tuple[int, int] | None:
    """Return how far the offsets of a tile move along each of its axes, where that is the same everywhere."""
    if len(access.shape) != 2 or min(access.shape) < 2:
        return None
    rows, columns = ({*steps_along(access, axis)} for axis in (0, 1))
    return (*rows, *columns) if len(rows) == len(columns) == 1 else None


def lit(access: Access, axis: int) -> list[int]:
    """Return the rows (axis 0) or columns (1) of a tile in which a lane is on."""
    return sorted({lane // access.shape[1] if axis == 0 else lane % access.shape[1] for lane in access.on()})


def is_corner(access: Access, rows: int, columns: int) -> bool:
    """Return whether just the lanes of a tile's first rows and columns are on."""
    wide = access.shape[1]
    return all(on == (lane // wide < rows and lane % wide < columns) for lane, on in enumerate(access.mask))


def stores_of(run):
    return [access for launch in run.launches for access in launch.accesses if access.op == "store"]
