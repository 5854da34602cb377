# SPDX-License-Identifier: Apache-2.0
"""Refuse clearly, and by name, faults that once passed, ended in a traceback, or came with harmful advice."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from recorder import __main__ as cli
from recorder import judge, new, project, recording, rename, runner
from recorder.project import RecorderError, Snippet
from tests.toy import SETTINGS, runs_snippets

TOY = Snippet("programs/toy")
FILE = "recordings/programs/toy/h200.json"

# Names


@pytest.mark.parametrize("name", ["class", "match", "torch", "triton", "numpy", "json", "numba", "msgspec", "tests"])
@pytest.mark.parametrize("begin", [new.new, lambda name: rename.rename("programs/toy", name)], ids=["new", "rename"])
def test_a_name_that_python_or_a_package_has_is_refused(toy, name, begin):
    toy.write("mkdocs.yml", "nav:\n  - programs/toy.md\n")
    toy.write("requirements.txt", "numba==1 ; sys_platform == 'linux'\n")
    before = toy.files()
    with pytest.raises(RecorderError, match=f"^'{name}' is a (keyword|package).*take another"):
        begin(f"programs/{name}")
    assert toy.files() == before and not Snippet(f"programs/{name}").path.exists()


# Settings and recordings


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('devices = ["cpu", "gup"]', 'there is no kind of device \'gup\'; the kinds are "cpu" and "gpu"'),
        ('devices = ["h200"]', "there is no kind of device 'h200'"),
        ("processes = 0", "processes = 0 would measure nothing"),
        ("processes = -2", "processes = -2 would measure nothing"),
        ('triton = ["latest"]', "'latest' is no version of Triton such as '3.9.0'"),
    ],
)
def test_settings_that_mean_nothing_are_refused_and_nothing_is_to_be_removed(toy, line, message):
    toy.write("snippets/programs/recorder.toml", f"{SETTINGS}{line}\n")
    problems = "\n".join(map(str, judge.all_problems()))
    assert f"snippets/programs/recorder.toml, toy: {message}" in problems and "rm " not in problems


def swapped(value):
    """Return the same JSON with the entries of each object, or the rows of each list, in reverse order."""
    if isinstance(value, dict):
        return dict(reversed([(key, swapped(part)) for key, part in value.items()]))
    return [swapped(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("part", ["lines", "rows", "launched", "provenance"])
def test_what_stands_in_another_order_was_edited(toy, part):
    plain = json.loads((toy.root / FILE).read_text("utf-8"))
    holder = plain if part in plain else plain["benchmarks"][0]
    turned = holder[part][::-1] if part == "rows" else swapped(holder[part])
    if part == "launched":
        turned = {"second": 1, **holder[part]}
    holder[part] = turned
    toy.write(FILE, recording.spell(plain) + "\n")
    (problem,) = [each for each in judge.all_problems() if each.path == FILE]
    assert problem.fault == "edited"


# Files that lead elsewhere, or are left over


@pytest.mark.parametrize(
    "place", ["snippets/elsewhere", "snippets/programs/more.py", "recordings/programs/toy/b200.json"]
)
def test_a_link_that_leads_out_of_the_checkout_is_refused(toy, tmp_path_factory, place):
    outside = tmp_path_factory.mktemp("outside")
    target = outside if "." not in place else outside / "secret"
    (outside / "secret").write_text("print('secret')\n")
    (toy.root / place).symlink_to(target)
    assert f"{place}: orphaned: it is a link that leads out of the checkout" in "\n".join(
        map(str, judge.all_problems())
    )
    path = toy.root / place
    with pytest.raises(RecorderError, match=f"^{place}.* leads out of the checkout"):
        project.read_text(path / "secret" if path.is_dir() else path)


def test_a_link_within_the_checkout_is_none(toy):
    toy.write("docs/en/a.svg", "<svg/>")
    (toy.root / "docs/en/b.svg").symlink_to(toy.root / "docs/en/a.svg")
    assert project.links_outside() == []


def test_git_removes_only_what_it_knows(toy):
    left = "recordings/programs/toy/left.txt"
    toy.write(left, "")
    advice = lambda: [each.fix for each in judge.orphans()]
    assert advice() == [f"rm {left}"]
    subprocess.run(["git", "init", "-q", str(toy.root)], check=True)
    assert advice() == [f"rm {left}"]
    subprocess.run(["git", "-C", str(toy.root), "add", left], check=True)
    assert advice() == [f"git rm {left}"]


# Runs


@pytest.mark.parametrize(
    ("left", "message"),
    [
        (None, "it ended without a result, as `os._exit` does; let main() return"),
        ("", "its result is no whole JSON"),
        ('{"provenance": ', "its result is no whole JSON"),
        ("[]", "its result is no object of JSON"),
        ("{}", "its result is not what a recording holds (KeyError: 'provenance')"),
        (
            '{"launches": [], "output": 1, "benchmarks": [], "pictures": {}, "provenance": {}}',
            "its result is not what a",
        ),
    ],
)
def test_a_result_that_is_not_whole_fails_its_own_job_alone(toy, monkeypatch, capsys, left, message):
    toy.snippet("other", "print(1)\n")
    whole = {"launches": [], "output": "1\n", "benchmarks": [], "pictures": {}}
    whole["provenance"] = {name: "1" for name in ("device", "python", "torch", "triton", "numpy")}

    def run(arguments, *_):
        result = next(each for each in arguments if each.endswith("result.json"))
        text = left if "programs/other" in arguments else json.dumps(whole)
        if text is not None:
            Path(result).write_text(text)

    monkeypatch.setattr(runner, "_run", run)
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    toy.write("snippets/programs/recorder.toml", "")
    assert cli.main(["run", "programs/other", "programs/toy"]) == 1
    err = capsys.readouterr().err
    assert f"FAILED: {message}" in err and "1 failed" in err and "[2/2] programs/toy" in err


@runs_snippets
def test_a_snippet_that_ends_its_process(toy):
    with pytest.raises(RecorderError, match="it ended without a result"):
        runner.record(toy.snippet("ends", "import os\nos._exit(0)\n"), "cpu")


def test_a_full_folder_of_temporary_files_is_named(toy, monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(runner.shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(runner, "_run", lambda arguments, *_: Path(arguments[3]).write_text('{"output": "1'))
    with pytest.raises(RecorderError, match=r"no whole JSON(?s:.*)no room left in \S+; free some, or .* TMPDIR"):
        runner.record(TOY, "cpu")


@pytest.mark.parametrize("text", [f"x = {'-' * 5000}1\n", f"x = {' + '.join(['1'] * 5000)}\n", f"x = y{'.z' * 3000}\n"])
def test_an_expression_too_deep_to_be_followed_is_reported_with_its_file(toy, text):
    toy.write("snippets/programs/toy.py", text)
    problems = "\n".join(map(str, judge.all_problems()))
    assert "snippets/programs/toy.py: an expression in it is too deep to be followed" in problems
