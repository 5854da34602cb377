# SPDX-License-Identifier: Apache-2.0
"""Only tested sites are published, and a GPU runs only jobs that somebody we know asked for. zizmor checks the rest."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from recorder.effects import statements
from snippets.pytorch import export_onnx
from snippets.reference import which_language
from tests.limits import HANGS

ROOT = Path(__file__).parents[2]
# YAML 1.1 reads the key `on` as true; the base loader leaves every scalar a string.
CI, DEPLOY, GPU, LABEL, WEEKLY = WORKFLOWS = [
    yaml.load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"), Loader=yaml.BaseLoader)
    for name in ("ci", "deploy", "gpu", "label", "weekly")
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
    assert jobs["build"]["needs"] == ["tests", "gpu"] and jobs["gpu"]["needs"] == "tests"
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert jobs["gpu"]["uses"] == "./.github/workflows/gpu.yml"
    assert "bash .ci/run" in commands(CI["jobs"]["test"])
    # A condition of their own could run the later jobs after a failure, and this key passes a failure off as success.
    assert not {"if"} & (publish.keys() | jobs["build"].keys() | jobs["gpu"].keys())
    tested = [*CI["jobs"].values(), *GPU["jobs"].values()]
    assert not any("continue-on-error" in part for job in tested for part in [job, *job["steps"]])


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


def test_what_a_gpu_recorded_is_published_and_nothing_that_it_built():
    """A step each way, under one condition: the GPU's recordings replace those of the commit, or these stay."""
    given = [step.get("with", {}) for step in GPU["jobs"]["record"]["steps"]]
    assert "recordings" in [part["path"] for part in given if part.get("name") == "recordings"]
    room, fetched = (step for step in DEPLOY["jobs"]["build"]["steps"] if "GPU_RUNNER" in step.get("if", ""))
    assert room["if"] == fetched["if"] == "vars.GPU_RUNNER != ''" and room["run"].startswith("rm -r recordings")
    assert fetched["uses"].startswith("actions/download-artifact@")
    assert fetched["with"] == {"name": "recordings", "path": "recordings"}
    assert "download" not in str(DEPLOY["jobs"]["deploy"])


def test_the_gpus_job_is_what_a_person_runs_by_hand():
    (step,) = (step for step in GPU["jobs"]["record"]["steps"] if "make gpu" in step.get("run", ""))
    assert step["run"].startswith('make gpu ALL="$ALL" ') and step["env"] == {"ALL": "${{ inputs.all && '1' || '' }}"}


def test_a_push_does_not_cancel_the_gpus_job():
    job = GPU["jobs"]["record"]
    assert job["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"
    assert "${{ github.event_name }}" in job["concurrency"]["group"]
    assert "concurrency" not in GPU and DEPLOY["concurrency"]["cancel-in-progress"] == "false"
    assert "|| 360" in job["timeout-minutes"]  # not days


def test_every_package_that_a_snippet_imports_is_pinned_for_a_gpu():
    files = ("requirements-site.txt", "requirements.txt", "requirements-gpu.txt")
    pinned = {pin.split("==")[0] for pin in set.union(*map(pins, files))}
    pinned |= {pin.split("==")[0] for pins in which_language.PACKAGES.values() for pin in pins}  # it installs its own
    pinned |= {pin.split("==")[0] for pin in export_onnx.PACKAGES}  # and so does this
    packages = packages_distributions() | {
        "cupy": ["cupy-cuda13x"], "numba": ["numba-cuda"], "torchvision": ["torchvision"],
        "onnx": ["onnx"], "onnxscript": ["onnxscript"],
        "helion": ["helion"], "tilelang": ["tilelang"], "tvm": ["tilelang"],
        "cutlass": ["nvidia-cutlass-dsl"], "cuda": ["cuda-tile"],
    }  # fmt: skip
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "snippets").rglob("*.py")]
    nodes = [node for tree in trees for node in statements(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    others -= {"snippets", "recorder", "helion_wrote"}  # the last is a file that which_language writes
    assert {"cupy", "numba", "torch"} <= others
    assert not [name for name in others if not pinned & {*packages.get(name, [])}], "run `make lock`"


def test_the_weekly_job_names_no_triton_that_grows_old():
    job = WEEKLY["jobs"]["triton"]
    assert "install" in str(commands(job)) and not re.search(r"\d+\.\d+", f"{job['strategy']} {commands(job)}")


def test_the_hashed_packages_are_the_tested_ones():
    deploy, site = pins(".github/requirements-deploy.txt"), pins("requirements-site.txt")
    assert deploy <= site, "run `make lock`"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    missing = {re.match(r"[\w.-]+", name)[0] for name in needed} - {pin.split("==")[0] for pin in deploy}
    assert not missing, "run `make lock`"


def test_the_label_gpu_does_not_outlive_its_run():
    assert LABEL["on"] == {"pull_request": {"types": ["labeled"]}}
    job = LABEL["jobs"]["unlabel"]
    assert same(job["if"], f"vars.GPU_RUNNER != '' && github.event_name == 'pull_request' && {ASKED_FOR}")
    assert "needs" not in job
    assert commands(job) == ['gh api --method DELETE "repos/$GITHUB_REPOSITORY/issues/$NUMBER/labels/gpu"']


def test_no_fork_runs_on_the_gpu():
    """Whoever calls the job, and for whatever event: it asks that itself."""
    assert [name for name, job in JOBS.items() if job.get("uses") == "./.github/workflows/gpu.yml"] == [
        ("Deploy", "gpu"), ("Label", "gpu")
    ]  # fmt: skip
    assert set(GPU["on"]) == {"workflow_call", "workflow_dispatch"}
    own = [name for name, job in JOBS.items() if "runs-on" in job and not HOSTED.fullmatch(str(job["runs-on"]))]
    assert own == [("GPU", "record")]
    condition = GPU["jobs"]["record"]["if"]
    assert same(condition, f"vars.GPU_RUNNER != '' && (github.event_name != 'pull_request' || ({ASKED_FOR}))")


def test_only_these_jobs_may_write():
    writing = {name: job["permissions"] for name, job in JOBS.items() if "write" in str(job["permissions"])}
    assert writing == {
        ("Deploy", "deploy"): {"pages": "write", "id-token": "write"},
        ("Label", "unlabel"): {"pull-requests": "write"},
    }


def test_zizmor_finds_nothing():
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")
    if not zizmor:
        pytest.skip("zizmor is not installed")
    # Without --strict-collection it passes over a file that it cannot parse.
    command = [zizmor, "--offline", "--no-progress", "--strict-collection", "--persona", "pedantic", ".github"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stdout + done.stderr
