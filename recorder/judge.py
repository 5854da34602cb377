# SPDX-License-Identifier: Apache-2.0
"""Judge what is recorded: stale, missing, edited, orphaned, untested, unfinished."""

import re
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError, run

from recorder import fingerprint, lab, recording
from recorder.project import (
    OTHER_TRITON,
    REPLACE_LINK,
    ROOT,
    RecorderError,
    Snippet,
    exercises,
    how_to_record,
    interpreted,
    labs,
    links_outside,
    read_text,
    recorded,
    relative,
    snippets,
    strangers,
)


@dataclass(frozen=True)
class Problem:
    path: str  # the file that is at fault
    fault: str  # "stale", "missing", "edited", "orphaned", "disagrees", "unreadable", "untested" or "unfinished"
    why: str
    fix: str

    def __str__(self):
        return f"{self.path}: {self.fault}: {self.why}; fix: {self.fix}"


def problems(snippet: Snippet) -> list[Problem]:
    """Return what is wrong with a snippet's recordings. Raise ``RecorderError`` if its code cannot be followed."""
    devices, faults = recording.devices(snippet), []
    for device in _expected(snippet):
        if device not in devices:
            path = relative(recording.path_of(snippet, device))
            why = f"{relative(snippet.path)} has never been recorded there"
            faults.append(Problem(path, "missing", why, how_to_record(snippet.name, device)))
    if "gpu" in snippet.settings.devices and not any(not device.startswith("cpu") for device in devices):
        why = f"{relative(snippet.path)} has never been recorded on a GPU"
        repair = f"python -m recorder run {snippet.name}  (on a machine with a GPU)"
        faults.append(Problem(relative(snippet.recordings), "missing", why, repair))
    for device in devices:
        faults += _problems_on(snippet, device)
    if devices and not faults and not snippet.settings.differs:
        faults += _disagreement(snippet, devices)
    return faults


def _expected(snippet: Snippet) -> list[str]:
    """Return the CPU devices on which a snippet must have been recorded."""
    cpu = ["cpu"] if "cpu" in snippet.settings.devices else []
    return cpu + [f"{OTHER_TRITON}{version}" for version in snippet.settings.triton]


def _problems_on(snippet: Snippet, device: str) -> list[Problem]:
    path, repair = relative(recording.path_of(snippet, device)), how_to_record(snippet.name, device)
    try:
        made = recording.load(snippet, device)
        sound = recording.as_written(snippet, device)
    except RecorderError as error:
        return [Problem(path, "unreadable", str(error), repair)]
    if not snippet.runs_on(device):
        why = f"{relative(snippet.settings_file)} says that its snippet does not run there"
        return [Problem(path, "orphaned", why, removal(path))]
    if (made.snippet, made.device) != (snippet.name, device):
        return [Problem(path, "edited", f"it is of {made.snippet} on {made.device}", repair)]
    if not sound:
        return [Problem(path, "edited", "its content is not what the recorder wrote", repair)]
    if made.provenance.fingerprint != fingerprint.of(snippet, device, made):
        why = f"{relative(snippet.path)} has changed since (or a definition that it imports, its settings, or a pin)"
        return [Problem(path, "stale", why, repair)]
    return []


def _disagreement(snippet: Snippet, devices: list[str]) -> list[Problem]:
    """Return a problem if a snippet printed different things on two devices, which its settings may allow."""
    if snippet.settings.differs_on_gpus:
        devices = [device for device in devices if interpreted(device)] or devices[:1]
    first, *others = devices
    expected = recording.load(snippet, first).output.splitlines()
    for device in others:
        lines = recording.load(snippet, device).output.splitlines()
        if lines != expected:
            length = max(len(lines), len(expected))
            padded = (part + [""] * (length - len(part)) for part in (expected, lines))
            a, b = next(pair for pair in zip(*padded, strict=True) if pair[0] != pair[1])
            why = f"{first} printed {a!r} where {device} printed {b!r}"
            repair = f"make {relative(snippet.path)} print the same everywhere"
            return [Problem(relative(recording.path_of(snippet, device)), "disagrees", why, repair)]
    return []


def removal(path: str) -> str:
    """Return the command that removes a file: git's, if git knows the file."""
    try:
        run(["git", "ls-files", "--error-unmatch", path], cwd=ROOT, capture_output=True, check=True)
        return f"git rm {path}"
    except (OSError, CalledProcessError):
        return f"rm {path}"


def links() -> list[Problem]:
    """Return a problem for each symbolic link out of the checkout: pages would show another machine's files."""
    return [
        Problem(relative(path), "orphaned", "it is a link that leads out of the checkout", REPLACE_LINK)
        for path in links_outside()
    ]


def orphans() -> list[Problem]:
    """Return a problem for each file in ``recordings/`` that is no recording of a snippet or an exercise."""
    belonging = {recording.path_of(each, device) for each in recorded() for device in recording.devices(each)}
    files = (path for path in (ROOT / "recordings").rglob("*") if path.is_file() and not path.name.startswith(".git"))
    why = "it is no recording of a snippet"
    paths = [relative(path) for path in sorted(files) if path not in belonging]
    return [Problem(path, "orphaned", why, removal(path)) for path in paths]


def untested(snippet: Snippet) -> list[Problem]:
    """Return a problem if a snippet has no test of its own and its settings do not say why."""
    if snippet.settings.untested:
        return []
    if not snippet.test.is_file():
        return [Problem(relative(snippet.path), "untested", "it has no test", f"write {relative(snippet.test)}")]
    if not re.search(r"^\s*def test_\w", read_text(snippet.test), re.M):
        why = f"there is no test in {relative(snippet.test)}"
        return [Problem(relative(snippet.path), "untested", why, "write one, such as `def test_is_as_torch_says():`")]
    return []


def unfinished(snippet: Snippet) -> list[Problem]:
    """Return a problem for each TODO in a snippet or its test, such as those of ``recorder new``."""
    todos = []
    for path in filter(Path.is_file, (snippet.path, snippet.test)):
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            if re.search(r"\bTODO\b", line):
                todos.append(Problem(f"{relative(path)}:{number}", "unfinished", line.strip(), "do it"))
    return todos


def unknown_files() -> list[Problem]:
    """Return a problem for each file in ``snippets/`` that no fingerprint covers."""

    def judged(path: Path) -> Problem:
        packages = path.name == "__init__.py"
        why = "files of a folder are imported without it" if packages else "no fingerprint covers it"
        repair = removal(relative(path)) if packages else "write its data into the snippet, or have it made by one"
        return Problem(relative(path), "orphaned", why, repair)

    return [judged(path) for path in strangers()]


def lab_problems() -> list[Problem]:
    """Return a problem for each lab whose notebook its script did not make, and for each notebook without a script."""
    faults = []
    for script in labs():
        status = lab.status(script)
        if status != "fresh":
            why = f"it was not made from {relative(script.path)} as it stands"
            faults.append(Problem(relative(script.notebook), status, why, how_to_record(script.name, "cpu")))
    known = {script.notebook for script in labs()}
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        if notebook not in known and ".ipynb_checkpoints" not in notebook.parts:
            path = relative(notebook)
            faults.append(Problem(path, "orphaned", "no script makes this notebook", removal(path)))
    return faults


def all_problems() -> list[Problem]:
    """Return everything that is wrong. A file that cannot be read is a problem, too."""
    faults = []
    for snippet in snippets():
        try:
            faults += [*problems(snippet), *untested(snippet), *unfinished(snippet)]
        except RecorderError as error:
            faults.append(Problem(relative(snippet.path), "unreadable", str(error), "fix what it names"))
    for exercise in exercises():
        try:
            faults += problems(exercise)
        except RecorderError as error:
            faults.append(Problem(relative(exercise.path), "unreadable", str(error), "fix what it names"))
    return [*faults, *links(), *unknown_files(), *orphans(), *lab_problems()]
