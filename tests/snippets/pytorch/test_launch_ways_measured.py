# SPDX-License-Identifier: Apache-2.0
"""Every way to call the kernel adds one, and eight in a row add eight."""

import contextlib

import pytest
import torch
import triton
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import launch_ways_measured as measured


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(name for name, it in vars(measured).items() if isinstance(it, triton.testing.Mark))


def test_every_way_is_listed():
    assert [*measured.ways()] == measured.cost.benchmarks.x_vals


@pytest.mark.parametrize("way", ["plain", "by need", "custom_op", "triton_op", "wrapped", "eight"])
def test_every_way_adds(device, way):
    function, launches = measured.ways()[way]
    x = torch.linspace(-1, 1, 1030, device=device)
    torch.testing.assert_close(function(x), x + launches)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["compiled", "eight, compiled"])
def test_compiled_it_adds(way):
    function, launches = measured.ways()[way]
    x = torch.linspace(-1, 1, 1030, device="cuda")
    torch.testing.assert_close(function(x), x + launches)


@pytest.mark.parametrize("n", [1, 8, 21])
def test_each_element_is_read_and_written_once(device, n):
    x = Guarded.around(torch.randn(n, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        measured.add_one_kernel[(-(-n // 8),)](x.tensor, out.tensor, n, BLOCK=8)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor + 1)
