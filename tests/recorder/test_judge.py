# SPDX-License-Identifier: Apache-2.0
"""Find recordings that are stale, missing, edited or orphaned, and files that cannot be read."""

import json

import pytest

from recorder import judge
from recorder.project import Snippet
from tests.toy import OUTPUT, SETTINGS, TOY

SNIPPET = Snippet("programs/toy")
SOURCE, TABLE = "snippets/programs/toy.py", "snippets/programs/recorder.toml"
FOLDER = "recordings/programs/toy"
CPU, H200 = f"{FOLDER}/cpu.json", f"{FOLDER}/h200.json"


def faults():
    return [(problem.path, problem.fault) for problem in judge.all_problems()]


def test_all_is_well(toy):
    assert faults() == []


# Stale


def test_code_that_has_changed(toy):
    toy.snippet("toy", TOY.replace("offsets < n", "offsets <= n"))
    assert faults() == [(CPU, "stale"), (H200, "stale")]
    cpu, h200 = judge.problems(SNIPPET)
    assert f"{SOURCE} has changed" in str(cpu) and "python -m recorder run programs/toy" in cpu.fix
    assert "on a machine with this GPU: h200" in h200.fix


def test_only_what_a_comment_says(toy):
    toy.snippet("toy", TOY.replace("# a block", "# some integers"))
    assert faults() == []


def test_a_new_pin(toy):
    toy.write("requirements.txt", "torch==2.14.0\ntriton==3.8.0\nnumpy==2.4.6\n")
    assert faults() == [(CPU, "stale")]


@pytest.mark.parametrize(
    ("setting", "stale"),
    [
        ("launches = ['toy_kernel[0]', 'toy_kernel[1]', 'toy_kernel[2]']", [CPU]),
        ("stages = []", [CPU]),
        ('stages = [{launch = "toy_kernel[0]", stages = ["ptx"]}]', [CPU]),
        ("compiled = true", [CPU]),
        ('differs = "it prints the time"', [CPU, H200]),
        ('devices = ["gpu", "cpu"]', []),
        ("replay = false", []),
    ],
)
def test_settings_that_have_changed(toy, setting, stale):
    """A recording becomes stale with the settings that it follows."""
    name = setting.partition(" =")[0]
    kept = [line for line in SETTINGS.splitlines() if not line.startswith(name)]
    toy.write(TABLE, "\n".join([*kept, setting, ""]))
    assert faults() == [(path, "stale") for path in stale]


# Missing


def test_what_was_never_recorded(project):
    project.snippet("toy", TOY, '[toy]\ntriton = ["3.8.0"]\n')
    other = f"{FOLDER}/cpu-triton-3.8.0.json"
    assert faults() == [(CPU, "missing"), (other, "missing"), (FOLDER, "missing")]
    assert judge.problems(SNIPPET)[1].fix == "python -m recorder run programs/toy --device cpu-triton-3.8.0"


@pytest.mark.parametrize(("gone", "path"), [("cpu", CPU), ("h200", FOLDER)])
def test_one_that_is_deleted_is_missing_though_another_stays(toy, gone, path):
    for file in (toy.root / FOLDER).glob(f"{gone}.*"):
        file.unlink()
    assert faults() == [(path, "missing")]


def test_a_version_of_triton_that_was_never_recorded(toy):
    toy.write(TABLE, SETTINGS + 'triton = ["3.8.0"]\n')
    assert faults() == [(f"{FOLDER}/cpu-triton-3.8.0.json", "missing")]


# Edited, and in the wrong place


def test_edited(toy):
    toy.write(H200, toy.files()[H200].replace(b"1,024", b"1,025"))
    assert faults() == [(H200, "edited")]


@pytest.mark.parametrize(
    ("path", "copy", "why"),
    [
        (CPU, "recordings/programs/two/cpu.json", "it is of programs/toy on cpu"),
        (H200, f"{FOLDER}/h100.json", "it is of programs/toy on h200"),
    ],
)
def test_a_recording_under_the_name_of_another(toy, path, copy, why):
    """Its fingerprint fits, for the code and the kind of device are the same: a copy would pass for a run."""
    toy.snippet("two", TOY, SETTINGS + SETTINGS.replace("toy", "two"))
    toy.write(copy, toy.files()[path])
    edited = next(problem for problem in judge.all_problems() if problem.path == copy)
    assert (edited.fault, edited.why) == ("edited", why)


STRAY = ["recordings/a.txt", f"{FOLDER}/notes.md", f"{FOLDER}/h200.bandwidth.svg", f"{FOLDER}/.x.json.1"]


@pytest.mark.parametrize("path", STRAY)
def test_orphans(toy, path):
    toy.write(path, "{}")
    assert faults() == [(path, "orphaned")]


def test_the_recordings_of_a_snippet_that_is_gone(toy):
    (toy.root / SOURCE).unlink()
    (toy.root / TABLE).unlink()
    assert faults() == [(path, "orphaned") for path in (CPU, H200)]


def test_a_device_that_a_snippet_does_not_run_on(toy):
    toy.write(TABLE, SETTINGS + 'devices = ["gpu"]\n')
    assert faults() == [(CPU, "orphaned")]


# Devices that disagree


@pytest.mark.parametrize("output", [OUTPUT.replace("1,024", "1,025"), "sum: 1,024\n", ""])
def test_devices_that_disagree(toy, output):
    toy.record("h200", output=output)
    assert faults() == [(H200, "disagrees")]
    assert "cpu printed" in judge.problems(SNIPPET)[0].why
    toy.write(TABLE, SETTINGS + 'differs = "it prints the time"\n')
    toy.record("cpu")
    toy.record("h200", output=output)
    assert faults() == []


def test_gpus_that_may_disagree(toy):
    toy.write(TABLE, SETTINGS + 'differs_on_gpus = "it names the GPU"\n')
    assert faults() == []  # for what it changes is not recorded
    toy.record("h200", output="other\n"), toy.record("h100", output="another\n")
    assert faults() == []
    toy.record("cpu-triton-3.8.0", output="a third\n")
    toy.write(TABLE, SETTINGS + 'triton = ["3.8.0"]\ndiffers_on_gpus = "it names the GPU"\n')
    assert [fault for _, fault in faults()] == ["disagrees"]


# Beside the recordings


@pytest.mark.parametrize("name", ["__init__.py", "data.csv", "helper.so", "programs/recorder.toml.bak"])
def test_files_among_the_snippets_that_no_fingerprint_covers(toy, name):
    toy.write(f"snippets/{name}", "")
    toy.write("snippets/programs/__pycache__/toy.cpython-311.pyc", "")
    assert faults() == [(f"snippets/{name}", "orphaned")]


def test_a_snippet_without_a_test(toy):
    (toy.root / "tests/snippets/programs/test_toy.py").unlink()
    assert faults() == [(SOURCE, "untested")]
    assert judge.all_problems()[0].fix == "write tests/snippets/programs/test_toy.py"
    toy.write(TABLE, SETTINGS + 'untested = "the lesson after it is its test"\n')
    assert faults() == []


def test_a_test_file_without_a_test(toy):
    toy.write("tests/snippets/programs/test_toy.py", "# def test_toy(): later\n")
    assert faults() == [(SOURCE, "untested")]


def test_what_is_left_to_do(toy):
    toy.write("tests/snippets/programs/test_toy.py", "def test_toy():\n    pass  # TODO: the mask\n")
    assert faults() == [("tests/snippets/programs/test_toy.py:2", "unfinished")]


def test_a_notebook_without_a_script(toy):
    toy.write("docs/en/programs/old-lab.ipynb", "{}")
    toy.write("docs/en/programs/.ipynb_checkpoints/old-lab-checkpoint.ipynb", "{}")
    assert faults() == [("docs/en/programs/old-lab.ipynb", "orphaned")]


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"cells": [], "metadata": 1}', b"\xff"])
def test_a_notebook_that_is_none(toy, text):
    toy.write("snippets/programs/labs/a_lab.py", "# %%\nprint(1)\n")
    assert faults() == [("docs/en/programs/a-lab.ipynb", "missing")]
    toy.write("docs/en/programs/a-lab.ipynb", text)
    assert faults() == [("docs/en/programs/a-lab.ipynb", "edited")]


# What cannot be read is one of the problems, a line long


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        (CPU, "[" * 100_000, "is not a whole recording"),
        (CPU, "{}", "of version 1"),
        (CPU, b'"\xff"', "is not a whole recording"),
        (SOURCE, "def f(:\n", f"{SOURCE}:1: it is not Python"),
        (SOURCE, "print('\0')\n", f"{SOURCE}:1: it is not Python"),
        (SOURCE, "# \xff\n".encode("latin-1"), f"{SOURCE} is not UTF-8"),
        (SOURCE, "from snippets.programs import nothing\n", "there is no file of ours for snippets.programs.nothing"),
        (TABLE, "[toy\n", f"{TABLE} is not TOML"),
        (TABLE, b'[toy]\ndiffers = "\xff"\n', f"{TABLE} is not UTF-8"),
        (TABLE, "[toi]\nreplay = false\n", f"{TABLE} has settings for 'toi'; the nearest that exist: toy"),
        (TABLE, "[toy]\nstage = []\n", f"{TABLE}, toy: no setting is called 'stage'; the nearest that exist: stages"),
        (TABLE, '[toy]\nlaunches = ["a"]\n', f"{TABLE}, toy: 'a' names no launch; it is its kernel"),
        (TABLE, "toy = 1\n", f"{TABLE}, toy: Expected `object`"),
    ],
    ids=str,
)
def test_what_cannot_be_read(toy, path, text, why):
    toy.write(path, text)
    problems = judge.all_problems()
    assert {problem.fault for problem in problems} == {"unreadable"}
    assert any(why in problem.why for problem in problems) and all(str(p).count("\n") == 0 for p in problems)


def test_every_problem_is_found_at_once(toy):
    toy.snippet("new", "def f(:\n")
    toy.write(CPU, json.dumps({"version": 3}))
    toy.write(H200, toy.files()[H200].replace(b"1,024", b"1,025"))
    new = "recordings/programs/new"
    assert faults() == [(f"{new}/cpu.json", "missing"), (new, "missing"), (CPU, "unreadable"), (H200, "edited")]
