# SPDX-License-Identifier: Apache-2.0
"""The workflows run only what they pin, with no more permission than they need, and a GPU only for people we know."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from simpleeval import EvalWithCompoundTypes

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.y*ml"))
# YAML 1.1 reads the key `on` as true; the base loader leaves every scalar a string.
WORKFLOWS = {path.name: yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader) for path in FILES}
JOBS = {f"{file}:{name}": job for file, workflow in WORKFLOWS.items() for name, job in workflow["jobs"].items()}
HOSTED = re.compile(r"(ubuntu|macos|windows)-[0-9.]+|\$\{\{ matrix\.os \}\}")


def condition(job: dict, **context) -> bool:
    """What GitHub would make of the ``if`` of a job, for the operators and functions that ours use."""
    expression = job["if"].replace("&&", " and ").replace("||", " or ").replace("labels.*.name", "labels")
    contains = lambda where, what: what in where
    return bool(EvalWithCompoundTypes(names=context, functions={"contains": contains}).eval(expression))


def pull_request(head: str, labels: tuple = ("gpu",), action: str = "labeled", label: str = "gpu") -> dict:
    return {
        "event_name": "pull_request",
        "repository": "owner/site",
        "event": {
            "action": action,
            "label": {"name": label},
            "pull_request": {"head": {"repo": {"full_name": head}}, "labels": list(labels)},
        },
    }


def test_there_are_workflows():
    assert set(WORKFLOWS) == {"ci.yml", "deploy.yml", "gpu.yml", "weekly.yml"}


@pytest.mark.parametrize("file", WORKFLOWS)
def test_nothing_is_permitted_to_a_whole_workflow(file):
    assert WORKFLOWS[file].get("permissions") == {}


@pytest.mark.parametrize("name", JOBS)
def test_jobs_state_their_permissions_and_time_limit(name):
    allowed = {"contents": "read"}
    if name == "deploy.yml:deploy":
        allowed = {"pages": "write", "id-token": "write"}
    assert JOBS[name]["permissions"].items() <= allowed.items()
    assert int(JOBS[name]["timeout-minutes"]) <= 120


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path):
    uses = [step["uses"] for job in WORKFLOWS[path.name]["jobs"].values() for step in job["steps"] if "uses" in step]
    uses += [job["uses"] for job in WORKFLOWS[path.name]["jobs"].values() if "uses" in job]
    for action in uses:
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", action), f"{action} is not pinned by a full commit"
    for line in re.findall(r"^.*\buses: .*$", path.read_text("utf-8"), re.MULTILINE):
        assert re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), f"{line.strip()!r} does not say its version"


def test_an_action_has_one_commit_everywhere():
    text = "".join(path.read_text("utf-8") for path in FILES)
    pins = set(re.findall(r"uses: (\S+)@(\S+) # (\S+)", text))
    assert len(pins) == len({action for action, _, _ in pins}), sorted(pins)


@pytest.mark.parametrize("name", JOBS)
def test_a_checkout_keeps_no_credentials(name):
    for step in JOBS[name]["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step.get("with", {}).get("persist-credentials") == "false"


@pytest.mark.parametrize("file", WORKFLOWS)
def test_no_fork_gets_a_trigger_with_our_permissions(file):
    triggers = WORKFLOWS[file]["on"]
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)


def test_only_one_job_runs_on_a_machine_that_is_not_github_s():
    own = [name for name, job in JOBS.items() if not HOSTED.fullmatch(job["runs-on"])]
    assert own == ["gpu.yml:record"]


def test_what_runs_on_the_gpu():
    job = JOBS["gpu.yml:record"]
    runner, none = {"GPU_RUNNER": "h200"}, {"GPU_RUNNER": ""}
    push = {"event_name": "push", "repository": "owner/site", "event": {}}
    assert condition(job, vars=runner, github=push)
    assert condition(job, vars=runner, github=push | {"event_name": "workflow_dispatch"})
    assert condition(job, vars=runner, github=pull_request("owner/site"))
    assert condition(job, vars=runner, github=pull_request("owner/site", action="synchronize"))
    assert not condition(job, vars=none, github=push)
    assert not condition(job, vars=runner, github=pull_request("owner/site", labels=()))
    assert not condition(job, vars=runner, github=pull_request("owner/site", label="prose"))


@pytest.mark.parametrize("action", ["labeled", "reopened", "synchronize"])
def test_no_fork_runs_on_the_gpu(action):
    fork = pull_request("stranger/site", action=action)
    assert not condition(JOBS["gpu.yml:record"], vars={"GPU_RUNNER": "h200"}, github=fork)


def test_continuous_integration_runs_what_contributors_run():
    assert {"run": "bash .ci/run"} in JOBS["ci.yml:test"]["steps"]
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^step make (\w+)$", script, re.MULTILINE) == ["test", "site", "replay"]


def test_zizmor_finds_nothing():
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")
    if not zizmor:
        pytest.skip("zizmor is not installed")
    command = [zizmor, "--offline", "--no-progress", "--persona", "pedantic", ".github"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
