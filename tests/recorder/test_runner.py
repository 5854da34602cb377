# SPDX-License-Identifier: Apache-2.0
"""Keep old recordings whole through runs that fail, hang, are interrupted or overtaken."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import msgspec
import pytest

from recorder import fingerprint, judge, recording, runner
from recorder.project import COMPILER, RecorderError, Settings, Snippet
from recorder.recording import Access
from tests.limits import GROWING, HANGS, gone, wait_for
from tests.toy import compiled, launch, made, runs_snippets

TOY = Snippet("programs/toy")
HANG = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(99)\n"
STUBBORN = """\
import os, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", deaf])
open("pids.tmp", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.tmp", "pids")
time.sleep(99)
"""


# One process. What it runs here is a module of the project, which starts faster than a snippet.


def run(project, text, seconds=HANGS, interpret=False, progress=lambda text: None):
    project.write("job.py", text)
    folder = project.root / "work"
    folder.mkdir(exist_ok=True)
    environment = {"TRITON_INTERPRET": "1"} if interpret else {}
    runner._run(["job", "a", "b"], environment, str(folder), time.monotonic() + seconds, progress)


@pytest.mark.parametrize("interpret", [True, False])
def test_the_surroundings_of_a_run(project, monkeypatch, interpret):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    text = "import json, os, sys; json.dump([sys.argv[1:], os.getcwd(), dict(os.environ)], open('seen.json', 'w'))\n"
    run(project, text, interpret=interpret)
    arguments, folder, environment = json.loads((project.root / "seen.json").read_text())
    assert arguments == ["a", "b"] and folder == str(project.root)
    assert environment.get("TRITON_INTERPRET") == ("1" if interpret else None)
    assert environment["PYTHONPATH"] == str(project.root)
    assert environment["TRITON_CACHE_DIR"] == str(project.root / "work/cache")


def test_the_last_line_is_the_progress(project):
    seen, shown = [], project.root / "shown"

    def progress(text):
        seen.append(text)
        if text == "two":
            shown.touch()

    waits = f"while not os.path.exists({str(shown)!r}): time.sleep(0.1)\n"
    run(project, f"import os, time\nprint('one'); print('two', flush=True)\n{waits}", progress=progress)
    assert "two" in seen and not any("\n" in text for text in seen)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("1 / 0", r"(?s)^exit status 1\n.*line 2.*ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 11)", r"^killed by SIGSEGV\nbegun$"),
        ("raise SystemExit(-1)", r"^exit status 255\nbegun$"),
        ("raise SystemExit('for a reason')", r"^exit status 1\nbegun\nfor a reason$"),
    ],
)
def test_a_crash_says_how_it_ended(project, fault, message):
    with pytest.raises(RecorderError, match=message):
        run(project, f"print('begun', flush=True)\n{fault}\n")


@pytest.mark.parametrize("file", ["/dev/stdout", "work/output"])
def test_output_without_bound_is_stopped(project, monkeypatch, file):
    """Standard output goes to a file in the snippet's temporary folder, standard error to the log."""
    monkeypatch.setattr(runner, "PRINTED_BYTES", 10_000)
    with pytest.raises(RecorderError, match="it printed more than 10,000 bytes"):
        run(project, f"with open({file!r}, 'w') as file:\n    while True:\n        file.write('more and more\\n')\n")


def test_the_time_limit_stops_everything_that_was_started(project):
    """That includes a child that outlives its parent's terminal and ignores SIGTERM."""
    for seconds in GROWING:  # until both run before it is up
        with pytest.raises(RecorderError, match="time limit"):
            run(project, STUBBORN, seconds=seconds)
        if (project.root / "pids").exists():
            break
    pids = [int(pid) for pid in (project.root / "pids").read_text().split()]
    assert len(pids) == 2 and all(map(gone, pids))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_stops_everything_too(project, error):
    seen = []

    def interrupt(text):
        if text:
            seen.append(int(text))
            raise error

    with pytest.raises(error):
        run(project, HANG, progress=interrupt)
    assert gone(seen[0])


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGHUP])
def test_nothing_runs_on_when_the_recorder_is_killed_or_its_terminal_hangs_up(project, stop):
    """A watch beside the snippet stops it, since the recorder no longer can."""
    project.write("job.py", STUBBORN)
    code = "import time; from recorder import runner; runner._run(['job'], {}, '.', time.monotonic() + 999, id)"
    recorder = subprocess.Popen([sys.executable, "-c", code], cwd=project.root, env=project.environment())
    pids = project.root / "pids"
    assert wait_for(pids.exists)
    recorder.send_signal(stop)
    assert recorder.wait(HANGS) == -stop
    assert all(gone(int(pid)) for pid in pids.read_text().split())


# Recording a snippet


def test_benchmarks_of_several_processes(toy, seen, monkeypatch):
    toy.write("snippets/programs/recorder.toml", "[toy]\nprocesses = 3\n")
    speeds = iter([2.0, 6.0, 4.0])

    def trace(snippet, device, folder, deadline, progress, only_output):
        plain = msgspec.to_builtins(made("h200"))
        row = {"x": [8], "y": {"ours": [speed := next(speeds), speed - 1, speed + 1]}}
        table = {"name": "speed", "x": ["n"], "xlabel": "n", "ylabel": "GB/s", "lines": {"ours": "Ours"}, "rows": [row]}
        return {"launches": [], "benchmarks": [table]} | {p: plain[p] for p in ("provenance", "output", "pictures")}

    monkeypatch.setattr(runner, "_trace", trace)
    table = runner.record(TOY, "h200").benchmark("speed")
    assert [(row.process, row.y["ours"][0]) for row in table.rows] == [(0, 2.0), (1, 6.0), (2, 4.0)]
    ours = table.medians()[8].ours
    assert (ours, ours.least, ours.most) == (4.0, 1.0, 7.0)
    assert [each.medians()[8].ours for each in table.by_process()] == [2.0, 6.0, 4.0]


def test_one_process_unless_settings_say_more(toy, seen):
    toy.write("snippets/programs/recorder.toml", "[toy]\nprocesses = 3\n")
    assert len(runner.record(TOY, "cpu").benchmarks) == 0 and len(seen) == 1  # in the interpreter nothing is measured
    runner.record(TOY, "h200", only_output=True)
    assert len(seen) == 2
    runner.record(TOY, "h200")
    assert len(seen) == 5
    toy.write("snippets/programs/recorder.toml", "[toy]\n")
    runner.record(TOY, "h200")
    assert len(seen) == 6


@runs_snippets
def test_a_snippet_that_edits_itself_is_not_recorded(project):
    text = "from pathlib import Path\nPath(__file__).write_text(Path(__file__).read_text() + 'print(2)\\n')\nprint(1)\n"
    snippet = project.snippet("restless", text)
    with pytest.raises(RecorderError, match=r"snippets/programs/restless\.py was edited while it ran"):
        runner.update(snippet, "cpu")
    assert project.files() == {}


@pytest.fixture
def seen(toy, monkeypatch):
    """Make runs of the toy only record what it did; return the arguments that they got."""
    calls = []

    def run(arguments, more, folder, deadline, progress):
        calls.append((arguments, more))
        plain = msgspec.to_builtins(made("cpu"))
        result = {
            "recorder.trace": {"launches": [msgspec.to_builtins(launch())] * 5, "benchmarks": []}
            | {part: plain[part] for part in ("provenance", "output", "pictures")},
            "recorder.compile": {"compiler": "3.9.0", "compiled": msgspec.to_builtins(compiled())},
        }
        with open(f"{folder}/result.json", "w") as file:
            json.dump(result[arguments[0]], file)

    monkeypatch.setattr(runner, "_run", run)
    monkeypatch.setattr(runner, "fetch_triton", lambda version, deadline, progress: f"/tritons/{version}")
    return calls


def test_launches_are_counted_and_those_that_are_declared_kept(toy, seen):
    toy.write("snippets/programs/recorder.toml", "[toy]\nlaunches = ['toy_kernel[1]', 'toy_kernel[3]']\n")
    new = runner.record(TOY, "cpu")
    assert new.launched == {"toy_kernel": 5} and list(new.launches) == ["toy_kernel[1]", "toy_kernel[3]"]
    assert isinstance(new.traced("toy_kernel[1]").accesses[0], Access) and new.compiled == []


@pytest.mark.parametrize("name", ["toy_kernel[5]", "other_kernel[0]"])
def test_a_launch_that_is_declared_and_not_made(toy, seen, name):
    toy.write("snippets/programs/recorder.toml", f"[toy]\nlaunches = ['toy_kernel[0]', '{name}']\n")
    with pytest.raises(RecorderError, match=rf"keeps launch {re.escape(name)} of programs/toy; .*toy_kernel\[4\]"):
        runner.record(TOY, "cpu")


@pytest.mark.parametrize(
    ("settings", "device", "compiles"),
    [
        ("stages = [{launch = 'toy_kernel[0]'}]", "cpu", True),
        ("compiled = true", "cpu", True),
        ("compiled = false", "cpu", False),
        ("compiled = true", "h200", False),
        ('compiled = true\ntriton = ["3.8.0"]', "cpu-triton-3.8.0", False),
    ],
)
def test_only_what_is_declared_is_compiled(toy, seen, settings, device, compiles):
    toy.write("snippets/programs/recorder.toml", f"[toy]\n{settings}\n")
    new = runner.record(TOY, device)
    assert (new.compiled, new.provenance.compiler) == ((compiled(), "3.9.0") if compiles else ([], None))
    assert [arguments[0] for arguments, _ in seen] == ["recorder.trace", *["recorder.compile"] * compiles]
    if device != "h200":
        others = {"PYTHONPATH": f"/tritons/3.8.0{os.pathsep}{toy.root}"} if device != "cpu" else {}
        assert seen[0][0][1:3] == ["programs/toy", device] and seen[0][1] == {"TRITON_INTERPRET": "1", **others}
    for _, more in seen[1:]:
        first = f"/tritons/{COMPILER}{os.pathsep}{toy.root}"
        assert more == {"PYTHONPATH": first, "TRITON_DEFAULT_FP_FUSION": "1"}


def test_a_preview_leaves_out_what_takes_long(toy, seen):
    assert runner.record(TOY, "cpu", only_output=True).compiled == []


def test_a_preview_may_launch_less_than_its_settings_keep(toy, seen):
    toy.write("snippets/programs/recorder.toml", "[toy]\nlaunches = ['toy_kernel[1]', 'toy_kernel[5]']\n")
    assert list(runner.record(TOY, "cpu", only_output=True).launches) == ["toy_kernel[1]"]


# Writing it down


def recorded(monkeypatch, **changes):
    """Make ``runner.record`` return a recording without running anything."""

    def record(snippet, device, **options):
        new = msgspec.structs.replace(made(device), **changes)
        now = msgspec.structs.replace(new.provenance, fingerprint=fingerprint.of(snippet, device, new))
        return msgspec.structs.replace(new, provenance=now)

    monkeypatch.setattr(runner, "record", record)


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_the_same_content_keeps_the_old_file_with_its_date(toy, monkeypatch, device):
    before = toy.files()
    later = msgspec.structs.replace(made(device).provenance, date="2026-12-31", seconds=9.0)
    recorded(monkeypatch, provenance=later)
    assert runner.update(TOY, device) is False
    assert toy.files() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"output": "other\n"},
        {"launches": {}},
        {"compiled": []},
        {"provenance": msgspec.structs.replace(made("cpu").provenance, triton="3.8.0")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_content_is_written(toy, monkeypatch, changes):
    recorded(monkeypatch, **changes)
    assert runner.update(TOY, "cpu") is True
    assert recording.load(TOY, "cpu") == runner.record(TOY, "cpu") and recording.as_written(TOY, "cpu")


@pytest.mark.parametrize(
    ("old", "new"), [(b'"digest": "', b'"digest": "0'), (b'"version": 2', b'"version": 1'), (b"{\n", b"")]
)
def test_the_same_content_repairs_a_file_that_was_edited_or_broken(toy, monkeypatch, old, new):
    path = recording.path_of(TOY, "cpu")
    before = path.read_bytes()
    toy.write("recordings/programs/toy/cpu.json", before.replace(old, new, 1))
    recorded(monkeypatch)
    assert runner.update(TOY, "cpu") is True
    assert path.read_bytes() == before and judge.all_problems() == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_while_writing_leaves_the_old_recording(toy, monkeypatch, failing):
    before = toy.files()
    recorded(monkeypatch, output="other\n")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError):
        runner.update(TOY, "cpu")
    assert toy.files() == before


def test_the_command_is_what_a_reader_would_type():
    commands = {device: runner.command(TOY, device) for device in ("cpu", "h200", "cpu-triton-3.8.0")}
    assert commands == {
        "cpu": "TRITON_INTERPRET=1 python snippets/programs/toy.py",
        "h200": "python snippets/programs/toy.py",
        "cpu-triton-3.8.0": "PYTHONPATH=.cache/triton/3.8.0 TRITON_INTERPRET=1 python snippets/programs/toy.py",
    }


def test_what_only_compiles_runs_without_the_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(Snippet, "settings", Settings(compiles_only=True, triton=["3.8.0"]))
    commands = {device: runner.command(TOY, device) for device in ("cpu", "cpu-triton-3.8.0")}
    assert commands == {
        "cpu": "python snippets/programs/toy.py",
        "cpu-triton-3.8.0": "PYTHONPATH=.cache/triton/3.8.0 python snippets/programs/toy.py",
    }
    given = []
    monkeypatch.setattr(runner, "_run", lambda arguments, more, *_: given.append(more))
    monkeypatch.setattr(runner, "_result", lambda file: {})
    monkeypatch.setattr(Snippet, "triton_on", lambda snippet, device: None)
    for compiles_only in (True, False):
        monkeypatch.setattr(Snippet, "settings", Settings(compiles_only=compiles_only))
        runner._trace(TOY, "cpu", tmp_path / str(compiles_only), 0.0, None, False)
    assert given == [{}, {"TRITON_INTERPRET": "1"}]


# What this machine has


@runs_snippets
@pytest.mark.parametrize("driver", [False, True])
def test_torch_is_asked_for_a_gpu_where_there_is_a_driver(monkeypatch, tmp_path, driver):
    commands = []
    monkeypatch.setattr(runner, "GPU_DRIVERS", [str(tmp_path)] if driver else [])
    answer = subprocess.CompletedProcess([], 0, "cpu h200\n")
    monkeypatch.setattr(runner, "run", lambda command, **options: commands.append(command) or answer)
    assert runner.machine_devices() == (["cpu", "h200"] if driver or sys.platform != "linux" else ["cpu"])
    assert len(commands) == driver or sys.platform != "linux"


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_nothing_runs_without_torch_and_triton(monkeypatch, missing):
    monkeypatch.setattr(runner, "find_spec", lambda name: None if name == missing else find_spec(name))
    assert runner.machine_devices() == []
