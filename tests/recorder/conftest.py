# SPDX-License-Identifier: Apache-2.0
"""A project of one small snippet with recordings made up for the tests, so that none depends on a lesson."""

import importlib
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from recorder import recording
from recorder.project import Snippet
from tests import made_up

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("project", "fingerprint", "recording", "runner", "markdown", "views", "chart", "lab")
TRITON = ("observe", "stages")  # importing these takes torch and Triton

TOY = '''\
# SPDX-License-Identifier: Apache-2.0
"""A toy."""


# --8<-- [start:kernel]
@triton.jit
def toy_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Loads."""
    offsets = tl.arange(0, BLOCK)  # a block
    tl.load(x_ptr + offsets, mask=offsets < n)
# --8<-- [end:kernel]
'''
TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
%0 = tt.load %1 : tensor<4x!tt.ptr<f32>, #blocked>
"""
ASM = "ld.global.b32 %r1;\n// </script><b>&amp;\nret;"


def stage(text, lines):
    return {"text": text, "lines": lines}


def made(device: str) -> dict:
    """A recording of the toy, with one of everything."""
    where = {"cpu": "CPU, Triton's interpreter", "h200": "NVIDIA H200"}[device]
    code = {"registers": 8, "spills": 0, "shared": 0, "num_warps": 4}
    stages = {"ttir": stage("tt.load", [10]), "ttgir": stage(TTGIR, [0, 10]), "ptx": stage(ASM, [10, 0, 0])}
    good = {**code, "stages": stages}
    bandwidth = {
        "name": "bandwidth", "doc": "", "x": ["n"], "xlabel": "elements", "ylabel": "GB/s",
        "x_log": True, "y_log": False,
        "lines": {"triton": "toy (Triton)", "copy": "a <copy> & \"more\""},
        "rows": [{"n": 2**k, "triton": [k / 2, k / 3, k * 1.0], "copy": [k * 1.0, k - 1.0, k + 1.0]} for k in (10, 20)],
    }  # fmt: skip
    two = {**bandwidth, "name": "square", "x": ["m", "n"], "rows": [{"m": 2, "n": 3, "triton": [7.0], "copy": [8.0]}]}
    edges = {line: line for line in ("host_begin", "host_end", "kernel_begin", "kernel_end")}
    row = {"call": 1, **{line: [10.0 * i] for i, line in enumerate(edges)}}
    others = [*made_up.schedules(), *made_up.rooflines(), *made_up.ladders()]
    timeline = {**bandwidth, "name": "timeline", "x": ["call"], "x_log": False, "lines": edges, "rows": [row]}
    return {
        "snippet": "programs/toy",
        "device": device,
        "provenance": {
            "device": where, "python": "3.11.7", "torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6",
            "date": "2026-01-02", "command": "python snippets/programs/toy.py", "fingerprint": "",
        },
        "pictures": {"dot.png": "iVBORw0KGgo="},
        "output": (
            "patch: 1,2,3 250,255,6 7,8,9\nsum: 1,024\nratio = 0.5\n<b>bold</b>\nlist [1, 2]\n"
            "## Rows\n  a `row`\n    ran: <b>right\n"
        ),
        "benchmarks": [bandwidth, two, timeline, *others] if device == "h200" else [],
        "launches": [{
            "kernel": "toy_kernel", "file": "snippets/programs/toy.py", "line": 6, "grid": [1, 1, 1],
            "arguments": {
                "x_ptr": {"dtype": "float32", "shape": [3], "strides": [1], "alignment": 16}, "n": 3, "BLOCK": 4,
            },
            "constexprs": ["BLOCK"], "options": {},
            "accesses": [{
                "pid": [0, 0, 0], "op": "load", "tensor": "x_ptr", "line": 10, "shape": [4],
                "offsets": [0, 1, 2, 3], "mask": [True, True, True, False],
            }] if device == "cpu" else None,
        }, {
            "kernel": "toy_kernel", "file": "snippets/programs/toy.py", "line": 6, "grid": [1, 1, 1],
            "arguments": {}, "constexprs": [], "options": {}, "accesses": None,
        }, *([made_up.product(1), made_up.product(2)] if device == "cpu" else [])],
        "compiled": [
            {"launches": [0], "alike": {}, "targets": {t: good for t in ("sm_80", "sm_90", "sm_100", "gfx942")}},
            {"launches": [1], "alike": {}, "targets": {"sm_90": {"error": "CompilationError: <three>"}}},
        ] if device == "cpu" else [],
        "source": {"snippets/programs/toy.py": TOY},
    }  # fmt: skip


@cache
def charts(device: str) -> dict[str, str]:
    from recorder import runner

    return runner.draw_charts(made(device)) if find_spec("matplotlib") else {}


class Project:
    def __init__(self, root: Path):
        self.root = root

    def write(self, path: str, text: str) -> Path:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")
        return self.root / path

    def snippet(self, name: str, text: str) -> Snippet:
        self.write(f"snippets/programs/{name}.py", text)
        return Snippet(f"programs/{name}")

    def record(self, device: str, **changes) -> None:
        """Write the recording of the toy, fresh, with some parts changed."""
        from recorder import fingerprint

        toy, new = Snippet("programs/toy"), {**made(device), **changes}
        new["provenance"] = {**new["provenance"], "fingerprint": fingerprint.of(toy.path, device)}
        recording.save(toy, device, new, charts(device))

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", "PYTHONPATH")}
        # What is installed may be another checkout: the project's folder first, then the recorder of this one.
        return kept | {"PYTHONPATH": f"{self.root}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}

    def recorder(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        """``python -m recorder …`` in this project."""
        return subprocess.run(
            [sys.executable, "-m", "recorder", *arguments],
            cwd=self.root, env=self.environment(), capture_output=True, text=True, timeout=100, **options,
        )  # fmt: skip

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        command = [sys.executable, "-m", "recorder", *arguments]
        return subprocess.Popen(command, cwd=self.root, env=self.environment(), **options)

    def files(self) -> dict[str, bytes]:
        """Everything in recordings/, also what is hidden."""
        paths = (path for path in (self.root / "recordings").rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    """An empty project, which the recorder in this process takes for its own."""
    for name in MODULES + (TRITON if find_spec("triton") else ()):
        module = importlib.import_module(f"recorder.{name}")
        if hasattr(module, "ROOT"):
            monkeypatch.setattr(module, "ROOT", tmp_path)
    empty = Project(tmp_path)
    empty.write("mkdocs.yml", "site_name: A toy\n")
    empty.write("pyproject.toml", "")
    empty.write("requirements.txt", "torch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\n")
    (tmp_path / "snippets").mkdir()
    (tmp_path / "theme/assets").mkdir(parents=True)
    shutil.copy(ROOT / "theme/assets/tokens.css", tmp_path / "theme/assets/tokens.css")
    return empty


@pytest.fixture
def toy(project) -> Project:
    """A project with one snippet, recorded on two devices."""
    project.snippet("toy", TOY)
    project.record("cpu")
    project.record("h200")
    return project
