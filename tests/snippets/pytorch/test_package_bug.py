# SPDX-License-Identifier: Apache-2.0
"""Each mistake ends as its page says. That the package as it stands makes none of them, test_package.py says."""

import pytest
from recorded import recorded_output

from recorder.printed import sections
from snippets.pytorch import package_bug as snippet
from snippets.pytorch.package import Machine


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What is printed below each heading, on one line."""
    return {name: " ".join(text.split()) for name, text in sections(recorded_output(snippet)).items()}


def test_triton_where_there_is_no_use_for_it(said):
    assert said["Triton imported at the top"] == "ModuleNotFoundError: No module named 'triton'"
    error = "RuntimeError: 0 active drivers ([]). There should only be one."
    assert said["the kernel wherever Triton can be imported"] == error


def test_a_wheel_without_the_kernel(said):
    told = said["packages listed by hand"]
    assert told.startswith("the wheel holds: rownorm/__init__.py, rownorm/ops.py ImportError: cannot import name")


def test_a_wheel_with_the_kernel_in_a_folder(capsys):
    snippet.say("found, not listed", Machine(interpret=True), moves=True)
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith("rownorm/ops.py, rownorm/kernels/__init__.py as PyTorch's")


def test_what_cannot_be_traced_in_the_interpreter(said):
    error = "RuntimeError: Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor)"
    assert said["triton_op, compiled in the interpreter"] == error


def test_a_torch_without_triton_op(said):
    error = "ImportError: cannot import name 'triton_op' from 'torch.library'"
    assert said["triton_op, with an older torch"] == error
    assert said["triton_op or custom_op, with an older torch"] == "as PyTorch's"


def test_a_triton_of_its_own(said):
    told = said["a Triton of its own"]
    assert "rownorm 0.1.0 depends on triton==3.9.0" in told and "torch 2.13.0 depends on triton==3.7.1" in told
    assert "ERROR: Cannot install rownorm" in told


def test_the_tests_of_the_package_find_strides(said):
    told = said["tests that fail without .contiguous()"]
    assert told.startswith("test_rows_of_any_strides test_operator_keeps_its_promises[turned] failed: 2 ")


def test_a_change_that_changes_nothing_is_refused(tmp_path):
    (tmp_path / "file").write_text("a a")
    for old, times in (("a", 2), ("b", 0)):
        with pytest.raises(ValueError, match=f"'{old}' {times} times"):
            snippet.changed(tmp_path, "file", {old: "c"})
