# SPDX-License-Identifier: Apache-2.0
"""Persistent matmul: right for any shape, strides and config, each result written once, in the order that it claims."""

import contextlib
from unittest import mock

import numpy as np
import pytest
import torch
import triton
from guards import (
    Guarded,
    check_each_once,
    precisions_of_dots,
    recorded_accesses,
    without_memory,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.matmul import persistent, persistent_measured
from snippets.matmul.persistent import Config, configuration, described, matmul
from snippets.tools.testing import addresses_of

SMALL = Config(16, 16, 16, num_warps=4, num_stages=2, group_m=2)
# Small tiles, so that a small matrix has many of them, ragged ones too.
CONFIGS = {
    "flat": SMALL,
    "two parts": SMALL._replace(block_n=32, subtiles=2),
    "four parts": SMALL._replace(block_n=64, subtiles=4, group_m=1, flatten=False),
    "through pointers": SMALL._replace(block_m=32, subtiles=0),
    "each tile": SMALL._replace(block_k=32, per_sm=0, flatten=False, group_m=3),
    "late": SMALL._replace(block_n=64, block_k=32, subtiles=2, early=False),
}
LAYOUTS = ("contiguous", "aligned", "transposed", "aligned, transposed", "gaps", "every second", "expanded")


def placed(x, layout):
    """``x`` in the middle of a larger buffer of NaN."""
    rows, columns = x.shape
    wide, high = -(-columns // 8) * 8 + 8, -(-rows // 8) * 8 + 8
    shape, view = {
        "contiguous": ((rows, columns), lambda b: b),
        "aligned": ((rows + 2, wide), lambda b: b[1 : rows + 1, :columns]),
        "transposed": ((columns, rows), lambda b: b.t()),
        "aligned, transposed": ((columns + 2, high), lambda b: b[2:, :rows].t()),
        "gaps": ((rows + 2, columns + 3), lambda b: b[1 : rows + 1, 2 : columns + 2]),
        "every second": ((rows, 2 * columns), lambda b: b[:, ::2]),
        "expanded": ((1, columns), lambda b: b.expand(rows, columns)),
    }[layout]
    buffer = Guarded(shape, x.dtype, x.device, before=64, after=64, fill=0xFF)
    found = view(buffer.tensor)
    if layout == "expanded":
        buffer.tensor.copy_(x[:1])
    else:
        found.copy_(x)
    return buffer, found


def numbers(rows, columns, dtype, device, seed=0):
    """Whole numbers: every product in these tests is exact, in whatever order and precision."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=random).to(device, dtype)


def product(a, b, **options):
    """``matmul`` in surroundings that show any stray access."""
    out = Guarded((a.shape[0], b.shape[1]), a.dtype, a.device, before=512, after=4096, fill=0xFF)
    empty, asked = torch.empty, []

    def first_guarded(*args, **kwargs):  # the first tensor that the function asks for is its result
        asked.append((args, kwargs))
        return out.tensor if len(asked) == 1 else empty(*args, **kwargs)

    with mock.patch.object(torch, "empty", first_guarded):
        result = matmul(a, b, **options)
    assert result is out.tensor
    assert asked[0] == (((a.shape[0], b.shape[1]),), {"dtype": a.dtype, "device": a.device})
    out.check("the result")
    return result


def check(a, b, layouts=("contiguous", "contiguous"), **options):
    (kept_a, a), (kept_b, b) = placed(a, layouts[0]), placed(b, layouts[1])
    before = kept_a.bytes.clone(), kept_b.bytes.clone()
    expected = (a.double() @ b.double()).to(a.dtype)
    assert torch.equal(product(a, b, **options), expected)
    assert torch.equal(kept_a.bytes, before[0]) and torch.equal(kept_b.bytes, before[1]), "a and b are only read"


def served(device):
    return persistent.DTYPES if device == "cuda" else (torch.float16, torch.float32)


configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


# Values


@configs
def test_ragged_shapes(device, config):
    for M, K, N in ((1, 1, 1), (17, 5, 40), (33, 33, 64), (50, 16, 72)):
        for dtype in served(device):
            a, b = numbers(M, K, dtype, device), numbers(K, N, dtype, device, seed=1)
            check(a, b, config=config, programs=3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(device, layout):
    a, b = numbers(20, 24, torch.float16, device), numbers(24, 40, torch.float16, device, seed=1)
    check(a, b, (layout, "contiguous"), config=SMALL)
    check(a, b, ("aligned", layout), config=SMALL)
    check(a, b, (layout, layout), config=CONFIGS["late"])
    tall = numbers(56, 24, torch.float16, device)
    check(tall, b, (layout, layout), config=CONFIGS["late"])


@settings(max_examples=20)
@given(
    shape=st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 70)),
    layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)),
    config=st.sampled_from(list(CONFIGS.values())),
    programs=st.sampled_from([None, 1, 2, 7]),
    data=st.data(),
)
def test_multiplies_as_torch_does(device, shape, layouts, config, programs, data):
    M, K, N = shape
    dtype = data.draw(st.sampled_from(served(device)))
    seed = data.draw(st.integers(0, 99))
    layouts = [layout if min(size) else "contiguous" for layout, size in zip(layouts, ((M, K), (K, N)), strict=True)]
    a, b = numbers(M, K, dtype, device, seed), numbers(K, N, dtype, device, seed + 1)
    check(a, b, layouts, config=config, programs=programs)


def test_random_numbers(device):
    for dtype in served(device):
        a, b = torch.randn(70, 90, device=device).to(dtype), torch.randn(90, 50, device=device).to(dtype)
        exact = a.double() @ b.double()
        error = (matmul(a, b, config=SMALL).double() - exact).norm() / exact.norm()
        # Half precision: one rounding at the end. Float32: 90 roundings on the way, which add up like steps at random.
        assert error < torch.finfo(dtype).eps * (90**0.5 / 2 if dtype == torch.float32 else 1)


def test_default_configs_agree(device):
    a, b = numbers(200, 136, torch.float16, device), numbers(136, 264, torch.float16, device, seed=1)
    for config in (persistent.LARGE, persistent.MEDIUM, persistent.SMALL, persistent.TINY, None):
        check(a, b, config=config)
    check(a.float(), b.float())


def test_sums_are_in_float32(device):
    a = torch.ones(1, 4096, dtype=torch.float16, device=device)  # in float16, 2048 + 1 is 2048
    b = torch.ones(4096, 1, dtype=torch.float16, device=device)
    assert matmul(a, b).item() == 4096


def test_nothing_to_multiply(device):
    make = lambda *shape: torch.full(shape, torch.nan, device=device)
    with grids() as launched:
        for M, K, N in ((0, 3, 4), (3, 4, 0), (0, 0, 0)):
            assert matmul(make(M, K), make(K, N)).shape == (M, N)
        assert matmul(make(3, 0), make(0, 4)).tolist() == [[0.0] * 4] * 3
    assert not launched


# What is read and written, and in which order


def order(tiles_m, tiles_n, group_m):
    """The tiles in the grouped order, worked out by another way than the kernel's."""
    groups = [range(first, min(first + group_m, tiles_m)) for first in range(0, tiles_m, group_m)]
    return [(m, n) for group in groups for n in range(tiles_n) for m in group]


@pytest.mark.parametrize("config", [SMALL, CONFIGS["two parts"], CONFIGS["through pointers"], CONFIGS["late"]])
@pytest.mark.parametrize("programs, group_m", [(1, 2), (4, 3), (100, 2)])
def test_each_tile_is_stored_once_in_the_grouped_order(config, programs, group_m):
    config = config._replace(group_m=group_m)
    M, N = 5 * config.block_m - 3, 3 * config.block_n - 8
    a, b = numbers(M, 16, torch.float16, "cpu"), numbers(16, N, torch.float16, "cpu")
    with recorded_accesses() as accesses:
        out = matmul(a, b, config=config, programs=programs)
    check_each_once(accesses, "store", out=out)
    steps = max(1, config.subtiles)
    stores = [addresses for op, addresses in accesses if op == "store"][::steps]
    elements = [(addresses.min() - out.data_ptr()) // out.itemsize for addresses in stores]
    tiles = [(int(e) // N // config.block_m, int(e) % N // config.block_n) for e in elements]
    expected = order(5, 3, group_m)
    # The interpreter runs one program after the other; each takes every programs-th tile.
    assert tiles == [tile for pid in range(min(programs, 15)) for tile in expected[pid::programs]]


def test_loads_each_tile_along_k_once():
    a, b = numbers(32, 40, torch.float16, "cpu"), numbers(40, 32, torch.float16, "cpu")
    with recorded_accesses() as accesses:
        matmul(a, b, config=SMALL, programs=1)
    loads = [addresses for op, addresses in accesses if op == "load"]
    assert len(loads) == 2 * 4 * 3  # two tensors, four tiles, steps of 16 along 40
    counted = np.unique(np.concatenate(loads), return_counts=True)
    where = np.sort(np.concatenate([addresses_of(a), addresses_of(b)]))
    assert np.array_equal(counted[0], where) and (counted[1] == 2).all()  # 2 x 2 tiles: each element twice


@contextlib.contextmanager
def grids():
    """Yield a list that receives the grid of each launch."""
    kind, seen = type(persistent.matmul_kernel), []
    launch = kind.__getitem__
    with mock.patch.object(kind, "__getitem__", lambda kernel, grid: seen.append(grid) or launch(kernel, grid)):
        yield seen


def test_launches_as_many_programs_as_it_says(device):
    a, b = (numbers(64, 64, torch.float32, device) for _ in range(2))
    for config, programs, launched in (
        (SMALL, None, 16), (SMALL._replace(per_sm=0), None, 16), (SMALL, 3, 3), (SMALL, 99, 16),
        (SMALL, 7, 6), (SMALL, 15, 8),  # 3 and 2 rounds, as with 7 and 15
    ):  # fmt: skip
        with grids() as seen:
            matmul(a, b, config=config, programs=programs)
        assert seen == [(launched,)]
    with mock.patch.object(persistent, "multiprocessors", return_value=5), grids() as seen:
        matmul(a, b, config=SMALL)
        matmul(a, b, config=SMALL._replace(per_sm=2))
        matmul(a, b, config=SMALL._replace(per_sm=0))
    assert seen == [(4,), (8,), (16,)]  # 4, 2 and 1 rounds


def test_pointers_are_computed_in_64_bits():
    # The last tile of a result of more than 2**31 elements. With K = 0 there is nothing to load; nothing is stored.
    config, N = CONFIGS["through pointers"], 2**15 + 8
    base = torch.zeros(64, dtype=torch.float16)
    a = TensorDescriptor(base, [2**17, 16], [16, 1], [config.block_m, 16])
    b = TensorDescriptor(base, [16, N], [N, 1], [16, config.block_n])
    last = -(-N // config.block_n) * (2**17 // config.block_m) - 1
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as accesses:
        persistent.matmul_kernel[(1,)](
            a, b, base, 2**17, N, 0, BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=16, GROUP_M=1,
            SUBTILES=0, FLATTEN=False, A_TRANSPOSED=False, B_TRANSPOSED=False, PRECISION="ieee", EARLY=False,
        )  # fmt: skip
    (stored,) = [addresses for op, addresses in accesses if op == "store"]
    assert (stored.max() - base.data_ptr()) // 2 == 2**17 * N - 1


# What a descriptor can describe


@pytest.mark.parametrize("dtype", persistent.DTYPES)
def test_describes_without_a_copy_what_it_can(dtype):
    step = 16 // dtype.itemsize
    x = torch.zeros(6, 4 * step, dtype=dtype)
    for view in (x, x[1:4, step:], x[::2], x[:, :1]):
        for asked, turned in ((view, False), (view.t(), True)):
            found, transposed = described(asked)
            assert transposed == turned
            assert (found.data_ptr(), found.shape, found.stride()) == (view.data_ptr(), view.shape, view.stride())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[:, 1:],  # starts 2 bytes behind a multiple of 16
        lambda x: x[:, ::2],
        lambda x: x.reshape(-1)[: 9 * 7].view(9, 7),  # rows are 14 bytes apart
        lambda x: x[:1].expand(5, 32),  # rows are 0 bytes apart
        lambda x: x.as_strided((5, 32), (8, 1)),  # rows overlap
        lambda x: x.as_strided((1, 32), (2**36, 1)),  # farther apart than TMA can count
        lambda x: x.t()[1:],
    ],
)
def test_copies_what_a_descriptor_cannot_describe(make):
    view = make(torch.arange(6 * 32, dtype=torch.float16).view(6, 32))
    found, transposed = described(view)
    assert torch.equal(found.t() if transposed else found, view)
    assert found.stride(1) == 1 and found.stride(0) % 8 == 0 and found.stride(0) >= found.shape[1]
    assert found.untyped_storage().data_ptr() != view.untyped_storage().data_ptr()


def test_a_copy_keeps_the_order_of_memory():
    x = torch.zeros(5, 7, dtype=torch.float16)
    assert not described(x)[1] and described(x.t())[1]


def test_ragged_results_are_stored_through_pointers(device):
    a = numbers(16, 16, torch.float16, device)
    for N, described_store in ((16, True), (15, False), (8, True), (4, False)):
        with mock.patch.object(persistent, "TensorDescriptor", wraps=TensorDescriptor) as made:
            check(a, numbers(16, N, torch.float16, device), config=SMALL)
        assert made.from_tensor.call_count == 2 + described_store


# Which config


@pytest.mark.parametrize(
    "side, tile",
    [(16384, (128, 256)), (2048, (128, 256)), (1536, (128, 128)), (1024, (64, 128)), (512, (64, 32)), (1, (64, 32))],
)
def test_takes_the_largest_tile_that_fills_the_gpu(side, tile):
    assert configuration(side, side, 2, 132)[:2] == tile


@pytest.mark.parametrize(
    "M, N, multiprocessors, tile, early",
    [
        (768, 384, 13, (128, 256), True),  # 12 tiles, which keep nine of ten busy
        (384, 768, 13, (128, 128), True),  # only 9
        (384, 768, 10, (128, 256), True),  # just nine of ten
        (640, 512, 9, (128, 256), False),  # 10 tiles: two rounds
        (384, 768, 9, (128, 256), True),  # one
    ],
)
def test_tall_and_wide_results(M, N, multiprocessors, tile, early):
    config = configuration(M, N, 2, multiprocessors)
    assert (config[:2], config.early) == (tile, early)


def test_asks_for_a_config_by_the_result(device):
    with mock.patch.object(persistent, "configuration", return_value=SMALL) as choose:
        matmul(ones(40, 16, device=device).half(), ones(16, 20, device=device).half())
    assert choose.call_args == mock.call(40, 20, 2, persistent.multiprocessors(torch.device(device)), "ieee")


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        matmul(torch.ones(2, 20), torch.ones(20, 3))
    assert seen == {"IEEE"}


def test_float32_has_a_config_of_its_own():
    assert configuration(4096, 4096, 4, 132) == configuration(64, 64, 4, 132, "tf32x3") == persistent.FLOAT32
    for side in (64, 1024, 1536, 4096):
        tf32, half = configuration(side, side, 4, 132, "tf32"), configuration(side, side, 2, 132)
        assert tf32[:2] == half[:2] and tf32.block_k * 2 == half.block_k


def test_tf32_through_pointers_is_not_flattened():
    """In one loop, the shared memory of a store is not that of loads: for float32, an H200 has no room for both."""
    flattened = [configuration(4096, N, 4, 132, "tf32").flatten for N in (4096, 4097, 4098, 4100)]
    assert flattened == [True, False, False, True]
    assert all(configuration(4096, N, 2, 132).flatten for N in (4096, 4097))


def test_only_products_of_one_round_begin_early():
    assert [configuration(side, side, 2, 132).early for side in (512, 1024, 2048, 4096)] == [True, True, True, False]
    assert configuration(2048, 2048, 2, 108).early is False  # 128 tiles
    assert configuration(1536, 1536, 2, 132).early, "small tiles have a program each, of which several fit at once"


# Refusals


def ones(*shape, device, **options):
    return torch.ones(*shape, device=device, **options)


@pytest.mark.parametrize(
    "make, options, fragment",
    [
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(block_n=8)}, "powers of two"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(block_m=16.0)}, "powers of two"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(num_warps=0)}, "num_warps"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(num_warps=64)}, "num_warps"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(num_stages=0)}, "num_stages"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(per_sm=-1)}, "per_sm"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(block_n=64, subtiles=3)}, "power of two"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(block_m=24)}, "powers of two"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(block_k=512)}, "powers of two"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(num_warps=3)}, "num_warps"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(group_m=0)}, "group_m"),
        (lambda d: (ones(40, 40, device=d),) * 2, {"config": SMALL._replace(group_m=2**30)}, "group_m is too large"),
        (lambda d: (ones(2, 2, device=d),) * 2, {"config": SMALL._replace(subtiles=2)}, "parts of 16 columns"),
        (
            lambda d: (ones(1, 1, device=d).expand(2**29, 1), ones(1, 1, device=d).expand(1, 2**29)),
            {"config": SMALL}, "too many tiles",
        ),
    ],
)  # fmt: skip
def test_refuses(device, make, options, fragment):
    with pytest.raises(ValueError) as error:
        matmul(*make(device), **options)
    assert fragment in str(error.value)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        a = ones(2, 2, device=device, requires_grad=True)
        assert matmul(a, ones(2, 2, device=device), config=SMALL).eq(2).all()


def test_tf32x3_is_refused_on_amd():
    a = torch.ones(2, 2)
    assert matmul(a, a, input_precision="tf32x3", config=SMALL).eq(2).all()
    with mock.patch.object(torch.version, "hip", "6.0"):
        with pytest.raises(ValueError, match="no tf32x3"):
            matmul(a, a, input_precision="tf32x3", config=SMALL)
        assert matmul(a, a, input_precision="ieee", config=SMALL).eq(2).all()


def test_serves_what_is_at_the_limits():
    """The longest sides; as many tiles, and as large groups, as are counted in 32 bits; the largest tile."""
    longest = 2**30 - 1
    for M, N, K in ((longest, 1, 1), (1, longest, 1), (1, 1, longest)):
        persistent.check_arguments(without_memory(M, K), without_memory(K, N), "ieee")
    for M, N, group_m, served in (
        (2**20 - 48, 2**19, 1, True), (2**20 - 32, 2**19, 1, False), (1, 49, 2**29 - 1, True), (1, 49, 2**29, False),
    ):  # fmt: skip
        a, b = without_memory(M, 16), without_memory(16, N)
        given, nothing = SMALL._replace(group_m=group_m), mock.Mock(numel=lambda: 0)
        refused = contextlib.nullcontext() if served else pytest.raises(ValueError, match="too many tiles")
        with mock.patch.object(torch, "empty", return_value=nothing), refused:
            assert matmul(a, b, config=given) is nothing
    persistent.check_config(SMALL._replace(num_warps=1))
    persistent.check_config(Config(256, 256, 256, num_warps=32, num_stages=1, group_m=1, subtiles=16, per_sm=0))


# A GPU of less memory, of other kinds


@contextlib.contextmanager
def room_for(stages):
    """A kernel that does nothing on a GPU with room for so many stages; yield the stages that it was asked for."""
    asked = []

    class Kernel:
        def __getitem__(self, grid):
            def launch(*arguments, num_stages, **options):
                asked.append(num_stages)
                if num_stages > stages:
                    raise triton.OutOfResources(300_000, 232_448, "shared memory")

            return launch

    with mock.patch.multiple(persistent, matmul_kernel=Kernel(), FEWER={}):
        yield asked


def test_a_default_that_does_not_fit_takes_a_stage_less():
    a, b = torch.ones(64, 32).half(), torch.ones(32, 48).half()
    with room_for(1) as asked:
        matmul(a, b), matmul(a, b, programs=3)
    assert asked == [3, 2, 1, 1], "and it is remembered"
    with room_for(0) as asked, pytest.raises(ValueError, match=r"num_stages=1.* does not fit on cpu: out of resource"):
        matmul(a, b)
    assert asked == [3, 2, 1]


def test_a_given_config_that_does_not_fit_is_refused():
    a = torch.ones(64, 64).half()
    with room_for(1) as asked, pytest.raises(ValueError, match=r"num_stages=2.* does not fit on cpu"):
        matmul(a, a, config=SMALL)
    assert asked == [2]


@pytest.mark.parametrize(
    "device, hip, capability, early",
    [
        ("cuda", None, (9, 0), True), ("cuda", None, (10, 0), True), ("cuda", None, (8, 9), False),
        ("cuda", "7.1", (9, 4), False), ("cpu", None, (9, 0), False),
    ],
)  # fmt: skip
def test_begins_early_from_hopper_on(monkeypatch, device, hip, capability, early):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    persistent.can_begin_early.cache_clear()
    assert persistent.can_begin_early(torch.device(device)) == early
    persistent.can_begin_early.cache_clear()


@pytest.mark.parametrize("can, wants", [(True, True), (True, False), (False, True)])
def test_says_at_the_launch_that_it_begins_early(monkeypatch, can, wants):
    monkeypatch.setattr(persistent, "can_begin_early", lambda device: can)
    monkeypatch.setattr(persistent, "matmul_kernel", kernel := mock.MagicMock())
    matmul(torch.ones(40, 16), torch.ones(16, 16), config=SMALL._replace(block_m=32, early=wants))
    assert kernel.__getitem__.call_args == mock.call((2,))
    given = kernel[(1,)].call_args.kwargs
    assert given["EARLY"] == given.get("launch_pdl", False) == (can and wants)


def test_multiprocessors_are_those_of_the_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: mock.Mock(multi_processor_count=7))
    persistent.multiprocessors.cache_clear()
    assert persistent.multiprocessors(torch.device("cuda")) == 7 and persistent.multiprocessors(torch.device("cpu")) > 1
    persistent.multiprocessors.cache_clear()


# The file as a script


def test_owners(device):
    with mock.patch.object(torch.cuda, "device_of", wraps=torch.cuda.device_of) as device_of:
        persistent.owners(1, 1, programs=1, group_m=1, device=device)
    assert device_of.called, "or Triton launches on the current device, whatever the tensor's"
    assert persistent.owners(3, 2, programs=4, group_m=2, device=device) == [[0, 2], [1, 3], [0, 1]]
    assert persistent.owners(2, 3, programs=4, group_m=2, device=device) == [[0, 2, 0], [1, 3, 1]]


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", persistent.DTYPES)
@pytest.mark.parametrize("shape", [(512, 512, 512), (1000, 1016, 1032), (777, 333, 555), (4096, 64, 128), (1, 99, 999)])
def test_error_on_a_gpu(shape, dtype):
    M, K, N = shape
    a, b = torch.randn(M, K, device="cuda").to(dtype), torch.randn(K, N, device="cuda").to(dtype)
    exact = a.double() @ b.double()
    # Rounding the result alone may take half an eps; in float32 the roundings of K sums count too.
    limit = torch.finfo(dtype).eps * (K**0.5 if dtype == torch.float32 else 1)
    for x, y in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        assert (matmul(x, y).double() - exact).norm() / exact.norm() < limit


@pytest.mark.gpu
@pytest.mark.parametrize("step", [*persistent_measured.STEPS])
def test_every_step_on_a_gpu(step):
    for M, K, N in ((1024, 512, 768), (1000, 520, 1096), (1001, 515, 1099)):
        a, b = numbers(M, K, torch.bfloat16, "cuda"), numbers(K, N, torch.bfloat16, "cuda", seed=1)
        expected = (a.double() @ b.double()).bfloat16()
        for x, y in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
            for programs in (None, 3):
                assert torch.equal(product(x, y, config=persistent_measured.STEPS[step], programs=programs), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("side", [64, 264, 1024, 1536, 2048])
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
def test_float32_on_a_gpu(side, precision):
    a, b = (numbers(side, side, torch.float32, "cuda", seed) for seed in (0, 1))
    for y in (b, b.t()):
        assert torch.equal(product(a, y, input_precision=precision), a @ y)


@pytest.mark.gpu
@pytest.mark.parametrize("N", [15, 4097])
def test_large_tiles_of_tf32_are_stored_through_pointers_on_a_gpu(N):
    a, b = numbers(16384, 64, torch.float32, "cuda"), numbers(64, N, torch.float32, "cuda", seed=1)
    for x in (a, a.t().contiguous().t()):
        for y in (b, b.t().contiguous().t()):
            assert torch.equal(product(x, y, input_precision="tf32"), a @ b)


@pytest.mark.gpu
@pytest.mark.parametrize("side", [64, 512, 1000, 1024, 2048])
def test_an_early_start_waits_for_what_it_reads(side):
    """Each product reads what the one before has just written; other kernels stand in between, too."""
    a = numbers(side, side, torch.bfloat16, "cuda")
    same = torch.eye(side, device="cuda").bfloat16()

    def chain(x):
        for number in range(30):
            x = matmul(x, same)
            x = x.neg() if number % 5 == 0 else x
        return x

    expected = a  # after an even number of changes of sign
    assert torch.equal(chain(a), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = chain(a)
    for _ in range(20):
        out.zero_()
        graph.replay()
        assert torch.equal(out, expected)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 12e9:
        pytest.skip("needs 12 GB of free GPU memory")
    a, b = numbers(2**16 + 3, 64, torch.float16, "cuda"), numbers(64, 2**15 + 8, torch.float16, "cuda", seed=1)
    for columns in (2**15 + 8, 2**15 + 1):  # by descriptors, and through pointers
        out = matmul(a, b[:, :columns])
        assert out.numel() > 2**31
        assert torch.equal(out[-300:], a[-300:] @ b[:, :columns])
