# SPDX-License-Identifier: Apache-2.0
"""Dropout keeps just the elements that Philox says, whatever shape, dtype, strides and block, forward and backward;
results are torch's in float64; nothing else is touched; and what it keeps looks random.

The mask is computed again in NumPy, by a Philox that gives the numbers that its authors publish. It is the same on any
device, so tests of what is random are tests of fixed numbers: they pass always, or never.
"""

import contextlib
import itertools
import re
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    handed_out,
    recorded_accesses,
)
from hypothesis import example, given
from hypothesis import strategies as st
from philox import expected_keep, ones_from_anywhere, philox, uniform

from snippets.fusion import dropout as snippet
from snippets.fusion.dropout import add_dropout, dropout, dropout_op
from snippets.fusion.dropout_steps import chi_square_of_neighbors
from snippets.tools.testing import ragged_sizes

functions = pytest.mark.parametrize("op", [False, True], ids=["function", "op"])

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


# Philox, and the mask that follows from it


@pytest.mark.parametrize(
    "counter, high, key, wanted",
    [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_numbers_that_its_authors_publish(counter, high, key, wanted):
    """In Random123's ``tests/kat_vectors``."""
    found = philox(key, np.array([counter], dtype=np.uint64), high)
    assert " ".join(f"{each:08x}" for each in found[0]) == wanted


def test_the_largest_integers_give_no_1():
    largest = uniform(np.array([2**31 - 1, 2**31, 0, 2**32 - 1]))
    assert largest.tolist() == [1 - 2**-24, 1 - 2**-24, 0, 0]


KEPT = 1 - round(0.3 * 65536) / 65536  # of p = 0.3, in 16 bits


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)


@contextlib.contextmanager
def by_op(yes=True):
    """Calls go to the custom op, as they do under torch.compile."""
    with mock.patch.object(snippet.Dropout, "apply", dropout_op) if yes else contextlib.nullcontext():
        yield


def check(x, residual, grad, p, seed):
    """Compare with what torch makes of the expected mask in float64. ``residual`` may be None."""
    keep = expected_keep(seed, x.shape, p).to(x.device)
    inputs = [each.detach().requires_grad_() for each in ([x] if residual is None else [x, residual])]
    out = dropout(*inputs, p, seed=seed) if residual is None else add_dropout(*inputs, p, seed=seed)
    found = [out.detach(), *torch.autograd.grad(out, inputs, grad)]
    share = round(p * 65536) / 65536
    scale = 1 / (1 - share) if share < 1 else 0.0
    dropped = lambda t: torch.where(keep, t.double() * scale, 0)
    added = 0 if residual is None else residual.double()
    wanted = [dropped(x) + added, dropped(grad), grad.double()]
    sizes = [wanted[0].abs() + dropped(x).abs(), wanted[1].abs(), wanted[2].abs()]
    eps = torch.finfo(torch.float32).eps  # of the scale
    for number, (actual, expected, size) in enumerate(zip(found, wanted, sizes, strict=False)):
        assert actual.shape == x.shape and actual.dtype == x.dtype
        if number < 2:  # the gradient of the residual is what came in
            assert actual.is_contiguous()
        stored = torch.finfo(x.dtype)
        allowed = eps * size + stored.eps * expected.abs() + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{number}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"
    return found


@pytest.mark.parametrize("add", [False, True], ids=["dropout", "add_dropout"])
@example((5, 40), ["turned", "gaps", "stride 0"], 0.5, 0, False, None)
@example((3, 2, 24), ["gaps", "turned", "turned"], 0.1, 2**40 + 1, True, None)
@example((2, 1030), ["contiguous", "contiguous", "flipped sign"], 0.9, -5, False, None)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 130))
    | st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 40))
    | st.tuples(st.integers(0, 20)),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3),
    p=st.sampled_from([0, 0.0, 0.1, 1 / 3, 0.5, 0.999, 1, 1.0]) | st.floats(0, 1),
    seed=st.integers(-(2**63), 2**63 - 1),
    op=st.booleans(),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, add, shape, layouts, p, seed, op, data):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from([torch.float32, *served(device)]))
    x, residual, grad = (LAYOUTS[each](numbers(shape, dtype, device, i)) for i, each in enumerate(layouts))
    if dtype == torch.float16:  # a large scale overflows
        p = min(p, 0.999) if p < 1 else p
    with by_op(op):
        check(x, residual if add else None, grad, p, seed)


@pytest.mark.parametrize("n", ragged_sizes(snippet.BLOCK_SIZE))
def test_every_size_around_a_block(device, n):
    check(*(numbers((n,), torch.float32, device, i) for i in range(3)), 0.3, 7)


def test_a_single_number(device):
    check(*(numbers((), torch.float32, device, i) for i in range(3)), 0.5, 0)


def test_float16_is_rounded_once(device):
    """In torch, the scaled x is rounded before the residual is added."""
    x, residual = (numbers((2000,), torch.float16, device, i) for i in range(2))
    keep = expected_keep(0, (2000,), 0.3).to(device)
    exact = torch.where(keep, x.double() / KEPT, 0) + residual.double()
    twice = torch.where(keep, x / KEPT, 0) + residual
    ours = add_dropout(x, residual, 0.3, seed=0)
    assert (ours != exact.half()).double().mean() < 0.002 < 0.02 < (twice != exact.half()).double().mean()


def test_a_warp_for_each_512_elements():
    """16 for each thread, as far as a program may have them."""
    assert [snippet.warps_of(size) for size in (4, 256, 512, 1024, 2048, 8192, 2**14)] == [1, 1, 1, 2, 4, 16, 16]


# The mask depends on seed and index alone


@pytest.mark.parametrize("block_size", [8, 16, 64, 512, 4096])
def test_the_same_mask_by_any_block(device, block_size):
    n = min(3 * block_size + 3, 600)
    out = snippet.forward(torch.ones(n, device=device), None, torch.tensor(3, device=device), 0.4, block_size)
    assert torch.equal((out > 0).cpu(), expected_keep(3, (n,), 0.4))


@pytest.mark.parametrize("warps", [1, 2, 8])
def test_the_same_mask_by_any_number_of_warps(device, warps):
    with mock.patch.object(snippet, "warps_of", lambda block_size: warps):
        out = dropout(torch.ones(5000, device=device), 0.4, seed=3)
    assert torch.equal((out > 0).cpu(), expected_keep(3, (5000,), 0.4))


def test_the_same_mask_in_any_shape_and_dtype(device):
    wanted = expected_keep(3, (24,), 0.4)
    for dtype in served(device):
        for shape in ((24,), (2, 12), (3, 1, 8), (12, 2)):
            x = torch.ones(shape, device=device, dtype=dtype).transpose(0, -1).contiguous().transpose(0, -1)
            for out in (dropout(x, 0.4, seed=3), add_dropout(x, torch.zeros_like(x), 0.4, seed=3)):
                assert torch.equal((out > 0).cpu().flatten(), wanted)


# Nothing else is touched, however large


def guarded(shape, dtype, device):
    return Guarded(shape, dtype, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("add", [False, True], ids=["dropout", "add_dropout"])
@pytest.mark.parametrize("n", ragged_sizes(8))
def test_each_element_is_touched_once_and_nothing_else(device, n, add):
    x, residual, out = full = [guarded((n,), torch.float32, device) for _ in range(3)]
    seed = guarded((), torch.int64, device)
    for i, each in enumerate((x, residual)):
        each.tensor.copy_(numbers((n,), torch.float32, device, i))
    seed.tensor.fill_(5)
    given = x.tensor, residual.tensor if add else None, seed.tensor
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", out.tensor), seen as accesses:
        assert snippet.forward(*given, 0.5, block_size=8) is out.tensor
    for buffer in [*full, seed]:
        buffer.check("a tensor")
    assert not out.tensor.isnan().any()
    if device == "cpu" and n:
        check_each_once(accesses, "store", out=out.tensor)
        of_seed = [found for op, found in accesses if found.tolist() == [seed.tensor.data_ptr()]]
        assert len(of_seed) == snippet.triton.cdiv(n, 8)
        others = [(op, found) for op, found in accesses if found.tolist() != [seed.tensor.data_ptr()]]
        check_each_once(others, "load", x=x.tensor, **({"residual": residual.tensor} if add else {}))


@pytest.mark.parametrize("first", [2**31, 2**32 - 1024, 2**32, 2**35, 2**35 + 2**34])
def test_elements_beyond_32_bits(first):
    """Of the program that begins there, told of more elements than there are: addresses, and the mask; 2**35 is where
    the counter, an eighth of it, passes 32 bits."""
    x, out, seed = torch.zeros(1), torch.zeros(1), torch.tensor(9)
    n, block = first + 1024, 1024
    settings = {"COMPUTE": snippet.tl.float32, "BLOCK_SIZE": block}
    keep, kernel = expected_keep(9, (block,), 0.5, first), snippet.add_dropout_kernel
    for arguments in ((x, None, out, seed), (x, x, out, seed)):
        with recorded_accesses(first_program=(first // block, 0, 0), memory=False) as accesses:
            kernel[(1,)](*arguments, n, 2**15, 2.0, **settings)
        begins = [((found - base.data_ptr()) // 4).tolist() for _, found in accesses for base in (x, out)]
        assert begins.count(list(range(first, n))) == len(arguments) - 1 - (arguments[1] is None)
        with recorded_accesses(first_program=(first // block, 0, 0)), ones_from_anywhere(seed) as stored:
            kernel[(1,)](*arguments, n, 2**15, 2.0, **settings)
        ((addresses, values),) = stored
        assert (addresses - out.data_ptr()).tolist() == [4 * i for i in range(first, n)]
        assert torch.equal(torch.from_numpy(values > 1), keep)


# The ends, and what is no number


@pytest.mark.parametrize("add", [False, True], ids=["dropout", "add_dropout"])
def test_nothing_dropped_and_all_dropped(device, add):
    x, residual, grad = (numbers((3000,), torch.float32, device, i) for i in range(3))
    for p in (0, 0.0, 1, 1.0):
        out, grad_x, *_ = check(x, residual if add else None, grad, p, 0)
        base = residual if add else torch.zeros_like(x)
        assert torch.equal(out, base if p else x + base)
        assert torch.equal(grad_x, torch.zeros_like(x) if p else grad)


def test_p_is_rounded_to_16_bits_and_the_scale_follows(device):
    assert snippet.threshold_and_scale(0.1) == (6554, 65536 / (65536 - 6554))
    assert snippet.threshold_and_scale(0.5) == (32768, 2.0)
    assert snippet.threshold_and_scale(2**-18) == (0, 1.0) and snippet.threshold_and_scale(1 - 2**-18) == (65536, 0.0)
    x = torch.ones(2**12, device=device)
    bits = philox(0, np.arange(2**9)).ravel()
    halves = np.stack([bits & np.uint64(0xFFFF), bits >> np.uint64(16)], axis=-1).ravel()
    at = int(np.argsort(halves)[100])  # whose bits are the threshold: it is kept, and by one more it is dropped
    for more, kept in ((0, True), (1, False)):
        out = dropout(x, (int(halves[at]) + more) / 65536, seed=0)
        assert (out[at] > 0).item() is kept


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf * 0
def test_what_is_dropped_is_0_even_if_it_is_no_number(device):
    x = torch.tensor([float("inf"), float("nan"), -float("inf")] * 100, device=device)
    keep = expected_keep(0, (300,), 0.5).to(device)
    out = dropout(x, 0.5, seed=0)
    assert not out[~keep].any() and torch.equal(out[keep].nan_to_num(), x[keep].nan_to_num())
    assert not dropout(x, 1.0).any()
    assert dropout(x, 0.0).isnan().sum() == 100


# Seeds


def test_seeds_are_drawn_from_torchs_generator(device):
    x = torch.ones(200, device=device)
    torch.manual_seed(1)
    first, second = dropout(x), add_dropout(x, torch.zeros_like(x))
    torch.manual_seed(1)
    assert torch.equal(first, dropout(x)) and torch.equal(second, dropout(x)) and not torch.equal(first, second)
    torch.manual_seed(2)
    assert not torch.equal(first, dropout(x))
    torch.manual_seed(1)
    seed = snippet.draw_seed(x.device)
    assert (seed.shape, seed.dtype, seed.device) == ((), torch.int64, x.device)
    assert torch.equal(dropout(x, seed=seed), first) and torch.equal(dropout(x, seed=seed.item()), first)
    assert torch.equal(dropout(x, seed=seed.view(1, 1)), first)


def test_a_seed_has_64_bits(device):
    x = torch.ones(200, device=device)
    seeds = [0, 1, 2**31, 2**32, 2**63 - 1, -1, -(2**63)]
    masks = {tuple(dropout(x, seed=seed).tolist()) for seed in seeds}
    assert len(masks) == len(seeds)


def test_seeds_of_many_layers_from_one_tensor(device):
    seeds = torch.tensor([5, 6, 7], device=device)
    x = torch.ones(200, device=device)
    assert all(torch.equal(dropout(x, seed=seeds[i]), dropout(x, seed=5 + i)) for i in range(3))


def test_a_seed_that_changes_before_the_backward_is_noticed(device):
    x, seed = torch.ones(5, device=device, requires_grad=True), torch.tensor(0, device=device)
    out = dropout(x, seed=seed)
    seed.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_checkpoint_drops_the_same_again(device):
    """It runs the forward again in the backward, after putting torch's generator back."""
    x = torch.ones(500, device=device, requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(lambda x: dropout(dropout(x, 0.3), 0.4), x, use_reentrant=False)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad, out.detach())


# Statistics, of fixed seeds


N = 2**17  # elements


def kept(seed, p, n=N):
    return snippet.forward(torch.ones(n), None, torch.tensor(seed), p, block_size=2**15) > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_share_that_is_kept_and_four_neighbors(seed, p):
    keep = kept(seed, p)
    assert abs(keep.sum().item() - N * (1 - p)) < 3 * (N * p * (1 - p)) ** 0.5
    assert 2.5 < chi_square_of_neighbors(keep, p) < 37.7  # 1 seed in 10,000 below, 1 in 1,000 above
    assert 2.5 < chi_square_of_neighbors(keep.view(4, -1).T.contiguous(), p) < 37.7  # far from each other


@pytest.mark.parametrize("other", [1, 2, 4, 2**31, 2**32, 2**33, -1])
def test_seeds_are_independent(other):
    """Those that differ in one bit, and in all."""
    one, two = kept(0, 0.5), kept(other, 0.5)
    both = torch.tensor([(one & two).sum(), (one & ~two).sum(), (~one & two).sum(), (~one & ~two).sum()])
    assert ((both - N / 4).square() / (N / 4)).sum() < 16.3  # 3 degrees of freedom: 1 pair in 1,000 has more


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 8, 2048, 2**15])
def test_elements_are_not_correlated(apart):
    signs = kept(0, 0.5).double() * 2 - 1
    assert abs((signs[apart:] * signs[:-apart]).sum().item()) < 3 * (N - apart) ** 0.5


def test_u_is_even(device):
    """256 bins of 2**14 numbers, all four of each run of Philox."""
    bits = philox(0, np.arange(2**12)).ravel()
    counts = np.bincount((uniform(bits) * 256).astype(int), minlength=256)
    assert len(counts) == 256 and 190 < ((counts - 64) ** 2 / 64).sum() < 330  # by chance 255, give or take 23


# As PyTorch calls it


@functions
def test_gradcheck(device, op):
    x, residual = (numbers((2, 2), torch.float64, device, i).requires_grad_() for i in range(2))
    with by_op(op):
        assert torch.autograd.gradcheck(lambda *each: add_dropout(*each, 0.3, seed=1), (x, residual))
        assert torch.autograd.gradgradcheck(lambda x: dropout(x, 0.3, seed=1), x)


def test_a_penalty_on_the_gradient(device):
    """The gradient of the gradient: that of (grad_x · x)² is as by torch with the same mask."""
    x = numbers((40,), torch.float64, device).requires_grad_()
    keep = expected_keep(1, (40,), 0.3).to(device)
    found = []
    for function in (lambda x: dropout(x, 0.3, seed=1), lambda x: torch.where(keep, x / KEPT, 0)):
        (grad,) = torch.autograd.grad(function(x).pow(2).sum(), x, create_graph=True)
        found += torch.autograd.grad((grad * x).sum().square(), x)
    assert torch.allclose(*found, rtol=1e-5)


@functions
def test_an_incoming_gradient_of_stride_0(device, op):
    x, residual = (numbers((5, 7), torch.float32, device, i).requires_grad_() for i in range(2))
    with by_op(op):
        add_dropout(x, residual, 0.3, seed=1).t().sum().backward()
    keep = expected_keep(1, (5, 7), 0.3).to(device)
    assert torch.allclose(x.grad, keep / KEPT) and torch.equal(residual.grad, torch.ones_like(x))


@functions
def test_a_gradient_for_one_of_the_two(device, op):
    x, residual = (numbers((5,), torch.float32, device, i) for i in range(2))
    keep = expected_keep(1, (5,), 0.3).to(device)
    with by_op(op), mock.patch.object(snippet, "forward", side_effect=snippet.forward) as launches:
        for wanted, one, times in ((keep / KEPT, x, 2), (torch.ones_like(x), residual, 1)):
            launches.reset_mock()
            one.requires_grad_()
            add_dropout(x, residual, 0.3, seed=1).sum().backward()
            assert torch.allclose(one.grad, wanted) and launches.call_count == times
            one.requires_grad_(False)
        assert not add_dropout(x, residual).requires_grad


def test_one_tensor_as_both(device):
    x = numbers((50,), torch.float32, device).requires_grad_()
    (grad,) = torch.autograd.grad(add_dropout(x, x, 0.3, seed=1).sum(), x)
    assert torch.allclose(grad, expected_keep(1, (50,), 0.3).to(device) / KEPT + 1)


@pytest.mark.parametrize("add", [False, True], ids=["dropout", "add_dropout"])
def test_keeps_a_seed_and_torch_a_mask(add):
    x, residual = (numbers((6, 10), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        add_dropout(x, residual, 0.1) if add else dropout(x, 0.1)
        ours, saved = saved, []
        torch.native_dropout(x, 0.1, True)  # what torch's dropout calls on a GPU
    assert [t.nbytes for t in ours] == [8] and [(t.dtype, t.numel()) for t in saved] == [(torch.bool, 60)]


@pytest.mark.parametrize("seed", [None, 1], ids=["drawn", "given"])
def test_under_torch_compile(device, seed):
    torch.compiler.reset()
    function = lambda x, residual: add_dropout(2 * x.t(), residual.t(), 0.3, seed=seed).t()
    compiled = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    for shape in ((50, 70), (60, 90)):  # the second may be compiled for any shape
        x, residual, grad = (numbers(shape, torch.float32, device, i) for i in range(3))
        x, residual = x.requires_grad_(), residual.requires_grad_()
        grad = grad.t().contiguous().t()
        outs = [compiled(x, residual) for _ in range(2)]
        assert torch.equal(*outs) == (seed is not None)
        for out in outs:
            grad_x, grad_residual = torch.autograd.grad(out, (x, residual), grad)
            keep = expected_keep(1, shape[::-1], 0.3).t().to(device) if seed else grad_x != 0
            assert torch.allclose(out, torch.where(keep, 2 * x / KEPT, 0) + residual, atol=1e-5)
            assert torch.allclose(grad_x, torch.where(keep, 2 * grad / KEPT, 0)) and torch.equal(grad_residual, grad)


@pytest.mark.parametrize("layout", ["contiguous", "turned"])
def test_the_op_keeps_what_it_promises_the_compiler(device, layout):
    x, residual = (LAYOUTS[layout](numbers((3, 4), torch.float32, device, i)) for i in range(2))
    seed = torch.tensor(1, device=device)
    torch.library.opcheck(dropout_op, (x.detach().requires_grad_(), residual.detach().requires_grad_(), seed, 0.3))
    torch.library.opcheck(dropout_op, (x.detach().requires_grad_(), None, seed, 0.3))


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


@functions
@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda x: dropout(x, -0.1), "from 0 to 1, the probability with which an element is dropped; got -0.1"),
        (lambda x: dropout(x, 1.5), "got 1.5"),
        (lambda x: dropout(x, float("nan")), "got nan"),
        (lambda x: dropout(x.int()), "torch.int32 is not supported; use one of torch.float16"),
        (lambda x: add_dropout(x, x[0]), "x and residual must have the same shape, dtype and device; got (2, 3)"),
        (lambda x: add_dropout(x, x.half()), "torch.float16 on"),
        (lambda x: dropout(x, seed=torch.zeros(2, dtype=torch.int64, device=x.device)), "seed must be one int64"),
        (lambda x: dropout(x, seed=torch.zeros((), dtype=torch.int32, device=x.device)), "got () torch.int32"),
    ],
)
def test_refuses(device, op, call, fragment):
    with pytest.raises(ValueError) as error, by_op(op):
        call(ones(2, 3, device=device))
    assert fragment in str(error.value)


@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda x: dropout(x.to("meta")), "x is on meta; kernels run on"),
        (lambda x: add_dropout(x, x.to("meta")), "torch.float32 on meta"),
        (lambda x: dropout(x, seed=torch.zeros((), dtype=torch.int64, device="meta")), "got () torch.int64 on meta"),
        (lambda x: dropout(x.to_sparse()), "x is torch.sparse_coo; pass x.to_dense()"),
        (lambda x: add_dropout(x, x.to_sparse()), "residual is torch.sparse_coo; pass residual.to_dense()"),
    ],
)
def test_refuses_what_lies_elsewhere(device, call, fragment):
    with pytest.raises(ValueError) as error:
        call(ones(2, 2, device=device))
    assert fragment in str(error.value)


# The file as a script, and compiled


CODE = """
seed = torch.tensor(0)
x = torch.empty(2**16, dtype=torch.bfloat16)
module.forward(x, None, seed, 0.1)
module.forward(x, x, seed, 0.1)
module.forward(x.float(), x.float(), seed, 0.1)
module.forward(torch.empty(1, dtype=torch.float64), None, seed, 0.1)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load. In 16 bits, what Philox gives is where its thread needs it, so none
    waits for another; and a run for eight elements takes an eighth of the multiplications (their high halves).
    """
    *launches, single = compiled("fusion/dropout", CODE)
    assert [launch.kernel for launch in launches] == ["add_dropout_kernel"] * 3
    for launch in launches:
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0)
    waits = ["BAR.SYNC" in launch.sass for launch in launches]
    assert waits == [False, False, True]  # in 32 bits a load brings four elements, and Philox bits for eight
    high = (round(len(re.findall(r"IMAD\.HI", launch.sass)) / snippet.A_THREAD) for launch in launches)
    assert all(1 <= each <= 3 for each in high), "the plain kernel has 12 or more"
    assert single.kernel == "add_dropout_kernel" and single.spills == 0


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(8192, 1024), (1000, 3000), (1001, 333)], ids=str)
def test_real_sizes(shape, dtype):
    check(*(numbers(shape, dtype, "cuda", i) for i in range(3)), 0.1, 2**40 + 7)


@pytest.mark.gpu
def test_more_than_2_to_the_34_elements():
    """Where the number of elements no longer fits 34 bits. The counter passes 32 bits only at 2**35."""
    if torch.cuda.mem_get_info()[0] < 75e9:
        pytest.skip("needs 75 GB of free GPU memory")
    n, seed = 2**34 + 1027, torch.tensor(9, device="cuda")
    out = dropout(torch.ones(n, dtype=torch.float16, device="cuda"), 0.5, seed=seed)
    for first in (0, 2**31 - 500, 2**32 - 500, 2**33 - 500, 2**34 - 500):
        window = out[first : first + 1500].cpu()
        assert torch.equal(window > 0, expected_keep(9, window.shape, 0.5, first))


@pytest.mark.gpu
def test_does_not_wait_for_the_gpu():
    x = torch.ones(5000, device="cuda", requires_grad=True)
    dropout(x).sum().backward()  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        for seed in (None, 3):
            add_dropout(x, x, seed=seed).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    """A drawn seed is drawn in each replay, and the backward has it; a number stays what it was."""
    x, residual = (torch.ones(4000, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))

    def run(seed):
        out = add_dropout(x, residual, seed=seed)
        return out.detach(), *torch.autograd.grad(out, (x, residual), torch.ones_like(out))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(None), run(3)
    side.synchronize()
    for seed in (None, 3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = run(seed)
        replays = []
        for _ in range(3):
            graph.replay()
            replays.append(captured[0].clone())
            assert torch.equal(captured[0] - 1, captured[1]) and torch.equal(captured[2], torch.ones_like(x))
        same = [torch.equal(replays[0], other) for other in replays[1:]]
        assert same == ([True, True] if seed else [False, False])


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_compiled_with_modes(mode):
    torch.compiler.reset()
    function = torch.compile(lambda x: dropout(2 * x, 0.3), mode=mode, fullgraph=True)
    x = torch.ones(5000, device="cuda", requires_grad=True)
    outs = []
    for _ in range(4):
        out = function(x)
        outs.append(out.detach().clone())
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert torch.equal(grad, outs[-1])
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(outs))
