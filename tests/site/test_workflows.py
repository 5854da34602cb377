# SPDX-License-Identifier: Apache-2.0
"""What is published was tested, and a GPU runs only what somebody we know asked for. zizmor checks the rest."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
# YAML 1.1 reads the key `on` as true; the base loader leaves every scalar a string.
CI, DEPLOY, GPU, _ = WORKFLOWS = [
    yaml.load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"), Loader=yaml.BaseLoader)
    for name in ("ci", "deploy", "gpu", "weekly")
]
JOBS = {(workflow["name"], name): job for workflow in WORKFLOWS for name, job in workflow["jobs"].items()}
HOSTED = re.compile(r"(ubuntu|macos|windows)-[0-9.]+|\$\{\{ matrix\.os \}\}")
ASKED_FOR = "github.event.pull_request.head.repo.full_name == github.repository && github.event.label.name == 'gpu'"


def commands(job: dict) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


def same(condition: str, expected: str) -> bool:
    return "".join(condition.split()) == "".join(expected.split())


def pins(file: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / file).read_text("utf-8"), re.MULTILINE))


def test_nothing_is_published_before_the_tests_have_passed():
    jobs = DEPLOY["jobs"]
    publish = next(job for job in jobs.values() if "actions/deploy-pages" in str(job))
    assert publish["needs"] == "build"
    assert jobs["build"]["needs"] == "tests"
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert "bash .ci/run" in commands(CI["jobs"]["test"])
    # A condition of their own could run the later jobs after a failure, and this key passes a failure off as success.
    assert not {"if"} & (publish.keys() | jobs["build"].keys())
    assert not any("continue-on-error" in part for job in CI["jobs"].values() for part in [job, *job["steps"]])


def test_a_push_to_main_is_tested_once():
    assert DEPLOY["on"]["push"]["branches"] == ["main"]
    assert "workflow_call" in CI["on"]
    assert CI["on"]["push"] == {"branches-ignore": ["main"]}


def test_what_is_published_is_built_from_hashed_packages_only():
    build = commands(DEPLOY["jobs"]["build"])
    installs = [line for line in build if re.search(r"\b(pip|uv|uvx|pipx|make|npm|apt-get)\b", line)]
    assert installs == ["python -m pip install --require-hashes --only-binary :all: -r .github/requirements-deploy.txt"]
    assert build[build.index(installs[0]) + 1 :] == [
        "python -m render check",
        "python -m mkdocs build --strict",
        "python -m render check --built site",
    ]


def test_the_hashed_packages_are_the_tested_ones():
    deploy, site = pins(".github/requirements-deploy.txt"), pins("requirements-site.txt")
    assert deploy <= site, "run `make lock`"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    missing = {re.match(r"[\w.-]+", name)[0] for name in needed} - {pin.split("==")[0] for pin in deploy}
    assert not missing, "run `make lock`"


def test_the_label_gpu_does_not_outlive_its_run():
    assert GPU["on"]["pull_request"] == {"types": ["labeled"]}
    job = GPU["jobs"]["unlabel"]
    assert same(job["if"], f"vars.GPU_RUNNER != '' && github.event_name == 'pull_request' && {ASKED_FOR}")
    assert "needs" not in job
    assert commands(job) == ['gh api --method DELETE "repos/$GITHUB_REPOSITORY/issues/$NUMBER/labels/gpu"']


def test_no_fork_runs_on_the_gpu():
    own = [name for name, job in JOBS.items() if "runs-on" in job and not HOSTED.fullmatch(str(job["runs-on"]))]
    assert own == [("GPU", "record")]
    condition = GPU["jobs"]["record"]["if"]
    assert same(condition, f"vars.GPU_RUNNER != '' && (github.event_name != 'pull_request' || ({ASKED_FOR}))")


def test_only_these_jobs_may_write():
    writing = {name: job["permissions"] for name, job in JOBS.items() if "write" in str(job["permissions"])}
    assert writing == {
        ("Deploy", "deploy"): {"pages": "write", "id-token": "write"},
        ("GPU", "unlabel"): {"pull-requests": "write"},
    }


def test_zizmor_finds_nothing():
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")
    if not zizmor:
        pytest.skip("zizmor is not installed")
    # Without --strict-collection it passes over a file that it cannot parse.
    command = [zizmor, "--offline", "--no-progress", "--strict-collection", "--persona", "pedantic", ".github"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
