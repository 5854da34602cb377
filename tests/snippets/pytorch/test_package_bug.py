# SPDX-License-Identifier: Apache-2.0
"""Each mistake ends as its page says, and the package as it stands does not make it."""

import pytest

from snippets.pytorch import package_bug as snippet
from snippets.pytorch.package import Machine


def said(capsys, *case, **more) -> str:
    """What a case prints below its heading, on one line."""
    snippet.say("case", *case, **more)
    return " ".join(capsys.readouterr().out.removeprefix("## case\n").split())


@pytest.mark.parametrize(
    "machine, changes, error",
    [
        (Machine(triton=False), snippet.AT_THE_TOP, "ModuleNotFoundError: No module named 'triton'"),
        (Machine(), snippet.BY_IMPORT, "RuntimeError: 0 active drivers ([]). There should only be one."),
    ],
    ids=["imported at the top", "asks whether it can be imported"],
)
def test_triton_where_there_is_no_use_for_it(machine, changes, error, capsys):
    assert said(capsys, machine, snippet.OPS, changes) == error
    assert said(capsys, machine) == "as PyTorch's"


def test_a_wheel_without_the_kernel(capsys):
    told = said(capsys, Machine(interpret=True), snippet.PROJECT, snippet.LISTED, moves=True)
    assert told.startswith("the wheel holds: rownorm/__init__.py, rownorm/ops.py ImportError: cannot import name")
    told = said(capsys, Machine(interpret=True), moves=True)
    assert told.endswith("rownorm/ops.py, rownorm/kernels/__init__.py as PyTorch's")


def test_what_cannot_be_traced_in_the_interpreter(capsys):
    error = "RuntimeError: Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor)"
    assert said(capsys, snippet.Opened(interpret=True)) == error


def test_a_torch_without_triton_op(capsys):
    error = "ImportError: cannot import name 'triton_op' from 'torch.library'"
    assert said(capsys, snippet.Older(interpret=True)) == error
    assert said(capsys, snippet.OlderGuarded(interpret=True)) == "as PyTorch's"


def test_a_triton_of_its_own(capsys):
    snippet.pinned()
    told = capsys.readouterr().out
    assert "rownorm 0.1.0 depends on triton==3.9.0" in told and "torch 2.13.0 depends on triton==3.7.1" in told
    assert "ERROR: Cannot install rownorm" in told


def test_the_tests_of_the_package_find_strides(capsys):
    snippet.failing()
    _, *names = capsys.readouterr().out.splitlines()
    assert names[:3] == ["test_rows_of_any_strides", "test_operator_keeps_its_promises[turned]", "failed: 2"]


def test_a_change_that_changes_nothing_is_refused(tmp_path):
    (tmp_path / "file").write_text("a a")
    for old, times in (("a", 2), ("b", 0)):
        with pytest.raises(ValueError, match=f"'{old}' {times} times"):
            snippet.changed(tmp_path, "file", {old: "c"})
