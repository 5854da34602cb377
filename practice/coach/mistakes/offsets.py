# SPDX-License-Identifier: Apache-2.0
"""Explain offsets: strides that are missing, exchanged or of another tensor, and rows that begin elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import draw, source
from ..launch import Access, is_tensor, numbers
from . import accesses

if TYPE_CHECKING:
    from ..run import Run


def exchanged_strides(run, trouble):
    """Explain a tile that moves by the other axis' stride on each axis; its mask says which axis is which."""
    access, tensor, steps = trouble.access, trouble.access.region.tensor, accesses.steps_of(trouble.access)
    if trouble.kind != "outside" or tensor.ndim != 2 or access.program or all(access.mask) or not steps:
        return None
    row, column = tensor.stride()
    turned = row != column and [abs(step) for step in steps] == [column, row]
    if turned and accesses.is_corner(access, *tensor.shape):
        return "Are the row and column strides swapped? Check the offsets and what the launch passes."
    return None


def backward_offsets(run, trouble):
    access, tensor = trouble.access, trouble.access.region.tensor
    if trouble.kind != "outside" or run.case.layout or not tensor.ndim:
        return None
    many = accesses.siblings(access)
    steps = {axis: [*accesses.steps_along(access, axis)] for axis, n in enumerate(access.shape) if n > 1}
    falls = [axis for axis, along in steps.items() if max(along) < 0]
    firsts = [many[p][0].offsets[0] for p in sorted(many)[:2]]
    if not falls and not (len(firsts) == 2 and firsts[1] < firsts[0]):
        return None
    message = f"The offsets fall from {'lane to lane' if falls else 'program to program'}. "
    step = -steps[falls[-1]][0] if falls else 0
    strides = list(tensor.stride())
    axis = strides.index(step) if step in strides else tensor.ndim - 1
    if firsts[0] != (tensor.shape[axis] - 1) * strides[axis]:
        return message + (
            "Does the first lane of the first program get the last index, which is n - 1? And does the mask compare "
            "with the right length?"
        )
    if len(access.shape) == 2 == tensor.ndim:
        for axis, what in ((1, "columns"), (0, "rows")):
            lit, beside = len(accesses.lit(access, 1 - axis)), access.shape[axis]
            if beside > tensor.shape[axis] and sum(access.mask) == lit * beside:
                return f"{message}{draw.name_of(access)} has {tensor.shape[axis]} {what}, but in the tile all " + (
                    f"{beside} are on. Does the mask compare the {what}, too?"
                )
    return message + "Does the mask compare with the right length?"


def ignores_strides(run, trouble):
    if run.case.layout and trouble.access.op == "store" and trouble.access.region.tensor.is_contiguous():
        strides = tuple(trouble.access.region.tensor.stride())
        if message := strides_of_another(run, trouble.access):
            return message
        return f"The tensor stored here has the strides {strides}. Do the offsets use the strides of another tensor?"
    if run.case.layout and trouble.kind in ("outside", "twice"):
        other = ", or a `.contiguous()`" if "clone" in run.spec.torch_ops else ""
        message = (
            f"It was in bounds for a contiguous tensor. It looks as if a stride is missing from the offsets{other}."
        )
        return message + stride_left_out(run, [trouble.access])
    if trouble.kind == "outside" and accesses.lies_between_elements(trouble):
        if trouble.access.region.name == "the gradient":
            return "The gradient that comes in may have gaps. Does the kernel get what `.contiguous()` returns?"
        return "It looks as if a stride is missing from the offsets." + stride_left_out(run, [trouble.access])
    return None


def stride_left_out(run: Run, suspects: list[Access]) -> str:
    """Name a stride of a tensor that the kernel gets and an access of the tensor does not use; "" if none is known."""
    seen, ndims = set(), {name: value.ndim for name, value in run.inputs.items() if is_tensor(value)}
    for access in suspects:
        launch, region = access.launch, access.region
        if (access.line, region.name) in seen or not region.given:
            continue
        seen.add((access.line, region.name))
        used = source.used_by(run.file, access.line)
        for parameter, axis in source.strides_passed(run.file, launch.line, region.name, ndims).items():
            size = region.tensor.shape[axis] if -region.tensor.ndim <= axis < region.tensor.ndim else 0
            if size > 1 and used is not None and parameter not in used:
                return f" Line {access.line} does not use `{parameter}`, which the kernel gets."
    return ""


def strides_of_another(run, access: Access | None) -> str | None:
    """Explain a tile that is stored with the strides of an input."""
    own = tuple(access.region.tensor.stride()) if access and access.op == "store" else ()
    for name, value in run.inputs.items() if len(own) == 2 else ():
        if is_tensor(value) and tuple(value.stride()) == accesses.steps_of(access) != own:
            return f"The store uses {name}'s strides, {tuple(value.stride())}; the result's are {own}."
    return None


def row_begins(run, trouble):
    """Explain programs that take a row each, and begin somewhere else."""
    access, tensor = trouble.access, trouble.access.region.tensor
    many = accesses.siblings(access)
    if trouble.kind != "outside" or len(access.shape) > 1 or tensor.ndim != 2 or not {0, 1} <= many.keys():
        return None
    first, second = (many[p][0].offsets[0] for p in (0, 1))
    row, column = tensor.stride()
    if len(access.offsets) == 1 or first != 0 or second == row or access.launch.programs != len(tensor):
        return None
    message = f"Program 1 begins at offset {second}, but row 1 at {row}. "
    if second == 2 * row > 0:
        return message + "Is the row counted twice?"
    if second == column and access.offsets[1] == row:
        return message + "Are the row and column strides swapped?"
    if second == len(access.offsets):
        return message + "Is the row's number multiplied by the block, rather than by the stride?"
    return None


def diagonal_lanes(run, name, at, got, want, owner, missed):
    for access in accesses.stores_of(run) if missed else ():
        tensor, vector = access.region.tensor, len(access.shape) == 1 and len(access.offsets) > 1
        if vector and tensor.ndim == 2 and {*accesses.steps_along(access, 0)} == {sum(tensor.stride())}:
            return "The lanes of a program are on a diagonal: a tile needs `rows[:, None]` and `columns[None, :]`."
    return None


def wrong_with_strides(run, name, at, got, want, owner, missed):
    if run.case.layout and (message := strides_of_another(run, owner)):
        return message
    if run.case.layout and not run.results[name].is_contiguous():
        strides = tuple(run.results[name].stride())
        what = "The result" if name == "out" else f"{name[0].upper()}{name[1:]}"
        return f"{what} is not contiguous: its strides are {strides}. Does the kernel store as if it were?"
    if run.case.layout and not run.case.fill:
        message = "It was right for a contiguous tensor. It looks as if a stride is missing from the offsets."
        return message + stride_left_out(run, [a for launch in run.launches for a in launch.accesses])
    return None


def transposed_result(run, name, at, got, want, owner, missed):
    actual, expected = run.results[name], run.expected[name]
    if actual.ndim == 2 and actual.shape[0] == actual.shape[1] and numbers(actual) == numbers(expected.mT):
        return "This is the result, transposed. Are rows and columns, or their strides, swapped?"
    return None
