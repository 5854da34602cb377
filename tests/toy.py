# SPDX-License-Identifier: Apache-2.0
"""A project of one small snippet with recordings made up for the tests, so that none depends on a lesson.

Its figures have little to draw: small launches on 4 SMs, kernels under three ceilings, two levels of memory.
"""

import itertools
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from recorder import fingerprint, recording
from recorder import project as places
from recorder.project import Snippet, interpreted
from recorder.recording import Access, Benchmark, Code, Compiled, Launch, Line, Provenance, Reading, Recording, sha256
from tests.limits import HANGS

ROOT = Path(__file__).resolve().parent.parent
runs_snippets = pytest.mark.skipif(find_spec("triton") is None, reason="snippets run where Triton is installed")

TOY = '''\
# SPDX-License-Identifier: Apache-2.0
"""A toy."""


# --8<-- [start:kernel]
@triton.jit
def toy_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Loads."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # a block
    tl.load(x_ptr + offsets, mask=offsets < n)
# --8<-- [end:kernel]
'''
LOAD = 3  # the place of its line 10, `tl.load`
SETTINGS = f"[toy]\nlaunches = {[f'toy_kernel[{n}]' for n in range(4)]}\nstages = [{{launch = 'toy_kernel[0]'}}]\n"
OUTPUT = (
    "patch: 1,2,3 250,255,6 7,8,9\nsum: 1,024\nratio = 0.5\n<b>bold</b>\nlist [1, 2]\n"
    "## Rows\n  a `row`\n    ran: <b>right\n"
    "## Tiles of scores\nscores: 1 3\nvalues: 1 2\nafter 1, maximum: 1\nafter 1, sum: 1.0\nafter 1, accumulator: 1.0\n"
    "after 2, maximum: 3\nafter 2, sum: 1.1353\nafter 2, accumulator: 2.1353\n"
)
TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
%0 = tt.load %1 : tensor<4x!tt.ptr<f32>, #blocked>
"""
ASM = "ld.global.b32 %r1;\n// </script><b>&amp;\nret;"

SMS = 4
LAUNCHES = {  # of each program: SM, begin, end
    "schedule_few": [(0, 0.0, 100.0), (2, 1.0, 100.0)],
    "schedule_one_more": [(0, 0.0, 100.0), (2, 1.0, 99.0), (1, 1.0, 100.0), (3, 1.0, 101.0), (2, 100.0, 200.0)],
    "schedule_shared": [(sm, 0.0, 50.0 + sm) for sm in (0, 1, 0, 1)] + [(0, 50.0, 125.5)],
}
CEILINGS = {"copy": 4000.0, "fp32": 50.0, "bf16": 800.0}
KERNELS = [  # name, unit, GFLOP, GB, ms
    ("add <small>", "fp32", 4e-6, 4.8e-5, 0.0045),
    ("add", "fp32", 0.1, 1.2, 0.3),
    ("powers", "fp32", 16.0, 1.0, 0.4),
    ("product", "bf16", 1100.0, 0.4, 1.5),
]


def _table(name: str, x: list[str], lines: list[str], rows: list[tuple]) -> Benchmark:
    readings = [
        Reading(x=list(row[: len(x)]), y={k: [float(v)] for k, v in zip(lines, row[len(x) :], strict=True)})
        for row in rows
    ]
    labels, doc = {line: line for line in lines}, f"Made up: {name}.\n\nMore of it."
    return Benchmark(name=name, x=x, xlabel=x[0], ylabel="µs", lines=labels, rows=readings, doc=doc)


def schedules() -> list[Benchmark]:
    return [
        _table(name, ["program"], ["sm", "begin", "end"], [(i, *program) for i, program in enumerate(programs)])
        for name, programs in LAUNCHES.items()
    ]


def ladders() -> list[Benchmark]:
    levels = [("L1", 2**18, 20.0, 30_000.0), ("HBM", 140 * 2**30, 500.0, 4_200.0)]
    return [_table("ladder", ["level"], ["holds", "answers", "delivers"], levels)]


def rooflines() -> list[Benchmark]:
    return [
        _table("ceilings", ["ceiling"], ["rate"], list(CEILINGS.items())),
        _table("roofline", ["kernel", "unit"], ["gflop", "gbyte", "ms"], KERNELS),
    ]


def timelines() -> list[Benchmark]:
    edges = ["host_begin", "host_end", "kernel_begin", "kernel_end"]
    return [_table("timeline", ["call"], edges, [(1, 0.0, 10.0, 20.0, 30.0)])]


def bandwidths() -> list[Benchmark]:
    """One with a logarithmic x and a band from least to most, and one with two x names."""
    lines = {"triton": "toy (Triton)", "copy": 'a <copy> & "more"'}
    rows = [
        Reading(x=[2**k], y={"triton": [k / 2, k / 3, k * 1.0], "copy": [k * 1.0, k - 1.0, k + 1.0]}) for k in (10, 20)
    ]
    told = {"xlabel": "elements", "ylabel": "GB/s", "lines": lines, "x_log": True}
    square = [Reading(x=[2, 3], y={"triton": [7.0], "copy": [8.0]})]
    return [
        Benchmark(name="bandwidth", x=["n"], rows=rows, **told),
        Benchmark(name="square", x=["m", "n"], rows=square, **told),
    ]


def product(group: int, m: int = 4, n: int = 3, k: int = 2, block: int = 2) -> Launch:
    """A launch that multiplies m by k tiles by k by n tiles, its accesses in groups of rows of tiles."""
    tiles = [(i, j) for first in range(0, m, group) for j in range(n) for i in range(first, min(first + group, m))]
    size, accesses = {"M": m * block, "N": n * block, "K": k * block}, []

    def touch(pid, op, name, row, column, width):
        offsets = [(row * block + r) * width + column * block + c for r in range(block) for c in range(block)]
        accesses.append(
            Access(pid=(pid, 0, 0), op=op, tensor=name, shape=[block] * 2, offsets=offsets, mask=[True] * block**2)
        )

    for pid, (i, j) in enumerate(tiles):
        for step in range(k):
            touch(pid, "load", "a_ptr", i, step, size["K"])
            touch(pid, "load", "b_ptr", step, j, size["N"])
        touch(pid, "store", "c_ptr", i, j, size["N"])
    tensors = {
        f"{name}_ptr": {"dtype": "float32", "shape": [size[a], size[b]], "strides": [size[b], 1], "alignment": 16}
        for name, a, b in (("a", "M", "K"), ("b", "K", "N"), ("c", "M", "N"))
    }
    blocks = {f"BLOCK_{axis}": block for axis in "MNK"}
    return launch(
        grid=(m * n, 1, 1),
        arguments={**tensors, **size, **blocks, "GROUP_M": group},
        constexprs=[*blocks, "GROUP_M"],
        accesses=accesses,
    )


def launch(**changes) -> Launch:
    """One program of the toy's kernel, which loads 3 of 4 elements, with some parts changed."""
    load = Access(
        pid=(0, 0, 0), op="load", tensor="x_ptr", shape=[4], offsets=[0, 1, 2, 3], mask=[True, True, True, False]
    )
    x = {"dtype": "float32", "shape": [3], "strides": [1], "alignment": 16}
    usual = {"grid": (1, 1, 1), "arguments": {"x_ptr": x, "n": 3, "BLOCK": 4}, "constexprs": ["BLOCK"]}
    where = {"kernel": "toy_kernel", "file": "snippets/programs/toy.py"}
    return Launch(**where, **{**usual, "accesses": [load], **changes})


def compiled() -> list[Compiled]:
    """What became of launch 0, for each target, with ``llir`` compared but not kept; and of launch 1, which failed."""
    places_of = {"ttir": ("tt.load", [LOAD]), "ttgir": (TTGIR, [None, LOAD, None]), "ptx": (ASM, [LOAD, None, None])}
    stages = {
        stage: [Line(*line) for line in zip(text.split("\n"), places, strict=True)]
        for stage, (text, places) in places_of.items()
    }
    digests = {stage: sha256(stage)[:16] for stage in (*stages, "llir")}
    good = Code(registers=8, num_warps=4, stages=stages, digests=digests)
    where = {"kernel": "toy_kernel", "file": "snippets/programs/toy.py"}
    return [
        Compiled(
            launches=["toy_kernel[0]"], targets=dict.fromkeys(("sm_80", "sm_90", "sm_100", "gfx942"), good), **where
        ),
        Compiled(launches=["toy_kernel[1]"], targets={"sm_90": Code(error="CompilationError: <three>")}, **where),
    ]


def made(device: str) -> Recording:
    """A recording of the toy, with one of everything; its launch 4 was counted, not kept."""
    versions = {"python": "3.11.7", "torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6", "date": "2026-01-02"}
    ran = {"command": "python snippets/programs/toy.py", "fingerprint": ""}
    usual = {
        "snippet": "programs/toy", "device": device, "output": OUTPUT, "pictures": {"dot.png": "iVBORw0KGgo="},
        "launched": {"toy_kernel": 5},
    }  # fmt: skip
    if not interpreted(device):
        where = Provenance(device="NVIDIA H200", multiprocessors=SMS, **versions, **ran)
        tables = [*bandwidths(), *timelines(), *schedules(), *rooflines(), *ladders()]
        return Recording(provenance=where, benchmarks=tables, **usual)
    where = Provenance(device="CPU, Triton's interpreter", compiler="3.9.0", **versions, **ran)
    kept = [launch(), launch(arguments={}, constexprs=[], accesses=None), product(1), product(2)]
    launches = {f"toy_kernel[{number}]": each for number, each in enumerate(kept)}
    return Recording(provenance=where, launches=launches, compiled=compiled(), **usual)


class Project:
    """A project in a folder of its own."""

    _moments = itertools.count(1_700_000_000)

    def __init__(self, root: Path):
        self.root = root

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        self.touch(file)
        return file

    def touch(self, file: Path) -> None:
        """Give a file a time of its own: the clock of files is coarse, and what was read is kept by it."""
        moment = next(self._moments)
        os.utime(file, (moment, moment))

    def snippet(self, name: str, text: str, settings: str | None = None) -> Snippet:
        """Write a snippet, with a test; and the settings of its chapter, if given."""
        self.write(f"snippets/programs/{name}.py", text)
        self.write(f"tests/snippets/programs/test_{name}.py", "def test_it(): pass\n")
        if settings is not None:
            self.write("snippets/programs/recorder.toml", settings)
        return Snippet(f"programs/{name}")

    def record(self, device: str, **changes) -> Recording:
        """Write the recording of the toy, fresh, with some parts changed."""
        toy, new = Snippet("programs/toy"), msgspec.structs.replace(made(device), **changes)
        now = msgspec.structs.replace(new.provenance, fingerprint=fingerprint.of(toy, device, new))
        new = msgspec.structs.replace(new, provenance=now)
        recording.save(new)
        self.touch(recording.path_of(toy, device))
        return new

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", "PYTHONPATH")}
        # What is installed may be another checkout: the project's folder first, then the recorder of this one.
        return kept | {"PYTHONPATH": f"{self.root}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}

    def recorder(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        """``python -m recorder …`` in this project."""
        return subprocess.run(
            [sys.executable, "-m", "recorder", *arguments],
            cwd=self.root, env=self.environment(), capture_output=True, text=True, timeout=HANGS, **options,
        )  # fmt: skip

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        command = [sys.executable, "-m", "recorder", *arguments]
        return subprocess.Popen(command, cwd=self.root, env=self.environment(), **options)

    def files(self) -> dict[str, bytes]:
        """Everything in recordings/, also what is hidden."""
        paths = (path for path in (self.root / "recordings").rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}


def _move(old: Path, new: Path) -> None:
    """Have our modules take another folder for the project: all that know of one, also those imported since."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("recorder", "figures", "render") and getattr(module, "ROOT", None) == old:
            module.ROOT = new


@pytest.fixture
def project(tmp_path):
    """An empty project, which everything of ours in this process takes for its own."""
    empty, here = Project(tmp_path), places.ROOT
    empty.write("mkdocs.yml", "site_name: A toy\n")
    empty.write("pyproject.toml", "")
    empty.write("requirements.txt", "torch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\n")
    (tmp_path / "snippets").mkdir()
    (tmp_path / "theme/assets").mkdir(parents=True)
    shutil.copy(ROOT / "theme/assets/tokens.css", tmp_path / "theme/assets/tokens.css")
    _move(here, tmp_path)
    yield empty
    _move(tmp_path, here)


@pytest.fixture
def toy(project) -> Project:
    """A project with one snippet, recorded on two devices."""
    project.snippet("toy", TOY, SETTINGS)
    project.record("cpu")
    project.record("h200")
    return project
