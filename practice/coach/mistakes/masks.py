# SPDX-License-Identifier: Apache-2.0
"""Explain masks: lanes that are on without an element, or never on."""

import numpy as np

from .. import draw, source
from ..record import Access
from ..run import Run
from . import accesses


def joined_masks(run, trouble):
    if trouble.kind != "outside" or trouble.access.mask.size == 1:
        return None
    if not (operator := source.joined_masks(run.file, trouble.access.line)):
        return None
    symbol = "&" if operator[0] == "and" else "|"
    return f"Line {operator[1]} joins two masks with `{operator[0]}`, which keeps only one of them. Write `{symbol}`."


def no_mask(run, trouble):
    if trouble.kind != "outside" or accesses.lies_between_elements(trouble):
        return None
    if not trouble.access.masked and trouble.access.offsets.size == 1:
        return f"Line {trouble.access.line} has no mask. When is there no such element, and which condition says so?"
    if not trouble.access.masked:
        return f"Line {trouble.access.line} has no mask: what switches off the lanes that have no element?"
    if trouble.access.op == "atomic" and trouble.access.mask.all():  # masked, or not
        return f"Every lane of line {trouble.access.line} is on: which mask switches off those that have no element?"
    return None


def one_too_many(run, trouble):
    access = trouble.access
    if trouble.kind == "outside" and (access.offsets[access.mask & ~access.inside] == access.region.span).all():
        return (
            "Just one lane too many is on. Does your mask say `<=` where `<` is right? Or does it compare with one "
            "more than there are?"
        )
    return None


def beside_the_tile(run, trouble):
    """Explain rows or columns of a tile that are on, and that the matrix does not have."""
    access, tensor = trouble.access, trouble.access.region.tensor
    if trouble.kind != "outside" or len(access.shape) != 2 or tensor.ndim != 2 or min(access.shape) < 2:
        return None
    lanes, on, (row, column) = access.offsets.reshape(access.shape), access.mask.reshape(access.shape), tensor.stride()
    if (np.diff(lanes, axis=0) != row).any() or (np.diff(lanes, axis=1) != column).any() or lanes[0, 0] < 0:
        return None  # of other strides, or no tile of the matrix
    if row > column > 0:
        first = lanes[0, 0] // row, lanes[0, 0] % row // column
    elif column > row > 0:
        first = lanes[0, 0] % column // row, lanes[0, 0] // column
    else:
        return None
    for axis, what in ((1, "column"), (0, "row")):
        beyond = first[axis] + np.arange(on.shape[axis]) >= tensor.shape[axis]
        if (gone := np.flatnonzero(beyond & on.any(axis=1 - axis))).size:
            which = f"{what} {gone[0]}" if gone.size == 1 else f"{what}s {gone[0]} to {gone[-1]}"
            message = f"The mask is on in {which} of the tile, but {draw.name_of(access)} ends before that. "
            end, size = int(first[axis] + gone[-1] + 1), tensor.shape[axis]
            known = source.names_in_mask(run.file, access.line) if gone[-1] < on.shape[axis] - 1 else set()
            if other := [name for name in known if access.launch.given.get(name) == end]:
                message += f"It lets {end} {what}s pass, which is {other[0]}, but there are {size}: "
                return message + "compare with those."
            if known and end == size + 1:
                return message + "Does your mask say `<=` where `<` is right?"
            return message + f"Does the mask compare the {what}s, and in a loop those of this step?"
    return None


def mask_says_on(run, trouble):
    if trouble.kind == "outside":
        on = trouble.access.mask
        if on.size == 1:
            return "The mask is on. Does each index in this offset have its own stride, and is none counted twice?"
        which = "every lane" if on.all() else f"{int(on.sum())} of {on.size} lanes"
        message = f"The mask has {which} on. Does it compare the right offsets with the right length?"
        access = trouble.access
        if not (on & access.inside).any():
            if accesses.siblings(access)[access.program][0] is not access:
                return message + " Or does the loop end a step too late?"
            if access.program == access.launch.programs - 1 > 0:
                return message + " And does the launch have more programs than there is work?"
        many = len(trouble.access.shape) > 1
        return message + (" If so: is each index multiplied by its own stride?" if many else "")
    return None


def dark_load(run, name, at, got, want, owner, missed):
    """Explain a load of which no lane is on, in any program."""
    for launch in run.launches:
        lines: dict[int, list[Access]] = {}
        for access in launch.accesses:
            if access.op == "load" and access.region.given and (access.region.index >= 0).any():
                lines.setdefault(access.line, []).append(access)
        for line, loads in lines.items():
            if not any(access.mask.any() for access in loads):
                return f"No lane of the load on line {line} is on, in any program: what does its mask compare?", loads[
                    0
                ]
    return None


def undefined_load(run: Run, program: int | None = None) -> Access | None:
    """Return a load, of this program or of any, with lanes that are off and no `other`."""
    for launch in run.launches:
        for access in launch.accesses:
            if access.op == "load" and not access.other and not access.mask.all() and program in (None, access.program):
                return access
    return None


def undefined_memory(run, name, at, got, want, owner, missed):
    if not run.case.fill:
        return None
    if load := undefined_load(run):
        return (
            f"Line {load.line} loads without `other`. A lane that is off then holds an undefined value, and here that "
            "value reaches the result. Which value would change nothing?"
        )
    if any(access.op == "atomic" for launch in run.launches for access in launch.accesses):
        return "An atomic operation adds to what is there. Does the result begin as zeros?"
    return "The result depends on memory that nobody wrote. Is something read before it is stored, or never stored?"
