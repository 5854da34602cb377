# SPDX-License-Identifier: Apache-2.0
"""The checks that all kernels are tested with: each finds what it is there to find, and nothing in a sound kernel."""

import ast
import math
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from guards import environment
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.tools import testing
from snippets.tools.testing import (
    Guarded,
    addresses_of,
    check_each_once,
    check_inside,
    check_same_bits,
    ragged_sizes,
    recorded_accesses,
    sum_tolerance,
    terms,
    total,
)
from tests.processes import run_script

SOURCE = Path(testing.__file__)


# The two kernels


def test_nothing_is_wrong_with_the_sound_kernel(device):
    expected = {name: None if device == "cuda" and name in ("accesses", "far") else False for name in testing.CHECKS}
    assert testing.caught_by(testing.scale_kernel, device) == expected


@settings(max_examples=30)
@given(n=st.integers(0, 100), fill=st.sampled_from([0x00, 0x5A, 0xFF]))
def test_scales(device, n, fill):
    x, out = testing.run(testing.scale_kernel, n, device, fill)
    check_same_bits(out.tensor, 3 * torch.arange(1.0, n + 1, device=device))
    x.check("x"), out.check("out")


def test_a_stray_block_lands_in_the_guards(device):
    for guarded in testing.run(testing.scale_kernel, 5, device, 0x5A):
        around = guarded.begin, len(guarded.bytes) - guarded.end
        assert around == (2 * testing.BLOCK * 4,) * 2, "two blocks of float32 on either side"


@settings(max_examples=30)
@given(
    n=st.integers(0, 100), block=st.sampled_from([1, 2, 16, 64]), dtype=st.sampled_from([torch.float16, torch.float32])
)
def test_sums(device, n, block, dtype):
    guarded = Guarded.around(terms("whole numbers", n, dtype, device), before=block, after=block, fill=0xFF)
    assert total(testing.sum_kernel, guarded.tensor, block) == guarded.tensor.double().sum().item()
    if device == "cpu":
        out = torch.full((3,), math.nan, dtype=dtype)
        with recorded_accesses() as accesses:
            testing.sum_kernel[(1,)](guarded.tensor, out[1], n, BLOCK=block)
        check_each_once(accesses, "load", x=guarded.tensor)
        check_each_once(accesses, "store", out=out[1])
        assert out.isnan().tolist() == [True, False, True]


@settings(max_examples=30)
@given(
    kind=st.sampled_from(["between 0 and 1", "canceling"]),
    n=st.integers(1, 3000),
    block=st.sampled_from([1, 64, 1024]),
    dtype=st.sampled_from([torch.float16, torch.float32]),
)
def test_a_sound_sum_stays_within_its_tolerance(device, kind, n, block, dtype):
    n, additions = (n, testing.additions(n, block)) if n < 100 * block else (100, testing.additions(100, block))
    x = terms(kind, n, dtype, device)
    exact = x.double().sum().item()
    assert abs(total(testing.sum_kernel, x, block) - exact) <= sum_tolerance(x, additions) + exact * 2**-24


def test_adds_in_the_dtype_of_the_terms(device):
    x, out = torch.ones(2100, dtype=torch.float16, device=device), torch.zeros((), device=device)
    testing.sum_kernel[(1,)](x, out, 2100, BLOCK=1)
    assert out.item() == 2048  # in float16, 2048 + 1 is 2048


def test_total_refuses(device):
    for x in (torch.ones(4, 4, device=device).t(), torch.ones(4, dtype=torch.int32, device=device)):
        with pytest.raises(ValueError, match="takes a contiguous floating-point tensor of fewer than"):
            total(testing.sum_kernel, x, 4)


def test_total_is_in_the_dtype_of_the_terms(device):
    assert total(testing.sum_kernel, torch.tensor([1, 2**-40], dtype=torch.float64, device=device), 2) == 1 + 2**-40


def test_total_takes_fewer_than_2_to_the_31_elements():
    kernel = mock.MagicMock()
    kernel.__getitem__.side_effect = LookupError("launched")  # of tensors without memory
    with pytest.raises(LookupError, match="launched"):
        total(kernel, torch.empty(2**31 - 1, device="meta"), 4)
    assert kernel.__getitem__.call_args == mock.call((1,))
    with pytest.raises(ValueError, match="fewer than"):
        total(kernel, torch.empty(2**31, device="meta"), 4)


def test_additions():
    assert testing.additions(16, 16) == 1 + 15 and testing.additions(17, 16) == 2 + 15 and testing.additions(9, 1) == 9


# Sizes, zones


def test_ragged_sizes():
    for block in (2, 16, 1024):
        sizes = list(ragged_sizes(block))
        assert {0, 1, block - 1, block, block + 1} <= set(sizes) and max(sizes) == 3 * block + 1


@pytest.mark.parametrize("fill", [0x00, 0x5A, 0xFF])
def test_guard_zones_show_each_stray_byte(device, fill):
    guarded = Guarded((2, 3), torch.float32, device, before=2, after=3, fill=fill)
    assert guarded.tensor.shape == (2, 3) and guarded.tensor.view(torch.uint8).unique().tolist() == [fill]
    guarded.tensor.fill_(1.5)
    guarded.check("it")
    for byte, element in ((0, -2), (7, -1), (8 + 24, 6), (8 + 24 + 11, 8)):
        guarded.bytes[byte] = fill ^ 1
        with pytest.raises(AssertionError, match=rf"outside of it, which has 6 elements: at \[{element}\]"):
            guarded.check("it")
        guarded.bytes[byte] = fill
    guarded.check("it")


def test_guarded_copies(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    guarded = Guarded.around(x, before=1, after=1, fill=0xFF)
    check_same_bits(guarded.tensor, x)
    assert guarded.tensor.data_ptr() == guarded.bytes.data_ptr() + 4
    guarded.check("x")


# Accesses


@triton.jit
def touch_kernel(x_ptr, out_ptr, start, n, BLOCK: tl.constexpr):
    offsets = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n, other=7), mask=offsets < n)


def touch(start=0, n=5, programs=2, **options):
    x, out = torch.arange(5.0), torch.zeros(5)
    with recorded_accesses(**options) as accesses:
        touch_kernel[(programs,)](x, out, start, n, BLOCK=4)
    return accesses, x, out


def test_accesses_are_what_happened():
    accesses, x, out = touch()
    assert [op for op, _ in accesses] == ["load", "store"] * 2
    offsets = [(a - (x if op == "load" else out).data_ptr()) // 4 for op, a in accesses]
    assert [o.tolist() for o in offsets] == [[0, 1, 2, 3]] * 2 + [[4]] * 2
    check_each_once(accesses, "load", x=x)
    check_each_once(accesses, "store", out=out)
    assert torch.equal(out, x), "and memory is as without the recording"


def test_accesses_without_memory():
    accesses, x, out = touch(start=2**40, n=2**41, programs=1, memory=False)
    assert ((accesses[0][1] - x.data_ptr()) // 4).tolist() == [2**40 + i for i in range(4)]
    assert ((accesses[1][1] - out.data_ptr()) // 4).tolist() == [2**40 + i for i in range(4)]
    assert out.tolist() == [0] * 5


def test_only_a_later_program():
    accesses, x, out = touch(programs=1, first_program=(1, 0, 0))
    assert ((accesses[0][1] - x.data_ptr()) // 4).tolist() == [4] and out.tolist() == [0, 0, 0, 0, 4]
    assert touch()[2].tolist() == [0, 1, 2, 3, 4], "which ends with the recording"


def test_wrong_accesses_are_named():
    accesses, x, out = touch()
    with pytest.raises(AssertionError, match=r"1 loads outside of x: one at element 4 of x, which has 4"):
        check_inside(accesses, "load", x=x[:4])
    with pytest.raises(AssertionError, match=r"1 stores outside of out: one at element -1 of out, which has 4"):
        check_each_once(accesses, "store", out=out[1:])
    with pytest.raises(AssertionError, match="elements of x that more than one load touched"):
        check_each_once(accesses * 2, "load", x=x)
    check_inside(accesses * 2, "load", x=x)
    with pytest.raises(AssertionError, match="elements of b that no load touched"):
        check_each_once(accesses, "load", a=x, b=torch.zeros(3))
    with pytest.raises(AssertionError, match="elements of out that no store touched"):
        check_each_once(accesses[:2], "store", out=out)
    check_each_once([], "load", x=torch.zeros(0))
    check_each_once(accesses, "load", front=x[:2], back=x[2:])


@given(data=st.data(), shape=st.lists(st.integers(0, 4), max_size=3))
def test_addresses_of_strided_tensors(data, shape):
    x = torch.arange(math.prod(shape)).view(shape)
    x = x.permute(data.draw(st.permutations(range(x.ndim))))
    if x.ndim:
        x = x[:: data.draw(st.integers(1, 2))]
    indices = np.ndindex(*x.shape)
    assert addresses_of(x).tolist() == [x[i].data_ptr() for i in indices]


# Values


def test_same_bits():
    nan = torch.tensor([math.nan])
    check_same_bits(nan, -nan)
    check_same_bits(torch.zeros(0), torch.zeros(0))
    for a, b, why in [
        (torch.zeros(2), torch.zeros(1, 2), r"shape is torch.Size\(\[2\]\), should be torch.Size\(\[1, 2\]\)"),
        (torch.zeros(2), torch.zeros(2).double(), "dtype is torch.float32, should be torch.float64"),
        (torch.zeros(2), torch.zeros(2, device="meta"), "device is cpu, should be meta"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements are wrong; element 1 is 2, should be 3"),
        (torch.tensor([0.0]), torch.tensor([-0.0]), "1 of 1"),
        (torch.tensor([1.0]), torch.tensor([1 + 2**-23]), "1 of 1"),
        (nan, torch.tensor([1.0]), "1 of 1"),
    ]:
        with pytest.raises(AssertionError, match=why):
            check_same_bits(a, b)


def test_tolerance_is_the_bound_and_no_more():
    half_eps = 2**-24
    assert sum_tolerance(torch.tensor([3.0, -5.0]), 1) == 8 * half_eps / (1 - half_eps)
    assert sum_tolerance(torch.ones(10), 9, torch.float16) == pytest.approx(10 * 9 * 2**-11, rel=0.01)
    # As far off as one addition can be: half of a unit in the last place.
    x = torch.tensor([1.0, half_eps])
    assert abs(x.sum().item() - (1 + half_eps)) == half_eps <= sum_tolerance(x, 1) < 1.01 * half_eps
    with pytest.raises(ValueError, match=r"2048 additions in torch\.float16 may round everything away"):
        sum_tolerance(torch.ones(1), 2048, torch.float16)


# The file as a script


def test_prints_its_experiment(device, tmp_path):
    alone = tmp_path / "testing.py"  # copied, where nothing of this repository is
    alone.write_text(SOURCE.read_text("utf-8"), "utf-8")
    done = run_script(alone, env=environment(device), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for dtype in ("float16", "float32"):
        lines = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith(f"  {dtype}, ")]
        measured, random, bound = map(float, lines)
        assert 0 < measured < random < bound
    assert [int(line.split(":")[0]) for line in done.stdout.splitlines()[1:7]] == [0, 1, 3, 4, 5, 13]


def test_imports_nothing_but_torch_triton_and_numpy():
    tree = ast.parse(SOURCE.read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"torch", "triton", "numpy"}


def test_says_so_without_a_gpu():
    done = run_script(SOURCE, env=environment("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES=""))
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")
