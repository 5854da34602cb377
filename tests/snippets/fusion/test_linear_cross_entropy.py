# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy with the last layer: loss and gradients of torch in float64, whatever shape, dtype, strides and chunks;
no product that nobody wants, and the memory of one chunk."""

from unittest import mock

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.fusion import cross_entropy as loss_alone
from snippets.fusion import linear_cross_entropy as snippet
from snippets.fusion.linear_cross_entropy import linear_cross_entropy

IGNORED = -100
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, log(0)

LAYOUTS = {  # of a tensor of this shape; some of them repeat some of its values
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "wide gaps": lambda t: torch.cat([t, *[torch.zeros_like(t)] * 7], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


def numbers(shape, dtype, device, seed=0, scale=3.0, start=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale + start).to(device, dtype)


def targets(shape, columns, device, seed=0, ignored=0.3, dtype=torch.int64):
    random = torch.Generator().manual_seed(seed)
    found = torch.randint(max(columns, 1), shape, generator=random)
    return torch.where(torch.rand(shape, generator=random) < ignored, IGNORED, found).to(device, dtype)


def in_torch(logits, target):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long())


@silent
@example((5, 4, 9), ("turned", "gaps"), 2, 2.0, 0, (True, True), None)
@example((2, 3, 4, 9), ("flipped sign", "turned"), 4, 1.0, 0, (True, True), None)
@given(
    shape=st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(1, 20))
    | st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.integers(1, 20))
    | st.tuples(st.integers(1, 5), st.integers(1, 20)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 2),
    chunk=st.sampled_from([None, 1, 2, 3, 7, 100]),
    factor=st.sampled_from([1.0, -2.5]),
    seed=st.integers(0, 999),
    wants=st.sampled_from([(True, True), (True, False), (False, True)]),
    data=st.data(),
)
def test_with_the_layer_as_torch_computes_it_in_float64(device, shape, layouts, chunk, factor, seed, wants, data):
    *rows, k, columns = shape
    dtype = torch.float64 if data is None else data.draw(st.sampled_from([torch.float32, torch.float64]))
    hidden = LAYOUTS[layouts[0]](numbers((*rows, k), dtype, device, seed, 1.0))
    weight = LAYOUTS[layouts[1]](numbers((columns, k), dtype, device, seed + 1, 1.0))
    target = targets(rows, columns, device, seed)
    leaves = [each.detach().requires_grad_(want) for each, want in zip((hidden, weight), wants, strict=True)]
    doubles = [each.detach().double().requires_grad_(want) for each, want in zip(leaves, wants, strict=True)]
    by_8 = loss_alone.Blocks(8, 8, 1, 1)
    with mock.patch.object(loss_alone, "blocks_for", lambda *_: by_8):
        found = linear_cross_entropy(*leaves, target, chunk=chunk)
        got = torch.autograd.grad(factor * found, [each for each in leaves if each.requires_grad])
    wanted = in_torch(doubles[0] @ doubles[1].t(), target)
    expected = torch.autograd.grad(factor * wanted, [each for each in doubles if each.requires_grad])
    loose = 1e-4 if dtype == torch.float32 else 1e-9
    assert torch.allclose(found.double(), wanted, rtol=loose, atol=loose, equal_nan=True)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == dtype and a.is_contiguous()
        assert torch.allclose(a.double(), b, rtol=loose, atol=loose)


def test_a_second_backward_of_the_layer_is_right_too(device):
    hidden, weight = (numbers(s, torch.float64, device, 0, 1.0).requires_grad_() for s in ((5, 3), (9, 3)))
    target = targets((5,), 9, device)
    loss = linear_cross_entropy(hidden, weight, target, chunk=2)
    theirs = in_torch(hidden @ weight.t(), target)
    for factor in (2.0, 1.0, 3.0):
        found, wanted = (
            torch.autograd.grad(factor * each, (hidden, weight), retain_graph=True) for each in (loss, theirs)
        )
        assert all(map(torch.allclose, found, wanted))


def test_nothing_to_do(device):
    hidden, weight = (torch.empty(shape, device=device, requires_grad=True) for shape in ((0, 3), (5, 3)))
    loss = linear_cross_entropy(hidden, weight, torch.empty(0, dtype=torch.int64, device=device))
    grads = torch.autograd.grad(loss, (hidden, weight), torch.ones_like(loss))
    assert loss.isnan() and grads[0].shape == (0, 3) and not grads[1].any()


def test_gradcheck(device):
    hidden, weight = (numbers(shape, torch.float64, device, 1).requires_grad_() for shape in ((3, 1), (5, 1)))
    target = torch.tensor([2, 0, IGNORED], device=device)
    assert torch.autograd.gradcheck(lambda *given: linear_cross_entropy(*given, target, chunk=2), (hidden, weight))


def test_a_gradient_of_the_gradient_is_refused(device):
    x, weight = (numbers((9, 5), torch.float32, device).requires_grad_() for _ in range(2))
    loss = linear_cross_entropy(x, weight, targets((9,), 9, device))
    with pytest.raises(RuntimeError, match=r"^linear_cross_entropy has no gradient of its gradient"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_what_is_kept(device):
    """Hidden, the weight and the target."""
    x, weight = (numbers(shape, torch.float32, device).requires_grad_() for shape in ((6, 40), (50, 40)))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        linear_cross_entropy(x, weight, targets((6,), 50, device))
    assert sorted(saved) == [6, 240, 2000]


def test_without_a_gradient_none_is_made():
    x, weight = (numbers((6, 40), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    target = targets((6,), 6, "cpu")
    with mock.patch.object(loss_alone, "write_gradient", None), mock.patch.object(snippet, "add_gradients") as add:
        with torch.no_grad():
            linear_cross_entropy(x, weight, target)
        linear_cross_entropy(x.detach(), weight.detach(), target)
    assert all(call.args[:2] == (None, None) for call in add.call_args_list)


def test_products_that_nobody_wants_are_not_computed(device):
    hidden, weight = (numbers((6, 40), torch.float64, device, i) for i in range(2))
    target = targets((6,), 6, device)
    for wants in ((True, False), (False, True)):
        leaves = [each.clone().requires_grad_(want) for each, want in zip((hidden, weight), wants, strict=True)]
        seen, add = [], snippet.add_gradients
        noted = lambda *given: seen.append(tuple(each is not None for each in given[:2])) or add(*given)  # noqa: B023
        with mock.patch.object(snippet, "add_gradients", noted):
            linear_cross_entropy(*leaves, target, chunk=4).backward()
        assert seen == [wants] * 2


@pytest.mark.gpu
def test_chunks_of_16_bits_are_added_up_in_float32():
    """The gradient of the weight is as near for 48 chunks as for one."""
    hidden, weight = (numbers(s, torch.bfloat16, "cuda", i, 0.5) for i, s in enumerate([(240, 24), (40, 24)], start=1))
    target = targets((240,), 40, "cuda")
    loss = in_torch(hidden.double() @ (exact := weight.double().requires_grad_()).t(), target)
    (wanted,) = torch.autograd.grad(loss, exact)
    error = {}
    for chunk in (240, 5):
        leaf = weight.detach().requires_grad_()
        linear_cross_entropy(hidden, leaf, target, chunk=chunk).backward()
        error[chunk] = (leaf.grad.double() - wanted).abs().mean().item()
    assert error[5] < 1.2 * error[240]


@pytest.mark.parametrize("chunk, dtype", [(100, torch.bfloat16), (4, torch.float32)])
def test_chunks_are_added_up_in_float32_and_one_chunk_is_not(chunk, dtype):
    rows, weight = torch.ones(10, 3, dtype=torch.bfloat16), torch.ones(7, 3, dtype=torch.bfloat16)
    assert snippet.new_gradients(rows, weight, chunk, True, True)[1].dtype == dtype
    total, ones = torch.ones(2, 3, dtype=dtype), torch.ones(2, 2, dtype=torch.bfloat16)
    for add, wanted in ((True, 3.0), (False, 2.0)):
        snippet.add_product(total.fill_(1), ones, torch.ones(2, 3, dtype=torch.bfloat16), add=add)
        assert torch.equal(total, torch.full_like(total, wanted))


def test_chunks_share_their_memory(device):
    rows, weight = numbers((7, 4), torch.float32, device), numbers((9, 4), torch.float32, device)
    found = [(part, logits.data_ptr(), logits.clone()) for part, logits in snippet.chunks(rows, weight, 3)]
    assert [part for part, *_ in found] == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert len({at for _, at, _ in found}) == 1
    assert torch.allclose(torch.cat([logits for *_, logits in found]), rows @ weight.t())


def test_rows_of_a_chunk():
    rows_of = lambda rows, columns, width, dtype, wants=True: snippet.rows_of_a_chunk(
        rows, (columns, width), dtype, wants
    )
    assert rows_of(9000, 128256, 64, torch.bfloat16) == 1024
    assert rows_of(9000, 128256, 4096, torch.float32) == 512
    assert rows_of(9000, 32000, 512, torch.bfloat16) == 4096
    assert rows_of(9000, 2**21, 8, torch.bfloat16) == 64, "less than 128"
    assert rows_of(9000, 2**30, 4, torch.float64) == 1
    assert rows_of(9000, 128256, 4096, torch.bfloat16) == 4096, "as large as what rounding takes"
    assert rows_of(8192, 128256, 4096, torch.bfloat16) == 8192, "at once, in less than float32 would take"
    assert rows_of(8192, 128256, 4096, torch.bfloat16, False) == 1024, "nothing is added up"


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


@pytest.mark.parametrize(
    "make, options, fragment",
    [
        (lambda x, w, t: (x, w[0], t), {}, "weight must have the shape (columns, 3) and the dtype of hidden; got (3,)"),
        (lambda x, w, t: (x, w[:, :2], t), {}, "got (5, 2) torch.float32 for hidden (2, 3) torch.float32"),
        (lambda x, w, t: (x, w.half(), t), {}, "got (5, 3) torch.float16"),
        (lambda x, w, t: (x, w, t[:1]), {}, "target must have the shape (2,), a column for each row"),
        (lambda x, w, t: (x, w[:0], t), {}, "a row has no column"),
        (lambda x, w, t: (x, w, t), {"chunk": 0}, "chunk must be None or a number of rows, 1 or more; got 0"),
        (lambda x, w, t: (x, w, t), {"chunk": 2.0}, "1 or more; got 2.0"),
        (lambda x, w, t: (x.to("meta"), w.to("meta"), t.to("meta")), {}, "hidden is on meta; kernels run on"),
    ],
)
def test_the_layer_refuses(device, make, options, fragment):
    with pytest.raises(ValueError) as error:
        linear_cross_entropy(
            *make(
                ones(2, 3, device=device), ones(5, 3, device=device), torch.zeros(2, dtype=torch.int64, device=device)
            ),
            **options,
        )
    assert fragment in str(error.value)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_real_layer(dtype):
    hidden, weight = numbers((1000, 512), dtype, "cuda", 0, 1.0), numbers((32000, 512), dtype, "cuda", 1, 0.05)
    target = targets((1000,), 32000, "cuda")
    norm = torch.linalg.vector_norm
    leaves = [each.clone().requires_grad_() for each in (hidden, weight)]
    doubles = [each.double().requires_grad_() for each in (hidden, weight)]
    loss = linear_cross_entropy(*leaves, target, chunk=128)
    wanted = in_torch(doubles[0] @ doubles[1].t(), target)
    found = [loss, *torch.autograd.grad(2 * loss, leaves)]
    exactly = [wanted, *torch.autograd.grad(2 * wanted, doubles)]
    for a, b in zip(found, exactly, strict=True):
        assert norm(a.double() - b) < (0.02 if dtype == torch.bfloat16 else 1e-4) * norm(b)


@pytest.mark.gpu
@pytest.mark.parametrize("rows, chunk, times", [(4096, 256, 3), (4096, 4096, 1), (512, None, 1)])
def test_the_layer_takes_a_chunk_and_the_gradients(rows, chunk, times):
    """With several chunks the gradient of the weight is there in float32, and then rounded: 6 bytes instead of 2."""
    hidden = numbers((rows, 256), torch.bfloat16, "cuda").requires_grad_()
    weight = numbers((32000, 256), torch.bfloat16, "cuda", 1, 0.1).requires_grad_()
    target = targets((rows,), 32000, "cuda")
    run = lambda: torch.autograd.grad(linear_cross_entropy(hidden, weight, target, chunk=chunk), (hidden, weight))
    run()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < 1.2 * 2 * (min(chunk or rows, rows) * 32000 + hidden.numel() + times * weight.numel())


@pytest.mark.gpu
def test_the_host_never_waits():
    hidden, weight = (numbers((50, 1000), torch.float32, "cuda", i).requires_grad_() for i in range(2))
    target = targets((50,), 50, "cuda")
    linear_cross_entropy(hidden, weight, target)
    torch.cuda.set_sync_debug_mode("error")
    try:
        (3 * linear_cross_entropy(hidden, weight, target)).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", loss_alone.DTYPES)
def test_in_a_cuda_graph(dtype):
    hidden = numbers((300, 5000), dtype, "cuda").requires_grad_()
    weight = numbers((700, 5000), dtype, "cuda", 1, 0.01).requires_grad_()
    target = targets((300,), 700, "cuda")

    def run():
        loss = linear_cross_entropy(hidden, weight, target, chunk=100)
        return [loss, *torch.autograd.grad(loss, (hidden, weight), 3 * torch.ones_like(loss))]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expected = run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    graph.replay()
    for a, b in zip(captured, expected, strict=True):
        assert torch.allclose(a, b, rtol=2e-2, atol=1e-3)
