# SPDX-License-Identifier: Apache-2.0
"""Explain masks: lanes that are on without an element, or never on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import draw, source
from ..launch import Access
from . import accesses

if TYPE_CHECKING:
    from ..run import Run


def joined_masks(run, trouble):
    if trouble.kind != "outside" or len(trouble.access.mask) == 1:
        return None
    if not (operator := source.joined_masks(run.file, trouble.access.line)):
        return None
    symbol = "&" if operator[0] == "and" else "|"
    return f"Line {operator[1]} joins two masks with `{operator[0]}`, which keeps only one of them. Write `{symbol}`."


def no_mask(run, trouble):
    if trouble.kind != "outside" or accesses.lies_between_elements(trouble):
        return None
    if not trouble.access.masked and len(trouble.access.offsets) == 1:
        return f"Line {trouble.access.line} has no mask. When is there no such element, and which condition says so?"
    if not trouble.access.masked:
        return f"Line {trouble.access.line} has no mask: what switches off the lanes that have no element?"
    if trouble.access.op == "atomic" and all(trouble.access.mask):  # masked, or not
        return f"Every lane of line {trouble.access.line} is on: which mask switches off those that have no element?"
    return None


def one_too_many(run, trouble):
    access = trouble.access
    strays = [access.offsets[lane] for lane in access.on() if not access.inside[lane]]
    if trouble.kind == "outside" and {*strays} == {access.region.span}:
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
    (row, column), begins = tensor.stride(), access.offsets[0]
    if accesses.steps_of(access) != (row, column) or begins < 0:
        return None  # of other strides, or no tile of the matrix
    if row > column > 0:
        first = begins // row, begins % row // column
    elif column > row > 0:
        first = begins % column // row, begins // column
    else:
        return None
    for axis, what in ((1, "column"), (0, "row")):
        if gone := [n for n in accesses.lit(access, axis) if first[axis] + n >= tensor.shape[axis]]:
            which = f"{what} {gone[0]}" if len(gone) == 1 else f"{what}s {gone[0]} to {gone[-1]}"
            message = f"The mask is on in {which} of the tile, but {draw.name_of(access)} ends before that. "
            end, size = first[axis] + gone[-1] + 1, tensor.shape[axis]
            known = source.names_in_mask(run.file, access.line) if gone[-1] < access.shape[axis] - 1 else set()
            if other := [name for name in known if access.launch.given.get(name) == end]:
                message += f"It lets {end} {what}s pass, which is {other[0]}, but there are {size}: "
                return message + "compare with those."
            if known and end == size + 1:
                return message + "Does your mask say `<=` where `<` is right?"
            return message + f"Does the mask compare the {what}s, and in a loop those of this step?"
    return None


def mask_says_on(run, trouble):
    if trouble.kind == "outside":
        access = trouble.access
        if len(access.mask) == 1:
            return "The mask is on. Does each index in this offset have its own stride, and is none counted twice?"
        which = "every lane" if all(access.mask) else f"{sum(access.mask)} of {len(access.mask)} lanes"
        message = f"The mask has {which} on. Does it compare the right offsets with the right length?"
        if not access.touched():
            if accesses.siblings(access)[access.program][0] is not access:
                return message + " Or does the loop end a step too late?"
            if access.program == access.launch.programs - 1 > 0:
                return message + " And does the launch have more programs than there is work?"
        many = len(access.shape) > 1
        return message + (" If so: is each index multiplied by its own stride?" if many else "")
    return None


def dark_load(run, name, at, got, want, owner, missed):
    """Explain a load of which no lane is on, in any program."""
    for launch in run.launches:
        lines: dict[int, list[Access]] = {}
        for access in launch.accesses:
            if access.op == "load" and access.region.given and access.region.span:
                lines.setdefault(access.line, []).append(access)
        for line, loads in lines.items():
            if not any(any(access.mask) for access in loads):
                return f"No lane of the load on line {line} is on, in any program: what does its mask compare?", loads[
                    0
                ]
    return None


def undefined_load(run: Run, program: int | None = None) -> Access | None:
    """Return a load, of this program or of any, with lanes that are off and no `other`."""
    for launch in run.launches:
        for access in launch.accesses:
            if access.op == "load" and not access.other and not all(access.mask) and program in (None, access.program):
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
