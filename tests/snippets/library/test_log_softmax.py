# SPDX-License-Identifier: Apache-2.0
"""The log_softmax to copy: results and gradients of torch in float64, whatever dimension, shape, dtype and strides."""

import contextlib
import math

import pytest
import torch
from compiled import compiled
from covering import cover, covering
from guards import promises_kept, recorded_accesses, without_memory
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.library import log_softmax as snippet
from snippets.library.log_softmax import Blocks, log_softmax

silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf
LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:1].clone().expand(t.shape),
}
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}


@pytest.fixture
def short(monkeypatch):
    """Make rows of more than 40 columns long ones, in blocks of 16 by 2 lanes."""
    monkeypatch.setattr(snippet, "HELD", 40)
    monkeypatch.setattr(snippet, "blocks_for", lambda *_: Blocks(16, 2, 4, 1))


def numbers(shape, dtype, device, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)


def check(x, dim, dtype, layout, seed=0):
    x = x.detach().requires_grad_()
    exact = x.detach().double().requires_grad_()
    found, wanted = log_softmax(x, dim, dtype=dtype), torch.log_softmax(exact, dim)
    assert (found.shape, found.dtype) == (x.shape, dtype or x.dtype)
    grad = LAYOUTS[layout](numbers(x.shape, found.dtype, x.device, seed + 1))
    (grad_x,), (wanted_grad,) = (
        torch.autograd.grad(out, leaf, grad.to(out.dtype)) for out, leaf in ((found, x), (wanted, exact))
    )
    assert grad_x.dtype == x.dtype
    tolerance = max(TOLERANCE[x.dtype], TOLERANCE[found.dtype])
    for ours, theirs in ((found, wanted), (grad_x, wanted_grad)):
        assert torch.allclose(ours.double(), theirs, rtol=tolerance, atol=tolerance)


@example((3, 50), "turned", "flipped sign", 0, 0, None)
@given(
    st.lists(st.integers(0, 5), max_size=2).map(tuple).flatmap(lambda t: st.integers(1, 100).map(lambda n: (*t, n))),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(LAYOUTS)),
    st.integers(-1, 2),
    st.integers(0, 99),
    st.data(),
)
def test_as_torch_computes_it_in_float64(device, shape, layout, of_grad, dim, seed, data):
    served = [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    lay = lambda name: name if shape[0] else "contiguous"
    x = LAYOUTS[lay(layout)](numbers(shape, draw(served), device, seed))
    check(x, min(dim, len(shape) - 1), draw([None, *served]), lay(of_grad), seed)


@covering(columns=[40, 41, 64, 100], layout=LAYOUTS, dtype=[torch.float64, torch.float32, torch.float16])
def test_long_rows(short, device, columns, layout, dtype):
    check(LAYOUTS[layout](numbers((3, columns), dtype, device)), -1, None, layout)


def test_long_rows_that_begin_anywhere(short, device):
    """Within 16 bytes, and further apart than they are long. What the compiler is promised of addresses is so."""
    with promises_kept() if device == "cpu" else contextlib.nullcontext([]) as said:
        results = [(None, "contiguous"), (torch.float64, "gaps")]
        rooms = {"room": [68, 70], "begin": range(5), "columns": [41, 44, 64], "result": results}
        for room, begin, columns, (dtype, layout) in cover(rooms, together=3):
            storage = numbers((3, room), torch.float32, device)
            check(storage[:, begin : begin + columns], -1, dtype, layout)
    assert set(said) == ({16, 32} if device == "cpu" else set())


@silent
def test_rows_may_lie_more_than_2_to_the_31_elements_apart():
    """Row 1 of such a tensor, told of memory that isn't there."""
    far = 2**28  # in units of 8
    x, out, grad_x = (torch.zeros(1) for _ in range(3))
    short = {"COMPUTE": snippet.tl.float32, "UNIT": 8, "BLOCK": 8}
    long = short | {"LANES": 2, "WIDE": 4, "EDGES": False, "ALIKE": False}
    for kernel, tensors, options in (
        (snippet.held_kernel, (x, out, 2, 1, far), short | {"ROWS": 1}),
        (snippet.held_backward_kernel, (x, out, grad_x, 2, 1, far), short | {"ROWS": 1}),
        (snippet.long_kernel, (x, out, 1, far), long | {"LOWEST": -3e38}),
        (snippet.long_backward_kernel, (x, out, grad_x, 1, far), long),
    ):
        with recorded_accesses(first_program=(1, 0, 0), memory=False) as seen:
            kernel[(1,)](*tensors, **options)
        loads = [int(addresses.flatten()[0]) for op, addresses in seen if op == "load" and addresses.size]
        assert x.data_ptr() + 4 * 8 * far in loads, kernel


@silent
@pytest.mark.parametrize("columns", [20, 60])
def test_one_number_far_above_the_others_overflows_nothing(short, device, columns):
    """Wherever in the row it stands, each program has to find it before it takes exponentials."""
    x = torch.zeros(columns, columns, device=device).fill_diagonal_(1000)
    check(x, 1, None, "contiguous")


@pytest.mark.parametrize("columns", [20, 60])
def test_infinities_and_nan_as_in_torch(short, device, columns):
    inf, nan, rest = math.inf, math.nan, [0.0] * (columns - 1)
    rows = [[-inf] * columns, [-inf] * 18 + rest[17:], [*rest, inf], [*rest, nan], [nan, *rest], [-3.4e38] * columns]
    x = torch.tensor(rows, device=device)
    assert torch.allclose(log_softmax(x), torch.log_softmax(x, -1), equal_nan=True)


def test_a_number_and_nothing(device):
    assert log_softmax(torch.tensor(3.0, device=device)) == 0
    for shape in ((0, 5), (3, 0)):
        x = torch.ones(shape, device=device, requires_grad=True)
        log_softmax(x).sum().backward()
        assert x.grad.shape == shape


def test_autocast_gives_float32(device):
    x = numbers((2, 5), torch.float16, device)
    with torch.autocast(device, dtype=torch.float16):
        assert log_softmax(x).dtype == torch.float32
        assert log_softmax(x, dtype=torch.float16).dtype == torch.float16


def test_functional_gradients_and_what_is_refused_in_words(device):
    x = numbers((3, 8), torch.float32, device)
    loss = lambda x: log_softmax(x).square().sum()
    leaf = x.clone().requires_grad_()
    assert torch.equal(torch.func.grad(loss)(x), torch.autograd.grad(loss(leaf), leaf)[0])
    with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes any dimensions"):
        torch.func.vmap(log_softmax)(x)
    (grad,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        grad.sum().backward()


def test_compiled_without_a_break(device):
    torch.compiler.reset()
    x = numbers((4, 6, 5), torch.float32, device).requires_grad_()
    function = lambda x: log_softmax(2 * x, 1)
    compiled = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    for a, b in zip(
        *([out := f(x), *torch.autograd.grad(out.square().sum(), x)] for f in (function, compiled)), strict=True
    ):
        assert torch.allclose(a, b, atol=1e-5)


x = torch.ones(2, 3)
REFUSED = {
    "x is torch.int64, which is not supported": lambda: log_softmax(x.long()),
    "dtype is torch.int32, which is not supported": lambda: log_softmax(x, dtype=torch.int32),
    "pass x.to_dense()": lambda: snippet.check_arguments(x.to_sparse(), x.dtype),
    "x is on meta; kernels run on": lambda: log_softmax(x.to("meta")),
    "2147483648 rows are too many": lambda: log_softmax(without_memory(2**31, 1)),
    "a row has 1073741825 columns": lambda: log_softmax(without_memory(2, 2**30 + 1)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


CODE = """
for columns in (1000, 16384, 128256, 50257):
    x, out = torch.empty(64, columns, dtype=torch.bfloat16), torch.empty(64, columns, dtype=torch.bfloat16)
    module.launch(module.held_kernel, module.long_kernel, x, [out], {"LOWEST": -3e38})
    module.launch(module.held_backward_kernel, module.long_backward_kernel, x, [out, x], {})
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    for launch in compiled("library/log_softmax", CODE):
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0), launch.kernel
        assert 32 * launch.options["num_warps"] * launch.registers <= 2**16


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [128, 1000, 4096, 16384, 16385, 50257, 128256, 262144])
@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_real_sizes_in_bfloat16(columns, dtype):
    check(numbers((70, columns), torch.bfloat16, "cuda"), -1, dtype, "contiguous")


@pytest.mark.gpu
@pytest.mark.alone  # 17 GB
def test_more_elements_than_an_int32_counts():
    columns = 50257
    rows = 2**31 // columns + 3
    x = torch.randn(1, columns, device="cuda", dtype=torch.bfloat16).expand(rows, columns).contiguous().requires_grad_()
    grad = torch.randn(1, columns, device="cuda", dtype=torch.bfloat16).expand(rows, columns).contiguous()
    found = log_softmax(x)
    (grad_x,) = torch.autograd.grad(found, x, grad)
    exact = x[-1].detach().double().requires_grad_()
    wanted = torch.log_softmax(exact, -1)
    (wanted_grad,) = torch.autograd.grad(wanted, exact, grad[-1].double())
    for ours, theirs in ((found[-1], wanted), (grad_x[-1], wanted_grad)):
        assert torch.allclose(ours.double(), theirs, rtol=8e-2, atol=8e-2)
