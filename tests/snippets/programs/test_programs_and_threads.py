# SPDX-License-Identifier: Apache-2.0
"""Programs and threads: every way of dealing a block out gives the same sums, and every element takes part once."""

import itertools
import re
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, environment, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.programs import programs_and_threads as lesson
from tests.processes import run_script


def guarded(n, device, start=0):
    """Two inputs and an output of float32, each between guard zones; the sums are unlike any guard."""
    x = torch.arange(1.0, n + 1, device=device)
    given = [Guarded.around(t, before=64 + start, after=64, fill=0xFF) for t in (x, 1000 * x)]
    return *given, Guarded((n,), torch.float32, x.device, before=64 + start, after=64, fill=0x5A)


def check(add, n, device, start=0):
    """Assert that ``add`` is right, and touches what it must and nothing else, as far as guards can tell."""
    x, y, out = guarded(n, device, start)
    expected = x.tensor + y.tensor
    with mock.patch.object(torch, "empty_like", return_value=out.tensor):
        assert add(x.tensor, y.tensor) is out.tensor
    x.check("x"), y.check("y"), out.check("the result")
    check_same_bits(out.tensor, expected)
    check_same_bits(x.tensor, torch.arange(1.0, n + 1, device=device))
    check_same_bits(y.tensor, 1000 * torch.arange(1.0, n + 1, device=device))


def count_and_check(n, block_size, num_warps, device):
    counts = Guarded((n,), torch.int32, torch.device(device), before=64, after=64, fill=0x5A)
    counts.tensor.fill_(6)
    with mock.patch.object(torch, "zeros", return_value=counts.tensor):
        result = lesson.count(n, block_size=block_size, num_warps=num_warps, device=device)
    counts.check("the counts")
    assert result.tolist() == [7] * n


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 63, 64, 65, 200])
def test_each_element_is_counted_once(device, n):
    for block_size, num_warps in ((4, 1), (64, 4), (256, 2)):
        count_and_check(n, block_size, num_warps, device)


def test_axes(device):
    out = lesson.axes((4, 3, 2), device=device)
    assert out.shape == (2, 3, 4) and out.dtype == torch.int32
    for z, y, x in itertools.product(range(2), range(3), range(4)):
        assert out[z, y, x] == 100 * z + 10 * y + x
    assert lesson.axes((1, 2, 1), device=device).tolist() == [[[0], [10]]]


def test_axes_stay_inside(device):
    out = Guarded((3, 2, 5), torch.int32, torch.device(device), before=64, after=64, fill=0x5A)
    with mock.patch.object(torch, "empty", return_value=out.tensor):
        lesson.axes((5, 2, 3), device=device)
    out.check("the result")
    assert out.tensor.unique().numel() == 30 and out.tensor.max() == 214


@settings(max_examples=25)
@example(n=1, block_size=8, num_warps=1, start=0)
@given(
    n=st.integers(0, 300),
    block_size=st.sampled_from([8, 64, 256]),
    num_warps=st.sampled_from([1, 2, 4, 8]),
    start=st.sampled_from([0, 1]),
)
def test_adds_whatever_the_block_and_the_warps(device, n, block_size, num_warps, start):
    check(lambda x, y: lesson.add_on_warps(x, y, block_size=block_size, num_warps=num_warps), n, device, start)


def test_add_on_warps_touches_each_element_once():
    x, y = torch.ones(2, 10)
    with recorded_accesses() as accesses:
        lesson.add_on_warps(x, y, block_size=4)
    check_each_once(accesses, "load", x=x, y=y)


def test_serves_what_is_at_the_limits(device):
    assert lesson.axes((10, 1, 1), device=device).flatten().tolist() == list(range(10))
    with mock.patch.object(lesson, "count_kernel") as kernel:  # a GPU has 32 warps; these tensors have no memory
        for n, block_size, num_warps in ((3, 1, 32), (2**31 - 2**16, 2**16, 1), (2**31 - 4, 4, 1)):
            assert lesson.count(n, block_size=block_size, num_warps=num_warps, device="meta").shape == (n,)
    assert kernel.__getitem__.call_args_list == [mock.call((n,)) for n in (3, 2**15 - 1, 2**29 - 1)]


def run(device, **more):
    root = Path(lesson.__file__).parents[2]
    given = environment(device, PYTHONPATH=str(root), **more)
    return run_script(lesson.__file__, env=given, cwd=root)


def test_says_so_without_a_gpu():
    done = run("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


def test_prints(device, capsys):
    lesson.main()
    said = capsys.readouterr().out
    assert "x + 10 * x = [0.0, 11.0, 22.0, 33.0, 44.0, 55.0]" in said
    assert len(re.findall("wrong results, .*: 0$", said, re.M)) == 4
    assert len(re.findall("times that an element was counted: 1$", said, re.M)) == 2
