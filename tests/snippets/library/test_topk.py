# SPDX-License-Identifier: Apache-2.0
"""The top-k to copy: values, places and gradients of a stable sort in torch, with every option, shape and dtype."""

import math

import numpy as np
import pytest
import torch
from compiled import compiled
from covering import covering
from hypothesis import given
from hypothesis import strategies as st

from snippets.library import topk as snippet
from snippets.library.topk import Plan, in_torch, topk

LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t) if t.is_floating_point() else t,
    "stride 0": lambda t: t[:1].clone().expand(t.shape),
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 65504.0, -65504.0]
FEW = {"groups of 4": Plan(2, 4, 2, 1), "groups of 8": Plan(1, 8, 1, 1)}


def numbers(shape, dtype, device, seed=0, special=False):
    """Return numbers of which some are equal, among NaN, so that what is read beyond the ends shows."""
    random = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        x = torch.randint(0 if dtype in (torch.uint8, torch.bool) else -9, 9, shape, generator=random)
        return x.to(device, dtype)
    x = (torch.randn(shape, generator=random) * 20).round() / 20
    if special:
        which = torch.randint(3 * len(SPECIAL), shape, generator=random)
        for i, value in enumerate(SPECIAL):
            x[which == i] = value
    nans = torch.full((16,), torch.nan)
    return torch.cat([nans, x.flatten(), nans])[16:-16].view(shape).to(device, dtype)


def wanted(x, k, dim=-1, largest=True):
    """In torch on a CPU, a NaN of either sign is the largest, and a stable sort keeps equal ones in order."""
    order = x.detach().cpu().double().sort(dim=dim, descending=largest, stable=True).indices
    indices = order.narrow(dim, 0, k).to(x.device)
    return x.gather(dim, indices), indices


def check(x, k, dim=-1, largest=True):
    values, indices = topk(x, k, dim, largest)
    exact = wanted(x, k, dim, largest)
    assert torch.equal(indices, exact[1])
    assert values.dtype == x.dtype and values.is_contiguous()
    assert torch.equal(values.double().nan_to_num(nan=1e9), exact[0].double().nan_to_num(nan=1e9))
    if x.requires_grad and k:
        grad = numbers(values.shape, torch.float32, x.device, 1).to(x.dtype)
        assert torch.equal(*(torch.autograd.grad(each, x, grad)[0] for each in (values, exact[0])))


@covering(dtype=snippet.DTYPES, largest=[True, False], size=[(1, 1), (7, 7), (33, 3), (270, 5)])
def test_every_dtype_both_ways(device, dtype, largest, size):
    columns, k = size
    for special in (False, True)[: 1 + dtype.is_floating_point]:
        x = numbers((2, columns), dtype, device, special=special)
        check(x.requires_grad_(dtype.is_floating_point), k, largest=largest)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(0, 40), st.integers(-3, 2),
    st.sampled_from(sorted(LAYOUTS)), st.sampled_from([None, *FEW]), st.booleans(), st.booleans(),
    st.sampled_from([torch.float32, torch.float16, torch.int32]), st.integers(0, 99),
)  # fmt: skip
def test_any_shape_dimension_and_layout(device, leading, columns, dim, layout, by, largest, special, dtype, seed):
    shape = (*leading, columns)
    dim = min(max(dim, -len(shape)), len(shape) - 1)
    x = LAYOUTS[layout](numbers(shape, dtype, device, seed, special)).detach()
    k = min(shape[dim], 4 if by else 20)
    plans = (lambda *_: FEW[by]) if by else snippet.plan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snippet, "plan", plans)
        check(x.requires_grad_(dtype.is_floating_point), k, dim, largest)


@covering(
    largest=[True, False],
    dtype=[torch.float32, torch.float16, torch.int8],
    columns=[5, 16, 19, 41],
    selects=["more than a program", "all"],
)
def test_more_than_a_program_selects_is_sorted(device, monkeypatch, dtype, largest, columns, selects):
    """Rows of one piece, of pieces that pair up, and of one that is left over."""
    monkeypatch.setattr(snippet, "MOST", 4)
    monkeypatch.setattr(snippet, "RUN", 8)
    x = numbers((2, columns), dtype, device, columns, special=True)
    check(x.requires_grad_(dtype.is_floating_point), columns if selects == "all" else 5, largest=largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows_of_the_worst_alone(device, dtype):
    """What stands in for columns beyond the last is no better than any of them, and comes after its equals."""
    for value, largest in ((-math.inf, True), (math.nan, False), (math.nan, True), (math.inf, False)):
        _, indices = topk(torch.full((2, 300), value, device=device, dtype=dtype), 9, largest=largest)
        assert indices.tolist() == [list(range(9))] * 2
    x = torch.full((1, 300), math.nan, device=device, dtype=dtype)
    x[0, 299] = math.inf
    assert topk(x, 2, largest=False)[1].tolist() == [[299, 0]]


@pytest.mark.parametrize("largest", [False, True])
def test_one_better_by_one_is_found_wherever_it_stands(device, largest):
    at = torch.tensor([*range(0, 300, 17), 1, 127, 128, 255, 256, 257, 299])
    one = torch.eye(300, dtype=torch.int32, device=device)[at]
    check(one if largest else 1 - one, 1, largest=largest)


@pytest.mark.parametrize("columns", [2**16, 2**16 + 1])
def test_columns_of_16_bits_and_more(device, columns):
    x = torch.zeros(1, columns, dtype=torch.float16, device=device)
    x[0, -1], x[0, 7] = 2.0, 1.0
    assert topk(x, 3)[1].tolist() == [[columns - 1, 7, 0]]
    assert topk(-x, 2, largest=False)[1].tolist() == [[columns - 1, 7]]


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("largest", [True, False])
def test_softmax_of_the_k_and_its_gradient(device, k, largest):
    x = torch.randn(5, 4, 9, generator=torch.Generator().manual_seed(0)).to(device)
    for dim in (-1, 0):
        k = min(k, x.shape[dim])
        ours, exact = x.clone().requires_grad_(), x.double().requires_grad_()
        values, indices = topk(ours, k, dim, largest, softmax=True)
        weights, places = in_torch(exact, k, dim, largest, softmax=True)
        assert torch.equal(indices, places) and torch.allclose(values.double(), weights, atol=1e-6)
        grad = torch.randn(values.shape, generator=torch.Generator().manual_seed(1)).to(device)
        found = torch.autograd.grad(values, ours, grad)[0]
        assert torch.allclose(found.double(), torch.autograd.grad(weights, exact, grad.double())[0], atol=1e-6)


@pytest.mark.parametrize("softmax", [False, True])
def test_functional_gradients_and_vmap(device, softmax):
    x = torch.randn(4, 3, 20, generator=torch.Generator().manual_seed(0)).to(device)
    loss = lambda function: lambda x: (function(x, 3, softmax=softmax)[0] ** 3).sum()
    first = [torch.func.grad(loss(each))(x) for each in (topk, in_torch)]
    assert torch.allclose(*first, atol=1e-5)
    second = [torch.func.jacrev(torch.func.grad(loss(each)))(x[0, 0]) for each in (topk, in_torch)]
    assert torch.allclose(*second, atol=1e-4)
    for in_dim in (0, 1):
        mapped = torch.func.vmap(lambda row: topk(row, 2, 0, softmax=softmax), in_dims=in_dim)(x)
        whole = topk(x.movedim(in_dim, 0), 2, 1, softmax=softmax)
        assert all(map(torch.equal, mapped, whole))


@pytest.mark.parametrize("softmax", [False, True])
def test_compiled_without_a_break(device, softmax):
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    function = lambda x: topk(2 * x, 3, 0, largest=False, softmax=softmax)
    whole = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    results = []
    for each in (function, whole):
        values, indices = each(x)
        results.append([values, indices, torch.autograd.grad((values**2).sum(), x)[0]])
    assert all(torch.allclose(a, b) for a, b in zip(*results, strict=True))


def test_numbers_of_numpy_and_tensors(device):
    x = torch.arange(6.0, device=device)
    for k in (np.int64(2), torch.tensor(2)):
        assert topk(x, k, np.int32(0), sorted=False)[1].tolist() == [5, 4]


x = torch.ones(2, 5)
REFUSED = {
    "k must be from 0 to 5": lambda: topk(x, 6),
    "k must be from 0 to 2": lambda: topk(x, 3, 0),
    "k must be a whole number, not on a GPU; got 1.5": lambda: topk(x, 1.5),
    "dim must be one of x's 2 dimensions; got 2": lambda: topk(x, 1, 2),
    "dim must be one of x's 0 dimensions": lambda: topk(torch.tensor(1.0), 1),
    "leave a key no room for the column": lambda: topk(x.long(), 1),
    "torch.complex64 is not supported": lambda: topk(x.to(torch.complex64), 1),
    "softmax needs floats": lambda: topk(x.int(), 1, softmax=True),
    "softmax takes k up to 1024": lambda: topk(torch.ones(2000), 1025, softmax=True),
    "pass x.to_dense()": lambda: topk(x.to_sparse(), 1),
    "x is on meta": lambda: topk(x.to("meta"), 1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


CODE = """
for shape, dtype in (((9, 4096), torch.bfloat16), ((9, 4096), torch.float32)):
    module.topk_forward(torch.empty(shape, dtype=dtype), 8, True, False)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    small, large = compiled("library/topk", CODE)
    assert (small.widest("LDG"), small.options["KEY"], small.spills) == (128, "int32", 0)
    assert (large.widest("LDG"), large.options["KEY"], large.spills) == (128, "int64", 0)
    assert max(small.registers, large.registers) <= 64  # so that 32 programs of one warp fit


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize(
    "shape, k",
    [((1000, 128), 8), ((300, 1000), 1), ((70, 4096), 64), ((17, 50257), 8), ((3, 131072), 1000), ((3, 70001), 5000)],
    ids=str,
)
def test_real_sizes(shape, k, dtype):
    for largest in (True, False):
        check(numbers(shape, dtype, "cuda", special=True), k, largest=largest)
