# SPDX-License-Identifier: Apache-2.0
"""``python -m recorder``, as it is used: what it says, what it writes, and its exit status."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from recorder import __main__ as cli
from recorder import recording, runner
from recorder.project import Snippet
from tests.recorder.conftest import charts, made

runs_snippets = pytest.mark.skipif(find_spec("triton") is None, reason="snippets run where Triton is installed")
HANG = "import time\nprint('begun', flush=True)\ntime.sleep(99)\n"


def main(capsys, *arguments):
    """Exit status, standard output and standard error of the command, in this process."""
    status = cli.main(list(arguments))
    seen = capsys.readouterr()
    return status, seen.out, seen.err


# check and list


def test_check_of_what_is_fresh(toy, capsys):
    assert main(capsys, "check") == (0, "Every recording is of the code as it stands.\n", "")


def test_check_names_what_is_at_fault_and_what_mends_it(toy, capsys):
    toy.write("snippets/programs/toy.py", "print(1)\n")
    toy.write("snippets/programs/new.py", "print(2)\n")
    toy.write("recordings/stray.txt", "")
    status, out, _ = main(capsys, "check")
    assert status == 1 and out.endswith("4 problems.\n")
    assert re.search(r"recordings/programs/toy/cpu\.json: stale: .*mend: python -m recorder run programs/toy\n", out)
    assert "recordings/programs/toy/h200.json: stale" in out and "a machine with this GPU: h200" in out
    assert "recordings/programs/new: missing" in out and "recordings/stray.txt: orphaned" in out


def test_check_of_a_broken_file_is_one_line(toy, capsys):
    toy.write("recordings/programs/toy/cpu.json", "{")
    status, out, err = main(capsys, "check")
    assert status == 2 and out == "" and err.count("\n") == 1 and "recordings/programs/toy/cpu.json" in err


def test_list(toy, capsys):
    toy.write("snippets/programs/new.py", "print(2)\n")
    toy.write("requirements.txt", "torch==3\n")
    status, out, _ = main(capsys, "list")
    lines = {" ".join(line.split()[:3]) for line in out.splitlines()}
    assert status == 0
    assert lines == {"programs/toy cpu stale", "programs/toy h200 fresh", "programs/new - missing"}


# run, up to the point where something would run


@pytest.fixture
def jobs(toy, monkeypatch):
    """What ``run`` would update, on a machine with a GPU."""
    done = []
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu", "h200"])
    monkeypatch.setattr(runner, "update", lambda snippet, device, **options: bool(done.append((snippet.name, device))))
    return done


TOY_CPU, TOY_H200 = ("programs/toy", "cpu"), ("programs/toy", "h200")


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], []),
        (["--all"], [TOY_CPU, TOY_H200]),
        (["programs/toy"], [TOY_CPU, TOY_H200]),
        (["snippets/programs/toy.py", "--device", "cpu"], [TOY_CPU]),
        (["--all", "--device", "h200"], [TOY_H200]),
    ],
)
def test_run_of_what_is_named_or_stale(jobs, capsys, arguments, expected):
    status, _, err = main(capsys, "run", *arguments)
    assert (status, jobs) == (0, expected)
    assert ("Nothing is stale" in err) == (not expected)


def test_run_of_what_takes_a_gpu(jobs, toy, capsys):
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\ndevices = ["gpu"]\n')
    main(capsys, "run", "--all")
    assert jobs == [TOY_H200]


def test_run_of_what_is_stale(jobs, toy, capsys):
    toy.write("requirements.txt", "torch==3\n")
    main(capsys, "run")
    assert jobs == [TOY_CPU]
    toy.write("recordings/programs/toy/h200.bandwidth.svg", "<svg/>")
    jobs.clear()
    if find_spec("matplotlib"):
        main(capsys, "run")
        assert jobs == [TOY_CPU, TOY_H200]


@pytest.mark.parametrize(
    "arguments, named",
    [(["programs/toi"], "programs/toy"), (["--device", "h100"], "it has cpu, h200")],
)
def test_run_of_what_there_is_not(jobs, capsys, arguments, named):
    status, _, err = main(capsys, "run", *arguments)
    assert status == 2 and named in err and err.count("\n") == 1 and jobs == []


def test_run_without_triton(toy, capsys, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: [])
    status, _, err = main(capsys, "run")
    assert status == 2 and "pip install -r requirements.txt" in err


def test_a_full_disk_fails_one_and_not_the_others(jobs, toy, capsys, monkeypatch):
    def update(snippet, device, **options):
        if device == "cpu":
            raise OSError(28, "No space left on device")
        return bool(jobs.append((snippet.name, device)))

    monkeypatch.setattr(runner, "update", update)
    status, _, err = main(capsys, "run", "--all")
    assert (status, jobs) == (1, [TOY_H200])
    assert "FAILED" in err and "No space left" in err and "1 failed" in err


# run, with real processes


@runs_snippets
def test_a_crash_loses_nothing_else_and_the_log_is_plain(toy):
    toy.snippet("a_crash", "raise SystemExit('for a reason')\n")
    toy.snippet("good", "print('sum:', 1 + 1)\n")
    toy.snippet("toy", "raise ValueError('no more')\n")
    before = toy.files()
    done = toy.recorder("run")
    assert done.returncode == 1, done.stderr
    assert "for a reason" in done.stderr and "ValueError: no more" in done.stderr
    assert "2 failed, their old recordings are unchanged: programs/a_crash, programs/toy" in done.stderr
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    assert re.search(r"^\[1/3\] programs/a_crash on cpu$", done.stderr, re.M)
    after = toy.files()
    assert {path: text for path, text in after.items() if path in before} == before
    assert after.keys() - before.keys() == {"recordings/programs/good/cpu.json"}
    good = json.loads(after["recordings/programs/good/cpu.json"])
    assert good["output"] == "sum: 2\n" and good["source"] == {"snippets/programs/good.py": "print('sum:', 1 + 1)\n"}


@runs_snippets
def test_a_hang_ends_at_the_time_limit(toy):
    toy.snippet("toy", HANG)
    before = toy.files()
    done = toy.recorder("run", "--time-limit", "3")
    assert done.returncode == 1 and "stopped at its time limit" in done.stderr, done.stderr
    assert toy.files() == before


@runs_snippets
def test_on_a_terminal_one_line_changes_and_the_same_is_not_written_again(project):
    snippet = project.snippet("good", "import time\nprint('sum: 2', flush=True)\ntime.sleep(1)\n")
    ours, theirs = pty.openpty()
    try:
        process = project.start("run", stderr=theirs)
        assert process.wait(60) == 0
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert shown.count("\n") == 1, shown
    assert shown.count("\r\x1b[K") > 3 and "wrote recordings/programs/good/cpu.json" in shown
    path = recording.path_of(snippet, "cpu")
    old = {**recording.load(snippet, "cpu")}
    old["provenance"] = {**old["provenance"], "date": "2026-01-01"}
    path.write_text(json.dumps({**old, "digest": recording.digest(old)}), "utf-8")
    before = path.read_bytes()
    done = project.recorder("run", "programs/good")
    assert done.returncode == 0 and "as before" in done.stderr, done.stderr
    assert path.read_bytes() == before


@runs_snippets
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_old_recordings_whole(toy, tmp_path_factory, stop):
    """As a terminal sends it, to the whole foreground group; and as what runs a job in the background does."""
    toy.snippet("toy", f"import os\nopen({str(toy.root / 'pid')!r}, 'w').write(str(os.getpid()))\n" + HANG)
    before, temporary = toy.files(), tmp_path_factory.mktemp("tmp")
    process = subprocess.Popen(
        [sys.executable, "-m", "recorder", "run"], cwd=toy.root, env=toy.environment() | {"TMPDIR": str(temporary)},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not ((toy.root / "pid").exists() and (toy.root / "pid").read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, stop)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "as they were" in err and "Traceback" not in err
    assert toy.files() == before
    assert list(temporary.iterdir()) == []
    snippet = int((toy.root / "pid").read_text())
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{snippet}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{snippet}")


# check --replay


@runs_snippets
def test_replay_finds_what_a_run_would_not_say_again(project):
    snippet = project.snippet("good", "print('sum: 2')\n")
    new = runner.record(snippet, "cpu")
    recording.save(snippet, "cpu", {**new, "output": "sum: 3\n"}, {})
    assert recording.all_problems() == []
    done = project.recorder("check", "--replay")
    assert done.returncode == 1 and "programs/good" in done.stderr and "NOT as recorded" in done.stderr
    assert "programs/good: output line 1 was 'sum: 3', is 'sum: 2'" in done.stdout
    recording.save(snippet, "cpu", new, {})
    done = project.recorder("check", "--replay")
    assert done.returncode == 0 and "as recorded" in done.stderr, done.stderr


def test_replay_leaves_out_what_asks_the_network(toy, monkeypatch):
    ran = []
    monkeypatch.setattr(runner, "record", lambda snippet, device, **options: ran.append(device) or made("cpu"))
    assert cli.main(["check", "--replay"]) == 0 and ran == ["cpu"]
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\nreplay = false\n')
    assert cli.main(["check", "--replay"]) == 0 and ran == ["cpu"]


# draw


def test_draw_mends_charts_from_the_numbers(toy):
    pytest.importorskip("matplotlib")
    whole = toy.files()
    folder = toy.root / "recordings/programs/toy"
    (folder / "h200.bandwidth.svg").write_text("<svg/>")
    (folder / "h200.square.svg").unlink()
    assert cli.main(["draw", "programs/toy"]) == 0
    assert toy.files() == whole and recording.all_problems() == []


def test_replay_finds_charts_of_another_style(toy, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    whole = toy.files()
    monkeypatch.setattr(runner, "record", lambda snippet, device, **options: made("cpu"))
    recording.redraw(Snippet("programs/toy"), "h200", {name: "<svg/>" for name in charts("h200")})
    assert recording.all_problems() == [] and cli.main(["check", "--replay"]) == 1
    assert "recordings/programs/toy/h200.json: its charts are drawn otherwise now" in capsys.readouterr().out
    assert cli.main(["draw"]) == 0 and toy.files() == whole
    assert cli.main(["check", "--replay"]) == 0


def test_draw_refuses_what_was_edited(toy, capsys):
    pytest.importorskip("matplotlib")
    path = toy.root / "recordings/programs/toy/h200.json"
    path.write_text(path.read_text("utf-8").replace("1,024", "1,025"), "utf-8")
    (toy.root / "recordings/programs/toy/h200.square.svg").unlink()
    before = toy.files()
    assert cli.main(["draw"]) == 2 and toy.files() == before
    assert "recordings/programs/toy/h200.json was edited by hand" in capsys.readouterr().err
