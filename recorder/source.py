# SPDX-License-Identifier: Apache-2.0
"""Parse snippets: the statements and imports of a file, the files that it imports, and where a line of code stands.

Comments and docstrings are no part of these trees, for they do not run; ``reads`` finds where code reads them.
"""

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from recorder.effects import ACTING, FUNCTIONS, Names, statements, stored
from recorder.project import ROOT, RecorderError, nearest, read_text, relative
from recorder.reads import Reads

SHARED = {"ctx", "op", "ops"}  # fields of operators and contexts


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file without its docstrings. Raise ``RecorderError`` if it is not Python."""
    text = read_text(path)
    try:
        return syntax_tree(text)
    except (SyntaxError, ValueError) as error:  # the latter: null bytes
        line = getattr(error, "lineno", None) or 1
        raise RecorderError(f"{relative(path)}:{line}: it is not Python: {error}") from error


@lru_cache(maxsize=256)
def syntax_tree(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in statements(tree):
        if isinstance(node, ast.Module | FUNCTIONS):
            first = node.body[0] if node.body else None
            value = getattr(first, "value", None) if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                node.docstring = value.value
                del node.body[0]
    return tree


def spell(node) -> str:
    """Return a tree as text, as ``ast.dump`` does, but without empty fields, in which versions of Python differ."""
    if isinstance(node, ast.JoinedStr):  # where Python 3.12 puts empty strings that 3.11 does not
        values = [v for v in node.values if not (isinstance(v, ast.Constant) and v.value == "")]
        return f"JoinedStr(values={spell(values)})"
    if isinstance(node, ast.AST):
        fields = []
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is str:  # most values, which need no call
                fields.append(f"{name}={value!r}")
            elif value is not None and value != []:
                fields.append(f"{name}={spell(value)}")
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(spell, node))}]"
    return repr(node)


def walk(tree: ast.AST) -> dict[ast.AST, ast.AST | None]:
    """Return the parent of each node, in the order of ``ast.walk``, without operators and contexts.

    Trees share the nodes of these, which say nothing about what code reads.
    """
    parents: dict[ast.AST, ast.AST | None] = {tree: None}
    nodes = [tree]
    for node in nodes:  # it grows
        for name in node._fields:
            if name in SHARED:
                continue
            value = getattr(node, name, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST):
                    parents[child] = node
                    nodes.append(child)
    return parents


class Statement:
    """A statement of a file's top level, with its text, the names that it uses, and what it does and reads."""

    def __init__(self, names: Names, node: ast.stmt, constants: dict[str, str]):
        self.node, self.text = node, spell(node)
        self.level = names.of_statement(node)
        self._foreign = names.foreign
        self.names = stored(node)
        self.single = all(len(names.bound[name]) == 1 for name in self.names)  # nothing else binds its names
        nodes = walk(node)  # from the outside in, so that an attribute comes before its owner
        self.reads = Reads(nodes, names, constants)
        self.uses: dict[str, set[str]] = {}  # by name, the attributes that are read of it; "" where it stands alone
        owners = set()
        for inner in nodes:
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                self.uses.setdefault(inner.value.id, set()).add(inner.attr)
                owners.add(inner.value)
            elif isinstance(inner, ast.Name) and inner not in owners:
                self.uses.setdefault(inner.id, set()).add("")

    def meaning(self, name: str) -> str:
        """Return the text of the statement; for an import, what this one of its names stands for."""
        imported = isinstance(self.node, ast.Import | ast.ImportFrom)
        return self._foreign.get(name, self.text) if imported else self.text

    @property
    def lines(self) -> range:
        """Return its lines, with decorators, counted from 1."""
        first = min([self.node.lineno, *(d.lineno for d in getattr(self.node, "decorator_list", ()))])
        return range(first, self.node.end_lineno + 1)

    def docs(self, benchmarks: bool = False) -> list[str]:
        """Return its docstrings; if ``benchmarks``, only those of functions under Triton's ``perf_report``."""
        docs = []
        for node in statements(self.node):
            measures = any("perf_report" in spell(each) for each in getattr(node, "decorator_list", ()))
            if hasattr(node, "docstring") and (measures or not benchmarks):
                docs.append(node.docstring)
        return docs


class Module:
    """A file's top level: its definitions by name, which names are of other files of ours, and what always runs."""

    def __init__(self, path: Path):
        self.path = path
        self.definitions: dict[str, list[Statement]] = {}  # functions, classes, assignments, foreign imports
        self.imported: dict[str, list[tuple[Path, str]]] = {}  # by local name: file of ours, name in it or "" for all
        self.always: list[Statement] = []  # what runs on import whoever asks, such as a call
        tree = tree_of(path)
        self.docstring = getattr(tree, "docstring", None)
        for node in statements(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        names = Names(tree)
        constants = {
            name: nodes[0].value.value
            for name, nodes in names.bound.items()
            if len(nodes) == 1 and isinstance(getattr(nodes[0], "value", None), ast.Constant)
            and isinstance(nodes[0].value.value, str)
        }  # fmt: skip
        self.statements = [Statement(names, node, constants) for node in tree.body]
        keeps = any(each.reads.own_file and isinstance(each.node, ast.Assign) for each in self.statements)
        for statement in self.statements:
            if keeps:
                statement.reads.refuse_beside()
            for name in statement.names:
                self.definitions.setdefault(name, []).append(statement)
            acts = statement.level == ACTING or not statement.names or "__getattr__" in statement.names
            if acts and not _is_main(statement.node):
                self.always.append(statement)

    def files(self) -> list[Path]:
        """Return the files of ours that it imports, or that its strings name, in the order of its text."""
        imported = [path for targets in self.imported.values() for path, _ in targets]
        named = [path for each in self.statements for path in sorted(each.reads.files) if is_snippet(path)]
        return list(dict.fromkeys([*imported, *named]))

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
                self.imported.setdefault(name, []).append((file, ""))
            elif isinstance(node, ast.ImportFrom) and (file := file_of(node.module)):
                self.imported.setdefault(name, []).append((file, alias.name))
            else:
                raise RecorderError(f"{here}: there is no file of ours for {whole}")


def _is_main(node: ast.stmt) -> bool:
    """Return whether this is ``if __name__ == "__main__":``, which an import does not run."""
    test = isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test).replace('"', "'")
    return test in ("__name__ == '__main__'", "'__main__' == __name__")


def is_snippet(path: Path) -> bool:
    return path.suffix == ".py" and path.is_relative_to(ROOT / "snippets")


def file_of(module: str) -> Path | None:
    """Return the file of a module of ours, such as ``snippets.programs.vector_add``, or None."""
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
    except (RecursionError, MemoryError) as error:
        why = "an expression in it is too deep to be followed; give parts of it names"
        raise RecorderError(f"{relative(path)}: {why}") from error


def imports(path: Path) -> list[Path]:
    """Return ``path`` and every file of ours that it imports, directly or through another."""
    return sorted(modules_of(path))


def modules_of(path: Path) -> dict[Path, Module]:
    """Return the modules of the same files, and of those that their strings name, in the order of the imports."""
    modules: dict[Path, Module] = {}

    def visit(file: Path) -> None:
        if file not in modules:
            modules[file] = module_of(file)
            for target in modules[file].files():
                visit(target)

    visit(path)
    while new := [file for file in computed(modules.values()) if file not in modules]:
        visit(new[0])
    return modules


def computed(modules: Iterable[Module]) -> list[Path]:
    """Return the files that modules may load by a computed name: those of their folders that any string mentions."""
    statements = [statement for module in modules for statement in module.statements]
    folders = {folder for statement in statements for folder in statement.reads.folders}
    if not folders:
        return []
    words = {word for each in statements for text in each.reads.strings for word in re.findall(r"\w+", text)}
    return [path for folder in sorted(folders) for path in sorted(folder.rglob("*.py")) if path.stem in words]


# ---- Where a line stands ----

# The number of a node in a walk over a kernel's tree; "other.12" is node 12 of the function `other` of the same file.
# It stays right as long as the fingerprint does, however comments move the lines.
Place = int | str | None


@lru_cache(maxsize=64)
def _numbered(path: Path, modified: int, name: str) -> list[int]:
    """Return the line of each node of a function, in the order of ``ast.walk``; 0 for a node without one."""
    for statement in module_of(path).definitions.get(name, []):
        if isinstance(statement.node, FUNCTIONS):
            parts = {id(part) for n in ast.walk(statement.node) if isinstance(n, ast.JoinedStr) for part in ast.walk(n)}
            nodes = [
                n for n in ast.walk(statement.node) if id(n) not in parts
            ]  # versions of Python give these other lines
            return [getattr(n, "lineno", 0) for n in nodes]
    return []


def places(path: Path, kernel: str) -> dict[int, Place]:
    """Return the place of each line of code in a file, relative to one of its kernels."""
    places, modified = {}, path.stat().st_mtime_ns
    for name in module_of(path).definitions:
        for number, line in enumerate(_numbered(path, modified, name)):
            if line:
                places.setdefault(line, number if name == kernel else f"{name}.{number}")
    return places


def line_of(path: Path, kernel: str, place: Place) -> int:
    """Return the line of a place in the file as it stands; 0 if it has none."""
    if place is None:
        return 0
    name, _, number = place.rpartition(".") if isinstance(place, str) else (kernel, "", place)
    lines = _numbered(path, path.stat().st_mtime_ns, name)
    return lines[int(number)] if int(number) < len(lines) else 0


def lines_of(path: Path, name: str) -> range:
    """Return the lines of a function, with its decorators. Raise ``RecorderError`` if the file has no such function."""
    for statement in module_of(path).definitions.get(name, []):
        if isinstance(statement.node, FUNCTIONS):
            return statement.lines
    raise RecorderError(f"{relative(path)} has no function {name!r}{nearest(name, module_of(path).definitions)}")
