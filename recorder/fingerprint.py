# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a snippet: what runs, without what only people read."""

import ast
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from recorder.project import ROOT, RecorderError, interpreted, relative, triton_of

PINNED = ("torch", "triton", "numpy")


def syntax_tree(source: str) -> ast.Module:
    """Parse ``source`` and drop its docstrings; comments are no part of a tree."""
    tree = ast.parse(source)
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del node.body[0]
    return tree


def _statements(node):
    """A node and all statements within it, which expressions cannot hold: far fewer than ``ast.walk`` goes through."""
    yield node
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield from _statements(inner)


def _spell(node) -> str:
    """Like ``ast.dump``, but without empty fields: Python versions differ in which of those they have."""
    if isinstance(node, ast.JoinedStr):  # where Python 3.12 puts empty strings that 3.11 does not
        node.values = [value for value in node.values if not (isinstance(value, ast.Constant) and value.value == "")]
    if isinstance(node, ast.AST):
        fields = [f"{name}={_spell(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(_spell, node))}]"
    return repr(node)


@lru_cache(maxsize=256)
def _digest(source: str) -> tuple[str, frozenset[str]]:
    """What runs of a source, spelled out, and the names of the modules that it may import."""
    tree = syntax_tree(source)
    names = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return _spell(tree), frozenset(names)


def same_code(a: str, b: str) -> bool:
    """Whether two sources differ in nothing but comments, docstrings and line breaks."""
    return _digest(a)[0] == _digest(b)[0]


def _read(path: Path) -> tuple[str, frozenset[str]]:
    try:
        return _digest(path.read_text("utf-8"))
    except SyntaxError as error:
        raise RecorderError(f"{relative(path)}:{error.lineno}: it is not Python: {error.msg}") from error


def local_modules(path: Path) -> list[Path]:
    """``path`` and every snippet that it imports, directly or through another."""
    found, waiting = [], [path]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.append(module)
        _, names = _read(module)
        files = [ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("snippets.")]
        waiting += [file for file in files if file.is_file()]
    return sorted(found)


def pins() -> dict[str, str]:
    """The lines of requirements.txt that pin what the interpreter's results depend on."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    found = {package: [line for line in lines if re.match(rf"{package}\s*==", line)] for package in PINNED}
    return {package: " ".join(lines) for package, lines in found.items()}


def of(path: Path, device: str = "cpu") -> str:
    """SHA-256 (hexadecimal) over the syntax trees of ``path`` and its local modules and, on a CPU, the pins."""
    parts = [f"{relative(module)}: {_read(module)[0]}" for module in local_modules(path)]
    if interpreted(device):
        other = {"triton": f"triton=={version}"} if (version := triton_of(device)) else {}
        parts += [f"{package}: {pin}" for package, pin in (pins() | other).items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def line_map(old: str, new: str) -> dict[int, int]:
    """Where each line of code of ``old`` stands in ``new``, two sources that differ in comments and docstrings only."""
    pairs = zip(ast.walk(syntax_tree(old)), ast.walk(syntax_tree(new)), strict=True)
    moved = {}
    for before, after in pairs:
        if hasattr(before, "lineno"):
            moved.setdefault(before.lineno, after.lineno)
    return moved
