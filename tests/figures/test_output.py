# SPDX-License-Identifier: Apache-2.0
"""The view of a snippet's output: all of it, the lines that match, or one section."""

import html
import re

import pytest

from recorder import views
from recorder.project import RecorderError

RECORDED = {"output": "first\n## one step\na < b\nc\n## another\n\nd ## e\n## empty\n"}


def shown(**options):
    return html.unescape(re.sub(r"<[^>]*>", "", views.output(None, RECORDED, **options)))


def test_sections():
    assert shown() == RECORDED["output"].rstrip("\n")
    assert shown(section="one step") == "a < b\nc"
    assert shown(section="another") == "\nd ## e"
    assert shown(section="one step", only="^c") == "c"


def test_a_section_that_is_not_there():
    with pytest.raises(RecorderError, match=r"no section 'one stop'; the nearest that exist: one step"):
        shown(section="one stop")
    with pytest.raises(RecorderError, match="no line of the output"):
        shown(section="empty")
    with pytest.raises(RecorderError, match="no line of the output matches 'first'"):
        shown(section="one step", only="first")
