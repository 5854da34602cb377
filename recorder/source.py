# SPDX-License-Identifier: Apache-2.0
"""The syntax trees of snippets: what of a file runs, what that reaches in other files, and where it stands.

Comments and docstrings are no part of what runs.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from recorder.project import ROOT, RecorderError, nearest, read_text, relative

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef  # and classes


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file without its docstrings. Raises ``RecorderError``."""
    text = read_text(path)
    try:
        return syntax_tree(text)
    except (SyntaxError, ValueError) as error:  # the latter: null bytes
        line = getattr(error, "lineno", None) or 1
        raise RecorderError(f"{relative(path)}:{line}: it is not Python: {error}") from error


@lru_cache(maxsize=256)
def syntax_tree(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in _statements(tree):
        if isinstance(node, ast.Module | FUNCTIONS):
            first = node.body[0] if node.body else None
            value = getattr(first, "value", None) if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                del node.body[0]
    return tree


def _statements(node) -> Iterator:
    """A node and all statements within it, which expressions cannot hold: far fewer than ``ast.walk`` goes through."""
    yield node
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield from _statements(inner)


def spell(node) -> str:
    """Like ``ast.dump``, but without empty fields: Python versions differ in which of those they have."""
    if isinstance(node, ast.JoinedStr):  # where Python 3.12 puts empty strings that 3.11 does not
        values = [v for v in node.values if not (isinstance(v, ast.Constant) and v.value == "")]
        return f"JoinedStr(values={spell(values)})"
    if isinstance(node, ast.AST):
        fields = [f"{name}={spell(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(spell, node))}]"
    return repr(node)


DYNAMIC = {"import_module", "__import__", "run_path", "run_module", "spec_from_file_location"}


class Statement:
    """A statement of a file's top level, spelled out, and the names that it uses."""

    def __init__(self, path: Path, node: ast.stmt):
        self.node, self.text = node, spell(node)
        self.uses: dict[str, set[str]] = {}  # by name, the attributes that are read of it; "" where it stands alone
        owners = set()
        for inner in ast.walk(node):  # from the outside in, so that an attribute comes before its owner
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                self.uses.setdefault(inner.value.id, set()).add(inner.attr)
                owners.add(inner.value)
            elif isinstance(inner, ast.Name) and inner not in owners:
                self.uses.setdefault(inner.id, set()).add("")
            if isinstance(inner, ast.Call) and _loads_ours(inner):
                place = f"{relative(path)}:{inner.lineno}"
                raise RecorderError(f"{place}: what it loads by name is in no fingerprint; write an import")


def _loads_ours(call: ast.Call) -> bool:
    """Whether a call may load a file of ours by its name."""
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else "snippets"
    return name in DYNAMIC and str(first).startswith(("snippets", "."))


class Module:
    """A file's top level: its definitions by name, which names are of other files of ours, and what always runs."""

    def __init__(self, path: Path):
        self.path = path
        self.definitions: dict[str, list[Statement]] = {}  # functions, classes, assignments, foreign imports
        self.imported: dict[str, tuple[Path, str]] = {}  # local name: file of ours, and name in it; "" for all of it
        self.always: list[Statement] = []  # what runs on import whoever asks, such as a call
        tree = tree_of(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        self.statements = [Statement(path, node) for node in tree.body]
        for statement in self.statements:
            names = _bound(statement.node)
            for name in names:
                self.definitions.setdefault(name, []).append(statement)
            if not names and not _is_main(statement.node):
                self.always.append(statement)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        here = f"{relative(self.path)}:{node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.level:
            raise RecorderError(f"{here}: a relative import is not followed; write `from snippets… import …`")
        for alias in node.names:
            name = alias.asname or alias.name
            whole = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if whole.partition(".")[0] != "snippets":
                continue
            if alias.name == "*" or (isinstance(node, ast.Import) and not alias.asname):
                raise RecorderError(f"{here}: name what it uses: `from snippets… import …`")
            if file := file_of(whole):
                self.imported[name] = file, ""
            elif isinstance(node, ast.ImportFrom) and (file := file_of(node.module)):
                self.imported[name] = file, alias.name
            else:
                raise RecorderError(f"{here}: there is no file of ours for {whole}")


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement defines, if that is all that it does."""
    if isinstance(node, FUNCTIONS):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in getattr(target, "elts", [target])]
    return [part.id for part in parts] if all(isinstance(part, ast.Name) for part in parts) else []


def _is_main(node: ast.stmt) -> bool:
    """``if __name__ == "__main__":``, which an import does not run."""
    return isinstance(node, ast.If) and any(getattr(n, "id", None) == "__name__" for n in ast.walk(node.test))


def file_of(module: str) -> Path | None:
    """The file of a module of ours, such as ``snippets.programs.vector_add``."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    return path if path.is_file() else None


@lru_cache(maxsize=512)
def _module(path: Path, modified: int) -> Module:
    return Module(path)


def module_of(path: Path) -> Module:
    try:
        return _module(path, path.stat().st_mtime_ns)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RecorderError(f"there is no file {relative(path)}") from error


def imports(path: Path) -> list[Path]:
    """``path`` and every file of ours that it imports, directly or through another."""
    return sorted(modules_of(path))


def modules_of(path: Path) -> dict[Path, Module]:
    """The same, as they stand now."""
    found, waiting = {}, [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = module_of(file)
            waiting += [target for target, _ in found[file].imported.values()]
    return found


def reach_of(path: Path) -> "Reach":
    """What running a file comes to, worked out anew only when one of the files has changed."""
    return _reach_of(path, tuple(modules_of(path).items()))


@lru_cache(maxsize=512)
def _reach_of(path: Path, modules: tuple[tuple[Path, Module], ...]) -> "Reach":
    return Reach(path, dict(modules))


class Reach:
    """What running a file comes to: its own statements, and the definitions of ours that these reach, transitively.

    A definition counts by its text, not by the file that it stands in: moving one changes nothing.
    """

    def __init__(self, path: Path, modules: dict[Path, Module]):
        main = modules[path]
        self._modules = modules  # the file and all that it imports
        self.definitions: set[str] = set()  # functions and classes; all that is reached in other files
        self.order: list[str] = []  # what else the file itself runs, in this order
        self._seen: set = set()  # ids of statements; files and names in them
        for statement in main.statements:
            if isinstance(statement.node, FUNCTIONS):
                self.definitions.add(statement.text)
            elif not self._only_fetches(statement.node):
                self.order.append(statement.text)
            self._follow(main, statement)
        for file, module in modules.items():  # an import runs these, whatever is used
            if file != path:
                self._add(file, module.always)

    @staticmethod
    def _only_fetches(node: ast.stmt) -> bool:
        """Whether a statement imports from files of ours, under the names that things have there."""
        ours = isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "snippets"
        return ours and not any(alias.asname for alias in node.names)

    def _follow(self, module: Module, statement: Statement) -> None:
        for name, attributes in statement.uses.items():
            if name not in module.imported:
                continue
            path, wanted = module.imported[name]
            if wanted:
                self._reach(path, wanted)
            else:
                for attribute in attributes:
                    self._reach(path, "" if attribute == "__file__" else attribute)

    def _reach(self, path: Path, name: str) -> None:
        """Add a definition of another file and what it uses there; all of the file if no name is given."""
        if (path, name) in self._seen:
            return
        self._seen.add((path, name))
        other = self._modules[path]
        if name in other.imported:  # it only passes through there
            self._reach(*other.imported[name])
        self._add(path, other.definitions.get(name, []) if name else other.statements)

    def _add(self, path: Path, statements: list[Statement]) -> None:
        other = self._modules[path]
        for statement in statements:
            if id(statement) in self._seen:
                continue
            self._seen.add(id(statement))
            if not self._only_fetches(statement.node):
                self.definitions.add(statement.text)
            self._follow(other, statement)
            for used in statement.uses:
                if used == "__file__":
                    self._reach(path, "")
                elif used in other.definitions:
                    self._reach(path, used)


# ---- Where a line stands ----

# A node of a kernel's tree by its number, in a walk over the kernel; "other.12" is node 12 of the function `other` of
# the same file. It holds as long as the fingerprint does, wherever comments move the lines.
Place = int | str | None


@lru_cache(maxsize=64)
def _numbered(path: Path, modified: int, name: str) -> list[int]:
    """The line of each node of a function, in a walk over it; 0 for what has none."""
    for statement in module_of(path).definitions.get(name, []):
        if isinstance(statement.node, FUNCTIONS):
            parts = {id(part) for n in ast.walk(statement.node) if isinstance(n, ast.JoinedStr) for part in ast.walk(n)}
            nodes = [n for n in ast.walk(statement.node) if id(n) not in parts]  # Python's versions place these apart
            return [getattr(n, "lineno", 0) for n in nodes]
    return []


def places(path: Path, kernel: str) -> dict[int, Place]:
    """The place of each line of code in a file, seen from one of its kernels."""
    found, modified = {}, path.stat().st_mtime_ns
    for name in module_of(path).definitions:
        for number, line in enumerate(_numbered(path, modified, name)):
            if line:
                found.setdefault(line, number if name == kernel else f"{name}.{number}")
    return found


def line_of(path: Path, kernel: str, place: Place) -> int:
    """The line on which a place stands today; 0 where there is none."""
    if place is None:
        return 0
    name, _, number = place.rpartition(".") if isinstance(place, str) else (kernel, "", place)
    lines = _numbered(path, path.stat().st_mtime_ns, name)
    return lines[int(number)] if int(number) < len(lines) else 0


def lines_of(path: Path, name: str) -> range:
    """The lines of a function, its decorators included. Raises ``RecorderError``."""
    for statement in module_of(path).definitions.get(name, []):
        if isinstance(statement.node, FUNCTIONS):
            first = min([statement.node.lineno, *(d.lineno for d in statement.node.decorator_list)])
            return range(first, statement.node.end_lineno + 1)
    raise RecorderError(f"{relative(path)} has no function {name!r}{nearest(name, module_of(path).definitions)}")
