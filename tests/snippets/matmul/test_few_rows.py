# SPDX-License-Identifier: Apache-2.0
"""Any rows, both layouts, any share of K, in any order of the programs, give the same; counters are left at zero."""

import contextlib
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from compiled import SHARED, compiled
from guards import Guarded, check_inside, precisions_of_dots, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sanitizer import CLEAN, check_sanitized

from snippets.matmul import few_rows as module
from snippets.matmul.few_rows import Plan, few_rows, plan
from snippets.tools.testing import addresses_of

SOURCE = Path(module.__file__)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "wider": lambda x: torch.full((len(x), x.shape[1] + 3), 99.0).to(x)[:, :-3].copy_(x),
    "taller": lambda x: torch.full((x.shape[1], len(x) + 8), 99.0).to(x)[:, :-8].t().copy_(x),
}


def whole_numbers(*shape, dtype, device, seed=0):
    """Small integers: every sum of products is exact."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=random).to(device, dtype)


@contextlib.contextmanager
def backwards():
    """In the interpreter: run the last program first, so that another one comes last to each tile."""
    from triton.runtime.interpreter import interpreter_builder as builder

    set_grid_idx = builder.set_grid_idx
    turned = lambda *at: set_grid_idx(*(size - 1 - i for size, i in zip(builder.grid_dim, at, strict=True)))
    with mock.patch.object(builder, "set_grid_idx", turned):
        yield


def planned(rows, block_n, block_k, tiles, parts):
    return mock.patch.object(module, "planned", lambda *_: Plan(rows, block_n, block_k, 4, 3, tiles, parts))


def check(M, N, K, device="cpu", dtype=torch.float32, layouts=("rows", "rows"), turned=False, **given):
    """Compare with float64; ``given``: block_n, block_k and parts, if they are not to be chosen."""
    a, b = whole_numbers(M, K, dtype=dtype, device=device), whole_numbers(K, N, dtype=dtype, device=device, seed=1)
    a, b = (LAYOUTS[layout](x) for layout, x in zip(layouts, (a, b), strict=True))
    made, counters = [], Guarded((500,), torch.int32, device, before=8, after=8, fill=0xFF)
    counters.tensor.zero_()

    def guarded(*shape, dtype, device):  # NaN, so that a piece that nobody stored shows
        made.append(Guarded(shape, dtype, device, before=64, after=512, fill=0xFF))
        return made[-1].tensor

    with contextlib.ExitStack() as stack:
        if given:
            rows, tiles = max(8, triton.next_power_of_2(M)), -(-N // given["block_n"])
            stack.enter_context(planned(rows, given["block_n"], given["block_k"], tiles, given["parts"]))
        if turned:
            stack.enter_context(backwards())
        accesses = stack.enter_context(recorded_accesses()) if device == "cpu" else None
        stack.enter_context(mock.patch.object(torch, "empty", guarded))
        stack.enter_context(mock.patch.object(module, "counters", lambda device, tiles: counters.tensor))
        if layouts[0] != "rows":  # a copy of a is where we cannot know it
            accesses, a = None, a.contiguous() if layouts[0] != "wider" else a
        c = few_rows(a, b)
    for buffer, name in zip((*made, counters), ("c", "partial", "counters"), strict=False):
        buffer.check(name)
    assert c is made[0].tensor and c.shape == (M, N)
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))
    assert not counters.tensor.any()
    if accesses is not None:
        scratch = {f"scratch{i}": buffer.tensor for i, buffer in enumerate((*made[1:], counters))}
        check_inside(accesses, "load", a=a, b=b, **scratch)
        stored = check_inside(accesses, "store", c=c, **scratch)
        assert sorted(stored[np.isin(stored, addresses_of(c))]) == sorted(addresses_of(c))  # each once


@settings(max_examples=25)
@given(
    st.integers(1, 64), st.integers(1, 70), st.integers(1, 150), st.integers(1, 5),
    st.sampled_from([torch.float32, torch.float16]), st.sampled_from(list(LAYOUTS)), st.booleans(),
)  # fmt: skip
@example(1, 33, 100, 3, torch.float32, "rows", False)
@example(9, 65, 128, 4, torch.float16, "columns", True)
@example(17, 16, 64, 1, torch.float16, "taller", False)
@example(64, 1, 16, 1, torch.float32, "wider", False)
def test_shapes_and_shares_cpu(M, N, K, parts, dtype, layout, turned):
    parts = min(parts, -(-K // 16))
    check(M, N, K, "cpu", dtype, ("rows", layout), turned, block_n=32, block_k=16, parts=parts)


@settings(max_examples=10)
@given(
    st.integers(1, 64), st.integers(1, 150), st.integers(1, 600), st.sampled_from([torch.float32, torch.float16]),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))),
)  # fmt: skip
@example(3, 72, 4160, torch.float16, ("rows", "columns"))
@example(64, 72, 2056, torch.float16, ("columns", "rows"))
def test_as_it_plans_cpu(M, N, K, dtype, layouts):
    check(M, N, K, "cpu", dtype, layouts)


@pytest.mark.parametrize("parts", range(1, 8))
@pytest.mark.parametrize("turned", [False, True])
def test_any_number_of_parts(parts, turned):
    for K in (112, 100):
        check(3, 40, K, turned=turned, block_n=16, block_k=16, parts=parts)


def test_parts_are_added_in_the_order_of_k():
    """Each part is a number that only this order adds up to this sum, in float32."""
    a = torch.zeros(3, 64)
    a[:, ::16] = torch.tensor([1e8, 3.0, -1e8, 1.0])  # 1e8 + 3 is 1e8 + 0 or 8
    b = torch.ones(64, 32)
    expected = ((torch.tensor(1e8) + 3) + -1e8) + 1
    for order in (contextlib.nullcontext(), backwards()):
        with planned(8, 32, 16, 1, 4), order:
            assert few_rows(a, b).unique().tolist() == [expected.item()]


def test_every_step_is_done_once():
    """The parts of a tile share its steps evenly: none has two more than another."""
    a, b = torch.ones(2, 160), torch.ones(160, 32)
    for parts in (1, 3, 4, 10):
        with planned(8, 32, 16, 1, parts), recorded_accesses() as accesses:
            assert few_rows(a, b).eq(160).all()
        inside, steps, each = addresses_of(b), 0, []
        for op, at in accesses:
            steps += op == "load" and np.isin(at[:1], inside)[0]
            if op == "store" and len(at) > 1 and steps:
                each, steps = [*each, steps], 0
        assert sum(each) == 10 and len(each) == parts and max(each) - min(each) <= 1


SIZES = {"ROWS": 16, "BLOCK_N": 16, "BLOCK_K": 16}
SAME = {"K_EVEN": True, "UNIT": 1, "N_UNIT": 1, "PRECISION": "ieee", **SIZES}


def offsets(op, *arguments, program=(0, 0, 0), count=None, base=None, **options):
    """Of one program, in elements of ``base``: the least and the largest offset of each access."""
    x = torch.zeros(4)
    count = x if count is None else count
    with recorded_accesses(first_program=program, memory=False) as seen:
        module.few_rows_kernel[(1,)](x, x, x, x, count, *arguments, **SAME, **options)
    return [(int(at.min() - x.data_ptr()) // 4, int(at.max() - x.data_ptr()) // 4) for kind, at in seen if kind == op]


@pytest.mark.parametrize("along_k", [False, True])
def test_far_tiles(along_k):
    """The way to a tile is computed in 64 bits, whatever INDEX is."""
    far, more = 2**26 + 1, {"SPLIT": False, "INDEX": tl.int32, "B_ALONG_K": along_k}
    tile, part = 2**20, 3
    found = offsets("load", 16, 2**25, 64, 64, far, 4, program=(tile, part, 0), **more)
    n, k = 16 * tile, 16 * part
    assert found[0] == (k, 15 * 64 + k + 15)
    assert found[1][0] == (n * far + k if along_k else n + k * far)


def test_far_steps():
    """What is added at each step is computed in 64 bits, too."""
    found = offsets("load", 16, 16, 48, 48, 2**28, 1, SPLIT=False, INDEX=tl.int64, B_ALONG_K=False)
    assert [low for low, _ in found] == [0, 0, 16, 16 * 2**28, 32, 32 * 2**28]
    assert found[-1][1] == 47 * 2**28 + 15


@pytest.mark.parametrize("along_k", [False, True])
def test_far_within_a_tile(along_k):
    more = {"SPLIT": False, "INDEX": tl.int64, "B_ALONG_K": along_k}
    far = 2**28
    assert offsets("load", 16, 16, 16, far, far, 1, **more) == [(0, 15 * far + 15)] * 2
    assert offsets("store", 16, far, 16, 16, 16, 1, **more) == [(0, 15 * far + 15)]


@pytest.mark.parametrize(
    "N, a, b, index",
    [
        (32, (2, 1), (2**25, 1), tl.int32),
        (32, (2**28, 1), (64, 1), tl.int64),
        (32, (64, 1), (1, 2**27), tl.int64),
        (32, (64, 1), (2**27, 1), tl.int64),
        (32, (64, 1), (1, 2**24), tl.int32),
        (2**28, (64, 1), (32, 1), tl.int64),
        (2**26, (64, 1), (32, 1), tl.int32),
    ],
)
def test_asks_for_64_bits_where_a_tile_is_far(N, a, b, index):
    """By strides of matrices that nobody reads; in bytes, no tensor here has so many."""
    x, y = torch.empty(1).expand(16, 32), torch.empty(1).expand(32, N)
    with (
        mock.patch.object(module, "few_rows_kernel", mock.MagicMock()) as kernel,
        mock.patch.object(module, "check_arguments"),
        mock.patch.object(torch, "empty", lambda *shape, **options: x),
        mock.patch.object(torch.Tensor, "stride", lambda self, i: (a if self is x else b)[i]),
    ):
        few_rows(x, y)
    assert kernel.__getitem__.return_value.call_args.kwargs["INDEX"] == index


def test_far_pieces():
    """2**14 tiles of 2**10 parts of 256 sums, 144 of which are rows' own; a tile's last program reads all of those."""
    tile, parts = 2**14 - 1, 2**10
    count = torch.zeros(2**14, dtype=torch.int32)
    count[tile] = parts - 1
    arguments = (9, 2**18, 2**14, 0, 0, parts)
    more = {"SPLIT": True, "INDEX": tl.int32, "B_ALONG_K": True}
    stored = offsets("store", *arguments, program=(tile, 5, 0), count=count.clone(), **more)
    assert stored[0] == ((tile * parts + 5) * 256, (tile * parts + 5) * 256 + 143) and stored[0][0] > 2**31
    read = offsets("load", *arguments, program=(tile, 5, 0), count=count.clone(), **more)
    begins = [(tile * parts + part) * 256 for part in range(parts)]
    assert read[-parts:] == [(begin, begin + 143) for begin in begins]


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        assert few_rows(torch.ones(M, K, device=device), torch.ones(K, N, device=device)).shape == (M, N)
    assert few_rows(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device)).tolist() == [[0, 0]] * 3


def test_single_rows_and_columns(device):
    """Whatever their strides are, which mean nothing."""
    x = whole_numbers(50, 50, dtype=torch.float32, device=device)
    for a, b in (
        (x[3:4, ::2], x[:25, 5:6]), (x[3:4, :20], x[:20, 5:6].t().contiguous().t()), (x[:, 3:4], x[5:6, :7]),
        (x[:, 3:4], x.t()[5:6, :7]), (x[:1, :1], x[:1, :9]), (x[:3].expand(3, 50), x[:1].expand(50, 50)),
        (x[:1].expand(8, 50), x[:, :1].expand(50, 8).t().contiguous().t()),
    ):  # fmt: skip
        a, b = (a, b) if a.shape[1] == b.shape[0] else (a, b[: a.shape[1]])
        assert torch.equal(few_rows(a, b), a @ b)


@given(
    st.integers(1, 64), st.integers(1, 300_000), st.integers(1, 300_000), st.sampled_from([2, 4]), st.booleans(),
    st.booleans(), st.integers(1, 200),
)  # fmt: skip
@example(1, 1, 2**30 - 1, 2, False, False, 132)
@example(64, 2**30 - 1, 1, 4, True, True, 132)
def test_plans_can_be_served(M, N, K, size, by_hand, wide, multiprocessors):
    by_hand &= size == 4
    found = plan(M, N, K, size=size, by_hand=by_hand, wide=wide, multiprocessors=multiprocessors)
    for side in found[:4]:
        assert side & (side - 1) == 0
    assert found.rows >= M and found.block_k >= 16 and found.tiles == triton.cdiv(N, found.block_n)
    steps = triton.cdiv(K, found.block_k)
    assert 1 <= found.parts <= steps and found.parts * steps < 2**31 and found.parts < 2**16
    assert found.tiles < 2**31 and found.tiles * found.block_n < 2**31
    assert found.num_stages * (found.rows + found.block_n) * found.block_k * size <= 232_448
    if found.parts > 1:  # the pieces stay few
        assert found.tiles * found.parts <= 2 * multiprocessors


def test_what_it_chooses():
    """On an H200."""
    assert [plan(1, N, 4096).parts for N in (1024, 4096, 6144, 128256)] == [8, 2, 2, 1]
    assert [plan(1, N, 4096).num_stages for N in (1024, 4096, 6144, 128256)] == [6, 6, 4, 4]
    assert [plan(1, N, 4096).block_n for N in (64 * 264, 64 * 264 + 1)] == [64, 128]
    assert plan(1, 4096, 64).parts == 1 and plan(1, 64, 2**20).parts == 132
    assert [plan(M, 4096, 4096).rows for M in (1, 8, 9, 16, 33)] == [8, 8, 16, 16, 64]
    assert plan(1, 4096, 4096, size=4).block_k * 2 == plan(1, 4096, 4096).block_k == 128
    assert plan(1, 4096, 4096, wide=False).block_k == 32


@pytest.mark.parametrize("M, K", [(1, 4096), (16, 4096), (64, 8192)])
def test_one_program_for_each_multiprocessor_or_two(M, K):
    for N in range(512, 30000, 512):
        found = plan(M, N, K)
        programs, steps = found.tiles * found.parts, K // found.block_k
        if found.num_stages == 6:
            assert 0.9 * 132 <= programs <= 132
        else:
            assert programs + found.tiles > 2 * 132 or found.parts == steps // 2
            assert programs <= 2 * 132 or found.parts == 1


def test_plans_for_the_gpu_that_it_is_on():
    limits = {"multi_processor_count": 10, "shared_memory_per_block": 48 * 1024}
    asked, small = (1, 4096, 4096, 2, False, True), {"multiprocessors": 10, "shared": 48 * 1024}
    for more in ({}, {"shared_memory_per_block_optin": 96 * 1024}):  # an AMD GPU has none
        properties = mock.Mock(spec_set=[*limits, *more], **limits, **more)
        with mock.patch.object(torch.cuda, "get_device_properties", return_value=properties) as get:
            limit = {"shared": 96 * 1024} if more else {}
            assert module.planned.__wrapped__(*asked, torch.device("cuda", 1)) == plan(1, 4096, 4096, **small | limit)
        get.assert_called_once_with(torch.device("cuda", 1))
    assert module.planned.__wrapped__(*asked, torch.device("cpu")) == plan(1, 4096, 4096)


@pytest.mark.parametrize("precision, meant", [("highest", "IEEE"), ("high", "TF32")])
def test_the_precision_reaches_the_product(precision, meant):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with precisions_of_dots() as seen, mock.patch.object(module, "planned", wraps=module.planned) as asked:
            few_rows(torch.ones(2, 32), torch.ones(32, 16))
            few_rows(torch.ones(2, 32).half(), torch.ones(32, 16).half())
    finally:
        torch.set_float32_matmul_precision(before)
    assert {name.upper() for name in seen} == {meant}
    assert [call.args[4] for call in asked.call_args_list] == [precision == "highest", False]


@pytest.mark.parametrize(
    "shape, layout, more, units",
    [
        ((2, 64, 64), "rows", 0, (8, 8)),
        ((2, 64, 64), "columns", 0, (8, 8)),
        ((2, 64, 60), "rows", 0, (1, 8)),
        ((2, 60, 64), "rows", 0, (1, 1)),
        ((2, 60, 64), "columns", 0, (8, 1)),
        ((2, 64, 64), "rows", 1, (1, 8)),
        ((2, 64, 64), "columns", 1, (1, 8)),
        ((1, 64, 64), "wider", 0, (1, 8)),
        ((1, 64, 64), "rows", 1, (8, 8)),
        ((1, 1, 64), "columns", 0, (8, 1)),
    ],
)
def test_promises_only_what_is_so(shape, layout, more, units):
    """To Triton: that runs of memory begin and end at multiples of 16 bytes, that is of 8 elements."""
    M, N, K = shape
    a = torch.ones(M, K + more).half()[:, :K]
    b = LAYOUTS[layout](torch.ones(K, N).half())
    with mock.patch.object(module, "few_rows_kernel", mock.MagicMock()) as kernel:
        few_rows(a, b)
    options = kernel.__getitem__.return_value.call_args.kwargs
    assert (options["UNIT"], options["N_UNIT"]) == units


def test_asks_whether_loads_are_wide():
    a, b = torch.ones(2 * 64 + 8).half(), torch.ones(64, 64).half()
    with mock.patch.object(module, "planned", wraps=module.planned) as asked:
        for start, N in ((0, 64), (8, 64), (1, 64), (0, 60)):
            few_rows(a[start : start + 128].view(2, 64), b[:, :N].contiguous())
        few_rows(a[:128].view(2, 64), torch.ones(64 * 64 + 1).half()[1:].view(64, 64))
    assert [call.args[:6] for call in asked.call_args_list] == [
        (2, N, 64, 2, False, wide) for N, wide in ((64, True), (64, True), (64, False), (60, False), (64, False))
    ]
    assert asked.call_args.args[6] == a.device


def test_what_it_launches():
    a, b = torch.ones(20, 64), torch.ones(64, 40)
    for parts in (1, 2):
        with planned(32, 32, 16, 2, parts), mock.patch.object(module, "few_rows_kernel", mock.MagicMock()) as kernel:
            c = few_rows(a, b)
        kernel.__getitem__.assert_called_once_with((2, parts))
        (*tensors, M, N, K, stride_a, stride_b, given), options = kernel.__getitem__.return_value.call_args
        assert tensors[:3] == [a, b, c] and (M, N, K, stride_a, stride_b, given) == (20, 40, 64, 64, 40, parts)
        assert options["num_warps"] == 4 and options["num_stages"] == 3
        assert options["SPLIT"] == (parts > 1) and options["K_EVEN"] and not options["B_ALONG_K"]
        if parts > 1:
            assert tensors[3].shape == (2 * 2 * 32 * 32,) and tensors[3].dtype == torch.float32
            assert tensors[4] is module.counters(a.device, 2)
        else:
            assert tensors[3] is c and tensors[4] is c


# Counters

KEY = torch.device("cpu"), 0


def test_kept_counters_suffice():
    """The counters that are kept serve all who need no more of them; who needs more gets new ones, zeros as well."""
    with mock.patch.dict(module.KEPT, clear=True):
        first = module.counters(KEY[0], 3)
        assert first.dtype == torch.int32 and not first.any() and len(first) == 4096 and list(module.KEPT) == [KEY]
        assert module.counters(KEY[0], 4096) is first
        more = module.counters(KEY[0], 4097)
        assert len(more) == 4097 and more.dtype == torch.int32 and not more.any()
        assert module.counters(KEY[0], 3) is more
    assert not module.FOR_GRAPHS


@contextlib.contextmanager
def as_on_a_gpu(**flags):
    """Without one: whether a graph is being captured, and on which stream. Yield the calls of zeros, and the stream."""
    stream = mock.Mock(cuda_stream=7)
    zeros = lambda n, dtype, device: torch.empty(n, dtype=dtype).zero_()
    with (
        mock.patch.dict(module.KEPT, clear=True),
        mock.patch.dict(module.FOR_GRAPHS, clear=True),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: flags["capturing"]),
        mock.patch.object(torch.cuda, "current_stream", return_value=stream),
        mock.patch.object(torch, "zeros", side_effect=zeros) as zeros,
    ):
        yield zeros, stream


def test_every_call_in_a_graph_has_counters_of_its_own():
    device, flags = torch.device("cuda", 0), {"capturing": False}
    made = lambda zeros: [call.args[0] for call in zeros.call_args_list]
    with as_on_a_gpu(**flags) as (zeros, stream):
        flags = {"capturing": False}
        kept = module.counters(device, 5)
        assert module.counters(device, 5) is kept and list(module.KEPT) == [(device, 7)]
        assert made(zeros) == [4096, module.ROOM]
        stream.synchronize.assert_called_once()  # before another stream reads the zeros
        stream.cuda_stream = 8
        assert module.counters(device, 5) is not kept and made(zeros) == [4096, module.ROOM, 4096]
        stream.synchronize.assert_called_once()
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
            first, second = module.counters(device, 5), module.counters(device, 8)
            third = module.counters(device, 1)
            taken = [kept, first, second, third]
            places = [set(range(x.data_ptr(), x.data_ptr() + 4 * len(x))) for x in taken]
            assert all(a.isdisjoint(b) for i, a in enumerate(places) for b in places[:i])
            assert [len(x) for x in taken[1:]] == [8, 8, 4] and all(x.data_ptr() % 16 == 0 for x in taken)
            assert made(zeros) == [4096, module.ROOM, 4096]
            left = len(module.FOR_GRAPHS[device])
            assert left == module.ROOM - 20
            assert len(module.counters(device, left)) == left and not len(module.FOR_GRAPHS[device])
            assert len(module.counters(device, 3)) == 4 and made(zeros)[3:] == [4], "no room is left"


def test_a_graph_without_a_product_before_it():
    device = torch.device("cuda", 0)
    with as_on_a_gpu(capturing=True) as (zeros, stream):
        first, second = module.counters(device, 5), module.counters(device, 5)
        assert first.data_ptr() != second.data_ptr() and not first.any() and not module.KEPT
        assert zeros.call_args_list == [mock.call(8, dtype=torch.int32, device=device)] * 2
        stream.synchronize.assert_not_called()


def test_asks_for_counters_where_it_launches():
    """Whether a graph is being captured is asked of the current device, so that must be the one of ``a``."""
    current, asked = [], []

    @contextlib.contextmanager
    def device_of(x):
        current.append(x)
        yield
        current.pop()

    def counters(device, tiles):
        asked.append((current[-1] if current else None, tiles))
        return torch.zeros(tiles, dtype=torch.int32)

    a, b = torch.ones(2, 64), torch.ones(64, 40)
    with (
        planned(8, 32, 16, 2, 2),
        mock.patch.object(torch.cuda, "device_of", device_of),
        mock.patch.object(module, "counters", counters),
    ):
        assert few_rows(a, b).eq(64).all()
    assert len(asked) == 1 and asked[0][0] is a and asked[0][1] == 2


# Refusals


def test_the_most_rows():
    check(64, 40, 20)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        a = torch.ones(2, 2, device=device, requires_grad=True)
        assert few_rows(a, torch.ones(2, 2, device=device)).eq(2).all()


def test_under_torch_compile(device):
    a, b = whole_numbers(3, 64, dtype=torch.float16, device=device), torch.ones(64, 32, device=device).half()
    compiled = torch.compile(lambda a, b: few_rows(a + 1, b) * 2, backend="inductor" if device == "cuda" else "eager")
    for _ in range(2):
        assert torch.equal(compiled(a, b), ((a + 1).float() @ b.float() * 2).half())


CODE = """
for M, N, K in ((1, 4096, 4096), (16, 4096, 4096), (64, 4088, 4088)):
    for weight in (torch.empty(K, N), torch.empty(N, K).t()):
        module.few_rows(torch.empty(M, K).bfloat16(), weight.bfloat16())
module.few_rows(torch.empty(64, 4095).bfloat16(), torch.empty(4095, 4095).bfloat16())
module.few_rows(torch.empty(64 * 4096 + 1).bfloat16()[1:].view(64, 4096), torch.empty(4096, 4096).bfloat16())
for M, N, K in ((1, 1, 1), (3, 1, 18), (1, 7, 1)):  # Triton makes a constant of what is 1
    module.few_rows(torch.empty(M, K), torch.empty(K, N))
"""


def test_compiles_to_wide_loads():
    """For an H200, without one: all loads of tiles are of 16 bytes, from 9 rows on by wgmma, and nothing spills."""
    launches = compiled("matmul/few_rows", CODE)
    assert all(launch.spills == 0 and launch.shared <= SHARED for launch in launches)
    found = []
    for launch in launches:
        copies = [len(re.findall(pattern, launch.sass)) for pattern in (r"LDGSTS[.A-Z]*\.128 ", r"LDGSTS[. ]")]
        found.append(("HGMMA" in launch.sass, copies[0] == copies[1] > 0))
    one, turned, *others = found
    assert one == turned and one[1]  # 8 columns are enough for wgmma since Triton 3.9
    assert others[:4] == [(True, True)] * 4
    assert others[4:6] == [(True, False), (True, True)], "nothing is aligned; only b is"
    assert others[6:] == [(False, False)] * 3


# On a GPU the programs of a tile really come in any order.


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", module.DTYPES)
@pytest.mark.parametrize("M, N, K", [(1, 4096, 4096), (5, 4088, 4088), (16, 4095, 4097), (33, 1000, 16384), (64, 7, 9)])
def test_right_gpu(M, N, K, dtype):
    for layout in LAYOUTS:
        check(M, N, K, "cuda", dtype, ("rows", layout))


@pytest.mark.gpu
@pytest.mark.parametrize("precision, error", [("highest", 1e-6), ("high", 1e-3)])
def test_precision_gpu(precision, error):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        for M in (1, 16, 64):
            a, b = torch.randn(M, 4096, device="cuda"), torch.randn(4096, 999, device="cuda")
            exact = a.double() @ b.double()
            assert (few_rows(a, b).double() - exact).norm() / exact.norm() < error
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
def test_same_bits_in_every_run():
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    first = few_rows(a, b)
    assert plan(16, 1024, 8192).parts > 4
    assert all(torch.equal(few_rows(a, b), first) for _ in range(300))


@pytest.mark.gpu
def test_streams_have_counters_of_their_own():
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    expected, streams = few_rows(a, b), [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    found = []
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(few_rows(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(c, expected) for c in found)


def captured(a, b, times=3):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = [few_rows(a, b) for _ in range(times)]
    return graph, c


@pytest.mark.gpu
def test_in_graphs_at_the_same_time():
    """Two graphs, replayed on two streams, while the same runs outside of them."""
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    expected = few_rows(a, b)
    graphs, streams = [captured(a, b) for _ in range(2)], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(50):
        for (graph, found), stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                for c in found:
                    c.zero_()
                graph.replay()
        outside = few_rows(a, b)
    torch.cuda.synchronize()
    assert all(torch.equal(c, expected) for _, found in graphs for c in (*found, outside))


@pytest.mark.gpu
def test_in_a_graph_is_one_kernel():
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    few_rows(a, b)
    graph, _ = captured(a, b, times=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert names == ["few_rows_kernel"]


@pytest.mark.gpu
def test_on_another_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    a, b = torch.randn(16, 8192, device="cuda:1").half(), torch.randn(8192, 1024, device="cuda:1").half()
    exact = a.double() @ b.double()
    assert (few_rows(a, b).double() - exact).norm() / exact.norm() < 1e-3


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    N, K = 2**17 + 8, 2**14 + 16
    a, b = torch.ones(2, K, dtype=torch.float16, device="cuda"), torch.zeros(N, K, dtype=torch.float16, device="cuda")
    b[-1, -3:] = 1
    for x in (b.t(), b.t().contiguous()):
        c = few_rows(a, x)
        assert c[:, -1].tolist() == [3.0] * 2 and not c[:, :-1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
def test_compute_sanitizer_finds_nothing(tool):
    check_sanitized(SOURCE, tool=tool)
