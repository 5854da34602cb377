# SPDX-License-Identifier: Apache-2.0
"""bfloat16, about which Triton's interpreter is wrong, and conversions between all dtypes: as torch has them."""

import operator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from browser import dtypes
from browser.block import cast, tensor
from tests import modeled

floats = st.floats(width=32)
KINDS = {of.label: of for of in dtypes.ALL if of.name != "int1"}


def block(x):
    of = KINDS[str(x.dtype).removeprefix("torch.")]
    return tensor(x.tolist(), of, (len(x),))


@given(st.lists(floats, min_size=4, max_size=4))
def test_rounding_is_to_the_nearest_ties_to_even(values):
    exact = torch.tensor(values, dtype=torch.float32)
    for name in ("bfloat16", "float16", "float64"):
        got = cast(block(exact), KINDS[name]).data
        assert modeled.same(got, exact.to(getattr(torch, name)).tolist()), (name, values)
    ends = [0x3F808000, 0x3F818000, 0x3F818001, 0x3F807FFF, 0x7F7FFFFF, 0xBF808000, 0x00008000, 0x477FF000, 0x38801000]
    ties = torch.tensor([bits - (bits >> 31 << 32) for bits in ends], dtype=torch.int32).view(torch.float32)
    for name in ("bfloat16", "float16"):
        assert modeled.same(cast(block(ties), KINDS[name]).data, ties.to(getattr(torch, name)).tolist())
    near = torch.tensor(values, dtype=torch.float64) * (1 + 2.0**-30)
    assert modeled.same(cast(block(near), dtypes.float32).data, near.float().tolist())


@given(st.lists(floats, min_size=2, max_size=2), st.sampled_from(["add", "sub", "mul"]))
def test_arithmetic_is_rounded_once(values, name):
    a, b = torch.tensor(values, dtype=torch.bfloat16).split(1)
    compute = getattr(operator, name)
    assert modeled.same(compute(block(a), block(b)).data, compute(a, b).tolist())


@given(st.lists(floats, min_size=2, max_size=2), st.sampled_from(["lt", "le", "eq", "ne"]))
def test_comparisons(values, name):
    a, b = torch.tensor(values, dtype=torch.bfloat16).split(1)
    compute = getattr(operator, name)
    assert compute(block(a), block(b)).data == compute(a, b).tolist()


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_conversions_of_what_fits(source, target):
    numbers = [0, 1, 2, 5, 100, 127] + ([-1, -3, -128] if "u" not in source + target else [])
    x = torch.tensor(numbers, dtype=getattr(torch, source))
    assert modeled.same(cast(block(x), KINDS[target]).data, x.to(getattr(torch, target)).tolist())


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["float16", "float32", "float64"]))
def test_large_integers_are_rounded_once(value, target):
    x = torch.tensor([value])
    assert modeled.same(cast(block(x), KINDS[target]).data, x.to(getattr(torch, target)).tolist())


@given(st.lists(floats, min_size=3, max_size=3))
def test_bits_are_those_of_torch(values):
    for name, bits in (("bfloat16", "int16"), ("float16", "int16"), ("float32", "int32")):
        x = torch.tensor([v for v in values if v == v], dtype=getattr(torch, name))
        as_bits = x.view(getattr(torch, bits)).tolist()
        assert KINDS[bits].from_bytes(KINDS[name].to_bytes(x.tolist())) == as_bits
