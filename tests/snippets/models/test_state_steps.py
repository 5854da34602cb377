# SPDX-License-Identifier: Apache-2.0
"""Step by step is what float64 gives, for any strides; the toy is what one gets by hand; chunks give the same."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, handed_out, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from state_inputs import DECAYS, LAYOUTS, inputs

from snippets.models import state_steps as snippet
from snippets.models.state import in_torch
from snippets.models.state_steps import of_so_far, reaches, step_by_step, toy


def check(given, tolerance=1e-5, **options):
    found = step_by_step(*given, **options)
    wanted = in_torch(*(torch.nan_to_num(x.double(), neginf=-1e4) for x in given))
    for a, b, dtype in zip(found, wanted, (given[0].dtype, torch.float32), strict=True):
        assert a.dtype == dtype and a.shape == b.shape
        assert torch.allclose(a.double(), b, rtol=tolerance, atol=tolerance * max(b.abs().max().item(), 1))


@settings(max_examples=25)
@given(
    shape=st.tuples(*(st.integers(1, most) for most in (2, 3, 9, 17, 20))),
    decay=st.sampled_from(list(DECAYS)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    block_v=st.sampled_from([1, 4, 16]),
)
@example((1, 2, 1, 3, 17), "some", ("columns",) * 3, 16)
def test_as_float64(shape, decay, layouts, block_v):
    given = inputs(*shape, decay)
    for i, layout in enumerate(layouts):
        given[i] = LAYOUTS[layout](given[i])
    check(given, block_v=block_v)


def test_the_toy_by_hand(device):
    q, k, v, log_decay = toy(device)
    y, state = step_by_step(q, k, v, log_decay)
    assert y[0, 0].tolist() == [[4, 0], [0, 8], [5, 8], [1.5, 1]]
    assert state[0, 0].tolist() == [[1.5, 1], [9, 7]]


@pytest.mark.parametrize("chunk", [1, 2, 4, 8, 16])
def test_what_reaches_a_step(device, chunk):
    if device == "cpu":  # tl.dot of a GPU wants 16 steps or more
        step = torch.arange(16.0)
        wanted = (0.8 ** (step[:, None] - step[None, :])).tril()
        assert torch.allclose(reaches(16, 0.8, chunk), wanted, atol=1e-6)


def test_a_little_more_of_so_far(device):
    """By the rule of the product, and measured; the query of a step and its own key cancel, and -3 + 3 is 0."""
    if device == "cpu":
        of_q, of_k, gained = of_so_far()
        assert (of_q, of_k) == ([18, 8], [21, 5])
        for q, k, gain in zip(of_q, of_k, gained, strict=True):
            assert abs(gain - 0.01 * (q - k)) < 2e-4


def test_nothing_to_do(device):
    q, k, v, log_decay, initial = inputs(2, 3, 0, 8, 24, device=device)
    y, state = step_by_step(q, k, v, log_decay, initial)
    assert y.shape == (2, 3, 0, 24) and torch.equal(state, initial)
    assert step_by_step(*inputs(0, 3, 5, 8, 24, device=device))[0].shape == (0, 3, 5, 24)


def test_nothing_else_is_touched(device):
    options = {"before": 64, "after": 64, "fill": 0xFF}
    given = inputs(2, 1, 3, 5, 9, device=device)
    guarded = [Guarded(x.shape, x.dtype, device, **options) for x in given]
    for buffer, x in zip(guarded, given, strict=True):
        buffer.tensor.copy_(x)
    y, state = (Guarded(shape, torch.float32, device, **options) for shape in ((2, 1, 3, 9), (2, 1, 5, 9)))
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", y.tensor, state.tensor), seen as accesses:
        step_by_step(*(buffer.tensor for buffer in guarded))
    for buffer in (*guarded, y, state):
        buffer.check("a tensor")
        assert not buffer.tensor.isnan().any()
    if device == "cpu":
        check_each_once(accesses, "store", y=y.tensor, state=state.tensor)
        check_inside(accesses, "load", **{f"given{i}": buffer.tensor for i, buffer in enumerate(guarded)})


def test_far_elements():
    """Offsets pass 32 bits, though no stride does: those of program 5, and of its step 3."""
    x, far = torch.zeros(64), 2**30
    with recorded_accesses(first_program=(5, 0, 0), memory=False) as accesses:
        snippet.steps_kernel[(1,)](
            *[x] * 4, None, x, x, *[(far, far, far)] * 4, 1, 4, 16, 16, KEYS=16, BLOCK_V=16
        )  # fmt: skip
    reached = [(found.max().item() - x.data_ptr()) // 4 for op, found in accesses if op == "load" and found.size]
    assert max(reached) >= 8 * far


def test_refuses_a_gradient(device):
    given = inputs(1, 1, 2, 4, 4, device=device)
    with pytest.raises(ValueError, match=r"requires a gradient.*use state_scan"):
        step_by_step(given[0].requires_grad_(), *given[1:])
    with torch.no_grad():
        assert not step_by_step(*given)[0].requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 2e-2)])
def test_right_gpu(dtype, tolerance):
    for decay in DECAYS:
        check(inputs(2, 3, 70, 128, 100, decay, "cuda", dtype), tolerance)
