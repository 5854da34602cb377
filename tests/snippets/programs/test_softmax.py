# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows: the shares of torch in float64, whatever the shape, dtype and distance of rows; nothing else is
touched."""

import contextlib
import math
from unittest import mock

import pytest
import torch
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    handed_out,
    recorded_accesses,
)
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.programs import softmax
from snippets.tools.testing import addresses_of

FUNCTIONS = {softmax.softmax: torch.softmax, softmax.log_softmax: torch.log_softmax}
KERNELS = [softmax.softmax_kernel, softmax.log_softmax_kernel]
functions = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
silent = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of NumPy, in the interpreter

LAYOUTS = {  # the shape of a buffer, and the rows and columns of it that are x
    "contiguous": lambda rows, columns: ((rows, columns), lambda b: b),
    "gaps": lambda rows, columns: ((rows + 2, columns + 3), lambda b: b[1 : rows + 1, 2 : columns + 2]),
    "every second row": lambda rows, columns: ((2 * rows, columns), lambda b: b[::2]),
    "one row, many times": lambda rows, columns: ((1, columns), lambda b: b.expand(rows, columns)),
}


def served(device):
    return [dtype for dtype in softmax.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def computed(function, x, layout="contiguous"):
    """Call ``function`` on ``x``, laid out so, in surroundings that show any stray access; also what it was given."""
    shape, view = LAYOUTS[layout](*x.shape)
    buffer = Guarded(shape, x.dtype, x.device, before=64, after=64, fill=0xFF)
    placed = view(buffer.tensor)
    for target, row in zip(placed, x, strict=True):
        target.copy_(row)
    before = buffer.bytes.clone()
    out = Guarded(x.shape, x.dtype, x.device, before=64, after=64, fill=0xFF)
    with (
        handed_out("empty", out.tensor),
        recorded_accesses() if x.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        result = function(placed)
    assert result is out.tensor
    out.check("the result")
    assert torch.equal(buffer.bytes, before), "x is only read"
    if accesses is not None:
        loaded = check_inside(accesses, "load", x=placed)
        assert sorted(loaded) == sorted(addresses_of(placed)), "a row is loaded once"
        check_each_once(accesses, "store", out=out.tensor)
    return result, placed


def check(function, x, layout="contiguous"):
    """Compare with torch in float64. Errors: of x - max and its exp, of a sum of positive terms, of the last steps."""
    actual, x = computed(function, x, layout)
    if not x.numel():
        return
    exact = FUNCTIONS[function](x.double(), dim=1)
    shifted = x.double() - x.double().amax(dim=1, keepdim=True)
    eps = torch.finfo(torch.float32).eps
    relative = eps * (x.shape[1] + 8 + 2 * shifted.abs())  # of a share; the logarithm is off by as much, absolutely
    allowed = relative * (exact if function is softmax.softmax else 1)
    stored = torch.finfo(x.dtype)
    allowed += stored.eps * exact.abs() + stored.tiny  # rounded when stored; the smallest may become 0
    wrong = ((actual.double() - exact).abs() <= allowed).logical_not()  # a NaN is wrong, too
    assert not wrong.any(), f"{wrong.sum()} are wrong: {actual[wrong][:3]}, should be {exact[wrong][:3]}"


def numbers(shape, dtype, device, seed=0, scale=3.0, start=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random) * scale + start).to(device, dtype)


@functions
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(device, function, layout):
    for rows, columns in ((1, 1), (1, 5), (3, 4), (4, 9)):
        check(function, numbers((rows, columns), torch.float32, device, columns), layout)


@functions
@example((2, 257), "gaps", 3.0, 1000.0, 0, None)
@example((2, 9), "contiguous", 3.0, -1000.0, 0, None)  # where lanes that are off must not count as 0
@given(
    shape=st.tuples(st.integers(0, 6), st.integers(0, 70)),
    layout=st.sampled_from(list(LAYOUTS)),
    scale=st.sampled_from([0.0, 0.1, 3.0, 40.0]),
    start=st.sampled_from([0.0, -1000.0, 1000.0]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, function, shape, layout, scale, start, seed, data):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from(served(device)))
    check(function, numbers(shape, dtype, device, seed, scale, start), layout)


@functions
@pytest.mark.parametrize("columns", [2**8, 2**12 + 1, softmax.MOST_COLUMNS - 1, softmax.MOST_COLUMNS])
def test_wide_rows(device, function, columns):
    check(function, numbers((2, columns), torch.float32, device))


@functions
def test_what_the_dtype_cannot_hold_on_the_way(device, function):
    """float16 ends at 65504: a sum of 2**17 ones, or exp(12), would not fit."""
    x = torch.zeros(2, softmax.MOST_COLUMNS, dtype=torch.float16, device=device)
    x[1, 0] = 12
    check(function, x)


@functions
@silent
def test_infinities_and_nan_as_in_torch(device, function):
    inf, nan = math.inf, math.nan
    rows = [
        [-inf, -inf, -inf],
        [-inf, 0.0, -inf],
        [-inf, 1.0, 1.0],
        [inf, 0.0, 1.0],
        [0.0, nan, 1.0],
        [nan, -inf, -inf],
        [nan, nan, nan],
        [1.0, 2.0, 3.0],
    ]
    x = torch.tensor(rows, device=device)
    for dtype in served(device):
        actual, expected = function(x.to(dtype)).float(), FUNCTIONS[function](x, dim=1)
        assert torch.allclose(actual, expected, rtol=1e-2, equal_nan=True)


@functions
def test_nothing_to_do(device, function):
    for shape in ((0, 5), (3, 0), (0, 0)):
        out = function(torch.empty(shape, device=device))
        assert out.shape == shape and out.device.type == device


@functions
def test_the_result_is_new_contiguous_and_of_the_same_dtype(device, function):
    for dtype in served(device):
        out = function(torch.ones(4, 8, dtype=dtype, device=device)[:, :5])
        assert (out.shape, out.stride(), out.dtype) == ((4, 5), (5, 1), dtype)


@silent
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_offsets_are_computed_in_64_bits(kernel):
    x, out = torch.zeros(1), torch.zeros(1)
    last = 2**31 - 2  # of the rows that one launch takes
    for row, columns, stride in ((last, 3, 5), (2**16 + 1, 2**15, 2**15), (3, 2, 2**31 + 7)):
        with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
            kernel[(1,)](x, out, columns, stride, BLOCK_SIZE=2**15 if columns == 2**15 else 4)
        begins = [((a - t.data_ptr()) // 4).tolist() for (_, a), t in zip(seen, (x, out), strict=True)]
        assert begins == [[row * step + i for i in range(columns)] for step in (stride, columns)]


def test_wider_rows_get_more_warps():
    """Nobody sees it in a result: what the kernel is launched with."""
    asked = {}
    for columns in (1, 5, 256, 257, 1000, 1024, 4096, 4097, 2**15):
        kernel = mock.MagicMock()
        softmax.by_rows(kernel, torch.zeros(3, columns))
        kernel.__getitem__.assert_called_once_with((3,))
        (_, _, *arguments), options = kernel.__getitem__.return_value.call_args
        assert arguments == [columns, columns]
        asked[columns] = options["BLOCK_SIZE"], options["num_warps"]
    assert asked == {
        1: (1, 1), 5: (8, 1), 256: (256, 1), 257: (512, 2), 1000: (1024, 4), 1024: (1024, 4),
        4096: (4096, 16), 4097: (8192, 16), 2**15: (2**15, 16),
    }  # fmt: skip


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


@functions
def test_takes_a_single_column_of_any_stride(device, function):
    x = ones(5, 3, device=device).t()[:, :1]
    assert x.stride() == (1, 3)
    assert function(x).tolist() == [[float(function is softmax.softmax)]] * 3


@functions
def test_takes_what_requires_a_gradient_where_none_is_computed(device, function):
    with torch.no_grad():
        assert function(ones(1, 1, device=device, requires_grad=True)).shape == (1, 1)


def test_the_most_rows_are_not_refused():
    softmax.check_arguments(torch.ones(1, 1).expand(2**31 - 1, 1))


# The file as a script


# On a GPU alone


@pytest.mark.gpu
@functions
def test_more_than_2_to_the_31_elements(function):
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free GPU memory")
    x = torch.zeros(2**17 + 1, 2**14, dtype=torch.float16, device="cuda")
    x[-1, -1] = 3
    assert torch.equal(function(x)[-2:], FUNCTIONS[function](x[-2:], dim=1))


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("dtype", softmax.DTYPES)
def test_the_widest_row_fits_into_registers(kernel, dtype):
    columns = softmax.MOST_COLUMNS
    x = torch.ones(2, columns, dtype=dtype, device="cuda")
    compiled = kernel[(2,)](x, torch.empty_like(x), columns, columns, BLOCK_SIZE=columns, num_warps=16)
    assert compiled.n_spills == 0


@pytest.mark.gpu
@functions
def test_in_a_cuda_graph_and_under_compile(function):
    x = numbers((5, 300), torch.float32, "cuda")
    expected = function(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(x)
    graph.replay()
    assert torch.equal(captured, expected)
    assert torch.equal(torch.compile(function)(x), expected)
