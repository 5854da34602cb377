# SPDX-License-Identifier: Apache-2.0
"""Find what a statement reads of code beyond running it, and what it loads without an import.

Docstrings, source lines, line numbers, files, and all names of a file count in a fingerprint where code may read them.
What cannot be followed is refused by name, with its line.
"""

import ast
import re
import sys
from pathlib import Path

from recorder.effects import LIBRARIES, Names
from recorder.project import ROOT, RecorderError, relative

# By the names that a statement mentions, what the fingerprint has to count beside what runs.
DOCS = {"__doc__", "getdoc", "help", "pydoc", "doctest", "getcomments"}
FRAMES = {"_getframe", "currentframe"}
SOURCE = {"getsource", "get_source", "getblock", "__code__"}
LINES = {"getsourcelines", "findsource", "linecache", "traceback", "faulthandler", "getframeinfo", "co_firstlineno",
         "co_lines", "f_lineno", "tb_lineno", "inspect.stack", "inspect.trace", *FRAMES}  # fmt: skip
NAMESPACE = {"globals", "locals", "eval", "exec", "__builtins__", "__globals__", "__subclasses__", "sys.modules",
             "getmembers", "gc.get_objects", "__main__", *FRAMES}  # fmt: skip
FILES = {"open", "read_text", "read_bytes", "getline", "getlines", "linecache", "loadtxt", "fromfile", "mmap",
         "copyfile", "fileinput"}  # fmt: skip
LOADERS = {"import_module", "__import__", "run_path", "run_module", "spec_from_file_location"}
REFUSED = {"pkgutil", "imp", "zipimport", "SourceFileLoader", "SourcelessFileLoader", "exec_module", "load_module",
           "importlib.reload", "find_loader", "addsitedir", "sys.meta_path", "sys.path_hooks", "builtins.__import__",
           "importlib.resources", "importlib.machinery", "safeimport", "pydoc.locate"}  # fmt: skip
PLACES = {"with_name", "with_stem", "parents", "glob", "rglob", "iterdir", "listdir", "scandir", "os.walk"}
BESIDE = {"parent", "dirname", *PLACES}

BUILTIN = ("eval", "exec", "help", "locals", "imp")  # other things, as attributes
WORDS = ("open", "help", "imp", "parents", "__main__")  # other things, as strings

BY_NAME = "what it loads by name is in no fingerprint; write an import"
BY_PATH = "a change of sys.path lets it import what is in no fingerprint; write `from snippets… import …`"
NEARBY = "the files that it looks for beside its own are in no fingerprint; import them, and use their `__file__`"
GAP = "\0"  # in a string, a part that is known only at run time
OURS = re.compile(rf"\bsnippets((?:[./]\w+)*)((?:[./]\w*)?{GAP})?")
ALL = re.compile(r"(\./)?snippets(/|/[^\w\s].*)?")  # the folder, or a pattern of files in it
BROUGHT = re.compile(r"\bfrom\s+snippets\.([\w.]+)\s+import\s+\(?(\w+(?:\s*,\s*\w+)*)")
IMPORTS = re.compile(r"(?:^|[;\n])\s*(?:import\s+(\w+)|from\s+(\w+)[\w.]*\s+import\b)")


class Reads:
    """The things that a statement reads and loads. ``refused`` has a line and a reason for what cannot be followed.

    ``parents`` has all nodes of the statement, from the outside in: walking is most of the work.
    """

    def __init__(self, parents: dict[ast.AST, ast.AST | None], names: Names, constants: dict[str, str]):
        self.refused: list[tuple[int, str]] = []
        self.strings: list[str] = []
        self.files: set[Path] = set()  # files of the checkout that its strings name
        self.folders: set[Path] = set()  # folders of snippets from which it loads a file by a computed name
        self.packages: set[str] = set()  # imported from elsewhere, as they are called in Python
        self._names, self._constants = names, constants
        self._parents = parents
        mentioned = {}  # by name: the nodes that mention it
        for inner in parents:
            for name in self._mentions(inner):
                mentioned.setdefault(name, []).append(inner)
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self._import(inner)
        known = mentioned.keys()
        self.own_docs = any(isinstance(each, ast.Name) for each in mentioned.get("__doc__", ()))
        self.docs = bool(known & (DOCS - {"__doc__"})) or any(map(self._of_another, mentioned.get("__doc__", ())))
        self.docs |= not all(map(self._decorates, mentioned.get("perf_report", ())))
        self.source, self.lines = bool(known & SOURCE), bool(known & LINES)
        self.namespace = bool(known & NAMESPACE) or any(
            not self._arguments(each) for name in ("vars", "dir") for each in mentioned.get(name, ())
        )
        files = [each for each in mentioned.get("__file__", ()) if isinstance(each, ast.Name)]
        self.own_file = bool(files) and not all(map(self._run_again, files))
        self.reads_files = any(map(self._reads, (each for name in FILES for each in mentioned.get(name, ()))))
        self.reads_files |= self.own_file and any(
            isinstance(self._parents.get(each), ast.List | ast.Tuple) for each in files
        )
        for name in LOADERS:
            for each in mentioned.get(name, ()):
                if not self._loads_foreign(each):
                    self._refuse(each, BY_NAME)
        for name in REFUSED:
            for each in mentioned.get(name, ()):
                self._refuse(each, BY_NAME)
        for each in mentioned.get("sys.path", ()):
            if not isinstance(self._parents.get(each), ast.comprehension | ast.For) and self._called(each) != "filter":
                self._refuse(each, BY_PATH)
        self.beside = [each for name in BESIDE for each in mentioned.get(name, ()) if isinstance(each, ast.expr)]
        if self.own_file:
            self.refuse_beside()
        for each in files:
            if self._looks_beside(each):
                self._refuse(each, NEARBY)
        self._of_strings()

    def check(self, path: Path) -> None:
        """Raise ``RecorderError`` for what cannot be followed."""
        for line, why in sorted(self.refused):
            raise RecorderError(f"{relative(path)}:{line}: {why}")

    def refuse_beside(self) -> None:
        """Refuse every look for files in a folder, because this file keeps its own path."""
        for each in self.beside:
            self._refuse(each, NEARBY)

    def _refuse(self, node: ast.AST, why: str) -> None:
        self.refused.append((getattr(node, "lineno", 1), why))

    def _mentions(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Name):
            return [node.id, self._names.full(node)] if node.id in self._names.foreign else [node.id]
        if isinstance(node, ast.Attribute):
            return [self._names.full(node), *([] if node.attr in BUILTIN else [node.attr])]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):  # as `getattr` takes it
            return [node.value] if node.value.isidentifier() and node.value not in WORDS else []
        if isinstance(node, ast.Import):
            return [part for alias in node.names for part in (alias.name, alias.name.partition(".")[0])]
        if isinstance(node, ast.ImportFrom):
            return [part for alias in node.names for part in (f"{node.module}.{alias.name}", alias.name)]
        return []

    def _arguments(self, node: ast.AST) -> bool:
        call = self._parents.get(node)
        return isinstance(call, ast.Call) and call.func is node and bool(call.args)

    def _of_another(self, node: ast.AST) -> bool:
        """Return whether ``__doc__`` is that of anything but a benchmark, whose docstring counts in any case."""
        if isinstance(node, ast.Name):
            return False
        benchmark = (
            node.value.value if isinstance(node, ast.Attribute) and getattr(node.value, "attr", "") == "fn" else None
        )
        if not isinstance(benchmark, ast.Name):
            return True
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        tables = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "benchmarks")
        return not any(getattr(n.value, "id", None) == benchmark.id for n in tables)

    def _decorates(self, node: ast.AST) -> bool:
        """Return whether Triton's ``perf_report`` is called as a decorator, or imported under its own name."""
        if isinstance(node, ast.ImportFrom):
            return not any(alias.asname for alias in node.names if alias.name == "perf_report")
        call = self._parents.get(node)
        return call in getattr(self._parents.get(call), "decorator_list", ())

    def _run_again(self, node: ast.AST) -> bool:
        """Return whether ``__file__`` stands in a command for Python to run, or is only a name to print."""
        while node in self._parents and isinstance(self._parents[node], ast.Call | ast.Starred):
            node = self._parents[node]
        parent = self._parents.get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("name", "stem")
        if isinstance(parent, ast.FormattedValue):
            return self._taken_out(parent)
        elements = parent.elts if isinstance(parent, ast.List | ast.Tuple) else []
        return any(self._names.full(each) == "sys.executable" for each in elements)

    def _looks_beside(self, node: ast.AST) -> bool:
        """Return whether code gets the folder of ``__file__``, or a file beside it, for more than printing."""
        beside = False
        while isinstance(self._parents.get(node), ast.Call | ast.Attribute | ast.BinOp | ast.Subscript):
            node = self._parents[node]
            function = node.func if isinstance(node, ast.Call) else node
            name = getattr(function, "attr", "") or getattr(function, "id", "")
            beside |= name in BESIDE
        return beside and not self._taken_out(self._parents.get(node))

    def _taken_out(self, node: ast.AST | None) -> bool:
        """Return whether this is a part of an f-string that ``replace`` removes from another string."""
        return isinstance(node, ast.FormattedValue) and self._called(self._parents[node]) == "replace"

    def _called(self, node: ast.AST) -> str:
        """Return the name of the function that is called with this node as an argument."""
        function = getattr(self._parents.get(node), "func", None)
        return getattr(function, "attr", "") or getattr(function, "id", "")

    def _reads(self, node: ast.AST) -> bool:
        """Return whether a call such as ``open`` may read: it does not if its mode says that it writes."""
        call = self._parents.get(node)
        arguments = getattr(call, "args", ())[0 if isinstance(node, ast.Attribute) else 1 :][:1]
        modes = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
        return not (modes and set(str(modes[0])) & set("wax"))

    def _loads_foreign(self, node: ast.AST) -> bool:
        """Return whether this calls a loader with a name that is certainly not ours."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            alias = next((a for a in node.names if a.name in LOADERS), None)
            return not (alias and alias.asname)
        call = self._parents.get(node)
        if isinstance(node, ast.Constant) or not (isinstance(call, ast.Call) and call.func is node and call.args):
            return False
        name = call.args[0].value if isinstance(call.args[0], ast.Constant) else "snippets"
        return not str(name).startswith("snippets") and not str(name).startswith(".") and not ours(str(name))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for module in modules:
            top = module.partition(".")[0]
            if top == "sys" and isinstance(node, ast.ImportFrom) and any(a.name == "path" for a in node.names):
                self._refuse(node, BY_PATH)
            elif top != "snippets" and (own := ours(top)):
                self._refuse(node, f"{top} is of ours, {own}; write `from snippets… import …`")
            else:
                self.packages.add(top)

    def _of_strings(self) -> None:
        for inner in self._parents:
            if isinstance(self._parents.get(inner), ast.JoinedStr | ast.BinOp):
                continue
            text = self._text(inner)
            if text is None:
                continue
            self.strings.append(text)
            for match in IMPORTS.finditer(text):
                if (name := match[1] or match[2]) != "snippets" and (own := ours(name)):
                    self._refuse(inner, f"{name} is of ours, {own}; write `from snippets… import …`")
            if re.search(rf"(?:^|[;\n])\s*(?:import\s+{GAP}|from\s+{GAP}[\w.]*\s+import\b)", text):
                self._refuse(inner, BY_NAME)
            if re.fullmatch(r"(?!snippets/)\w[^\0\n]{0,200}/[^\0\n]{1,200}", text) and (ROOT / text).is_file():
                self.files.add(ROOT / text)
            for match in OURS.finditer(text):
                self._of_ours(inner, text, match)

    def _of_ours(self, node: ast.AST, text: str, match: re.Match) -> None:
        """Follow the name of a file or folder of ``snippets/`` in a string."""
        for brought in BROUGHT.finditer(text):
            names = [f"{brought[1]}.{name.strip()}" for name in brought[2].split(",")]
            files = [_snippet_file(brought[1])] if _snippet_file(brought[1]) else list(map(_snippet_file, names))
            if all(files):
                self.files |= {*files}
                return
        parts = [part for part in re.split(r"[./]", match[1]) if part and part != "py"]
        for end in range(len(parts), 0, -1):
            if file := _snippet_file(".".join(parts[:end])):
                self.files.add(file)
                return
        folder = ROOT.joinpath("snippets", *parts)
        if match[2] and parts and folder.is_dir():
            self.folders.add(folder)
        elif match[2] or parts or (ALL.fullmatch(text) and self._called(node) != "find_spec"):
            self._refuse(node, BY_NAME)

    def _text(self, node: ast.AST) -> str | None:
        """Return the string that an expression makes, with ``GAP`` for unknown parts, or None."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            parts = map(self._text, node.values)
            return "".join(GAP if part is None else part for part in parts)
        if isinstance(node, ast.FormattedValue):
            return self._constants.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div | ast.Mod):
            parts = [self._text(part) for part in (node.left, node.right)]
            between = "/" if isinstance(node.op, ast.Div) else ""
            return None if parts == [None, None] else between.join(GAP if part is None else part for part in parts)
        return None


def _snippet_file(module: str) -> Path | None:
    path = ROOT / "snippets" / f"{module.replace('.', '/')}.py"
    return path if path.is_file() else None


def ours(name: str) -> str:
    """Return the file of ours that an import of this name could load under some ``sys.path``, or an empty string."""
    top = name.partition(".")[0]
    if not top.isidentifier() or top in sys.stdlib_module_names or top in LIBRARIES:
        return ""
    if top in ("recorder", "figures", "render", "practice", "tests") and (ROOT / top).is_dir():
        return f"{top}/"
    return next((relative(path) for path in sorted((ROOT / "snippets").rglob(f"{top}.py"))), "")
