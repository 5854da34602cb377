# SPDX-License-Identifier: Apache-2.0
"""Recordings on disk: replaced whole or not at all, and judged."""

import json
import os
import resource
import subprocess
import sys

import pytest

from recorder import recording
from recorder.project import RecorderError, Snippet, find, nearest, snippet_of_page
from tests.recorder.conftest import ROOT, TOY, made

SNIPPET = Snippet("programs/toy")
FOLDER = "recordings/programs/toy"


def faults():
    return [(problem.path, problem.fault) for problem in recording.all_problems()]


def edit(project, device, **changes):
    """Change a recording with an honest digest, as the recorder itself would."""
    path = recording.path_of(SNIPPET, device)
    kept = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({**kept, "digest": recording.digest(kept)}), "utf-8")


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
    """A real one, as far as a process can have it: its files may not grow past 64 kB."""
    path = tmp_path / "file.json"
    path.write_text("old")
    program = "import sys; from pathlib import Path; from recorder.recording import write_atomically;"
    program += "write_atomically(Path(sys.argv[1]), 'x' * 1_000_000)"

    def small_disk():
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then write() fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, preexec_fn=small_disk, capture_output=True, text=True
    )
    assert done.returncode and "OSError" in done.stderr, done.stderr
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_what_is_saved_can_be_loaded(project):
    project.snippet("toy", TOY)
    recording.save(SNIPPET, "cpu", made("cpu"), {"a": "<svg>ä</svg>"})
    kept = recording.load(SNIPPET, "cpu")
    assert {key: kept[key] for key in made("cpu")} == made("cpu")
    assert recording.chart(SNIPPET, "cpu", "a") == "<svg>ä</svg>"
    assert kept["digest"] == recording.digest(kept)


def test_charts_are_written_before_the_recording_that_names_them(project, monkeypatch):
    project.snippet("toy", TOY)
    monkeypatch.setattr(recording, "write_atomically", lambda path, text: written.append(path.name))
    written = []
    recording.save(SNIPPET, "cpu", made("cpu"), {"a": "", "b": ""})
    assert written == ["cpu.a.svg", "cpu.b.svg", "cpu.json"]


def test_the_digest_covers_everything_but_itself():
    whole = made("h200")
    digest = recording.digest(whole)
    assert recording.digest({**whole, "digest": "x"}) == digest
    assert recording.digest(dict(reversed(whole.items()))) == digest
    assert all(recording.digest({**whole, key: "other"}) != digest for key in whole)
    whole["benchmarks"][0]["rows"][0]["triton"][2] += 1e-9
    assert recording.digest(whole) != digest


# Judging


def test_all_is_well(toy):
    assert faults() == []


def test_stale(toy):
    toy.snippet("toy", TOY.replace("offsets < n", "offsets <= n"))
    assert faults() == [(f"{FOLDER}/cpu.json", "stale"), (f"{FOLDER}/h200.json", "stale")]
    cpu, h200 = recording.problems(SNIPPET)
    assert "snippets/programs/toy.py has changed" in str(cpu) and "python -m recorder run programs/toy" in cpu.mend
    assert "h200" in h200.mend


def test_only_what_a_comment_says(toy):
    toy.snippet("toy", TOY.replace("# a block", "# some integers"))
    assert faults() == []


def test_a_new_pin(toy):
    toy.write("requirements.txt", "torch==2.14.0\ntriton==3.8.0\nnumpy==2.4.6\n")
    assert faults() == [(f"{FOLDER}/cpu.json", "stale")]


def test_missing(project):
    project.snippet("toy", TOY)
    assert faults() == [(FOLDER, "missing")]


def test_edited(toy):
    path = toy.root / FOLDER / "h200.json"
    path.write_text(path.read_text("utf-8").replace("1,024", "1,025"), "utf-8")
    assert faults() == [(f"{FOLDER}/h200.json", "edited")]


def test_an_edited_and_a_missing_chart(toy):
    pytest.importorskip("matplotlib")
    (toy.root / FOLDER / "h200.bandwidth.svg").write_text("<svg/>")
    (toy.root / FOLDER / "h200.square.svg").unlink()
    assert faults() == [(f"{FOLDER}/h200.bandwidth.svg", "edited"), (f"{FOLDER}/h200.square.svg", "missing")]
    assert {problem.mend for problem in recording.problems(SNIPPET)} == {"python -m recorder draw programs/toy"}


STRAY = ["recordings/a.txt", f"{FOLDER}/notes.md", f"{FOLDER}/h200.old.svg", f"{FOLDER}/.x.json.1"]


@pytest.mark.parametrize("path", STRAY)
def test_orphans(toy, path):
    toy.write(path, "{}")
    assert faults() == [(path, "orphaned")]


def test_the_recordings_of_a_snippet_that_is_gone(toy):
    (toy.root / "snippets/programs/toy.py").unlink()
    assert {fault for _, fault in faults()} == {"orphaned"}
    assert f"{FOLDER}/cpu.json" in dict(faults())


@pytest.mark.parametrize("output", ["sum: 1,025\nratio = 0.5\n<b>bold</b>\nlist [1, 2]\n", "sum: 1,024\n", ""])
def test_devices_that_disagree(toy, output):
    edit(toy, "h200", output=output)
    assert faults() == [(f"{FOLDER}/h200.json", "disagrees")]
    assert "cpu printed" in recording.problems(SNIPPET)[0].why


def test_settings(toy):
    edit(toy, "h200", output="other\n")
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\ndiffers = "it prints the time"\n')
    assert faults() == []
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\ndevices = ["gpu"]\n')
    assert faults() == [(f"{FOLDER}/cpu.json", "orphaned")]
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\nstages = false\n')
    assert SNIPPET.settings.stages is False and SNIPPET.runs_on("cpu") and SNIPPET.runs_on("h200")


@pytest.mark.parametrize("name, setting, named", [("toi", "stages", "programs/toy"), ("toy", "stage", "stages")])
def test_settings_that_are_not_there(toy, name, setting, named):
    toy.write("pyproject.toml", f'[tool.recorder.snippets."programs/{name}"]\n{setting} = false\n')
    with pytest.raises(RecorderError, match=f"pyproject.toml .*nearest that exist: {named}|pyproject.toml, .*{named}"):
        recording.problems(SNIPPET)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"x"'])
def test_a_file_that_is_no_recording(toy, text):
    (toy.root / FOLDER / "cpu.json").write_text(text)
    with pytest.raises(RecorderError, match=r"recordings/programs/toy/cpu\.json.*git"):
        recording.all_problems()


def test_a_recording_is_read_again_when_it_has_changed(toy):
    before = recording.load(SNIPPET, "cpu")["output"]
    edit(toy, "cpu", output="other\n")
    assert (before, recording.load(SNIPPET, "cpu")["output"]) == (made("cpu")["output"], "other\n")


@pytest.mark.parametrize(
    ("load", "mend"), [(recording.load, "run"), (lambda snippet, device: recording.chart(snippet, device, "x"), "draw")]
)
def test_what_was_never_recorded(project, load, mend):
    project.snippet("toy", TOY)
    with pytest.raises(RecorderError, match=f"python -m recorder {mend} programs/toy"):
        load(SNIPPET, "cpu")


# Names


@pytest.mark.parametrize("name", ["programs/toy", "snippets/programs/toy.py", "programs/toy.py"])
def test_a_snippet_is_found_by_its_name_or_its_file(toy, name):
    assert find(name) == SNIPPET


def test_a_snippet_that_is_not_there(toy):
    with pytest.raises(RecorderError, match=r"no snippet 'programs/toi'.*nearest.*programs/toy"):
        find("programs/toi")


def test_names():
    assert snippet_of_page("programs/vector-add.md") == "programs/vector_add"
    assert nearest("x", []) == "; none exist yet"
    assert nearest("bandwith", ["zzz", "bandwidth"]).endswith(": bandwidth")
