# SPDX-License-Identifier: Apache-2.0
"""Choose what `check --replay` runs, and on which device; find where a difference begins."""

import threading
import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from recorder import __main__ as cli
from recorder import judge, recording, replay, runner, timing, tools
from recorder.project import RecorderError, Snippet
from recorder.recording import Line
from recorder.replay import differences
from tests.limits import HANGS
from tests.toy import SETTINGS, compiled, launch, made

TOY = Snippet("programs/toy")
OLD = made("cpu")


def code(**changes):
    """Return the toy's compiled code, changed for one target."""
    first, *others = compiled()
    targets = first.targets | {"sm_90": replace(first.targets["sm_90"], **changes)}
    return {"compiled": [replace(first, targets=targets), *others]}


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"provenance": replace(OLD.provenance, date="2027-01-01", seconds=9.0, fingerprint="other")},
        {"provenance": replace(OLD.provenance, compiler="3.8.0"), "compiled": []},  # which may compile to other code
        code(stages={name: [Line(f"{n}: %r9", None) for n in range(2)] for name in ("ttir", "ttgir", "ptx")}),
    ],
    ids=["itself", "another day", "another Triton", "registers of other numbers"],
)
def test_what_is_no_difference(project, same):
    assert differences(OLD, replace(OLD, **same)) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": OLD.output.replace("0.5", "0.25")}, "output line 3 was 'ratio = 0.5', is 'ratio = 0.25'"),
        ({"output": f"{OLD.output}more"}, "output line 18 was '', is 'more'"),
        ({"launched": {"toy_kernel": 6}}, "launched.toy_kernel was '5', is '6'"),
        ({"launches": {"toy_kernel[0]": launch(grid=(1, 7, 1))}}, "launches.toy_kernel[0].grid.1 was '1', is '7'"),
        ({"pictures": {}}, "pictures.dot.png was 'iVBORw0KGgo=', is 'None'"),
        (code(registers=9), "compiled.0.targets.sm_90.registers was '8', is '9'"),
        (code(digests={}), "compiled.0.targets.sm_90.digests was "),
        (code(stages={}), "compiled.0.targets.sm_90.shown.0 was 'ptx', is 'None'"),
        ({"compiled": []}, "compiled.0 was "),
        ({"provenance": replace(OLD.provenance, triton="3.8.0"), "compiled": []}, "compiled.0 was "),
    ],
)
def test_a_difference_is_shown_where_it_begins(project, changes, message):
    (difference,) = differences(OLD, replace(OLD, **changes))
    assert difference.startswith(message)


def test_two_long_lines_are_shown_where_they_differ(project):
    old, new = (replace(OLD, output=f"{'=' * 300}{value}\n") for value in ("12 GB", "13 GB"))
    (difference,) = differences(old, new)
    assert "12 GB', is '…==" in difference and difference.endswith("=13 GB'") and len(difference) < 250


def test_output_that_may_differ(toy):
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'differs = "it prints the time"\n')
    assert differences(OLD, replace(OLD, output="", launched={}))[0].startswith("launched")


# All of it


@pytest.fixture
def devices(monkeypatch):
    """Return the list that receives the devices of runs; nothing runs."""
    devices = []
    monkeypatch.setattr(runner, "record", lambda snippet, device, **options: devices.append(device) or made("cpu"))
    return devices


def test_what_asks_the_network_is_left_out(toy, devices):
    assert cli.main(["check", "--replay"]) == 0 and devices == ["cpu"]
    toy.write("snippets/programs/recorder.toml", SETTINGS + "replay = false\n")
    assert cli.main(["check", "--replay"]) == 0 and devices == ["cpu"]


def test_nothing_is_run_again_before_all_is_well(toy, devices, capsys):
    toy.snippet("toy", "print(1)\n")
    assert cli.main(["check", "--replay"]) == 1 and devices == [] and "2 problems." in capsys.readouterr().out


def test_a_run_that_fails_and_one_that_says_something_else(toy, monkeypatch, capsys):
    def fail(snippet, device, **options):
        raise RecorderError("killed by SIGSEGV")

    monkeypatch.setattr(runner, "record", fail)
    assert cli.main(["check", "--replay"]) == 1
    assert capsys.readouterr().out == "programs/toy: killed by SIGSEGV\n1 problem.\n"
    monkeypatch.setattr(runner, "record", lambda *arguments, **options: replace(OLD, output="other\n"))
    assert cli.main(["check", "--replay"]) == 1
    captured = capsys.readouterr()
    assert "programs/toy: output line 1 was " in captured.out and "NOT as recorded" in captured.err


@pytest.mark.parametrize("gpu", [False, True])
def test_reasons_are_printed_at_once_and_summed_up_after_a_stop(toy, monkeypatch, capsys, gpu):
    errors = []

    def record(snippet, device, **options):
        if snippet.name == "programs/toy":
            return replace(made("h200" if gpu else "cpu"), output=OLD.output.replace("0.5", "0.75"))
        errors.append(capsys.readouterr().err)  # so far, when the next one runs
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "record", record)
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu", "h200"])
    monkeypatch.setattr(judge, "all_problems", list)
    monkeypatch.setattr(timing, "sample", lambda *_: {"programs/toy", "programs/zebra"})
    monkeypatch.setattr(recording, "devices", lambda snippet: ["cpu", "h200"])
    monkeypatch.setattr(recording, "load", lambda snippet, device: replace(made(device), snippet=snippet.name))
    toy.snippet("zebra", "")
    assert cli.main(["check", "--replay", *["gpu"] * gpu]) == 130
    why = "programs/toy: output line 3 was 'ratio = 0.5', is 'ratio = 0.75'"
    assert why in errors[0]
    assert why in (out := capsys.readouterr().out) and "Stopped before" in out and out.endswith("1 problem.\n")


# On a GPU


@pytest.fixture
def gpu(toy, monkeypatch):
    """Make this a machine with a GPU, on which the toy prints and measures as recorded unless the test changes that."""
    machine = SimpleNamespace(name="h200", again=made("h200"), runs=[], lacks=[])

    def record(snippet, device, *, only_output=False, **options):
        machine.runs.append((snippet.name, device, "prints" if only_output else "measures"))
        if isinstance(machine.again, RecorderError):
            raise machine.again
        return replace(machine.again, benchmarks=[]) if only_output else machine.again

    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu", machine.name])
    monkeypatch.setattr(runner, "record", record)
    monkeypatch.setattr(tools, "missing", lambda: machine.lacks)
    monkeypatch.setattr(timing, "FEW", 4)
    return machine


def replayed(capsys, *arguments):
    status = cli.main(["check", "--replay", "gpu", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_gpu_prints_and_measures_again(gpu, capsys):
    status, out, _ = replayed(capsys)
    assert status == 0 and gpu.runs == [("programs/toy", "h200", "measures")]
    assert "of 4 numbers measured again with the same processor, torch or Triton, 100.0% are within 5%" in out


def test_the_sample_can_be_asked_for_again(gpu, capsys, monkeypatch):
    seeds = []
    monkeypatch.setattr(timing, "sample", lambda here, seconds, seed: seeds.append(seed) or {"programs/toy"})
    assert "Measured again, by --seed 0: programs/toy\n" in replayed(capsys)[1]
    assert "by --seed 7: " in replayed(capsys, "--seed", "7")[1] and seeds == [0, 7]


def test_without_time_it_only_prints_again(gpu, capsys):
    status, out, _ = replayed(capsys, "--minutes", "0")
    assert status == 0 and gpu.runs == [("programs/toy", "h200", "prints")]
    assert out.startswith("Nothing that was measured on h200 was measured again.\n")


def test_what_was_not_recorded_on_this_gpu_prints_as_on_another(gpu, capsys):
    gpu.name = "h100"
    assert replayed(capsys)[0] == 0 and gpu.runs == [("programs/toy", "h100", "prints")]
    gpu.again = replace(gpu.again, output="other\n")
    status, out, _ = replayed(capsys)
    assert status == 1 and "programs/toy: output line 1 was " in out and "(on h200, on h100)" in out


def test_this_gpus_own_recording_comes_first(toy, gpu, capsys):
    toy.record("h100", benchmarks=[])
    status, out, _ = replayed(capsys)
    assert status == 0 and "of 4 numbers measured again" in out


def test_what_a_gpu_prints_otherwise_is_wrong(gpu, capsys):
    gpu.again = replace(gpu.again, output=gpu.again.output.replace("0.5", "0.25"))
    status, out, err = replayed(capsys)
    assert status == 1 and "NOT as recorded" in err
    assert "programs/toy: output line 3 was 'ratio = 0.5', is 'ratio = 0.25' (on h200, on h200)\n1 problem." in out


def test_launches_may_be_others_on_a_gpu(gpu, capsys):
    gpu.again = replace(gpu.again, launched={"toy_kernel": 999}, pictures={})
    assert replayed(capsys)[0] == 0


def test_what_may_print_anything_must_still_run(toy, gpu, capsys):
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'differs = "it prints the time"\n')
    toy.record("cpu"), toy.record("h200")
    gpu.again = replace(gpu.again, output="other\n")
    assert replayed(capsys)[0] == 0
    gpu.again, gpu.lacks = RecorderError("ncu was not found"), ["ncu is missing"]
    status, out, err = replayed(capsys)
    assert status == 1 and "programs/toy: ncu was not found\n" in out and err.endswith("\nncu is missing\n")


def test_what_gpus_may_print_otherwise(toy, gpu, capsys):
    gpu.again = replace(gpu.again, output="other\n")
    assert replayed(capsys, "--minutes", "0")[0] == 1
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'differs_on_gpus = "it names the GPU"\n')
    assert replayed(capsys, "--minutes", "0")[0] == 0


def test_too_many_other_numbers_are_wrong(gpu, capsys):
    table, *others = gpu.again.benchmarks
    rows = [replace(row, y={line: [2 * v for v in values] for line, values in row.y.items()}) for row in table.rows]
    gpu.again = replace(gpu.again, benchmarks=[replace(table, rows=rows), *others])
    status, out, _ = replayed(capsys)
    assert status == 1 and "bandwidth[1024].copy, in GB/s: 20, was 10: 2.00 times apart" in out
    assert "timings: of 4 numbers measured again" in out


def test_what_prints_otherwise_beside_others_gets_the_gpu_for_itself(gpu, monkeypatch, capsys):
    gpu.answers = [replace(gpu.again, output="out of memory\n"), gpu.again]
    monkeypatch.setattr(runner, "record", lambda *a, **o: gpu.runs.append(a) or gpu.answers[len(gpu.runs) - 1])
    status, _, err = replayed(capsys, "--minutes", "0")
    assert status == 0 and len(gpu.runs) == 2 and "once more, alone" in err and "NOT as recorded" not in err


def test_what_only_prints_runs_beside_others_and_what_measures_does_not(toy, gpu, monkeypatch, capsys):
    made, running, most, two = gpu.again, [], {True: 0, False: 0}, threading.Event()

    def record(snippet, device, *, only_output, **options):
        running.append(snippet.name)
        if len(running) == 2:
            two.set()
        if only_output:
            two.wait(HANGS)
        else:
            time.sleep(0.1)  # for another to come beside it
        most[only_output] = max(most[only_output], len(running))
        running.remove(snippet.name)
        return replace(made, snippet=snippet.name)

    monkeypatch.setattr(runner, "record", record)
    monkeypatch.setattr(replay, "AT_ONCE", 2)
    chosen = [Snippet(f"programs/{name}") for name in ("first", "second", "toy")]
    monkeypatch.setattr(replay, "snippets", lambda: chosen)
    monkeypatch.setattr(replay.recording, "devices", lambda snippet: ["h200"])
    monkeypatch.setattr(replay.recording, "load", lambda snippet, device: replace(made, snippet=snippet.name))
    list(replay.replay_on_gpu("h200", 0, 0, cli.Progress(), print))
    assert most == {True: 2, False: 0}
    list(replay.replay_on_gpu("h200", 1e9, 0, cli.Progress(), print))
    assert most[False] == 1


def test_a_stop_ends_what_runs_beside_others(gpu, monkeypatch):
    ended, second = [], threading.Event()

    def record(snippet, device, *, progress, **options):
        if not ended:
            ended.append("first")
            return gpu.again
        second.set()
        try:
            while True:
                time.sleep(0.05)
                progress("")
        except RecorderError:
            ended.append("stopped")
            raise

    monkeypatch.setattr(runner, "record", record)
    monkeypatch.setattr(replay, "AT_ONCE", 2)
    run = replay._print_at_once([TOY, TOY], "h200")
    assert next(run)[0] == TOY and second.wait(HANGS)
    run.close()  # as Ctrl-C would
    assert ended == ["first", "stopped"]


def test_what_never_runs_on_a_gpu_or_asks_the_network_is_left_out(toy, gpu, capsys):
    toy.write("snippets/programs/recorder.toml", SETTINGS + "replay = false\n")
    assert replayed(capsys)[0] == 0 and gpu.runs == []
    for file in (toy.root / "recordings/programs/toy").glob("h200.*"):
        file.unlink()
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'devices = ["cpu"]\n')
    assert replayed(capsys)[0] == 0 and gpu.runs == []


def test_a_machine_without_a_gpu_says_so(toy, monkeypatch, capsys):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    status, _, err = replayed(capsys)
    assert status == 2 and "this machine has no GPU that torch can use" in err and "install.py" in err


def test_nothing_is_run_on_a_gpu_before_all_is_well(toy, gpu, capsys):
    toy.snippet("toy", "print(1)\n")
    assert replayed(capsys)[0] == 1 and gpu.runs == []
