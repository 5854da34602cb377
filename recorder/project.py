# SPDX-License-Identifier: Apache-2.0
"""Name the files of snippets, labs, exercises and recordings, and read a snippet's settings."""

import difflib
import keyword
import os
import re
import sys
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path

import msgspec

from practice.coach.exercise import Exercise as Folder
from practice.coach.exercise import PracticeError


class RecorderError(Exception):
    """Something named by a person does not exist or cannot be used; the message says what, and what to do."""


def _root() -> Path:
    """Return the checkout around the working directory, or the one that this file belongs to."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "mkdocs.yml").is_file() and (folder / "snippets").is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


ROOT = _root()
SETTINGS = "recorder.toml"
# What a site is made from.
PUBLISHED = ("docs", "snippets", "recordings", "figures", "theme", "render", "practice", "template")
REPLACE_LINK = "put the file itself there"
OUTPUT = "output"  # where a running snippet's standard output is collected, in its temporary folder


def relative(path: Path) -> str:
    """Return ``path`` from the root of the project, with forward slashes, as recordings and messages have it."""
    return path.relative_to(ROOT).as_posix()


def inside(path: Path) -> Path:
    """Return a path of the checkout. Raise ``RecorderError`` if a link on its way leads out of the checkout."""
    if path.is_relative_to(ROOT) and not path.resolve().is_relative_to(ROOT.resolve()):
        raise RecorderError(f"{relative(path)} leads out of the checkout, to {path.resolve()}; {REPLACE_LINK}")
    return path


def links_outside() -> list[Path]:
    """Return the symbolic links that lead nowhere or out of the checkout: the site would show this machine's files."""
    links = []
    for folder in PUBLISHED:
        for parent, folders, files in os.walk(ROOT / folder):
            links += [Path(parent, name) for name in (*folders, *files) if Path(parent, name).is_symlink()]
    root = ROOT.resolve()
    return sorted(link for link in links if not link.exists() or not link.resolve().is_relative_to(root))


def read_text(path: Path) -> str:
    """Return the text of a file. Raise ``RecorderError`` if it is not UTF-8 or lies outside of the checkout."""
    inside(path)
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise RecorderError(f"{relative(path)} is not UTF-8 ({error}); save it as UTF-8") from error


# The Triton that compiles the stages that pages show, fetched beside the pinned one: the version that GPUs run, so that
# listings and timings are of one compiler. The pins stay, for its interpreter gets bfloat16 wrong. A new version is
# this line; `python -m recorder run` then compiles anew what it touches.
COMPILER = "3.9.0"
OTHER_TRITON = "cpu-triton-"  # "cpu-triton-3.8.0": the interpreter of a Triton that is not the pinned one


def triton_of(device: str) -> str | None:
    """Return the version of Triton in the name of a device, or None for the pinned version and for GPUs."""
    return device.removeprefix(OTHER_TRITON) if device.startswith(OTHER_TRITON) else None


def interpreted(device: str) -> bool:
    return device == "cpu" or device.startswith(OTHER_TRITON)


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Compiler stages that a page shows: of one launch, for some targets. What is left out means all of them."""

    launch: str
    targets: list[str] = []
    stages: list[str] = []

    def names(self, launch: str, target: str, stage: str) -> bool:
        return launch == self.launch and target in (self.targets or [target]) and stage in (self.stages or [stage])


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snippet's table in ``recorder.toml``: what to record beside output and benchmarks, and how."""

    devices: tuple[str, ...] = ("cpu", "gpu")  # kinds of device that it is recorded on; none, if others run it
    differs: str = ""  # why its output is not the same on every device, or in every run
    differs_on_gpus: str = ""  # why GPUs alone print something else, another one or in another run
    launches: list[str] = []  # launches in the interpreter that pages draw or name, such as "add_kernel[0]"
    compiled: bool = False  # whether its launches are compiled for all targets: registers, shared memory, digests
    compiles_only: bool = False  # whether it launches no kernel on a CPU: what it says was read from code that the
    # course's compiler made, `COMPILER`, unless it compares versions of Triton, which `triton` names
    stages: list[Listing] = []  # what of that is kept as text
    triton: list[str] = []  # other versions of Triton to run it under, in the interpreter
    processes: int = 1  # in how many processes, one after the other, its benchmarks are measured on a GPU
    replay: bool = True  # whether `check --replay` runs it again; not so for what asks the network
    untested: str = ""  # why it has no test


@lru_cache
def _settings(file: Path, modified: int) -> dict[str, Settings]:
    try:
        tables = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise RecorderError(f"{relative(file)} is not TOML: {error}") from error
    names = {s.name.partition("/")[2] for s in snippets() if s.settings_file == file}
    settings, known = {}, [field.name for field in msgspec.structs.fields(Settings)]
    for name, table in tables.items():
        if name not in names:
            raise RecorderError(f"{relative(file)} has settings for {name!r}{nearest(name, names)}")
        if unknown := [key for key in table if key not in known] if isinstance(table, dict) else []:
            hint = nearest(unknown[0], known)
            raise RecorderError(f"{relative(file)}, {name}: no setting is called {unknown[0]!r}{hint}")
        try:
            for launch in _launches(table):
                check_launch(launch)
            settings[name] = msgspec.convert(table, Settings)
            _check_settings(settings[name])
        except (msgspec.ValidationError, RecorderError) as error:
            raise RecorderError(f"{relative(file)}, {name}: {error}") from error
    return settings


LAUNCH = re.compile(r"\w+\[\d+\]")


def check_launch(name) -> None:
    """Raise ``RecorderError`` unless this names a launch, by its kernel and its number among that kernel's."""
    if not isinstance(name, str) or not LAUNCH.fullmatch(name):
        raise RecorderError(f"{name!r} names no launch; it is its kernel and a number from 0, such as add_kernel[0]")


def _launches(table) -> list:
    """Return the names of launches in the settings of a snippet, as far as they have the form of settings."""
    listed = lambda key: table[key] if isinstance(table, dict) and isinstance(table.get(key), list) else []
    return [*listed("launches"), *(each["launch"] for each in listed("stages") if "launch" in each)]


def _check_settings(settings: Settings) -> None:
    if unknown := [device for device in settings.devices if device not in ("cpu", "gpu")]:
        raise RecorderError(f'there is no kind of device {unknown[0]!r}; the kinds are "cpu" and "gpu"')
    if settings.processes < 1:
        raise RecorderError(f"processes = {settings.processes} would measure nothing; it is 1 or more")
    if wrong := [version for version in settings.triton if not re.fullmatch(r"\d+(\.\d+)+", version)]:
        raise RecorderError(f"{wrong[0]!r} is no version of Triton such as '3.9.0'")


NAME = re.compile(r"[a-z_]+/[a-z][a-z0-9_]*")


def check_new_name(name: str) -> None:
    """Raise ``RecorderError`` unless a lesson can have this name, such as ``programs/saxpy``."""
    if not NAME.fullmatch(name):
        raise RecorderError(f"{name!r} is no name of a lesson, such as programs/saxpy: a chapter, and a Python name")
    short = name.partition("/")[2]
    if keyword.iskeyword(short) or keyword.issoftkeyword(short):
        raise RecorderError(f"{short!r} is a keyword of Python, and no file of this name can be imported; take another")
    if short in sys.stdlib_module_names or short in _packages():
        raise RecorderError(f"{short!r} is a package that code imports, and a file would hide it; take another name")


def _packages() -> set[str]:
    """Return the names of installed packages, of required ones and of our folders, which a file would hide."""
    pinned = (line for file in ROOT.glob("requirements*.txt") for line in file.read_text("utf-8").splitlines())
    names = (match[0].lower().replace("-", "_") for line in pinned if (match := re.match(r"[A-Za-z][\w-]*", line)))
    return {*names, *packages_distributions(), *(folder.name for folder in ROOT.iterdir() if folder.is_dir())}


class Snippet(msgspec.Struct, frozen=True, order=True):
    name: str  # "programs/vector_add"

    @property
    def path(self) -> Path:
        return ROOT / "snippets" / f"{self.name}.py"

    @property
    def recordings(self) -> Path:
        return ROOT / "recordings" / self.name

    @property
    def test(self) -> Path:
        chapter, _, name = self.name.rpartition("/")
        return ROOT / "tests" / "snippets" / chapter / f"test_{name}.py"

    @property
    def settings_file(self) -> Path:
        return ROOT / "snippets" / self.name.partition("/")[0] / SETTINGS

    @property
    def settings(self) -> Settings:
        file = self.settings_file
        if not file.is_file():
            return Settings()
        return _settings(file, file.stat().st_mtime_ns).get(self.name.partition("/")[2], Settings())

    def triton_on(self, device: str) -> str | None:
        """Return the version of Triton that it runs under on a device, or None if it is the installed one."""
        settings = self.settings
        compiled = device == "cpu" and settings.compiles_only and not settings.triton
        return COMPILER if compiled else triton_of(device)

    def interpreted_on(self, device: str) -> bool:
        """Return whether it runs in the interpreter there: under that, a kernel can't be compiled."""
        return interpreted(device) and not self.settings.compiles_only

    def compiled_on(self, device: str) -> bool:
        return device == "cpu" and bool(self.settings.compiled or self.settings.stages)

    def runs_on(self, device: str) -> bool:
        if version := triton_of(device):
            return version in self.settings.triton
        return ("cpu" if device == "cpu" else "gpu") in self.settings.devices


class Exercise(Snippet, frozen=True, order=True):
    """An exercise, such as ``practice/scale``: recorded like a snippet, by ``recorder.coach``."""

    @property
    def path(self) -> Path:
        return ROOT / "practice/exercises" / self.name.partition("/")[2]

    @property
    def settings_file(self) -> Path:
        return self.path / "spec.py"

    @property
    def settings(self) -> Settings:
        try:
            timed = Folder(self.path).timed()
        except PracticeError as error:
            raise RecorderError(f"practice/{error}") from error
        why = "without a GPU its wrong solutions are checked, on one its solution is timed"
        return Settings(devices=("cpu", "gpu") if timed else ("cpu",), differs=why)


class Lab(msgspec.Struct, frozen=True, order=True):
    name: str  # "programs/labs/vector_add_step_by_step"

    @property
    def path(self) -> Path:
        return ROOT / "snippets" / f"{self.name}.py"

    @property
    def notebook(self) -> Path:
        chapter, _, lab = self.name.partition("/labs/")
        return ROOT / "docs" / "en" / chapter / f"{lab.replace('_', '-')}.ipynb"


def _names() -> list[str]:
    folder = ROOT / "snippets"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.py"))


def snippets() -> list[Snippet]:
    return [Snippet(name) for name in _names() if _is_snippet(name)]


def exercises() -> list[Exercise]:
    specs = sorted((ROOT / "practice/exercises").glob("*/spec.py"))
    return [Exercise(f"practice/{spec.parent.name}") for spec in specs]


def recorded() -> list[Snippet]:
    """Return all that has recordings: the snippets and the exercises."""
    return [*snippets(), *exercises()]


def _is_snippet(name: str) -> bool:
    return "/labs/" not in name and not name.endswith("__init__")


def labs() -> list[Lab]:
    return [Lab(name) for name in _names() if "/labs/" in name]


def strangers() -> list[Path]:
    """Return the files in ``snippets/`` that no fingerprint covers: ``__init__.py``, and all but code and settings."""
    files = (Path(folder) / name for folder, _, names in os.walk(ROOT / "snippets") for name in names)
    known = lambda file: (file.suffix == ".py" and file.name != "__init__.py") or file.name == SETTINGS
    return sorted(file for file in files if not known(file) and "__pycache__" not in file.parts)


def find(name: str) -> Snippet:
    """Return the snippet or the exercise of this name; a snippet may also be given as a path to its file."""
    chapter, _, folder = str(name).partition("/")  # no list of all exercises: pages call this thousands of times
    if chapter == "practice" and "/" not in folder and (exercise := Exercise(str(name))).settings_file.is_file():
        return exercise
    snippet = Snippet(str(name).removeprefix("snippets/").removesuffix(".py"))
    if not snippet.path.is_file() or not _is_snippet(snippet.name):
        known = [each.name for each in recorded()]
        raise RecorderError(f"there is no snippet {snippet.name!r}{nearest(snippet.name, known)}")
    return snippet


def snippet_of_page(page: str) -> str:
    """Return the name of a page's own snippet: ``programs/vector_add`` for ``programs/vector-add.md``."""
    return page.removesuffix(".md").replace("-", "_")


def how_to_record(name: str, device: str) -> str:
    """Return the command that makes a recording again."""
    if triton_of(device):
        return f"python -m recorder run {name} --device {device}"
    where = "" if interpreted(device) else f"  (on a machine with this GPU: {device})"
    return f"python -m recorder run {name}{where}"


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the existing names most like the wrong one, or all of them."""
    known = [str(name) for name in known]
    close = difflib.get_close_matches(str(wrong), known, n=3, cutoff=0.5) or known[:12]
    return f"; the nearest that exist: {', '.join(close)}" if close else "; none exist yet"
