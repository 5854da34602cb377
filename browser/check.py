# SPDX-License-Identifier: Apache-2.0
"""Check an exercise in the browser: the coach's stages, in its order and its words, by runs on the model.

``coach`` is the folder of that name in ``practice/``, which brings the exercises, their inputs and what is right. What
only Triton's compiler or a GPU can tell, it tells alone: ``python practice.py check NAME``.
"""

import ast
import warnings
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Any

from . import autograd
from .launch import SETTINGS
from .memory import MEMORY, Access, Launch
from .modules import load, place
from .tensor import Tensor

FILE = "exercise.py"
OPS = {"load": "reads", "store": "writes", "atomic": "changes"}
ON, OFF, WRONG, MISSED, OUTSIDE = "■", "·", "✗", "○", "!"  # as in coach.draw
NEAR = 8  # programs in a picture, at most
LARGEST = 20_000  # elements of an input that Python can take its time for
HALF = 2.0**-10  # how far apart two neighbors of float16 are at most: a few sums in another order round to the other
JOINED = "Triton's interpreter keeps only one of the two. `&` binds tighter than `<`: put comparisons in parentheses."
ROUNDED = "Does it round up, with `triton.cdiv`?"
SECTOR = 32  # bytes that memory delivers at a time


@dataclass
class Run:
    """One call. ``results`` and ``expected`` are by name, as in ``coach.run``."""

    spec: Any
    case: Any
    inputs: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Tensor] | None = None
    error: BaseException | None = None
    launches: list[Launch] = field(default_factory=list)
    troubles: list = field(default_factory=list)
    computed: list[tuple[str, int]] = field(default_factory=list)  # what torch did, and in which line
    gradient: Tensor | None = None  # of the result, that a backward pass is given

    def accesses(self, *ops: str, to=None) -> list[Access]:
        """Return the accesses of some kinds, if given to one tensor's memory."""
        return [a for launch in self.launches for a in launch.accesses
                if (not ops or a.op in ops) and (to is None or _memory(a) is to.storage)]  # fmt: skip


def check(exercise, text: str) -> dict:
    """Check a text in the place of an exercise's file.

    Returns:
        ``passed``, the stages that hold; ``stage``, the one that does not, or ``""``; ``text``, what is wrong; and
        ``launch``, what ``coach.svg`` draws, or None.
    """
    from coach.finding import STAGES, Fault, Finding

    begun: list[str] = []
    try:
        _check(exercise, text, begun.append)
        finding = Finding("")
    except Fault as fault:
        finding = fault.finding
        finding.stage = begun.pop()
    finding.picture = []  # which is drawn
    called = STAGES | {"speed": counted(exercise)}
    names = [called[stage] for stage in begun]
    return {
        "passed": names, "stage": finding.stage, "failed": called.get(finding.stage, ""), "text": finding.text(),
        "launch": finding.launch,
    }  # fmt: skip


def counted(exercise) -> str:
    """Return what the last stage is called: after what is counted, for nothing is timed here."""
    listed = exercise.counted()
    return (
        "few enough " + " and ".join(filter(None, [", ".join(listed[:-1]), *listed[-1:]])) if listed else "the counts"
    )


def _check(exercise, text: str, begin):
    from coach import gaps, source
    from coach.case import Case, awkward_sizes, function_of, many_blocks
    from coach.spec import FINISHED

    begin("compiles")
    try:
        compile(text, FILE, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 0
        _fail(f"This is not valid Python{f', on line {line}' * bool(line)}: {getattr(error, 'msg', error)}.",
              details=[_source(text, line)])  # fmt: skip
    if exercise.card.kind not in FINISHED and (left := gaps.untouched(text, exercise.skeleton)):
        _fail(f"Gap {left[0].number} is still empty, on line {left[0].line}: {left[0].about}")
    if message := source.returns_a_value(text):
        _fail(message)
    MEMORY.reset()
    spec = load(exercise.spec_text, "spec.py", "spec")["SPEC"]
    try:
        names = load(text, FILE)
    except Exception as error:
        _fail_by(error, text, "Your file")
    function = function_of(spec, _Names(names), FILE)
    made: dict[str, Run] = {}

    def run(case) -> Run:
        if repr(case) not in made:
            made[repr(case)] = perform(spec, function, case)
        return made[repr(case)]

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first = run(Case(spec.sizes[0]))
    if first.error is not None:
        _fail_by(first.error, text, "Your code", first)
    for launch in first.launches:
        if 0 in launch.grid:
            grid = f"({launch.grid[0]},)" if launch.grid[1:] == (1, 1) else launch.grid
            _fail(f"The grid of {launch.kernel} is {grid}, so no program runs.", first, guess=ROUNDED)
    if deprecated := next((each for each in told if "deprecated" in str(each.message)), None):
        _fail(f"{deprecated.message}.", details=[_source(text, deprecated.lineno)], guess=JOINED)
    begin("shape")
    _shape(first, text)
    if _crowded(first, text):  # other sizes would take minutes
        for stage, judged in (("bounds", _bounds), ("values", lambda run, text: _values(run, text, function))):
            begin(stage)
            judged(first, text)
        begin("speed")
        _counts(first, text)
    block = max((a.shape[-1] if a.shape else 1 for a in first.accesses("store", "atomic")), default=4)
    sizes = [size for size in awkward_sizes(spec, block) if _small(spec, size)]
    cases = [Case(size) for size in sizes]
    if not _troubles(first):  # else larger sizes would only take their time
        for case in cases:
            _shape(run(case), text)
    begin("bounds")
    for case in cases:
        _bounds(run(case), text)
    begin("values")
    for case in cases:
        _ordered(run(case), text)
        _values(run(case), text, function)
    layouts = [Case(size, layout) for layout in spec.layouts for size in spec.sizes if _small(spec, size)]
    begin("strides")
    for case in layouts:
        _strides(run(case), text, function)
    begin("nan")
    for case in [*cases, *layouts]:
        poisoned = run(case.poisoned())
        if not _refused(poisoned):
            _values(poisoned, text, function)
    begin("seed")
    others = [size for size in [*spec.sizes, *many_blocks(spec, block), *spec.last] if _small(spec, size)]
    for case in [*cases, *(Case(size, seed=1) for size in others)]:
        _honest(run(case), text)
        _bounds(run(case), text)
        _values(run(case), text, function)
    begin("speed")
    for case in cases:
        _counts(run(case), text)


class _Names:
    def __init__(self, names: dict):
        vars(self).update(names)


def perform(spec, function, case, **changes) -> Run:
    """Call the function on the inputs of a case, each in memory of its own, and keep what it did."""
    from coach.case import call, gradient_like, make_inputs, reference

    MEMORY.reset()
    plain = make_inputs(spec, case) | changes
    expected = reference(spec, plain)
    given = {name: _placed(value) for name, value in plain.items()}
    run = Run(spec, case, given, expected=expected)

    def gradient(out):
        with autograd.watching(None):
            run.gradient = _placed(gradient_like(out))
        return run.gradient

    fill, strict, record = MEMORY.fill, MEMORY.strict, MEMORY.record
    MEMORY.fill, MEMORY.strict, MEMORY.record = case.fill, False, True
    MEMORY.launches, MEMORY.troubles, SETTINGS.configs = [], [], "in turn"
    try:
        with autograd.watching(run.computed):
            run.results = call(spec, function, dict(given), gradient)
    except Exception as error:
        run.error = error
    finally:
        run.launches, run.troubles = MEMORY.launches, MEMORY.troubles
        MEMORY.fill, MEMORY.strict, MEMORY.record = fill, strict, record
    return run


def _placed(value):
    if not isinstance(value, Tensor):
        return value
    return place(value.detach().values(), value.dtype.name, tuple(value.shape), value.stride())


def _small(spec, size: dict) -> bool:
    from coach.case import Case, make_inputs

    MEMORY.reset()
    return all(x.numel() <= LARGEST for x in make_inputs(spec, Case(size)).values() if isinstance(x, Tensor))


# What is wrong, in the coach's words


def _fail(message: str, run: Run | None = None, **more):
    from coach.finding import Fault, Finding

    raise Fault(Finding(message, str(run.case) if run else "", **more))


def _fail_by(error: BaseException, text: str, whose: str, run: Run | None = None):
    from coach.case import raised
    from coach.errors import explained

    message, line = raised(error, FILE)
    where = f", on line {line}:" if line else ":"
    _fail(f"{whose} raised {message}{where}", run, details=[_source(text, line)], guess=explained(message))


def _source(text: str, line: int) -> str:
    lines = text.splitlines()
    return f"    {line}: {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""


def _shape(run: Run, text: str):
    if run.error is not None:
        _fail_by(run.error, text, "Your code", run)
    spec = run.spec
    for name, origin in [each for launch in run.launches for each in launch.origins.items()]:
        if line := getattr(origin.allocation, "elsewhere", 0):
            beside = next(name for name, value in run.inputs.items() if isinstance(value, Tensor))
            _fail(f"{name} is allocated without `device=`, on line {line}. With a GPU, it would be in the CPU's "
                  "memory, which no kernel can reach.", run, details=[_source(text, line)],
                  guess=f"`device={beside}.device` puts it beside {beside}.")  # fmt: skip
    if run.results["out"] is None:
        _fail(f"{spec.function} returned None.", run, guess="Does it end in `return`?")
    expected = run.expected or {"out": run.inputs[spec.result_like]}
    if run.results.keys() != expected.keys():
        if any(name.startswith("grad") for name in expected.keys() - run.results.keys()):
            _fail("The result does not require a gradient. Does it come from `YourFunction.apply`?", run)
        results = "one result" if len(run.results) == 1 else f"{len(run.results)} results"
        _fail(f"{spec.function} returned {results}, and should return {len(expected)}.", run)
    for part, wanted in expected.items():
        got, what = run.results[part], f"{spec.function} returned" if part == "out" else f"{part} is"
        if got is None:
            _fail(f"{part[0].upper()}{part[1:]} is None.", run, guess="Does `backward` return it?")
        if not isinstance(got, Tensor):
            _fail(f"{what} a {type(got).__name__}, and should be a tensor.", run)
        if tuple(got.shape) != tuple(wanted.shape):
            _fail(f"{what} the shape {tuple(got.shape)}; it should be {tuple(wanted.shape)}.", run)
        if got.dtype is not wanted.dtype:
            guess = "Which dtype does the line that allocates the result ask for?"
            _fail(f"{what} the dtype {got.dtype}; it should be {wanted.dtype}.", run, guess=guess)


def _troubles(run: Run) -> list[tuple]:
    """Return the accesses that are not allowed, the worst first: what, the access, its lane, another program."""
    found = [(0, "outside", t.access, t.lane, None) for t in run.troubles]
    owned = {id(v.storage): n for n, v in run.inputs.items() if isinstance(v, Tensor) and n not in run.spec.writes}
    for launch in run.launches:
        stored: dict[tuple[int, int], tuple] = {}  # by memory and element: the last program that stored it
        read: dict[tuple[int, int], tuple] = {}
        for access in launch.accesses:
            memory = id(_memory(access))
            if access.op == "store" and memory in owned and (lane := next(_lanes(access), None)) is not None:
                found.append((1, "input", access, lane, None))
            table = read if access.op == "load" else stored
            for lane in _lanes(access):
                at = memory, _element(access, lane)
                if access.op == "store" and at in stored:
                    found.append((3, "twice", access, lane, stored[at][0]))
                    break
                if access.op == "load" and stored.get(at, (access.program,))[0] != access.program:
                    found.append((2, "race", access, lane, stored[at][0]))
                    break
                if access.op == "store" and read.get(at, (access.program,))[0] != access.program:
                    found.append((2, "race", access, lane, read[at][0]))
                    break
                if access.op != "atomic":
                    table[at] = (access.program,)
    kept = [each for each in found if each[1] != "twice" or not run.spec.twice]
    return sorted(kept, key=lambda each: each[0])


def _bounds(run: Run, text: str):
    if run.error is not None:
        _fail_by(run.error, text, "Your code", run)
    if not (troubles := _troubles(run)):
        return
    _, kind, access, lane, other = troubles[0]
    who, offset = f"Program {pid(access)}", access.offsets[lane]
    does, element = OPS[access.op], f"{access.name} at offset {offset}"
    if kind == "outside":
        message = next(str(t) for t in run.troubles if t.access is access).partition(". It is lane")[0] + "."
        message = message[0].upper() + message[1:]
    else:
        another = f"program {other[0] if not any(other[1:]) else other}" if other else ""
        another = "this program" if other == access.program else another
        message = {
            "input": f"{who} writes {element}, which is an input.",
            "race": f"{who} {does} {element}; {another} touches it, too.",
            "twice": f"{who} writes {element}, which {another} has already written.",
        }[kind]
    op = {"atomic": "atomic operation"}.get(access.op, access.op)
    on = "and its mask is on" if access.mask is not None else f"which is on, because the {op} has no mask"
    guess = run.spec.shared if kind in ("twice", "race") else ""
    if kind == "outside" and access.mask is None:
        guess = f"The {op} has no mask: what switches off the lanes that have no element?"
    _fail(message, run, details=[f"It is lane {lane}, {on}:", _source(text, access.line)], guess=guess,
          launch=picture(access, lane, wrong=() if kind == "outside" else {offset}))  # fmt: skip


def _ordered(run: Run, text: str):
    """Refuse atomics by which several programs add to one float, where the result must be the same each time."""
    added: set[tuple[int, int]] = set()
    for access in run.accesses("atomic") if run.spec.ordered and run.error is None else ():
        for lane in _lanes(access):
            at = id(_memory(access)), _element(access, lane)
            if at in added:
                message = f"Line {access.line}: several lanes or programs add to {access.name} at offset "
                message += (
                    f"{access.offsets[lane]}. Their order is not promised, so the sum may differ from run to run."
                )
                _fail(message, run, details=[_source(text, access.line)], guess=run.spec.ordered,
                      launch=picture(access, lane, {access.offsets[lane]}))  # fmt: skip
            added.add(at)


def _values(run: Run, text: str, function):
    _shape(run, text)
    for name, expected in (run.expected or {}).items():
        got, want = run.results[name].detach().values(), expected.detach().values()
        pairs = list(zip(got, want, strict=True))
        wrong = [i for i, pair in enumerate(pairs) if not _near(*pair, run.spec.rtol, run.spec.atol)]
        rounded = expected.dtype.name == "float16" and 100 * len(wrong) <= len(pairs)
        if wrong and not (rounded and all(_near(*pairs[i], HALF, 0.0) for i in wrong)):
            _wrong_value(run, name, got, want, wrong, text)
    again = lambda **changes: perform(run.spec, function, run.case, **changes).results["out"]
    for holds in run.spec.properties:
        if message := holds(run.results["out"], run.inputs, again):
            _fail(message, run)


def _near(got, want, rtol: float, atol: float) -> bool:
    if got == want or (got != got and want != want):
        return True
    return isinstance(want, float) and abs(got - want) <= atol + rtol * abs(want)


def _wrong_value(run: Run, name: str, got: list, want: list, wrong: list[int], text: str):
    actual = run.results[name]
    at = next(at for i, at in enumerate(product(*map(range, actual.shape))) if i == wrong[0])
    called = {"out": "the result", "out[1]": "the second result", "out[2]": "the third result"}.get(name, name)
    what = f"{called}[{', '.join(map(str, at))}]" if at else name
    message = f"{what[0].upper()}{what[1:]} is {_number(got[wrong[0]])} and should be {_number(want[wrong[0]])}"
    verb = "is" if len(wrong) == 1 else "are"
    message += f"; {len(wrong)} of {len(got)} elements {verb} wrong." if len(got) > 1 else "."
    places = [_place(actual, i) for i in range(len(got))]
    here, details, launch = places[wrong[0]], [], None
    stores = run.accesses("store", "atomic", to=actual)
    owner = next((a for a in reversed(stores) if here in {_element(a, i) for i in _lanes(a)}), None)
    near = owner or next((a for a in stores if here in (_element(a, lane) for lane in range(len(a.offsets)))), None)
    if near:
        on = set(_lanes(near))
        lane = next(
            i for i in reversed(range(len(near.offsets))) if _element(near, i) == here and (i in on or not owner)
        )
        state = "on" if lane in on else "off, so nobody stores it"
        details = [f"Program {pid(near)} owns it: lane {lane}, offset {near.offsets[lane]}, mask {state}."]
        details += [_source(text, near.line)]
        start = near.launch.origins[near.name].start
        covered = {_element(a, i) for a in stores for i in _lanes(a)}
        launch = picture(
            near, lane, {places[i] - start for i in wrong}, {p - start for p in places if p not in covered}
        )
    elif run.launches and run.spec.stored:
        details = [f"No program stores it: none has its offset, {here}."]
    _fail(message, run, details=details, launch=launch, guess=_mistaken(run, name, actual) or _undefined(run, text))


def _mistaken(run: Run, name: str, actual: Tensor) -> str:
    """Return what the exercise says of a result that people get by a known mistake."""
    known, given = run.spec.mistaken if name == "out" else {}, [run.inputs[part] for part in run.spec.signature]
    if run.spec.gradients and name == f"grad of {run.spec.gradients[0]}":
        known, given = run.spec.mistaken_gradient, [run.gradient, *given]
    for message, mistake in known.items() if run.case.size not in run.spec.last else ():  # these would take long there
        try:
            other = mistake(*(value.detach() if isinstance(value, Tensor) else value for value in given))
            pairs = list(zip(actual.detach().values(), other.detach().values(), strict=True))
        except Exception:  # it does not hold for these inputs
            continue
        if tuple(other.shape) == tuple(actual.shape) and all(
            _near(a, b, run.spec.rtol, run.spec.atol) for a, b in pairs
        ):
            return message
    return ""


def _undefined(run: Run, text: str) -> str:
    """Return why a result is wrong only in memory that is filled with NaN."""
    if not run.case.fill:
        return ""
    bare = [call for call in ast.walk(ast.parse(text)) if isinstance(call, ast.Call) and len(call.args) < 3
            and ast.unparse(call.func).endswith("load") and all(k.arg != "other" for k in call.keywords)]  # fmt: skip
    for access in run.accesses("load"):
        if not all(access.mask or ()) and any(call.lineno <= access.line <= call.end_lineno for call in bare):
            return (
                f"Line {access.line} loads without `other`. A lane that is off then holds an undefined value, and here "
                "that value reaches the result. Which value would change nothing?"
            )
    if run.accesses("atomic"):
        return "An atomic operation adds to what is there. Does the result begin as zeros?"
    return "The result depends on memory that nobody wrote. Is something read before it is stored, or never stored?"


def _number(value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _refused(run: Run) -> bool:
    return run.spec.strides != "served" and bool(run.case.layout) and isinstance(run.error, ValueError)


def _strides(run: Run, text: str, function):
    if _refused(run):
        return
    contiguous = all(not isinstance(value, Tensor) or value.is_contiguous() for value in run.inputs.values())
    if run.spec.strides == "refused" and not contiguous:
        got = "returned a result" if run.error is None else f"raised {type(run.error).__name__}"
        _fail(f"{run.spec.function} should refuse a tensor that is not contiguous, with a ValueError. It {got}.", run)
    _bounds(run, text)
    _values(run, text, function)


def _honest(run: Run, text: str):
    """Check that kernels stored the result."""
    _shape(run, text)
    for name, line in run.computed:
        if name not in run.spec.torch_ops:
            _fail(f"torch computed something: `{name}`, on line {line}:", details=[_source(text, line)],
                  guess="The kernel has to do the work here; torch may only allocate.")  # fmt: skip
    for name, actual in run.results.items():
        if not isinstance(actual, Tensor) or not actual.numel():
            continue
        called = "the result" if name == "out" else name
        if not run.launches:
            guess = "Does it keep results of earlier calls? Each call has to compute its own."
            _fail(f"{run.spec.function} launched no kernel, but returned a result all the same.", run, guess=guess)
        if not run.spec.stored or not run.spec.covers:
            continue
        stores = run.accesses("store", "atomic", to=actual)
        covered = {_element(a, lane) for a in stores for lane in _lanes(a)}
        guess = "The kernel has to store what the function returns."
        if not covered:
            _fail(f"No kernel stored {called}: it comes from somewhere else.", run, guess=guess)
        if lost := [p for i in range(actual.numel()) if (p := _place(actual, i)) not in covered]:
            guess = "Its value is right by chance, or comes from somewhere else."
            _fail(f"No program stored the result's element at offset {lost[0]}.", run, guess=guess)


def _counts(run: Run, text: str):
    """Check what need not be done twice."""
    spec, touched = run.spec, run.accesses()
    if spec.most_moved is not None:
        moved = sum(len([*_lanes(a)]) * _size(run, a) for a in touched)
        tensors = [value for value in [*run.inputs.values(), *run.results.values()] if isinstance(value, Tensor)]
        must = sum(tensor.nbytes for tensor in tensors)
        if moved > spec.most_moved * must:
            guess = (
                "A value that is stored and loaded again could stay in the program's block. Is each input loaded once?"
            )
            _fail(f"Your kernels move {moved} bytes; inputs and result together have {must}.", run, guess=guess)
    if spec.most_launches is not None and len(run.launches) > spec.most_launches:
        names, most = ", ".join(launch.kernel for launch in run.launches), spec.most_launches
        _fail(f"{spec.function} launches {len(run.launches)} kernels, where {most} can do it: {names}.", run)
    for launch in run.launches:
        _programs_of(run, launch, text)
    for name, most in spec.most_reads.items():
        reads: dict[int, int] = dict.fromkeys({_place(run.inputs[name], i) for i in range(run.inputs[name].numel())}, 0)
        for access in run.accesses("load", to=run.inputs[name]):
            for lane in _lanes(access):
                reads[_element(access, lane)] = reads.get(_element(access, lane), 0) + 1
        if reads and (often := median(reads.values())) > most:
            guess = "A value that is read twice could stay in the program's block."
            guess = "Can one pass over the blocks do the work of two?" if most > 1 else guess
            _fail(f"Your kernels read each element of {name} {often:g} times; {most:g} would do.", run, guess=guess)
    for name in spec.in_blocks if run.case.size == spec.sizes[0] else ():
        _by_element(run, name, text)
    for name, least in spec.least_used.items() if run.case.size == spec.sizes[-1] else ():
        counted = [_sectors(run, a) for a in run.accesses("load", to=run.inputs[name])]
        fetched, needed = sum(f for f, _ in counted), sum(n for _, n in counted)
        if needed < least * fetched:
            message = (
                f"Of the bytes of {name} that your loads fetch, {needed / fetched:.0%} are used; {least:.0%} could be."
            )
            guess = "Memory delivers whole sectors. Does a program load neighboring elements, or one from each row?"
            _fail(message, run, guess=guess)


def _programs_of(run: Run, launch: Launch, text: str):
    spec, count = run.spec, launch.grid[0] * launch.grid[1] * launch.grid[2]
    programs = "1 program" if count == 1 else f"{count} programs"
    if spec.programs and count != run.inputs[spec.programs]:
        message = f"{launch.kernel} is launched with {programs}, and {spec.programs} is {run.inputs[spec.programs]}."
        _fail(message, run, guess="Does the grid have exactly that many?")
    stores: dict[tuple, dict[int, int]] = {}  # by program and line: how often
    for access in launch.accesses:
        if access.op != "load" and any(True for _ in _lanes(access)):
            lines = stores.setdefault(access.program, {})
            lines[access.line] = lines.get(access.line, 0) + (access.op == "store")
    for program, lines in stores.items() if spec.most_blocks is not None else ():
        if (most := max(lines.values())) > spec.most_blocks:
            line = max(lines, key=lines.get)
            guess = "A GPU is fast because it runs many programs at once. Are there as many as blocks?"
            message = f"Program {program[0]} stores {most} blocks, one after another, and the launch has {programs}."
            _fail(message, run, details=[_source(text, line)], guess=guess)
    if stores and len(stores) < count and not spec.idle:
        idle = count - len(stores)
        guess = "Does the grid count blocks, or elements? A program without work still takes up its place."
        if idle == 1:
            guess = "The grid has one program too many. Does it round up, with `triton.cdiv`?"
        _fail(f"{idle} of {programs} of {launch.kernel} store{'s' * (idle == 1)} nothing.", run, guess=guess)


def _crowded(run: Run, text: str) -> bool:
    """Return whether there are several times as many programs as blocks, which ``_counts`` refuses in the end."""
    from coach.finding import Fault

    for launch in run.launches:
        busy = {a.program for a in launch.accesses if a.op != "load" and any(True for _ in _lanes(a))}
        if not run.spec.idle and 0 < 4 * len(busy) <= launch.grid[0] * launch.grid[1] * launch.grid[2]:
            return True
    try:
        for name in run.spec.in_blocks:
            _by_element(run, name, text)
    except Fault:
        return True
    return False


def _by_element(run: Run, name: str, text: str):
    lines: dict[int, list[Access]] = {}
    for access in run.accesses("load", to=run.inputs[name]):
        lines.setdefault(access.line, []).append(access)
    for line, loads in lines.items():
        size = run.inputs[name].numel()
        if all(len(a.offsets) == 1 for a in loads) and 2 * sum(len([*_lanes(a)]) for a in loads) >= size > 1:
            message = f"Line {line} loads {loads[0].name} one element at a time, where a whole block should be loaded."
            guess = (
                "The lanes of a block are `tl.arange(0, …)`: which offsets do they have, and which lanes does a mask "
            )
            _fail(message, run, details=[_source(text, line)], guess=guess + "switch off?")


def _sectors(run: Run, access: Access) -> tuple[int, int]:
    size, wanted = _size(run, access), {_element(access, lane) for lane in _lanes(access)}
    return len({at * size // SECTOR for at in wanted}), -(-len(wanted) * size // SECTOR)


# Accesses


def _memory(access: Access):
    origin = access.launch.origins.get(access.name) if access.launch else None
    return origin.allocation if origin else None


def _element(access: Access, lane: int) -> int:
    """Return which element of its memory a lane points to."""
    origin = access.launch.origins.get(access.name)
    return access.offsets[lane] + (origin.start if origin else 0)


def _lanes(access: Access):
    """Yield the lanes that are on and point to an element."""
    outside = set(access.outside)
    return (i for i in range(len(access.offsets)) if i not in outside and (access.mask is None or access.mask[i]))


def _size(run: Run, access: Access) -> int:
    tensors = [value for value in [*run.inputs.values(), *run.results.values()] if isinstance(value, Tensor)]
    return next((t.itemsize for t in tensors if t.storage is _memory(access)), 4)


def _place(tensor: Tensor, index: int) -> int:
    """Return where in its memory an element lies, by its number in row-major order."""
    place = tensor.storage_offset()
    for n, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        index, i = divmod(index, n)
        place += i * stride
    return place


def pid(access: Access) -> str:
    x, y, z = access.program
    grid = access.launch.grid if access.launch else (1, 1, 1)
    return str(x) if grid[1:] == (1, 1) else str((x, y) if grid[2] == 1 else (x, y, z))


def picture(access: Access, lane: int, wrong=(), missed=()) -> dict:
    """Return a launch as ``coach.svg`` draws it: one access of each program nearby, and a lane in focus."""
    launch, order, chosen = access.launch, {}, {}
    number = lambda program: program[0] + launch.grid[0] * (program[1] + launch.grid[1] * program[2])
    for each in launch.accesses:
        if (each.line, each.op, each.name) == (access.line, access.op, access.name):
            chosen.setdefault(number(each.program), each)
            order[number(each.program)] = each.program
    here, last = number(access.program), launch.grid[0] * launch.grid[1] * launch.grid[2] - 1
    chosen[here], order[here] = access, access.program
    near = range(last + 1) if last < NEAR else sorted({0, 1, here - 1, here, here + 1, last})
    axes = 1 if launch.grid[1:] == (1, 1) else 2 if launch.grid[2] == 1 else 3
    return {
        "kernel": launch.kernel, "grid": list(launch.grid[:axes]), "op": access.op, "tensor": access.name,
        "line": access.line, "shape": list(access.shape), "focus": [here, lane],
        "programs": [
            {"program": p, "pid": list(order[p][:axes]), "lanes": "".join(_states(chosen[p], wrong, missed)),
             "offsets": list(chosen[p].offsets)}
            for p in near if p in chosen
        ],
    }  # fmt: skip


def _states(access: Access, wrong, missed):
    outside = set(access.outside)
    for lane, offset in enumerate(access.offsets):
        if access.mask is None or access.mask[lane]:
            yield OUTSIDE if lane in outside else WRONG if offset in wrong else ON
        else:
            yield MISSED if offset in missed else OFF
