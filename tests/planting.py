# SPDX-License-Identifier: Apache-2.0
"""Plant one fault at a time in each kernel and host function of a file: what `mutants.py` runs the tests against.

A fault is a small change to the text of one function, found by its syntax tree. The operators are the slips that people
make in Triton: a mask left out, a neighboring stride, the wrong axis; and in the function that launches a kernel: half
of a check, a buffer of the wrong size, two arguments swapped. Messages of errors are left alone, and so is what sets
speed only: warps, stages, hints to loops.

Why not a library? mutmut (3.8.1) leaves every decorated function alone, which is every kernel. cosmic-ray (8.7.0) takes
operators of one's own, but writes each mutant into the working tree and starts a new process for it, which imports
torch for longer than most of our tests run. MutPy's last release is of 2019.
"""

import ast
import difflib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "%"), ast.Mod: ("%", "//"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}  # fmt: skip
MEMBERSHIP = {
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
FUNCTIONS = {
    "maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "sum": "max", "argmax": "argmin",
    "argmin": "argmax", "atomic_add": "atomic_max", "atomic_max": "atomic_min", "atomic_min": "atomic_max",
    "exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log",
}  # fmt: skip
ON_HOSTS = {"max": "min", "min": "max", "any": "all", "all": "any", "zeros": "ones"}
PRECISIONS = "input_precision", "PRECISION", "INPUT_PRECISION"  # arguments that take "ieee"
ALIKE = "dtype", "device", "itemsize"  # of one tensor as of the next, once they have been checked
MEASURES = {"do_bench", "print", "times", "warmup", "Event", "synchronize", "perf_report"}  # for no result
MASK_AT = {"load": 1, "store": 2}  # where the mask stands when it is given by position
PAIRS = [{"height", "width"}, {"rows", "columns"}, {"row", "column"}, {"rows", "cols"}, {"row", "col"}]
LOOSE = ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp  # in parentheses inside of these and …
TIGHT = LOOSE | ast.Attribute | ast.Subscript  # … these


@dataclass(frozen=True)
class Mutant:
    kernel: str
    fault: str  # the operator
    line: int
    source: str  # of the whole file
    diff: tuple[str, ...]  # "- old line" and "+ new line", without indentation
    host: bool = False  # whether it is a host function, not a kernel


def kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions under ``triton.jit``, except those that are wrong on purpose."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [f for f in functions if any(ast.unparse(d).startswith(("triton.jit", "jit")) for d in f.decorator_list)]
    if nested := [f.name for f in found if f not in tree.body]:
        raise ValueError(f"no faults can be planted in {', '.join(nested)}: move it to the top level of its file")
    return [function for function in found if not function.name.endswith("_bug")]


def hosts(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions that launch kernels, perhaps by a method, and what they call; not what measures or demonstrates."""
    jitted = {kernel.name for kernel in kernels(tree)}
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name not in jitted}
    functions = {name: function for name, function in functions.items() if not _measures(function)}
    methods = [f for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body if isinstance(f, ast.FunctionDef)]
    by = {method.name for method in methods if any(map(_launches, ast.walk(method)))}  # `launch.run(…)` launches, too
    launches = lambda node: _launches(node) or (isinstance(node, ast.Call) and getattr(node.func, "attr", "") in by)
    found, wanted = [], [name for name, function in functions.items() if any(map(launches, ast.walk(function)))]
    while wanted:
        if (name := wanted.pop()) not in found:
            found.append(name)
            names = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
            wanted += names & functions.keys()
    return [function for name, function in functions.items() if name in found]


def mutants(source: str) -> list[Mutant]:
    """Every fault that can be planted in the kernels of a file, in the order of its lines."""
    return _planted(source, kernels, Planter)


def host_mutants(source: str) -> list[Mutant]:
    """Every fault that can be planted in the host functions of a file."""
    return _planted(source, hosts, HostPlanter)


def few_mutants(source: str, kinds: tuple[str, ...], explained: Callable[[Mutant], object]) -> list[Mutant]:
    """Return two unexplained mutants of different kinds, the first two that occur, in the kernel with most faults.

    Always the same ones. Only the candidates are parsed and compared: to do so with every fault takes far longer than
    to find them.
    """
    planters = _planters(source, kernels, Planter)
    faults = {planter: sorted(planter.faults(), key=lambda fault: fault[1]) for planter in planters}
    for planter in sorted(planters, key=lambda planter: (-len(faults[planter]), planter.kernel.name)):
        chosen = []
        for kind in kinds:
            of_kind = planter.mutants(fault for fault in faults[planter] if fault[0] == kind)
            chosen += itertools.islice((mutant for mutant in of_kind if not explained(mutant)), 1)
            if len(chosen) == 2:
                break
        if chosen:
            return chosen
    return []


def _planted(source, functions, planter_of) -> list[Mutant]:
    found = [m for planter in _planters(source, functions, planter_of) for m in planter.mutants(planter.faults())]
    return sorted(found, key=lambda mutant: (mutant.kernel, mutant.line))


def _planters(source, functions, planter_of):
    tree = ast.parse(source)
    names = {f.name for f in tree.body if isinstance(f, ast.FunctionDef)}
    return [planter_of(source, function, names) for function in functions(tree)]


class Planter:
    def __init__(self, source: str, kernel: ast.FunctionDef, functions=frozenset()):
        self.bytes, self.kernel, self.functions = source.encode(), kernel, functions
        self.starts = [0]  # in bytes, as the columns of ast are
        for line in self.bytes.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.nodes = [node for statement in kernel.body for node in ast.walk(statement)]
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        arguments = kernel.args.posonlyargs + kernel.args.args
        self.constants = [a.arg for a in arguments if a.annotation and "constexpr" in ast.unparse(a.annotation)]
        self.defined = {argument.arg: 0 for argument in arguments}  # each name, and the line from which it exists
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.defined[node.id] = min(node.lineno, self.defined.get(node.id, node.lineno))
        bounds = [node.comparators[0] for node in self.nodes if isinstance(node, ast.Compare)]
        sizes = [bound.id for bound in bounds if isinstance(bound, ast.Name) and self.defined.get(bound.id) == 0]
        self.sizes = [name for name in dict.fromkeys(sizes) if name not in self.constants]

    def faults(self) -> Iterator[tuple[str, int, str]]:
        """Yield the name of each fault, its line and the text of the file with it."""
        for node in self.nodes:
            for fault, text in self.replacements(node):
                yield fault, node.lineno, self.edited((*self.span(node), self.parenthesized(node, text)))
            if isinstance(node, ast.For | ast.While):
                yield from self.accumulators_not_reset(node)

    def mutants(self, faults) -> Iterator[Mutant]:
        """Yield a mutant for each fault that parses and changes the kernel in a way that none before it does."""
        sound = self.own_text(self.bytes.decode())  # to parse and compare whole files takes twelve times as long
        seen = {_dumped(sound)}
        for fault, line, changed in faults:
            faulty = self.own_text(changed)
            try:
                dumped = _dumped(faulty)
            except SyntaxError:
                continue  # such as a deleted statement that was all of a one-line body
            if dumped not in seen:
                seen.add(dumped)
                lines = difflib.unified_diff(sound.splitlines(), faulty.splitlines(), n=0, lineterm="")
                diff = tuple(f"{text[0]} {text[1:].strip()}" for text in list(lines)[2:] if text[0] in "-+")
                yield Mutant(self.kernel.name, fault, line, changed, diff, isinstance(self, HostPlanter))

    def own_text(self, changed: str) -> str:
        """The text of the kernel in a file in which nothing else has changed, without its decorators."""
        begin, end = self.starts[self.kernel.lineno - 1], self.starts[self.kernel.end_lineno]
        changed = changed.encode()
        return changed[begin : len(changed) - (len(self.bytes) - end)].decode()

    def replacements(self, node) -> Iterator[tuple[str, str]]:
        """Yield what may stand in the place of a node instead."""
        text = self.text
        match node:
            case ast.Call():
                yield from self.calls(node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in OPERATORS:
                yield "comparison", self.with_operator(node, operator, left, right)
                if isinstance(operator, ast.Lt | ast.LtE):
                    yield "bound one short", f"{text(node)} - 1"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                yield "arithmetic", self.with_operator(node, operator, left, right)
                if isinstance(operator, ast.BitAnd):
                    yield from (("half of a mask", text(side)) for side in (left, right))
            case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not(), operand=operand):
                yield "sign dropped", text(operand)
            case ast.BoolOp(op=operator, values=[left, right]):
                yield "and, or", self.with_operator(node, operator, left, right)
            case ast.AugAssign(target=target, value=value):
                yield "not accumulated", f"{text(target)} = {text(value)}"
                yield "statement deleted", "pass"
            case ast.Assign(targets=[ast.Name(id=name)]) if self.defined[name] < node.lineno:
                yield "statement deleted", "pass"
            case ast.Expr(value=ast.Call()):
                yield "statement deleted", "pass"
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool) and self.counts(node):
                yield from (("constant", repr(node.value + change)) for change in (1, -1))
                if node.value % 1:
                    yield "digit", f"{node.value * 1.0001:.10g}"
            case ast.Subscript(slice=ast.Tuple(elts=[a, b])) if "None" in (text(a), text(b)):
                yield "axis", self.with_part(node, node.slice, f"{text(b)}, {text(a)}")
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield "condition", self.with_part(node, test, f"not ({text(test)})")
            case ast.Name(ctx=ast.Load(), id=name) if name in self.defined:
                others = [b for b, line in self.defined.items() if line < node.lineno and neighbors(name, b)]
                yield from (("neighbor", other) for other in others[:2])
                if name in self.constants and isinstance(getattr(self.parents.get(node), "op", None), ast.Mult):
                    yield from (("another size", size) for size in self.sizes[:2])

    def calls(self, node) -> Iterator[tuple[str, str]]:
        text, name = self.text, getattr(node.func, "attr", getattr(node.func, "id", ""))
        args, keywords = [text(a) for a in node.args], {k.arg: text(k.value) for k in node.keywords if k.arg}

        def call(args=args, keywords=keywords, function=None):
            given = [*args, *(f"{key}={value}" for key, value in keywords.items())]
            return f"{function or text(node.func)}({', '.join(given)})"

        if "mask" in keywords:
            yield "mask dropped", call(keywords={k: v for k, v in keywords.items() if k not in ("mask", "other")})
        elif len(args) > MASK_AT.get(name, 99):
            yield "mask dropped", call(args[: MASK_AT[name]], {k: v for k, v in keywords.items() if k != "other"})
        if "other" in keywords:
            values = [v for v in ("0", "1") if ast.literal_eval(v) != _constant(keywords["other"])]
            yield from (("other", call(keywords=keywords | {"other": value})) for value in values)
            # Without it lanes that are off hold anything; zeros in the interpreter, so here the worst stands for it.
            yield "other dropped", call(keywords=keywords | {"other": 'float("nan")'})
        if "propagate_nan" in keywords:
            yield "NaN dropped", call(keywords={k: v for k, v in keywords.items() if k != "propagate_nan"})
        for key, value in keywords.items():
            if value in ("True", "False") and name not in ("range", "static_range"):  # there they are about speed
                yield "flag", call(keywords=keywords | {key: str(value != "True")})
            if key in PRECISIONS and value == '"ieee"':
                yield "precision", call(keywords=keywords | {key: '"tf32"'})
        if name in ("program_id", "num_programs"):
            axis = keywords.get("axis", args[0] if args else "0")
            yield "axis", call([], {"axis": "1" if axis == "0" else "0"})
        elif keywords.get("axis") in ("0", "1"):
            yield "axis", call(keywords=keywords | {"axis": str(1 - int(keywords["axis"]))})
        if name == "to" and isinstance(node.func, ast.Attribute):
            yield "cast dropped", text(node.func.value)
        if name == "cast":
            yield "cast dropped", args[0]
        if name == "cdiv":
            yield "cdiv rounds down", f"({args[0]}) // ({args[1]})"
        if name in ("arange", "zeros"):
            yield "one off", f"{text(node)} + 1"
        if name == "arange":
            yield "one off", f"{text(node)} - 1"
        if name == "range":
            stop = min(1, len(args) - 1)
            if len(args) < 3:
                yield "loop one short", call([*args[:stop], f"{args[stop]} - 1"])
        if name == "where":
            yield "branches swapped", call([args[0], args[2], args[1]])
        if name in FUNCTIONS and isinstance(node.func, ast.Attribute):
            yield "another function", call(function=f"{text(node.func.value)}.{FUNCTIONS[name]}")

    def accumulators_not_reset(self, loop):
        """Yield the loop with what it sets to its start for an inner loop set only once, before it."""
        for statement in loop.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                inner = [n for other in loop.body if isinstance(other, ast.For | ast.While) for n in ast.walk(other)]
                if any(isinstance(n, ast.AugAssign | ast.Assign) and name in ast.unparse(n).split()[0] for n in inner):
                    before = (self.span(loop)[0],) * 2
                    once = f"{self.text(statement)}\n{' ' * loop.col_offset}"
                    yield "not reset", statement.lineno, self.edited((*before, once), (*self.span(statement), "pass"))

    def counts(self, constant) -> bool:
        """Whether a constant is worth changing: not an axis, nor in ``tl.arange``, which have faults of their own."""
        parent = self.parents.get(constant)
        if isinstance(parent, ast.keyword):
            return parent.arg not in ("axis", "other")
        return not (isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith(("arange", "program_id")))

    def span(self, node) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset
        return begin, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node) -> str:
        begin, end = self.span(node)
        return self.bytes[begin:end].decode()

    def with_part(self, node, part, changed: str) -> str:
        (begin, end), (first, last) = self.span(part), self.span(node)
        return f"{self.bytes[first:begin].decode()}{changed}{self.bytes[end:last].decode()}"

    def with_operator(self, node, operator, left, right) -> str:
        (first, last), begin, end = self.span(node), self.span(left)[1], self.span(right)[0]
        between = self.bytes[begin:end].decode().replace(*(OPERATORS | MEMBERSHIP)[type(operator)], 1)
        return f"{self.bytes[first:begin].decode()}{between}{self.bytes[end:last].decode()}"

    def parenthesized(self, node, text) -> str:
        begin, end = self.span(node)
        inside = self.bytes[begin - 1 : begin] + self.bytes[end : end + 1] == b"()"
        parsed = lambda: ast.parse(f"({text})", mode="eval").body  # it may stand on several lines
        loose = isinstance(self.parents.get(node), TIGHT) and isinstance(parsed(), LOOSE)
        return f"({text})" if loose and not inside else text

    def edited(self, *edits: tuple[int, int, str]) -> str:
        changed = self.bytes
        for begin, end, text in sorted(edits, reverse=True):
            changed = changed[:begin] + text.encode() + changed[end:]
        return changed.decode()


class HostPlanter(Planter):
    def __init__(self, source, function, functions):
        super().__init__(source, function, functions)
        arguments = function.args
        for argument in (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if argument:
                self.defined[argument.arg] = 0
        left_alone = {child for node in self.nodes if self.left_alone(node) for child in ast.walk(node)}
        self.nodes = [n for n in self.nodes if n not in left_alone or isinstance(n, ast.Raise)]
        given = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        last = (arguments.posonlyargs + arguments.args)[-len(arguments.defaults) :] if arguments.defaults else []
        self.defaults = [(a.arg, value) for a, value in (*zip(last, arguments.defaults, strict=True), *given) if value]
        self.nodes += [value for name, value in self.defaults if name in PRECISIONS and self.text(value) == '"ieee"']
        self.attributes = dict.fromkeys(
            (self.text(node.value), node.attr) for node in self.nodes if isinstance(node, ast.Attribute)
        )

    def left_alone(self, node) -> bool:
        """Messages, what sets speed only, which device, which must be the same for all, and the 1 of ``2**31 - 1``."""
        match node:
            case ast.Raise() | ast.JoinedStr() | ast.keyword(arg="device" | "num_warps" | "num_stages"):
                return True
            case ast.BinOp(left=ast.BinOp(op=ast.Pow()), right=ast.Constant()):
                return True
            case ast.Call(func=ast.Attribute(attr="device_of")):
                return True
        return False

    def replacements(self, node) -> Iterator[tuple[str, str]]:
        text = self.text
        match node:
            case ast.Raise():
                yield "raise deleted", "pass"
            case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign():
                yield "statement deleted", "pass"
            case ast.Assign(targets=[ast.Name(id=name)]) if self.defined[name] < node.lineno:
                yield "statement deleted", "pass"
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                operator = type(getattr(test, "op", getattr(test, "ops", [None])[0]))
                if operator not in (ast.Not, ast.Eq, ast.NotEq, *MEMBERSHIP):  # of these, the opposite comes anyhow
                    yield "condition", self.with_part(node, test, f"not ({text(test)})")
            case ast.BoolOp(op=operator, values=values):
                between = f" {'and' if isinstance(operator, ast.And) else 'or'} "
                parts = [f"({text(v)})" if isinstance(v, ast.BoolOp | ast.IfExp) else text(v) for v in values]
                for i in range(len(parts)):
                    yield "operand dropped", between.join(parts[:i] + parts[i + 1 :])
            case ast.Compare(left=left, ops=operators, comparators=rights):
                for operator, a, b in zip(operators, (left, *rights), rights, strict=False):
                    if type(operator) in OPERATORS | MEMBERSHIP:
                        yield "comparison", self.with_operator(node, operator, a, b)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "not dropped", text(operand)
            case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(left=ast.UnaryOp(operand=a), op=ast.FloorDiv(), right=b)):
                yield "rounds down", f"({text(a)} // {text(b)})"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                if not isinstance(left, ast.UnaryOp):  # of what rounds up, above
                    yield "arithmetic", self.with_operator(node, operator, left, right)
            case ast.Constant(value="ieee") if node in [value for _, value in self.defaults]:
                yield "precision", '"tf32"'
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool) and self.counts(node):
                yield from (("constant", repr(node.value + change)) for change in (1, -1))
            case ast.Name(ctx=ast.Load(), id=name) if name in self.defined:
                others = [b for b, line in self.defined.items() if line < node.lineno and neighbors(name, b)]
                if getattr(self.parents.get(node), "attr", "") not in ALIKE:
                    yield from (("neighbor", other) for other in others[:1])
            case ast.Attribute(value=value, attr=name):
                others = [b for of, b in self.attributes if of == text(value) != "torch" and neighbors(name, b)]
                yield from (("neighbor", f"{text(value)}.{other}") for other in others[:1])
            case ast.Call():
                yield from self.calls(node)

    def calls(self, node):
        text, name = self.text, getattr(node.func, "attr", getattr(node.func, "id", ""))
        args = [text(argument) for argument in node.args]
        keywords = [(f"{k.arg}=" if k.arg else "**", k.value) for k in node.keywords]

        def call(args=args, without="", function=None):
            given = [*args, *(f"{key}{text(value)}" for key, value in keywords if key != without)]
            return f"{function or text(node.func)}({', '.join(given)})"

        if _launches(node) or name in self.functions:
            for i in range(len(args) - 1):
                yield "arguments swapped", call([*args[:i], args[i + 1], args[i], *args[i + 2 :]])
        if "dtype=" in dict(keywords):
            yield "dtype dropped", call(without="dtype=")
        if name == "cdiv":
            yield "rounds down", f"({args[0]}) // ({args[1]})"
        if name in ON_HOSTS and not (name in ("max", "min") and isinstance(node.func, ast.Attribute)):
            function = text(node.func)
            yield "another function", call(function=function.removesuffix(name) + ON_HOSTS[name])
        for key, value in keywords:
            if key.rstrip("=") in PRECISIONS and text(value) == '"ieee"':
                yield "precision", text(node).replace(f'{key}"ieee"', f'{key}"tf32"')

    def counts(self, constant) -> bool:
        """Not one of the numbers of ``in (1, 2, 4, 8)``, nor the 2 of a power: its exponent has faults."""
        parent = self.parents.get(constant)
        if isinstance(parent, ast.Tuple) and isinstance(self.parents.get(parent), ast.Compare):
            return False
        return not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and constant is parent.left)

    def accumulators_not_reset(self, loop):
        return iter(())


def _launches(node) -> bool:
    """Whether it is ``kernel[grid](…)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)


def _measures(function) -> bool:
    """Whether it measures, prints, is decorated by more than a cache, or makes its tensors on a GPU by itself."""
    cached = all(ast.unparse(d).startswith(("functools.cache", "functools.lru_cache")) for d in function.decorator_list)
    if not cached or function.name == "main" or function.name.startswith("measure") or function.name.endswith("_bug"):
        return True
    for node in ast.walk(function):
        if getattr(node, "id", getattr(node, "attr", "")) in MEASURES:
            return True
        if isinstance(node, ast.keyword) and node.arg == "device" and ast.unparse(node.value) == "'cuda'":
            return True
    return False


def neighbors(a: str, b: str) -> bool:
    """Whether two names are easily confused: ``stride_m``, ``stride_n``; ``x_ptr``, ``y_ptr``; ``m``, ``n``."""
    if a == b:
        return False
    differing = [(p, q) for p, q in zip(a, b, strict=False) if p != q]
    one_letter = len(a) == len(b) and len(differing) == 1 and abs(ord(differing[0][0]) - ord(differing[0][1])) <= 3
    same_stem = "_" in a and "_" in b and a.rpartition("_")[0] == b.rpartition("_")[0]
    same_ending = a.partition("_")[2] == b.partition("_")[2] != ""
    return one_letter or same_stem or same_ending or {a, b} in PAIRS


def _dumped(text: str) -> str:
    return ast.dump(ast.parse(text))


def _constant(text: str):
    try:
        return ast.literal_eval(text)
    except ValueError:
        return None
