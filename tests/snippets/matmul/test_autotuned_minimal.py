# SPDX-License-Identifier: Apache-2.0
"""The tuned product is right on ragged sizes by each of its configs, and is tuned once for each shape."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, reaching, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.matmul import autotuned_minimal
from snippets.matmul.autotuned_minimal import matmul, matmul_kernel

LAYOUTS = {
    "rows": ((1, 1), lambda t: t),
    "columns": ((1, 1), lambda t: t.t()),
    "gaps": ((2, 3), lambda t: t[::2, ::3]),
}


@pytest.fixture(autouse=True)
def timer_of_the_interpreter(monkeypatch):
    """The module's own; ``tests/mutants.py`` decorates the kernel anew, which loses it."""
    if autotuned_minimal.INTERPRETED:
        monkeypatch.setitem(vars(matmul_kernel), "do_bench", autotuned_minimal.no_timer)


@contextlib.contextmanager
def only(config):
    """With one config, nothing is tried."""
    with mock.patch.object(matmul_kernel, "configs", [config]):
        yield


def guarded(tensor, layout):
    """The values of a tensor among NaNs, stored by rows, by columns, or with gaps."""
    (down, right), view = LAYOUTS[layout]
    rows, columns = tensor.shape if layout != "columns" else tensor.shape[::-1]
    zone = Guarded((down * rows, right * columns), tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
    placed = view(zone.tensor)
    return zone, placed.copy_(tensor)


def check(M, N, K, device, dtype=torch.float16, layouts=("rows", "rows"), config=matmul_kernel.configs[2]):
    """Assert that the product of small whole numbers is exact, each element stored once, nothing touched outside."""
    random = torch.Generator().manual_seed(M + N + K)
    a, b = (torch.randint(-2, 3, shape, generator=random).to(device, dtype) for shape in ((M, K), (K, N)))
    (zone_a, a), (zone_b, b) = (guarded(x, layout) for x, layout in zip((a, b), layouts, strict=True))
    before = zone_a.bytes.clone(), zone_b.bytes.clone()
    out = Guarded((M, N), dtype, device, before=64, after=256, fill=0x5A)
    recorded = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with only(config), recorded as accesses, mock.patch.object(torch, "empty", return_value=out.tensor) as empty:
        c = matmul(a, b)
    assert c is out.tensor
    empty.assert_called_once_with((M, N), dtype=dtype, device=a.device)
    out.check("c")
    assert torch.equal(zone_a.bytes, before[0]) and torch.equal(zone_b.bytes, before[1]), "a and b are only read"
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))
    if accesses is not None:
        check_each_once(accesses, "store", c=c)
        check_inside(accesses, "load", a=a, b=b)


@settings(max_examples=15)
@given(
    st.integers(1, 80), st.integers(1, 80), st.integers(0, 130),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))),
)  # fmt: skip
@example(1, 1, 1, ("rows", "rows"))
@example(64, 128, 64, ("columns", "gaps"))
@example(130, 70, 65, ("gaps", "columns"))
def test_ragged_cpu(M, N, K, layouts):
    check(M, N, K, "cpu", layouts=layouts)


@pytest.mark.parametrize("config", matmul_kernel.configs, ids=lambda c: "x".join(map(str, c.kwargs.values())))
def test_every_config_cpu(config):
    check(140, 270, 70, "cpu", config=config)


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        a, b = torch.ones(M, K, device=device).half(), torch.ones(K, N, device=device).half()
        assert matmul(a, b).shape == (M, N)
    nothing = torch.ones(3, 0, device=device).half()
    assert matmul(nothing, nothing.T).tolist() == [[0] * 3] * 3


@pytest.mark.parametrize(
    "a, b, fragment",
    [
        (torch.ones(2, 3).half(), torch.ones(2, 3).half(), "(2, 3) and (2, 3)"),
        (torch.ones(2, 3), torch.ones(3, 2), "float32 is not supported"),
        (torch.ones(1).half().expand(2**24, 1), torch.ones(1).half().expand(1, 2**20), "too large"),
    ],
)
def test_refuses(a, b, fragment):
    with pytest.raises(ValueError) as error:
        matmul(a, b)
    assert fragment in str(error.value)


@pytest.mark.parametrize("which", "abc")
def test_elements_of_a_tile_too_far_apart_are_refused(which):
    memory = torch.empty(2**31 + 5, dtype=torch.float16)  # nothing touches most of it
    far, one = memory.as_strided((2, 5), (2**31, 1)), torch.ones(1, 1).half()
    a, b = {
        "a": (far, one.expand(5, 2)), "b": (one.expand(2, 5), far.t()),
        "c": (one.expand(128, 1), one.expand(1, 2**24 + 2**18)),
    }[which]  # fmt: skip
    with mock.patch.object(torch, "empty") as empty, pytest.raises(ValueError, match=f"{which} has strides"):
        matmul(a, b)
    assert not empty.called


@pytest.mark.parametrize(
    "which, sides, spans",
    [("a", (128, 64), (2**31 - 1, 2**31)), ("b", (64, 256), (2**31 - 2, 2**31 + 1))],  # of b, multiples of 3
)
def test_the_largest_tile_that_offsets_of_32_bits_reach(which, sides, spans):
    one = torch.ones(1, 1).half()
    for span in spans:
        x = reaching((300, 300), sides, span)
        a, b = (x, one.expand(300, 3)) if which == "a" else (one.expand(3, 300), x)
        with mock.patch.object(autotuned_minimal, "matmul_kernel") as kernel:
            if span < 2**31:
                matmul(a, b)
                assert kernel.__getitem__.called
                continue
            with pytest.raises(ValueError, match=f"{which} has strides"):
                matmul(a, b)


def test_the_widest_result():
    """8 rows and 255 columns from the first of the last row's tile, or 127 rows: below 2**31, and not."""
    one = torch.ones(1, 1).half()
    with mock.patch.object(autotuned_minimal, "matmul_kernel"), mock.patch.object(torch, "empty"):
        for rows, widest in ((9, (2**31 - 256) // 8), (300, (2**31 - 256) // 127)):
            matmul(one.expand(rows, 1), one.expand(1, widest))
            with pytest.raises(ValueError, match="c has strides"):
                matmul(one.expand(rows, 1), one.expand(1, widest + 1))


def test_as_many_programs_as_cuda_has_of_the_smallest_tiles():
    half = lambda *shape: without_memory(*shape, dtype=torch.float16)
    a, b = half(2**22, 1), half(1, 2**21 - 64)
    with mock.patch.object(autotuned_minimal, "matmul_kernel") as kernel, mock.patch.object(torch, "empty"):
        matmul(a, b)
    for M, N in ((2**22, 2**21 - 63), (2**22 - 63, 2**21)):
        with pytest.raises(ValueError, match="the result would be too large"):
            matmul(half(M, 1), half(1, N))
    (grid,) = kernel.__getitem__.call_args.args
    assert grid({"BLOCK_M": 64, "BLOCK_N": 64}) == (2**31 - 2**16,)


def test_tries_each_config_once_a_key():
    """Sizes and dtypes make the key: a known one is not tried again. The fastest is kept."""
    tried, seconds = [], {64: 3.0, 128: 2.0, 256: 1.0}

    def timer(call, quantiles):
        call()
        tried.append(matmul_kernel.nargs["M"])
        return [seconds[list(seconds)[len(tried) % 3]]] * 3

    product = lambda M: matmul(torch.ones(M, 8).half(), torch.ones(8, 5).half())
    with mock.patch.dict(vars(matmul_kernel), do_bench=timer), mock.patch.dict(matmul_kernel.cache, clear=True):
        for M in (4, 4, 5, 4):
            assert torch.equal(product(M), torch.full((M, 5), 8.0).half())
        assert list(matmul_kernel.cache) == [(M, 5, 8, *["torch.float16"] * 3) for M in (4, 5)]
        assert set(matmul_kernel.cache.values()) == {matmul_kernel.configs[1]}, "the one that took 1 second"
    assert tried == [4, 4, 4, 5, 5, 5]


@pytest.mark.gpu
@pytest.mark.parametrize("config", matmul_kernel.configs, ids=lambda c: "x".join(map(str, c.kwargs.values())))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_config_gpu(config, dtype):
    for sizes in ((300, 200, 130), (256, 256, 256), (1, 1, 1)):
        check(*sizes, "cuda", dtype, config=config)
