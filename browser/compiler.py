# SPDX-License-Identifier: Apache-2.0
"""Compile a kernel's text. What Triton's compiler refuses is refused here, in its words, in the kernel's line.

As in Triton's interpreter, the text is compiled again so that each value that is assigned to a name becomes a block; as
in its compiler, ``and``, ``or`` and ``not`` of blocks are taken lane by lane, and a name keeps its type through a loop
and through both branches of an ``if``.
"""

import ast
import builtins
import difflib
import inspect
import linecache
import operator
import re
import textwrap
import types
import warnings
from functools import partial
from typing import Any

from . import arithmetic, block, language
from .block import tensor
from .dtypes import int1

ABSENT = object()
NODES = {  # of Python's grammar, those that the compiler knows
    "AnnAssign", "Assert", "Assign", "Attribute", "AugAssign", "BinOp", "BoolOp", "Call", "Compare", "Constant", "Expr",
    "For", "FormattedValue", "If", "IfExp", "JoinedStr", "List", "ListComp", "Name", "Pass", "Return", "Slice",
    "Starred", "Subscript", "Tuple", "UnaryOp", "While", "With",
}  # fmt: skip
BUILTINS = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
BRANCHES: dict[tuple, dict[bool, dict]] = {}  # by an `if`: types of names after either branch, in this launch
TAKEN: dict[tuple, bool] = {}  # by an `if` that a number of the program decides: how


class CompilationError(Exception):
    """The compiler does not take the kernel."""


class UnsupportedLanguageConstruct(CompilationError):
    """It uses a part of Python that kernels do not have."""


def remember(event: str, args: tuple):
    """Keep the text of what is compiled, for a kernel's text is read again: an audit hook, see ``modules``."""
    if event == "compile" and isinstance(args[0], bytes | str) and args[1] not in (None, "<unknown>"):
        text = args[0] if isinstance(args[0], str) else args[0].decode("utf-8", "replace")
        linecache.cache[args[1]] = (len(text), None, text.splitlines(keepends=True), args[1])


def meant(name: str, known, *, cutoff=0.75) -> str:
    """Return a question for the known name that looks most like one, or nothing; in Python's words."""
    close = difflib.get_close_matches(name, [k for k in known if not k.startswith("__")], 1, cutoff)
    return f". Did you mean: '{close[0]}'?" if close else ""


# What is refused


def _dotted(node) -> list[str]:
    """Return the names of ``a.b.c``, or nothing for another expression."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return [*before, node.attr] if before else []
    return [node.id] if isinstance(node, ast.Name) else []


class _Scope:
    """The names that a kernel knows, its own and its file's."""

    def __init__(self, definition: ast.FunctionDef, function):
        self.file, self.names = function.__code__.co_filename, function.__globals__
        self.own = {a.arg for a in ast.walk(definition) if isinstance(a, ast.arg)} | _assigned_in([definition])

    def value(self, node):
        """Return what a name of the file, or an attribute of one, stands for."""
        first, *rest = _dotted(node) or [""]
        value = ABSENT if first in self.own else self.names.get(first, ABSENT)
        for name in rest:
            value = vars(value).get(name, ABSENT) if isinstance(value, types.ModuleType) else ABSENT
        return value

    def complaint(self, node) -> Exception | None:
        """Return what the compiler raises at a node."""
        match node:
            case ast.FunctionDef():
                return UnsupportedLanguageConstruct("nested function definition is not supported.")
            case ast.Assign(targets=[_, _, *_]):
                return ValueError("Multiple assignments are not supported")
            case ast.Compare(ops=[_, _, *_]):
                return UnsupportedLanguageConstruct("simultaneous multiple comparison is not supported")
            case ast.ListComp(generators=[ast.comprehension(iter=ast.Call())]):
                return NotImplementedError("only tuple comprehensions are supported")
            case ast.Subscript(ctx=ast.Store()):
                return NotImplementedError("__setitem__ is not supported in triton")
            case ast.BinOp(op=ast.MatMult()):
                return AttributeError("'MatMult' object has no attribute '__name__'")
            case ast.Call():
                return self.of_call(node)
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                return self.of_name(node)
            case ast.stmt() | ast.expr() if type(node).__name__ not in NODES:
                return UnsupportedLanguageConstruct(f"unsupported AST node type: {type(node).__name__}")
        return None

    def of_call(self, call: ast.Call) -> Exception | None:
        """Refuse an argument by a name that a function of Triton does not have."""
        function = self.value(call.func)
        if not isinstance(function, types.FunctionType) or not _dotted(call.func)[1:]:
            return None
        known = inspect.signature(function).parameters
        if any(p.kind == p.VAR_KEYWORD for p in known.values()):
            return None
        wrong = next((k.arg for k in call.keywords if k.arg and k.arg not in known), None)
        name = _dotted(call.func)[-1]
        return wrong and TypeError(f"{name}() got an unexpected keyword argument '{wrong}'{meant(wrong, known)}")

    def of_name(self, node: ast.Name | ast.Attribute) -> Exception | None:
        value, name = self.value(node), ".".join(_dotted(node))
        module = getattr(self.names.get(name.split(".")[0]), "__name__", "")
        if module.split(".")[0] == "torch" and isinstance(value, types.FunctionType):
            return RuntimeError(f"Unsupported function referenced: {name}")
        if not isinstance(node, ast.Name) or name in self.own:
            return None
        if isinstance(value, types.FunctionType) and value.__code__.co_filename == self.file:
            return RuntimeError(f"Unsupported function referenced: <function {name}>")
        if isinstance(value, int | float | str) or (
            not isinstance(value, types.ModuleType) and hasattr(value, "data_ptr")
        ):
            return NameError(f"Cannot access global variable {name} from within @jit'ed function. Triton kernels can "
                             "only access global variables that are instanstiated as constexpr (`x = "
                             "triton.language.constexpr(42)`).")  # fmt: skip
        if value is not ABSENT or name in BUILTINS:
            return None
        if hasattr(builtins, name):
            return NameError(f"{name} is not defined")
        return NameError(f"name '{name}' is not defined{meant(name, {*self.own, *self.names, *BUILTINS})}")


def _refuse(definition: ast.FunctionDef, function):
    """Have a function raise what the compiler raises, if it does, in place of all that it would do."""
    scope = _Scope(definition, function)
    hints = {id(part) for node in ast.walk(definition) if isinstance(node, ast.AnnAssign)
             for part in ast.walk(node.annotation)}  # fmt: skip
    nodes = [node for part in definition.body for node in ast.walk(part) if id(node) not in hints]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if error := scope.complaint(node):
            stop = ast.Expr(_call("__raised", ast.Constant(type(error).__name__), ast.Constant(error.args[0])))
            definition.body = [ast.copy_location(stop, node)]
            return


def _lost(definition: ast.FunctionDef, before: int) -> dict[str, int]:
    """Return which arguments a kernel that stores nothing gives another value, and in which line of the file."""
    if re.search(r"\bstore|\batomic", ast.unparse(definition)):
        return {}
    given = {argument.arg for argument in definition.args.args}
    return {part.id: before + part.lineno for node in ast.walk(definition) if isinstance(node, ast.Assign)
            for part in node.targets if isinstance(part, ast.Name) and part.id in given}  # fmt: skip


def _raised(kind: str, message: str):
    raise globals().get(kind, getattr(builtins, kind, None))(message)


# What a kernel's text becomes


def _assigned(value):
    return block.to_tensor(value, check=False)


def _warn(message: str):
    warnings.warn(message, UserWarning, stacklevel=3)  # in the kernel's line


def _joined(word: str, compute, left, right):
    if isinstance(left, tensor) and left.shape:
        _warn("Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please use '&' or '|' instead")
        return block.either(left, right(), compute)
    return (left and right()) if word == "and" else (left or right())


def _not(value):
    return block.invert(block.cast(value, int1)) if isinstance(value, tensor) and value.shape else not value


def _extreme(name: str, *values):
    if not any(isinstance(v, tensor) for v in values):
        return getattr(builtins, name)(*values)
    assert len(values) >= 2, f"{name} requires at least 2 values"
    best, *others = values
    for other in others:
        best = getattr(arithmetic, f"{name}imum")(best, other)
    if best.shape:
        _warn(f"builtin {name} on non-scalar tensor values is deprecated, use tl.{name}imum instead")
    return best


def _types(names: tuple[str, ...], scope: dict) -> dict:
    """Return the types of those names that hold a block or a number."""
    held = {name: scope[name] for name in names if isinstance(scope.get(name), int | float | tensor)}
    return {name: str(block.to_tensor(value).type) for name, value in held.items()}


def _carried(before: dict, names: tuple[str, ...], scope: dict):
    """Refuse a name whose type changed in a loop's first round, before which it had another one."""
    now = _types(names, scope)
    for name in (name for name in before if name in now):  # always the same one first
        assert before[name] == now[name], (
            f"Loop-carried variable {name} has initial type {before[name]} but is re-assigned to {now[name]} in loop! "
            "Please make sure that the type stays consistent."
        )
    before.clear()


def _test(place: tuple, value):
    if isinstance(value, tensor):
        TAKEN[place] = bool(value)
    return value


def _branched(place: tuple, names: tuple[str, ...], scope: dict):
    """Refuse a name that has another type after one branch of an `if` than after the other, in any two programs."""
    if (taken := TAKEN.pop(place, None)) is None:
        return
    seen = BRANCHES.setdefault(place, {})
    if taken not in seen:
        seen[taken] = _types(names, scope)
        then, other = seen.get(True, {}), seen.get(False, {})
        for name in then.keys() & other.keys():
            assert then[name] == other[name], (
                f"Mismatched type for {name} between then block ({then[name]}) and else block ({other[name]})"
            )


HELPERS = {
    "__assigned": _assigned, "__and": partial(_joined, "and", operator.and_), "__not": _not,
    "__or": partial(_joined, "or", operator.or_), "__range": language.range, "__max": partial(_extreme, "max"),
    "__min": partial(_extreme, "min"), "__types": _types, "__carried": _carried, "__test": _test,
    "__branched": _branched, "__locals": locals, "__raised": _raised,
}  # fmt: skip


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _assigned_in(nodes: list[ast.stmt]) -> set[str]:
    """Return the names that get a value."""
    return {part.id for node in nodes for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip


class _Rewriter(ast.NodeTransformer):
    """``live``: the names that have a value by now. What a loop alone gives a value has none after it."""

    def __init__(self, known: set[str], live: set[str]):
        self.known, self.live = known, live

    def visit_Assign(self, node):
        self.generic_visit(node)
        self.live |= _assigned_in([node])
        node.value = _call("__assigned", node.value)
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        name, (result, *others) = "__and" if isinstance(node.op, ast.And) else "__or", node.values
        for other in others:
            later = ast.Lambda(ast.arguments([], [], None, [], [], None, []), other)
            result = _call(name, result, later)
        return ast.copy_location(result, node)

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return ast.copy_location(_call("__not", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Name(self, node):
        if node.id in ("range", "max", "min") and node.id not in self.known:
            node.id = f"__{node.id}"
        return node

    def _loop(self, node):
        unrolled = isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter)
        names, live = ast.Constant(tuple(sorted(_assigned_in(node.body) & self.live))), {*self.live}
        self.generic_visit(node)
        if not unrolled:
            self.live = live
        if unrolled or not names.value:
            return node
        before = ast.Name(f"__before_{node.lineno}_{node.col_offset}", ast.Store())
        held = ast.Name(before.id, ast.Load())
        begin = ast.Assign([before], _call("__types", names, _call("__locals")))
        check = ast.If(held, [ast.Expr(_call("__carried", held, names, _call("__locals")))], [])
        node.body.append(check)
        return [ast.copy_location(begin, node), node]

    visit_For = visit_While = _loop

    def visit_If(self, node):
        place = ast.Constant((node.lineno, node.col_offset))
        names = ast.Constant(tuple(sorted(_assigned_in(node.body + node.orelse))))
        self.generic_visit(node)
        if not names.value:
            return node
        node.test = _call("__test", place, node.test)
        return [node, ast.copy_location(ast.Expr(_call("__branched", place, names, _call("__locals"))), node)]


def compiled(function):
    """Return the function as it is run, with the lines that it has in its file."""
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as error:
        raise ValueError("@jit functions should be defined in a Python file") from error
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef), "a kernel is a function"
    definition.decorator_list, definition.returns = [], None
    for argument in definition.args.args:
        argument.annotation = None
    lost = _lost(definition, max(first, 1) - 1)
    _refuse(definition, function)
    known = _Scope(definition, function)
    live = {argument.arg for argument in definition.args.args}
    tree = ast.fix_missing_locations(_Rewriter({*known.own, *known.names}, live).visit(tree))
    ast.increment_lineno(tree, max(first, 1) - 1)
    function.__globals__.update(HELPERS)
    names: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), function.__globals__, names)
    made = names[function.__name__]
    made.lost = lost
    made.__defaults__ = function.__defaults__
    return made
