# SPDX-License-Identifier: Apache-2.0
"""What `check --replay` takes for a difference, and how it says where one begins."""

import pytest
from msgspec.structs import replace

from recorder import __main__ as cli
from recorder import judge, recording, runner
from recorder.project import RecorderError, Snippet
from recorder.recording import Line
from recorder.replay import differences
from tests.toy import SETTINGS, charts, compiled, launch, made

TOY = Snippet("programs/toy")
OLD = made("cpu")


def code(**changes):
    """The toy's compiled code, changed for one target."""
    first, *others = compiled()
    targets = first.targets | {"sm_90": replace(first.targets["sm_90"], **changes)}
    return {"compiled": [replace(first, targets=targets), *others]}


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"provenance": replace(OLD.provenance, date="2027-01-01", seconds=9.0, fingerprint="other")},
        {"provenance": replace(OLD.provenance, triton="3.8.0"), "compiled": []},  # which may compile to other code
        code(stages={name: [Line(f"{n}: %r9", None) for n in range(2)] for name in ("ttir", "ttgir", "ptx")}),
    ],
    ids=["itself", "another day", "another Triton", "registers of other numbers"],
)
def test_what_is_no_difference(project, same):
    assert differences(OLD, replace(OLD, **same)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output": OLD.output.replace("0.5", "0.25")}, "output line 3 was 'ratio = 0.5', is 'ratio = 0.25'"),
        ({"output": f"{OLD.output}more"}, "output line 9 was '', is 'more'"),
        ({"launched": {"toy_kernel": 6}}, "launched.toy_kernel was '5', is '6'"),
        ({"launches": {"0": launch(grid=(1, 7, 1))}}, "launches.0.grid.1 was '1', is '7'"),
        ({"pictures": {}}, "pictures.dot.png was 'iVBORw0KGgo=', is 'None'"),
        (code(registers=9), "compiled.0.targets.sm_90.registers was '8', is '9'"),
        (code(digests={}), "compiled.0.targets.sm_90.digests was "),
        (code(stages={}), "compiled.0.targets.sm_90.shown.0 was 'ptx', is 'None'"),
        ({"compiled": []}, "compiled.0 was "),
    ],
)
def test_a_difference_is_shown_where_it_begins(project, changes, said):
    (found,) = differences(OLD, replace(OLD, **changes))
    assert found.startswith(said)


def test_output_that_may_differ(toy):
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'differs = "it prints the time"\n')
    assert differences(OLD, replace(OLD, output="", launched={}))[0].startswith("launched")


# All of it


@pytest.fixture
def ran(monkeypatch):
    """The devices that snippets were run on, in place of running them."""
    devices = []
    monkeypatch.setattr(runner, "record", lambda snippet, device, **options: devices.append(device) or made("cpu"))
    return devices


def test_what_asks_the_network_is_left_out(toy, ran):
    assert cli.main(["check", "--replay"]) == 0 and ran == ["cpu"]
    toy.write("snippets/programs/recorder.toml", SETTINGS + "replay = false\n")
    assert cli.main(["check", "--replay"]) == 0 and ran == ["cpu"]


def test_nothing_is_run_again_before_all_is_well(toy, ran, capsys):
    toy.snippet("toy", "print(1)\n")
    assert cli.main(["check", "--replay"]) == 1 and ran == [] and "2 problems." in capsys.readouterr().out


def test_a_run_that_fails_and_one_that_says_something_else(toy, monkeypatch, capsys):
    def fail(snippet, device, **options):
        raise RecorderError("killed by SIGSEGV")

    monkeypatch.setattr(runner, "record", fail)
    assert cli.main(["check", "--replay"]) == 1
    assert capsys.readouterr().out == "programs/toy: killed by SIGSEGV\n1 problem.\n"
    monkeypatch.setattr(runner, "record", lambda *arguments, **options: replace(OLD, output="other\n"))
    assert cli.main(["check", "--replay"]) == 1
    said = capsys.readouterr()
    assert "programs/toy: output line 1 was " in said.out and "NOT as recorded" in said.err


def test_charts_of_another_style(toy, ran, capsys):
    whole = toy.files()
    recording.save(recording.load(TOY, "h200"), {name: "<svg/>" for name in charts("h200")})
    assert judge.all_problems() == [] and cli.main(["check", "--replay"]) == 1
    assert "recordings/programs/toy/h200.json: its charts are drawn otherwise now" in capsys.readouterr().out
    assert cli.main(["draw"]) == 0 and toy.files() == whole
    assert cli.main(["check", "--replay"]) == 0
