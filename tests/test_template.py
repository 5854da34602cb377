# SPDX-License-Identifier: Apache-2.0
"""The package that readers download: what its zip holds, and its two commands on a machine that has only torch."""

import io
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from recorder.project import ROOT
from render import template
from render.code import zipped
from snippets.pytorch.package import FILES
from tests.limits import HANGS

OURS = r"8<|\b(from|import) (snippets|recorder|render|tests)\b|[Cc]ourse\b"  # what is of this site


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("downloaded")
    zipfile.ZipFile(io.BytesIO(zipped(template.texts()))).extractall(folder)
    return folder / "rownorm"


def test_the_zip_holds_the_package_and_nothing_of_ours():
    texts = template.texts()
    assert {name.partition("/")[0] for name in texts} == {template.name()} == {Path(template.ZIP).stem}
    for name, text in texts.items():
        assert not re.search(OURS, text), name
    named = texts["rownorm/pyproject.toml"]
    assert tomllib.loads(named) == tomllib.loads((ROOT / "template/pyproject.toml").read_text("utf-8"))


def test_every_file_that_git_has_is_packed_and_recorded():
    call = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "template"]
    known = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert sorted(known) == template.files()
    assert {*FILES} == {*known} - {"template/.gitignore"}


def test_its_workflow_runs_its_two_commands():
    workflow = yaml.safe_load((ROOT / "template/.github/workflows/test.yml").read_text("utf-8"))
    interpreter, gpu = workflow["jobs"].values()
    commands = [[step["run"] for step in job["steps"] if "run" in step] for job in (interpreter, gpu)]
    assert commands[0] == ['pip install -e ".[test]"', "pytest"] and interpreter["env"]["TRITON_INTERPRET"] == "1"
    assert [line.removeprefix(".venv/bin/") for line in commands[1][1:]] == commands[0] and "env" not in gpu
    assert "TRITON_INTERPRET" not in str(gpu) and "vars.GPU_RUNNER != ''" in gpu["if"]


def test_what_somebody_left_behind_is_not_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(template, "ROOT", tmp_path)
    for name in ("src/a/b.py", "src/a/__pycache__/b.pyc", "src/a.egg-info/PKG-INFO", "build/lib/a/b.py", "notes.txt"):
        path = tmp_path / "template" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "template/src/a/link.py").symlink_to(Path(__file__))
    assert template.files() == ["template/src/a/b.py"]


@pytest.mark.shown
@pytest.mark.long
def test_its_two_commands_on_a_fresh_machine(package, tmp_path):
    """As the README gives them. What pip would fetch is installed already, for here may be no network."""
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=os.name != "nt")
    bin, here = environment / "bin", [place for place in sys.path if place.endswith("-packages")]
    (next(environment.glob("lib/python*/site-packages")) / "installed.pth").write_text("\n".join(here))
    for command in ("pip", "pytest"):
        (bin / command).write_text(f'#!/bin/sh\nexec "{bin / "python"}" -m {command} "$@"\n')
        (bin / command).chmod(0o755)
    alone = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_CONFIG_FILE": os.devnull}  # 0: without
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "TRITON_", "PYT"))}
    env = kept | alone | {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    first, second = re.search(r"```console\n(.+)\n(.+)\n```", (package / "README.md").read_text("utf-8")).groups()
    said = [
        subprocess.run(
            ["sh", "-c", line], cwd=package, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=HANGS,
        )
        for line in (first, second)
    ]  # fmt: skip
    assert said[0].returncode == 0 and "Successfully installed rownorm-0.1.0" in said[0].stdout, said[0].stdout
    assert said[1].returncode == 0 and "kernels: interpreted" in said[1].stdout, said[1].stdout
    passed, skipped = re.search(r"(\d+) passed, (\d+) skipped", said[1].stdout).groups()
    assert int(passed) > 20 and skipped == "1", "only the test that takes two GPUs"
