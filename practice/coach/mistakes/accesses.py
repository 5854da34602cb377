# SPDX-License-Identifier: Apache-2.0
"""Look at the accesses of a launch; the rules of the other modules share these."""

import numpy as np

from ..record import Access


def siblings(access: Access) -> dict[int, list[Access]]:
    """Return the accesses of every program in the same line, by program."""
    groups: dict[int, list[Access]] = {}
    for other in access.launch.accesses:
        if other.line == access.line and other.op == access.op and other.region is access.region:
            groups.setdefault(other.program, []).append(other)
    return groups


def all_the_same(access: Access) -> bool:
    """Return whether every program of the launch works on the same offsets."""
    programs = [np.concatenate([a.offsets for a in many]) for many in siblings(access).values()]
    return len(programs) > 1 and all(np.array_equal(programs[0], offsets) for offsets in programs[1:])


def lies_between_elements(trouble) -> bool:
    """Return whether the offset lies in the tensor, in a gap between its elements."""
    return 0 <= trouble.access.offsets[trouble.lane] < trouble.access.region.span


def steps_of(access: Access) -> tuple[int, int] | None:
    """Return how far the offsets of a tile move along each of its axes, where that is the same everywhere."""
    if len(access.shape) != 2 or min(access.shape) < 2:
        return None
    lanes = access.offsets.reshape(access.shape)
    steps = np.diff(lanes, axis=0), np.diff(lanes, axis=1)
    return None if any((step != step[0, 0]).any() for step in steps) else tuple(int(step[0, 0]) for step in steps)


def stores_of(run):
    return [access for launch in run.launches for access in launch.accesses if access.op == "store"]
