# SPDX-License-Identifier: Apache-2.0
"""The tuned product is right with every config, the tuner is asked the right things, and tuning changes no result."""

import contextlib
import itertools
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    environment,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.matmul import autotuned
from snippets.matmul.autotuned import CONFIGS, INTERPRETED, Limits, config, matmul

SOURCE = Path(autotuned.__file__)
SMALL = config(16, 32, 16, warps=4, stages=2)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "gaps": lambda x: torch.full((x.shape[0] + 1, 2 * x.shape[1] + 3), 99.0).to(x)[:-1, 2:-1:2].copy_(x),
}


def whole_numbers(*shape, dtype, device, seed=0):
    """Small integers: every sum of products is exact, also in float16 results as long as K is small."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=random).to(device, dtype)


def check(M, N, K, device, dtype=torch.float32, layouts=("rows", "rows"), **options):
    a, b = whole_numbers(M, K, dtype=dtype, device=device), whole_numbers(K, N, dtype=dtype, device=device, seed=1)
    zones = {"before": 64, "after": 256, "fill": 0xFF}
    if layouts == ("rows", "rows"):
        guarded = [Guarded.around(x, **zones) for x in (a, b)]
        a, b = (g.tensor for g in guarded)
    else:
        a, b = (LAYOUTS[layout](x) for layout, x in zip(layouts, (a, b), strict=True))
    out = Guarded((M, N), dtype, device, before=64, after=256, fill=0x5A)
    recorded = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with mock.patch.object(torch, "empty", return_value=out.tensor) as empty, recorded as accesses:
        c = matmul(a, b, **options)
    assert c is out.tensor
    empty.assert_called_once_with(M, N, dtype=dtype, device=a.device)
    out.check("c")
    if layouts == ("rows", "rows"):
        for name, g in zip("ab", guarded, strict=True):
            g.check(name)
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))
    if accesses is not None:
        check_each_once(accesses, "store", c=c)
        check_inside(accesses, "load", a=a, b=b)


@settings(max_examples=15)
@given(
    st.integers(1, 50), st.integers(1, 70), st.integers(0, 40),
    st.sampled_from([torch.float32, torch.float16]),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))),
)  # fmt: skip
@example(1, 1, 1, torch.float16, ("rows", "rows"))
@example(17, 33, 17, torch.float32, ("rows", "rows"))
@example(32, 64, 32, torch.float32, ("columns", "gaps"))
def test_ragged_cpu(M, N, K, dtype, layouts):
    check(M, N, K, "cpu", dtype, layouts, config=SMALL)


LONG = config(16, 32, 64, warps=4, stages=2)


@pytest.mark.parametrize("c", [CONFIGS[0], INTERPRETED, LONG], ids=autotuned.brief)
def test_configs_cpu(c):
    check(130, 40, 70, "cpu", config=c)


def test_groups_of_rows():
    """Programs take tiles as ``grouped.tile_order`` says: a right product alone would not show it."""
    from snippets.matmul.grouped import tile_order

    for tiles_m, tiles_n, group in ((5, 4, 3), (3, 5, 8), (4, 3, 1)):
        M, N = 16 * tiles_m, 32 * tiles_n
        a, b = torch.zeros(M, 16), torch.zeros(16, N)
        chosen = triton.Config({**SMALL.kwargs, "GROUP_M": group})
        out = Guarded((M, N), torch.float32, "cpu", before=0, after=0, fill=0)
        with mock.patch.object(torch, "empty", return_value=out.tensor), recorded_accesses() as accesses:
            matmul(a, b, config=chosen)
        first = [int(at[0] - out.tensor.data_ptr()) // 4 for op, at in accesses if op == "store"]
        assert [(i // N // 16, i % N // 32) for i in first] == tile_order(tiles_m, tiles_n, group)


def test_no_mask_where_k_is_even():
    """With K_EVEN, all of a step is loaded; without, only what there is."""
    for K, even, elements in ((16, True, 16), (10, False, 10)):
        a, b = torch.ones(16, K), torch.ones(K, 32)
        with recorded_accesses() as accesses:
            matmul(a, b, config=SMALL)
        assert [len(at) for op, at in accesses if op == "load"] == [16 * elements, 32 * elements], even


def test_offsets_are_computed_in_64_bits():
    x, far = torch.zeros(4), 2**30
    names = ("am", "ak", "bk", "bn", "cm", "cn")

    def touched(**strides):
        given = [strides.get(name, 1) for name in names]
        with recorded_accesses(memory=False) as seen:
            options = {"K_EVEN": True, "PRECISION": "ieee", "INDEX": tl.int64, **SMALL.kwargs}
            autotuned.matmul_kernel[(1,)](x, x, x, 16, 16, 32, *given, 0, **options)
        return {
            op: max(int(np.abs(at - x.data_ptr()).max()) // 4 for o, at in seen if o == op) for op in ("load", "store")
        }

    assert autotuned.index_of(torch.empty_strided((2, 2), (2**23, 1), device="meta")) is tl.int32
    assert autotuned.index_of(torch.empty_strided((2, 2), (1, 2**24), device="meta")) is tl.int64
    for name in ("am", "bn"):  # 16 rows or columns; the other direction adds up to 31
        assert touched(**{name: far})["load"] in range(15 * far, 15 * far + 32)
    for name in ("ak", "bk"):  # two steps of 16
        assert touched(**{name: far})["load"] in range(31 * far, 31 * far + 32)
    for name in ("cm", "cn"):
        assert touched(**{name: far})["store"] in range(15 * far, 15 * far + 32)


def test_far_tiles_are_computed_in_64_bits():
    x = torch.zeros(4)
    with recorded_accesses(first_program=(2**21, 0, 0), memory=False) as seen:  # below row 2**25, with strides of 64
        kwargs = {**SMALL.kwargs, "GROUP_M": 1}
        autotuned.matmul_kernel[(1,)](
            x, x, x, 2**26, 32, 16, 64, 1, 1, 1, 64, 1, 0, K_EVEN=True, PRECISION="ieee", **kwargs
        )
    first = {op: int(at[0] - x.data_ptr()) // 4 for op, at in reversed(seen)}
    assert first == {"load": 2**31, "store": 2**31}


def test_far_columns_are_computed_in_64_bits():
    x = torch.zeros(4)
    kwargs = {**SMALL.kwargs, "GROUP_M": 1}
    column = 2**25  # with strides of 64
    with recorded_accesses(first_program=(column // kwargs["BLOCK_N"], 0, 0), memory=False) as seen:
        autotuned.matmul_kernel[(1,)](
            x, x, x, 16, 2**26, 16, 1, 1, 1, 64, 1, 64, 0, K_EVEN=True, PRECISION="ieee", **kwargs
        )
    begins = [(op, int(at[0] - x.data_ptr()) // 4) for op, at in seen]
    assert begins[:2] == [("load", 0), ("load", 2**31)] and begins[-1] == ("store", 2**31)


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        a, b = torch.ones(M, K, device=device), torch.ones(K, N, device=device)
        assert matmul(a, b).shape == (M, N)
    assert matmul(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device)).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    "change, fragment",
    [
        ({"BLOCK_K": 8}, "powers of two from 16 to 256"),
        ({"BLOCK_N": 24}, "powers of two from 16 to 256"),
        ({"BLOCK_M": None}, "powers of two from 16 to 256"),
        ({"GROUP_M": 0}, "GROUP_M and num_stages must be at least 1"),
        ({"GROUP_M": -8}, "GROUP_M and num_stages must be at least 1"),
        ({"GROUP_M": None}, "GROUP_M and num_stages must be at least 1"),
        ({"GROUP_M": 2**30}, "or GROUP_M is"),
    ],
)
def test_refuses_a_config(device, change, fragment):
    tile = {name: value for name, value in (SMALL.kwargs | change).items() if value is not None}
    with pytest.raises(ValueError, match=fragment):
        matmul(torch.ones(9, 70, device=device), torch.ones(70, 70, device=device), config=triton.Config(tile))


@pytest.mark.parametrize("option", [{"num_warps": 3}, {"num_warps": 64}, {"num_warps": 0}, {"num_stages": 0}], ids=str)
def test_refuses_warps_and_stages(device, option):
    with pytest.raises(ValueError, match="num_stages must be at least 1, num_warps a power of two"):
        matmul(*torch.ones(2, 2, 2, device=device), config=triton.Config(SMALL.kwargs, **option))


def test_serves_what_is_at_the_limits():
    """As many programs as CUDA has along one axis, of the smallest tiles; the longest sides; the largest tile."""
    serves = lambda M, N, K: autotuned.check_arguments(without_memory(M, K), without_memory(K, N), "ieee")
    serves(2**20, 2**20 - 32, 2**10), serves(1, 2**30 - 1, 1), serves(1, 1, 2**30 - 1)
    for M, N in ((2**20, 2**20 - 31), (2**20 - 15, 2**20)):
        with pytest.raises(ValueError, match="the result would be too large"):
            serves(M, N, 1)
    autotuned.check_config(SMALL, 2**20, 2**20 - 32)
    for M, N in ((2**20, 2**20 - 31), (2**20 - 15, 2**20)):
        with pytest.raises(ValueError, match="the result would be too large"):
            autotuned.check_config(SMALL, M, N)
    for group, refused in ((2**29 - 1, False), (2**29, True)):
        high = triton.Config(SMALL.kwargs | {"GROUP_M": group})
        with pytest.raises(ValueError, match="or GROUP_M is") if refused else contextlib.nullcontext():
            autotuned.check_config(high, 1, 4 * 32)
    a, b, square = without_memory(2**25, 1), without_memory(1, 2**15 - 32), config(16, 16, 16, warps=4, stages=2)
    too_large = pytest.raises(ValueError, match="the result would be too large, or GROUP_M is")
    with mock.patch.object(torch, "empty"), too_large:
        matmul(a, b, config=square)
    autotuned.check_config(config(256, 256, 256, warps=32, stages=1), 1, 1)
    autotuned.check_config(triton.Config(SMALL.kwargs | {"GROUP_M": 1}, num_warps=1), 1, 1)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        a = torch.ones(2, 2, device=device, requires_grad=True)
        assert matmul(a, torch.ones(2, 2, device=device), config=SMALL).eq(2).all()


def test_tf32x3_is_refused_on_amd():
    assert matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="tf32x3", config=SMALL).eq(2).all()
    with mock.patch.object(torch.version, "hip", "6.0"):
        with pytest.raises(ValueError, match="no tf32x3"):
            matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="tf32x3", config=SMALL)
        assert matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="ieee", config=SMALL).eq(2).all()


@pytest.mark.parametrize("K, even", [(256, True), (255, False), (128, False)])
def test_compiled_and_without_a_config_it_is_tuned(K, even):
    a, b = torch.ones(20, K), torch.ones(K, 30)
    compiled = mock.Mock(spec=triton.JITFunction)
    with (
        mock.patch.multiple(autotuned, matmul_kernel=compiled, check_arguments=lambda *_: None),
        mock.patch.object(autotuned, "tuned_kernel") as tuner,
    ):
        c = matmul(a, b, input_precision="tf32")
    (grid,) = tuner.__getitem__.call_args.args
    given = tuner[grid].call_args
    assert all(x is y for x, y in zip(given.args, (a, b, c), strict=False))
    assert given.args[3:] == (20, 30, K, K, 1, 30, 1, 30, 1, autotuned.bucket(a, b))
    assert given.kwargs == {"PRECISION": "tf32", "INDEX": tl.int32, "K_EVEN": even}
    assert grid({"BLOCK_M": 16, "BLOCK_N": 8}) == (8,)


@pytest.mark.parametrize("far", ["a", "b", "c", None])
def test_index_is_64_bits_where_one_matrix_needs_it(far):
    strided = lambda name, *shape: torch.empty_strided(
        shape, (2**24 if far == name else shape[1], 1), dtype=torch.float16, device="meta"
    )
    a, b = strided("a", 20, 16), strided("b", 16, 2**24 if far == "c" else 30)  # c has rows of b's length
    if far == "c":
        b = b.T.contiguous().T  # only c's are far from each other: b has columns without gaps
    with (
        mock.patch.multiple(autotuned, matmul_kernel=mock.Mock(spec=triton.JITFunction), check_arguments=mock.Mock()),
        mock.patch.object(autotuned, "tuned_kernel") as tuner,
    ):
        matmul(a, b)
    (grid,) = tuner.__getitem__.call_args.args
    assert tuner[grid].call_args.kwargs["INDEX"] is (tl.int64 if far else tl.int32)


def test_interpreter_has_nothing_to_prepare():
    with pytest.raises(ValueError, match="the interpreter compiles nothing"):
        autotuned.prepare(*torch.ones(2, 2, 2))


def test_threads_tune_one_after_the_other():
    """The tuner keeps a call's arguments in itself. Two threads at once found those of the other, or none."""
    inside, most = [], []

    class Tuner:
        def __getitem__(self, grid):
            def launch(*arguments, **options):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.01)
                inside.pop()

            return launch

        def warmup(self, *arguments, **options):
            self[None]()

    compiled = mock.Mock(spec=triton.JITFunction)
    with (
        mock.patch.multiple(autotuned, tuned_kernel=Tuner(), matmul_kernel=compiled, check_arguments=lambda *_: None),
        ThreadPoolExecutor(4) as pool,
    ):
        calls = [pool.submit(call, *torch.ones(2, 2, 2)) for call in (matmul, autotuned.prepare, matmul, matmul)]
        assert [call.result() is None for call in calls] == [False, True, False, False]
    assert most == [1] * 4


# The tuner: in the interpreter it has nothing to time, so the tests bring times of their own.


def tuned(a, b, seconds):
    """Multiply by ``tuned_kernel``, config ``c`` taking ``seconds(c)``; return the result and the configs timed."""
    tuner, c, timed = autotuned.tuned_kernel, torch.empty(a.shape[0], b.shape[1], dtype=a.dtype), []
    bench = tuner._bench

    def note(*args, config, **meta):
        timed.append(config)
        with mock.patch.dict(vars(tuner), do_bench=lambda call, quantiles: [call() or seconds(config)] * 3):
            return bench(*args, config=config, **meta)

    M, K, N = *a.shape, b.shape[1]
    with mock.patch.object(tuner, "_bench", note), mock.patch.dict(tuner.cache, clear=True):
        for _ in range(2):  # the second call finds the key in the cache
            tuner[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
                a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), autotuned.bucket(a, b),
                K_EVEN=False, PRECISION="ieee",
            )  # fmt: skip
        keys = list(tuner.cache)
    return c, timed, keys


def test_tuner_times_the_candidates_and_keeps_the_fastest():
    a = whole_numbers(20, 30, dtype=torch.float16, device="cpu")
    b = whole_numbers(30, 40, dtype=torch.float16, device="cpu")
    slowest_wins = iter(range(99, 0, -1))
    c, timed, keys = tuned(a, b, lambda _: next(slowest_wins))
    assert timed == autotuned.candidates(20, 40, 30, torch.float16, "ieee")["timed"]
    assert autotuned.tuned_kernel.best_config == timed[-1]
    assert torch.equal(c.double(), a.double() @ b.double())
    assert keys == [(autotuned.bucket(a, b), False, "ieee", *["torch.float16"] * 3)]  # dtypes come by themselves


def test_interpreter_cannot_tune():
    """Why matmul has a config of its own for the interpreter: the tuner asks for a GPU's driver."""
    if torch.cuda.is_available():
        pytest.skip("with a GPU, the tuner would time the interpreter")
    with pytest.raises(RuntimeError, match="0 active drivers"):
        triton.autotune(CONFIGS[:2], key=[])(autotuned.matmul_kernel)[(1,)](
            *[torch.zeros(1)] * 3, *[1] * 9, 0, K_EVEN=False, PRECISION="ieee"
        )


def test_bucket():
    empty = lambda *shape: torch.empty(shape, device="meta")

    def at_most(limits, side):
        with mock.patch.object(autotuned, "limits_of", lambda device: limits):
            return autotuned.bucket(empty(side, side), empty(side, side))

    number = lambda M, N, K: autotuned.bucket(empty(M, K), empty(K, N))
    assert number(1, 16, 16) == number(16, 16, 16) != number(17, 16, 16)
    assert number(2049, 16, 16) == number(4096, 16, 16) != number(4097, 16, 16)
    assert len({number(*sizes) for sizes in ((1, 64, 64), (64, 16, 64), (64, 64, 16), (64, 64, 64))}) == 4
    assert len({number(64, 64, 64), number(64, 62, 64), number(64, 64, 62)}) == 3
    assert number(64, 56, 64) == number(64, 62, 64)  # 8 elements, or 2: Triton knows of 16 only
    x = torch.empty(17, 16)
    assert (
        autotuned.bucket(x[1:], x.T)
        == autotuned.bucket(x[:-1], x.T)
        != autotuned.bucket(x.view(-1)[2:-14].view(16, 16), x.T)
    )  # begins 8 bytes later
    a, b = empty(64, 32), empty(32, 16)
    transposed = lambda x: empty(*x.shape[::-1]).T
    assert len({autotuned.bucket(x, y) for x in (a, transposed(a)) for y in (b, transposed(b))}) == 4
    assert number(64, 64, 64) == at_most(Limits(), 64)
    assert len({at_most(Limits(shared, count), 64) for shared, count in ((232_448, 132), (166_912, 108))}) == 2
    assert at_most(Limits(2**20, 2**9), 2**30 - 1) < 2**31  # an int32 in the kernel


def test_buckets_are_as_many_as_kinds():
    """Triton compiles wide loads where lines have a multiple of 16 elements."""
    kinds = set()
    for M, N, K, a_by_rows, b_by_rows in itertools.product(*[(32, 18, 48, 34)] * 3, *[(True, False)] * 2):
        a = torch.empty(M, K, device="meta") if a_by_rows else torch.empty(K, M, device="meta").T
        b = torch.empty(K, N, device="meta") if b_by_rows else torch.empty(N, K, device="meta").T
        wide = [(K if a_by_rows else M) % 16 == 0, (N if b_by_rows else K) % 16 == 0, N % 16 == 0]
        kind = M > 32, N > 32, K > 32, a_by_rows, b_by_rows, *wide
        kinds.add((kind, autotuned.bucket(a, b)))
    assert len(kinds) == len({kind for kind, _ in kinds}) == len({bucket for _, bucket in kinds}) == 8 * (4 + 4 + 4 + 8)


@given(st.tuples(*[st.integers(1, 20000)] * 3), st.sampled_from(autotuned.DTYPES), st.sampled_from(["tf32", "ieee"]))
def test_what_is_left_fits(sizes, dtype, precision):
    left = autotuned.candidates(*sizes, dtype, precision)
    assert 1 <= len(left["timed"]) <= 6 and set(left["timed"]) <= set(left["fit"]) <= set(CONFIGS)
    for c in left["fit"]:
        m, n, k, _ = c.kwargs.values()
        assert autotuned.shared_bytes(dtype.itemsize, m, n, k, c.num_stages) <= Limits().shared
        assert m * n / 32 / c.num_warps <= 128


def test_fits():
    def names(tried, M=4096, N=4096, dtype=torch.bfloat16, precision="tf32", **limits):
        a = torch.empty(0, dtype=dtype)
        arguments = {"a_ptr": a, "M": M, "N": N, "K": 4096}
        kept = autotuned.fits(tried, arguments, Limits(**limits), PRECISION=precision, grid=None)
        return [autotuned.brief(c) for c in kept]

    large, small = config(128, 256, 64, warps=8, stages=4), config(16, 64, 128, warps=4, stages=2)
    both = [autotuned.brief(large), autotuned.brief(small)]
    assert names([large, small]) == both
    assert names([large, small], dtype=torch.float32) == both[1:]  # twice the bytes
    assert names([large, small], shared=196_608) == both and names([large, small], shared=196_607) == both[1:]
    assert names([config(128, 256, 64, warps=4, stages=3), small]) == both[1:]  # 256 sums in each thread
    assert names([large, small], M=65) == both and names([large, small], M=64) == both[1:]
    assert names([large, small], N=129) == both and names([large, small], N=128) == both[1:]
    assert names([large, small], dtype=torch.float32, precision="ieee") == both[1:]
    assert names([large, small], shared=1) == both[1:]  # never none: what takes the least shared memory
    for sizes in ((16, 4096), (4096, 16), (1, 1)):  # where each config has too high or too wide a tile, or no room
        (left,) = names(CONFIGS, *sizes, dtype=torch.float32, precision="ieee", shared=49_152)
        assert left == "128x128x16 w8 s3"


def test_estimate_prefers_what_it_should():
    a = torch.empty(0, dtype=torch.bfloat16)

    def nanoseconds(c, M=8192, N=8192, K=8192):
        return autotuned.estimate(a, M, N, K, "tf32", limits=Limits(), grid=None, **c.all_kwargs())

    large, medium, small = (config(*s, warps=8, stages=4) for s in ((128, 256, 64), (128, 128, 64), (64, 64, 64)))
    assert nanoseconds(large) < nanoseconds(medium) < nanoseconds(small)
    assert nanoseconds(small, 512, 512, 512) < nanoseconds(medium, 512, 512, 512) < nanoseconds(large, 512, 512, 512)
    assert nanoseconds(large, K=4096) < nanoseconds(large) < 3 * nanoseconds(large, K=4096)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "c, dtype",
    [(c, torch.bfloat16) for c in CONFIGS] + [(CONFIGS[3], torch.float16)]
    + [(c, torch.float32) for c in autotuned.candidates(4096, 4096, 4096, torch.float32)["fit"]],
)  # fmt: skip
def test_configs_gpu(c, dtype):
    precision = "ieee" if c is CONFIGS[-1] else "tf32"
    for M, N, K in ((300, 200, 130), (256, 256, 256)):
        check(M, N, K, "cuda", dtype, config=c, input_precision=precision)


@pytest.mark.gpu
def test_one_element_gpu():
    for M, N, K in ((17, 31, 1), (1, 1, 1), (1, 40, 33)):
        check(M, N, K, "cuda", torch.float16, config=SMALL)


@pytest.mark.gpu
@pytest.mark.parametrize("layouts", [("rows", "columns"), ("columns", "rows"), ("gaps", "gaps")])
def test_layouts_gpu(layouts):
    check(200, 136, 264, "cuda", torch.float16, layouts, config=config(64, 64, 64, warps=4, stages=4))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_error_gpu(dtype):
    a, b = torch.randn(2, 512, 512, device="cuda").to(dtype)
    exact = a.double() @ b.double()
    error = (matmul(a, b, config=CONFIGS[3]).double() - exact).norm() / exact.norm()
    assert error < torch.finfo(dtype).eps  # one rounding, of the result


@pytest.mark.gpu
def test_prepare_compiles_what_tuning_wants():
    a, b = torch.randn(2, 96, 96, device="cuda").half()
    autotuned.prepare(a, b)
    with mock.patch.object(type(autotuned.matmul_kernel), "_do_compile", side_effect=AssertionError("compiles")):
        matmul(a, b)


@pytest.mark.gpu
def test_tunes_and_keeps_what_it_found(tmp_path):
    """The second process reads the first one's result: it compiles nothing but the winner, and times nothing."""
    code = """
import json, torch
from snippets.matmul import autotuned as it
a, b = torch.randn(2, 64, 64, device="cuda", dtype=torch.float16)
exact = a.double() @ b.double()
error = ((it.matmul(a, b).double() - exact).norm() / exact.norm()).item()
print(json.dumps([error, hasattr(it.tuned_kernel, "bench_time"), it.brief(it.tuned_kernel.best_config)]))
"""
    root = str(SOURCE.parents[2])
    env = environment("cuda", PYTHONPATH=root, TRITON_CACHE_DIR=str(tmp_path))
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (error, timed, best), (again, timed_again, same) = found
    assert max(error, again) < 1e-3 and timed and not timed_again and best == same
    assert len(list(tmp_path.rglob("*.autotune.json"))) == 1
