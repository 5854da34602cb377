# SPDX-License-Identifier: Apache-2.0
"""The sweep counts results to the bit, and the kernel that it sweeps is right with any config."""

import contextlib
import itertools

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.tools import sweep as snippet


def test_each_config_agrees_with_itself(device):
    x = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0)).to(device)
    by_config, of_all = snippet.sweep(snippet.sums, x, snippet.CONFIGS, times=2)
    assert len(by_config) == len(snippet.CONFIGS) and {*by_config.values()} == {1} and of_all > 1


def test_a_launch_that_differs_from_itself_is_found():
    calls = itertools.count()
    launch = lambda x, config: x + next(calls) % config["n"]
    by_config, of_all = snippet.sweep(launch, torch.ones(2), [{"n": 1}, {"n": 3}])
    assert by_config == {"n=1": 1, "n=3": 3} and of_all == 3


@pytest.mark.parametrize("columns", [1, 63, 64, 200])
@pytest.mark.parametrize("block", [64, 256])
def test_every_element_is_added_once(device, columns, block):
    x = Guarded.around(torch.randn(3, columns, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((3,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.sum_kernel[(3,)](x.tensor, out.tensor, columns, BLOCK=block)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    torch.testing.assert_close(out.tensor, x.tensor.sum(1))
    assert snippet.sums(x.tensor, {"BLOCK": block}).shape == (3,)


@pytest.mark.skipif(snippet.DEVICE != "cpu", reason="programs are started anywhere only by the interpreter")
def test_a_row_beyond_two_to_the_31():
    row, columns = 2**28, 16
    x, out = torch.ones(1, columns), torch.ones(1)
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as accesses:
        snippet.sum_kernel[(1,)](x, out, columns, BLOCK=16)
    loads, stores = ([each for op, each in accesses if op == kind] for kind in ("load", "store"))
    assert loads[0].min() == x.data_ptr() + 4 * row * columns and stores[0].min() == out.data_ptr() + 4 * row
