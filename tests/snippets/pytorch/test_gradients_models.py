# SPDX-License-Identifier: Apache-2.0
"""What models need of a kernel: a fake that is right, a name, the module's forward, a local tensor."""

from pathlib import Path

import pytest
from guards import environment
from torch.library import opcheck

from snippets.pytorch import gradients
from snippets.pytorch import gradients_models as snippet
from tests.processes import run_python

ONLY = pytest.mark.skipif(not gradients.INTERPRETED, reason="it runs in the interpreter")


@ONLY
def test_opcheck_finds_a_fake_with_other_strides():
    x, weight = (each.detach() for each in gradients.inputs())
    assert "test_faketensor failed" in snippet.said(lambda: opcheck(snippet.padded_bug, (x, weight)))
    assert snippet.said(lambda: opcheck(snippet.scale_rows, gradients.inputs())) == "passes"


@ONLY
def test_opcheck_finds_a_backward_that_minds_no_strides():
    said = snippet.said(lambda: opcheck(snippet.strides_bug, gradients.inputs()))
    assert "test_aot_dispatch_dynamic failed with Gradients of the operator are different" in said
    for use in ("out.square().sum()", "out.sum()"):
        right = [gradients.right(op, gradients.USES[use]) for op in (snippet.scale_rows, snippet.strides_bug)]
        assert right == [True, use != "out.sum()"]


@ONLY
def test_a_kept_result_is_not_computed_again():
    assert snippet.runs_of_the_kernel([]) == 3
    assert snippet.runs_of_the_kernel([snippet.torch.ops.course.scale_rows.default]) == 2


def test_two_ranks():
    done = run_python(Path(snippet.__file__), "ranks", env=environment("cpu"))
    lines = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert lines["through the module, the ranks have one gradient"] == "True"
    assert lines["around the module, the ranks have one gradient"] == "False"
    assert lines["of its local part, put together again, as in one process"] == "True"
    assert "does not have a sharding strategy registered" in done.stdout
