# SPDX-License-Identifier: Apache-2.0
"""Give a snippet or a page another name everywhere. Recordings stay, so nothing has to run again.

A fingerprint covers what runs, not the names of files; but code may spell such a name, as ``import … as`` does. So each
file's syntax tree is compared before anything is written: only the name may have changed. A lab whose prose has the old
name is stale afterward; labs run on any machine.
"""

import ast
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from recorder import fingerprint, recording, runner
from recorder.judge import problems
from recorder.project import ROOT, RecorderError, Snippet, check_new_name, find, relative, snippet_of_page, snippets
from recorder.recording import Recording
from recorder.source import spell, syntax_tree

FOLDERS = ("docs", "snippets", "tests", "figures", "render", "theme", ".github")
TEXT = (".py", ".md", ".toml", ".yml", ".html", ".css", ".js")


def rename(old_name: str, new_name: str) -> list[str]:
    """Move a snippet with its test, settings, recordings and page; or a page alone, such as ``programs/masks.md``.

    Return the files that are new or changed. Raise ``RecorderError``, and change nothing, if the new name is taken, if
    a recording is not fresh, or if code uses the name in a way that is not understood.
    """
    if old_name.endswith(".md"):
        return _rename_page(old_name, new_name)
    old, new = find(old_name), Snippet(new_name)
    check_new_name(new_name)
    if new.path.exists() or new.recordings.exists():
        raise RecorderError(f"there is a snippet or a recording {new_name!r} already")
    if faults := problems(old):
        raise RecorderError(f"fix first: {faults[0]}")
    fresh = [each for snippet in snippets() if not problems(snippet) for each in _recordings(snippet)]
    moves = {old.path: new.path} | ({old.test: new.test} if old.test.is_file() else {})
    for page in (ROOT / "docs").glob(f"*/{_page(old)}.md"):
        moves[page] = page.parents[1] / f"{_page(new)}.md"
    texts = _texts(moves, lambda text: _spelled(text, old, new, bool(set(moves) - {old.path, old.test})), old, new)
    texts |= _settings(texts, old, new)
    _check(texts, old, new)
    changed = _write(texts, moves)
    for made in fresh:
        if (now := _renamed(made, old, new)) != made:
            recording.save(now)
            changed.append(relative(recording.path_of(Snippet(now.snippet), now.device)))
    if old.recordings.is_dir():
        shutil.rmtree(old.recordings)
    return sorted(changed)


def _rename_page(old: str, new: str) -> list[str]:
    """Move a page in each language, and the links to it. If it had its snippet's name, its settings name that now."""
    moves = {page: page.parents[1] / new for page in (ROOT / "docs").glob(f"*/{old}")}
    if not moves:
        raise RecorderError(f"there is no page {old!r}")
    if any(page.exists() for page in moves.values()) or not re.fullmatch(r"[a-z_]+/[a-z][a-z0-9-]*\.md", new):
        raise RecorderError(f"{new!r} is taken, or no name such as programs/vector-add.md")
    address = re.compile(rf"(?<![\w-])(?<!recordings/)(?<!snippets/){re.escape(old.removesuffix('.md'))}(?=\.md\b|/)")
    texts = _texts(moves, lambda text: address.sub(new.removesuffix(".md"), text))
    own, now = (Snippet(snippet_of_page(page)) for page in (old, new))
    if own.path.is_file() and own != now:
        texts |= {page: _with_its_snippet(texts.get(page) or page.read_text("utf-8"), own) for page in moves}
    return sorted(_write(texts, moves))


def _with_its_snippet(page: str, snippet: Snippet) -> str:
    """Return the text of a page with settings that name its snippet, unless they name one already."""
    if re.match(r"---\n(?:(?!---).*\n)*snippet: ", page):
        return page
    line = f"---\nsnippet: {snippet.name}\n"
    return line + (page.removeprefix("---\n") if page.startswith("---\n") else f"---\n\n{page}")


def _page(snippet: Snippet) -> str:
    return snippet.name.replace("_", "-")


def _recordings(snippet: Snippet) -> list[Recording]:
    return [recording.load(snippet, device) for device in recording.devices(snippet)]


# ---- New texts, by the path before the move ----


def _texts(moves: dict, spelled: Callable, old: Snippet | None = None, new: Snippet | None = None) -> dict[Path, str]:
    """Return the new text of each file that changes."""
    texts = {}
    for path in _files():
        text = before = path.read_text("utf-8")
        if path.suffix == ".md" or path.parent.name == "labs":
            text = _relinked(path, text, moves)
        if old and path.suffix == ".py":
            text = _imported(path, text, old, new)
        if old and path in (old.path, old.test):
            text = _called_by_file(text, old, new, everywhere=path == old.test)
        text = spelled(text)
        if text != before:
            texts[path] = text
    return texts


def _files() -> list[Path]:
    """Return the files that may hold a name: every text of ours that the recorder does not write."""
    within = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXT)
    top = (path for path in ROOT.iterdir() if path.suffix in TEXT or path.name == "Makefile")
    return sorted(path for path in [*within, *top] if path.is_file())


def _spelled(text: str, old: Snippet, new: Snippet, has_page: bool) -> str:
    """Return a text with the new names of snippet, page, test and module."""
    chapter, _, name = old.name.partition("/")
    new_chapter, _, new_name = new.name.partition("/")
    if has_page:
        text = re.sub(rf"(?<![\w-])(?<!recordings/){re.escape(_page(old))}(?=\.md\b|/)", _page(new), text)
    text = re.sub(rf"(?<![\w-]){re.escape(old.name)}(?![\w-]|\.md\b)", new.name, text)
    text = re.sub(rf"\b{chapter}/test_{name}\b", f"{new_chapter}/test_{new_name}", text)
    text = re.sub(rf"\bsnippets\.{chapter}\.{name}\b", f"snippets.{new_chapter}.{new_name}", text)
    one = rf"\bfrom snippets\.{chapter} import {name}\b(?!,)( as \w+)?"
    return re.sub(one, lambda m: f"from snippets.{new_chapter} import {new_name}{m[1] or f' as {name}'}", text)


def _imported(path: Path, text: str, old: Snippet, new: Snippet) -> str:
    """Return a text whose imports of several modules at once have the new name, bound to the one that the code uses."""
    (chapter, _, name), (new_chapter, _, new_name) = old.name.partition("/"), new.name.partition("/")
    lines, one = text.splitlines(keepends=True), rf"(import .*)?\b{name}\b( as \w+)?"
    for node in ast.walk(ast.parse(text)) if f"snippets.{chapter} import" in text else ():
        if not isinstance(node, ast.ImportFrom) or node.module != f"snippets.{chapter}" or len(node.names) == 1:
            continue
        if name in [alias.name for alias in node.names]:
            if chapter != new_chapter:
                raise RecorderError(f"{relative(path)}:{node.lineno} imports {name} beside others; give it a line")
            for i in range(node.lineno - 1, node.end_lineno):
                lines[i] = re.sub(one, lambda m: f"{m[1] or ''}{new_name}{m[2] or f' as {name}'}", lines[i], count=1)
    return "".join(lines)


def _called_by_file(text: str, old: Snippet, new: Snippet, everywhere: bool) -> str:
    """Return a text with the file's new name; if not ``everywhere``, only in its docstring: code may print the name."""
    first = next(iter(ast.parse(text).body), None)
    lines = text.splitlines(keepends=True)
    end = len(lines) if everywhere else first.end_lineno if isinstance(first, ast.Expr) else 0
    one = rf"(?<![\w/-]){re.escape(old.path.name)}\b"
    return re.sub(one, new.path.name, "".join(lines[:end])) + "".join(lines[end:])


LINK = re.compile(r"(?<=\]\()[^()\s#:]+|(?<=\]: )[^()\s#:]+")


def _relinked(path: Path, text: str, moves: dict[Path, Path]) -> str:
    """Return the text of a page or a lab with links that still lead to the pages that move, also if it moves itself."""
    here = ROOT / "docs/en" / path.parts[-3] if path.suffix == ".py" else path.parent
    there = moves.get(path, path).parent if path.suffix == ".md" else here

    def link(match):
        target = Path(os.path.normpath(here / match[0]))
        if target not in moves and (here == there or not target.exists()):
            return match[0]
        return Path(os.path.relpath(moves.get(target, target), there)).as_posix()

    return LINK.sub(link, text)


def _settings(texts: dict[Path, str], old: Snippet, new: Snippet) -> dict[Path, str]:
    """Return the settings files with the snippet's table, unchanged, under its new name and in its new chapter."""
    read = lambda file: texts.get(file) or (file.read_text("utf-8") if file.is_file() else "")
    text, key = read(old.settings_file), old.name.partition("/")[2]
    match = re.search(rf"^\[{re.escape(key)}\]\n.*?(?=^\[[\w-]+\]$|\Z)", text, re.M | re.S)
    if not match:
        return {}
    table = match[0].replace(f"[{key}]", f"[{new.name.partition('/')[2]}]", 1)
    if new.settings_file == old.settings_file:
        return {old.settings_file: text.replace(match[0], table)}
    there = f"{read(new.settings_file).rstrip()}\n\n".lstrip() + f"{table.rstrip()}\n"
    return {old.settings_file: text.replace(match[0], ""), new.settings_file: there}


def _check(texts: dict[Path, str], old: Snippet, new: Snippet) -> None:
    """Raise ``RecorderError`` if the code of any snippet changes in more than the name."""
    (chapter, _, name), (new_chapter, _, new_name) = old.name.partition("/"), new.name.partition("/")
    names = {name, new_name} | ({chapter, new_chapter} if chapter != new_chapter else set())
    any_name = re.compile(rf"\b(?:{'|'.join(names)})\b")

    def blank(text):
        spelled = any_name.sub("*", spell(syntax_tree(text)))
        return spelled.replace("alias(name='*', asname='*')", "alias(name='*')")  # where an import now says `as`

    for path, text in texts.items():
        ours = path.suffix == ".py" and path.is_relative_to(ROOT / "snippets")
        if ours and blank(text) != blank(path.read_text("utf-8")):
            raise RecorderError(f"{relative(path)} would run otherwise under another name; rename it by hand")


def _write(texts: dict[Path, str], moves: dict[Path, Path]) -> list[str]:
    for path, text in texts.items():
        recording.write_atomically(path, text)
    for source, target in moves.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    return [relative(moves.get(path, path)) for path in {*texts, *moves}]


def _renamed(made: Recording, old: Snippet, new: Snippet) -> Recording:
    """Return the same recording with the new names."""
    spelled = msgspec.json.encode(made).decode().replace(relative(old.path), relative(new.path))
    now = msgspec.json.decode(spelled, type=Recording)
    snippet = new if made.snippet == old.name else Snippet(made.snippet)
    new_provenance = {
        "command": runner.command(snippet, made.device),
        "fingerprint": fingerprint.of(snippet, made.device, now),
    }
    provenance = msgspec.structs.replace(now.provenance, **new_provenance)
    return msgspec.structs.replace(now, snippet=snippet.name, provenance=provenance)
