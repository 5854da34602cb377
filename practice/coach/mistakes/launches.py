# SPDX-License-Identifier: Apache-2.0
"""Explain launches: arguments, the grid, and which programs have work."""

import re

from .. import draw, source
from ..launch import called, number_of, offsets_of
from . import accesses


def too_few(message, file, line, node):
    """Explain a launch without all arguments of its kernel."""
    if not (match := re.search(r"missing \d+ required positional arguments?: (.*)", message)):
        return None
    if tip := source.too_few(file, line, list(dict.fromkeys(re.findall(r"'(\w+)'", match[1])))):
        return tip
    return None


def grid_of_a_launch(message, file, line, node):
    match = re.search(r"int\(\) argument must be .* not '(tuple|function)'", message)
    if match := match or re.search(r"'(tuple|function)' object cannot be interpreted as an integer", message):
        if name := source.grid_of(file, line):
            what = "a tuple" if match[1] == "tuple" else "a function"
            return f"Line {line} already puts `{name}` in a tuple, so the gap needs a number, not {what}."
        if match[1] == "function":
            return "A grid is a tuple of numbers, or a function that returns one: not a tuple with a function in it."
    if "'float' object cannot be interpreted as an integer" in message and source.divides(file, line):
        return "`/` gives a float, but this has to be a whole number. Round the grid up with `triton.cdiv`."
    return None


def exchanged(run, *given):
    """Explain a launch with arguments in each other's places, by what the host function calls them."""
    return next((said for launch in run.launches if (said := _exchanged(run.file, launch.line))), None)


def exchanged_in(message, file, line, node):
    """Explain an error in a kernel whose launch has arguments in each other's places."""
    if not re.search(r"ptr type|invalid operands of type", message):
        return None
    within = source.kernel_of(file, node)  # of a kernel, Triton knows no line of the file
    line = line or (within.lineno if within else 0)
    return _exchanged(file, line) if line else None


def _exchanged(file: str, line: int) -> str | None:
    number, pairs = source.exchanged(file, line)
    passed = [f"`{name}` as {parameter}" for parameter, name in pairs]
    passes = " and ".join(filter(None, [", ".join(passed[:-1]), *passed[-1:]]))
    asks = "Are the arguments in the order of the kernel's parameters?"
    return f"Line {number} passes {passes}. {asks}" if pairs else None


def other_number(run, name, at, got, want, owner, missed):
    """Explain a launch that passes a number as a parameter with the name of another number of the file."""
    for launch in run.launches:
        for constant, value in launch.constants.items():
            passed = getattr(launch.given[constant], "value", launch.given[constant])
            if isinstance(value, float) and isinstance(passed, int | float) and passed != value:
                passes = f"Line {launch.line} passes {passed:g} as {constant}"
                return f"{passes}; the file sets {constant} to {value:g}, at the top."
    return None


def never_launched(run, name, at, got, want, owner, missed):
    if not run.launches:
        return "No kernel was launched. Is there a line `kernel[grid](…)`, and does it run?"
    return None


def too_few_programs(run, name, at, got, want, owner, missed):
    if not missed or owner is not None:
        return None
    if run.launches and not run.launches[-1].programs:
        return "The launch has no program at all. Does the grid round up, with `triton.cdiv`?"
    if not (stores := accesses.stores_of(run)):
        return None
    if accesses.all_the_same(stores[-1]):
        return "Every program has the same offsets. Did you forget the program's number, `tl.program_id`?"
    region = stores[-1].region
    ends = max(max(access.offsets) for access in stores if access.region is region)
    if ends < region.span - 1:
        launch = stores[-1].launch
        count = f"{launch.programs} programs of this launch reach"
        message = (
            f"The {count if launch.programs != 1 else 'one program of this launch reaches'} offset {ends}, and the "
            f"last element is at {region.span - 1}. Does the grid round up, with `triton.cdiv`?"
        )
        if launch.grid[1:] != (1, 1):
            return message + " And does the kernel count the same on each axis?"
        return message + (" And does it count tiles along both axes?" if len(stores[-1].shape) > 1 else "")
    return None


def never_stored(run, name, at, got, want, owner, missed):
    """Explain an element that nobody stores, where no other rule knows why."""
    if not missed or owner is not None:
        return None
    if not (stores := [access for launch in run.launches for access in launch.accesses if access.op != "load"]):
        return "No store was made at all. Is there a `tl.store`, and is it reached: in an `if`, or in a loop?"
    actual, region = run.results[name], run.region_of(run.results[name])
    if not (mine := [access for access in stores if access.region is region]):
        return f"What is stored does not go into {called(name)}. Does the launch pass it, and is there a store for it?"
    if not any(any(access.mask) for access in mine):
        return f"No lane of the store on line {mine[-1].line} is on, in any program: what does its mask compare?"
    (offset,) = offsets_of(region, actual, [number_of(at, actual.shape)])
    if off := next((access for access in mine if offset in access.offsets), None):
        return (
            f"The mask of line {off.line} switches off a lane that has an element. What does it compare, and with what?"
        )
    first, last = min(min(a.offsets) for a in mine), max(max(a.offsets) for a in mine)
    reach = f"The offsets on line {mine[-1].line} reach from {first} to {last}"
    if not first <= offset <= last:
        return f"{reach}. Are there enough programs, and does each one have its own block?"
    return f"{reach}, and leave out this one. How far apart are neighboring lanes, and neighboring programs?"


def wrong_step(run, name, at, got, want, owner, missed):
    stores = accesses.stores_of(run)
    if not missed or not stores:
        return None
    many = accesses.siblings(stores[0])
    if len(many) < 2 or len(stores[0].offsets) < 2:  # a lane alone is no block
        return None
    first, second = (many[p][0].offsets for p in sorted(many)[:2])
    if len(run.launches[-1].grid) and second[0] > first[-1] + 1 and run.launches[-1].grid[1:] == (1, 1):
        return (
            f"Program 0 ends at offset {first[-1]} and program 1 begins at {second[0]}. "
            f"It looks as if `pid` is multiplied by something other than the block size."
        )
    return None


def axes_of_the_grid(run, name, at, got, want, owner, missed):
    """Explain programs without an element and elements without a program, on two axes."""
    for launch in run.launches if missed else ():
        stores = [access for access in launch.accesses if access.op == "store"]
        idle = {a.program for a in stores} - {a.program for a in stores if any(a.mask)}
        if launch.grid[1] > 1 and idle:
            pid = launch.pid(min(idle))
            return (
                f"Program {pid} has no element, and {missed} elements have no program. Are the grid's axes in "
                "the kernel's order: does the kernel count the same on each axis?"
            )
    return None


def short_row(run, name, at, got, want, owner, missed):
    stores = accesses.stores_of(run)
    if not missed or not stores or stores[0].region.tensor.ndim != 2:
        return None
    many = accesses.siblings(stores[0])
    if len(many) < 2 or len(stores[0].offsets) < 2:  # a lane alone is no block
        return None
    first, second = (many[p] for p in sorted(many)[:2])
    (_, columns), (stride, _) = stores[0].region.tensor.shape, stores[0].region.tensor.stride()
    reached = max(max(access.offsets) for access in first)
    if second[0].offsets[0] == stride and reached < columns - 1:
        return (
            f"Each program begins a row, but stores {reached + 1} of its {columns} elements. Is the block as long as "
            "a row, or is there a loop along it?"
        )
    return None


def same_offsets(run, trouble):
    stores = [access for access in trouble.access.launch.accesses if access.op != "load"]
    if trouble.access.op == "load" and stores and not accesses.all_the_same(stores[-1]):
        return None  # what all programs read may be the same, as a tile of a matrix in a product
    if accesses.all_the_same(trouble.access) and not run.spec.shared:
        message = "Every program has the same offsets. Did you forget the program's number, `tl.program_id`?"
        return message + (" Or is one program enough here?" if trouble.access.region.span == 1 else "")
    return None


def same_loads(run, name, at, got, want, owner, missed):
    for launch in run.launches:
        for access in launch.accesses:
            region = access.region
            unread = access.op == "load" and region.given and 0 in region.reads()
            if unread and accesses.all_the_same(access):
                return (
                    f"Every program loads the same elements of {draw.name_of(access)}, on line {access.line}, and no "
                    "program loads the others. Did you forget the program's number there?"
                ), access
    return None
