# SPDX-License-Identifier: Apache-2.0
"""Run ``python -m recorder`` as people do: its messages, its files and its exit status."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from recorder import __main__ as cli
from recorder import judge, recording, runner, tools
from recorder.project import RecorderError, Snippet
from tests.limits import HANGS, gone, wait_for
from tests.toy import SETTINGS, made, runs_snippets

TOY = Snippet("programs/toy")


def main(capsys, *arguments):
    """Run the command in this process; return its exit status, standard output and standard error."""
    status = cli.main(list(arguments))
    seen = capsys.readouterr()
    return status, seen.out, seen.err


# check and list


def test_check_of_what_is_fresh(toy, capsys):
    assert main(capsys, "check") == (0, "Every recording is of the code as it stands.\n", "")


def test_check_names_what_is_at_fault_and_what_fixes_it(toy, capsys):
    toy.snippet("toy", "print(1)\n")
    toy.snippet("new", "print(2)\n")
    toy.write("recordings/stray.txt", "")
    status, out, _ = main(capsys, "check")
    assert status == 1 and out.endswith("\n5 problems.\n") and out.count("\n") == 6
    assert re.search(r"recordings/programs/toy/cpu\.json: stale: .*fix: python -m recorder run programs/toy\n", out)
    assert "recordings/stray.txt: orphaned" in out


def test_list(toy, capsys):
    toy.snippet("new", "print(2)\n")
    toy.write("snippets/programs/labs/a_lab.py", "# %%\n")
    toy.write("requirements.txt", "torch==3\n")
    status, out, _ = main(capsys, "list")
    lines = {" ".join(line.split()[:3]) for line in out.splitlines()}
    assert status == 0
    assert lines == {
        "programs/toy cpu stale", "programs/toy h200 fresh", "programs/new - missing",
        "programs/labs/a_lab cpu missing",
    }  # fmt: skip


# run, up to the point where something would run


@pytest.fixture
def jobs(toy, monkeypatch):
    """Return the list that receives what ``run`` would update on a machine with a GPU."""
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
        (["--all", "--device", "gpu"], [TOY_H200]),
        (["--all", "--device", "gpu", "--device", "cpu"], [TOY_H200, TOY_CPU]),
        (["--stale"], []),
        (["--all", "--stale"], [TOY_CPU, TOY_H200]),
    ],
)
def test_run_of_what_is_named_or_stale(jobs, capsys, arguments, expected):
    status, _, err = main(capsys, "run", *arguments)
    assert (status, jobs) == (0, expected)
    assert ("Nothing is stale" in err) == (not expected)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("requirements.txt", "torch==3\n", [TOY_CPU]),
        ("recordings/programs/toy/h200.json", "{", [TOY_H200]),
        ("recordings/programs/toy/cpu.json", "{", [TOY_CPU]),
        ("snippets/programs/recorder.toml", '[toy]\ndevices = ["gpu"]\n', []),
    ],
)
def test_run_of_what_is_at_fault(jobs, toy, capsys, path, text, expected):
    toy.write(path, text)
    main(capsys, "run")
    assert jobs == expected


@pytest.mark.parametrize(
    "arguments, named",
    [(["programs/toi"], "programs/toy"), (["--device", "h100"], "it has cpu, h200")],
)
def test_run_of_what_there_is_not(jobs, capsys, arguments, named):
    status, _, err = main(capsys, "run", *arguments)
    assert status == 2 and named in err and err.count("\n") == 1 and jobs == []


# run, on a GPU beside recordings of another


@pytest.fixture
def h100(toy, monkeypatch):
    """Make this a machine whose GPU has runs nothing; it records the toy as the other GPU did."""
    runs = []

    def update(snippet, device, **options):
        runs.append(device)
        toy.record(device)
        return True

    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu", "h100"])
    monkeypatch.setattr(runner, "update", update)
    return runs


def names(toy):
    return {path.rpartition("/")[2] for path in toy.files()}


OF_H200 = {"h200.json"}
OF_H100 = {"h100.json"}


@pytest.mark.parametrize("arguments, expected", [([], ["h100"]), (["--stale"], []), (["--stale", "--replace"], [])])
def test_a_gpu_records_what_it_lacks_unless_only_stale_is_asked_for(toy, h100, capsys, arguments, expected):
    assert main(capsys, "run", *arguments)[0] == 0 and h100 == expected
    assert names(toy) >= OF_H200  # which is fresh


def test_what_nobody_recorded_is_recorded(toy, h100, capsys):
    (toy.root / "recordings/programs/toy/cpu.json").unlink()
    main(capsys, "run", "--stale")
    assert h100 == ["cpu"]
    for file in (toy.root / "recordings/programs/toy").iterdir():
        file.unlink()
    main(capsys, "run", "--stale")
    assert h100 == ["cpu", "cpu", "h100"]


@pytest.mark.parametrize("recorded", [False, True], ids=["not recorded yet", "fresh"])
def test_what_is_stale_of_another_gpu_is_replaced(toy, h100, capsys, recorded):
    toy.snippet("toy", "x = 1\n", SETTINGS)
    toy.record("cpu")
    if recorded:
        toy.record("h100")
    status, _, err = main(capsys, "run", "--stale", "--replace")
    assert (status, h100) == (0, [] if recorded else ["h100"])
    assert "removed recordings/programs/toy/h200.json: it was stale, and h100.json is fresh\n" in err
    assert names(toy) == {"cpu.json"} | OF_H100 and judge.all_problems() == []


def test_only_what_gpus_recorded_is_replaced(toy, h100, capsys):
    toy.snippet("toy", "x = 1\n", SETTINGS)
    assert main(capsys, "run", "--device", "gpu", "--replace")[0] == 0 and h100 == ["h100"]
    assert names(toy) == {"cpu.json"} | OF_H100


def test_without_replace_it_stays(toy, h100, capsys):
    toy.snippet("toy", "x = 1\n", SETTINGS)
    assert main(capsys, "run")[0] == 0 and names(toy) >= OF_H200 | OF_H100


def test_nothing_is_removed_where_the_run_failed(toy, h100, capsys, monkeypatch):
    def fail(snippet, device, **options):
        raise RecorderError("no ncu")

    monkeypatch.setattr(runner, "update", fail)
    monkeypatch.setattr(tools, "missing", lambda: ["ncu is missing"])
    toy.record("h100")
    toy.snippet("toy", "x = 1\n", SETTINGS)
    before = toy.files()
    status, _, err = main(capsys, "run", "--stale", "--replace")
    assert status == 1 and toy.files() == before and "\nncu is missing\n" in err


def test_only_of_what_is_named(toy, h100, capsys):
    toy.snippet("toy", "x = 1\n", SETTINGS)
    toy.snippet("other", "x = 2\n", SETTINGS)
    toy.record("h100")
    main(capsys, "run", "programs/other", "--replace")
    assert names(toy) >= OF_H200


def test_a_gpu_is_asked_for_where_there_is_none(toy, capsys, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    for arguments in (["--device", "gpu"], ["--replace"]):
        status, _, err = main(capsys, "run", *arguments)
        assert status == 2 and "this machine has no GPU that torch can use" in err


def test_without_torch_it_says_so_in_a_line(toy, capsys, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", list)
    status, _, err = main(capsys, "run")
    assert status == 2 and "pip install -r" in err and err.count("\n") == 1


def test_a_file_that_cannot_be_read_fails_alone(toy, capsys, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    toy.write("snippets/programs/toy.py", b"# \xff\n")
    toy.snippet("other", "print(1)\n")
    status, _, err = main(capsys, "run")
    assert status == 1 and "is not UTF-8" in err and "1 failed, their old recordings are unchanged: programs/toy" in err
    assert recording.load(recording.Snippet("programs/other"), "cpu").output == "1\n"


def test_a_full_disk_fails_one_and_not_the_others(jobs, capsys, monkeypatch):
    def update(snippet, device, time_limit, **options):
        assert time_limit == 7
        if device == "cpu":
            raise OSError(28, "No space left on device")
        return bool(jobs.append((snippet.name, device)))

    monkeypatch.setattr(runner, "update", update)
    status, _, err = main(capsys, "run", "--all", "--time-limit", "7")
    assert (status, jobs) == (1, [TOY_H200])
    assert "FAILED" in err and "No space left" in err and "1 failed" in err


# run, with real processes

ON_CPU = 'devices = ["cpu"]\n'


@runs_snippets
def test_a_crash_loses_nothing_else_and_the_log_is_plain(toy):
    toy.snippet("good", "import sys\nprint('sum:', 1 + 1, sys.argv)\n")
    toy.snippet("toy", "raise ValueError('no more')\n", f"[good]\n{ON_CPU}{SETTINGS}{ON_CPU}")
    before = toy.files()
    done = toy.recorder("run")
    assert done.returncode == 1, done.stderr
    assert "FAILED: exit status 1" in done.stderr and "ValueError: no more" in done.stderr
    assert "1 failed, their old recordings are unchanged: programs/toy" in done.stderr
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    assert re.search(r"^\[1/2\] programs/good on cpu$", done.stderr, re.M)
    after = toy.files()
    assert {path: text for path, text in after.items() if path in before} == before
    assert after.keys() - before.keys() == {"recordings/programs/good/cpu.json"}
    assert recording.load(Snippet("programs/good"), "cpu").output == "sum: 2 ['snippets/programs/good.py']\n"


@runs_snippets
def test_on_a_terminal_one_line_changes_and_the_same_is_not_written_again(project):
    snippet = project.snippet("good", "import time\nprint('sum: 2')\ntime.sleep(0.5)\n", f"[good]\n{ON_CPU}")
    ours, theirs = pty.openpty()
    try:
        process = project.start("run", stderr=theirs)
    finally:
        os.close(theirs)
    parts = []
    with contextlib.suppress(OSError):  # by which Linux ends a terminal that nobody writes to any more
        while part := os.read(ours, 4096):
            parts.append(part)
    os.close(ours)
    assert process.wait(HANGS) == 0
    shown = b"".join(parts).decode()
    assert shown.count("\n") == 1, shown
    assert shown.count("\r\x1b[K") > 3 and "wrote recordings/programs/good/cpu.json" in shown
    old = recording.load(snippet, "cpu")
    recording.save(replace(old, provenance=replace(old.provenance, date="2026-01-01")))
    before = project.files()
    done = project.recorder("run", "programs/good")
    assert done.returncode == 0 and "as before" in done.stderr, done.stderr
    assert project.files() == before and judge.all_problems() == []


@runs_snippets
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_old_recordings_whole(toy, tmp_path_factory, stop):
    """Ctrl-C reaches the whole foreground group of a terminal, or one job in the background."""
    pid = toy.root / "pid"
    hang = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(99)\n"
    toy.snippet("toy", hang, SETTINGS + ON_CPU)
    before, temporary = toy.files(), tmp_path_factory.mktemp("tmp")
    process = subprocess.Popen(
        [sys.executable, "-m", "recorder", "run"], cwd=toy.root, env=toy.environment() | {"TMPDIR": str(temporary)},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert wait_for(lambda: pid.exists() and pid.read_text())
    os.killpg(process.pid, stop)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130, err
    assert "as they were" in err and "Traceback" not in err
    assert toy.files() == before
    assert list(temporary.iterdir()) == []
    assert gone(int(pid.read_text()))


# measure


def test_measure_prints_each_number_as_recorded_and_as_it_is_now(toy, monkeypatch, capsys):
    table = made("h200").benchmark("bandwidth")
    doubled = [replace(row, y={line: [2 * y for y in values] for line, values in row.y.items()}) for row in table.rows]
    now = replace(made("h200"), benchmarks=[replace(table, rows=doubled)])
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu", "h200"])
    monkeypatch.setattr(runner, "record", lambda snippet, device: now)
    status, out, err = main(capsys, "measure", "programs/toy")
    before, after, name = out.splitlines()[0].split("\t")
    assert (status, err, len(out.splitlines())) == (0, "", 4)
    assert (float(before), float(after)) == (5, 10) and name == "programs/toy: bandwidth[1024].triton, in GB/s"


def test_measure_without_a_gpu(toy, monkeypatch, capsys):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    status, out, err = main(capsys, "measure", "programs/toy")
    assert (status, out) == (2, "") and "this machine has no GPU" in err
