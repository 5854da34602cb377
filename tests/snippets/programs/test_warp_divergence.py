# SPDX-License-Identifier: Apache-2.0
"""Each decider sends each element through the branch that it should; both languages agree; bad input is refused."""

import contextlib
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.programs import warp_divergence as snippet
from tests.processes import run_script

SECOND = {  # which of n elements take branch 1
    "cuda": {
        "all": lambda i: False, "group": lambda i: i % 128 // 32 % 2, "each": lambda i: i % 2,
        "one": lambda i: i % 32 == 31,
    },
    "triton": {
        "all": lambda i: False, "group": lambda i: i // 128 % 2, "each": lambda i: i % 2, "one": lambda i: i % 32 == 31,
    },
}  # fmt: skip
SIZES = [0, 1, 31, 32, 127, 128, 129, 500]


def expected(x, second, steps):
    values = x.double().tolist()
    for _ in range(steps):
        values = [0.25 * v + 3 if second(i) else 0.5 * v + 1 for i, v in enumerate(values)]
    return torch.tensor(values)


def check(side, decider, n, steps, device):
    x = Guarded.around(torch.linspace(-5, 5, n, device=device), before=256, after=256, fill=0xFF)
    out = Guarded((n,), torch.float32, x.tensor.device, before=256, after=256, fill=0xFF)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty_like", lambda like: out.tensor)
        with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
            assert snippet.SIDES[side](x.tensor, decider, steps) is out.tensor
    x.check("x"), out.check("the result")
    if accesses is not None and n:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    torch.testing.assert_close(out.tensor.cpu(), expected(x.tensor, SECOND[side][decider], steps).float())


@pytest.mark.parametrize("decider", snippet.DECIDERS)
@pytest.mark.parametrize("steps", [0, 8, 24])
def test_triton_takes_the_branch_of_each_lane(device, decider, steps):
    for n in SIZES:
        check("triton", decider, n, steps, device)


@pytest.mark.gpu
@pytest.mark.parametrize("decider", snippet.DECIDERS)
@pytest.mark.parametrize("steps", [0, 8, 24])
def test_cuda_takes_the_branch_of_each_thread(decider, steps):
    for n in SIZES:
        check("cuda", decider, n, steps, "cuda")


def test_refuses_too_many_elements(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "numel", lambda self: 2**31 - 127)
    with pytest.raises(ValueError, match="2147483521 elements; it takes at most 2147483520"):
        snippet.in_triton(torch.ones(3), "all")


def test_serves_what_is_at_the_limits(monkeypatch):
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        monkeypatch.setattr(torch.Tensor, "numel", lambda self: 2**31 - 128)
        snippet.check(x, "all", 2**31 - 8)
    with pytest.raises(ValueError, match="got 2147483648"):
        snippet.check(x.detach(), "all", 2**31)


def test_cuda_refuses_the_cpu():
    with pytest.raises(ValueError, match="on cpu; move it to a GPU"):
        snippet.in_cuda(torch.ones(3), "all")


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_prints_who_took_which_branch(capsys):
    snippet.main()
    lines = capsys.readouterr().out.splitlines()
    said = {line[:20].strip(): "".join(line[20:].split()) for line in lines}
    assert said["CUDA, nobody"] == said["Triton, nobody"] == "222222222222"
    assert said["CUDA, thread"] == said["Triton, lane"] == "242242442442"
    assert said["CUDA, warp"] == "222224442224"
    assert said["Triton, program"] == "222222224444"
    assert said["CUDA, one of 32"] == said["Triton, one of 32"] == "222242242242"


@pytest.mark.gpu
@pytest.mark.alone
def test_a_split_warp_takes_longer_than_a_split_by_warps():
    for side in snippet.SIDES:
        split, by_group = (snippet.time.fn(snippet.DECIDERS[decider], side) for decider in ("each", "group"))
        assert 0 < split[1] <= split[0] <= split[2] and split[0] > 1.3 * by_group[0]
