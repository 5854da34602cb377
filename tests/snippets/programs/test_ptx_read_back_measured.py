# SPDX-License-Identifier: Apache-2.0
"""The CUDA C++ takes the elements that the simulated kernels take; on a GPU all add right, and inside their tensors."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from guards import Guarded, check_same_bits, environment

from snippets.programs import ptx_read_back as simulated
from snippets.programs import ptx_read_back_measured as snippet
from tests.processes import run_script

KERNELS = ["by_guess", "as_compiled"]


@pytest.mark.parametrize("name", KERNELS)
def test_takes_the_elements_of_the_simulated_kernel(name):
    """The first elements of a thread's two groups, read from the source, against those of ``ptx_read_back.py``."""
    body = re.search(rf"void {name}\(.*?\n}}", snippet.CUDA_SOURCE, re.S)[0]
    first = re.search(r"i = (\d+)LL \* blockIdx.x \+ (\d+) \* threadIdx.x", body)
    second = re.search(r"add_groups\(x, y, out, i, i \+ (\d+), n\)", body)
    x = np.zeros(2 * snippet.BLOCK, dtype=np.float32)
    _, owner = simulated.simulate(getattr(simulated, name), x, x)
    assert int(first[1]) == snippet.BLOCK
    for thread in (0, 1, 5, 127):
        i = int(first[2]) * thread
        groups = [*range(i, i + 4), *range(i + int(second[1]), i + int(second[1]) + 4)]
        assert simulated.of_thread(owner, thread) == groups


@pytest.mark.gpu
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_adds_inside_its_tensors(name, wide):
    for n in (0, 1, 3, 4, 511, 512, 513, 516, 1023, 1024, 1025, 1030, 5000):
        x = torch.arange(1.0, n + 1, device="cuda")
        given = [Guarded.around(t, before=64, after=64, fill=0xFF) for t in (x, 1000 * x)]
        out = Guarded((n,), torch.float32, x.device, before=64, after=64, fill=0x5A)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "empty_like", lambda like, out=out: out.tensor)
            result = snippet.add_cuda(*(each.tensor for each in given), name=name, wide=wide)
        out.check("the result")
        check_same_bits(result, 1001 * x)


@pytest.mark.parametrize(
    "change, options, message",
    [
        (lambda x: (x, x), {"name": "guess"}, "name must be 'by_guess' or 'as_compiled'; got 'guess'"),
        (lambda x: (x, x[1:]), {}, "same shape and device"),
        (lambda x: (x, x.to("meta")), {}, "same shape and device"),
        (lambda x: (x.double(), x), {}, "x must be one-dimensional, float32"),
        (lambda x: (x[::2], x[:4]), {}, r"x must be .* strides \(2,\)"),
        (lambda x: (x[:4], x[::2]), {}, r"y must be .* strides \(2,\)"),
        (lambda x: (x, torch._neg_view(x)), {}, "y must be"),
        (lambda x: (x, x.clone().requires_grad_()), {}, "y requires a gradient"),
        (lambda x: (x[:4], x[1:5]), {}, "y does not begin at a multiple of 16 bytes; use wide=False"),
    ],
)
def test_refuses(device, change, options, message):
    with pytest.raises(ValueError, match=message):
        snippet.add_cuda(*change(torch.ones(8, device=device)), **{"name": "by_guess", "wide": True} | options)


def test_refuses_the_cpu():
    with pytest.raises(ValueError, match="on cpu; move it to a GPU"):
        snippet.add_cuda(torch.ones(3), torch.ones(3), name="by_guess", wide=False)


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_prints_that_no_sum_is_wrong(capsys):
    snippet.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and all(line.endswith(": 0") for line in lines)


@pytest.mark.gpu
def test_benchmark_runs():
    median, slowest, fastest = snippet.bandwidth.fn(2**24, "guess")
    assert 0 < slowest <= median <= fastest
