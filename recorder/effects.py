# SPDX-License-Identifier: Apache-2.0
"""Judge what a statement of a file's top level does on import: whether it could be left out or moved.

A definition that nothing uses can be left out, and its place in the file does not matter, if all that it does is bind a
name. A short list holds the calls that are known to do no more; every other call acts.
"""

import ast
import builtins
import sys
from collections.abc import Iterator

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef  # and classes

# The same wherever it stands; dependent on what ran before it; changes something beside the names that it binds.
SETTLED, DEPENDENT, ACTING = range(3)

LIBRARIES = ("torch", "triton", "numpy")  # whose imports do the same in any order
LASTING = {  # calls and decorators that return the same for the same arguments, and change nothing
    "triton.jit", "triton.autotune", "triton.heuristics", "triton.Config", "triton.language.constexpr",
    "triton.testing.perf_report", "triton.testing.Benchmark", "triton.backends.compiler.GPUTarget",
    "functools.cache", "functools.lru_cache", "functools.partial", "functools.wraps", "functools.cached_property",
    "contextlib.contextmanager", "dataclasses.dataclass", "re.compile", "math.lcm", "math.gcd", "math.prod",
    "staticmethod", "classmethod", "property", "frozenset", "tuple", "range", "str", "int", "float", "bool",
    "list", "dict", "set", "dict.fromkeys", "sorted", "len", "min", "max", "sum", "zip", "enumerate", "isinstance",
}  # fmt: skip
READING = {"items", "values", "keys", "_replace", "join", "removeprefix", "removesuffix", "split", "upper", "lower"}
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MAKES_MUTABLE = ("list", "dict", "set", "dict.fromkeys", "sorted", "triton.Config", "triton.testing.Benchmark")


class Names:
    """The names of a file's top level. Each stands for something foreign, one definition, or what may change."""

    def __init__(self, tree: ast.Module):
        self.foreign: dict[str, str] = {}  # imported anywhere in the file: its name in full, such as "triton.language"
        self.bound: dict[str, list[ast.AST]] = {}  # by name, the statements that bind it
        self._levels: dict[str, int] = {}
        for node in statements(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                    local = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else full.partition(".")[0])
                    whole = full if alias.asname or isinstance(node, ast.ImportFrom) else local
                    if self.foreign.setdefault(local, whole) != whole:
                        self.foreign[local] = ""  # one of several
            elif isinstance(node, ast.Global):
                for name in node.names:
                    self.bound.setdefault(name, []).append(node)
        for statement in tree.body:
            for name in stored(statement):
                self.bound.setdefault(name, []).append(statement)

    def full(self, node: ast.AST) -> str:
        """Return the full name of what an expression names, such as ``triton.language.constexpr``, or ""."""
        if isinstance(node, ast.Attribute):
            owner = self.full(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        if not isinstance(node, ast.Name) or len(self.bound.get(node.id, ())) > 1:
            return ""
        return self.foreign.get(node.id, "" if node.id in self.bound or not hasattr(builtins, node.id) else node.id)

    def level(self, name: str) -> int:
        """Return ``SETTLED`` if a name always stands for the same thing, otherwise ``DEPENDENT``."""
        if name not in self._levels:
            self._levels[name] = DEPENDENT  # if its own definition uses it
            self._levels[name] = self._level(name)
        return self._levels[name]

    def _level(self, name: str) -> int:
        statements = self.bound.get(name, [])
        if name in self.foreign:
            ours = self.foreign[name].partition(".")[0] in ("", "snippets")
            return DEPENDENT if ours or len(statements) > 1 else SETTLED
        if not statements:
            return SETTLED if hasattr(builtins, name) else DEPENDENT
        if len(statements) > 1:
            return DEPENDENT
        if isinstance(statements[0], FUNCTIONS):
            return SETTLED
        value = getattr(statements[0], "value", None)
        return DEPENDENT if value is None or self._mutable(value) else min(self.of(value), DEPENDENT)

    def _mutable(self, value: ast.AST) -> bool:
        calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
        makes = any(self.full(call.func) in MAKES_MUTABLE for call in calls)
        return makes or any(isinstance(node, MUTABLE) for node in ast.walk(value))

    def of(self, node: ast.AST | None, local: frozenset[str] = frozenset()) -> int:
        """Return what evaluating an expression does. It binds the names in ``local`` itself."""
        if node is None or isinstance(node, ast.Constant | ast.expr_context):
            return SETTLED
        if isinstance(node, ast.Name):
            return SETTLED if node.id in local else self.level(node.id)
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return ACTING
        if isinstance(node, ast.Lambda):
            return self._of_all([*node.args.defaults, *node.args.kw_defaults], local)
        if isinstance(node, ast.Call):
            return max(self._call(node.func, local), self._of_all([*node.args, *node.keywords], local))
        if isinstance(node, ast.keyword):
            calls = node.arg == "key" and not isinstance(node.value, ast.List)  # a function, as `sorted` takes it
            return ACTING if calls else self.of(node.value, local)
        if isinstance(node, ast.Attribute):
            level = self.of(node.value, local)
            return level if self.full(node) else max(level, DEPENDENT)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            local |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return self._of_all(ast.iter_child_nodes(node), local)

    def _of_all(self, nodes, local: frozenset[str] = frozenset()) -> int:
        return max((self.of(node, local) for node in nodes), default=SETTLED)

    def _call(self, function: ast.AST, local: frozenset[str]) -> int:
        if self.full(function) in LASTING or (isinstance(function, ast.Name) and self._plain_tuple(function.id)):
            return SETTLED
        if isinstance(function, ast.Call):  # such as `functools.cache(…)`
            return ACTING
        if isinstance(function, ast.Attribute) and function.attr in READING and not self.full(function):
            return max(DEPENDENT, self.of(function.value, local))
        return ACTING

    def _plain_tuple(self, name: str) -> bool:
        """Return whether a name is that of a class of this file which is a plain ``NamedTuple``."""
        nodes = self.bound.get(name, [])
        return len(nodes) == 1 and isinstance(nodes[0], ast.ClassDef) and not nodes[0].decorator_list and [
            self.full(base) for base in nodes[0].bases
        ] == ["typing.NamedTuple"]  # fmt: skip

    def of_statement(self, node: ast.stmt, local: frozenset[str] = frozenset()) -> int:
        """Return what running a statement of the top level, or of a class, does."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.defaults, *node.args.kw_defaults]
            return max(self._decorated(node), self._of_all(given, local), self._annotated(node))
        if isinstance(node, ast.ClassDef):
            inner = local | {name for part in node.body for name in stored(part)}
            bases = max((self._base(base) for base in node.bases), default=SETTLED)
            parts = max((self.of_statement(part, inner) for part in node.body), default=SETTLED)
            return ACTING if node.keywords else max(self._decorated(node), bases, parts)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return max((self._import(node, alias) for alias in node.names), default=SETTLED)
        if isinstance(node, ast.Assign) and all(map(_only_names, node.targets)):
            return self.of(node.value, local)
        if isinstance(node, ast.AnnAssign) and _only_names(node.target):
            return max(self.of(node.value, local), self._annotation(node.annotation))
        plain = isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        return SETTLED if plain else ACTING

    def _decorated(self, node) -> int:
        levels = [SETTLED]
        for each in node.decorator_list:
            call = isinstance(each, ast.Call)
            known = self.full(each.func if call else each) in LASTING
            levels.append(ACTING if not known else self.of(each) if call else SETTLED)
        return max(levels)

    def _base(self, base: ast.AST) -> int:
        """Return what making a subclass does: a class of ours may run code for it."""
        full = self.full(base)
        if full and full.partition(".")[0] != "snippets":
            return SETTLED
        nodes = self.bound.get(base.id, []) if isinstance(base, ast.Name) else []
        if len(nodes) != 1 or not isinstance(nodes[0], ast.ClassDef) or nodes[0].keywords:
            return ACTING
        runs = any(getattr(part, "name", "") == "__init_subclass__" for part in nodes[0].body)
        return ACTING if runs else max((self._base(each) for each in nodes[0].bases), default=SETTLED)

    def _annotated(self, node) -> int:
        arguments = [n.annotation for n in ast.walk(node.args) if isinstance(n, ast.arg)]
        return max((self._annotation(each) for each in [*arguments, node.returns]), default=SETTLED)

    @staticmethod
    def _annotation(node: ast.AST | None) -> int:
        acts = node is not None and any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(node))
        return ACTING if acts else SETTLED

    @staticmethod
    def _import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> int:
        top = (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        known = top in sys.stdlib_module_names or top in (*LIBRARIES, "snippets")
        return SETTLED if known and top != "__future__" else ACTING  # others may change what torch has


def _only_names(target: ast.AST) -> bool:
    return all(isinstance(part, ast.Name) for part in getattr(target, "elts", [target]))


def statements(node) -> Iterator:
    """Yield a node and all statements in it. Expressions hold none, so ``ast.walk`` would yield far more."""
    yield node
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield from statements(inner)


def stored(node: ast.AST) -> list[str]:
    """Return the names that a statement binds where it stands, with those in its branches and loops."""
    if isinstance(node, FUNCTIONS):
        return [node.name]
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return []
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    own = [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else []
    own += [node.name] if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name else []
    return own + [name for child in ast.iter_child_nodes(node) for name in stored(child)]
