# SPDX-License-Identifier: Apache-2.0
"""Recordings on disk: one JSON file for each snippet and device, with its charts beside it as SVG.

A file carries the fingerprint of the code that it was made from and a digest of itself, so that code
that changed and a recording that was edited by hand both show. Files are replaced whole or not at all.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recorder import fingerprint
from recorder.project import ROOT, RecorderError, Snippet, interpreted, labs, relative, snippets, triton_of


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by a file with this text; a crash or a full disk on the way leaves the old file whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def path_of(snippet: Snippet, device: str) -> Path:
    return snippet.recordings / f"{device}.json"


def chart_path(snippet: Snippet, device: str, name: str) -> Path:
    return snippet.recordings / f"{device}.{name}.svg"


def devices(snippet: Snippet) -> list[str]:
    """The devices that a recording of the snippet exists for."""
    return sorted(path.stem for path in snippet.recordings.glob("*.json"))


def digest(recording: dict) -> str:
    text = json.dumps({k: v for k, v in recording.items() if k != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def save(snippet: Snippet, device: str, recording: dict, charts: dict[str, str]) -> None:
    """Write a recording and its charts; the charts come first, so that the JSON never names one that is not there."""
    recording = {**recording, "charts": {name: _sha256(svg) for name, svg in charts.items()}}
    recording["digest"] = digest(recording)
    for name, svg in charts.items():
        write_atomically(chart_path(snippet, device, name), svg)
    write_atomically(path_of(snippet, device), json.dumps(recording, ensure_ascii=False, indent=1) + "\n")


def redraw(snippet: Snippet, device: str, charts: dict[str, str]) -> None:
    """Replace the charts of a recording, and nothing else. Raises ``RecorderError`` if it was edited by hand."""
    path = path_of(snippet, device)
    if not _is_as_written(path, path.stat().st_mtime_ns):
        raise RecorderError(f"{relative(path)} was edited by hand; make it anew with: {mend(snippet.name, device)}")
    save(snippet, device, load(snippet, device), charts)


def load(snippet: Snippet, device: str) -> dict:
    path = path_of(snippet, device)
    if not path.is_file():
        raise RecorderError(f"there is no recording {relative(path)}; make it with: {mend(snippet.name, device)}")
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _read(path: Path, modified: int) -> dict:
    try:
        recording = json.loads(path.read_text("utf-8"))
        if not isinstance(recording, dict) or "provenance" not in recording:
            raise ValueError("it holds no recording")
        return recording
    except ValueError as error:
        raise RecorderError(f"{relative(path)} is not a whole recording ({error}); restore it with git") from error


@lru_cache(maxsize=1024)
def _is_as_written(path: Path, modified: int) -> bool:
    recording = _read(path, modified)
    return digest(recording) == recording.get("digest")


def chart(snippet: Snippet, device: str, name: str) -> str:
    path = chart_path(snippet, device, name)
    if not path.is_file():
        raise RecorderError(f"there is no chart {relative(path)}; make it with: python -m recorder draw {snippet.name}")
    return path.read_text("utf-8")


def charts(snippet: Snippet, device: str) -> dict[str, str]:
    """The charts of a recording that are there, by name."""
    paths = {name: chart_path(snippet, device, name) for name in load(snippet, device).get("charts", {})}
    return {name: path.read_text("utf-8") for name, path in paths.items() if path.is_file()}


def mend(name: str, device: str) -> str:
    """The command that makes a recording anew."""
    if triton_of(device):
        return f"python -m recorder run {name} --device {device}"
    where = "" if interpreted(device) else f"  (on a machine with this GPU: {device})"
    return f"python -m recorder run {name}{where}"


@dataclass(frozen=True)
class Problem:
    path: str  # the file that is at fault
    fault: str  # "stale", "missing", "edited", "orphaned" or "disagrees"
    why: str
    mend: str

    def __str__(self):
        return f"{self.path}: {self.fault}: {self.why}; mend: {self.mend}"


def problems(snippet: Snippet) -> list[Problem]:
    """What is wrong with the recordings of one snippet; empty when all is well."""
    found = []
    recorded = devices(snippet)
    if not recorded:
        why = f"{relative(snippet.path)} has never been recorded"
        repair = mend(snippet.name, "cpu" if snippet.runs_on("cpu") else "any will do")
        return [Problem(relative(snippet.recordings), "missing", why, repair)]
    for device in recorded:
        recording = load(snippet, device)
        path, repair = relative(path_of(snippet, device)), mend(snippet.name, device)
        if not snippet.runs_on(device):
            why = "pyproject.toml says that its snippet does not run there"
            found.append(Problem(path, "orphaned", why, f"git rm {path}"))
        elif not _is_as_written(path_of(snippet, device), path_of(snippet, device).stat().st_mtime_ns):
            found.append(Problem(path, "edited", "its content is not what the recorder wrote", repair))
        elif recording["provenance"]["fingerprint"] != fingerprint.of(snippet.path, device):
            why = f"{relative(snippet.path)} has changed since (or a snippet that it imports, or a pin)"
            found.append(Problem(path, "stale", why, repair))
        for name, expected in recording.get("charts", {}).items():
            picture, repair = chart_path(snippet, device, name), f"python -m recorder draw {snippet.name}"
            if not picture.is_file():
                found.append(Problem(relative(picture), "missing", f"{path} names it", repair))
            elif _sha256(picture.read_text("utf-8")) != expected:
                found.append(Problem(relative(picture), "edited", "its content is not what the recorder wrote", repair))
    if not found and not snippet.settings.differs:
        found += _disagreement(snippet, recorded)
    return found


def _disagreement(snippet: Snippet, recorded: list[str]) -> list[Problem]:
    """Unless its settings say otherwise, what a snippet prints is the same on every device."""
    first, *others = recorded
    expected = load(snippet, first)["output"].splitlines()
    for device in others:
        lines = load(snippet, device)["output"].splitlines()
        if lines != expected:
            a, b = next((pair for pair in zip(expected, lines, strict=False) if pair[0] != pair[1]), ("", ""))
            why = f"{first} printed {a!r} where {device} printed {b!r}"
            mend = f"make {relative(snippet.path)} print the same everywhere"
            return [Problem(relative(path_of(snippet, device)), "disagrees", why, mend)]
    return []


def orphans() -> list[Problem]:
    """Files in ``recordings/`` that belong to no snippet or to no recording."""
    belonging = set()
    for snippet in snippets():
        for device in devices(snippet):
            belonging.add(path_of(snippet, device))
            belonging |= {chart_path(snippet, device, name) for name in load(snippet, device).get("charts", {})}
    files = (path for path in (ROOT / "recordings").rglob("*") if path.is_file())
    why = "no snippet and no recording goes with it"
    return [Problem(relative(p), "orphaned", why, f"git rm {relative(p)}") for p in sorted(files) if p not in belonging]


def lab_problems() -> list[Problem]:
    from recorder import lab

    found = []
    for script in labs():
        status = lab.status(script.path, script.notebook)
        if status != "fresh":
            why = f"it was not made from {relative(script.path)} as it stands"
            found.append(Problem(relative(script.notebook), status, why, mend(script.name, "cpu")))
    return found


def all_problems() -> list[Problem]:
    return [*(p for snippet in snippets() for p in problems(snippet)), *orphans(), *lab_problems()]
