# SPDX-License-Identifier: Apache-2.0
"""Read the reader's file without running it: kernels, names, gaps, masks, dtypes. Needs no torch."""

import ast
import builtins
import difflib
import itertools
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import gaps
from .finding import Finding
from .spec import FINISHED

if TYPE_CHECKING:
    from .exercise import Exercise

LOOPS = ast.For | ast.While
TENSORS = "torch.Tensor", "torch.empty", "torch.zeros", "torch.ones", "torch.full"
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}  # as Triton prints them


class Source:
    def __init__(self, text: str):
        self.text, self.tree = text, ast.parse(text)
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        self.kernels = [f for f in self.functions if any(_last(d) == "jit" for d in f.decorator_list)]
        try:
            present = list(gaps.gaps(text).values())
        except gaps.GapError:  # the reader removed a marker, which is no fault
            present = []
        self.gaps = [range(gap.line + 1, gap.line + 1 + len(gap.text.splitlines())) for gap in present]

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def function_at(self, line: int) -> ast.FunctionDef | None:
        """Return the innermost function around a line."""
        around = [f for f in self.functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
        return max(around, key=lambda f: f.lineno, default=None)

    def in_gap(self, line: int) -> bool:
        return any(line in gap for gap in self.gaps)

    def behind_a_gap(self, line: int) -> bool:
        """Return whether the line is in no gap, and a gap of the same function ends before it."""
        function = self.function_at(line)
        ends = [gap[-1] for gap in self.gaps if gap and function and gap[0] > function.lineno]
        return not self.in_gap(line) and any(end < line for end in ends)

    def launched(self) -> set[str]:
        """Return the names of functions that are called as ``name[grid](…)``."""
        calls = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return {_last(call.value) for call in calls if isinstance(call, ast.Subscript)}


@lru_cache(maxsize=8)
def _parsed(text: str) -> Source | None:
    try:
        return Source(text)
    except (SyntaxError, ValueError):
        return None


def read(file: str) -> Source | None:
    """Return the file's source, or None where it cannot be read, or is no Python."""
    try:
        return _parsed(text_of(file))
    except (OSError, ValueError):
        return None


def text_of(file: str) -> str:
    """Return a file's text. What the site's model runs is in no file; ``linecache`` holds it, as of no time."""
    held = linecache.cache.get(file, ())
    if len(held) == 4 and held[1] is None:
        return "".join(held[2])
    return Path(file).read_text("utf-8-sig")


def line_of(file: str, number: int) -> str:
    """Return a line of a file, without what stands around it; "" for 0."""
    lines = text_of(file).splitlines() if number else []
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _last(node: ast.AST) -> str:
    """Return the last name of ``triton.jit``, ``jit`` or ``triton.jit()``."""
    node = node.func if isinstance(node, ast.Call) else node
    return getattr(node, "attr", getattr(node, "id", ""))


def _within(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, without those of functions within."""
    left = list(function.body)
    while left:
        node = left.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def _named(function: ast.FunctionDef, name: str) -> list[ast.Name]:
    return [node for node in _within(function) if isinstance(node, ast.Name) and node.id == name]


def _holds(block: ast.AST, node: ast.AST) -> bool:
    return block.lineno <= node.lineno <= block.end_lineno


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]


def constants(function: ast.FunctionDef) -> list[str]:
    """Return the parameters of a kernel that are annotated ``tl.constexpr``."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [a.arg for a in arguments if a.annotation is not None and _last(a.annotation) == "constexpr"]


# What is wrong in the text alone


def faulty(exercise: "Exercise", text: str, name: str) -> Finding | None:
    """Return what is wrong with the text of a file before it is run, if anything is."""
    try:
        compile(text, name, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        code = f"    {text.splitlines()[line - 1].strip()}" if line and line <= len(text.splitlines()) else ""
        where = f" on line {line}" if line else ""
        return Finding(
            f"{name} is not valid Python{where}: {getattr(error, 'msg', error)}.", details=[code], stage="compiles"
        )
    if exercise.card.kind not in FINISHED and (left := gaps.untouched(text, exercise.skeleton)):
        gap = left[0]
        message = f"Gap {gap.number} is still empty, on line {gap.line}: {gap.about}"
        return Finding(message, stage="compiles")
    if message := returns_a_value(text):
        return Finding(message, stage="compiles")
    return None


def returns_a_value(text: str) -> str:
    """Return a sentence on a kernel that is launched and returns something, or ""."""
    if (source := _parsed(text)) is None:
        return ""
    for kernel in source.kernels:
        for node in _within(kernel):
            if not isinstance(node, ast.Return) or node.value is None or _none(node.value):
                continue
            if kernel.name not in source.launched():
                continue
            stores = [n.lineno for n in _within(kernel) if isinstance(n, ast.Call) and _last(n) == "store"]
            behind = min((line for line in stores if line > node.lineno), default=0)
            message = f"Line {node.lineno}: a kernel returns nothing; it stores. "
            return message + (
                f"Remove this line: line {behind} stores, and it is never reached."
                if behind
                else "Remove this line, and write what should last with `tl.store`."
            )
    return ""


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# Names


def about_name(file: str, name: str, line: int = 0) -> str:
    """Explain a name that is not defined, in the function around a line, else in the first kernel that uses it."""
    if (source := read(file)) is None:
        return ""
    around = source.function_at(line) if line else None
    for function in [around] if around else [*source.kernels, *source.functions]:
        uses = [n for n in _named(function, name) if isinstance(n.ctx, ast.Load)]
        if uses:
            return _unknown(source, function, name, min(uses, key=lambda n: (n.lineno, n.col_offset)))
    return ""


def _unknown(source: Source, function: ast.FunctionDef, name: str, use: ast.Name) -> str:
    kernel = function in source.kernels
    stores = [n for n in _named(function, name) if isinstance(n.ctx, ast.Store)]
    if stores:
        first = min(stores, key=lambda n: n.lineno)
        if first.lineno > use.lineno:
            return f"Line {use.lineno} uses `{name}`, but line {first.lineno}, after it, is the first to set it."
        around = [n for n in _within(function) if isinstance(n, ast.If | LOOPS) and _holds(n, first)]
        if any(not _holds(block, use) for block in around):
            where = "in an `if` or a loop, after which it is unknown"
            return f"Line {first.lineno} sets `{name}` {where}: set it before, too."
        if first.lineno == use.lineno:
            begin = "Which value does it have before the loop?" if around else "Is it a name from the lesson?"
            return f"Line {use.lineno} uses `{name}`, which no line before it sets. {begin}"
        return ""
    called = any(isinstance(n, ast.Call) and n.func is use for n in _within(function))
    if called and (module := _library(name, kernel)):
        return f"Is it `{module}.{name}`?"
    if source.behind_a_gap(use.lineno):
        return f"Line {use.lineno}, after the gap, uses `{name}`, so the gap must set it."
    if called:
        also = ", with its `@triton.jit`, above the kernel" if kernel else ""
        return (
            f"`{name}` is defined nowhere in this file. Is it a function from the lesson's file? Then "
            f"copy it, too{also}."
        )
    if not kernel and any(name in parameters(k) for k in source.kernels):
        message = "Outside the kernel, its parameters have no value. "
        if held := _held(function, name, use.lineno):
            return f"{message}Here it is `{held}`."
        return message + "Which number does the launch pass for this one, and what is it called there?"
    known = parameters(function)
    known += [
        n.id
        for n in _within(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < use.lineno and n.id not in known
    ]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    question = f"Is it `{near[0]}`?" if near else "Is it a name from the lesson?"
    if not known or hasattr(builtins, name):
        return ""
    if not kernel and name in {*sys.stdlib_module_names, "np", "numpy"}:
        return f"`{name}` is not imported in this file."
    if not kernel:
        return f"`{name}` is not set in {function.name}; it has {_listed(list(dict.fromkeys(known)))}. {question}"
    given = parameters(function)
    message = f"`{name}` is not a parameter of {function.name}; it has {_listed(given)}."
    if near and near[0] not in given:
        message = f"`{name}` is neither a parameter of {function.name} nor set in it."
    return f"{message} {question}"


def _held(function: ast.FunctionDef, name: str, line: int) -> str:
    """Return ``tile["BLOCK"]``, where a dictionary that is written out before a line has the name as a key."""
    for n in _within(function):
        if not isinstance(n, ast.Assign) or n.lineno >= line or not isinstance(n.targets[0], ast.Name):
            continue
        written = [n.value.body, n.value.orelse] if isinstance(n.value, ast.IfExp) else [n.value]
        if all(isinstance(d, ast.Dict) and name in [getattr(k, "value", None) for k in d.keys] for d in written):
            return f'{n.targets[0].id}["{name}"]'
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def _library(name: str, kernel: bool) -> str:
    """Return the library of a function that was called without it."""
    import triton
    import triton.language as tl

    if kernel:
        return "tl" if callable(getattr(tl, name, None)) else ""
    return "triton" if name in ("cdiv", "next_power_of_2") and hasattr(triton, name) else ""


# Lines of a kernel


def call_at(source: Source, line: int, names: tuple[str, ...]) -> ast.Call | None:
    """Return the call of ``tl.NAME`` that a line lies in."""
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and _last(n) in names]
    return next((call for call in calls if call.lineno <= line <= call.end_lineno), None)


def stored_to(file: str, node: ast.AST | None, line: int) -> ast.AST | None:
    """Return the pointer of a ``tl.store``: a node, or the one in a line."""
    source = read(file)
    call = node if isinstance(node, ast.Call) else call_at(source, line, ("store",)) if source and line else None
    return call.args[0] if call is not None and _last(call) == "store" and call.args else None


def mask_at(file: str, line: int) -> ast.AST | None:
    """Return the mask of the load or store in a line; where that is a name, its last value."""
    if (source := read(file)) is None or not (call := call_at(source, line, ("load", "store"))):
        return None
    place = 1 if _last(call) == "load" else 2
    mask = next((k.value for k in call.keywords if k.arg == "mask"), None)
    mask = call.args[place] if mask is None and len(call.args) > place else mask
    function = source.function_at(line)
    if isinstance(mask, ast.Name) and function:
        made = [n for n in _within(function) if isinstance(n, ast.Assign) and n.lineno < line]
        made = [n for n in made if any(getattr(target, "id", "") == mask.id for target in n.targets)]
        mask = max(made, key=lambda n: n.lineno).value if made else None
    return mask


def joined_masks(file: str, line: int) -> tuple[str, int] | None:
    """Return the ``and`` or ``or`` between comparisons in the mask of the load or store in a line, and its line."""
    mask = mask_at(file, line)
    for node in ast.walk(mask) if mask is not None else ():
        if isinstance(node, ast.BoolOp) and all(isinstance(value, ast.Compare) for value in node.values):
            return "and" if isinstance(node.op, ast.And) else "or", node.lineno
    return None


def names_in_mask(file: str, line: int) -> set[str]:
    mask = mask_at(file, line)
    return {node.id for node in ast.walk(mask) if isinstance(node, ast.Name)} if mask is not None else set()


def two_stores(file: str, first: int, second: int) -> str:
    """Explain two lines that store the same element."""
    source, message = read(file), f"Line {first} has already stored it. "
    if source and source.in_gap(first) and source.behind_a_gap(second):
        return message + f"Line {second}, after the gap, is the exercise's own store, so leave yours out."
    return message + "Which of the two should store it?"


def fixed(file: str, call: ast.AST | None) -> tuple[list[str], str]:
    """Return the names at the ends of a ``tl.arange`` that are no constants, and a constant of its kernel, or ""."""
    if (source := read(file)) is None or not isinstance(call, ast.Call) or _last(call) != "arange":
        return [], ""
    for kernel in source.kernels:
        if any(ast.dump(call) == ast.dump(n) for n in _within(kernel)):
            known = constants(kernel)
            names = [n.id for argument in call.args for n in ast.walk(argument) if isinstance(n, ast.Name)]
            return [n for n in dict.fromkeys(names) if n not in known], next(iter(known), "")
    return [], ""


def defines(file: str, name: str) -> bool:
    """Return whether a function of the file, and no kernel, has this name."""
    source = read(file)
    return source is not None and name in {f.name for f in source.functions} - {k.name for k in source.kernels}


def makes_a_block(node: ast.AST | None) -> ast.Call | None:
    """Return the call of ``tl.zeros`` or ``tl.full`` in a node."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)] if node is not None else []
    return next((call for call in calls if ast.unparse(call.func) in ("tl.zeros", "tl.full")), None)


def kernel_of(file: str, node: ast.AST | None) -> ast.FunctionDef | None:
    """Return the kernel that has such a node: Triton parses a kernel alone, so the node's line is another one."""
    source = read(file) if node is not None else None
    for kernel in source.kernels if source else ():
        if any(ast.dump(node) == ast.dump(n) for n in _within(kernel)):
            return kernel
    return None


def constants_around(file: str, node: ast.AST | None) -> str:
    """Return a sentence on the constants of the kernel that has such a node, or ""."""
    kernel = kernel_of(file, node)
    known = constants(kernel) if kernel else []
    if not known:
        return ""
    many = len(known) > 1
    return f" The constant{'s' * many} of {kernel.name} {'are' if many else 'is'} {_listed(known)}."


def not_constant(file: str, call: ast.Call | None) -> list[str]:
    """Return the names in the shape of a ``tl.zeros`` or ``tl.full`` that are no constants of its kernel."""
    kernel = kernel_of(file, call)
    if kernel is None:
        return []
    shape = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "shape"), None)
    names = [n.id for n in ast.walk(shape) if isinstance(n, ast.Name)] if shape is not None else []
    return [n for n in dict.fromkeys(names) if n in parameters(kernel) and n not in constants(kernel)]


def of_torch(file: str) -> tuple[int, str] | None:
    """Return the line of the first call of torch in a kernel, and the function's name."""
    source = read(file)
    for kernel in source.kernels if source else ():
        for node in _within(kernel):
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(getattr(called, "value", None), "id", "") in ("torch", "math", "np", "numpy"):
                return node.lineno, ast.unparse(called)
    return None


def loaded(file: str, product: ast.AST | None) -> bool:
    """Return whether a node is ``a * b``, of two names that come from ``tl.load``."""
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult) or (source := read(file)) is None:
        return False
    names = [getattr(side, "id", None) for side in (product.left, product.right)]
    made = [n for n in ast.walk(source.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    loads = {getattr(target, "id", "") for n in made if _last(n.value) == "load" for target in n.targets}
    return loads >= {*names}


def grid_of(file: str, line: int) -> str:
    """Return the name that a launch in this line, outside of every gap, puts into its grid: ``kernel[(NAME,)](…)``."""
    if (source := read(file)) is None or source.in_gap(line):
        return ""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and node.lineno == line:
            grid = node.func.slice
            if isinstance(grid, ast.Tuple) and len(grid.elts) == 1 and isinstance(grid.elts[0], ast.Name):
                return grid.elts[0].id
    return ""


def divides(file: str, line: int) -> bool:
    """Return whether the function around a line has a ``/``."""
    function = source.function_at(line) if (source := read(file)) else None
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) for n in _within(function)) if function else False


def tl_outside(file: str, line: int) -> str:
    """Return the function of ``tl`` that a line outside of every kernel calls."""
    if (source := read(file)) is None or source.function_at(line) in source.kernels:
        return ""
    for node in ast.walk(source.tree):
        called = node.func if isinstance(node, ast.Call) and node.lineno == line else None
        if isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "tl":
            return called.attr
    return ""


# Launches


def launch_at(source: Source, line: int) -> ast.Call | None:
    """Return the call ``kernel[grid](…)`` that a line lies in."""
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)]
    return next((call for call in calls if call.lineno <= line <= call.end_lineno), None)


def _launched(source: Source | None, line: int) -> tuple[ast.Call | None, ast.FunctionDef | None, dict[str, ast.AST]]:
    """Return a launch, its kernel, and the last values before it of the names of the host function."""
    launch = launch_at(source, line) if source else None
    kernel = next((k for k in source.kernels if k.name == _last(launch.func.value)), None) if launch else None
    host, names = source.function_at(line) if launch else None, {}
    for argument in host.args.args if host else ():
        names |= {argument.arg: argument.annotation} if argument.annotation is not None else {}
    for n in sorted((n for n in _within(host) if isinstance(n, ast.Assign)), key=lambda n: n.lineno) if host else ():
        if n.lineno < launch.lineno:
            names |= {target.id: n.value for target in n.targets if isinstance(target, ast.Name)}
            sides = n.targets[0].elts if isinstance(n.targets[0], ast.Tuple) else []
            if isinstance(n.value, ast.Attribute) and n.value.attr == "shape":  # each is a number
                names |= {side.id: ast.Constant(0) for side in sides if isinstance(side, ast.Name)}
            else:
                for name in (n for side in sides for n in ast.walk(side) if isinstance(n, ast.Name)):
                    names.pop(name.id, None)
    return launch, kernel, names


def _of_tensor(node: ast.AST, method: str) -> bool:
    """Return whether a node is ``x.METHOD()``, without an argument."""
    called = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else None
    return isinstance(called, ast.Attribute) and called.attr == method


def _is_tuple(node: ast.AST, names: dict[str, ast.AST]) -> bool:
    node = names.get(node.id, node) if isinstance(node, ast.Name) else node
    shape = isinstance(node, ast.Attribute) and node.attr == "shape"
    return isinstance(node, ast.Tuple) or _of_tensor(node, "stride") or shape


def _spread(nodes: list[ast.AST], names: dict[str, ast.AST], ndims: dict[str, int]) -> list:
    """Return arguments in their order: ``(x, axis)`` for a stride of x; None at the end of an unknown number."""
    strides = []
    for node in nodes:
        starred = isinstance(node, ast.Starred)
        value = node.value if starred else node
        value = names.get(value.id, value) if starred and isinstance(value, ast.Name) else value
        if starred and isinstance(value, ast.Tuple):
            strides += _spread(value.elts, names, ndims)
        elif starred and _of_tensor(value, "stride") and (whose := ast.unparse(value.func.value)) in ndims:
            strides += [(whose, axis) for axis in range(ndims[whose])]
        elif starred:
            return [*strides, None]
        elif isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "stride" and len(value.args) == 1:
            axis = ast.unparse(value.args[0])
            known = axis.removeprefix("-").isdecimal()
            strides.append((ast.unparse(value.func.value), int(axis)) if known else value)
        else:
            strides.append(value)
        if strides and strides[-1] is None:
            return strides
    return strides


def strides_passed(file: str, line: int, tensor: str, ndims: dict[str, int]) -> dict[str, int]:
    """Return the axes of a tensor of the host function whose strides a launch in this line passes, by parameter.

    ``ndims``: how many axes its tensors have, as far as known.
    """
    launch, kernel, names = _launched(read(file), line)
    if launch is None or kernel is None:
        return {}
    pairs = list(zip(parameters(kernel), _spread(launch.args, names, ndims), strict=False))
    pairs += [(k.arg, _spread([k.value], names, {})[0]) for k in launch.keywords if k.arg]
    return {name: value[1] for name, value in pairs if isinstance(value, tuple) and value[0] == tensor}


def used_by(file: str, line: int) -> set[str] | None:
    """Return the names in the ``tl.load`` or ``tl.store`` of a line, and in the values that they have in the kernel."""
    source = read(file)
    call = call_at(source, line, ("load", "store")) if source else None
    function = source.function_at(line) if call else None
    if function is None:
        return None
    left, names = [n.id for n in ast.walk(call) if isinstance(n, ast.Name)], set()
    while left:
        if (name := left.pop()) in names:
            continue
        names.add(name)
        for n in _within(function):
            targets = n.targets if isinstance(n, ast.Assign) else [getattr(n, "target", None)]
            inside = {m.id for t in targets if t is not None for m in ast.walk(t) if isinstance(m, ast.Name)}
            value = n.iter if isinstance(n, ast.For) else getattr(n, "value", None)
            if name in inside and value is not None:
                left += [m.id for m in ast.walk(value) if isinstance(m, ast.Name)]
    return names


def exchanged(file: str, line: int) -> tuple[int, list[tuple[str, str]]]:
    """Find arguments in each other's places: those with the name of another parameter, which gets something else.

    Args:
        line: A launch; or a line of a kernel, for the first of its launches that has such arguments.

    Returns:
        The line of the launch, and each such parameter with what it gets.
    """
    if (source := read(file)) is None:
        return 0, []
    launches = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)]
    around = source.function_at(line)
    for launch in launches:
        kernel = next((k for k in source.kernels if k.name == _last(launch.func.value)), None)
        if kernel is None or (kernel is not around and not launch.lineno <= line <= launch.end_lineno):
            continue
        places = itertools.takewhile(lambda argument: not isinstance(argument, ast.Starred), launch.args)
        given = dict(zip(parameters(kernel), map(ast.unparse, places), strict=False))
        known = {name.removesuffix("_ptr"): name for name in parameters(kernel)}
        pairs = [(parameter, name) for parameter, name in given.items() if known.get(name, parameter) != parameter
                 and given.get(known[name], name) != name]  # fmt: skip
        if pairs:
            return launch.lineno, pairs
    return 0, []


def tuned(source: Source) -> bool:
    return any(_last(n) == "autotune" for n in ast.walk(source.tree) if isinstance(n, ast.Call))


def too_few(file: str, line: int, missing: list[str]) -> str:
    """Explain a launch that does not pass all arguments of its kernel."""
    source = read(file)
    launch, kernel, names = _launched(source, line)
    if launch is None or kernel is None or not {*missing} <= {*parameters(kernel)}:
        return ""
    for argument in launch.args:
        if _is_tuple(argument, names):
            what = ast.unparse(argument)
            return f"`{what}` is a tuple and counts as one argument: `*{what}` passes each of its numbers."
    known, given = parameters(kernel), _spread(launch.args, names, {})
    message = f"{kernel.name} takes {_listed(known)}. "
    if None not in given:
        count = f"{len(given)} argument{'s' * (len(given) != 1)} by position"
        named = [k.arg for k in launch.keywords if k.arg in known]
        message += f"Line {launch.lineno} passes {count}" + (f", and {_listed(named)} by name. " if named else ". ")
    if tip := _misplaced(kernel, given, names):
        return message + tip
    message += f"Where is {missing[0]}?" if len(missing) == 1 else f"Where are {_listed(missing)}?"
    return message + (" Or do all of the tuner's configs set the rest?" if tuned(source) else "")


def _misplaced(kernel: ast.FunctionDef, given: list, names: dict[str, ast.AST]) -> str:
    """Return the first argument that is a number for a pointer, a tensor for a number, or a misplaced stride."""
    known = parameters(kernel)
    pointers, strides = known[0].endswith("_ptr"), any("stride" in name for name in known)
    for parameter, value in zip(known, given, strict=False):
        if value is None:
            return ""
        kind = "stride" if isinstance(value, tuple) else _kind(value, names)
        shown = f"{value[0]}.stride({value[1]})" if isinstance(value, tuple) else ast.unparse(value)
        pointer, stride = parameter.endswith("_ptr"), "stride" in parameter
        fits = {"tensor": pointer or not pointers, "number": not pointer, "": True}
        fits["stride"] = not pointer and (stride or not strides)
        if not fits[kind]:
            return f"`{shown}`, a {kind}, is passed as {parameter}."
    return ""


def _kind(node: ast.AST, names: dict[str, ast.AST]) -> str:
    """Return ``"tensor"``, ``"number"``, or "" where that is not known."""
    node = names.get(node.id, node) if isinstance(node, ast.Name) else node
    if ast.unparse(node).startswith(TENSORS):
        return "tensor"
    called = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return "number" if constant or called in ("numel", "size", "cdiv", "next_power_of_2") else ""


# Sums


def sums(file: str, kernel: str, given: dict) -> list[tuple[str, str, str, int, int]]:
    """Return what a kernel's loops add up: name, dtype, the parameter that says which ("": none), the line in which
    it begins, and the line in which what is added is rounded to a narrower dtype (0: none). ``given``: what was passed.
    """
    if (source := read(file)) is None:
        return []
    function = next((k for k in source.kernels if k.name == kernel), None)
    nodes = list(_within(function)) if function else []
    begins = {}
    for n in nodes:
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and _last(n.value) in ("zeros", "full"):
            dtype = next((k.value for k in n.value.keywords if k.arg == "dtype"), None) or n.value.args[-1]
            begins[getattr(n.targets[0], "id", "")] = n.lineno, dtype
    totals = []
    for loop in (n for n in nodes if isinstance(n, LOOPS)):
        for n in ast.walk(loop):
            target = n.target if isinstance(n, ast.AugAssign) else n.targets[0] if isinstance(n, ast.Assign) else None
            if getattr(target, "id", "") in begins:
                line, dtype = begins[target.id]
                parameter = dtype.id if isinstance(dtype, ast.Name) else ""
                rounded = _rounded(n.value, target.id, given)
                totals.append((target.id, _dtype(dtype, given), parameter, line, rounded))
    return totals


def begins_as(file: str, total: str) -> str:
    """Explain a block that begins as ``tl.zeros(…, PARAMETER)``, where a launch passes a 16-bit dtype as that."""
    if (source := read(file)) is None:
        return ""
    for n in ast.walk(source.tree):
        if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == total and isinstance(n.value, ast.Call):
            parts = [*n.value.args[-1:], *(k.value for k in n.value.keywords if k.arg == "dtype")]
            parameter = getattr(parts[-1], "id", "") if parts and _last(n.value) in ("zeros", "full") else ""
            for k in (k for call in ast.walk(source.tree) if isinstance(call, ast.Call) for k in call.keywords):
                if k.arg == parameter and _dtype(k.value, {}) in ("float16", "bfloat16"):
                    passes = f"line {k.value.lineno} passes {ast.unparse(k.value)}"
                    return f"`{total}` begins as {parameter}, for which {passes}"
    return ""


def _dtype(node: ast.AST | None, given: dict) -> str:
    """Return ``float16`` for ``tl.float16``, or for a parameter that has this value."""
    if isinstance(node, ast.Name):
        return DTYPES.get(str(given.get(node.id)), "")
    return _last(node) if node is not None and _last(node) in DTYPES.values() else ""


def _rounded(value: ast.AST, total: str, given: dict) -> int:
    """Return the line in which a part of the value that does not hold the total becomes narrow."""
    for node in ast.walk(value):
        if not isinstance(node, ast.Call) or any(getattr(n, "id", "") == total for n in ast.walk(node)):
            continue
        dtype = node.args[0] if _last(node) == "to" and node.args else None
        dtype = dtype or next((k.value for k in node.keywords if k.arg == "out_dtype"), None)
        if _dtype(dtype, given) in ("float16", "bfloat16"):
            return node.lineno
    return 0


def narrow(file: str, kernel: str, given: dict, dtype: str) -> bool:
    """Return whether a loop of a kernel makes something of this dtype."""
    source = read(file)
    function = next((k for k in source.kernels if k.name == kernel), None) if source else None
    for loop in (n for n in _within(function) if isinstance(n, LOOPS)) if function else ():
        for node in ast.walk(loop):
            if isinstance(node, ast.Call):
                asked = [k.value for k in node.keywords if "dtype" in str(k.arg)]
                asked += node.args[:1] if _last(node) == "to" else []
                if any(_dtype(each, given) == dtype for each in asked):
                    return True
    return False
