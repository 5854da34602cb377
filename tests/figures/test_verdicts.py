# SPDX-License-Identifier: Apache-2.0
"""The table that lays side by side what versions of Triton, a GPU and the compiler said."""

import html
import re

import pytest
from msgspec.structs import replace

from figures.verdicts import verdicts
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.toy import made

TOY = Snippet("programs/toy")
OUTPUT = """\
## Numbers
  `a & b`
    ran: {0}
    compiles: {1}
  plain
    ran: right
    compiles: yes
## Counts
  Numbers, right: 2
"""


def record(project, device, version, output):
    project.record(device, output=output, provenance=replace(made(device).provenance, triton=version))


def shown(text):
    """Rows of cells, without tags."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.S)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.S) for row in rows]
    return [[re.sub(r"\s+", " ", re.sub(r"<.*?>", "", cell)).strip() for cell in row] for row in cells]


def test_what_never_ran_has_no_column_for_it(toy):
    output = "## Kernels\n  plain\n    taken: {}\n"
    record(toy, "cpu", "3.7.1", output.format("yes"))
    record(toy, "cpu-triton-3.9.0", "3.9.0", output.format("refused: gone"))
    assert shown(verdicts(recording.load(TOY, "cpu"), section="Kernels")) == [
        ["Feature", "Taken"], ["plain", "3.7.1 yes3.9.0 refused: gone"],
    ]  # fmt: skip


def test_only_what_changed(toy):
    """Show of all versions what changed, also what one of them lacks."""
    output = "## Functions\n  stays\n    arguments: (x)\n  {}\n    arguments: ({})\n"
    record(toy, "cpu", "3.7.1", output.format("old", "3.7.1"))
    for version in ("3.8.0", "3.9.0"):
        record(toy, f"cpu-triton-{version}", version, output.format("both", version))
    assert shown(verdicts(recording.load(TOY, "cpu"), section="Functions", changed=True)) == [
        ["Feature", "Arguments"],
        ["both", "3.7.1 –3.8.0 (3.8.0)3.9.0 (3.9.0)"],
        ["old", "3.7.1 (3.7.1)3.8.0 to 3.9.0 –"],
    ]


def test_the_table_of_all_versions(toy):
    record(toy, "cpu-triton-3.10.0", "3.10.0", OUTPUT.format("right", "yes"))
    record(toy, "cpu-triton-3.8.0", "3.8.0", OUTPUT.format("differs: got 1", "yes"))
    record(toy, "cpu", "3.7.1", OUTPUT.format("differs: got 1", "refused: <no>"))
    record(toy, "h200", "3.6.0", OUTPUT.format("crash: SIGSEGV", "yes"))
    text = verdicts(recording.load(TOY, "cpu"), section="Numbers")
    head, first = shown(text)
    assert head == ["Feature", "In the interpreter", "On NVIDIA H200, Triton 3.6.0", "Compiles"]
    assert first == [
        "a &amp; b",
        "3.7.1 to 3.8.0 differs: got 13.10.0 right",
        "crash: SIGSEGV",
        "3.7.1 refused: &lt;no&gt;3.8.0 to 3.10.0 yes",
    ]
    assert "<strong>Right everywhere:</strong> plain<" in text
    assert "verdict--differs" in text and "verdict--crash" in text and "<code>a &amp; b</code>" in text
    places = "interpreter · Triton 3.7.1, 3.8.0, 3.10.0 · torch 2.13.0 · 2026-01-02<br>NVIDIA H200 · Triton 3.6.0"
    assert places in html.unescape(text)
    text = verdicts(recording.load(TOY, "cpu"), section="Numbers", every=True)
    assert shown(text)[2] == ["plain", "right", "right", "yes"] and "everywhere" not in text


def test_a_row_that_a_recording_lacks_and_a_section_that_there_is_not(toy):
    record(toy, "cpu", "3.7.1", OUTPUT.format("right", "yes"))
    record(toy, "h200", "3.6.0", "## Numbers\n  plain\n    ran: right\n")
    _, first = shown(verdicts(recording.load(TOY, "cpu"), section="Numbers"))
    assert first == ["a &amp; b", "right", "–"]  # and all that is shown compiles
    with pytest.raises(RecorderError, match=r"'Number'.*Numbers"):
        verdicts(recording.load(TOY, "cpu"), section="Number")
