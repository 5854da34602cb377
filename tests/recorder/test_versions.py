# SPDX-License-Identifier: Apache-2.0
"""Record a snippet under several versions of Triton."""

import time

import pytest

from recorder import __main__ as cli
from recorder import fingerprint, judge, runner
from recorder.project import RecorderError, Snippet, how_to_record
from tests.limits import HANGS
from tests.toy import SETTINGS

TOY, OTHER = Snippet("programs/toy"), "cpu-triton-3.8.0"


@pytest.fixture
def versions(toy):
    toy.write("snippets/programs/recorder.toml", SETTINGS + 'triton = ["3.8.0"]\n')
    return toy


def test_the_pins_of_another_triton(toy):
    one, pinned = fingerprint.of(TOY, OTHER), fingerprint.of(TOY, "cpu")
    assert len({one, pinned, fingerprint.of(TOY, "cpu-triton-3.9.0"), fingerprint.of(TOY, "h200")}) == 4
    toy.write("requirements.txt", "torch==2.13.0\ntriton==3.9.0; sys_platform == 'linux'\nnumpy==2.4.6\n")
    assert fingerprint.of(TOY, OTHER) == one and fingerprint.of(TOY, "cpu") != pinned
    toy.write("requirements.txt", "torch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==3\n")
    assert fingerprint.of(TOY, OTHER) != one


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
    versions.record(OTHER)
    assert judge.all_problems() == []
    versions.write("snippets/programs/toy.py", "print(1)\n")
    (stale,) = [problem for problem in judge.all_problems() if OTHER in problem.path]
    assert (stale.fault, stale.fix) == ("stale", how_to_record(TOY.name, OTHER))
    assert stale.fix.endswith(f"--device {OTHER}")


PIP = """\
import os, sys
assert sys.argv[1] == "install" and "--no-deps" in sys.argv and sys.argv[-1].startswith("triton==")
target = sys.argv[sys.argv.index("--target") + 1]
os.makedirs(target)
open(target + "/half", "w").write(sys.argv[-1])
open("calls", "a").write("x")
if sys.argv[-1] == "triton==7":  # another process is faster
    os.makedirs(".cache/triton/7/whole")
sys.exit("no such version" if sys.argv[-1] == "triton==9" else 0)
"""


def fetch(version):
    return runner.fetch_triton(version, time.monotonic() + HANGS, lambda text: None)


def test_a_triton_is_fetched_once(project):
    project.write("pip.py", PIP)  # found before the real one
    folder = fetch("3.8.0")
    assert fetch("3.8.0") == folder == project.root / ".cache/triton/3.8.0"
    assert (folder / "half").read_text() == "triton==3.8.0" and (project.root / "calls").read_text() == "x"
    assert [path.name for path in folder.parent.iterdir()] == ["3.8.0"]


def test_a_triton_that_does_not_arrive_leaves_nothing(project):
    project.write("pip.py", PIP)
    message = r"fix: python -m pip install --no-deps --target \.cache/triton/9 triton==9 .*\n(.*\n)*no such version"
    with pytest.raises(RecorderError, match=message):
        fetch("9")
    assert list((project.root / ".cache/triton").iterdir()) == []


def test_of_two_that_fetch_a_triton_the_first_is_kept(project):
    project.write("pip.py", PIP)
    assert [path.name for path in fetch("7").iterdir()] == ["whole"]
    assert [path.name for path in (project.root / ".cache/triton").iterdir()] == ["7"]


def test_a_triton_for_which_there_is_no_room(project, monkeypatch):
    project.write("pip.py", PIP)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        fetch("3.8.0")
