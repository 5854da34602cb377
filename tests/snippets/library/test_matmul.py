# SPDX-License-Identifier: Apache-2.0
"""The products to copy: results and gradients of torch in float64, with every option, any shape, dtype and strides."""

import functools
import inspect
import textwrap
import threading

import numpy as np
import pytest
import torch
from compiled import compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from prepared import keep_launches, refuse_launches

from snippets.library import matmul as snippet
from snippets.library.matmul import ACTIVATIONS, Tile, in_torch, linear, matmul

# Tiles of which even small products have several, persistent and in two pieces
SMALL = Tile(16, 32, 0, 16, 4, 2, 16, False, 2, 1.0)
PIECES = Tile(32, 32, 16, 16, 4, 2, 16, True, 2, 1.0)
LAYOUTS = {
    "rows": lambda t: t,
    "columns": lambda t: t.mT.contiguous().mT,
    "gaps": lambda t: torch.cat([t, torch.full_like(t, torch.nan)], dim=-1)[..., : t.shape[-1]],
    "offset": lambda t: torch.cat([torch.full_like(t[..., :1], torch.nan), t], dim=-1)[..., 1:],
    "stride 0": lambda t: t[..., :1].expand(t.shape) if t.shape[-1] else t,
}
KERNEL = snippet.matmul_kernel.fn
TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


@pytest.fixture(scope="module", params=[SMALL, PIECES], ids=["one piece", "two pieces"])
def tiles(request):
    """Small tiles and three multiprocessors in the interpreter; on a GPU the real ones."""
    with pytest.MonkeyPatch.context() as patch:
        if snippet.INTERPRETED:
            patch.setattr(snippet, "multiprocessors", lambda device: 3)
            adapt = lambda batches, M, N, size, by_hand, gated, count: snippet.adapt(request.param, 2, gated)
            patch.setattr(snippet, "choose_tile", adapt)
        yield


def check(ours, theirs, tensors, dtype=None):
    """Compare results and all gradients with those of torch in float64."""
    leaves = [None if each is None else each.detach().requires_grad_() for each in tensors]
    exact = [None if each is None else each.detach().double().requires_grad_() for each in tensors]
    found, wanted = ours(*leaves), theirs(*exact)
    assert found.shape == wanted.shape and found.dtype == (dtype or leaves[0].dtype)
    grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(found)
    pairs = [(found, wanted)]
    found.backward(grad)
    wanted.backward(grad.double())
    pairs += [(a.grad, b.grad) for a, b in zip(leaves, exact, strict=True) if a is not None]
    for a, b in pairs:
        assert a.shape == b.shape
        scale = b.abs().max().clamp(min=1) if b.numel() else 1
        torch.testing.assert_close(a.double() / scale, b / scale, rtol=0, atol=TOLERANCE[leaves[0].dtype])


def numbers(device, dtype, *shapes, scale=1.0):
    random = torch.Generator().manual_seed(0)
    return [None if s is None else (scale * torch.randn(s, generator=random)).to(device, dtype) for s in shapes]


PRODUCTS = {
    "a matrix by a matrix": ((33, 20), (20, 50)),
    "vectors": ((20,), (20,)),
    "a vector by a matrix": ((20,), (20, 50)),
    "batches by a vector": ((3, 17, 20), (20,)),
    "batches by a matrix": ((2, 2, 17, 20), (20, 33)),
    "a matrix by batches": ((17, 20), (2, 20, 33)),
    "batches by batches": ((2, 17, 20), (2, 20, 33)),
    "batches repeated": ((2, 1, 17, 20), (2, 20, 33)),
    "nothing summed": ((4, 0), (0, 5)),
    "no rows": ((0, 4), (4, 5)),
    "no batches": ((0, 3, 4), (4, 5)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_their_gradients(tiles, device, name):
    a, b = numbers(device, torch.float32, *PRODUCTS[name])
    check(matmul, torch.matmul, (a, b))
    shape = torch.matmul(a, b).shape
    (c,) = numbers(device, torch.float32, shape[-2:] if name == "batches by batches" else shape[-1:])
    check(
        lambda a, b, c: matmul(a, b, c=c, alpha=0.5, beta=-2),
        lambda a, b, c: 0.5 * torch.matmul(a, b) - 2 * c, (a, b, c),
    )  # fmt: skip


@settings(max_examples=20)
@given(
    st.integers(0, 2), st.integers(1, 40), st.integers(1, 70), st.integers(1, 40), st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)), st.sampled_from([torch.float16, torch.float32]),
)  # fmt: skip
def test_any_shape_layout_and_dtype(tiles, device, batches, M, N, K, of_a, of_b, of_c, dtype):
    a, b, c = numbers(device, dtype, (batches, M, K), (batches, K, N), (batches, M, N))
    a, b, c = LAYOUTS[of_a](a), LAYOUTS[of_b](b), LAYOUTS[of_c](c)
    check(lambda a, b, c: matmul(a, b, c=c, beta=1), lambda a, b, c: a @ b + c, (a, b, c))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("N", [40, 41])  # 41: rows that the TMA cannot store
def test_layers_and_their_gradients(tiles, device, activation, gated, N):
    run = lambda function: lambda *tensors: function(*tensors, activation=activation, gated=gated)
    for leading, bias in (((2, 19), True), ((), False)):
        width = N * (1 + gated)
        tensors = numbers(device, torch.float32, (*leading, 20), (width, 20), (width,) if bias else None)
        check(run(linear), run(in_torch), tensors)


def swiglu(function):
    return lambda x, weight: function(x, weight, None, "silu", gated=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("M, N, K", [(1, 512, 777), (300, 1000, 520), (1500, 1536, 1537)])
def test_real_sizes(dtype, M, N, K):
    a, b, bias, wide = numbers("cuda", dtype, (M, K), (N, K), (N,), (2 * N, K), scale=0.3)
    check(lambda a, b: matmul(a, b.T), lambda a, b: a @ b.T, (a, b))
    check(lambda a, b: matmul(a, b), torch.matmul, (a, b.T.contiguous()))
    check(lambda *t: linear(*t, "gelu"), lambda *t: in_torch(*t, "gelu"), (a, b, bias))
    check(swiglu(linear), swiglu(in_torch), (a, wide))
    x, y = numbers("cuda", dtype, (5, M // 5 + 1, K), (5, K, N))
    check(matmul, torch.matmul, (x, y))


@pytest.mark.gpu
@pytest.mark.parametrize("tile", snippet.TILES)
@pytest.mark.parametrize("M, N, K", [(1000, 1016, 333), (1001, 777, 64), (3000, 4096, 8)])
def test_each_tile_compiled(monkeypatch, tile, M, N, K):
    monkeypatch.setattr(snippet, "choose_tile", lambda *given: snippet.adapt(tile, given[3], given[5]))
    a, b, wide = numbers("cuda", torch.bfloat16, (M, K), (K, N), (2 * N, K), scale=0.3)
    check(matmul, torch.matmul, (a, b))
    check(swiglu(linear), swiglu(in_torch), (a, wide))


@pytest.mark.gpu
def test_in_a_thread_that_never_used_the_gpu():
    """As autograd's threads: without a context, a tensor could not be described."""
    a, b = numbers("cuda", torch.bfloat16, (128, 128), (128, 128))
    found = []
    thread = threading.Thread(target=lambda: found.append(matmul(a, b)))
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], a @ b, rtol=2e-2, atol=2e-2)


def test_a_kept_launch_passes_what_the_first_one_did(monkeypatch):
    """The arguments by place are those by name: all of the kernel's, in its order."""
    seen = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *given, **options: seen.append((grid, given, options)) or self

    monkeypatch.setattr(snippet, "matmul_kernel", Kernel())
    monkeypatch.setattr(snippet, "check_arguments", lambda *given: None)
    monkeypatch.setattr(snippet, "PLANS", {})
    snippet.prepared.cache_clear()
    try:
        for _ in range(2):
            matmul(torch.ones(16, 8), torch.ones(8, 32), alpha=0.5)
    finally:
        snippet.prepared.cache_clear()  # of launches of what is no kernel
    (grid, first, options), (again, second, none) = seen
    names = list(inspect.signature(KERNEL).parameters)
    assert grid == again and none == {} and len(second) == len(names)
    by_name = dict(zip(names, first, strict=False)) | options
    assert [by_name[name] for name in names[6:]] == list(second[6:])  # those before are tensors, new each time
    assert set(by_name) - set(names) == {"num_warps", "num_stages"}


def variants(device, dtype):
    """Return products that need other launches, though all are of one shape, and what they are in torch."""
    a, b, c, wide = numbers(device, dtype, (16, 64), (64, 32), (16, 32), (16, 33))
    row = torch.ones(33, device=device)
    for x, y, z in ((a, b, c), (a.T.contiguous().T, b, c), (a, b.T.contiguous().T, c.float()), (a, b, wide[:, 1:])):
        for alpha, added in zip((1, 0.5, 1, 0.5), (z, row[:32], row[1:], None), strict=True):
            result = torch.empty(16, 40, device=device, dtype=dtype)
            for out in (None, result[:, 1:33], torch.empty_like(c)):
                more = {"c": added, "beta": 1} if added is not None else {}
                wanted = alpha * (x.double() @ y.double()) + (0 if added is None else added.double())
                yield functools.partial(matmul, x, y, alpha=alpha, out=out, **more), wanted


def test_each_kind_of_tensors_has_a_launch_of_its_own(device):
    for run, wanted in variants(device, torch.float16):
        torch.testing.assert_close(run().double(), wanted, rtol=1e-2, atol=5e-2)


@pytest.mark.gpu
def test_kept_launches_on_streams_in_graphs_and_by_threads():
    cases = list(variants("cuda", torch.float16))
    right = lambda run, wanted: torch.testing.assert_close(run().double(), wanted, rtol=1e-2, atol=5e-2)
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    for run, wanted in cases:
        right(run, wanted)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for run, wanted in cases:
            right(run, wanted)
    side.synchronize()
    with torch.cuda.graph(graph):
        found = [(run(), wanted) for run, wanted in cases if run.keywords["out"] is None]
    for out, _ in found:
        out.fill_(torch.nan)
    graph.replay()
    for out, wanted in found:
        torch.testing.assert_close(out.double(), wanted, rtol=1e-2, atol=5e-2)
    snippet.prepared.cache_clear()
    snippet.PLANS.clear()
    wrong, together = [], threading.Barrier(4)

    def work():
        together.wait()
        try:
            for _ in range(3):
                for run, wanted in cases:
                    if run.keywords["out"] is None:
                        right(run, wanted)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.fixture
def kept(monkeypatch):
    """Begin without launches, and let the row kernel keep what it compiles, as on a GPU."""
    snippet.prepared.cache_clear()
    keep_launches(monkeypatch, snippet, "row_kernel")
    yield
    snippet.prepared.cache_clear()


def test_the_next_call_looks_at_what_has_changed(device, kept):
    """A launch is prepared once for tensors that lie alike; these are of few shapes, and do not."""
    x, weight, bias = numbers(device, torch.float32, (1, 32), (48, 32), (48,))
    later = lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape)  # begins at no multiple of 16 bytes
    gaps = torch.cat([weight, weight], 1)[:, :32]
    for each in (
        x,
        2 * x,
        later(x),
        torch._neg_view(-x),
        x[0],
        x[:, :31],
        x.expand(1, 1, 32),
        x.half(),
        x.expand(2, 32),
    ):
        for matrix in (
            weight,
            -weight,
            later(weight),
            gaps,
            weight.T.contiguous().T,
            torch._neg_view(-weight),
            weight[:46],
        ):
            matrix = matrix[:, : each.shape[-1]].to(each.dtype)
            for added in (None, bias, later(bias), bias.half(), torch._neg_view(-bias)):
                added = added if added is None else added[: len(matrix)]
                for activation, gated in ((None, False), ("silu", False), ("silu", True)):
                    given = each, matrix, added
                    exact = in_torch(*(t if t is None else t.double() for t in given), activation, gated=gated)
                    near = {"rtol": 1e-2, "atol": 1e-2} if each.dtype == torch.half else {"rtol": 1e-4, "atol": 1e-4}
                    found = linear(*given, activation, gated=gated)
                    torch.testing.assert_close(found.double(), exact, **near)
                    exact = in_torch(*(t if t is None else t.double() for t in given))
                    options = {} if added is None else {"c": added, "beta": 1}
                    torch.testing.assert_close(matmul(each, matrix.T, **options).double(), exact, **near)
    for wrong in (x.double(), x.to_sparse()):
        with pytest.raises(ValueError):
            linear(wrong, weight)
        with pytest.raises(ValueError):
            matmul(wrong, weight.T)
    out = torch.zeros(1, 48, device=device)
    matmul(x, weight.T, out=out)
    for begins in (weight.view(-1)[:48].view(1, 48), x.expand(2, 32).contiguous().view(-1)[:48].view(1, 48)):
        each = x if begins.data_ptr() == weight.data_ptr() else begins.view(-1)[:32].view(1, 32)
        with pytest.raises(ValueError, match="would be overwritten"):
            matmul(each, weight.T, out=begins)


@pytest.mark.parametrize("rows", [1, 2])
def test_the_second_call_goes_without_looking_at_the_arguments_again(device, kept, monkeypatch, rows):
    x, weight, bias = numbers(device, torch.float32, (rows, 32), (48, 32), (48,))
    out, learned = torch.zeros(rows, 48, device=device), weight.clone().requires_grad_()
    calls = {
        "linear": lambda: linear(x, weight, bias, "silu"),
        "gated": lambda: linear(x, weight, bias, "silu", gated=True),
        "matmul": lambda: matmul(x, weight.T, c=bias, beta=2),
        "out": lambda: matmul(x, weight.T, c=bias, beta=2, out=out),
    }
    for run in calls.values():
        run()
    recorded = linear(x, learned, bias, "silu")  # with a gradient, by today's way
    x += 1
    pre = x @ weight.T
    silu = torch.nn.functional.silu
    monkeypatch.setattr(snippet, "check_arguments", None)
    monkeypatch.setattr(snippet, "product", None)
    if rows == 1:
        refuse_launches(monkeypatch, snippet, "row_kernel")
    wanted = {
        "linear": silu(pre + bias),
        "gated": silu(pre + bias)[:, :24] * (pre + bias)[:, 24:],
        "matmul": pre + 2 * bias,
        "out": pre + 2 * bias,
    }
    for name, run in calls.items():
        torch.testing.assert_close(run(), wanted[name], rtol=1e-4, atol=1e-4)
    assert recorded.requires_grad
    with pytest.raises(TypeError):  # what needs a gradient takes no prepared launch
        linear(x, learned, bias, "silu")


def test_shapes_without_end_do_not_fill_the_memory(device, monkeypatch):
    monkeypatch.setattr(snippet, "PLANS", dict.fromkeys(range(4096)))
    matmul(*numbers(device, torch.float32, (3, 8), (8, 8)))
    assert len(snippet.PLANS) == 1


@pytest.mark.parametrize("shape", [(1, 40), (3, 1, 40)])
@pytest.mark.parametrize("N, K", [(1, 4), (33, 1500), (40, 7)])
def test_single_rows_and_their_gradients(device, shape, N, K):
    x, weight, bias, wide = numbers(device, torch.float32, (*shape[:-1], K), (N, K), (N,), (2 * N, K))
    check(lambda *t: linear(*t, "gelu"), lambda *t: in_torch(*t, "gelu"), (x, weight, bias))
    check(swiglu(linear), swiglu(in_torch), (x, wide))
    batches = torch.stack([weight, 2 * weight, 3 * weight]).mT
    check(matmul, torch.matmul, (x.expand(3, 1, K), batches))


def test_the_result_may_be_wider_and_c_of_another_dtype(device):
    a, b = numbers(device, torch.float16, (9, 40), (40, 24))
    c = torch.randn(9, 24).to(device)
    wide = matmul(a, b, out_dtype=torch.float32)
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)
    assert torch.equal(wide.half(), matmul(a, b))
    check(lambda a, b: matmul(a, b, out_dtype=torch.float32), torch.matmul, (a, b), dtype=torch.float32)
    leaf = c.clone().requires_grad_()
    matmul(a, b, c=leaf, beta=3).float().sum().backward()
    assert torch.equal(leaf.grad, torch.full_like(c, 3))


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "offset"])
def test_writes_to_out_and_nowhere_else(tiles, device, layout):
    for shape in ((19, 24), (2, 19, 24), (2, 3, 19, 24)):
        a, b, c = numbers(device, torch.float32, (*shape[:-1], 20), (*shape[:-2], 20, 24), shape)
        out = LAYOUTS[layout](torch.zeros(shape, device=device))
        assert matmul(a, b, out=out) is out
        torch.testing.assert_close(out, a @ b, rtol=1e-4, atol=1e-4)
        if out._base is not None and layout in ("gaps", "offset"):
            assert out._base.isnan().sum() == out._base.numel() - out.numel()
        out.copy_(c)  # in place: c is out
        torch.testing.assert_close(matmul(a, b, c=out, beta=2, out=out), a @ b + 2 * c, rtol=1e-4, atol=1e-4)


def test_numbers_of_any_kind_and_a_beta_of_zero(device):
    a, b = numbers(device, torch.float32, (5, 6), (6, 7))
    nans = torch.full((5, 7), torch.nan, device=device)
    wanted = matmul(a, b, alpha=0.5)
    for alpha in (np.float32(0.5), np.array(0.5), torch.tensor(0.5)):
        assert torch.equal(matmul(a, b, c=nans, alpha=alpha, beta=np.int64(0)), wanted)


def test_autocast_and_mixtures(device):
    x, weight = (t.requires_grad_() for t in numbers(device, torch.float32, (9, 40), (24, 40)))
    with torch.autocast(device, torch.float16):
        out, activated = linear(x, weight), linear(x.half(), weight, activation="silu")
    assert out.dtype == activated.dtype == torch.float16
    assert torch.equal(out, linear(x.half(), weight.half()))
    (out.float().sum() + activated.float().sum()).backward()
    assert x.grad.dtype == weight.grad.dtype == torch.float32


def test_only_what_is_needed_gets_a_gradient(device):
    a, b = numbers(device, torch.float32, (9, 4), (4, 6))
    matmul(a.requires_grad_(), b).sum().backward()
    assert b.grad is None and a.grad is not None
    linear(a, b.T, activation="relu").sum().backward()
    assert b.grad is None


def test_functional_transforms(device):
    a, b = numbers(device, torch.float32, (3, 9, 4), (4, 6))
    loss = lambda a, b: matmul(a, b).square().sum()
    exact = lambda a, b: torch.matmul(a, b).square().sum()
    silu = lambda run: torch.func.grad(lambda x: run(x, b.T, None, "silu").sum())(a)
    each = lambda loss: torch.func.vmap(torch.func.grad(loss, 1), (0, None))(a, b)
    leaf = a.clone().requires_grad_()

    def twice(run):
        (grad,) = torch.autograd.grad(run(leaf, b).pow(2).sum(), leaf, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), leaf)[0]

    for ours, theirs in (
        (torch.func.grad(loss)(a, b), torch.func.grad(exact)(a, b)),
        (torch.func.vmap(matmul, (0, None))(a, b), a @ b),
        (each(loss), each(exact)),
        (torch.func.vmap(lambda x: linear(x, b.T, activation="relu"))(a), (a @ b).relu()),
        (silu(linear), silu(in_torch)),
        (twice(matmul), twice(torch.matmul)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    (grad,) = torch.autograd.grad(linear(leaf, b.T, activation="silu").sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        grad.sum().backward()
    with pytest.raises(NotImplementedError, match="for a weight of each, use matmul"):
        torch.func.vmap(lambda w: linear(a, w, activation="relu"))(b.T.expand(2, 6, 4))
    out = torch.zeros(3, 9, 6, device=device)
    for mapped in ((0, None, None), (0, None, 0)):
        with pytest.raises(NotImplementedError, match=r"out= is not mapped by torch\.vmap; leave it out"):
            torch.func.vmap(lambda a, b, out: matmul(a, b, out=out), mapped)(a, b, out if mapped[2] == 0 else out[0])


def test_writes_to_out_when_compiled(device):
    x, y, c = numbers(device, torch.float32, (9, 20), (20, 24), (9, 24))
    backend = "inductor" if device == "cuda" else "aot_eager"
    write = torch.compile(lambda out: matmul(x, y, c=c, beta=2, out=out), fullgraph=True, backend=backend)
    for layout in ("rows", "gaps"):
        out = LAYOUTS[layout](torch.zeros_like(c))
        assert write(out).data_ptr() == out.data_ptr()
        torch.testing.assert_close(out, x @ y + 2 * c, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gated", [False, True])
def test_compiled_without_a_break(device, gated):
    x, weight, bias = numbers(device, torch.float32, (2, 9, 8), (12, 8), (12,))
    leaves = [t.requires_grad_() for t in (x, weight, bias)]

    def function(x, weight, bias):
        return linear(x, weight, bias, "silu", gated=gated).sum() + matmul(x, weight.T, c=bias, beta=0.5).square().sum()

    compiled_function = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    results = []
    for each in (function, compiled_function):
        out = each(*leaves)
        results.append([out, *torch.autograd.grad(out, leaves)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


x, w = torch.ones(2, 3), torch.ones(3, 4)
REFUSED = {
    "a must be (..., M, K) and b (..., K, N), or (K,); got (2, 3) and (2, 3)": lambda: matmul(x, x),
    "a and b must have a dimension or more": lambda: matmul(x[0, 0], w),
    "a is torch.float32 and b torch.float16; cast one, or use torch.autocast": lambda: matmul(x, w.half()),
    "a is torch.float64, which is not supported": lambda: matmul(x.double(), w.double()),
    "pass b.to_dense()": lambda: matmul(x, w.to_sparse()),
    "a is on cpu and b on meta; move them to one device": lambda: matmul(x, w.to("meta")),
    "out_dtype must be torch.float32": lambda: matmul(x, w, out_dtype=torch.float16),
    "c must broadcast to the result, (2, 4); got (3,)": lambda: matmul(x, w, c=torch.ones(3), beta=1),
    "alpha must be a number, not on a GPU; got 'one'": lambda: matmul(x, w, alpha="one"),
    "out must be (2, 4) of torch.float32 on cpu; got (4, 2)": lambda: matmul(x, w, out=torch.ones(4, 2)),
    "out= keeps no gradient": lambda: matmul(x, w.clone().requires_grad_(), out=torch.ones(2, 4)),
    "out.resolve_neg()": lambda: matmul(x, w, out=torch._neg_view(torch.ones(2, 4))),
    "elements that share memory": lambda: matmul(x, w, out=torch.ones(4).expand(2, 4)),
    "out begins where an operand does": lambda: matmul(x, w, c=(s := torch.ones(2, 4))[0], beta=1, out=s),
    "which would be overwritten": lambda: matmul(s := torch.ones(3, 3), s, out=s),
    "x must be (..., K) and weight (2 * N, K); got (2, 3) and (3, 3)": lambda: linear(x, torch.ones(3, 3), gated=True),
    "bias must have the shape (4,); got (3,)": lambda: linear(x, w.T, torch.ones(3)),
    "one of relu, relu2, gelu, gelu_tanh, silu, sigmoid, tanh; got 'mish'": lambda: linear(x, w.T, activation="mish"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


def test_compiles_to_wgmma_fed_by_the_tma_and_spills_nothing():
    code = """
    a, b = (torch.empty(1, 4096, 4096, dtype=torch.bfloat16) for _ in range(2))
    for gated in (False, True):
        pre = torch.empty(4096, 4096, dtype=torch.bfloat16) if gated else None
        out = torch.empty(1, 4096, 2048 if gated else 4096, dtype=torch.bfloat16)
        module.product(a, b.mT, None, out, pre, 1.0, 0.0, "silu", gated)
    """
    for launch in compiled("library/matmul", textwrap.dedent(code)):
        assert launch.spills == 0 and "wgmma" in launch.ptx and "convert_layout" not in launch.ttgir
        assert "cp.async.bulk.tensor" in launch.ptx


def test_a_single_row_is_loaded_16_bytes_at_a_time_and_spills_nothing():
    code = """
    a, b = torch.empty(1, 1, 4096, dtype=torch.bfloat16), torch.empty(1, 4096, 4096, dtype=torch.bfloat16)
    for gated in (False, True):
        out = torch.empty(1, 1, 2048 if gated else 4096, dtype=torch.bfloat16)
        module.product(a, b.mT, None, out, None, 1.0, 0.0, "silu", gated)
    """
    launches = compiled("library/matmul", textwrap.dedent(code))
    assert len(launches) == 2
    for launch in launches:
        assert launch.spills == 0 and "ld.global.v4" in launch.ptx and "wgmma" not in launch.ptx
