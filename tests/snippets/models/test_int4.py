# SPDX-License-Identifier: Apache-2.0
"""Packed numbers come back, and products of them are right: any rows, groups, parts of K, and order of the programs."""

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
from guards import Guarded, check_inside, promises_kept, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sanitizer import CLEAN, check_sanitized

from snippets.models import int4 as module
from snippets.models.int4 import Packed, Plan, int4_matmul, pack, plan, quantize, steps, unpacked
from snippets.tools.testing import addresses_of

SOURCE = Path(module.__file__)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "wider": lambda x: torch.full((len(x), x.shape[1] + 3), 99.0).to(x)[:, :-3].copy_(x),
    "further": lambda x: torch.full((len(x), x.shape[1] + 136), 99.0).to(x)[:, :-136].copy_(x),
    "later": lambda x: torch.full((x.numel() + 1,), 99.0).to(x)[1:].view(x.shape).copy_(x),
}
GROUPS = [(4, 32), (4, 64), (4, 128), (4, 256), (4, 1152), (8, 32), (8, 64), (8, 128), (8, 384)]


def drawn(N, K, bits=4, group=128, device="cpu", seed=0):
    """A packed weight and its numbers in float64: small, so that every sum of products is exact."""
    random = torch.Generator().manual_seed(seed)
    groups = -(-K // group)
    q = torch.randint(0, 2**bits, (N, K), generator=random)
    scale = torch.tensor([0.25, -0.5, 1.0])[torch.randint(3, (N, groups), generator=random)]
    zero = torch.randint(0, 2**bits, (N, groups), generator=random)
    far = lambda x: x.repeat_interleave(group, 1)[:, :K]
    exact = far(scale).double() * (q - far(zero)).double()
    packed = pack(*(x.to(device) for x in (q, scale, zero)), bits=bits, group=group)
    return packed, exact.to(device)


def rows_of(M, K, dtype=torch.float16, device="cpu"):
    return torch.randint(-1, 2, (M, K), generator=torch.Generator().manual_seed(1)).to(device, dtype)


@contextlib.contextmanager
def backwards():
    """In the interpreter: run the last program first, so that another one comes last to each tile."""
    from triton.runtime.interpreter import interpreter_builder as builder

    set_grid_idx = builder.set_grid_idx
    turned = lambda *at: set_grid_idx(*(size - 1 - i for size, i in zip(builder.grid_dim, at, strict=True)))
    with mock.patch.object(builder, "set_grid_idx", turned):
        yield


def planned(M, N, rows, block_n, parts):
    found = Plan(rows, block_n, 4, 3, -(-N // block_n), -(-M // rows), parts)
    return mock.patch.object(module, "planned", lambda *_: found)


@contextlib.contextmanager
def watched_copies():
    """Yield a list that gets the copies that are made of ``x``."""
    made, padded = [], module.padded
    with mock.patch.object(module, "padded", lambda x, columns: made.append(padded(x, columns)) or made[-1]):
        yield made


def check(M, N, K, bits=4, group=128, device="cpu", dtype=torch.float16, layout="rows", turned=False, **given):
    """Compare with float64; ``given``: rows, block_n and parts, if they are not to be chosen."""
    weight, exact = drawn(N, K, bits, group, device)
    x = LAYOUTS[layout](rows_of(M, K, dtype, device))
    made, counters = [], Guarded((500,), torch.int32, device, before=8, after=8, fill=0xFF)
    counters.tensor.zero_()

    def guarded(*shape, dtype, device):  # NaN, so that a piece that nobody stored shows
        made.append(Guarded(shape, dtype, device, before=64, after=512, fill=0xFF))
        return made[-1].tensor

    with contextlib.ExitStack() as stack:
        if given:
            stack.enter_context(planned(M, N, **given))
        if turned:
            stack.enter_context(backwards())
        accesses = None
        if device == "cpu":
            stack.enter_context(promises_kept())
            accesses = stack.enter_context(recorded_accesses())
        stack.enter_context(mock.patch.object(torch, "empty", guarded))
        stack.enter_context(mock.patch.object(module, "counters", lambda device, tiles: counters.tensor))
        copied = stack.enter_context(watched_copies())
        y = int4_matmul(x, weight)
    for buffer, name in zip((*made, counters), ("y", "partial", "counters"), strict=False):
        buffer.check(name)
    assert y is made[0].tensor and y.shape == (M, N)
    assert torch.equal(y, (x.double() @ exact.t()).to(dtype))
    assert not counters.tensor.any()
    if accesses is not None:
        scratch = {f"scratch{i}": buffer.tensor for i, buffer in enumerate((*made[1:], counters))}
        check_inside(accesses, "load", x=(*copied, x)[0], words=weight.words, scales=weight.scales, **scratch)
        stored = check_inside(accesses, "store", y=y, **scratch)
        assert sorted(stored[np.isin(stored, addresses_of(y))]) == sorted(addresses_of(y))  # each once


# Packing


@settings(max_examples=30)
@given(st.integers(0, 5), st.integers(0, 400), st.sampled_from(GROUPS), st.integers(0, 9))
@example(3, 1153, (4, 1152), 0)
def test_what_is_packed_comes_back(n, k, kind, seed):
    weight, exact = drawn(n, k, *kind, seed=seed)
    assert torch.equal(unpacked(weight).double(), exact)
    (bits, group), block = kind, min(kind[1], 128)
    assert weight.words.shape == (-(-k // block), n, block * bits // 16) and weight.words.is_contiguous()
    assert weight.scales.shape == (-(-k // group), n) and weight.scales.is_contiguous()
    assert weight[2:] == (n, k, *kind)


def test_where_a_number_lies():
    """Part p of word j is number 32 * p + j of its block; what fills up the last block is 0."""
    q = torch.arange(2 * 200).view(2, 200) * 7 % 16
    words = pack(q, torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.int32)).words.int() & 0xFFFF
    for n, block, j, p in ((0, 0, 0, 0), (1, 0, 31, 3), (0, 0, 5, 2), (1, 1, 7, 1)):
        assert words[block, n, j] >> 4 * p & 15 == q[n, 128 * block + 32 * p + j]
    assert not (words[1, :, 8:] >> 8).any()


def test_a_float16_keeps_its_bits():
    scale = torch.tensor([[6.1035e-05, 1.0009765625, -0.333251953125, 65504.0]]).half()
    weight = pack(torch.ones(1, 512).int(), scale, torch.zeros(1, 4).int())
    assert torch.equal(unpacked(weight)[0, ::128], scale[0].float())


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 300), st.sampled_from(GROUPS), st.integers(0, 9))
def test_rounds_to_the_nearest(n, k, kind, seed):
    bits, group = kind
    x = torch.randn(n, k, generator=torch.Generator().manual_seed(seed)) * torch.logspace(-3, 3, n)[:, None]
    weight = quantize(x, bits=bits, group=group)
    scale = (weight.scales & ~0xFF).view(torch.float32).t().repeat_interleave(group, 1)[:, :k]
    error = (unpacked(weight) - x).abs() / scale
    # The scale is rounded to bfloat16, and so the ends of the range move by up to 255 / 512, and the zero is rounded.
    assert error.max() < (0.55 if bits == 4 else 1.05)


def test_zeros_stay_zeros():
    x = torch.tensor([[0.0, 1.0, 3.0], [0.0, -1.0, -2.0], [0.0, 0.0, 0.0]])
    assert unpacked(quantize(x))[:, 0].tolist() == [0, 0, 0] and not unpacked(quantize(x))[2].any()
    assert unpacked(quantize(torch.tensor([[-4.0, 0.6, 2.0, 3.5]]))).tolist() == [[-4.0, 0.5, 2.0, 3.5]]


ONES = torch.ones(2, 1)
REFUSED = [
    ({"bits": 3}, "bits is 3; use 4 or 8"),
    ({"group": 96}, "group is 96; use 32, 64 or a multiple of 128"),
    ({"group": 16}, "group is 16"),
    ({"group": 0}, "group is 0"),
    ({"group": 128.0}, "group is 128.0"),
    ({"q": torch.ones(4).int()}, r"q must be \(n, k\)"),
    ({"q": torch.ones(1, 1).int().expand(2, 2**28)}, r"both below 2\*\*28"),
    ({"q": torch.ones(2, 129).int()}, r"must be \(2, 2\), and on cpu; got \(2, 1\)"),
    ({"scale": torch.ones(1, 1)}, r"got \(1, 1\) on cpu"),
    ({"zero": torch.ones(2, 2).int()}, r"and \(2, 2\) on cpu"),
    ({"scale": ONES.to("meta")}, "on meta"),
    ({"zero": ONES.int().to("meta")}, "on meta"),
    ({"q": torch.ones(2, 4)}, "q has dtype torch.float32; use whole numbers"),
    ({"zero": ONES.bool()}, "zero has dtype torch.bool"),
    ({"q": torch.full((2, 4), 16)}, "q must be from 0 to 15; got 16 to 16"),
    ({"zero": torch.tensor([[0], [-1]])}, "zero must be from 0 to 15; got -1 to 0"),
]


@pytest.mark.parametrize("changes, words", REFUSED)
def test_refuses_to_pack(changes, words):
    given = {"q": torch.ones(2, 4).int(), "scale": ONES, "zero": ONES.int()} | changes
    with pytest.raises(ValueError, match=words):
        pack(**given)


# Products


@settings(max_examples=25)
@given(
    st.integers(1, 40), st.integers(1, 70), st.integers(1, 700), st.integers(1, 4), st.sampled_from(GROUPS),
    st.sampled_from(list(LAYOUTS)), st.booleans(),
)  # fmt: skip
@example(1, 33, 384, 3, (4, 128), "rows", False)
@example(9, 40, 512, 2, (4, 32), "further", True)
@example(17, 16, 256, 2, (8, 64), "columns", False)
@example(2, 1, 1, 1, (4, 64), "later", False)
@example(3, 65, 640, 1, (4, 256), "wider", True)
def test_shapes_and_groups_cpu(M, N, K, parts, kind, layout, turned):
    parts = min(parts, -(-K // 128))
    check(M, N, K, *kind, layout=layout, turned=turned, rows=16, block_n=32, parts=parts)


@settings(max_examples=8)
@given(st.integers(1, 140), st.integers(1, 150), st.integers(1, 600), st.sampled_from(GROUPS))
@example(129, 130, 256, (4, 128))
def test_as_it_plans_cpu(M, N, K, kind):
    check(M, N, K, *kind)


def test_parts_are_added_in_the_order_of_k():
    """Each part is a number that only this order adds up to this sum, in float32."""
    x = torch.zeros(3, 512).half()
    x[:, ::128] = torch.tensor([1.0, 2.0, -1.0, 1.0]).half()
    scale = torch.tensor([[2.0**24, 0.5, 2.0**24, 0.25]])
    weight = pack(torch.ones(32, 512).int(), scale.expand(32, 4), torch.zeros(32, 4).int())
    for order in (contextlib.nullcontext(), backwards()):
        with planned(3, 32, 8, 32, 4), order:
            assert int4_matmul(x, weight).unique().tolist() == [0.25]


def test_steps_are_shared_evenly():
    """The parts of a tile share its blocks: each is read once, and none has two more than another."""
    weight, exact = drawn(32, 1280)
    x = rows_of(2, 1280)
    for parts in (1, 3, 4, 10):
        with planned(2, 32, 8, 32, parts), recorded_accesses() as accesses:
            assert torch.equal(int4_matmul(x, weight), (x.double() @ exact.t()).half())
        inside, blocks, each = addresses_of(weight.words), 0, []
        for op, at in accesses:
            blocks += op == "load" and np.isin(at[:1], inside)[0]
            if op == "store" and len(at) > 1 and blocks:
                each, blocks = [*each, blocks], 0
        assert sum(each) == 10 and len(each) == parts and max(each) - min(each) <= 1


@contextlib.contextmanager
def with_assembly():
    """In the interpreter, which has no PTX: do what the instructions of ``unpack_pairs`` do."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_core

    def numbers(bits, kind):
        if kind == "f16x2":
            return bits.astype(np.uint16).view(np.float16).astype(np.float32)
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def bits(numbers, kind):
        if kind == "f16x2":
            assert np.array_equal(numbers.astype(np.float16), numbers)
            return numbers.astype(np.float16).view(np.uint16)
        assert not (numbers.view(np.uint32) & 0xFFFF).any(), "not a bfloat16"
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)

    def run(asm, constraints, args, dtype, is_pure, pack):
        outputs = len(dtype)
        assert constraints == ",".join(["=&r"] * outputs + ["r"] * len(args)) and is_pure and pack == 2
        assert {*dtype} == {tl.int16}
        words = np.broadcast_arrays(*(each.handle.data for each in args))
        halves = [each.astype(np.int16).view(np.uint16).astype(np.uint32) for each in words]
        held = {f"${outputs + i}": each[..., ::2] | each[..., 1::2] << 16 for i, each in enumerate(halves)}
        value = lambda name: held[name] if name in held else np.uint32(int(name, 0))
        for name, to, operands in re.findall(r"^\s*(\w+\.[\w.]+) (\S+), (.+);$", asm, re.M):
            known = [value(each) for each in operands.split(", ")]
            if name == "mov.b32":
                held[to] = known[0]
            elif name == "shr.u32":
                held[to] = known[0] >> known[1]
            elif name == "and.b32":
                held[to] = known[0] & known[1]
            else:
                kind = name.removeprefix("fma.rn.")
                each = [[numbers(part >> 16 * half & 0xFFFF, kind) for part in known] for half in (0, 1)]
                held[to] = [bits(a * b + c, kind) for a, b, c in each]
        found = []
        for i in range(outputs):
            pairs = np.stack(held[f"${i}"], -1).reshape(words[0].shape).view(np.int16)
            handle = interpreter.TensorHandle(pairs, tl.int16)
            found.append(tl.core.tensor(handle, tl.block_type(tl.int16, pairs.shape)))
        return tuple(found)

    def patched(lang, scope):
        patch(lang, scope)
        scope.set_attr(lang, "inline_asm_elementwise", run)

    with mock.patch.object(interpreter, "_patch_lang_core", patched):
        yield


@pytest.mark.parametrize("bits, group", [(4, 128), (4, 32), (8, 64)])
def test_pairs_multiply_alike(bits, group):
    weight, exact = drawn(40, 384, bits, group)
    x = rows_of(3, 384)
    with with_assembly(), promises_kept():
        found = module.product(x, weight, pairs=True)
    assert torch.equal(found, (x.double() @ exact.t()).half())
    assert torch.equal(found, module.product(x, weight, pairs=False))


@triton.jit
def pairs_kernel(words_ptr, less_ptr, out_ptr, BITS: tl.constexpr, HALF: tl.constexpr):
    at = tl.arange(0, 2)[:, None] * 32 + tl.arange(0, 32)[None, :]
    less = tl.load(less_ptr + tl.arange(0, 2))[:, None]
    pairs = module.unpack_pairs(tl.load(words_ptr + at), less, BITS, HALF)
    for part in tl.static_range(16 // BITS):
        tl.store(out_ptr + part * 64 + at, pairs[part])


@pytest.mark.parametrize("dtype", module.DTYPES)
@pytest.mark.parametrize("bits", [4, 8])
def test_pairs_are_exact(dtype, bits, device):
    """Each number less each zero, in either half of a register."""
    parts, unit = 16 // bits, 512 if dtype == torch.float16 else 64
    q = torch.randint(2**bits, (parts, 2, 32), generator=torch.Generator().manual_seed(bits), dtype=torch.int32)
    q[0] = torch.arange(64).view(2, 32) * (1 if bits == 4 else 4) % 2**bits
    words = sum(q[part] << part * bits for part in range(parts)).short().to(device)
    for zero in range(0, 2**bits, 1 if bits == 4 else 51):
        zeros = torch.tensor([zero, (zero + 1) % 2**bits])
        less = (-zeros / unit).to(dtype).view(torch.int16).to(device)
        out = torch.empty(parts, 2, 32, dtype=torch.int16, device=device)
        with with_assembly() if device == "cpu" else contextlib.nullcontext():
            pairs_kernel[(1,)](words, less, out, bits, dtype == torch.float16)
        assert torch.equal(out.cpu().view(dtype).double() * unit, (q - zeros[:, None]).double())


def test_the_steps_of_the_page():
    assert steps(0x7C39, 0xE185, zero=8) == [
        ("e1857c39", "00050009", "1 -3"),
        ("e1857c39", "00800030", "-5 0"),
        ("00e1857c", "0001000c", "4 -7"),
        ("00e1857c", "00e00070", "-1 6"),
    ]


# Far away

SAME = {"BITS": 4, "GROUP": 128, "PAIRS": False, "ROWS": 16, "BLOCK_N": 16, "BLOCK": 128}


def reaches(op, program, M, N, stride_x, row_tiles, parts, each, more=0, count=None, **options):
    """Of one program, in bytes: the least and the largest offset of each access; all of its tensors begin alike."""
    base = torch.zeros(4)
    half, words, whole = (base.view(dtype) for dtype in (torch.float16, torch.int16, torch.int32))
    given = half, words, whole, half, base, whole if count is None else count
    with recorded_accesses(first_program=program, memory=False) as seen:
        numbers = M, N, stride_x, row_tiles, parts, each, more
        module.int4_kernel[(1,)](*given, *numbers, **SAME | {"SPLIT": False} | options)
    return [(int(at.min() - base.data_ptr()), int(at.max() - base.data_ptr())) for kind, at in seen if kind == op]


def test_far_tiles():
    """The way to a block, to a tile, to a group and to a row is computed in 64 bits."""
    N, block, tile, row_tiles, stride = 2**24, 2**10, 2**20 - 3, 2**4, 2**28
    given = (tile, block, 0), 2**8, N, stride, row_tiles, block + 1, 1
    found = reaches("load", *given)
    row, n = tile % row_tiles * 16, tile // row_tiles * 16
    words, scales, x = found
    begin = (block * N + n) * 64
    assert words == (begin, begin + 16 * 64 - 2) and begin > 2**32
    begin = (block * N + n) * 4
    assert scales == (begin, begin + 15 * 4) and begin > 2**32
    begin = 2 * (row * stride + block * 128)
    assert x == (begin, begin + 2 * (15 * stride + 127))
    stored = reaches("store", *given)
    assert stored == [(2 * (row * N + n), 2 * ((row + 15) * N + n + 15))]


def test_far_steps():
    """What is added at each block is computed in 64 bits, too."""
    N = 2**27
    found = reaches("load", (0, 0, 0), 16, N, 512, 1, 1, 3)
    assert [low for low, _ in found[::3]] == [0, 64 * N, 128 * N]  # words, scales, and x
    assert [low for low, _ in found[1::3]] == [0, 4 * N, 8 * N]


def test_far_pieces():
    """2**14 tiles of 2**10 parts of 256 sums, 144 of which are rows' own; a tile's last program reads all of those."""
    tile, parts = 2**14 - 1, 2**10
    count = torch.zeros(2**14, dtype=torch.int32)
    count[tile] = parts - 1
    given = (tile, 5, 0), 9, 2**18, 2**7, 1, parts, 16
    stored = reaches("store", *given, count=count.clone(), SPLIT=True)
    assert stored[0] == (4 * (tile * parts + 5) * 256, 4 * ((tile * parts + 5) * 256 + 143)) and stored[0][0] > 2**33
    read = reaches("load", *given, count=count.clone(), SPLIT=True)
    begins = [4 * (tile * parts + part) * 256 for part in range(parts)]
    assert read[-parts:] == [(begin, begin + 4 * 143) for begin in begins]


def test_empty(device):
    for M, N, K in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        weight, _ = drawn(N, K, device=device)
        assert int4_matmul(rows_of(M, K, device=device), weight).shape == (M, N)
    weight, _ = drawn(2, 0, device=device)
    assert int4_matmul(torch.ones(3, 0, device=device).half(), weight).tolist() == [[0, 0]] * 3


def test_rows_of_any_strides(device):
    """Whatever a single row's strides are, and for rows that are one row."""
    weight, exact = drawn(9, 256, device=device)
    x = rows_of(6, 512, device=device)
    for each in (x[3:4, ::2], x[2:3, 1:257], x[:1, :256].expand(5, 256), x[::2, 8:264], x[:, 1:257], x[3:, ::2]):
        assert torch.equal(int4_matmul(each, weight), (each.double() @ exact.t()).half())


@pytest.mark.parametrize("layout, copies", [("rows", 0), ("further", 0), ("wider", 1), ("columns", 1), ("later", 1)])
def test_copies_what_is_not_aligned(layout, copies):
    weight, _ = drawn(9, 256)
    with watched_copies() as copied:
        int4_matmul(LAYOUTS[layout](rows_of(2, 256)), weight)
        assert len(copied) == copies
        int4_matmul(rows_of(2, 200), drawn(9, 200)[0])
        assert len(copied) == copies + 1


@given(st.integers(1, 2**20), st.integers(1, 300_000), st.integers(1, 3000), st.integers(1, 200))
@example(1, 1, 2**23, 132)
@example(64, 2**28 - 1, 1, 132)
def test_plans_can_be_served(M, N, blocks, multiprocessors):
    found = plan(M, N, blocks, multiprocessors=multiprocessors)
    for side in found[:3]:
        assert side & (side - 1) == 0
    assert found.rows >= min(M, 64) and found.rows >= 8
    assert found.tiles == triton.cdiv(N, found.block_n) and found.row_tiles == triton.cdiv(M, found.rows)
    assert 1 <= found.parts <= blocks and found.parts < 2**16
    assert found.parts == 1 or found.tiles * found.row_tiles * found.parts <= 16 * multiprocessors
    assert found.num_stages * (2 * found.rows * 128 + 64 * found.block_n) < 232_448


def test_tiles_by_rows():
    found = [plan(M, 4096, 32)[:4] for M in (1, 8, 9, 16, 17, 32, 33, 64)]
    assert found == [module.TILES[most][:4] for most in (8, 8, 16, 16, 32, 32, 64, 64)]
    assert plan(65, 4096, 32)[:4] == plan(4096, 4096, 32)[:4] == module.MANY[:4]


def test_as_many_parts_as_give_each_multiprocessor_its_programs():
    with mock.patch.dict(module.TILES, {8: (8, 64, 2, 3, 4)}):
        assert plan(1, 4096, 112).parts == 4 * 132 // 64 == 8
        assert plan(1, 14336, 32).parts == 4 * 132 // 224 == 2
        assert plan(1, 4096, 112, multiprocessors=10).parts == 1 and plan(1, 64, 3).parts == 3
    with mock.patch.object(module, "MANY", (64, 128, 4, 3, 2)):
        assert plan(200, 256, 64).parts == 2 * 132 // (2 * 4)


def test_plans_for_the_gpu_that_it_is_on():
    with mock.patch.object(module, "limits_of", return_value={"multiprocessors": 10, "shared": 0}) as limits:
        found = module.planned.__wrapped__(20, 4096, 32, torch.device("cuda", 1))
    limits.assert_called_once_with(torch.device("cuda", 1))
    assert found == plan(20, 4096, 32, multiprocessors=10) != plan(20, 4096, 32)


def test_what_it_launches():
    x, (weight, _) = rows_of(20, 512), drawn(40, 512, 8, 64)
    for parts in (1, 3):
        with planned(20, 40, 8, 16, parts), mock.patch.object(module, "int4_kernel", mock.MagicMock()) as kernel:
            y = module.product(x, weight)
        kernel.__getitem__.assert_called_once_with((9, parts))
        (*tensors, M, N, stride_x, row_tiles, given, each, more), options = kernel.__getitem__.return_value.call_args
        assert [tensors[i] for i in range(4)] == [x, weight.words, weight.scales, y]
        assert (M, N, stride_x, row_tiles, given, each, more) == (20, 40, 512, 3, parts, 8 // parts, 8 % parts)
        assert options == {
            "BITS": 8, "GROUP": 64, "PAIRS": False, "SPLIT": parts > 1, "ROWS": 8, "BLOCK_N": 16, "BLOCK": 64,
            "num_warps": 4, "num_stages": 3,
        }  # fmt: skip
        if parts > 1:
            assert tensors[4].shape == (9 * 3 * 16 * 8,) and tensors[4].dtype == torch.float32
            assert tensors[5] is module.counters(x.device, 9)
        else:
            assert tensors[4] is y and tensors[5] is y


@pytest.mark.parametrize(
    "kind, hip, capability, there",
    [
        ("cuda", None, (8, 0), True),
        ("cuda", None, (7, 5), False),
        ("cuda", "7", (9, 4), False),
        ("cpu", None, (9, 0), False),
    ],
)
def test_has_pairs(kind, hip, capability, there):
    with (
        mock.patch.object(torch.version, "hip", hip),
        mock.patch.object(torch.cuda, "get_device_capability", return_value=capability),
    ):
        assert module.has_pairs.__wrapped__(torch.device(kind)) == there


def test_pairs_where_there_are_instructions_for_them():
    for there in (True, False):
        with (
            mock.patch.object(module, "has_pairs", return_value=there),
            mock.patch.object(module, "int4_kernel", mock.MagicMock()) as kernel,
        ):
            module.product(torch.ones(1, 128).half(), drawn(4, 128)[0])
        assert kernel.__getitem__.return_value.call_args.kwargs["PAIRS"] == there


def test_asks_for_counters_where_it_launches():
    """Whether a graph is being captured is asked of the current device, so that must be the one of ``x``."""
    current, asked = [], []

    @contextlib.contextmanager
    def device_of(x):
        current.append(x)
        yield
        current.pop()

    def counters(device, tiles):
        asked.append((current[-1] if current else None, tiles))
        return torch.zeros(tiles, dtype=torch.int32)

    x, (weight, exact) = rows_of(2, 256), drawn(40, 256)
    with (
        planned(2, 40, 8, 32, 2),
        mock.patch.object(torch.cuda, "device_of", device_of),
        mock.patch.object(module, "counters", counters),
    ):
        assert torch.equal(int4_matmul(x, weight), (x.double() @ exact.t()).half())
    assert len(asked) == 1 and asked[0][0] is x and asked[0][1] == 2


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda w: w._replace(words=w.words[:, :3]), r"weight.words must be contiguous, \(2, 4, 32\)"),
        (lambda w: w._replace(words=w.words.int()), "got .* of torch.int32"),
        (lambda w: w._replace(words=w.words.transpose(0, 2).contiguous().transpose(0, 2)), "contiguous"),
        (lambda w: w._replace(scales=w.scales[:1]), r"weight.scales must be contiguous, \(2, 4\) of torch.int32"),
        (lambda w: w._replace(scales=w.scales.float()), "weight.scales .* of torch.float32"),
        (lambda w: w._replace(scales=w.scales.to("meta")), "on meta"),
        (lambda w: w._replace(bits=8), r"\(2, 4, 64\)"),
        (lambda w: w._replace(group=64), r"\(4, 4, 16\)"),
        (lambda w: w.words, "weight must be what pack or quantize returns; got Tensor"),
        (lambda w: drawn(4, 200)[0], r"x must be \(M, 200\) for this weight; got \(2, 256\)"),
    ],
)
def test_refuses_a_weight(change, words):
    with pytest.raises(ValueError, match=words):
        int4_matmul(rows_of(2, 256), change(drawn(4, 256)[0]))


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    weight, _ = drawn(4, 256, device=device)
    with torch.no_grad():
        x = rows_of(2, 256, device=device).requires_grad_()
        assert int4_matmul(x, weight).shape == (2, 4)


def test_under_torch_compile(device):
    weight, exact = drawn(32, 256, device=device)
    x = rows_of(3, 256, device=device)
    function = lambda x: int4_matmul(x + 1, weight) * 2
    compiled = torch.compile(function, backend="inductor" if device == "cuda" else "eager")
    for _ in range(2):
        assert torch.equal(compiled(x), ((x + 1).double() @ exact.t()).half() * 2)


CODE = """
import torch
def weight(n, k, bits=4, group=128):
    block = min(group, 128)
    words = torch.empty(k // block, n, block * bits // 16, dtype=torch.int16)
    return module.Packed(words, torch.empty(-(-k // group), n, dtype=torch.int32), n, k, bits, group)
for M in (1, 16, 512):
    for pairs in (True, False):
        module.product(torch.empty(M, 4096).bfloat16(), weight(4096, 4096), pairs=pairs)
module.product(torch.empty(1, 4096).half(), weight(4096, 4096, 8), pairs=True)
module.product(torch.empty(1, 4096).bfloat16(), weight(4096, 4096, 8), pairs=True)
"""


def test_compiles_to_few_instructions():
    """For an H200, without one: numbers stay in registers, and no pair is converted from whole numbers."""
    launches = compiled("models/int4", CODE)
    for launch in launches:
        pairs, words = launch.options["PAIRS"], launch.options["BLOCK_N"] * launch.options["BLOCK"]
        weights = words // (32 * launch.options["num_warps"])  # of a thread, in a turn of the loop
        count = lambda name, launch=launch: len(re.findall(name, launch.sass))
        assert launch.shared <= SHARED and launch.spills <= 2
        assert "LDGSTS.E.BYPASS.128" in launch.sass
        assert count("HFMA2.BF16_V2|HFMA2 ") >= weights // 2 if pairs else count("I2F") >= weights
        assert count("I2F") < 16 if pairs else True
        loop = launch.ttgir[launch.ttgir.index("scf.for") :].split("scf.yield")[0]
        assert not pairs or "convert_layout" not in loop


# On a GPU the programs of a tile really come in any order.


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", module.DTYPES)
@pytest.mark.parametrize("bits, group", GROUPS)
def test_right_gpu(dtype, bits, group):
    for M, N, K in ((1, 4096, 4096), (5, 1001, 4000), (16, 130, 14336), (33, 7, 9), (200, 300, 1152)):
        for layout in LAYOUTS:
            check(M, N, K, bits, group, "cuda", dtype, layout)


@pytest.mark.gpu
def test_same_bits_in_every_run():
    weight = quantize(torch.randn(1024, 8192, device="cuda"))
    x = torch.randn(16, 8192, device="cuda").half()
    first = int4_matmul(x, weight)
    assert plan(16, 1024, 64).parts > 4
    assert all(torch.equal(int4_matmul(x, weight), first) for _ in range(300))


@pytest.mark.gpu
def test_in_a_graph_is_one_kernel():
    weight = quantize(torch.randn(1024, 8192, device="cuda"))
    x = torch.randn(16, 8192, device="cuda").half()
    expected, graph = int4_matmul(x, weight), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = int4_matmul(x, weight)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert names == ["int4_kernel"] and torch.equal(y, expected)


@pytest.mark.gpu
def test_on_another_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    weight, exact = drawn(100, 1024, device="cuda:1")
    x = rows_of(3, 1024, device="cuda:1")
    assert torch.equal(int4_matmul(x, weight), (x.double() @ exact.t()).half())


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    N, K = 2**17 + 8, 2**16 + 128
    words = torch.zeros(K // 128, N, 32, dtype=torch.int16, device="cuda")
    words[-1, -1] = 0x1111
    scales = torch.ones(K // 128, N, device="cuda").view(torch.int32)
    y = int4_matmul(torch.ones(2, K, dtype=torch.float16, device="cuda"), Packed(words, scales, N, K, 4, 128))
    assert y[:, -1].tolist() == [128.0] * 2 and not y[:, :-1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
def test_compute_sanitizer_finds_nothing(tool):
    check_sanitized(SOURCE, tool=tool)
