# SPDX-License-Identifier: Apache-2.0
"""Every way to share a product out gives the same, in any order of the programs, and leaves the counters at zero."""

import contextlib
import itertools
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
from compiled import compiled
from guards import Guarded, check_inside, precisions_of_dots, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.matmul import split_k
from snippets.matmul.split_k import FINISH, PRECISIONS, Plan, matmul
from snippets.tools.testing import addresses_of

SOURCE = Path(split_k.__file__)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "gaps": lambda x: torch.full((x.shape[0] + 1, 2 * x.shape[1] + 3), 99.0).to(x)[:-1, 2:-1:2].copy_(x),
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
    turned = lambda x, y, z: set_grid_idx(builder.grid_dim[0] - 1 - x, y, z)
    with mock.patch.object(builder, "set_grid_idx", turned):
        yield


def check(M, N, K, plan, device="cpu", dtype=torch.float32, layouts=("rows", "rows"), turned=False, **options):
    a, b = whole_numbers(M, K, dtype=dtype, device=device), whole_numbers(K, N, dtype=dtype, device=device, seed=1)
    a, b = (LAYOUTS[layout](x) for layout, x in zip(layouts, (a, b), strict=True))
    made, counters = [], Guarded((500,), torch.int32, device, before=8, after=8, fill=0xFF)
    counters.tensor.zero_()

    def guarded(*shape, dtype, device):  # NaN, so that a piece that nobody stored shows
        made.append(Guarded(shape, dtype, device, before=64, after=512, fill=0xFF))
        return made[-1].tensor

    with contextlib.ExitStack() as stack:
        if turned:
            stack.enter_context(backwards())
        accesses = stack.enter_context(recorded_accesses()) if device == "cpu" else None
        stack.enter_context(mock.patch.object(torch, "empty", guarded))
        c = matmul(a, b, plan=plan, counters=counters.tensor, **options)
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


def steps_of(M, N, K, block_m, block_n, block_k):
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    return tiles, tiles * max(triton.cdiv(K, block_k), 1)


@settings(max_examples=10)
@given(
    st.integers(1, 40), st.integers(1, 70), st.integers(17, 150), st.floats(0, 1), st.sampled_from(FINISH[1:]),
    st.sampled_from([torch.float32, torch.float16]),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))), st.booleans(),
)  # fmt: skip
@example(33, 65, 100, 0.0, "last", torch.float32, ("rows", "rows"), False)  # one program does everything
@example(33, 65, 100, 1.0, "last", torch.float32, ("rows", "rows"), True)  # a program for each step
@example(33, 65, 128, 0.2, "second", torch.float32, ("columns", "gaps"), False)
def test_shared_out_cpu(M, N, K, share, finish, dtype, layouts, turned):
    _, steps = steps_of(M, N, K, 16, 32, 16)
    plan = Plan(16, 32, 16, 4, 2, 1 + round(share * (min(steps, 40) - 1)), finish)
    check(M, N, K, plan, "cpu", dtype, layouts, turned)


def test_one_step_cpu():
    for K in (0, 1, 16):
        check(33, 65, K, Plan(16, 32, 16, 4, 2, 9, "alone"))


@pytest.mark.parametrize("finish", FINISH)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("M, N, K, parts", [(33, 65, 70, 3), (5, 100, 64, 2)])
def test_split_k_cpu(M, N, K, parts, finish, turned):
    tiles, _ = steps_of(M, N, K, 16, 32, 32)
    check(M, N, K, Plan(16, 32, 32, 4, 2, tiles * (1 if finish == "alone" else parts), finish), turned=turned)
    tiles, _ = steps_of(M, N, K, 64, 16, 32)
    check(M, N, K, Plan(64, 16, 32, 4, 2, tiles * (1 if finish == "alone" else parts), finish), turned=turned)


@pytest.mark.parametrize("tiles, steps", [(2, 2), (3, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize("finish", FINISH[1:])
def test_any_number_of_programs(tiles, steps, finish):
    """Borders between programs fall before, on and after each border between tiles."""
    for programs in range(1, tiles * steps + 1):
        check(16, 16 * tiles, 16 * steps, Plan(16, 16, 16, 4, 2, programs, finish))


def test_pieces_are_added_in_the_order_of_k():
    """Each piece is a number that only this order adds up to this sum, in float32."""
    a = torch.zeros(16, 64)
    a[:, ::16] = torch.tensor([1e8, 3.0, -1e8, 1.0])  # 1e8 + 3 is 1e8 + 0 or 8
    b = torch.ones(64, 32)
    expected = ((torch.tensor(1e8) + 3) + -1e8) + 1
    for finish in FINISH[1:]:
        for turned in (False, True):
            with backwards() if turned else contextlib.nullcontext():
                c = matmul(a, b, plan=Plan(16, 32, 16, 4, 2, 4, finish))
            assert c.unique().tolist() == [expected.item()]


def test_every_step_is_done_once():
    """Programs share the steps evenly: none has two more than another."""
    M, N, K = 20, 40, 100
    tiles, steps = steps_of(M, N, K, 16, 32, 16)
    for programs in (1, 3, tiles, 9, steps):
        a, b = torch.ones(M, K), torch.ones(K, N)
        with recorded_accesses() as accesses:
            matmul(a, b, plan=Plan(16, 32, 16, 4, 2, programs, "second"))
        inside = addresses_of(a)
        loads = [at for op, at in accesses if op == "load" and np.isin(at[:1], inside)[0]]
        assert len(loads) == steps


def test_the_bars_of_the_lesson():
    """The page draws who has which steps of two tiles of six: each step is a box, in its program's color."""
    page = (SOURCE.parents[2] / "docs/en/matmul/split-k.md").read_text("utf-8")
    rows = re.findall(r"<strong>(\d+) programs</strong>.*?>((?:<i style=.*?</i>)+)</span>", page)
    assert [int(programs) for programs, _ in rows] == [2, 4, 5]
    for programs, bars in rows:
        a, b = torch.ones(16, 96), torch.ones(96, 64)
        with recorded_accesses() as accesses:  # a is loaded in each step; the place of b tells the tile
            plan = Plan(16, 32, 16, 4, 2, int(programs), "alone" if programs == "2" else "second")
            with mock.patch.object(split_k, "finish_kernel", mock.MagicMock()):
                matmul(a, b, plan=plan)
        inside, pieces, steps = addresses_of(a), [], 0
        for op, at in accesses:
            if op == "load":
                steps += np.isin(at[:1], inside)[0]
            else:
                pieces, steps = [*pieces, steps], 0
        boxes = [int(pid) for pid in re.findall(r"pid-(\d)", bars)]
        drawn = [list(run) for tile in (boxes[:6], boxes[6:]) for _, run in itertools.groupby(tile)]
        assert [len(piece) for piece in drawn] == pieces
        assert boxes == sorted(boxes) and {*boxes} == {*range(int(programs))}
        assert re.findall(r">(\d)</i>", bars) == [*map(str, range(int(programs)))], "each number once"


def test_offsets_are_computed_in_64_bits():
    x, far = torch.zeros(4), 2**30
    names = ("am", "ak", "bk", "bn", "cm", "cn")

    def touched(**strides):
        given = [strides.get(name, 1) for name in names]
        with recorded_accesses(memory=False) as seen:
            split_k.matmul_kernel[(1,)](
                x, x, x, x, x, 16, 16, 32, *given,
                FINISH="alone", K_EVEN=True, PRECISION="ieee", BLOCK_M=16, BLOCK_N=16, BLOCK_K=16,
            )  # fmt: skip
        return {
            op: max(int(np.abs(at - x.data_ptr()).max()) // 4 for o, at in seen if o == op) for op in ("load", "store")
        }

    for name in ("am", "bn"):
        assert touched(**{name: far})["load"] in range(15 * far, 15 * far + 32)
    for name in ("ak", "bk"):
        assert touched(**{name: far})["load"] in range(31 * far, 31 * far + 32)
    for name in ("cm", "cn"):
        assert touched(**{name: far})["store"] in range(15 * far, 15 * far + 32)


def test_far_pieces_are_in_64_bits():
    """2**22 tiles of 2**10 steps, 4 of them for each program; a program that has none of a tile's first steps."""
    from triton.runtime.interpreter import interpreter_builder as builder

    x, pid = torch.zeros(4), 2**21 + 1
    set_grid_dim = builder.set_grid_dim
    many = lambda *_: set_grid_dim(2**30, 1, 1)
    with (
        mock.patch.object(builder, "set_grid_dim", many),
        recorded_accesses(first_program=(pid, 0, 0), memory=False) as seen,
    ):
        split_k.matmul_kernel[(1,)](
            x, x, x, x, x, 16, 2**27, 2**14, 2**14, 1, 2**27, 1, 2**27, 1,
            FINISH="second", K_EVEN=True, PRECISION="ieee", BLOCK_M=16, BLOCK_N=32, BLOCK_K=16,
        )  # fmt: skip
    offsets = [(op, int(at[0] - x.data_ptr()) // 4) for op, at in seen]
    assert len(offsets) == 2 * 4 + 1 and offsets[:2] == [("load", 64), ("load", 64 * 2**27 + 2**18)]
    assert offsets[-1] == ("store", 2 * pid * 512)


def test_far_sums_are_in_64_bits():
    """The last tiles of 2**22, of 2**10 steps each, by two programs a tile and a few more."""
    tiles, steps, programs = 2**22, 2**10, 2**23 + 2**12
    total, x = tiles * steps, torch.zeros(4)
    for tile in (tiles - 700, tiles - 1):
        with recorded_accesses(first_program=(tile, 0, 0), memory=False) as seen:
            split_k.finish_kernel[(1,)](
                x, x, 16, 16 * tiles, 16 * steps, 1, 1, programs, ROWS=16, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16
            )
        first = ((tile * steps + 1) * programs - 1) // total
        last = ((tile + 1) * steps * programs - 1) // total
        pieces = [2 * first + 1, *(2 * program for program in range(first + 1, last + 1))]
        offsets = [int(at[0] - x.data_ptr()) // 4 for _, at in seen]
        assert offsets == [*(piece * 256 for piece in pieces), 16 * tile] and offsets[0] > 2**31


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        assert matmul(torch.ones(M, K, device=device), torch.ones(K, N, device=device)).shape == (M, N)
    assert matmul(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device)).tolist() == [[0, 0]] * 3


@given(
    st.tuples(*[st.integers(1, 20000)] * 3), st.sampled_from([2, 4]), st.booleans(),
    st.sampled_from([232_448, 166_912, 101_376, 49_152]), st.integers(1, 200),
)  # fmt: skip
@example((1, 1, 1), 2, False, 232_448, 132)
@example((4, 4, 40_000), 2, False, 232_448, 132)
def test_plans_can_be_served(sizes, size, by_hand, shared, multiprocessors):
    more = {"shared": shared, "multiprocessors": multiprocessors}
    plan = split_k.split(*sizes, size=size, by_hand=by_hand and size == 4, **more)
    tiles, steps = steps_of(*sizes, *plan[:3])
    split_k.check_plan(plan, tiles, steps)
    assert plan.num_stages * (plan.block_m + plan.block_n) * plan.block_k * size <= shared
    assert plan.block_k >= 16 and plan.num_stages >= 2
    assert plan.programs <= max(tiles, multiprocessors) and plan.programs % tiles == 0


def test_splits_where_it_measured_best():
    """On an H200, of all plans for each shape, operands in rotation."""
    alone = lambda *sizes: split_k.split(*sizes).finish == "alone"
    assert [alone(512, 512, K) for K in (1024, 2048, 8192, 16384)] == [True, True, False, False]
    assert [alone(M, 4096, 4096) for M in (1, 16, 64, 128)] == [False, False, True, True]
    assert alone(1536, 1536, 1536)


def test_chosen_plan_cpu():
    a, b = (whole_numbers(*s, dtype=torch.float16, device="cpu") for s in ((20, 600), (600, 33)))
    assert torch.equal(matmul(a, b).double(), a.double() @ b.double())
    assert not any(kept.any() for kept in split_k.KEPT.values())


KEY = torch.device("cpu"), 0


def test_kept_counters_suffice():
    """The counters that are kept serve all who need no more of them; who needs more gets new ones, zeros as well."""
    with mock.patch.dict(split_k.KEPT, clear=True):
        first = split_k.kept_counters(KEY[0], 3)
        assert first.dtype == torch.int32 and not first.any() and len(first) == 4096 and list(split_k.KEPT) == [KEY]
        assert split_k.kept_counters(KEY[0], 4096) is first
        more = split_k.kept_counters(KEY[0], 4097)
        assert len(more) == 4097 and more.dtype == torch.int32 and not more.any()
        assert split_k.kept_counters(KEY[0], 3) is more


def test_a_graph_has_counters_of_its_own():
    """As on a GPU, but without one: a stream keeps its counters, a graph gets new ones each time."""
    device, stream = torch.device("cuda", 0), mock.Mock(cuda_stream=7)
    for capturing, asked in ((True, [5, 5]), (False, [4096])):
        with (
            mock.patch.dict(split_k.KEPT, clear=True),
            mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=capturing),
            mock.patch.object(torch.cuda, "current_stream", return_value=stream),
            mock.patch.object(torch, "zeros", return_value=range(4096)) as zeros,
        ):
            split_k.kept_counters(device, 5), split_k.kept_counters(device, 5)
            assert zeros.call_args_list == [mock.call(n, dtype=torch.int32, device=device) for n in asked]
            assert list(split_k.KEPT) == ([] if capturing else [(device, 7)])


def test_a_larger_product_after_a_smaller_one():
    """Of the counters of the smaller one there are too few; around them lie guard zones, where more would be."""
    kept = Guarded((4,), torch.int32, "cpu", before=8, after=64, fill=0xFF)
    kept.tensor.zero_()
    with mock.patch.dict(split_k.KEPT, {KEY: kept.tensor}, clear=True):
        for tiles in (4, 6, 4):
            a, b = whole_numbers(16, 64, dtype=torch.float32, device="cpu"), torch.ones(64, 32 * tiles)
            assert torch.equal(matmul(a, b, plan=Plan(16, 32, 16, 4, 2, 4 * tiles, "last")), a @ b)
            kept.check("the counters")
            assert not split_k.KEPT[KEY].any() and len(split_k.KEPT[KEY]) >= tiles


@pytest.mark.parametrize("given, meant", [({}, "IEEE"), *(({"input_precision": p}, p.upper()) for p in PRECISIONS)])
def test_the_precision_reaches_the_product(given, meant):
    with precisions_of_dots() as seen:
        matmul(torch.ones(16, 32), torch.ones(32, 16), plan=Plan(16, 16, 16, 4, 2, 1, "alone"), **given)
    assert {name.upper() for name in seen} == {meant}


def test_compiles_where_sizes_are_1():
    """Triton makes a constant of an argument that is 1, and constants have no methods."""
    code = """
from snippets.matmul import autotuned
x, blocks = torch.zeros(64, dtype=torch.float16), {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}
for sizes in ((1, 1, 1), (1, 1, 18), (5, 7, 18)):
    strides = [1] * 6
    options = {"K_EVEN": False, "PRECISION": "ieee", **blocks}
    autotuned.matmul_kernel[(1,)](x, x, x, *sizes, *strides, 1, GROUP_M=8, **options)
    for finish in module.FINISH[: 1 if sizes[2] == 1 else 3]:
        module.matmul_kernel[(1,)](x, x, x, x.float(), x.int(), *sizes, *strides, FINISH=finish, **options)
    if sizes[2] > 1:
        module.finish_kernel[(1,)](x, x.float(), *sizes, 1, 1, 1, ROWS=4, **blocks)
"""
    assert len(compiled("matmul/split_k", code)) == 12


PLAN = Plan(16, 32, 16, 4, 2, 2, "last")


@pytest.mark.parametrize(
    "a, b, options, fragment",
    [
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(block_m=24)}, "(24, 32, 16)"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(block_k=8)}, "block_k must be from 16"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(num_warps=3)}, "num_warps a power of two"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(num_stages=0)}, "num_stages from 1"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(finish="first")}, "got 'first'"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(finish="alone")}, "a program for each tile: 1"),
        (torch.ones(2, 9), torch.ones(9, 2), {"plan": PLAN._replace(programs=1)}, "a tile of one step has no pieces"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(programs=3)}, "1 to 2 programs"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN._replace(programs=0)}, "got 0"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN, "counters": torch.zeros(9)}, "torch.float32"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN, "counters": torch.zeros(0).int()}, "1, one for each"),
        (torch.ones(2, 30), torch.ones(30, 2), {"plan": PLAN, "counters": torch.zeros(9).int()[::2]}, "strides (2,)"),
    ],
)
def test_refuses(a, b, options, fragment):
    with pytest.raises(ValueError) as error:
        matmul(a, b, **options)
    assert fragment in str(error.value)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        a = torch.ones(2, 2, device=device, requires_grad=True)
        assert matmul(a, torch.ones(2, 2, device=device)).eq(2).all()


def test_tf32x3_is_refused_on_amd():
    assert matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="tf32x3").eq(2).all()
    with mock.patch.object(torch.version, "hip", "6.0"):
        with pytest.raises(ValueError, match="no tf32x3"):
            matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="tf32x3")
        assert matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="ieee").eq(2).all()


def test_what_it_asks_for():
    """The plan is chosen for the product, and by whether float32 is multiplied by hand; buffers have their dtypes."""
    a, b, half = torch.ones(20, 60), torch.ones(60, 40), torch.float16
    plan, given = Plan(16, 32, 16, 4, 2, 8, "second"), {"device": a.device}
    with (
        mock.patch.object(split_k, "chosen", return_value=plan) as chosen,
        mock.patch.object(torch, "empty", wraps=torch.empty) as empty,
    ):
        matmul(a, b), matmul(a, b, input_precision="tf32"), matmul(a.half(), b.half())
    sizes = 20, 40, 60, a.device
    by_hand = [mock.call(*sizes, 4, True), mock.call(*sizes, 4, False), mock.call(*sizes, 2, False)]
    assert chosen.call_args_list == by_hand
    partial = mock.call(2 * 8 * 16 * 32, dtype=torch.float32, **given)
    results = [mock.call(20, 40, dtype=dtype, **given) for dtype in (torch.float32, torch.float32, half)]
    assert empty.call_args_list == [call for result in results for call in (result, partial)]


@pytest.mark.parametrize("finish", FINISH)
def test_what_it_launches(finish):
    a, b = torch.ones(20, 64), torch.ones(64, 40)
    plan = Plan(16, 32, 64 if finish == "alone" else 16, 8, 3, 4 if finish == "alone" else 8, finish)
    launched = []

    def kernel(name):
        sound = getattr(split_k, name)

        class Kernel:
            def __getitem__(self, grid):
                return lambda *arguments, **options: (
                    launched.append((name, grid, options)), sound[grid](*arguments, **options)
                )  # fmt: skip

        return mock.patch.object(split_k, name, Kernel())

    with kernel("matmul_kernel"), kernel("finish_kernel"):
        assert matmul(a, b, plan=plan).eq(64).all()
    blocks = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": plan.block_k}
    options = {"FINISH": finish, "K_EVEN": True, "PRECISION": "ieee", **blocks, "num_warps": 8, "num_stages": 3}
    second = ("finish_kernel", (4,), {"ROWS": 16, **blocks, "num_warps": 4})
    assert launched == [("matmul_kernel", (plan.programs,), options), *([second] if finish == "second" else [])]


@pytest.mark.parametrize("finish", FINISH)
def test_the_ends_of_a_plan(finish):
    """What is just allowed, and what just is not."""
    good = Plan(1, 1, 16, 1, 1, 3 if finish == "alone" else 1, finish)
    for plan in (good, good._replace(num_warps=32), good._replace(block_m=2**10, block_n=2**10, block_k=2**10)):
        split_k.check_plan(plan, 3, 6)
    if finish != "alone":
        split_k.check_plan(good._replace(programs=6), 3, 6)
    for more in ({"programs": 7}, {"num_warps": 64}, {"block_k": 8}, {"block_m": 0}, {"block_n": 2.0}):
        with pytest.raises(ValueError, match=r"got"):
            split_k.check_plan(good._replace(**more), 3, 6)


def test_asks_for_counters_where_it_launches():
    """Whether a graph is being captured is asked of the current device, so that must be the one of ``a``."""
    current, asked = [], []

    @contextlib.contextmanager
    def device_of(x):
        current.append(x)
        yield
        current.pop()

    def kept_counters(device, tiles):
        asked.append(current[-1] if current else None)
        return torch.zeros(1, dtype=torch.int32)

    a, b = torch.ones(2, 30), torch.ones(30, 2)
    counters = mock.patch.object(split_k, "kept_counters", kept_counters)
    with mock.patch.object(torch.cuda, "device_of", device_of), counters:
        assert matmul(a, b, plan=PLAN).eq(30).all()
    assert len(asked) == 1 and asked[0] is a


# On a GPU the programs of a tile really come in any order.


@pytest.mark.gpu
@pytest.mark.parametrize("finish", FINISH)
@pytest.mark.parametrize(
    "tile, dtype",
    [(tile, torch.float16) for tile in split_k.TILES]
    + [(split_k.TILES[1], dtype) for dtype in (torch.bfloat16, torch.float32)],
)
def test_plans_gpu(tile, dtype, finish):
    block_m, block_n, block_k, warps, stages = tile
    if dtype == torch.float32:
        block_k //= 2
    precision = "tf32" if dtype == torch.float32 else "ieee"
    for M, N, K in ((300, 270, 1000), (256, 256, 1024)):
        tiles, steps = steps_of(M, N, K, block_m, block_n, block_k)
        for programs in {tiles} if finish == "alone" else {tiles * 2, min(132, steps), min(steps, 3 * tiles + 1)}:
            if programs <= steps:
                plan = Plan(block_m, block_n, block_k, warps, stages, programs, finish)
                check(M, N, K, plan, "cuda", dtype, input_precision=precision)


@pytest.mark.gpu
@pytest.mark.parametrize("finish", FINISH[1:])
def test_same_bits_in_every_run(finish):
    a, b = torch.randn(2, 512, 512, device="cuda").half()
    plan = Plan(64, 64, 64, 4, 4, 320, finish)
    first = matmul(a, b, plan=plan)
    assert all(torch.equal(matmul(a, b, plan=plan), first) for _ in range(300))
    exact = a.double() @ b.double()
    assert (first.double() - exact).norm() / exact.norm() < torch.finfo(torch.float16).eps


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(512, 512, 512), (512, 512, 16384), (16, 4096, 4096), (1, 999, 4096)])
@pytest.mark.parametrize("dtype", split_k.DTYPES)
def test_chosen_gpu(M, N, K, dtype):
    a, b = torch.randn(M, K, device="cuda").to(dtype), torch.randn(K, N, device="cuda").to(dtype)
    exact = a.double() @ b.double()
    error = (matmul(a, b).double() - exact).norm() / exact.norm()
    assert error < (1e-5 if dtype == torch.float32 else torch.finfo(dtype).eps)


@pytest.mark.gpu
def test_streams_have_counters_of_their_own():
    a, b = torch.randn(2, 512, 512, device="cuda").half()
    plan = Plan(64, 64, 64, 4, 4, 128, "last")
    expected, streams = matmul(a, b, plan=plan), [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    found = []
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(matmul(a, b, plan=plan))
    torch.cuda.synchronize()
    assert all(torch.equal(c, expected) for c in found)


@pytest.mark.gpu
@pytest.mark.parametrize("own", [False, True])
def test_in_a_graph(own):
    a, b = torch.randn(2, 512, 512, device="cuda").half()
    plan = Plan(64, 64, 64, 4, 4, 128, "last")
    counters = torch.zeros(64, dtype=torch.int32, device="cuda") if own else None
    expected = matmul(a, b, plan=plan)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = matmul(a, b, plan=plan, counters=counters)
    for _ in range(3):
        c.zero_()
        graph.replay()
        assert torch.equal(c, expected)
