# SPDX-License-Identifier: Apache-2.0
"""Two processes have the gradients of one, by DDP and FSDP; a kernel cannot be given a shard."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.pytorch import two_gpus as snippet
from tests.processes import run_python


@pytest.mark.skipif(torch.cuda.is_available(), reason="two processes on a CPU talk through gloo")
def test_two_processes_train_as_one():
    done = run_python(Path(snippet.__file__), env=environment("cpu"))
    assert not done.returncode, done.stderr
    said = " ".join(done.stdout.split())  # lines are cut to a width
    for way in ("DDP", "FSDP"):
        assert f"{way}, gradients as of one process: True; the same on both ranks: True" in said
    assert "inner model called, gradients as of one process: False; the same on both ranks: False" in said
    assert "gathered by hand: right" in said
    assert "its local half: ValueError: x must be (rows, columns) and weight (columns,); got (8, 64) and (32,)" in said
    assert "the operator: RuntimeError: course.rms_norm_closed.default got mixed torch.Tensor and DTensor" in said
    assert "x too: NotImplementedError: Operator course.rms_norm_closed.default does not have a sharding" in said


def test_gradients_are_compared_to_the_last_tensor():
    ones = [torch.ones(2), torch.ones(3)]
    assert snippet.same(ones, [torch.ones(2), torch.ones(3)])
    assert not snippet.same(ones, [torch.ones(2), torch.tensor([1, 1, 1.1])])


def test_an_outcome_is_a_result_or_the_first_line_of_an_error():
    wanted = torch.ones(2)
    assert snippet.outcome(lambda: torch.ones(2), wanted) == "right"
    assert snippet.outcome(lambda: torch.zeros(2), wanted) == "wrong"
    assert snippet.outcome(lambda: int("two\nlines"), wanted).startswith("ValueError: invalid literal")


def test_a_guarded_launch_is_right(device):
    x, weight = torch.randn(3, 20, device=device), torch.rand(20, device=device)
    wanted = torch.nn.functional.rms_norm(x, (20,), weight, 1e-6)
    torch.testing.assert_close(snippet.guarded(x, weight), wanted)


@pytest.mark.gpu
def test_a_tensor_on_the_other_gpu(capsys):
    if torch.cuda.device_count() < 2:
        pytest.skip("it needs two GPUs")
    snippet.main()
    said = capsys.readouterr().out
    assert "within device_of: right" in said and "within device_of, after them: right" in said
    assert "a plain launch: ValueError: Pointer argument" in said and "between the GPUs: wrong" in said
