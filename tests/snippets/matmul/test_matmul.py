# SPDX-License-Identifier: Apache-2.0
"""Every shape is served, by every plan, in any order of the programs; a plan is legal; what is looked up is right."""

import contextlib
import inspect
import itertools
import re
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from compiled import SHARED, compiled
from covering import cover, covering
from guards import (
    Guarded,
    check_inside,
    precisions_of_dots,
    promises_kept,
    recorded_accesses,
)  # fmt: skip
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sanitizer import CLEAN, check_sanitized
from triton.runtime.interpreter import TensorHandle
from triton.runtime.interpreter import interpreter_builder as builder

from snippets.matmul import few_rows
from snippets.matmul import matmul as module
from snippets.matmul.matmul import Plan, matmul, plan
from snippets.matmul.matmul_measured import parts_of
from snippets.tools.testing import addresses_of

SOURCE = Path(module.__file__)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "wider": lambda x: torch.full((len(x), x.shape[1] + 8), 99.0).to(x)[:, :-8].copy_(x),
    "shifted": lambda x: torch.full((len(x), x.shape[1] + 3), 99.0).to(x)[:, 1:-2].copy_(x),
    "gaps": lambda x: torch.full((len(x) + 1, 2 * x.shape[1] + 3), 99.0).to(x)[:-1, 2:-1:2].copy_(x),
}


def whole_numbers(*shape, dtype, device, seed=0):
    """Small integers: every sum of products is exact."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=random).to(device, dtype)


@contextlib.contextmanager
def backwards():
    """In the interpreter: run the last program first, so that another one comes last to each tile."""
    set_grid_idx = builder.set_grid_idx
    turned = lambda x, y, z: set_grid_idx(builder.grid_dim[0] - 1 - x, y, z)
    with mock.patch.object(builder, "set_grid_idx", turned):
        yield


@contextlib.contextmanager
def planned(found):
    """``matmul`` takes this plan, whatever the shape."""
    module.prepared.cache_clear()
    with mock.patch.object(module, "plan", return_value=found) as asked:
        yield asked
    module.prepared.cache_clear()


def tile_plan(M, N, K, block, parts=1, swapped=False):
    m, n, k = block
    rows, columns = (N, M) if swapped else (M, N)
    tiles = triton.cdiv(rows, m) * triton.cdiv(columns, n)
    return Plan("tile", swapped, m, n, k, 4, 2, parts, tiles * parts)


def check(M, N, K, device="cpu", dtype=torch.float32, layouts=("rows", "rows"), turned=False, found=None):
    a, b = whole_numbers(M, K, dtype=dtype, device=device), whole_numbers(K, N, dtype=dtype, device=device, seed=1)
    a, b = (LAYOUTS[layout](x) for layout, x in zip(layouts, (a, b), strict=True))
    made, copies, counters = [], [], Guarded((500,), torch.int32, device, before=8, after=8, fill=0xFF)
    counters.tensor.zero_()
    copy_along_k = module.copy_along_k

    def guarded(*shape, dtype, device):  # NaN, so that a piece that nobody stored shows
        made.append(Guarded(shape, dtype, device, before=64, after=512, fill=0xFF))
        return made[-1].tensor

    def copied(x, more):
        with mock.patch.object(torch, "empty", empty):
            copies.append(copy_along_k(x, more))
        return copies[-1]

    with contextlib.ExitStack() as stack:
        if found:
            stack.enter_context(planned(found))
        if turned:
            stack.enter_context(backwards())
        accesses = stack.enter_context(recorded_accesses()) if device == "cpu" else None
        if device == "cpu":
            stack.enter_context(promises_kept())
        empty = torch.empty
        stack.enter_context(mock.patch.object(torch, "empty", guarded))
        stack.enter_context(mock.patch.object(module, "copy_along_k", copied))
        stack.enter_context(mock.patch.object(module, "counters", lambda device, tiles, keep: counters.tensor))
        c = matmul(a, b)
    for buffer, name in zip((*made, counters), ("c", "partial", "counters"), strict=False):
        buffer.check(name)
    assert c is made[0].tensor and c.shape == (M, N)
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))
    assert not counters.tensor.any()
    if accesses is not None:
        scratch = {f"scratch{i}": x for i, x in enumerate((*(own.tensor for own in (*made[1:], counters)), *copies))}
        check_inside(accesses, "load", a=a, b=b, **scratch)
        stored = check_inside(accesses, "store", c=c, **scratch)
        assert sorted(stored[np.isin(stored, addresses_of(c))]) == sorted(addresses_of(c))  # each once
    return copies


SMALL = st.integers(1, 70)
LAYOUT_PAIRS = st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS)))


@settings(max_examples=30)
@given(
    SMALL, SMALL, st.integers(1, 150), st.integers(1, 5), st.booleans(),
    st.sampled_from([torch.float32, torch.float16]), LAYOUT_PAIRS, st.booleans(),
)  # fmt: skip
@example(33, 65, 100, 3, False, torch.float32, ("rows", "rows"), False)
@example(64, 64, 128, 4, True, torch.float16, ("columns", "rows"), True)
@example(48, 40, 64, 1, False, torch.float16, ("columns", "columns"), False)
@example(48, 40, 63, 1, False, torch.float16, ("columns", "rows"), False)
@example(33, 40, 64, 1, False, torch.float16, ("rows", "rows"), False)
@example(40, 33, 64, 1, True, torch.float16, ("rows", "rows"), False)
@example(1, 40, 72, 2, True, torch.float16, ("wider", "columns"), False)
@example(40, 1, 72, 2, False, torch.float16, ("gaps", "rows"), False)
def test_tiles_cpu(M, N, K, parts, swapped, dtype, layouts, turned):
    found = tile_plan(M, N, K, (16, 32, 16), min(parts, -(-K // 16)), swapped)
    check(M, N, K, "cpu", dtype, layouts, turned, found)


@settings(max_examples=10)
@given(
    st.integers(1, 150), st.integers(1, 150), st.integers(1, 300), st.sampled_from([torch.float32, torch.float16]),
    LAYOUT_PAIRS,
)  # fmt: skip
@example(100, 72, 136, torch.float16, ("rows", "columns"))
@example(100, 71, 131, torch.float16, ("columns", "rows"))
@example(3, 72, 136, torch.float16, ("rows", "columns"))
@example(150, 8, 136, torch.float16, ("columns", "rows"))
def test_as_it_plans_cpu(M, N, K, dtype, layouts):
    check(M, N, K, "cpu", dtype, layouts)


DESCRIBED = [*itertools.product(("rows", "columns", "wider"), repeat=2)]  # what a descriptor serves


@pytest.mark.parametrize("layouts", DESCRIBED)
def test_persistent_cpu(layouts):
    """Fewer programs than tiles, so that each takes several; matrices end within tiles, and with them."""
    for M, N, K, programs in ((100, 136, 72, 2), (128, 64, 64, 1), (65, 72, 8, 4), (136, 200, 40, 9), (40, 72, 136, 2)):
        block = (64, 32, 16) if K == 72 else (32, 64, 16)
        found = Plan("persistent", False, *block, 4, 2, 1, programs)
        copies = check(M, N, K, "cpu", torch.float16, layouts, found=found)
        aligned = all(size % 8 == 0 for size, layout in ((M, layouts[0]), (K, layouts[1])) if layout == "columns")
        assert bool(copies) != aligned


@pytest.mark.parametrize("layouts", DESCRIBED)
def test_described_cpu(layouts):
    """Each tile by one program, or by three, whatever the last tile lacks; c needs no descriptor, so N may be odd."""
    sizes = (100, 72, 72, 1), (72, 80, 136, 3), (72, 67, 64, 2), (136, 40, 64, 2)
    cases = cover({"layouts": DESCRIBED, "size": sizes, "turned": [False, True]})
    for _, (M, N, K, parts), turned in (case for case in cases if case[0] == layouts):
        found = tile_plan(M, N, K, (64, 32, 16), parts)._replace(kernel="described")
        check(M, N, K, "cpu", torch.float16, layouts, turned, found)


def streamed_plan(M, N, K, block, more, programs, whole=0):
    """``whole``: None for all of the tiles."""
    m, n, k = block
    tiles = triton.cdiv(M, m) * triton.cdiv(N, n + more)
    return Plan("streamed", False, m, n, k, 4, 2, 1, programs, more, tiles if whole is None else min(whole, tiles))


@pytest.mark.parametrize("layouts", DESCRIBED)
def test_streamed_cpu(layouts):
    """More programs than tiles, and fewer; all tiles streamed, some, none; a program may have steps of many tiles."""
    sizes, streams = [(100, 72, 72), (72, 80, 136), (72, 67, 64)], [(3, 0), (5, 3), (7, None), (40, 0)]
    cases = cover({"layouts": DESCRIBED, "size": sizes, "stream": streams, "more": [0, 16]})
    for _, (M, N, K), (programs, whole), more in (case for case in cases if case[0] == layouts):
        found = streamed_plan(M, N, K, (64, 32, 16), more, programs, whole)
        check(M, N, K, "cpu", torch.float16, layouts, found=found)


@given(st.integers(1, 25), st.integers(1, 5), st.integers(1, 20), st.integers(0, 5))
@example(5, 2, 9, 0)
def test_streams_of_any_length(programs, tiles, steps, whole):
    a, b = whole_numbers(16, 16 * steps, dtype=torch.float16, device="cpu"), torch.ones(16 * steps, 16 * tiles).half()
    with planned(streamed_plan(16, 16 * tiles, 16 * steps, (16, 16, 16), 0, programs, whole)):
        assert torch.equal(matmul(a, b), (a.float() @ b.float()).half())
    assert not module.KEPT[KEY].any()


@pytest.mark.parametrize("programs, whole", [(1, 0), (3, 0), (5, 2), (4, 7), (2, None), (40, 0)])
def test_every_step_of_a_stream_is_done_once(programs, whole):
    a, b = whole_numbers(70, 100, dtype=torch.float16, device="cpu"), torch.ones(100, 72).half()
    dot = builder.create_dot
    with (
        planned(streamed_plan(70, 72, 100, (32, 16, 16), 0, programs, whole)),
        mock.patch.object(builder, "create_dot", side_effect=dot) as dots,
    ):
        matmul(a, b)
    assert dots.call_count == 3 * 5 * 7  # tiles, and steps of each


def test_waits_until_all_have_counted_who_share_a_tile():
    """One tile of 6 steps, by 3 programs. The last one comes first here, and sees the others count while it waits."""
    added, polled, rmw = [], [], builder.create_atomic_rmw

    def counting(op, ptr, value, mask, sem, scope):
        before = rmw(op, ptr, value, mask, sem, scope)
        (polled if sem.name == "ACQUIRE" else added).append((before.data.item(), value.data.item()))
        if sem.name == "ACQUIRE":
            rmw(op, ptr, TensorHandle(np.ones_like(value.data), value.dtype), mask, sem, scope)
        return before

    found = streamed_plan(16, 16, 96, (16, 16, 16), 0, 3)
    module.KEPT.clear()
    with planned(found), backwards(), mock.patch.object(builder, "create_atomic_rmw", counting):
        matmul(torch.ones(16, 96).half(), torch.ones(96, 16).half())
    module.KEPT.clear()  # the counter is 2, of those who came late
    assert polled == [(0, 0), (1, 0), (2, 0)] and added == [(0, 1), (1, 1)]


def test_a_stream_is_added_up_in_one_order():
    """Who has the last steps begins with its own sums, and adds those of the others in the order of K."""
    a = torch.zeros(128, 64).half()
    a[:, ::16] = torch.tensor([2.0**14, 3.0, -(2.0**14), 1.0])
    b = torch.zeros(64, 72).half()
    b[::16] = torch.tensor([2.0**14, 1.0, 2.0**14, 1.0])[:, None]
    expected = ((1 + torch.tensor(2.0**28)) + 3) - 2.0**28
    with planned(streamed_plan(128, 72, 64, (128, 64, 16), 16, 4)):
        assert matmul(a, b).unique().tolist() == [expected.item()] != [1.0]


@covering(parts=range(1, 8), turned=[False, True], K=[112, 100], swapped=[False, True])
def test_any_number_of_parts(parts, turned, K, swapped):
    check(20, 40, K, turned=turned, found=tile_plan(20, 40, K, (16, 16, 16), parts, swapped))


@pytest.mark.parametrize("block, swapped", [((128, 128, 16), False), ((64, 256, 16), True), ((16, 512, 16), False)])
def test_large_tiles_are_added_in_strips(block, swapped):
    check(140, 260, 40, found=tile_plan(140, 260, 40, block, 2, swapped))


def test_parts_are_added_in_the_order_of_k():
    """Each part is a number that only this order adds up to this sum, in float32."""
    a = torch.zeros(16, 64)
    a[:, ::16] = torch.tensor([1e8, 3.0, -1e8, 1.0])  # 1e8 + 3 is 1e8 + 0 or 8
    b = torch.ones(64, 32)
    expected = ((torch.tensor(1e8) + 3) + -1e8) + 1
    for order in (contextlib.nullcontext(), backwards()):
        with planned(tile_plan(16, 32, 64, (16, 32, 16), 4)), order:
            assert matmul(a, b).unique().tolist() == [expected.item()]


def test_every_step_is_done_once():
    """The parts of a tile share its steps evenly: none has two more than another."""
    a, b = torch.ones(16, 160), torch.ones(160, 32)
    for parts in (1, 3, 4, 10):
        with planned(tile_plan(16, 32, 160, (16, 32, 16), parts)), recorded_accesses() as accesses:
            assert matmul(a, b).eq(160).all()
        inside, steps, each = addresses_of(b), 0, []
        for op, at in accesses:
            steps += op == "load" and np.isin(at[:1], inside)[0]
            if op == "store" and len(at) > 1 and steps:
                each, steps = [*each, steps], 0
        assert sum(each) == 10 and len(each) == parts and max(each) - min(each) <= 1


def test_tiles_in_the_grouped_order():
    """Of 10 x 2 tiles in groups of 8: which one a program stores, by its first element."""
    M, N, K, block = 160, 56, 16, (16, 32, 8)
    a, b = (whole_numbers(*shape, dtype=torch.float32, device="cpu") for shape in ((M, K), (K, N)))
    alone = tile_plan(M, N, K, block)
    in_turns = Plan("persistent", False, *block, 4, 2, 1, 3), streamed_plan(M, N, K, block, 0, 3, None)
    for found in (alone, alone._replace(kernel="described"), *in_turns):
        with planned(found), recorded_accesses() as accesses, mock.patch.object(module, "GROUP_M", 8):
            c = matmul(a, b)
        assert torch.equal(c, a @ b)
        firsts = [int(at[0] - c.data_ptr()) // 4 for op, at in accesses if op == "store"]
        tiles = [(first // N // 16, first % N // 32) for first in firsts if first % N in (0, 32)]  # not right halves
        order = [(row, column) for rows in (range(8), range(8, 10)) for column in (0, 1) for row in rows]
        if found in in_turns:
            order = [order[tile] for program in range(3) for tile in range(program, 20, 3)]
        assert tiles == order


# Offsets

SAME = {
    "K_EVEN": True, "UNIT": 1, "C_UNIT": 1, "PRECISION": "ieee", "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16,
    "GROUP_M": 8, "SWAPPED": False, "SPLIT": False, "A_ALONG_K": True, "B_ALONG_K": True, "INDEX": tl.int32,
}  # fmt: skip


def offsets(op, *arguments, program=0, count=None, **options):
    """Of one program: the least and the largest offset of each access, in elements."""
    x = torch.zeros(4)
    count = x if count is None else count
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
        module.tile_kernel[(1,)](x, x, x, x, count, *arguments, **SAME | options)
    return [(int(at.min() - x.data_ptr()) // 4, int(at.max() - x.data_ptr()) // 4) for kind, at in seen if kind == op]


@pytest.mark.parametrize("along_k", [False, True])
def test_far_tiles(along_k):
    """The way to a tile is computed in 64 bits, whatever INDEX is."""
    far, tile, part = 2**26 + 1, 2**15 + 3, 3
    first = tile * 16 * far if along_k else tile * 16
    k = part * 16 if along_k else part * 16 * far
    more = {"SPLIT": True, "count": torch.zeros(2**16, dtype=torch.int32)}
    found = offsets("load", 2**20, 16, 64, far, 16, 4, program=part * 2**16 + tile, A_ALONG_K=along_k, **more)
    assert found[0] == (first + k, first + k + 15 * far + 15) and found[1] == (part * 16, 15 * 16 + part * 16 + 15)
    found = offsets("load", 16, 2**20, 64, 16, far, 4, program=part * 2**16 + tile, B_ALONG_K=along_k, **more)
    assert found[1] == (first + k, first + k + 15 * far + 15) and found[0] == (part * 16, 15 * 16 + part * 16 + 15)


@pytest.mark.parametrize("side", "AB")
def test_far_steps(side):
    """What is added at each step is computed in 64 bits, too."""
    far = 2**27  # 15 of it are within 32 bits, 16 not
    strides = (far, 16) if side == "A" else (16, far)
    found = offsets("load", 16, 16, 48, *strides, 1, **{f"{side}_ALONG_K": False})
    own = found["AB".index(side) :: 2]
    assert own == [(16 * step * far, 16 * step * far + 15 * far + 15) for step in range(3)]


@pytest.mark.parametrize("along_k", [False, True])
def test_far_within_a_tile(along_k):
    far = 2**28
    more = {"INDEX": tl.int64, "A_ALONG_K": along_k, "B_ALONG_K": along_k}
    assert offsets("load", 16, 16, 16, far, far, 1, **more) == [(0, 15 * far + 15)] * 2
    assert offsets("store", 16, far, 16, 16, 16, 1, **more) == [(0, 15 * far + 15)]
    assert offsets("store", far, 16, 16, 16, 16, 1, SWAPPED=True, **more) == [(0, 15 * far + 15)]


@pytest.mark.parametrize("swapped", [False, True])
def test_far_tiles_of_the_result(swapped):
    M, N = (2**10, 2**25) if swapped else (2**25, 2**10)  # 2**27 tiles; of the last of them
    more = {"SWAPPED": swapped, "INDEX": tl.int32}
    found = offsets("store", M, N, 16, 16, 16, 1, program=2**27 - 1, **more)
    assert found == [(2**35 - 15 * 2**10 - 16, 2**35 - 1)]


def test_far_pieces():
    """2**14 tiles of 2**10 parts of 256 sums; the last program of a tile reads them all."""
    tile, parts = 2**14 - 1, 2**10
    count = torch.zeros(2**14, dtype=torch.int32)
    count[tile] = parts - 1
    arguments = (2**18, 16, 2**14, 0, 0, parts)
    more = {"SPLIT": True, "program": 5 * 2**14 + tile}
    stored = offsets("store", *arguments, count=count.clone(), **more)
    assert stored[0] == ((tile * parts + 5) * 256, (tile * parts + 6) * 256 - 1) and stored[0][0] > 2**31
    read = offsets("load", *arguments, count=count.clone(), **more)
    assert [low for low, _ in read[-parts:]] == [(tile * parts + part) * 256 for part in range(parts)]


def launch_of(M, N, K, a_stride, b_stride, dtype=torch.float16, begins=True, precision="ieee"):
    device = torch.device("cpu")
    return module.prepared.__wrapped__(
        (M, K), a_stride, (K, N), b_stride, dtype, dtype, device, device, (begins, True), precision
    )


@pytest.mark.parametrize(
    "shape, a, b, index",
    [
        ((64, 32, 64), (64, 1), (32, 1), tl.int32),
        ((64, 32, 64), (2**26, 1), (32, 1), tl.int64),
        ((64, 32, 64), (1, 2**26), (32, 1), tl.int64),
        ((64, 32, 64), (64, 1), (2**26, 1), tl.int64),
        ((64, 32, 64), (64, 1), (1, 2**26), tl.int64),
        ((64, 32, 64), (2**23, 1), (1, 2**23), tl.int32),
        ((2, 2**26, 64), (64, 1), (1, 64), tl.int64),
        ((2, 2**23, 64), (64, 1), (1, 64), tl.int32),
    ],
)
def test_asks_for_64_bits_where_a_tile_is_far(shape, a, b, index):
    assert launch_of(*shape, a, b).options["INDEX"] == index


# What is looked up


@pytest.mark.parametrize(
    "shape, a, b, units",
    [
        ((64, 64, 64), (64, 1), (64, 1), (8, 8)),
        ((64, 64, 64), (1, 64), (1, 64), (8, 8)),
        ((64, 64, 60), (60, 1), (64, 1), (1, 8)),
        ((64, 60, 64), (64, 1), (60, 1), (1, 1)),
        ((64, 60, 64), (64, 1), (1, 64), (8, 1)),
        ((60, 64, 64), (1, 60), (64, 1), (1, 8)),
        ((60, 64, 64), (1, 64), (64, 1), (1, 8)),
        ((60, 64, 64), (64, 1), (64, 1), (8, 8)),
        ((64, 64, 64), (65, 1), (64, 1), (1, 8)),
        ((64, 64, 64), (64, 1), (1, 68), (1, 8)),
        ((1, 64, 64), (65, 1), (64, 1), (8, 8)),
        ((64, 64, 64), (0, 1), (64, 1), (1, 8)),
        ((64, 64, 64), (56, 1), (64, 1), (1, 8)),
    ],
)
def test_promises_only_what_is_so(shape, a, b, units):
    """To Triton: that runs of memory begin and end at multiples of 16 bytes, that is of 8 elements."""
    options = launch_of(*shape, a, b).options
    assert (options["UNIT"], options["C_UNIT"]) == units
    half = tuple(4 if unit == 8 else 4 * (size % 4 == 0) or 1 for unit, size in zip(units, (1, shape[1]), strict=True))
    options = launch_of(*shape, a, b, torch.float32).options
    assert options["UNIT"] in (1, 4) and options["C_UNIT"] == half[1]


def test_how_a_side_lies():
    """Of a (rows, K): which way neighbors lie, and how far it is from one run of them to the next."""
    along = lambda rows, K, stride: module.Walk(rows, K, True, stride)
    across = lambda rows, K, stride: module.Walk(rows, K, False, stride)
    assert module.walk(3, 5, (7, 1)) == along(3, 5, 7)
    assert module.walk(1, 5, (7, 1)) == along(1, 5, 0)  # there is no next row, wherever a view says that it is
    assert module.walk(2, 5, (7, 1)) == along(2, 5, 7)
    assert module.walk(3, 1, (7, 9)) == along(3, 1, 7)
    assert module.walk(3, 5, (1, 7)) == across(3, 5, 7)
    assert module.walk(1, 5, (9, 7)) == across(1, 5, 7)
    assert module.walk(3, 5, (7, 2)) is module.walk(2, 2, (2, 2)) is None
    assert module.walk(3, 5, (7, 1)).described(16, 32) == ((3, 5), (7, 1), [16, 32])
    assert module.walk(3, 5, (1, 7)).described(16, 32) == ((5, 3), (7, 1), [32, 16])


def test_what_is_copied():
    """None where rows or columns are few; otherwise what is not aligned, along K, filled with zeros."""
    row, column = (64, 1), (1, 128)
    assert launch_of(128, 128, 64, row, (128, 1)).copied is None
    assert launch_of(128, 128, 64, row, (128, 1), begins=False).copied == (True, True, 0)
    assert launch_of(128, 128, 60, (60, 1), (128, 1)).copied == (True, True, 4)
    assert launch_of(128, 128, 60, (64, 1), (128, 1)).copied == (True, True, 4)
    assert launch_of(128, 127, 64, row, (127, 1)).copied == (True, True, 0)
    assert launch_of(128, 127, 64, row, (1, 64)).copied is None
    assert launch_of(128, 128, 63, column, (128, 1)).copied is None, "where neighbors are not along K, any K will do"
    for few in ((64, 128), (128, 64)):
        assert launch_of(*few, 60, (60, 1), (few[1], 1), begins=False).copied is None
    assert launch_of(128, 128, 60, (62, 1), (128, 1), torch.float32).copied is None, "by hand, loads matter little"
    assert launch_of(128, 128, 60, (62, 1), (128, 1), torch.float32, precision="tf32").copied == (True, True, 0)
    assert launch_of(8, 8, 64, (128, 2), (8, 1)).copied == (True, False, 0)
    assert launch_of(8, 8, 64, row, (16, 2)).copied == (False, True, 0)
    x = torch.arange(12.0).view(3, 4)
    copy = module.copy_along_k(x.t(), 2)
    assert copy.is_contiguous() and torch.equal(copy, torch.cat([x.t(), torch.zeros(4, 2)], 1))
    assert module.copy_along_k(x.t(), 0).is_contiguous()


def test_asks_for_the_plan_of_its_shape():
    with planned(Plan("tile", False, 16, 16, 16, 4, 2, 1, 4)) as asked:
        launch_of(20, 24, 40, (40, 1), (24, 1))
        launch_of(20, 24, 40, (40, 1), (24, 1), begins=False)
        launch_of(20, 24, 40, (40, 1), (24, 1), torch.float32)
        launch_of(20, 24, 40, (40, 1), (24, 1), torch.float32, precision="tf32")
        launch_of(20, 24, 42, (42, 1), (24, 1))
    same = {"size": 2, "by_hand": False, "wide": True}
    assert asked.call_args_list == [
        mock.call(20, 24, 40, **same), mock.call(20, 24, 40, **same | {"wide": False}),
        mock.call(20, 24, 40, **same | {"size": 4, "by_hand": True}), mock.call(20, 24, 40, **same | {"size": 4}),
        mock.call(20, 24, 42, **same | {"wide": False}),
    ]  # fmt: skip


def test_what_it_launches():
    a, b = torch.ones(20, 64), torch.ones(40, 64).t()
    for parts, swapped in itertools.product((1, 2), (False, True)):
        found = Plan("tile", swapped, 16, 32, 32, 8, 3, parts, 4 * parts)
        with planned(found), mock.patch.object(module, "tile_kernel", mock.MagicMock()) as kernel:
            c = matmul(a, b)
        kernel.__getitem__.assert_called_once_with((4 * parts, 1, 1))
        (*tensors, M, N, K, stride_a, stride_b, given), options = kernel.__getitem__.return_value.call_args
        assert tensors[:2] == ([b, a] if swapped else [a, b]) and tensors[2] is c and (K, given) == (64, parts)
        assert (M, N, stride_a, stride_b) == ((40, 20, 64, 64) if swapped else (20, 40, 64, 64))
        assert options == SAME | {
            "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3, "UNIT": 4, "C_UNIT": 4,
            "SWAPPED": swapped, "SPLIT": parts > 1,
        }  # fmt: skip
        if parts > 1:
            assert tensors[3].shape == (8 * 16 * 32,) and tensors[3].dtype == torch.float32
            assert tensors[4] is module.counters(a.device, 4, True)
        else:
            assert tensors[3] is c and tensors[4] is c


def test_what_is_described():
    a, b = torch.ones(64, 48).half(), torch.ones(64, 56)[:, :40].half().t().contiguous().t()
    a = torch.ones(48, 64).half().t()
    b = torch.ones(40, 56).half()[:, :48].t()
    found = Plan("persistent", False, 16, 32, 64, 8, 3, 1, 3)
    with planned(found), mock.patch.object(module, "persistent_kernel", mock.MagicMock()) as kernel:
        c = matmul(a, b)
    kernel.__getitem__.assert_called_once_with((3, 1, 1))
    (*descriptors, M, N, K), options = kernel.__getitem__.return_value.call_args
    assert (M, N, K) == (64, 40, 48) and [x.base for x in descriptors] == [a, b, c]
    assert [(tuple(x.shape), tuple(x.strides), list(x.block_shape)) for x in descriptors] == [
        ((48, 64), (64, 1), [64, 16]), ((40, 48), (56, 1), [32, 64]), ((64, 40), (40, 1), [16, 16])
    ]  # fmt: skip
    assert options == {
        "A_ALONG_K": False, "B_ALONG_K": True, "PRECISION": "ieee", "GROUP_M": 8,
        "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3,
    }  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2])
def test_what_is_launched_with_descriptors(parts):
    a, b = torch.ones(48, 64).half().t(), torch.ones(41, 48).half().t()
    found = Plan("described", False, 16, 32, 64, 8, 3, parts, 8 * parts)
    with planned(found), mock.patch.object(module, "described_kernel", mock.MagicMock()) as kernel:
        c = matmul(a, b)
    kernel.__getitem__.assert_called_once_with((8 * parts, 1, 1))
    (*tensors, M, N, K, given), options = kernel.__getitem__.return_value.call_args
    assert (M, N, K, given) == (64, 41, 48, parts) and [x.base for x in tensors[:2]] == [a, b] and tensors[2] is c
    assert [(tuple(x.shape), tuple(x.strides), list(x.block_shape)) for x in tensors[:2]] == [
        ((48, 64), (64, 1), [64, 16]), ((41, 48), (48, 1), [32, 64])
    ]  # fmt: skip
    assert options == {
        "A_ALONG_K": False, "B_ALONG_K": True, "PRECISION": "ieee", "GROUP_M": 8, "SPLIT": parts > 1, "C_UNIT": 1,
        "INDEX": tl.int32, "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3,
    }  # fmt: skip
    if parts > 1:
        assert tensors[3].shape == (16 * 16 * 32,) and tensors[4] is module.counters(a.device, 8, True)


@pytest.mark.parametrize("whole", [3, None])
def test_what_is_launched_streamed(whole):
    a, b = torch.ones(48, 64).half().t(), torch.ones(48, 80).half()
    found = streamed_plan(64, 80, 48, (16, 32, 64), 16, 5, whole)
    with planned(found), mock.patch.object(module, "streamed_kernel", mock.MagicMock()) as kernel:
        c = matmul(a, b)
    kernel.__getitem__.assert_called_once_with((5, 1, 1))
    (*tensors, M, N, K, given), options = kernel.__getitem__.return_value.call_args
    assert (M, N, K, given) == (64, 80, 48, found.whole)
    assert [x.base for x in tensors[:3]] == [a, b, b] and tensors[3] is c
    assert [(tuple(x.shape), tuple(x.strides), list(x.block_shape)) for x in tensors[:3]] == [
        ((48, 64), (64, 1), [64, 16]), ((48, 80), (80, 1), [64, 32]), ((48, 80), (80, 1), [64, 16])
    ]  # fmt: skip
    assert options == {
        "A_ALONG_K": False, "B_ALONG_K": False, "GROUP_M": 8, "STREAMED": whole == 3, "C_UNIT": 8, "INDEX": tl.int32,
        "BLOCK_M": 16, "BLOCK_N": 32, "MORE_N": 16, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2,
    }  # fmt: skip
    if whole:
        assert tensors[4].shape == (5 * 16 * 48,) and tensors[4].dtype == torch.float32
        assert tensors[5] is module.counters(a.device, 8 - 3, True)
    else:
        assert tensors[4] is c and tensors[5] is c


NAMES = [*inspect.signature(module.tile_kernel.fn).parameters]


def test_asks_triton_for_the_kernel_once():
    """Then what was compiled is launched, with all arguments in the kernel's order; but not for other pointers."""
    a, b, other = torch.ones(20, 64), torch.ones(64, 40), torch.ones(64 * 40 + 1)[1:].view(64, 40)
    with planned(tile_plan(20, 40, 64, (16, 16, 16))), mock.patch.object(module, "tile_kernel") as kernel:
        kernel.arg_names = NAMES
        compiled = kernel.__getitem__.return_value.return_value
        first = matmul(a, b)
        assert kernel.__getitem__.return_value.call_count == 1 and not compiled.__getitem__.called
        for _ in range(3):
            c = matmul(a, b)
        compiled.__getitem__.assert_called_with((6, 1, 1))
        assert kernel.__getitem__.return_value.call_count == 1
        given = compiled.__getitem__.return_value.call_args.args
        (*tensors, M, N, K, stride_a, stride_b, parts), constants = given[:11], given[11:]
        assert tensors[0] is a and tensors[1] is b and tensors[2] is c is not first
        assert (M, N, K, stride_a, stride_b, parts) == (20, 40, 64, 64, 40, 1)
        options = kernel.__getitem__.return_value.call_args.kwargs
        assert options == dict(zip(NAMES[11:], constants, strict=True)) | {"num_warps": 4, "num_stages": 2}
        matmul(a, other)
        assert kernel.__getitem__.return_value.call_count == 2, "its columns begin elsewhere: that may be other code"


@pytest.mark.parametrize("precision, meant", [("highest", "IEEE"), ("high", "TF32"), ("medium", "TF32")])
def test_the_precision_reaches_the_product(precision, meant):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with precisions_of_dots() as seen:
            matmul(torch.ones(2, 32), torch.ones(32, 16))
            with planned(Plan("persistent", False, 16, 16, 16, 4, 2, 1, 1)):
                matmul(torch.ones(16, 32).half(), torch.ones(32, 16).half())
    finally:
        torch.set_float32_matmul_precision(before)
    assert {name.upper() for name in seen} == {meant}


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0), (0, 0, 5)):
        assert matmul(torch.ones(M, K, device=device), torch.ones(K, N, device=device)).shape == (M, N)
    assert matmul(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device)).tolist() == [[0, 0]] * 3


def test_single_rows_and_columns(device):
    """Whatever their strides are, which mean nothing."""
    x = whole_numbers(50, 50, dtype=torch.float32, device=device)
    for a, b in (
        (x[3:4, ::2], x[:25, 5:6]), (x[3:4, :20], x[:20, 5:6].t().contiguous().t()), (x[:, 3:4], x[5:6, :7]),
        (x[:, 3:4], x.t()[5:6, :7]), (x[:1, :1], x[:1, :9]), (x[:1].expand(8, 50), x[:, :1].expand(50, 8)),
        (x[:, 3:4].t(), x[::2, ::2].contiguous().repeat(2, 1)), (x[::2, ::2], x[::2, ::2]),
    ):  # fmt: skip
        assert torch.equal(matmul(a, b), a @ b)


# Plans


@given(
    *[st.integers(1, 20000) | st.integers(1, 200)] * 3, st.sampled_from([2, 4]), st.booleans(), st.booleans(),
    st.sampled_from([232_448, 166_912, 101_376, 65_536]), st.integers(1, 304),
)  # fmt: skip
@example(1, 1, 2**30 - 1, 2, False, False, 65_536, 304)
@example(2**30 - 1, 2**30 - 1, 1, 2, False, False, 232_448, 132)
@example(64, 2**30 - 1, 1, 4, True, True, 101_376, 132)
@example(65, 65, 2**30 - 1, 4, True, True, 101_376, 132)
def test_plans_can_be_served(M, N, K, size, by_hand, wide, shared, multiprocessors):
    by_hand &= size == 4
    more = {"size": size, "by_hand": by_hand, "wide": wide, "multiprocessors": multiprocessors, "shared": shared}
    found = plan(M, N, K, **more)
    m, n, k = found[2:5]
    for side in (m, n, k, found.num_warps, found.more_n or 1):
        assert side & (side - 1) == 0
    assert m >= 16 and n >= 8 and k >= 16 and found.num_stages >= 1
    assert found.num_stages * (m + n + found.more_n) * k * size <= shared
    rows, columns = (N, M) if found.swapped else (M, N)
    tiles, steps = triton.cdiv(rows, m) * triton.cdiv(columns, n), triton.cdiv(K, k)
    if found.kernel == "persistent":
        assert wide and size == 2 and N % 8 == 0 and found.parts == 1 and 1 <= found.programs <= tiles
        assert found.programs <= multiprocessors
        assert triton.cdiv(tiles, found.programs) == triton.cdiv(tiles, multiprocessors)
    elif found.kernel == "streamed":
        tiles = triton.cdiv(M, m) * triton.cdiv(N, n + found.more_n)
        assert wide and size == 2 and found.parts == 1 and 1 <= found.programs <= multiprocessors
        if found.whole < tiles:
            stream = (tiles - found.whole) * steps
            assert found.whole % multiprocessors == 0 and found.programs == multiprocessors
            assert stream >= multiprocessors and stream * multiprocessors < 2**31
        else:
            assert triton.cdiv(tiles, found.programs) == triton.cdiv(tiles, multiprocessors)
    else:
        assert found.kernel == "tile" or (wide and size == 2)
        assert found.programs == tiles * found.parts
        assert 1 <= found.parts <= steps and found.parts * steps < 2**31
        if found.parts > 1:
            assert found.programs <= 8 * multiprocessors  # so the pieces stay few


REAL = [
    *((M, N, K) for M in (1, 8, 16, 64) for N, K in ((4096, 4096), (28672, 8192), (4096, 14336), (128256, 4096))),
    (128, 128, 65536), (300, 7168, 2048), (512, 512, 16384), (1000, 1000, 1000), (1536, 1536, 1536),
    (2048, 5120, 5120), (1920, 1280, 5120), (3072, 3072, 3072), (4088, 4088, 4088), (5000, 5000, 5000),
    (8192, 8192, 8192), (65536, 16, 4096), (7, 3, 1), (50257, 768, 1024), (1, 50257, 768), (100_000, 128, 64),
]  # fmt: skip


@pytest.mark.parametrize("M, N, K", REAL)
def test_shapes_of_models_are_served(M, N, K):
    for size, by_hand, wide in ((2, False, True), (2, False, False), (4, False, True), (4, True, True)):
        test_plans_can_be_served.hypothesis.inner_test(M, N, K, size, by_hand, wide, 232_448, 132)


def test_few_rows_or_columns_fill_the_rows_of_the_matrix_units():
    for few in (1, 8, 16, 33, 64):
        block = max(8, triton.next_power_of_2(few))
        wide, tall = plan(few, 4096, 4096), plan(4096, few, 4096)
        assert wide.swapped and not tall.swapped and wide[2:] == tall[2:]
        assert wide.block_n == block and wide.block_m >= 64
    assert not plan(65, 4096, 4096).swapped and plan(64, 65, 4096).swapped and not plan(64, 63, 4096).swapped


@pytest.mark.parametrize("more", [{}, {"size": 4}, {"wide": False}, {"multiprocessors": 60, "shared": 101_376}])
def test_few_rows_are_shared_out_as_by_few_rows(more):
    for M, N, K in itertools.product((1, 16, 64), (1024, 4096, 6144, 28672, 128256), (64, 4096, 14336)):
        theirs = few_rows.plan(M, N, K, **more)
        tile = theirs.block_n, theirs.rows, theirs.block_k, theirs.num_warps, theirs.num_stages
        expected = Plan("tile", True, *tile, theirs.parts, theirs.tiles * theirs.parts)
        assert plan(M, N, K, **more) == expected


def test_splits_what_has_few_tiles():
    assert plan(128, 128, 65536).parts > 8 and plan(1, 4096, 4096).parts > 1
    assert plan(8192, 8192, 8192).parts == 1 and plan(512, 512, 64).parts == 1


def test_streams_what_would_leave_most_without_work_in_the_last_round():
    """768 x 3072 are 144 tiles of 128 x 128: 132 in one round, and 12 in another."""
    found = plan(768, 3072, 8192)
    assert (found.kernel, found.programs, found.whole, found.block_n + found.more_n) == ("streamed", 132, 0, 128)
    assert plan(768, 3072, 8192, multiprocessors=144).kernel != "streamed"


def test_wider_tiles_where_they_fill_the_gpu():
    """512 x 6144 are 4 x 32 tiles of 128 x 192: 128, for 132 multiprocessors."""
    found = plan(512, 6144, 4096)
    assert (found.kernel, found.programs, found.whole, found.block_n + found.more_n) == ("streamed", 128, 128, 192)


def test_large_products_are_persistent():
    assert plan(8192, 8192, 8192).kernel == "persistent"
    for other in ({"wide": False}, {"size": 4}):
        assert plan(8192, 8192, 8192, **other).kernel == "tile"
    assert plan(8192, 8190, 8192).kernel == "described", "rows of 16,380 bytes: c has no descriptor"


def test_what_a_descriptor_cannot_describe_is_loaded_through_pointers():
    for M, N, K in REAL:
        assert plan(M, N, K, wide=False).kernel == plan(M, N, K, size=4).kernel == "tile"


def test_the_estimate():
    """By hand: 16 x 16 tiles of 128 x 128, 64 steps, on 132 multiprocessors, two programs on each, in one round."""
    found = Plan("tile", False, 128, 128, 64, 4, 3, 1, 256)
    step = module.TURN + 2 * max(2 * 128 * 128 * 64 / (module.FLOPS / 2), 2**15 / module.L2_BYTES)
    edge = module.EDGE + 2 * 128 * 128 * 4 / module.STORES
    once = module.estimate(2048, 2048, 4096, 2, False, 132, 232_448, found)
    assert once == pytest.approx(64 * step + edge)
    twice = module.estimate(4096, 2048, 4096, 2, False, 132, 232_448, found._replace(programs=512))
    assert twice == pytest.approx(2 * once)
    split = module.estimate(2048, 2048, 4096, 2, False, 132, 232_448, found._replace(programs=1024, parts=4))
    assert split == pytest.approx(4 * (16 * step + edge) + module.LAST + 4 * 128 * 128 * 4 / module.ONE_READS)
    described = module.estimate(2048, 2048, 4096, 2, False, 132, 232_448, found._replace(kernel="described"))
    faster = module.TURN + 2 * 2 * 128 * 128 * 64 / (module.FLOPS / 2 * module.DESCRIBED)
    assert described == pytest.approx(64 * faster + edge)
    by_hand = module.estimate(640, 640, 16, 4, True, 10, 232_448, Plan("tile", False, 64, 64, 16, 4, 3, 1, 100))
    together = 5  # by 2**16 registers: 64 for each of 128 threads, and one for each sum
    arithmetic = together * 2 * 64 * 64 * 16 / module.FLOPS_BY_HAND
    assert by_hand == pytest.approx(
        2 * (module.TURN + arithmetic + module.EDGE + together * 64 * 64 * 4 / module.STORES)
    )
    waits = module.estimate(64, 64, 64, 2, False, 132, 232_448, Plan("tile", False, 64, 32, 64, 4, 3, 1, 2))
    assert waits == pytest.approx(module.TURN + module.LATENCY / 2 + module.EDGE + 64 * 32 * 4 / module.STORES)
    loads = module.estimate(64, 64, 64, 4, False, 132, 232_448, Plan("tile", False, 64, 8, 512, 4, 3, 1, 8))
    step = max(72 * 512 * 4 / module.L2_BYTES, 2 * 64 * 8 * 512 / (module.FLOPS / 4 * 0.5), module.LATENCY / 2)
    assert loads == pytest.approx(module.TURN + step + module.EDGE + 64 * 8 * 4 / module.STORES)
    wide = Plan("streamed", False, 128, 128, 64, 8, 4, 1, 128, 64, 128)
    step = module.TURN + 2 * 128 * 192 * 64 / (module.FLOPS / 2 * module.REACHED[128, 192] * module.DESCRIBED)
    edge = module.EDGE + 128 * 192 * 4 / module.STORES
    assert module.estimate(512, 6144, 4096, 2, False, 132, 232_448, wide) == pytest.approx(64 * step + edge)
    stream = Plan("streamed", False, 128, 128, 64, 8, 6, 1, 100, 0, 100)  # 150 tiles, 100 of them whole
    step = module.TURN + 2 * 128 * 128 * 64 / (module.FLOPS / 2 * module.ALONE * module.DESCRIBED)
    edge = module.EDGE + 128 * 128 * 4 / module.STORES
    last = 32 * step * module.OUT_OF_STEP + edge + module.LAST + 2 * 128 * 128 * 4 / module.ONE_READS
    assert module.estimate(1280, 1920, 4096, 2, False, 132, 232_448, stream) == pytest.approx(64 * step + edge + last)
    memory = module.estimate(1, 2**20, 2**10, 2, False, 132, 232_448, Plan("tile", True, 64, 8, 128, 4, 4, 1, 2**14))
    assert memory >= 2 * (2**10 + 2**30 + 2**20) / module.MEMORY
    large = Plan("persistent", False, 128, 256, 64, 8, 3, 1, 128)
    reached = module.FLOPS / 2 * module.REACHED[128, 256] * module.DESCRIBED
    step = module.TURN + 2 * 128 * 256 * 64 / reached
    between = module.OVERLAPPED * (module.EDGE + 128 * 256 * 4 / module.STORES)
    assert module.estimate(4096, 4096, 4096, 2, False, 132, 232_448, large) == pytest.approx(
        4 * (64 * step + between) + module.EDGE
    )


def test_the_plan_is_the_best_by_the_estimate():
    given = (2, False, True, 132, 232_448)
    for M, N, K in REAL[::3]:
        best = min(
            module.estimate(M, N, K, 2, False, 132, 232_448, other) for other in module.candidates(M, N, K, *given)
        )
        assert module.estimate(M, N, K, 2, False, 132, 232_448, plan(M, N, K)) == best


def test_plans_for_the_gpu_that_it_is_on():
    limits = {"multi_processor_count": 10, "shared_memory_per_block": 48 * 1024}
    for more, shared in (({}, 48 * 1024), ({"shared_memory_per_block_optin": 96 * 1024}, 96 * 1024)):
        properties = mock.Mock(spec_set=[*limits, *more], **limits, **more)
        with mock.patch.object(torch.cuda, "get_device_properties", return_value=properties) as get:
            found = module.limits_of.__wrapped__(torch.device("cuda", 1))
            assert found == {"multiprocessors": 10, "shared": shared}
        get.assert_called_once_with(torch.device("cuda", 1))
    assert module.limits_of.__wrapped__(torch.device("cpu")) == {}


# Counters

KEY = torch.device("cpu"), 0


def test_kept_counters_suffice():
    """The counters that are kept serve all who need no more of them; who needs more gets new ones, zeros as well."""
    with mock.patch.dict(module.KEPT, clear=True):
        first = module.counters(KEY[0], 3, True)
        assert first.dtype == torch.int32 and not first.any() and len(first) == 4096 and list(module.KEPT) == [KEY]
        assert module.counters(KEY[0], 4096, True) is first
        more = module.counters(KEY[0], 4097, True)
        assert len(more) == 4097 and more.dtype == torch.int32 and not more.any()
        assert module.counters(KEY[0], 3, True) is more
        new = module.counters(KEY[0], 3, False)
        assert len(new) == 3 and new.dtype == torch.int32 and not new.any() and list(module.KEPT.values()) == [more]
    assert not module.FOR_GRAPHS


@contextlib.contextmanager
def as_on_a_gpu(capturing):
    """Without one: whether a graph is being captured, and on which stream. Yield the calls of zeros, and the stream."""
    stream = mock.Mock(handle=7)
    zeros = lambda n, dtype, device: torch.empty(n, dtype=dtype).zero_()
    with (
        mock.patch.dict(module.KEPT, clear=True),
        mock.patch.dict(module.FOR_GRAPHS, clear=True),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: capturing),
        mock.patch.object(torch.cuda, "current_stream", return_value=stream),
        mock.patch.object(triton.runtime.driver, "_active", mock.Mock(get_current_stream=lambda index: stream.handle)),
        mock.patch.object(torch, "zeros", side_effect=zeros) as zeros,
    ):
        yield zeros, stream


def test_every_call_in_a_graph_has_counters_of_its_own():
    device = torch.device("cuda", 0)
    made = lambda zeros: [call.args[0] for call in zeros.call_args_list]
    with as_on_a_gpu(capturing=False) as (zeros, stream):
        kept = module.counters(device, 5, True)
        assert module.counters(device, 5, True) is kept and list(module.KEPT) == [(device, 7)]
        assert made(zeros) == [4096, module.ROOM]
        stream.synchronize.assert_called_once()  # before another stream reads the zeros
        stream.handle = 8
        assert module.counters(device, 5, True) is not kept and made(zeros) == [4096, module.ROOM, 4096]
        stream.synchronize.assert_called_once()
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
            first, second, third = (module.counters(device, tiles, True) for tiles in (5, 8, 1))
            taken = [kept, first, second, third]
            places = [set(range(x.data_ptr(), x.data_ptr() + 4 * len(x))) for x in taken]
            assert all(a.isdisjoint(b) for i, a in enumerate(places) for b in places[:i])
            assert [len(x) for x in taken[1:]] == [8, 8, 4] and all(x.data_ptr() % 16 == 0 for x in taken)
            assert made(zeros) == [4096, module.ROOM, 4096]
            left = len(module.FOR_GRAPHS[device])
            assert left == module.ROOM - 20
            assert len(module.counters(device, left, True)) == left and not len(module.FOR_GRAPHS[device])
            assert len(module.counters(device, 3, True)) == 4 and made(zeros)[3:] == [4], "no room is left"


def test_a_graph_without_a_product_before_it():
    device = torch.device("cuda", 0)
    with as_on_a_gpu(capturing=True) as (zeros, stream):
        first, second = module.counters(device, 5, True), module.counters(device, 5, True)
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

    def counters(device, tiles, keep):
        asked.append((current[-1] if current else None, tiles, keep))
        return torch.zeros(tiles, dtype=torch.int32)

    a, b = torch.ones(16, 64), torch.ones(64, 40)
    with (
        planned(tile_plan(16, 40, 64, (16, 32, 16), 2)),
        mock.patch.object(torch.cuda, "device_of", device_of),
        mock.patch.object(module, "counters", counters),
    ):
        assert matmul(a, b).eq(64).all()
    assert len(asked) == 1 and asked[0][0] is a and asked[0][1:] == (2, True)


# Under torch.compile


@pytest.mark.parametrize("M, N, K", [(3, 40, 200), (100, 72, 72), (100, 71, 71)])
def test_under_torch_compile(M, N, K, device):
    """In one graph, with what is before and after it; strides of the result are those that the compiler is told."""
    a, b = whole_numbers(M, K, dtype=torch.float16, device=device), torch.ones(K, N, device=device).half()
    torch.compiler.reset()
    compiled = torch.compile(
        lambda a, b: matmul(a + 1, b) * 2, backend="inductor" if device == "cuda" else "aot_eager", fullgraph=True
    )
    for x in (b, LAYOUTS["columns"](b)):
        assert torch.equal(compiled(a, x), ((a + 1).float() @ x.float() * 2).half())
    torch.library.opcheck(torch.ops.triton_by_example.matmul.default, (a, b))


def test_keeps_nothing_under_torch_compile():
    a, b = torch.ones(3, 200), torch.ones(200, 40)
    counters = mock.patch.object(module, "counters", wraps=module.counters)
    with counters as asked, mock.patch.dict(module.KEPT, clear=True), planned(tile_plan(3, 40, 200, (16, 16, 32), 2)):
        torch.compiler.reset()
        assert torch.compile(matmul, backend="eager")(a, b).eq(200).all()
        assert not module.KEPT and asked.call_args.args[2] is False


def test_refuses_under_torch_compile_too():
    torch.compiler.reset()
    compiled = torch.compile(matmul, backend="eager")
    with pytest.raises(ValueError, match="requires a gradient"):
        compiled(torch.ones(2, 3, requires_grad=True), torch.ones(3, 2))


PRODUCTS = """
def matrix(rows, columns, turned=False):
    return torch.empty(columns, rows).bfloat16().t() if turned else torch.empty(rows, columns).bfloat16()

for M, N, K, *turned in CASES:
    module.product(*map(matrix, (M, K), (K, N), turned), keep=True)
for found in PLANS:
    module.prepared.cache_clear()
    with mock.patch.object(module, "plan", return_value=found):
        module.product(matrix(512, 512), matrix(512, 512), keep=True)
"""


def products(cases=(), plans=()):
    """Return for an H200, of each case's kernel, then of each plan's: its name and whether it needs no more than there
    is, multiplies by wgmma, loads by 16 bytes, has stored in all threads before one counts, stores by 16 bytes."""
    described = []
    code = PRODUCTS.replace("CASES", repr(cases)).replace("PLANS", repr(plans).replace("Plan(", "module.Plan("))
    for launch in compiled("matmul/matmul", code):
        fits = launch.spills == 0 and launch.shared <= SHARED
        loads, stores = (re.findall(name + r"[.][.A-Z0-9]*", launch.sass) for name in ("LDG(?:STS)?", "STG"))
        loads, stores = (bool(each) and all(".128" in access for access in each) for each in (loads, stores))
        counts = re.split(r"atom[.]global[.]gpu[.](?:release|acq_rel)[.]add", launch.ptx)[:-1]
        stored = all(before.rfind("bar.sync") > before.rfind("st.global") for before in counts)
        by_wgmma, described_loads = ("HGMMA" in launch.sass, "UTMALDG" in launch.sass)
        described.append((launch.kernel, fits, by_wgmma, loads or described_loads, stored, stores))
    return described


def test_compiles_to_wide_loads():
    """From 9 rows on wgmma; loads of 16 bytes, also at 4088, which is no multiple of 16."""
    shapes = {
        "tile": (16, 4088, 4088), "described": (1024, 4088, 4088), "streamed": (1536, 1528, 1528),
        "persistent": (4096, 4088, 4088),
    }  # fmt: skip
    cases = [(*shape, False, turned) for shape in shapes.values() for turned in (False, True)]
    kernels = [f"{kernel}_kernel" for kernel in shapes for _ in range(2)]
    cases.insert(0, (*shapes["tile"], True, True))
    kernels.insert(0, "tile_kernel")
    assert [launch[:5] for launch in products(cases)] == [(kernel, True, True, True, True) for kernel in kernels]


def test_compiles_where_sizes_are_1():
    """Triton makes a constant of an argument that is 1."""
    turned = {(3, 1, 18): True}
    sizes = [(1, 1, 1), (3, 1, 18), (1, 7, 1), (65, 66, 1), (1, 1, 512)]
    cases = [(*size, False, turned.get(size, False)) for size in sizes]
    tile, described = ("tile_kernel", True), ("described_kernel", True)
    assert [launch[:2] for launch in products(cases)] == [tile, tile, tile, described, tile]


@pytest.mark.parametrize("tiles", [module.TILES[:4], module.TILES[4:]])
def test_no_tile_spills(tiles):
    plans = [Plan("tile", False, *tile, 2, 8) for tile in tiles]
    expected = "tile_kernel", True, True, True, True, False  # a counter is stored, too
    assert products(plans=plans) == [expected] * len(tiles)


def test_streams_have_stored_before_they_count():
    plans = [Plan("streamed", False, m, n, k, warps, stages, 1, 5, more)
             for m, n, more, k, warps, stages in module.TILES_STREAMED]  # fmt: skip
    # Whether registers suffice is not asked: 192 columns spill some where the tiles are shared.
    assert [launch[2:] for launch in products(plans=plans)] == [(True, True, True, False)] * len(plans)


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", module.DTYPES)
@pytest.mark.parametrize("M, N, K", [
    (1, 4096, 4096), (16, 4088, 4088), (64, 4095, 4097), (4096, 16, 4096), (128, 128, 16384), (300, 1000, 2048),
    (512, 512, 512), (1000, 1000, 1000), (1536, 1536, 1536), (2049, 1023, 511), (2048, 2048, 2048),
])  # fmt: skip
def test_right_gpu(M, N, K, dtype):
    for layouts in (("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("shifted", "gaps")):
        check(M, N, K, "cuda", dtype, layouts)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", [*module.TILES, (64, 16, 128, 4, 6), (128, 8, 128, 4, 4)])
@pytest.mark.parametrize("parts", [1, 3])
def test_tiles_gpu(tile, parts):
    m, n, k, warps, stages = tile
    for M, N, K in ((300, 264, 1000), (256, 256, 1024)):
        for swapped in (False, True):
            found = tile_plan(M, N, K, (m, n, k), parts, swapped)._replace(num_warps=warps, num_stages=stages)
            for layouts in itertools.product(("rows", "columns"), repeat=2):
                check(M, N, K, "cuda", torch.bfloat16, layouts, found=found)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", module.TILES_DESCRIBED)
@pytest.mark.parametrize("parts", [1, 3])
def test_described_tiles_gpu(tile, parts):
    m, n, k, warps, stages = tile
    for M, N, K in ((304, 264, 1000), (256, 256, 1024)):
        found = tile_plan(M, N, K, (m, n, k), parts)._replace(kernel="described", num_warps=warps, num_stages=stages)
        for layouts in itertools.product(("rows", "columns"), repeat=2):
            check(M, N, K, "cuda", torch.bfloat16, layouts, found=found)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", module.TILES_STREAMED)
@pytest.mark.parametrize("programs, whole", [(5, 0), (132, 0), (4, 4), (3, None)])
def test_streamed_tiles_gpu(tile, programs, whole):
    m, n, more, k, warps, stages = tile
    for M, N, K in ((304, 504, 1000), (300, 513, 1024)):
        found = streamed_plan(M, N, K, (m, n, k), more, programs, whole)
        found = found._replace(num_warps=warps, num_stages=stages)
        for layouts in itertools.product(("rows", "columns"), repeat=2):
            check(M, N, K, "cuda", torch.bfloat16, layouts, found=found)


@pytest.mark.gpu
@pytest.mark.parametrize("precision, error", [("highest", 1e-6), ("high", 1e-3)])
def test_precision_gpu(precision, error):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        for M, N in ((1, 999), (16, 1000), (500, 600), (1024, 1024)):
            a, b = torch.randn(M, 2048, device="cuda"), torch.randn(2048, N, device="cuda")
            exact = a.double() @ b.double()
            for x in (b, LAYOUTS["columns"](b)):
                assert (matmul(a, x).double() - exact).norm() / exact.norm() < error
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(16, 1024, 8192), (128, 128, 65536), (2048, 2048, 2048), (768, 3072, 8192)])
def test_same_bits_in_every_run(M, N, K):
    a, b = torch.randn(M, K, device="cuda").bfloat16(), torch.randn(K, N, device="cuda").bfloat16()
    first = matmul(a, b)
    assert all(torch.equal(matmul(a, b), first) for _ in range(200))


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(16, 1024, 8192), (768, 3072, 8192)])
def test_streams_have_counters_of_their_own(M, N, K):
    a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
    expected, streams = matmul(a, b), [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    found = []
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(matmul(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(c, expected) for c in found)


def captured(a, b, times=3):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = [matmul(a, b) for _ in range(times)]
    return graph, c


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(16, 1024, 8192), (768, 3072, 8192), (2048, 2048, 2048)])
def test_in_graphs_at_the_same_time(M, N, K):
    """Two graphs, replayed on two streams, while the same runs outside of them."""
    a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
    expected = matmul(a, b)
    graphs, streams = [captured(a, b) for _ in range(2)], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(50):
        for (graph, found), stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                for c in found:
                    c.zero_()
                graph.replay()
        outside = matmul(a, b)
    torch.cuda.synchronize()
    assert all(torch.equal(c, expected) for _, found in graphs for c in (*found, outside))


@pytest.mark.gpu
def test_in_a_graph_is_one_kernel():
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    matmul(a, b)
    graph, _ = captured(a, b, times=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert names == ["tile_kernel"]


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_under_torch_compile_gpu(mode):
    a, b = torch.randn(16, 8192, device="cuda").half(), torch.randn(8192, 1024, device="cuda").half()
    torch.compiler.reset()
    fresh = torch.compile(lambda a, b: matmul(torch.relu(a), b) + 1, mode=mode)
    expected = matmul(torch.relu(a), b) + 1
    for _ in range(5):
        assert torch.equal(fresh(a, b), expected)


@pytest.mark.gpu
def test_on_another_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    for M in (16, 2048):
        a, b = torch.randn(M, 2048, device="cuda:1").half(), torch.randn(2048, 2048, device="cuda:1").half()
        exact = a.double() @ b.double()
        assert (matmul(a, b).double() - exact).norm() / exact.norm() < 1e-3


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    M, K = 2**17 + 8, 2**14 + 16
    a = torch.zeros(M, K, dtype=torch.float16, device="cuda")
    a[-1, -3:] = 1
    for N in (8, 128):
        b = torch.ones(K, N, dtype=torch.float16, device="cuda")
        c = matmul(a, b)
        assert c[-1].tolist() == [3.0] * N and not c[:-1].any()
        c = matmul(b.t(), a.t())
        assert c[:, -1].tolist() == [3.0] * N and not c[:, :-1].any()
    del a
    x = torch.ones(2**16, 16, dtype=torch.float16, device="cuda")  # 2**32 elements of a result
    c = matmul(x, x.t())
    assert c.shape == (2**16, 2**16) and c.eq(16).all()


def microseconds(call, rounds=9, calls=200):
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return min(times)


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.parametrize("M, N, K", [(1, 64, 256), (64, 64, 256), (128, 512, 512), (128, 128, 4096)])
def test_cost_on_the_host(M, N, K):
    """After the first call: at most 1.5 times the bare launch of what it picks, and 20 us up to 64 rows."""
    sides = parts_of(torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half())
    bare, whole = (microseconds(sides[name]) for name in ("bare launch", "our product"))
    assert whole <= 1.5 * bare and (M > 64 or whole <= 20), (whole, bare)


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
def test_compute_sanitizer_finds_nothing(tool):
    check_sanitized(SOURCE, tool=tool)
