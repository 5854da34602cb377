# SPDX-License-Identifier: Apache-2.0
"""Define what a recording holds, as types with units; read and write recordings, which no other code does.

A recording is one JSON file for each snippet and device, ``recordings/<chapter>/<name>/<device>.json``, with one row a
line. It carries the fingerprint of the code that it was made from and a digest of
itself, so that code that changed and a recording that was edited by hand both show. Files are replaced whole or not at
all.
"""

import hashlib
import json
import os
import statistics
import tempfile
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from recorder.project import RecorderError, Snippet, check_launch, how_to_record, inside, nearest, relative

VERSION = 2  # of this file's types; the first version had none, and kept everything that a run did
STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")  # in the order of compilation


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a recording. The file leaves out fields with their default value."""


class Provenance(Part):
    """Where, when and from what a recording was made."""

    device: str  # as its maker calls it, such as "NVIDIA H200", or "CPU, Triton's interpreter"
    python: str  # versions
    torch: str
    triton: str
    numpy: str
    date: str  # YYYY-MM-DD
    command: str  # what a reader types to repeat the run
    fingerprint: str  # SHA-256 (hexadecimal) of what ran; see fingerprint.py
    seconds: float | None = None  # how long the recording took, benchmarks and compiling included
    compiler: str | None = None  # the version of Triton that made `compiled`, if anything did
    processor: str | None = None  # of the host
    driver: str | None = None  # this and the rest: of a GPU
    runtime: str | None = None  # such as "CUDA 13.0"
    gpu: str | None = None  # its UUID
    multiprocessors: int | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    libraries: dict[str, str] = {}  # what was compared with, and its version: {"cuBLAS": "13.0.2"}


class Access(Part):
    """A load or a store of one program, recorded in the interpreter."""

    pid: tuple[int, int, int]
    op: str  # "load" or "store"
    tensor: str  # the name of the kernel's argument that the lanes point into
    shape: list[int]  # of the block
    offsets: list[int]  # of each lane, in elements from the tensor's first
    mask: list[bool]  # of each lane: whether it is on


class Launch(Part):
    """A launch that a page draws or names."""

    kernel: str
    file: str  # from the root of the project
    grid: tuple[int, int, int]
    arguments: dict[str, Any]  # numbers as they are; a tensor as its dtype, shape, strides, alignment in bytes
    constexprs: list[str] = []  # the names of arguments that are constants to the compiler
    options: dict[str, Any] = {}  # such as num_warps
    accesses: list[Access] | None = None  # None for a large launch, and on a GPU


class Line(Part, array_like=True):
    """A line of a compiler stage and where its source stands; see ``source.Place``."""

    text: str
    place: int | str | None


class Code(Part):
    """The result of compiling a launch for one target."""

    registers: int = 0  # of 32 bits, for each thread
    spills: int = 0  # values of 4 bytes, for each thread
    shared: int = 0  # bytes of shared memory, for each program
    num_warps: int = 0
    digests: dict[str, str] = {}  # of every stage's text, by which `check --replay` notices a change
    stages: dict[str, list[Line]] = {}  # those that the snippet's settings declare
    error: str = ""  # the compiler's, if it refused

    def text(self, stage: str) -> str:
        return "\n".join(line.text for line in self.stages[stage])


class Compiled(Part):
    """The code that some launches share, by target: ``sm_90``, ``gfx942``."""

    launches: list[str]  # their names
    kernel: str
    file: str
    targets: dict[str, Code]


class Reading(Part):
    """A row of a benchmark."""

    x: list[int | float | str]  # a value for each of the benchmark's x names
    y: dict[str, list[float]]  # by line, in the benchmark's unit: the median, or the median, least and most
    process: int | None = None  # which process it was read in, counted from 0, where there were several
    gpu: str | None = None  # the UUID, where several were read


class Median(float):
    """The median of a line's measurements at one x, with ``least`` and ``most`` of them; all three may be the same."""

    def __new__(cls, measured: list[float]):
        median = super().__new__(cls, measured[0])
        median.least, median.most = measured[1:] or measured * 2
        return median


class Row(SimpleNamespace):
    """The measurements at one x: ``row.line``, or ``row["2**20"]`` if a line's key is no name."""

    def __getitem__(self, line: str):
        return vars(self)[line]


class Benchmark(Part, dict=True):  # which `cached_property` needs
    """A table, as Triton's ``perf_report`` describes it."""

    name: str
    x: list[str]  # the names of what varies from row to row
    xlabel: str
    ylabel: str  # with the unit
    lines: dict[str, str]  # what was measured: a key, and what a page calls it
    rows: list[Reading]
    doc: str = ""  # the docstring of the function that measured
    x_log: bool = False
    y_log: bool = False

    def readings(self) -> list[Reading]:
        """Return a row for each x; for several processes, the median of their medians, and the least and most."""
        alike = {}
        for row in self.rows:
            alike.setdefault(tuple(row.x), []).append(row)
        return [rows[0] if len(rows) == 1 else _joined(rows) for rows in alike.values()]

    def medians(self) -> dict[Any, Row]:
        """Return ``{x: row, …}``; ``row.line`` is a :class:`Median`, and x is a tuple if it has several parts."""
        return dict(self._medians)

    @cached_property
    def _medians(self) -> dict[Any, Row]:
        rows = {}
        for reading in self.readings():
            values = dict(zip(self.x, reading.x, strict=True)) | {k: Median(v) for k, v in reading.y.items()}
            rows[tuple(reading.x) if len(reading.x) > 1 else reading.x[0]] = Row(**values)
        return rows

    def by_process(self) -> list["Benchmark"]:
        """Return the same table as each process measured it."""
        numbers = dict.fromkeys(row.process for row in self.rows)
        rows = ([row for row in self.rows if row.process == number] for number in numbers)
        return [msgspec.structs.replace(self, rows=each) for each in rows]


def _joined(rows: list[Reading]) -> Reading:
    """Return the rows of several processes for one x as one row."""
    y = {}
    for line in rows[0].y:
        medians = [Median(row.y[line]) for row in rows]
        ends = min(each.least for each in medians), max(each.most for each in medians)
        counted = all(row.y[line] == [ends[0]] for row in rows)  # the same in all, and no range in any
        y[line] = [ends[0]] if counted else [float(statistics.median(medians)), *ends]
    return Reading(x=rows[0].x, y=y)


class Sample(Part):
    """A number, or the first rows and columns of a tensor, of an exercise's smallest case."""

    name: str  # of the argument; "result", "gradient of x"
    comes_in: bool
    rows: list[list[str]]
    shape: list[int] = []
    dtype: str = ""  # of a tensor


class Coached(Part):
    """The coach's answers to an exercise's wrong solutions."""

    caught: dict[str, str]  # by wrong solution, the check that caught it: a key of ``coach.finding.STAGES``
    shown: str = ""  # the one to which `output` is the answer; none on a GPU
    launch: dict[str, Any] | None = None  # what its picture shows
    example: list[Sample] = []  # what comes in, and what has to come out


class Recording(Part):
    snippet: str  # "programs/vector_add"
    device: str  # as its file is called: "cpu", "cpu-triton-3.9.0", "h200"
    provenance: Provenance
    output: str  # standard output
    benchmarks: list[Benchmark] = []
    pictures: dict[str, str] = {}  # files that the snippet wrote, by name, in base64
    launched: dict[str, int] = {}  # how often each kernel was launched
    launches: dict[str, Launch] = {}  # by name, such as "add_kernel[0]": those that the snippet's settings declare
    compiled: list[Compiled] = []
    coached: Coached | None = None  # of an exercise

    def benchmark(self, name: str, *lines: str) -> Benchmark:
        """Return the benchmark of a name. Raise ``RecorderError`` if it or one of these lines does not exist."""
        tables = {table.name: table for table in self.benchmarks}
        if name not in tables:
            raise RecorderError(f"there is no benchmark {name!r}{nearest(name, tables)}")
        if missing := [line for line in lines if line not in tables[name].lines]:
            raise RecorderError(f"{name!r} has no line {missing[0]!r}{nearest(missing[0], tables[name].lines)}")
        return tables[name]

    def launch(self, name: str | None = None) -> Launch:
        """Return a launch by its name; without one, the only launch that is kept. Raise ``RecorderError``."""
        name = _name(name, self.launches)
        if name in self.launches:
            return self.launches[name]
        kernel, _, number = name.removesuffix("]").partition("[")
        if int(number) >= (times := self.launched.get(kernel, 0)):
            launched = f"{kernel} {times} times" if times else ", ".join(self.launched) or "nothing"
            raise RecorderError(f"there is no launch {name}; the run launched {launched}")
        raise RecorderError(
            f"launch {name} was counted, not kept; the recording keeps {', '.join(self.launches) or 'none'}: "
            f"add it to `launches` of {Snippet(self.snippet).name} in {relative(Snippet(self.snippet).settings_file)}"
        )

    def traced(self, name: str | None = None) -> Launch:
        """Return a launch whose accesses were written down. Raise ``RecorderError``."""
        launch = self.launch(name := _name(name, self.launches))
        if not launch.accesses:
            raise RecorderError(
                f"the accesses of launch {name} were not written down; only small ones in the interpreter are"
            )
        return launch

    def code(self, launch: str | None, target: str) -> Code:
        """Return what became of a launch for a target. Raise ``RecorderError``."""
        entry = self.compiled_from(launch)
        if target not in entry.targets:
            raise RecorderError(f"there is no target {target!r}{nearest(target, entry.targets)}")
        return entry.targets[target]

    def compiled_from(self, launch: str | None = None) -> Compiled:
        """Return what a launch shares with those that compile to the same code; without a name, that of the only one.

        Raise ``RecorderError``.
        """
        known = [name for entry in self.compiled for name in entry.launches]
        launch = _name(launch, known)
        if launch not in known:
            raise RecorderError(f"there is no compiled launch {launch}{nearest(launch, known)}")
        return next(entry for entry in self.compiled if launch in entry.launches)

    def stage(self, launch: str | None, target: str, name: str) -> list[Line]:
        """Return the lines of one compiler stage of a launch. Raise ``RecorderError`` if it is not kept."""
        code = self.code(launch, target)
        launch = launch or self.compiled_from(launch).launches[0]
        if name in code.stages:
            return code.stages[name]
        if name in code.digests:
            raise RecorderError(
                f"stage {name!r} of launch {launch} for {target} was compared, not kept: add it to `stages` of "
                f"{self.snippet} in {relative(Snippet(self.snippet).settings_file)}"
            )
        raise RecorderError(f"there is no stage {name!r} for {target}{nearest(name, code.digests)}")


def _name(launch: str | None, known: Iterable[str]) -> str:
    """Return the name of a launch, which may be left out if there is only one. Raise ``RecorderError``."""
    if launch is None and len(names := [*known]) == 1:
        return names[0]
    if launch is None:
        raise RecorderError(f"which launch is meant? `launch` can be {', '.join(names) or 'none: there is none'}")
    try:
        check_launch(launch)
    except RecorderError as error:
        raise RecorderError(f"{error}; here: {', '.join(known) or 'none'}") from error
    return launch


# ---- Files ----


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


def devices(snippet: Snippet) -> list[str]:
    """Return the devices for which a recording of the snippet exists."""
    return sorted(path.stem for path in snippet.recordings.glob("*.json"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(plain: dict) -> str:
    return sha256(json.dumps({k: v for k, v in plain.items() if k != "digest"}))  # in its order, which figures show


def spell(value, indent: str = "") -> str:
    """Return JSON with a row a line: short values, and lists of numbers of any length, stand on one line."""
    short = json.dumps(value, ensure_ascii=False)
    rows = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict | list | str) for v in value))
    if not rows or len(short) + len(indent) <= 118:
        return short
    inner = indent + " "
    if isinstance(value, dict):
        parts = (f"{json.dumps(key, ensure_ascii=False)}: {spell(part, inner)}" for key, part in value.items())
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + spell(part, inner) for part in value) + f"\n{indent}]"


def save(recording: Recording) -> None:
    """Write a recording."""
    plain = {"version": VERSION, **msgspec.to_builtins(recording)}
    plain["output"] = plain["output"].split("\n")  # a line a row
    text = spell({**plain, "digest": _digest(plain)}) + "\n"
    write_atomically(path_of(Snippet(recording.snippet), recording.device), text)


def load(snippet: Snippet, device: str) -> Recording:
    """Read a recording. Raise ``RecorderError`` if it is missing, older than this code, or broken."""
    return _load(snippet, device)[0]


def as_written(snippet: Snippet, device: str) -> bool:
    """Return whether a recording is as the recorder wrote it."""
    return _load(snippet, device)[1]


def _load(snippet: Snippet, device: str) -> tuple[Recording, bool]:
    path = path_of(snippet, device)
    command = how_to_record(snippet.name, device)
    if not path.is_file():
        raise RecorderError(f"there is no recording {relative(path)}; make it with: {command}")
    return _read(path, path.stat().st_mtime_ns, command)


@lru_cache(maxsize=1024)
def _read(path: Path, modified: int, repair: str) -> tuple[Recording, bool]:
    try:
        plain = json.loads(inside(path).read_text("utf-8"))
        if not isinstance(plain, dict):
            raise ValueError("it holds no recording")
        version = plain.pop("version", 1)
        if version != VERSION:
            raise RecorderError(
                f"{relative(path)} is of version {version}, and this recorder reads {VERSION}; fix: {repair}"
            )
        written = plain.pop("digest", None)
        sound = written == _digest({"version": VERSION, **plain})
        plain["output"] = "\n".join(plain["output"])
        return msgspec.convert(plain, Recording), sound
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RecorderError(f"{relative(path)} is not a whole recording ({error}); restore it with git") from error
