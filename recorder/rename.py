# SPDX-License-Identifier: Apache-2.0
"""Give a snippet another name, in all places that have it: nothing that was recorded changes, so nothing runs again.

A fingerprint is of what runs, not of the files that it stands in; so recordings of the snippet and of those that import
it stay fresh.
"""

import re
import shutil
from pathlib import Path

import msgspec

from recorder import recording, runner
from recorder.judge import problems
from recorder.project import ROOT, RecorderError, Snippet, find, relative
from recorder.recording import Recording

TEXT = (".py", ".md", ".toml", ".yml", ".ipynb")


def rename(old_name: str, new_name: str) -> list[str]:
    """Move a snippet with its test, settings and recordings; returns the files in which it was named.

    Raises ``RecorderError`` if the new name is taken or if what is recorded is not fresh.
    """
    old, new = find(old_name), Snippet(new_name)
    if not re.fullmatch(r"[a-z_]+/[a-z][a-z0-9_]*", new_name):
        raise RecorderError(f"{new_name!r} is no name such as programs/vector_add")
    if new.path.exists() or new.recordings.exists():
        raise RecorderError(f"there is a snippet or a recording {new_name!r} already")
    if faults := problems(old):
        raise RecorderError(f"mend first: {faults[0]}")
    made = [recording.load(old, device) for device in recording.devices(old)]
    charts = [recording.charts(old, each.device) for each in made]
    _move_settings(old, new)
    for source, target in ((old.path, new.path), (old.test, new.test)):
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
    named = [relative(path) for path in _files() if _replace(path, old, new)]
    for each, drawn in zip(made, charts, strict=True):
        recording.save(_renamed(each, old, new), drawn)
    shutil.rmtree(old.recordings)
    return named


def _files() -> list[Path]:
    """Where a snippet may be named."""
    files = (path for folder in ("docs", "snippets", "tests") for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in files if path.suffix in TEXT and path.is_file())


def _replace(path: Path, old: Snippet, new: Snippet) -> bool:
    text = path.read_text("utf-8")
    (chapter, _, name), (new_chapter, _, new_name) = old.name.partition("/"), new.name.partition("/")
    changed = re.sub(rf"\b{re.escape(old.name)}(?![\w-])", new.name, text)
    changed = re.sub(rf"\b{re.escape(old.module)}\b", new.module, changed)
    imports = rf"^(\s*from snippets\.){chapter}( import (?:.*\b)?){name}\b(?! as)"
    if path.suffix == ".py":
        one = rf"^(\s*)from snippets\.{chapter} import {name}( as \w+)?$"
        changed = re.sub(one, lambda m: _import(m, new_chapter, new_name, name), changed, flags=re.M)
        if re.search(imports, changed, re.M):
            raise RecorderError(f"{relative(path)} imports {old.module} beside others; give it a line of its own first")
    changed = re.sub(rf"(?<![\w/-]){re.escape(name)}\.py\b", f"{new_name}.py", changed) if path == new.path else changed
    if changed != text:
        path.write_text(changed, "utf-8")
    return changed != text


def _import(match: re.Match, chapter: str, name: str, old: str) -> str:
    """An import of the module under the name that the code uses."""
    alias = match[2] or f" as {old}"
    return f"{match[1]}from snippets.{chapter} import {name}{alias}"


def _move_settings(old: Snippet, new: Snippet) -> None:
    """Move a snippet's table, as it is written, from its chapter's settings to the other's."""
    if not old.settings_file.is_file():
        return
    text = old.settings_file.read_text("utf-8")
    key = old.name.partition("/")[2]
    found = re.search(rf"^\[{re.escape(key)}\]\n.*?(?=^\[[\w-]+\]$|\Z)", text, re.M | re.S)
    if not found:
        return
    table = found[0].replace(f"[{key}]", f"[{new.name.partition('/')[2]}]", 1)
    if new.settings_file == old.settings_file:
        old.settings_file.write_text(text.replace(found[0], table), "utf-8")
    else:
        old.settings_file.write_text(text.replace(found[0], ""), "utf-8")
        there = new.settings_file.read_text("utf-8").rstrip() + "\n\n" if new.settings_file.is_file() else ""
        new.settings_file.write_text(there + table.rstrip() + "\n", "utf-8")


def _renamed(made: Recording, old: Snippet, new: Snippet) -> Recording:
    """The same recording under the new name."""
    provenance = msgspec.structs.replace(made.provenance, command=runner.command(new, made.device))
    spelled = msgspec.json.encode(msgspec.structs.replace(made, provenance=provenance, snippet=new.name)).decode()
    return msgspec.json.decode(spelled.replace(relative(old.path), relative(new.path)), type=Recording)
