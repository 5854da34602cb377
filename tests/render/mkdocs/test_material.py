# SPDX-License-Identifier: Apache-2.0
"""Material's own files are amended, and one that is no longer as it was is named."""

from types import SimpleNamespace

import pytest
from mkdocs.exceptions import PluginError

from render.mkdocs import material


@pytest.fixture
def built(tmp_path):
    """A built site, in which each file that is amended holds what is, twice."""
    for pattern, changes in material.AMENDED.items():
        file = tmp_path / pattern.replace("*", "1a2b")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("é".join(2 * list(changes)), "utf-8")
    return tmp_path


def amend(folder):
    material.on_post_build(SimpleNamespace(site_dir=str(folder)))


def test_each_place_is_amended(built):
    amend(built)
    for pattern, changes in material.AMENDED.items():
        text = (built / pattern.replace("*", "1a2b")).read_text("utf-8")
        assert text == "é".join(2 * list(changes.values()))


def test_a_file_that_is_no_longer_there_is_named(built):
    (built / "assets/stylesheets/palette.1a2b.min.css").unlink()
    with pytest.raises(PluginError, match=r"0 files are called assets/stylesheets/palette.\*.min.css, should be 1"):
        amend(built)


def test_a_rule_that_is_no_longer_there_is_named(built):
    (built / "assets/stylesheets/palette.1a2b.min.css").write_text("body{}", "utf-8")
    with pytest.raises(PluginError, match=r"palette.1a2b.min.css has no '\[data-md-color-switching\] ' now: bring"):
        amend(built)
