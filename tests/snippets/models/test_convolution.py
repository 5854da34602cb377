# SPDX-License-Identifier: Apache-2.0
"""The causal convolution and its gradients: float64's, for any lengths, widths and strides; it sees no later step."""

import contextlib
from unittest import mock

import pytest
import torch
from compiled import compiled
from guards import Guarded, among_nans, check_each_once, check_inside, handed_out, made_among_nans, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.models import convolution as module
from snippets.models.convolution import causal_conv1d, in_torch, last_inputs

LAYOUTS = {  # of a tensor (batch, channels, steps)
    "time": lambda x: among_nans(x.contiguous()),
    "tokens": lambda x: among_nans(x.mT.contiguous()).mT,
    "texts last": lambda x: x.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "gaps": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], -1)[..., 0],
    "a text for all": lambda x: x[:1].expand(x.shape),
    "flipped sign": lambda x: torch._neg_view(-x),
}
NAMES = "result", "x", "weight", "bias"


def inputs(batch, channels, steps, width, device="cpu", dtype=torch.float32, bias=True, initial=True, seed=0):
    """Return x, weight, bias and initial."""
    random = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(shape, generator=random).to(device, dtype)
    return [
        new(batch, channels, steps),
        new(channels, width),
        new(channels) if bias else None,
        new(batch, channels, width - 1) if initial else None,
    ]


def run(function, given, silu, grad):
    """Return the result and its gradients, of leaves that lie in memory as what is given does."""
    *given, initial = given
    leaves = [None if x is None else x.detach().requires_grad_() for x in given]
    y = function(*leaves, initial, silu=silu)
    gradients = torch.autograd.grad(y, [x for x in leaves if x is not None], grad)
    return [y.detach(), *gradients]


def plan_of(block_c, block_t, group=2):
    """A plan that chooses these blocks for each kernel."""
    blocks = {"BLOCK_C": block_c, "BLOCK_T": block_t}
    return lambda x, kind: blocks if kind == "time" else blocks | {"GROUP": group}


def check(given, silu, tolerance, grad_layout="time", function=causal_conv1d):
    """Compare with float64; an error counts beside the largest number of a tensor."""
    x = given[0]
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(9)).to(x.device, x.dtype)
    grad = LAYOUTS[grad_layout](grad)
    found = run(function, given, silu, grad)
    wanted = run(in_torch, [None if each is None else each.double() for each in given], silu, grad.double())
    for name, a, b in zip(NAMES, found, wanted, strict=given[2] is not None):
        assert a.shape == b.shape and a.dtype == x.dtype, name
        if a.numel():
            error = (a.double() - b).abs().max().item()
            assert error <= tolerance * max(b.abs().max().item(), 0.1), (name, error)


@settings(max_examples=15)
@given(
    batch=st.integers(1, 3), channels=st.integers(1, 40), steps=st.integers(1, 40), width=st.integers(1, 8),
    bias=st.booleans(), initial=st.booleans(), silu=st.booleans(), blocks=st.sampled_from([(4, 16), (16, 2), (1, 8)]),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 2),
)  # fmt: skip
@example(2, 5, 1, 4, True, True, True, (4, 16), ("time", "tokens"))
@example(2, 17, 33, 4, False, False, True, (16, 2), ("tokens", "texts last"))
@example(1, 3, 2, 8, True, True, False, (1, 8), ("gaps", "gaps"))
def test_as_in_float64(batch, channels, steps, width, bias, initial, silu, blocks, layouts):
    given = inputs(batch, channels, steps, width, bias=bias, initial=initial)
    given[0] = LAYOUTS[layouts[0]](given[0])
    if initial:
        given[3] = LAYOUTS[layouts[1]](given[3])
    with mock.patch.object(module, "plan", plan_of(*blocks)), made_among_nans():
        check(given, silu, 1e-5, layouts[1])


@pytest.mark.parametrize("layout", ["time", "tokens"])
def test_the_tiles_that_are_launched(layout):
    """Several tiles of steps and of channels, of the sizes that a GPU gets."""
    given = inputs(2, 150, 600, 4)
    given[0] = LAYOUTS[layout](given[0])
    check(given, True, 1e-5, layout)
    check(inputs(1, 3, 40, 4, dtype=torch.float16), True, 5e-3)


def test_no_result_sees_a_later_step(device):
    x, weight, bias, _ = inputs(2, 5, 37, 4, device)
    later = x.clone()
    later[:, :, 20:] = torch.nan
    for silu in (False, True):
        y, changed = (causal_conv1d(each, weight, bias, silu=silu) for each in (x, later))
        assert torch.equal(y[:, :, :20], changed[:, :, :20]) and changed[:, :, 20:].isnan().all()


def test_it_goes_on_where_it_stopped(device):
    """In pieces of any lengths, one token at a time too, the last inputs handed over."""
    x, weight, bias, initial = inputs(2, 6, 21, 4, device)
    whole = causal_conv1d(x, weight, bias, initial, silu=True)
    pieces, kept = [], initial
    for piece in x.split([1, 1, 2, 3, 9, 1, 4], dim=2):
        pieces.append(causal_conv1d(piece, weight, bias, kept, silu=True))
        kept = last_inputs(piece, 4, kept)
        assert kept.shape == (2, 6, 3)
    assert torch.allclose(torch.cat(pieces, 2), whole, atol=1e-6) and torch.equal(kept, x[:, :, -3:])


def test_what_is_kept_of_a_text_that_is_shorter_than_a_window():
    x = torch.tensor([[[1.0, 2.0]]])
    assert last_inputs(x, 4).tolist() == [[[0, 1, 2]]] and last_inputs(x, 1).shape == (1, 1, 0)
    assert last_inputs(x, 3).data_ptr() == x.data_ptr(), "a view"
    assert last_inputs(x[:, :, :0], 3, torch.tensor([[[8.0, 9.0]]])).tolist() == [[[8, 9]]]


def test_nothing_to_do(device):
    for batch, channels, steps in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        x, weight, bias, initial = inputs(batch, channels, steps, 4, device)
        leaves = [each.requires_grad_() for each in (x, weight, bias)]
        y = causal_conv1d(*leaves, initial, silu=True)
        y.sum().backward()
        assert y.shape == x.shape and [each.grad.shape for each in leaves] == [each.shape for each in leaves]
        assert not weight.grad.any() and not bias.grad.any()


def test_the_result_lies_as_the_inputs_do(device):
    for layout in ("time", "tokens"):
        x, weight, *_ = inputs(2, 5, 7, 4, device)
        x = LAYOUTS[layout](x).requires_grad_()
        y = causal_conv1d(x, weight)
        assert y.stride() == x.stride()
        y.sum().backward()
        assert x.grad.stride() == x.stride()


@pytest.mark.parametrize("layout", ["time", "tokens"])
def test_nothing_else_is_touched(device, layout):
    options = {"before": 64, "after": 64, "fill": 0xFF}
    lay = (lambda x: x.mT) if layout == "tokens" else lambda x: x
    x, weight, bias, initial = inputs(2, 5, 19, 4, device)
    given = lay(x), weight, bias, initial, lay(torch.ones_like(x))
    guarded = [Guarded(each.shape, each.dtype, device, **options) for each in given]
    for buffer, each in zip(guarded, given, strict=True):
        buffer.tensor.copy_(each)
    new = {name: Guarded((2, 5, 19), torch.float32, device, **options) for name in ("y", "of_x")}
    shares = Guarded((4, 5, 5), torch.float32, device, **options)
    x, weight, bias, initial, grad = (buffer.tensor for buffer in guarded)
    x, grad, backward = lay(x), lay(grad), layout == "tokens"  # the other way the backward copies first
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with (
        mock.patch.object(module, "plan", plan_of(2, 16)),
        handed_out("empty_like", *(buffer.tensor for buffer in new.values())),
        handed_out("empty", shares.tensor),
        seen as accesses,
    ):
        y = causal_conv1d(*(each.requires_grad_(backward) for each in (x, weight, bias)), initial, silu=True)
        if backward:
            torch.autograd.grad(y, (x, weight, bias), grad)
    made = {name: buffer.tensor.detach() for name, buffer in new.items()} | {"shares": shares.tensor}
    made = made if backward else {"y": made["y"]}
    for buffer in (*guarded, *new.values(), shares):
        buffer.check("a tensor")
    assert not any(each.isnan().any() for each in made.values())
    if device == "cpu":
        check_each_once(accesses, "store", **made)
        names = "x", "weight", "bias", "initial", "grad"
        check_inside(accesses, "load", **{n: b.tensor.detach() for n, b in zip(names, guarded, strict=True)})


@pytest.mark.parametrize("kernel", ["conv_kernel", "walk_kernel", "gradients_kernel"])
@pytest.mark.parametrize("far", ["texts", "channels", "steps"])
def test_far_elements(kernel, far):
    """Offsets pass 32 bits, in the last tile of a text, of its channels, or of its steps."""
    x = torch.zeros(64)
    strides = {"texts": (2**31, 8, 1), "channels": (0, 2**29, 1), "steps": (0, 1, 2**28)}[far]
    tensors, shown = (7, 4) if kernel == "gradients_kernel" else (5, 3)
    group = {} if kernel == "conv_kernel" else {"GROUP": 4}
    program = 2 * 2 * 3 - 1  # the last one: of 2 texts, each 2 tiles of steps and 3 of channels
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as accesses:
        getattr(module, kernel)[(1,)](
            *[x] * tensors, *[strides] * shown, 12, 32, WIDTH=4, SILU=True, BLOCK_C=4, BLOCK_T=16, **group
        )
    last = {"texts": 2**31 + 11 * 8 + 31, "channels": 11 * 2**29 + 31, "steps": 11 + 31 * 2**28}[far]
    for op in ("load", "store"):
        reached = [(found.max().item() - x.data_ptr()) // 4 for kind, found in accesses if kind == op and found.size]
        assert max(reached) == last, op


def test_the_same_bits(device):
    given = inputs(3, 70, 130, 4, device)
    grad = torch.ones(3, 70, 130, device=device)
    for a, b in zip(run(causal_conv1d, given, True, grad), run(causal_conv1d, given, True, grad), strict=True):
        assert torch.equal(a, b)


def test_under_torch_compile(device):
    x, weight, bias, initial = inputs(2, 5, 20, 4, device)
    conv = torch.compile(lambda x: causal_conv1d(x + 1, weight, bias, initial) * 2, backend="eager")
    assert torch.equal(conv(x), causal_conv1d(x + 1, weight, bias, initial) * 2)


def test_a_first_state_that_wants_a_gradient_is_refused():
    x, weight, bias, initial = inputs(1, 2, 3, 4)
    with pytest.raises(ValueError, match=r"initial requires a gradient.*initial\.detach\(\)"):
        causal_conv1d(x, weight, bias, initial.requires_grad_())
    with torch.no_grad():
        causal_conv1d(x, weight, bias, initial)


def test_what_is_printed(capsys):
    module.main()
    said = capsys.readouterr().out
    assert "y:      1000 100 10 1 2000 200 20 2" in said and "input 8: y = 8765; kept: 6 7 8" in said
    assert said.count("result, x, weight, bias") == 3 and "WRONG" not in said


def test_without_a_gpu_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(module, "conv_kernel", mock.Mock(spec=module.triton.JITFunction))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="TRITON_INTERPRET=1"):
        module.main()


CODE = """
x, weight = torch.empty(2, 4096, 1024).bfloat16().mT.requires_grad_(), torch.empty(1024, 4).bfloat16()
module.causal_conv1d(x, weight, weight[:, 0], silu=True).backward(torch.empty_like(x))
"""


def test_compiles_to_wide_loads():
    """For an H200, without one: channels that are neighbors are loaded and stored 8 or 16 bytes at once."""
    launches = compiled("models/convolution", CODE)
    assert len(launches) == 2
    for each in launches:
        assert min(each.widest("LDG"), each.widest("STG")) >= 64 and each.spills == 0


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_right_gpu(dtype, tolerance, layout):
    for shape in ((2, 300, 1000, 4), (3, 64, 33, 2), (1, 1500, 1, 4), (2, 7, 3001, 8)):
        given = inputs(*shape, "cuda", dtype)
        given[0] = LAYOUTS[layout](given[0])
        for silu in (False, True):
            check(given, silu, tolerance, layout)
        check([*given[:2], None, None], True, tolerance) if layout == "time" else None


@pytest.mark.gpu
def test_in_a_graph_without_a_wait_gpu():
    given = inputs(2, 100, 300, 4, "cuda", torch.bfloat16)
    grad = torch.ones_like(given[0])
    expected = run(causal_conv1d, given, True, grad)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(causal_conv1d, given, True, grad)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = run(causal_conv1d, given, True, grad)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(torch.equal, expected, replayed))


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["time", "tokens"])
def test_more_than_2_31_elements_gpu(layout):
    """The last text of many: its numbers lie behind 2**31 others, in x, the result, and the gradients of both."""
    batch, channels, steps = 129, 256, 65536 + 3
    few = inputs(1, channels, steps, 4, "cuda", torch.bfloat16)
    x = torch.zeros(batch, *((channels, steps) if layout == "time" else (steps, channels)), device="cuda").bfloat16()
    x = x if layout == "time" else x.mT
    x[-1] = few[0][0]
    assert x.numel() > 2**31
    x.requires_grad_()
    y = causal_conv1d(x, few[1])
    alone = few[0].requires_grad_()
    wanted = causal_conv1d(alone, few[1])
    assert torch.equal(y[-1], wanted[0]) and not y[:-1].any()
    (of_x,) = torch.autograd.grad(y, x, y.detach())
    (of_alone,) = torch.autograd.grad(wanted, alone, wanted.detach())
    assert torch.equal(of_x[-1], of_alone[0]) and not of_x[:-1].any()
