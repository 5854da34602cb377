# SPDX-License-Identifier: Apache-2.0
"""Each token that is drawn is the first of a race that NumPy runs anew, among those that a sort keeps."""

import contextlib
import math

import numpy as np
import pytest
import torch
from guards import Guarded, check_each_once, handed_out, recorded_accesses
from hypothesis import example, given
from hypothesis import strategies as st
from philox import philox

from snippets.models import sampling as snippet
from snippets.models.sampling import sample

inf, nan = math.inf, math.nan


def kept(logits: torch.Tensor, temperature: float, top_k: int, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which tokens of a row take part, by a sort, and their chances in float64."""
    logits = logits.double().cpu().nan_to_num(nan=-inf, posinf=inf, neginf=-inf)
    largest = logits.max()
    chance = torch.where(logits == largest, 1.0, ((logits - largest) / temperature).exp())
    keep = logits > -inf
    if 0 < top_k < len(logits):
        keep &= logits >= logits.sort(descending=True).values[top_k - 1]
    if top_p < 1 and keep.any():
        total = chance[keep].sum()
        for value in logits[keep].unique().flip(0):
            if chance[keep & (logits >= value)].sum() >= top_p * total:
                break
        keep &= logits >= value
    return keep, chance


def waits(seed: int, columns: int) -> np.ndarray:
    u = (philox(seed, np.arange(columns))[:, 0].astype(np.float64) + 0.5) / 2.0**32
    return -np.log1p(-np.minimum(u, 0.9999999))


def check(logits, seed, token, temperature=1.0, top_k=0, top_p=1.0):
    keep, chance = kept(logits, temperature, top_k, top_p)
    if not keep.any():
        assert token == -1
        return
    assert keep[token], (token, keep)
    wait = np.where(keep.numpy(), waits(seed, len(logits)) / chance.numpy().clip(1e-300), inf)
    assert wait[token] <= wait.min() * (1 + 1e-4)


numbers = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, 1.25, 2.0, 3.0, -4.0, 60.0, -60.0, inf, -inf, nan])


def test_integers_compare_as_floats_do(device):
    bits = [0, 1, 2, 0x7FFFFF, 0x3F800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000]
    bits = torch.tensor([*bits, *(each - 2**31 for each in bits)], dtype=torch.int32)
    out = torch.empty(16, dtype=torch.int32, device=device)

    @snippet.triton.jit
    def order_kernel(x_ptr, out_ptr):
        lanes = snippet.tl.arange(0, 16)
        snippet.tl.store(out_ptr + lanes, snippet.order_of(snippet.tl.load(x_ptr + lanes), 0))

    order_kernel[(1,)](bits.view(torch.float32).to(device), out)
    assert out.tolist() == [int(each) if each >= 0 else -(int(each) + 2**31) for each in bits.tolist()]


@given(
    logits=st.lists(numbers, min_size=1, max_size=20),
    dtype=st.sampled_from([torch.float16, torch.float32]),
    seed=st.integers(-(2**63), 2**63 - 1),
    temperature=st.sampled_from([1.0, 0.7, 3.0]),
    top_k=st.integers(0, 22),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.0]),
)
@example([1.0, 3.0, 2.0], torch.float32, 5, 1.0, 2, 1.0)
@example([nan, -inf], torch.float32, 5, 1.0, 1, 0.5)
@example([inf, 1.0, inf, nan], torch.float16, 5, 0.7, 0, 0.5)
@example([-4.0, -0.0, 0.0, -0.5], torch.float32, 5, 1.0, 2, 1.0)
@example([-60.0, -4.0, -0.5, -0.5, -4.0], torch.float16, 2, 1.0, 3, 0.9)
def test_draws_the_first_of_those_that_take_part(logits, dtype, seed, temperature, top_k, top_p):
    row = torch.tensor(logits, dtype=dtype)
    token = sample(row, torch.tensor(seed), temperature=temperature, top_k=top_k, top_p=top_p)
    assert token.dtype == torch.int64 and token.shape == ()
    check(row, seed, token.item(), temperature, top_k, top_p)


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 40, "top_p": 0.3, "temperature": 1.5}]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows_of_random_logits(device, dtype, settings):
    logits = (3 * torch.randn(2, 6, 77, generator=torch.Generator().manual_seed(1))).to(device, dtype)
    seeds = torch.arange(12, device=device).view(2, 6) * 7919 - 3
    tokens = sample(logits, seeds, **settings)
    assert tokens.shape == (2, 6)
    for row, seed, token in zip(logits.flatten(0, 1), seeds.flatten().tolist(), tokens.flatten().tolist(), strict=True):
        check(row, seed, token, **settings)


def test_tokens_come_out_as_often_as_they_should(device):
    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -1.0], device=device)
    draws = 300 if device == "cpu" else 1_000_000
    expected = draws * logits.double().softmax(0)
    found = torch.bincount(sample(logits.repeat(draws, 1), torch.arange(draws, device=device)), minlength=6)
    assert ((found - expected) ** 2 / expected).sum() < 20.5  # chi-square of 5 degrees: passed by 999 of 1000


def test_each_row_has_its_own_settings(device):
    logits = torch.randn(8, 33, generator=torch.Generator().manual_seed(3)).to(device)
    seeds = torch.arange(8, device=device)
    heat = torch.tensor([1.0, 0.0, 0.5, 2.0] * 2, device=device)
    k = torch.tensor([0, 1, 2, 5, 33, 40, 7, 3], device=device, dtype=torch.int32)
    p = torch.tensor([1.0, 0.9, 0.0, 0.5] * 2, device=device)
    together = sample(logits, seeds, temperature=heat, top_k=k, top_p=p)
    alone = [
        sample(logits[i], seeds[i], temperature=heat[i].item(), top_k=k[i].item(), top_p=p[i].item()) for i in range(8)
    ]
    assert together.tolist() == [each.item() for each in alone]


@pytest.mark.parametrize(
    "view",
    [
        lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
        lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
        lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
        lambda t: torch.stack([t, t], dim=1).clone()[:, 0],
    ],
)
def test_any_strides(device, view):
    logits = torch.randn(4, 3, 19, generator=torch.Generator().manual_seed(3)).to(device)
    seeds = torch.arange(12, device=device).view(3, 4).t()
    heat = torch.arange(1.0, 13.0, device=device).view(3, 4).t()
    other = sample(view(logits), seeds, temperature=heat, top_k=5)
    assert torch.equal(other, sample(logits, seeds.contiguous(), temperature=heat.contiguous(), top_k=5))
    assert other.unique().numel() > 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("around", [1.0, -1.0, 0.0, 65000.0])
def test_who_takes_part_among_neighbors(device, dtype, around):
    """Of numbers that differ in the last bit alone, by top-k and then top-p; at such a heat all are as probable."""
    integers = {torch.float16: torch.int16, torch.float32: torch.int32}[dtype]
    step = torch.tensor([3, 0, 5, 1, 4, 2]) if around else torch.tensor([2, -(2**15), 0, 1, 1 - 2**15, 3])
    bits = torch.tensor(around, dtype=dtype).view(integers).to(torch.int64) + step
    if not around and dtype == torch.float32:
        bits = torch.where(step < 0, step + 2**15 - 2**31, step)
    logits = bits.to(integers)
    logits = torch.cat([logits.view(dtype), torch.tensor([nan], dtype=dtype)])
    draws = 30 if device == "cpu" else 600
    seeds = torch.arange(draws, device=device)
    cuts = (0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (5, 1.0), (6, 1.0), (0, 0.45), (4, 0.6), (3, 0.6), (9, 0.3)
    for top_k, top_p in cuts:
        settings = {"temperature": 1e6, "top_k": top_k, "top_p": top_p}
        found = sample(logits.to(device).expand(draws, 7), seeds, **settings)
        keep, _ = kept(logits, *settings.values())
        assert sorted(set(found.tolist())) == keep.nonzero().flatten().tolist(), (top_k, top_p)


def test_temperature_0_takes_the_most_probable(device):
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)).to(device)
    tokens = sample(logits, torch.zeros(6, dtype=torch.int64, device=device), temperature=0.0)
    assert torch.equal(tokens, logits.argmax(-1))


def test_nothing_to_draw_from(device):
    seeds = torch.zeros(3, dtype=torch.int64, device=device)
    assert sample(torch.empty(3, 0, device=device), seeds).tolist() == [-1] * 3
    assert sample(torch.empty(0, 4, device=device), seeds[:0]).shape == (0,)
    assert sample(torch.empty(2, 0, 4, device=device), seeds[:0].view(0).expand(2, 0)).shape == (2, 0)
    assert sample(torch.full((3, 9), -inf, device=device), seeds, top_k=2, top_p=0.5).tolist() == [-1] * 3


@pytest.mark.parametrize("columns", [1, 5, 8, 9])
def test_nothing_else_is_touched(device, columns):
    logits = Guarded((3, columns), torch.float32, device, before=64, after=64, fill=0xFF)
    tokens = Guarded((3,), torch.int64, device, before=64, after=64, fill=0xFF)
    seeds = Guarded((3,), torch.int64, device, before=64, after=64, fill=0xFF)
    logits.tensor.copy_(torch.randn(3, columns)), seeds.tensor.copy_(torch.arange(3))
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", tokens.tensor), seen as accesses:
        sample(logits.tensor, seeds.tensor, top_k=2, top_p=0.5)
    for buffer in (logits, tokens, seeds):
        buffer.check("a tensor")
    assert ((tokens.tensor >= 0) & (tokens.tensor < columns)).all()
    if device == "cpu":
        check_each_once(accesses, "store", tokens=tokens.tensor)
        check_each_once(accesses, "load", logits=logits.tensor, seeds=seeds.tensor)


def test_far_rows():
    """Offsets pass 32 bits: the row that program 5 reads lies behind 2**32 elements."""
    logits, seeds, tokens = torch.randn(1, 8), torch.zeros(6, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    with recorded_accesses(first_program=(5, 0, 0), memory=False) as accesses:
        snippet.sample_kernel[(1,)](logits, seeds, tokens, 1.0, 0, 1.0, 8, 2**30, ZEROS=0, BLOCK=8)
    starts = [(found.min().item() - logits.data_ptr()) // 4 for _, found in accesses]
    assert 5 * 2**30 in starts


def test_the_waiting_time_keeps_its_digits(device):
    """Beside float64, over all sizes of u; never 0, never infinite."""
    bits = torch.tensor([0, 1, 2, 3, 100, 2**20, 2**25, 42949672, 42949673, 2**30, 2**31 - 1, -(2**31), -2, -1])
    u = ((bits % 2**32).double() + 0.5) / 2.0**32
    out = torch.empty(16, device=device)
    padded = torch.cat([bits, bits[:2]]).to(torch.int32).to(device)

    @snippet.triton.jit
    def wait_kernel(bits_ptr, out_ptr):
        lanes = snippet.tl.arange(0, 16)
        snippet.tl.store(out_ptr + lanes, snippet.waiting_time(snippet.tl.load(bits_ptr + lanes)))

    wait_kernel[(1,)](padded, out)
    found = out[:14].double().cpu()
    assert torch.allclose(found[:-3], -torch.log1p(-u)[:-3], rtol=2e-6, atol=0)
    assert (found > 0).all() and (found < 17).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": torch.tensor(1.0)}, "got a single number"),
        ({"logits": torch.zeros(2, 3, dtype=torch.float64)}, "logits are torch.float64; use one of"),
        ({"logits": torch.zeros(2, 3, device="meta")}, "seeds must be torch.int64, .*on meta"),
        ({"logits": torch.zeros(2, 1).expand(2, 2**18 + 1)}, r"at most 262,144 columns, and 2\*\*31 - 1 rows"),
        ({"seeds": torch.zeros(2)}, r"seeds must be torch.int64, \(2,\), .*; got torch.float32"),
        ({"seeds": torch.zeros(3, dtype=torch.int64)}, r"got torch.int64, \(3,\)"),
        ({"seeds": 5}, "seeds must be a tensor of int64, one for each row; got 5"),
        ({"temperature": -0.1}, "temperature must be 0 or more; got -0.1"),
        ({"temperature": nan}, "temperature must be 0 or more; got nan"),
        ({"temperature": "hot"}, "temperature must be 0 or more; got 'hot'"),
        ({"temperature": torch.ones(2, dtype=torch.float64)}, "temperature must be torch.float32"),
        ({"top_k": -1}, "top_k must be an int, 0 or more; got -1"),
        ({"top_k": 1.5}, "top_k must be an int, 0 or more; got 1.5"),
        ({"top_k": torch.ones(2)}, "top_k must be torch.int32"),
        ({"top_p": 1.1}, "top_p must be from 0 to 1; got 1.1"),
        ({"top_p": -0.1}, "top_p must be from 0 to 1; got -0.1"),
        ({"top_p": torch.ones(1)}, r"top_p must be torch.float32, \(2,\)"),
    ],
)
def test_refuses_what_it_cannot_serve(changes, message):
    given = {"logits": torch.zeros(2, 3), "seeds": torch.zeros(2, dtype=torch.int64)} | changes
    with pytest.raises(ValueError, match=message):
        sample(given.pop("logits"), given.pop("seeds"), **given)


def test_refuses_another_device():
    given = torch.zeros(2, 3, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match="logits are on meta; the kernel runs on"):
        sample(*given)


def test_a_long_row_is_shared_on_gpus_with_clusters(monkeypatch):
    monkeypatch.setattr(snippet.torch.version, "cuda", "13.0")
    launches = {(9, 0): {2**17: (8, 16), 2**15: (2, 16), 2**10: (1, 2)}, (8, 0): {2**17: (1, 32), 8: (1, 1)}}
    for capability, wanted in launches.items():
        snippet.launch_of.cache_clear()
        monkeypatch.setattr(snippet.torch.cuda, "get_device_capability", lambda device, of=capability: of)
        assert {block: snippet.launch_of(block, torch.device("cuda")) for block in wanted} == wanted
    snippet.launch_of.cache_clear()
