# SPDX-License-Identifier: Apache-2.0
"""Runs that go well, fail, hang, are interrupted or overtaken: old recordings stay whole."""

import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from recorder import recording, runner
from recorder.project import RecorderError, Snippet
from tests.recorder.conftest import made

runs_snippets = pytest.mark.skipif(find_spec("triton") is None, reason="snippets run where Triton is installed")


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


# One process. What it runs here is a module of the project, which starts faster than a snippet.


def run(project, text, seconds=60.0, interpret=False, progress=lambda text: None):
    project.write("job.py", text)
    folder = project.root / "work"
    folder.mkdir(exist_ok=True)
    environment = {"TRITON_INTERPRET": "1"} if interpret else {}
    runner._run(["job", "a", "b"], environment, str(folder), time.monotonic() + seconds, progress)


def test_the_surroundings_of_a_run(project, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    text = "import json, os, sys; json.dump([sys.argv[1:], os.getcwd(), dict(os.environ)], open('seen.json', 'w'))\n"
    for interpret in (True, False):
        run(project, text, interpret=interpret)
        arguments, folder, environment = json.loads((project.root / "seen.json").read_text())
        assert arguments == ["a", "b"] and folder == str(project.root)
        assert environment.get("TRITON_INTERPRET") == ("1" if interpret else None)
        assert environment["PYTHONPATH"] == str(project.root)
        assert environment["TRITON_CACHE_DIR"] == str(project.root / "work/cache")


def test_the_last_line_is_the_progress(project):
    seen = []
    run(project, "import time\nprint('one'); print('two', flush=True); time.sleep(0.5)\n", progress=seen.append)
    assert "two" in seen and not any("\n" in text for text in seen)


def test_a_crash_says_how_it_ended(project):
    with pytest.raises(RecorderError, match=r"(?s)exit status 1.*line 2.*ZeroDivisionError"):
        run(project, "print('begun')\n1 / 0\n")


def test_the_time_limit_stops_everything_that_was_started(project):
    """Also a child that outlives its parent's terminal and ignores a polite request."""
    text = """\
import os, signal, subprocess, sys, time
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
open("pids.tmp", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.tmp", "pids")
time.sleep(99)
"""
    start = time.monotonic()
    with pytest.raises(RecorderError, match="time limit"):
        run(project, text, seconds=1.5)
    assert time.monotonic() - start < 5
    pids = [int(pid) for pid in (project.root / "pids").read_text().split()]
    assert len(pids) == 2 and all(map(gone, pids))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_stops_everything_too(project, error):
    text = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(99)\n"
    seen = []

    def interrupt(text):
        if text:
            seen.append(int(text))
            raise error

    with pytest.raises(error):
        run(project, text, progress=interrupt)
    assert gone(seen[0])


# Recording a snippet


@runs_snippets
def test_a_snippet_that_edits_itself_is_not_recorded(project):
    text = "from pathlib import Path\nPath(__file__).write_text(Path(__file__).read_text() + 'print(2)\\n')\nprint(1)\n"
    snippet = project.snippet("restless", text)
    with pytest.raises(RecorderError, match=r"snippets/programs/restless\.py was edited while it ran"):
        runner.update(snippet, "cpu")
    assert project.files() == {}


def recorded(monkeypatch, **changes):
    """Let ``runner.record`` return a recording, without running anything."""
    from recorder import fingerprint

    def record(snippet, device, **options):
        new = {**made(device), "benchmarks": [], **changes}
        new["provenance"] = {**new["provenance"], "fingerprint": fingerprint.of(snippet.path, device)}
        return new

    monkeypatch.setattr(runner, "record", record)


def test_the_same_content_keeps_the_old_file_with_its_date(toy, monkeypatch):
    before = toy.files()
    recorded(monkeypatch, provenance={**made("cpu")["provenance"], "date": "2026-12-31"})
    assert runner.update(Snippet("programs/toy"), "cpu") is False
    assert toy.files() == before


@pytest.mark.parametrize("part", ["output", "launches", "compiled", "provenance"])
def test_other_content_is_written(toy, monkeypatch, part):
    changes = {"output": "other\n", "launches": [], "compiled": []}
    changes["provenance"] = {**made("cpu")["provenance"], "triton": "3.8.0"}
    recorded(monkeypatch, **{part: changes[part]})
    assert runner.update(Snippet("programs/toy"), "cpu") is True
    new = recording.load(Snippet("programs/toy"), "cpu")
    assert new[part] == changes[part] or new[part]["triton"] == "3.8.0"
    assert recording.digest(new) == new["digest"]


def test_the_same_content_mends_a_file_that_was_edited(toy, monkeypatch):
    path = toy.root / "recordings/programs/toy/cpu.json"
    before = path.read_bytes()
    path.write_text(path.read_text("utf-8").replace('"digest": "', '"digest": "0'), "utf-8")
    recorded(monkeypatch)
    assert runner.update(Snippet("programs/toy"), "cpu") is True
    assert path.read_bytes() == before and recording.all_problems() == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_while_writing_leaves_the_old_recording(toy, monkeypatch, failing):
    before = toy.files()
    recorded(monkeypatch, output="other\n")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError):
        runner.update(Snippet("programs/toy"), "cpu")
    assert toy.files() == before


def test_what_is_compared_on_replay():
    old = made("cpu")
    newer = {**old, "compiled": [], "provenance": {**old["provenance"], "triton": "3.8.0", "date": "2027-01-01"}}
    assert runner.differences(old, made("cpu")) == []
    assert runner.differences(old, newer) == []
    assert parts(runner.differences(old, {**newer, "provenance": old["provenance"]})) == ["compiled"]
    assert parts(runner.differences(old, {**newer, "output": "", "launches": []})) == ["output", "launches"]


def parts(differences: list[str]) -> list[str]:
    return [re.match(r"\w+", difference)[0] for difference in differences]


def test_numbers_of_registers_in_sass_are_no_difference_but_all_else_is():
    def with_sass(text):
        code = {"registers": 8, "stages": {"ptx": {"text": "add"}, "sass": {"text": text, "lines": [1]}}}
        return {**made("cpu"), "compiled": [{"targets": {"sm_100": code, "gfx942": {"error": "no"}}}]}

    old = with_sass("/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x2, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;")
    renamed = with_sass("/*0010*/ UIADD3 UR28, UP1, UPT, UR10, 0x2, URZ ;\n/*0020*/ @P0 IADD R4, R255, 0x1 ;")
    assert runner.differences(old, renamed) == []
    for other in (
        "/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x3, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;",
        "/*0010*/ UIADD3 UR30, UP0, UPT, URZ, 0x2, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;",
        "/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x2, URZ ;\n/*0020*/ @P1 ISUB R2, R3, 0x1 ;",
    ):
        assert parts(runner.differences(old, with_sass(other))) == ["compiled"]


def test_a_difference_is_shown_where_it_begins():
    old, new = made("cpu"), made("cpu")
    old["output"], new["output"] = "same\nthree\nsame\n", "same\nfour\nsame\nmore\n"
    new["launches"][0]["grid"][1] = 7
    old["pictures"], new["pictures"] = {}, {"a.png": "AAAA"}
    was = old["launches"][0]["grid"][1]
    assert runner.differences(old, new) == [
        "output line 2 was 'three', is 'four'",
        f"launches.0.grid.1 was '{was}', is '7'",
        "pictures was 'None', is \"{'a.png': 'AAAA'}\"",
    ]
    new = {**old, "output": old["output"] + "more"}
    assert runner.differences(old, new) == ["output line 4 was '', is 'more'"]


def test_a_comment_that_moves_lines_is_no_difference_on_replay():
    old, new = made("cpu"), made("cpu")
    new["launches"][0]["line"] += 2
    assert parts(runner.differences(old, new)) == ["launches"]
    moved = {**new, "source": {name: f"# New\n# lines\n{text}" for name, text in old["source"].items()}}
    assert runner.differences(old, moved) == []
    moved["launches"][0]["grid"] = [7, 1, 1]
    assert parts(runner.differences(old, moved)) == ["launches"]


def test_the_command_is_what_a_reader_would_type():
    assert runner.command(Snippet("programs/toy"), "cpu") == "TRITON_INTERPRET=1 python snippets/programs/toy.py"
    assert runner.command(Snippet("programs/toy"), "h200") == "python snippets/programs/toy.py"


# What this machine has


@runs_snippets
@pytest.mark.parametrize("driver", [False, True])
def test_torch_is_asked_for_a_gpu_where_there_is_a_driver(monkeypatch, tmp_path, driver):
    asked, start = [], subprocess.run
    monkeypatch.setattr(runner, "GPU_DRIVERS", [str(tmp_path)] if driver else [])
    monkeypatch.setattr(runner.subprocess, "run", lambda *a, **options: asked.append(a) or start(*a, **options))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert runner.machine_devices() == ["cpu"]
    assert len(asked) == driver or sys.platform != "linux"


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_nothing_runs_without_torch_and_triton(monkeypatch, missing):
    monkeypatch.setattr(runner, "find_spec", lambda name: None if name == missing else find_spec(name))
    assert runner.machine_devices() == []
