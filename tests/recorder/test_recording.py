# SPDX-License-Identifier: Apache-2.0
"""Replace recordings on disk whole or not at all, and answer questions about one."""

import os
import resource
import signal
import subprocess
import sys

import msgspec
import pytest

from recorder import recording
from recorder.project import RecorderError, Snippet
from recorder.recording import Reading
from tests.toy import ROOT, made

SNIPPET = Snippet("programs/toy")
FILE = "recordings/programs/toy/cpu.json"


# Writing


def test_a_file_is_written_with_its_folder(tmp_path):
    path = tmp_path / "a" / "b" / "file.json"
    recording.write_atomically(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch, step, error):
    path = tmp_path / "file.json"
    path.write_text("old")

    def fail(*args):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        recording.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_a_full_disk_leaves_the_old_file_whole(tmp_path):
    """As close to a full disk as a process can get: its files may not grow past 64 kB."""
    path = tmp_path / "file.json"
    path.write_text("old")
    program = "import sys; from pathlib import Path; from recorder.recording import write_atomically;"
    program += "write_atomically(Path(sys.argv[1]), 'x' * 1_000_000)"

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then write() fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, preexec_fn=small_disk, capture_output=True, text=True
    )
    assert done.returncode and "OSError" in done.stderr, done.stderr
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_what_is_saved_can_be_loaded(project, device):
    recording.save(made(device))
    assert recording.load(SNIPPET, device) == made(device) and recording.as_written(SNIPPET, device)


def test_a_file_has_a_row_a_line(toy):
    """A diff then shows what has changed."""
    before = toy.files()[FILE].decode().splitlines()
    toy.record("cpu", output=made("cpu").output.replace("0.5", "0.25"))
    after = toy.files()[FILE].decode().splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert changed[:-1] == [('  "ratio = 0.5",', '  "ratio = 0.25",')] and '"digest"' in changed[-1][0]


# Reading


BROKEN = {
    "": "Expecting value",
    "[]": "it holds no recording",
    "[" * 100_000: "recursion",
    '{"version": 2}': "'output'",
    '{"version": 2, "output": [1]}': "expected str instance",
    '{"version": 2, "output": [], "snippet": "x"}': "missing required field",
    '{"version": 2, "output": [], "snippet": "x", "new": 1}': "unknown field",
    b'"\xff"': "utf-8",
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_file_that_is_no_recording(toy, text, reason):
    toy.write(FILE, text)
    with pytest.raises(RecorderError, match=rf"(?s){FILE} is not a whole recording \(.*{reason}.*restore it with git"):
        recording.load(SNIPPET, "cpu")


@pytest.mark.parametrize("text", ["{}", '{"snippet": "programs/toy", "output": "sum: 2", "source": {}}'])
def test_a_recording_of_the_first_version(toy, text):
    toy.write(FILE, text)
    with pytest.raises(RecorderError, match=f"{FILE} is of version 1\\b.*: python -m recorder run programs/toy"):
        recording.load(SNIPPET, "cpu")


def test_a_recording_is_read_again_when_it_has_changed(toy):
    before = recording.load(SNIPPET, "cpu").output
    toy.record("cpu", output="other\n")
    assert (before, recording.load(SNIPPET, "cpu").output) == (made("cpu").output, "other\n")


def test_what_was_never_recorded(project):
    with pytest.raises(RecorderError, match=r"there is no recording .* python -m recorder run programs/toy"):
        recording.load(SNIPPET, "cpu")


# Asking


CPU, H200 = made("cpu"), made("h200")


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: H200.benchmark("bandwith"), r"no benchmark 'bandwith'; the nearest that exist: bandwidth"),
        (lambda: H200.benchmark("bandwidth", "triton", "torch"), r"no line 'torch'.*triton"),
        (
            lambda: CPU.launch("toy_kernel[5]"),
            r"there is no launch toy_kernel\[5\]; the run launched toy_kernel 5 times",
        ),
        (
            lambda: CPU.launch("toy_kernel[4]"),
            r"launch toy_kernel\[4\] was counted.* keeps .*3\]: add it to `launches` of programs/toy",
        ),
        (lambda: CPU.launch(0), r"0 names no launch.*such as add_kernel\[0\]; here: toy_kernel\[0\], toy_kernel"),
        (lambda: CPU.launch(), r"which launch is meant.*toy_kernel\[0\], toy_kernel\[1\]"),
        (lambda: CPU.launch("other[0]"), r"there is no launch other\[0\]; the run launched toy_kernel"),
        (lambda: CPU.traced("toy_kernel[1]"), r"the accesses of launch toy_kernel\[1\] were not written down"),
        (lambda: CPU.code("toy_kernel[2]", "sm_90"), r"no compiled launch toy_kernel\[2\].*toy_kernel\[1\]"),
        (lambda: CPU.code("toy_kernel[0]", "sm_91"), r"no target 'sm_91'.*sm_90"),
        (lambda: CPU.compiled_from("toy_kernel[2]"), r"no compiled launch toy_kernel\[2\]"),
        (
            lambda: CPU.stage("toy_kernel[0]", "sm_90", "llir"),
            r"'llir' of launch toy_kernel\[0\] for sm_90 was compared.*add it to `stages`",
        ),
        (lambda: CPU.stage("toy_kernel[0]", "sm_90", "sas"), r"no stage 'sas' for sm_90"),
    ],
)
def test_a_question_about_what_a_recording_lacks_is_refused(project, ask, answer):
    with pytest.raises(RecorderError, match=answer):
        ask()


def test_what_a_recording_holds():
    assert CPU.traced("toy_kernel[0]") is CPU.launch("toy_kernel[0]")
    assert H200.benchmark("square", "copy").x == ["m", "n"]
    assert CPU.compiled_from("toy_kernel[0]").targets["sm_90"].text("ptx").endswith("\nret;")
    assert CPU.stage("toy_kernel[0]", "sm_90", "ptx") == CPU.code("toy_kernel[0]", "sm_90").stages["ptx"]


def test_medians():
    row = H200.benchmark("bandwidth").medians()[2**20]
    assert (row.triton, row["triton"].least, row.triton.most) == (10.0, 20 / 3, 20.0)
    assert H200.benchmark("square").medians()[2, 3].copy.most == 8.0
    reading = Reading(x=["a"], y={"2**20": [1.0]})
    table = msgspec.structs.replace(H200.benchmark("bandwidth"), rows=[reading])
    assert table.medians()["a"]["2**20"] == 1.0 and table.medians()["a"].n == "a"
