# SPDX-License-Identifier: Apache-2.0
"""Judge a run. Each function raises :class:`Fault` with the first thing that is wrong, if anything is.

A run is ``run.Run``, or that of the site's model, which says the same of a call; so this needs no torch and no NumPy.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from . import draw, mistakes
from . import source as text
from .case import raised
from .case import wrong_elements as wrong_elements  # which ``speed`` takes from here
from .finding import Fault, Finding
from .launch import Access, Launch, Trouble, called, index_of, is_tensor, offsets_of
from .mistakes import accesses, masks

if TYPE_CHECKING:
    from .run import Run

OPS = {"load": "reads", "store": "writes", "atomic": "changes"}
DTYPE = "Which dtype does the line that allocates the result ask for?"


def error(run: Run):
    """Refuse a run whose code raised an error."""
    if run.error is not None:
        message, line = raised(run.error, run.file)
        raise Fault(
            Finding(
                f"Your code raised {message}" + (f", on line {line}:" if line else ":"),
                str(run.case),
                details=[source(run.file, line)],
                guess=mistakes.about_error(message, run.file, line),
            )
        )


def source(file: str, line: int) -> str:
    """Return a line of the reader's file, indented, with its number."""
    return f"    {line}: {code}" if (code := text.line_of(file, line)) else ""


def shape(run: Run):
    """Check number, type, shape and dtype of the results, and the device of what kernels are given."""
    error(run)
    for parameter, line in run.elsewhere:
        message = f"{parameter} is allocated without `device=`, on line {line}. With a GPU, it would be in the CPU's "
        message += "memory, which no kernel can reach."
        beside = next(name for name, value in run.inputs.items() if is_tensor(value))
        raise Fault(
            Finding(
                message,
                str(run.case),
                [source(run.file, line)],
                guess=f"`device={beside}.device` puts it beside {beside}.",
            )
        )
    name = run.spec.function
    if run.results["out"] is None:
        raise Fault(Finding(f"{name} returned None.", str(run.case), guess="Does it end in `return`?"))
    expected = run.expected
    if expected is None:
        like = run.inputs[run.spec.result_like]
        expected = {"out": like}
    if run.results.keys() != expected.keys():
        missing = expected.keys() - run.results.keys()
        if any(m.startswith("grad") for m in missing):
            message = "The result does not require a gradient. Does it come from `YourFunction.apply`?"
        else:
            results = "one result" if len(run.results) == 1 else f"{len(run.results)} results"
            message = f"{name} returned {results}, and should return {len(expected)}."
        raise Fault(Finding(message, str(run.case)))
    for part, wanted in expected.items():
        got, what = run.results[part], f"{name} returned" if part == "out" else f"{part} is"
        if got is None:
            raise Fault(
                Finding(f"{part[0].upper()}{part[1:]} is None.", str(run.case), guess="Does `backward` return it?")
            )
        if not is_tensor(got):
            raise Fault(Finding(f"{what} a {type(got).__name__}, and should be a tensor.", str(run.case)))
        if got.shape != wanted.shape:
            message = f"{what} the shape {tuple(got.shape)}; it should be {tuple(wanted.shape)}."
            raise Fault(Finding(message, str(run.case)))
        if got.dtype != wanted.dtype:
            message = f"{what} the dtype {got.dtype}; it should be {wanted.dtype}."
            raise Fault(Finding(message, str(run.case), guess=DTYPE))


def first_trouble(run: Run) -> Trouble | None:
    """Return the worst access that is not allowed, if there is one."""
    troubles = [t for t in run.troubles if not (t.kind == "twice" and run.spec.twice)]
    order = {"outside": 0, "input": 1, "race": 2, "twice": 3, "unordered": 4}
    return min(troubles, key=lambda t: order[t.kind], default=None)


def bounds(run: Run):
    """Refuse accesses outside of tensors, into inputs, of elements that another program touches, or twice."""
    error(run)
    if (trouble := first_trouble(run)) is None:
        return
    access, lane = trouble.access, trouble.lane
    tensor, offset = draw.name_of(access), access.offsets[lane]
    who, does = f"Program {_pid(access.pid)}", OPS[access.op]
    size = access.region.tensor.numel()
    match trouble.kind:
        case "outside":
            message = f"{who} {does} {tensor} at offset {offset}, {_where(access, offset, size)}"
        case "input":
            message = f"{who} writes {tensor}{_element(access, offset)}, which is an input."
        case "race":
            message = (
                f"{who} {does} {tensor}{_element(access, offset)}; {_program(access, trouble.other)} touches it, too."
            )
        case "unordered":
            before = "stores" if access.op == "load" else "reads"
            message = f"{who} {does} {tensor}{_element(access, offset)}, which another of its lanes {before} earlier, "
            message += "with no barrier in between."
        case _:
            first = _program(access, trouble.other)
            message = f"{who} writes {tensor}{_element(access, offset)}, which {first} has already written."
    on = "and its mask is on" if access.masked else f"which is on, because the {_op(access)} has no mask"
    details = [f"It is lane {lane}, {on}:"]
    details += [source(run.file, access.line)]
    wrong = {offset} if trouble.kind != "outside" else set()
    raise Fault(
        with_picture(
            Finding(message, str(run.case), details, guess=mistakes.about_trouble(run, trouble)), access, lane, wrong
        )
    )


def _op(access: Access) -> str:
    return {"atomic": "atomic operation"}.get(access.op, access.op)


def _where(access: Access, offset: int, size: int) -> str:
    if offset < 0:
        return "before its first element."
    if offset >= access.region.span:
        return f"and {'it has no element' if not size else f'its last element is at {access.region.span - 1}'}."
    return f"which is between its elements: its strides are {tuple(access.region.tensor.stride())}."


def _program(access: Access, other: int | None) -> str:
    if other is None:
        return "another program"
    return "this program" if other == access.program else f"program {_pid(access.launch.pid(other))}"


def _pid(pid) -> str:
    return str(pid[0]) if len(pid) == 1 else str(tuple(pid))


def _element(access: Access, offset: int) -> str:
    at = index_of(access.region.element(offset), access.region.tensor.shape)
    return f"[{', '.join(map(str, at))}]"


def with_picture(finding: Finding, access: Access, lane: int, wrong=(), missed=(), owner_of=None) -> Finding:
    chosen = {}
    for program, many in accesses.siblings(access).items():
        chosen[program] = access if program == access.program else many[0]
    finding.launch = draw.picture(access.launch, chosen, access, lane, wrong, missed)
    finding.picture = draw.text(finding.launch)
    if owner_of is not None:
        finding.picture += draw.owners(access, owner_of)
    return finding


def ordered(run: Run):
    """Refuse atomics by which several programs add to one float, where the spec wants the same bits each time."""
    for launch in run.launches if run.spec.ordered and run.error is None else ():
        adders: dict[tuple[int, int], dict[int, Access]] = {}  # by region and offset, of each program the first
        for access in launch.accesses:
            if access.adds and access.region.tensor.is_floating_point():
                lanes = Counter(sorted(access.touched()))
                for offset in lanes:
                    adders.setdefault((id(access.region), offset), {}).setdefault(access.program, access)
                offset, most = max(lanes.items(), key=lambda each: each[1], default=(0, 0))
                if most > 1:
                    raise Fault(_unordered(run, access, offset, f"{most} lanes of program {_pid(access.pid)}"))
        for (_, offset), adds in adders.items():
            if len(adds) > 1:
                raise Fault(_unordered(run, next(iter(adds.values())), offset, f"{len(adds)} programs"))


def _unordered(run: Run, access: Access, offset: int, who: str) -> Finding:
    dtype = str(access.region.tensor.dtype).removeprefix("torch.")
    message = f"Line {access.line}: {who} add to {draw.name_of(access)}{_element(access, offset)}. "
    message += f"Their order is not promised, so the {dtype} sum may differ from run to run."
    finding = Finding(message, str(run.case), [source(run.file, access.line)], guess=run.spec.ordered)
    return with_picture(finding, access, access.on()[0], {offset})


def values(run: Run):
    """Check every element of every result, whose number, shapes and dtypes may depend on the case, too."""
    shape(run)
    for name in run.expected or {}:
        if wrong := run.wrong(name):
            raise Fault(_wrong_value(run, name, wrong))


def _wrong_value(run: Run, name: str, wrong: list[int]) -> Finding:
    """Say what of a result is wrong, and who stored it; ``wrong``: the numbers of its elements."""
    actual, expected = run.results[name], run.expected[name]
    at = index_of(wrong[0], actual.shape)
    got, want = actual[at].item(), expected[at].item()
    what = f"{called(name)}[{', '.join(map(str, at))}]" if at else name
    message = f"{what[0].upper()}{what[1:]} is {_number(got, actual)} and should be {_number(want, expected)}"
    verb = "is" if len(wrong) == 1 else "are"
    message += f"; {len(wrong)} of {actual.numel()} elements {verb} wrong." if actual.numel() > 1 else "."
    finding = Finding(message, str(run.case))
    region, owner, missed = run.region_of(actual), None, []
    if region is not None and run.spec.stored:
        bad, missed = offsets_of(region, actual, wrong[:4096]), region.missed()
        owner, near = _owner(run, region, bad[0]), _nobody(run, region, bad[0])
        access = owner or near
        if access:
            lanes = [lane for lane, offset in enumerate(access.offsets) if offset == bad[0]]
            lane = [lane for lane in lanes if access.mask[lane] or not owner][-1]
            state = "on" if access.mask[lane] else "off, so nobody stores it"
            finding.details = [f"Program {_pid(access.pid)} owns it: lane {lane}, offset {bad[0]}, mask {state}."]
            finding.details += [source(run.file, access.line)]
            with_picture(finding, access, lane, bad, missed, bad[0] if missed else None)
            if run.case.fill and owner and (load := masks.undefined_load(run, owner.program)):
                with_picture(finding, load, list(load.mask).index(False))
        elif run.launches:
            finding.details = [f"No program stores it: none has its offset, {bad[0]}."]
            if last := [a for a in run.launches[-1].accesses if a.region is region and a.op != "load"]:
                with_picture(finding, last[-1], 0, bad, owner_of=bad[0])
    finding.guess, load = mistakes.about_values(run, name, at, got, want, owner, len(missed))
    return with_picture(finding, load, 0) if load else finding


def _owner(run: Run, region, offset: int) -> Access | None:
    """Return the last access that stored the element."""
    for launch in reversed(run.launches):
        for access in reversed(launch.accesses):
            stores = access.region is region and access.op != "load"
            if stores and any(at == offset for at, on in zip(access.offsets, access.mask, strict=True) if on):
                return access
    return None


def _nobody(run: Run, region, offset: int) -> Access | None:
    """Return a store that has the element on a lane that is off."""
    all_of_them = (access for launch in reversed(run.launches) for access in launch.accesses)
    stores = (access for access in all_of_them if access.region is region and access.op != "load")
    return next((access for access in stores if offset in access.offsets), None)


def _number(value, tensor) -> str:
    return f"{value + 0.0:.6g}" if tensor.is_floating_point() else str(value)  # no minus before 0


def properties(run: Run, again):
    for check in run.spec.properties:
        if message := check(run.results["out"], run.inputs, again):
            raise Fault(Finding(message, str(run.case)))


# Whether the kernel did the work


def honest(run: Run):
    """Check that a kernel was launched and stored every element of the result, and that torch computed nothing."""
    error(run)
    if run.ops:
        name, line = run.ops[0]
        message = f"torch computed something: `{name}`" + (f", on line {line}:" if line else ".")
        details = [source(run.file, line)] if line else []
        guess = "The kernel has to do the work here; torch may only allocate."
        if name == "clone" and run.case.layout:
            guess = "`.contiguous()` copies the whole tensor. The kernel can read it where it lies, by its strides."
        raise Fault(Finding(message, details=details, guess=guess))
    for name, actual in run.results.items():
        if not is_tensor(actual) or not actual.numel():
            continue
        if not run.launches:
            message = f"{run.spec.function} launched no kernel, but returned a result all the same."
            raise Fault(
                Finding(
                    message,
                    str(run.case),
                    guess="Does it keep results of earlier calls? Each call has to compute its own.",
                )
            )
        if not run.spec.stored:
            continue
        region = run.region_of(actual)
        if region is None or (run.spec.covers and not region.stored()):
            message = f"No kernel stored {called(name)}: it comes from somewhere else."
            raise Fault(Finding(message, str(run.case), guess="The kernel has to store what the function returns."))
        offsets, missed = offsets_of(region, actual, range(actual.numel())), {*region.missed()}
        if lost := [offset for offset in offsets if offset in missed] if run.spec.covers else []:
            message = f"No program stored the result's element at offset {lost[0]}."
            raise Fault(
                Finding(message, str(run.case), guess="Its value is right by chance, or comes from somewhere else.")
            )
        if region.altered(offsets):
            message = "Something other than a kernel changed the result after the kernel had stored it."
            raise Fault(Finding(message, str(run.case), guess="The kernel has to store what the function returns."))


def counts(run: Run):
    """Check how often each element is read, and how many launches there are."""
    spec = run.spec
    if spec.most_moved is not None:
        _moved(run, spec.most_moved)
    if spec.most_launches is not None and len(run.launches) > spec.most_launches:
        names = ", ".join(launch.kernel for launch in run.launches)
        message = (
            f"{spec.function} launches {len(run.launches)} kernels, where {spec.most_launches} can do it: {names}."
        )
        raise Fault(Finding(message, str(run.case)))
    if spec.most_blocks is not None:
        _blocks(run, spec.most_blocks)
    _dark(run)
    for launch in run.launches if spec.programs else ():
        if launch.programs != (asked := run.inputs[spec.programs]):
            message = f"{launch.kernel} is launched with {_programs(launch.programs)}, and {spec.programs} is {asked}."
            raise Fault(Finding(message, str(run.case), guess="Does the grid have exactly that many?"))
    if not spec.idle:
        _idle(run)
    for name, most in spec.most_reads.items():
        region = next(r for r in run.regions if r.given and r.name == name)
        if region.span:
            reads = median(region.reads())
            if reads > most:
                message = f"Your kernels read each element of {name} {reads:g} times; {most:g} would do."
                guess = "A value that is read twice could stay in the program's block."
                if most > 1:
                    guess = "Can one pass over the blocks do the work of two?"
                raise Fault(Finding(message, str(run.case), guess=guess))
    _lanes(run)
    if spec.lanes:
        _lengths(run, spec.lanes)
    for name, least in spec.least_used.items() if run.case.size == spec.sizes[-1] else ():
        loads = [a for launch in run.launches for a in launch.accesses if a.op == "load" and a.region.name == name]
        fetched, needed = (sum(counted) for counted in zip(*map(sectors, loads), strict=True)) if loads else (0, 0)
        if needed < least * fetched:
            raise Fault(_wasted(run, name, needed / fetched, least, max(loads, key=lambda a: sectors(a)[0])))


SECTOR = 32  # bytes


def _blocks(run: Run, most: int):
    """Refuse a program that stores more blocks than it should: it does the work of others."""
    for launch in run.launches:
        for first in (access for access in launch.accesses if access.op == "store"):
            for program, many in accesses.siblings(first).items():
                if len(many) > most:
                    message = f"Program {_pid(launch.pid(program))} stores {len(many)} blocks, one after another"
                    message += f", and the launch has {_programs(launch.programs)}."
                    guess = "A GPU is fast because it runs many programs at once. Are there as many as blocks?"
                    raise Fault(Finding(message, str(run.case), [source(run.file, first.line)], guess=guess))


def _lengths(run: Run, asked: int):
    """Refuse blocks of another length than the exercise asks for."""
    for access in (access for launch in run.launches for access in launch.accesses):
        if (count := len(access.offsets)) != asked:
            message = f"Line {access.line} {OPS[access.op]} blocks of {count} elements; they should have {asked}."
            raise Fault(Finding(message, str(run.case), [source(run.file, access.line)]))


def _dark(run: Run):
    """Refuse a loop that goes on long after its elements are done."""
    for launch in run.launches:
        for first in {access.line: access for access in launch.accesses if access.op == "store"}.values():
            steps = [access for many in accesses.siblings(first).values() if len(many) > 1 for access in many]
            dark = [access for access in steps if not any(access.mask)]
            if 4 * len(dark) > 3 * len(steps):
                message = f"Of {len(steps)} steps that store on line {first.line}, {len(dark)} have no lane on."
                guess = "Does the loop count elements rather than blocks, or go on after the last block?"
                raise Fault(Finding(message, str(run.case), [source(run.file, first.line)], guess=guess))


def _by_element(run: Run) -> Access | None:
    """Refuse to read much of a tensor one element at a time, where it is to be read in blocks."""
    for launch in run.launches if run.case.size == run.spec.sizes[0] else ():
        lines: dict[tuple[int, str], list[Access]] = {}
        for access in launch.accesses:
            if access.op == "load" and access.region.given and access.region.name in run.spec.in_blocks:
                lines.setdefault((access.line, access.region.name), []).append(access)
        for loads in lines.values():
            size = loads[0].region.tensor.numel()
            if all(len(load.offsets) == 1 for load in loads) and 2 * sum(a.mask[0] for a in loads) >= size > 1:
                return loads[0]
    return None


def _lanes(run: Run):
    if access := _by_element(run):
        message = (
            f"Line {access.line} loads {draw.name_of(access)} one element at a time, where a whole "
            "block should be loaded."
        )
        guess = "The lanes of a block are `tl.arange(0, …)`: which offsets do they have, and which lanes does a mask "
        guess += "switch off?"
        raise Fault(Finding(message, str(run.case), [source(run.file, access.line)], guess=guess))


def busy(launch: Launch) -> set[int]:
    """Return the programs that stored something."""
    return {a.program for a in launch.accesses if a.op != "load" and any(a.mask)}


def crowded(run: Run) -> bool:
    """Return whether there are several times as many programs as blocks, which ``counts`` refuses in the end."""
    idle = not run.spec.idle and any(0 < 4 * len(busy(launch)) <= launch.programs for launch in run.launches)
    return idle or _by_element(run) is not None


def _idle(run: Run):
    """Refuse programs that store nothing, unless the spec allows them."""
    for launch in run.launches:
        stored = busy(launch)
        if stored and len(stored) < launch.programs:  # of nothing at all, one program may be launched
            idle = launch.programs - len(stored)
            message = f"{idle} of {_programs(launch.programs)} of {launch.kernel} store{'s' * (idle == 1)} nothing."
            guess = "Does the grid count blocks, or elements? A program without work still takes up its place."
            if idle == 1:
                guess = "The grid has one program too many. Does it round up, with `triton.cdiv`? "
                guess += "Dividing and adding 1 counts a block too many where the last one is full."
            raise Fault(Finding(message, str(run.case), guess=guess))


def _programs(count: int) -> str:
    return "1 program" if count == 1 else f"{count} programs"


def sectors(access: Access) -> tuple[int, int]:
    """Return in how many sectors the elements of an access lie, and the fewest that could hold as many."""
    size, wanted = access.region.size, {access.offsets[lane] for lane in access.on()}
    return len({offset * size // SECTOR for offset in wanted}), -(-len(wanted) * size // SECTOR)


def _wasted(run: Run, name: str, used: float, least: float, access: Access) -> Finding:
    fetched, needed = sectors(access)
    message = f"Of the bytes of {name} that your loads fetch, {used:.0%} are used; {least:.0%} could be."
    what = f"{fetched} sectors of {SECTOR} bytes for {sum(access.mask)} elements that would fit into {needed}:"
    details = [f"A load of program {_pid(access.pid)} fetches {what}", source(run.file, access.line)]
    guess = "Memory delivers whole sectors. Does a program load neighboring elements, or one from each row?"
    return with_picture(Finding(message, str(run.case), details, guess=guess), access, 0)


def _moved(run: Run, most: float):
    """Compare the bytes that kernels load and store with those of inputs and results, each once."""
    touched = [access for launch in run.launches for access in launch.accesses]
    moved = sum(len(a.touched()) * a.region.size for a in touched)
    tensors = [value for value in [*run.inputs.values(), *run.results.values()] if is_tensor(value)]
    must = sum(tensor.numel() * tensor.itemsize for tensor in tensors)
    if moved > most * must:
        message = f"Your kernels move {moved} bytes; inputs and result together have {must}."
        guess = "A value that is stored and loaded again could stay in the program's block. Is each input loaded once?"
        raise Fault(Finding(message, str(run.case), guess=guess))
