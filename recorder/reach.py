# SPDX-License-Identifier: Apache-2.0
"""Follow what a file runs into the other files of ours: the definitions that it reaches, the files that it loads.

Of an imported file, a definition counts if it is reached. What acts on import counts in its order: see ``effects``.
"""

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

from recorder.effects import FUNCTIONS, SETTLED
from recorder.project import read_text, relative
from recorder.source import Module, Statement, computed, is_snippet, modules_of


def reach_of(path: Path) -> "Reach":
    """Return the reach of a file as it stands. It is computed again only if one of its files has changed."""
    return _reach_of(path, tuple(modules_of(path).items()))


@lru_cache(maxsize=512)
def _reach_of(path: Path, modules: tuple[tuple[Path, Module], ...]) -> "Reach":
    return Reach(path, dict(modules))


def needed(path: Path) -> list[Path]:
    """Return the other files of ours that running a file loads: a reader who downloads it needs them too."""
    return list(_needed(path, tuple(modules_of(path).items())))


@lru_cache(maxsize=512)
def _needed(path: Path, modules: tuple[tuple[Path, Module], ...]) -> list[Path]:
    return sorted(Loading(path, dict(modules)).files - {path})


class Walk:
    """A walk from statements of a file to all definitions of ours that they reach, directly or through others."""

    def __init__(self, path: Path, modules: dict[Path, Module]):
        self._path, self._modules = path, modules  # the file, and every file that it imports, with itself
        self._reached: dict[Path, dict[int, Statement]] = {file: {} for file in modules}
        self._seen: set[tuple[Path, str]] = set()  # files, and names in them

    def _import(self, path: Path) -> None:
        """Add what importing a file runs, where that depends on the walk."""

    def _reach(self, path: Path, name: str) -> None:
        """Add a definition of a file and what it uses; the whole file if ``name`` is empty or not defined there."""
        if (path, name) in self._seen:
            return
        self._seen.add((path, name))
        self._import(path)
        module = self._modules[path]
        for target in module.imported.get(name, ()):  # that file only passes the name on
            self._reach(*target)
        known = name in module.definitions or name in module.imported or name == "__name__"
        for statement in module.definitions.get(name, ()) if known else module.statements:
            self._add(module, statement)
        if not known:
            for target in (target for targets in module.imported.values() for target in targets):
                self._reach(*target)

    def _add(self, module: Module, statement: Statement) -> None:
        """Add a statement and the definitions that it uses."""
        if id(statement) in self._reached[module.path]:
            return
        self._reached[module.path][id(statement)] = statement
        for name, attributes in statement.uses.items():
            for path, wanted in module.imported.get(name, ()):
                for each in [wanted] if wanted else attributes:
                    self._reach(path, each)
            if module.path == self._path:
                if name in module.definitions and name not in module.imported:
                    self._reach(module.path, name)
            elif name == "__file__":
                self._reach(module.path, "")
            elif name in module.definitions:
                self._reach(module.path, name)


class Reach(Walk):
    """Everything that running a file may execute: all of its own statements, and the definitions that they reach.

    A definition counts by its text, not by its file, so moving it to another file changes nothing. But where two files
    define the same name differently, each definition counts with its file.
    """

    def __init__(self, path: Path, modules: dict[Path, Module]):
        super().__init__(path, modules)
        main = modules[path]
        for statement in main.statements:
            self._add(main, statement)
        for file, module in modules.items():
            if file != path:
                for statement in module.always:  # an import runs these, whatever is used
                    self._add(module, statement)
        self._collect()
        whole = any(statement.reads.namespace for statement in self.statements)  # code may ask for any name
        if whole:
            for file in modules:
                self._reach(file, "")
            self._collect()
        self._arrange(whole)

    def _collect(self) -> None:
        self.statements = [each for reached in self._reached.values() for each in reached.values()]

    def _arrange(self, whole: bool) -> None:
        """Set ``definitions``, whose order does not matter, and ``order``: for each file, what it runs in that order.

        If ``whole``, every definition counts by its place, because code may list the names of its file.
        """
        loose = {}  # by name, then by file: the statement
        for file in self._modules:
            for statement in self._in_order(file):
                movable = isinstance(statement.node, FUNCTIONS) if file == self._path else bool(statement.names)
                movable &= statement.level == SETTLED and statement.single and not self._only_imports(statement.node)
                if movable and not whole:
                    for name in statement.names:
                        loose.setdefault(name, {})[file] = statement
        clash = any(len({each.meaning(name) for each in files.values()}) > 1 for name, files in loose.items())
        settled = {statement for files in loose.values() for statement in files.values()}
        acting = {file for file in self._modules if clash or self._acts(file)}
        self.definitions: set[str] = set()
        self.order: list[list[str]] = []
        for file in self._modules:
            order = []
            for statement in self._in_order(file):
                if self._only_imports(statement.node) and not acting & self._imported_by(file, statement):
                    continue
                if statement not in settled:
                    order.append(statement.text)
                else:
                    self.definitions.add(f"{relative(file)}: {statement.text}" if clash else statement.text)
            if order or file == self._path:
                self.order.append(order)

    def _in_order(self, file: Path) -> list[Statement]:
        """Return the statements of a file that are reached, in the order of the file."""
        reached = self._reached[file]
        return [statement for statement in self._modules[file].statements if id(statement) in reached]

    def _acts(self, file: Path) -> bool:
        """Return whether importing a file, with all that it imports, does more than define names."""
        module = self._modules[file]
        return bool(module.always) or any(
            self._modules[other].always for other in modules_of(file) if other != self._path
        )

    def _imported_by(self, file: Path, statement: Statement) -> set[Path]:
        imported = self._modules[file].imported
        return {path for name in statement.names for path, _ in imported.get(name, ())}

    @staticmethod
    def _only_imports(node: ast.stmt) -> bool:
        """Return whether a statement imports from files of ours and renames nothing."""
        ours = isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "snippets"
        return ours and not any(alias.asname for alias in node.names)

    def _add(self, module: Module, statement: Statement) -> None:
        """Add a statement, the definitions that it uses and the files that its strings name. Raise RecorderError."""
        if id(statement) in self._reached[module.path]:
            return
        statement.reads.check(module.path)
        super()._add(module, statement)
        named = [*statement.reads.files, *(computed(self._modules.values()) if statement.reads.folders else ())]
        for path in named:
            if path in self._modules and path != self._path:
                self._reach(path, "")

    def read(self, shown: bool) -> list[str]:
        """Return what the code may read of files, each text with its kind: docstrings, lines of source, whole files.

        If ``shown``, a recording shows line numbers, so all lines count.
        """
        texts, statements = [], [(file, each) for file in self._modules for each in self._in_order(file)]
        docs = any(statement.reads.docs for _, statement in statements)
        lines = shown or any(statement.reads.lines for _, statement in statements)
        source = lines or any(statement.reads.source for _, statement in statements)
        files = any(statement.reads.reads_files for _, statement in statements)
        own = {file for file, statement in statements if statement.reads.own_docs}
        texts += [f"docstring: {module.docstring}" for file, module in self._modules.items() if docs or file in own]
        for file, statement in statements:
            texts += [f"docstring of {statement.names}: {doc}" for doc in statement.docs(benchmarks=not docs)]
            if source:
                text = read_text(file).splitlines()
                number = statement.lines[0] if lines else ""
                texts.append(f"source {number}: " + "\n".join(text[line - 1] for line in statement.lines))
            if statement.reads.own_file and files:
                texts.append(f"file: {read_text(file)}")
            others = (path for path in sorted(statement.reads.files) if not is_snippet(path))
            texts += [f"file: {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in others]
        return list(dict.fromkeys(texts))

    def packages(self) -> set[str]:
        """Return the names of the packages that the code imports."""
        return {package for statement in self.statements for package in statement.reads.packages}


class Loading(Walk):
    """The files that running a file loads: ``files``, with the file itself.

    Imports in functions that its ``main`` never calls do not count: a benchmark's can wait. Nor do those of a ``main``
    that asks by ``find_spec`` whether other files are there.
    """

    def __init__(self, path: Path, modules: dict[Path, Module]):
        super().__init__(path, modules)
        self.files: set[Path] = set()
        if "find_spec" in modules[path].definitions:
            self._seen.add((path, "main"))
        self._import(path)

    def _import(self, path: Path) -> None:
        """Add a file, the files that it imports at its top level, and what its statements outside functions reach."""
        if path in self.files:
            return
        self.files.add(path)
        module = self._modules[path]
        for statement in module.statements:
            if isinstance(statement.node, ast.Import | ast.ImportFrom):
                for name in statement.names:
                    for other, _ in module.imported.get(name, ()):
                        self._import(other)
            elif not isinstance(statement.node, FUNCTIONS) and (path == self._path or statement in module.always):
                self._add(module, statement)
