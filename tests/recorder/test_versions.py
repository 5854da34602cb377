# SPDX-License-Identifier: Apache-2.0
"""A snippet recorded under several versions of Triton, and the table that lays what they said side by side."""

import html
import json
import re
import time

import pytest

from recorder import __main__ as cli
from recorder import claims, fingerprint, recording, runner, verdicts
from recorder.project import RecorderError, Snippet, interpreted, triton_of
from tests.recorder.conftest import made

TOY, OTHER = Snippet("programs/toy"), "cpu-triton-3.8.0"
DECLARED = '[tool.recorder.snippets."programs/toy"]\ntriton = ["3.8.0"]\ndiffers = "by version"\n'


@pytest.fixture
def versions(toy):
    toy.write("pyproject.toml", DECLARED)
    return toy


def record(project, device, output, version):
    new = {**made("h200" if device == "h200" else "cpu"), "device": device, "output": output, "benchmarks": []}
    place = {**new["provenance"], "triton": version, "fingerprint": fingerprint.of(TOY.path, device)}
    recording.save(TOY, device, {**new, "provenance": place}, {})


def test_names_of_devices():
    assert [triton_of(device) for device in ("cpu", OTHER, "h200")] == [None, "3.8.0", None]
    assert [interpreted(device) for device in ("cpu", OTHER, "h200")] == [True, True, False]


def test_only_what_is_declared_is_run(versions):
    assert TOY.runs_on(OTHER) and TOY.runs_on("cpu") and TOY.runs_on("h200") and not TOY.runs_on("cpu-triton-3.9.0")


def test_the_pins_of_another_triton(toy):
    one, pinned = fingerprint.of(TOY.path, OTHER), fingerprint.of(TOY.path, "cpu")
    assert len({one, pinned, fingerprint.of(TOY.path, "cpu-triton-3.9.0"), fingerprint.of(TOY.path, "h200")}) == 4
    toy.write("requirements.txt", "torch==2.13.0\ntriton==3.9.0; sys_platform == 'linux'\nnumpy==2.4.6\n")
    assert fingerprint.of(TOY.path, OTHER) == one and fingerprint.of(TOY.path, "cpu") != pinned
    toy.write("requirements.txt", "torch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==3\n")
    assert fingerprint.of(TOY.path, OTHER) != one


def test_commands(versions):
    said = "PYTHONPATH=.cache/triton/3.8.0 TRITON_INTERPRET=1 python snippets/programs/toy.py"
    assert runner.command(TOY, OTHER) == said
    assert recording.mend(TOY.name, OTHER) == f"python -m recorder run {TOY.name} --device {OTHER}"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["run"], [OTHER]),
        (["run", "programs/toy"], ["cpu", OTHER]),
        (["run", "--all", "--device", "cpu"], ["cpu"]),
        (["run", "programs/toy", "--device", OTHER], [OTHER]),
        (["run", "programs/toy", "--device", "cpu-triton-3.9.0"], []),
    ],
)
def test_run(versions, monkeypatch, arguments, expected):
    done = []
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "update", lambda snippet, device, **options: bool(done.append(device)))
    assert cli.main(arguments) == 0 and done == expected


def test_check_is_as_strict_about_another_triton(versions):
    record(versions, OTHER, "x\n", "3.8.0")
    assert recording.all_problems() == []
    versions.snippet("toy", "print(1)\n")
    stale = [problem for problem in recording.all_problems() if OTHER in problem.path]
    assert [problem.fault for problem in stale] == ["stale"] and OTHER in stale[0].mend


PIP = """\
import os, sys
assert sys.argv[1] == "install" and "--no-deps" in sys.argv and sys.argv[-1].startswith("triton==")
target = sys.argv[sys.argv.index("--target") + 1]
os.makedirs(target)
open(target + "/half", "w").write(sys.argv[-1])
open("calls", "a").write("x")
sys.exit("no such version" if sys.argv[-1] == "triton==9" else 0)
"""


def fetch(version):
    return runner.fetch_triton(version, time.monotonic() + 60, lambda text: None)


def test_a_triton_is_fetched_once(project):
    project.write("pip.py", PIP)  # found before the real one
    folder = fetch("3.8.0")
    assert fetch("3.8.0") == folder == project.root / ".cache/triton/3.8.0"
    assert (folder / "half").read_text() == "triton==3.8.0" and (project.root / "calls").read_text() == "x"
    assert [path.name for path in folder.parent.iterdir()] == ["3.8.0"]


def test_a_triton_that_does_not_arrive_leaves_nothing(project):
    project.write("pip.py", PIP)
    with pytest.raises(RecorderError, match="no such version"):
        fetch("9")
    assert list((project.root / ".cache/triton").iterdir()) == []


@pytest.mark.parametrize("device", ["cpu", OTHER])
def test_the_surroundings_of_a_run(versions, monkeypatch, device):
    seen = []

    def run(arguments, more, folder, deadline, progress):
        seen.append((arguments[:3], more))
        new = {key: made("cpu")[key] for key in ("provenance", "output", "benchmarks", "launches")}
        with open(f"{folder}/result.json", "w") as file:
            json.dump({**new, "launches": [], "pictures": {}}, file)

    monkeypatch.setattr(runner, "_run", run)
    monkeypatch.setattr(runner, "fetch_triton", lambda version, deadline, progress: f"/tritons/{version}")
    assert runner.record(TOY, device)["device"] == device
    [(arguments, more)] = seen
    assert arguments == ["recorder.observe", "programs/toy", device] and more["TRITON_INTERPRET"] == "1"
    assert more.get("PYTHONPATH") == (f"/tritons/3.8.0:{versions.root}" if device == OTHER else None)


# The table, and claims on it

OUTPUT = """\
## Numbers
  `a & b`
    ran: {0}
    compiles: {1}
  plain
    ran: right
    compiles: yes
## Counts
  Numbers, right: 2
"""


def test_parse():
    parsed = verdicts.parse(OUTPUT.format("error: a: b", "yes"))
    first = {"ran": "error: a: b", "compiles": "yes"}
    assert parsed["Numbers"] == {"`a & b`": first, "plain": {"ran": "right", "compiles": "yes"}}


def test_a_claim_on_a_verdict():
    recording = {**made("cpu"), "output": OUTPUT.format("differs: got 1", "yes")}
    assert claims.check('verdict("a & b"); ; != "right"', recording) == ("differs: got 1",) * 2
    with pytest.raises(RecorderError, match=r"relies on"):
        claims.check('verdict("plain"); ; != "right"', recording)
    with pytest.raises(RecorderError, match=r"no row 'plan'.*plain"):
        claims.check('verdict("plan")', recording)


def shown(text):
    """Rows of cells, without tags."""
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]


def test_the_table_of_all_versions(versions):
    record(versions, "cpu-triton-3.10.0", OUTPUT.format("right", "yes"), "3.10.0")
    record(versions, "cpu-triton-3.8.0", OUTPUT.format("differs: got 1", "yes"), "3.8.0")
    record(versions, "cpu", OUTPUT.format("differs: got 1", "refused: <no>"), "3.7.1")
    record(versions, "h200", OUTPUT.format("crash: SIGSEGV", "yes"), "3.6.0")
    text = verdicts.verdicts(TOY, recording.load(TOY, "cpu"), section="Numbers")
    head, first = shown(text)
    assert head == ["Feature", "In the interpreter", "On NVIDIA H200, Triton 3.6.0", "Compiles"]
    assert first == [
        "a &amp; b",
        "3.7.1 to 3.8.0 differs: got 13.10.0 right",
        "crash: SIGSEGV",
        "3.7.1 refused: &lt;no&gt;3.8.0 to 3.10.0 yes",
    ]
    assert "<strong>Right everywhere:</strong> plain<" in text
    text = verdicts.verdicts(TOY, recording.load(TOY, "cpu"), section="Numbers", every=True)
    assert shown(text)[2] == ["plain", "right", "right", "yes"] and "everywhere" not in text
    assert "verdict--differs" in text and "verdict--crash" in text and "<code>a &amp; b</code>" in text
    assert "interpreter · Triton 3.7.1, 3.8.0, 3.10.0 · torch 2.13.0 · 2026-01-02<br>NVIDIA H200 · Triton 3.6.0" in (
        html.unescape(text)
    )


def test_a_row_that_a_recording_lacks_and_a_section_that_there_is_not(versions):
    record(versions, "cpu", OUTPUT.format("right", "yes"), "3.7.1")
    record(versions, "h200", "## Numbers\n  plain\n    ran: right\n", "3.6.0")
    _, first = shown(verdicts.verdicts(TOY, recording.load(TOY, "cpu"), section="Numbers"))
    assert first == ["a &amp; b", "right", "–"]  # and all that is shown compiles
    with pytest.raises(RecorderError, match=r"'Number'.*Numbers"):
        verdicts.verdicts(TOY, recording.load(TOY, "cpu"), section="Number")
