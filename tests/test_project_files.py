# SPDX-License-Identifier: Apache-2.0
"""The files about the project agree with each other: one version, and links that lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


def test_one_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version
    assert f"## [{version}] - {citation['date-released']}" in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / name).read_text("utf-8"), flags=re.S)
    ):
        path, _, anchor = target.partition("#")
        if target.startswith(("https://", "../../issues/")):
            continue  # of the repository's host
        assert (ROOT / path).exists(), target
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.M) if anchor else []
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, target
