# SPDX-License-Identifier: Apache-2.0
"""What came of an attempt is told as it was; and each row differs between two versions, or has no place on the page."""

import warnings

import pytest
import triton
from guards import environment

from recorder import printed, recording
from recorder.project import Snippet
from snippets.tools import what_changed as snippet
from tests.processes import run_python

VERSIONS = {
    made.provenance.triton: printed.verdicts(made.output)
    for device in recording.devices(Snippet("tools/what_changed"))
    for made in [recording.load(Snippet("tools/what_changed"), device)]
}
BESIDE = {'the same, `cache_modifier=".cg"` by name', "`tl.sum` of bfloat16"}  # what stayed, shown for comparison


def test_an_error_is_told_by_its_cause():
    def fails():
        try:
            int("two")
        except ValueError as error:
            raise RuntimeError("at 3:4") from error

    assert snippet.taken(fails) == "refused: ValueError: invalid literal for int() with base 10: 'two'"
    assert snippet.warned(fails) == snippet.taken(fails)


def test_a_warning_is_told_even_where_it_is_ignored_or_came_before():
    warn = lambda: warnings.warn("soon gone", UserWarning, stacklevel=1)
    warnings.simplefilter("ignore")  # as Python does with most; pytest undoes it behind the test
    assert [snippet.warned(warn) for _ in range(2)] == ["soon gone"] * 2
    assert snippet.warned(lambda: None) == "nothing"


def test_each_row_differs_between_versions():
    assert {"3.6.0", "3.8.0", "3.9.0", triton.__version__} <= VERSIONS.keys()
    tried = {section for section in VERSIONS["3.9.0"] if section != "The functions of triton.language"}
    rows = {(section, row) for section in tried for row in VERSIONS["3.9.0"][section]}
    alike = {row for section, row in rows if len({str(said[section][row]) for said in VERSIONS.values()}) == 1}
    assert alike == BESIDE


@pytest.mark.parametrize("variable", ["TRITON_INTERPRET", "TRITON_DEFAULT_FP_FUSION"])
def test_variables_do_not_change_what_is_said(variable, monkeypatch):
    """The report runs in a process without them, and with nothing compiled before."""
    ran = []
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(snippet.subprocess, "run", lambda *_, env, check: ran.append(env))
    snippet.main()
    assert len(ran) == 1 and not set(snippet.DEPENDS_ON) & ran[0].keys() and ran[0]["TRITON_CACHE_DIR"]


def test_instructions_and_masks_are_read_from_the_code():
    """In a process that compiles: of a kernel whose mask is one comparison, and of one that fuses."""
    code = (
        "from snippets.tools import what_changed as w\n"
        "w.chained_mask = w.by_keyword\n"
        "print(w.grouping(), '|', w.instruction(w.fused, r'fma\\S+'), '|', w.instruction(w.fused, 'no such'))"
    )
    done = run_python("-c", code, env=environment("cuda"))
    masked, fused, missing = done.stdout.strip().split(" | ")
    assert (masked, fused) == ("as `(r < n) & (c < n)`", "`fma.rn.f32`") and missing.startswith("refused: ")
