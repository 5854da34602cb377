# SPDX-License-Identifier: Apache-2.0
"""``python -m recorder.migrate``: carry over recordings of version 1 that are fresh under the rule of version 1.

Only what that version recorded is used; `check --replay` says whether the interpreter agrees. To be removed once run.
"""

import ast
import hashlib
import json
import re
import sys
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

import msgspec

from recorder import compile, fingerprint, lab
from recorder.project import ROOT, RecorderError, Snippet, interpreted, labs, relative, snippets, triton_of
from recorder.recording import Recording, chart_path, path_of, save, write_atomically
from recorder.source import places

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


def old_fingerprint(path: Path, device: str = "cpu") -> str:
    """SHA-256 (hexadecimal) over the syntax trees of ``path`` and its local modules and, on a CPU, the pins."""
    parts = [f"{relative(module)}: {_read(module)[0]}" for module in local_modules(path)]
    if interpreted(device):
        other = {"triton": f"triton=={version}"} if (version := triton_of(device)) else {}
        parts += [f"{package}: {pin}" for package, pin in (pins() | other).items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def old_digest(made: dict) -> str:
    text = json.dumps({k: v for k, v in made.items() if k != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def carry(snippet: Snippet, device: str) -> str:
    path = path_of(snippet, device)
    old = json.loads(path.read_text("utf-8"))
    if "version" in old:
        return "already"
    if old_digest(old) != old["digest"]:
        return "EDITED"
    if old["provenance"]["fingerprint"] != old_fingerprint(snippet.path, device):
        return "STALE"
    settings = snippet.settings
    keeps = settings.launches if interpreted(device) else []
    launches = [_launch(launch) for launch in old["launches"]]
    plain = {
        "snippet": snippet.name,
        "device": device,
        "provenance": {**old["provenance"], "fingerprint": fingerprint.of(snippet, device)},
        "output": old["output"],
        "benchmarks": [_benchmark(table) for table in old["benchmarks"]],
        "pictures": old.get("pictures", {}),
        "launched": dict(Counter(launch["kernel"] for launch in launches)),
        "launches": {str(number): launches[number] for number in keeps},
        "compiled": _compiled(old, settings) if settings.compiled or settings.stages else [],
    }
    names = [] if interpreted(device) else settings.charts
    charts = {name: chart_path(snippet, device, name).read_text("utf-8") for name in names}
    for name, svg in charts.items():
        if hashlib.sha256(svg.encode()).hexdigest() != old["charts"][name]:
            return f"EDITED chart {name}"
    save(msgspec.convert(plain, Recording), charts)
    return "carried"


def _launch(old: dict) -> dict:
    accesses = old["accesses"]
    if accesses is not None:
        accesses = [{k: v for k, v in access.items() if k != "line"} for access in accesses]
    kept = {k: old[k] for k in ("kernel", "file", "grid", "arguments", "constexprs", "options")}
    return {**kept, "accesses": accesses}


def _benchmark(old: dict) -> dict:
    rows = [{"x": [row[x] for x in old["x"]], "y": {line: row[line] for line in old["lines"]}} for row in old["rows"]]
    kept = {k: old[k] for k in ("name", "x", "xlabel", "ylabel", "lines", "doc", "x_log", "y_log")}
    return {**kept, "rows": rows}


def _compiled(old: dict, settings) -> list[dict]:
    return [
        {
            "launches": entry["launches"], "kernel": launch["kernel"], "file": launch["file"],
            "targets": {
                target: _code(old, entry["launches"], launch, target, code, settings)
                for target, code in entry["targets"].items()
            },
        }
        for entry in old["compiled"]
        for launch in [old["launches"][entry["launches"][0]]]
    ]  # fmt: skip


def _code(old, numbers, launch, target, code, settings) -> dict:
    if "error" in code:
        return code
    pairs = {
        stage: list(zip(part["text"].split("\n"), part["lines"], strict=True)) for stage, part in code["stages"].items()
    }
    place = _places(old["source"][launch["file"]], launch["kernel"])
    shown = {
        stage: [[text, place.get(line)] for text, line in rows]
        for stage, rows in pairs.items()
        if any(listing.names(number, target, stage) for number in numbers for listing in settings.stages)
    }
    digests = {stage: compile.digest(stage, rows) for stage, rows in pairs.items()}
    return {**{k: v for k, v in code.items() if k != "stages"}, "digests": digests, "stages": shown}


@lru_cache
def _places(text: str, kernel: str) -> dict:
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        path = Path(folder) / "then.py"
        path.write_text(text, "utf-8")
        return places(path, kernel)


def carry_lab(script) -> str:
    found = json.loads(script.notebook.read_text("utf-8"))
    made = found["metadata"]["provenance"]
    then = hashlib.sha256(f"{old_fingerprint(script.path)}\n{script.path.read_text('utf-8')}".encode()).hexdigest()
    if found["metadata"]["digest"] != lab.digest(found):
        return "EDITED"
    if made["fingerprint"] != then:
        return "STALE or already"
    made["fingerprint"] = lab.fingerprint(script)
    found["metadata"]["digest"] = lab.digest(found)
    write_atomically(script.notebook, json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    return "carried"


def main() -> int:
    said = Counter()
    for snippet in snippets():
        for path in sorted(snippet.recordings.glob("*.json")):
            result = carry(snippet, path.stem)
            said[result] += 1
            if result not in ("carried", "already"):
                print(f"{relative(path)}: {result}")
    for script in labs():
        print(script.name, carry_lab(script))
    print(dict(said))
    return set(said) > {"carried", "already"}


if __name__ == "__main__":
    sys.exit(main())
