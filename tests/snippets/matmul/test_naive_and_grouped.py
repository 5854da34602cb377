# SPDX-License-Identifier: Apache-2.0
"""naive_and_grouped: all variants are the same product, and what is counted is the loop that multiplies."""

import contextlib
from unittest import mock

import pytest
import torch
from covering import covering
from guards import Guarded, check_each_once, check_inside, environment, precisions_of_dots, reaching, recorded_accesses

from snippets.matmul import naive_and_grouped
from tests.processes import run_python

VARIANT = "groups of 8, 32 bits"
SMALL = {"BLOCK_M": 4, "BLOCK_N": 8, "BLOCK_K": 16}
VIEWS = {  # of a tensor twice as wide and three times as high: strides of both sides differ from each other, and from 1
    "rows": lambda rows, columns: ((rows, columns), lambda t: t),
    "columns": lambda rows, columns: ((columns, rows), lambda t: t.t()),
    "gaps": lambda rows, columns: ((3 * rows, 2 * columns), lambda t: t[::3, ::2]),
}


def among_nans(tensor, view):
    shape, look = VIEWS[view](*tensor.shape)
    zone = Guarded(shape, tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
    placed = look(zone.tensor)
    placed.copy_(tensor)
    return placed


@covering(
    variant=naive_and_grouped.VARIANTS,
    size=[(5, 9, 33), (3, 17, 1), (25, 9, 2), (2, 3, 0), (0, 1, 2)],
    views=[("rows", "columns"), ("gaps", "gaps")],
)
def test_is_the_product(device, variant, size, views):
    M, N, K = size
    tile = SMALL if device == "cpu" else {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
    a, b = torch.randint(-3, 4, (M, K)).float().to(device), torch.randint(-3, 4, (K, N)).float().to(device)
    expected, a, b = a @ b, among_nans(a, views[0]), among_nans(b, views[1])
    out = Guarded((M, N), torch.float32, device, before=64, after=64, fill=0x5A)
    recorded = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with recorded as accesses, mock.patch.object(torch, "empty", return_value=out.tensor) as empty:
        c = naive_and_grouped.matmul(a, b, variant, tile)
    empty.assert_called_once_with((M, N), dtype=a.dtype, device=a.device)
    assert torch.equal(c, expected)
    out.check("c")
    if accesses is not None:
        check_inside(accesses, "load", a=a, b=b)
        check_each_once(accesses, "store", c=out.tensor)


def offsets(op, strides, program, variant, sizes=(2**20, 2**20, 48)):
    """The least and the largest offset of each access of one program, in elements."""
    x = torch.zeros(4)
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
        naive_and_grouped.matmul_kernel[(1,)](x, x, x, *sizes, *strides, **SMALL, **naive_and_grouped.VARIANTS[variant])
    return [(int(at.min() - x.data_ptr()) // 4, int(at.max() - x.data_ptr()) // 4) for kind, at in seen if kind == op]


@pytest.mark.parametrize("variant", naive_and_grouped.VARIANTS)
def test_far_tiles_and_steps(variant):
    """The way to a tile, and from one step to the next, is computed in 64 bits; of c, all of it."""
    far, tile = 2**26 + 1, 2**15 + 3  # 16 of it are within 32 bits, 32 not
    tall, wide = (2**20, 8, 48), (4, 2**20, 48)  # a column of tiles, and a row of them
    found = offsets("load", (far, 1, 1, 1, 1, 1), tile, variant, tall)[0::2]
    assert found == [(4 * tile * far + 16 * step, (4 * tile + 3) * far + 16 * step + 15) for step in range(3)]
    found = offsets("load", (1, 1, 1, far, 1, 1), tile, variant, wide)[1::2]
    assert found == [(8 * tile * far + 16 * step, (8 * tile + 7) * far + 16 * step + 15) for step in range(3)]
    for side, strides in enumerate([(1, far, 1, 1, 1, 1), (1, 1, far, 1, 1, 1)]):
        found = offsets("load", strides, 0, variant)[side::2]
        others = SMALL["BLOCK_N" if side else "BLOCK_M"] - 1
        assert found == [(16 * step * far, (16 * step + 15) * far + others) for step in range(3)]
    assert offsets("store", (1, 1, 1, 1, far, 1), tile, variant, tall) == [(4 * tile * far, (4 * tile + 3) * far + 7)]
    assert offsets("store", (1, 1, 1, 1, 1, far), tile, variant, wide) == [(8 * tile * far, (8 * tile + 7) * far + 3)]


@pytest.mark.parametrize("variant", [name for name in naive_and_grouped.VARIANTS if "64 bits" in name])
def test_far_within_a_tile(variant):
    """What whole offsets are for; the others are refused there."""
    far = 2**28
    assert offsets("load", (far, far, far, far, 1, 1), 0, variant)[:2] == [(0, 18 * far), (0, 22 * far)]


@pytest.mark.parametrize("variant", naive_and_grouped.VARIANTS)
def test_tiles_in_the_order_of_the_variant(variant):
    """Of 10 x 2 tiles: which one a program stores, by its first element."""
    with recorded_accesses() as accesses:
        c = naive_and_grouped.matmul(torch.ones(40, 3), torch.ones(3, 16), variant, SMALL)
    firsts = [int(at[0] - c.data_ptr()) // 4 for op, at in accesses if op == "store"]
    height = naive_and_grouped.VARIANTS[variant]["GROUP_M"]
    groups = [range(10)[first : first + height] for first in range(0, 10, height)]
    order = [(row, column) for rows in groups for column in (0, 1) for row in rows]
    assert [(first // 16 // 4, first % 16 // 8) for first in firsts] == order


def test_all_sides_compute_the_same(device):
    a, b = torch.randn(2, 150, 150, device=device)
    for name, run in naive_and_grouped.SIDES.items():
        torch.testing.assert_close(run(a, b), a @ b, msg=name, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", naive_and_grouped.VARIANTS)
def test_float32_is_multiplied_as_float32(variant):
    with precisions_of_dots() as seen:
        naive_and_grouped.matmul(torch.ones(2, 20), torch.ones(20, 3), variant, SMALL)
    assert seen == {"IEEE"}


def test_refuses(device):
    with pytest.raises(ValueError, match="a must be"):
        naive_and_grouped.matmul(torch.ones(2, 3, device=device), torch.ones(2, 3, device=device), VARIANT)


@pytest.mark.parametrize("variant", naive_and_grouped.VARIANTS)
def test_elements_of_a_tile_too_far_apart_are_refused(variant):
    memory = torch.empty(2**31 + 5, dtype=torch.float16)  # nothing touches most of it
    far = memory.as_strided((3, 5), (2**30, 1))
    for name, a, b in (("a", far, torch.ones(5, 2).half()), ("b", torch.ones(2, 5).half(), far.t())):
        with pytest.raises(ValueError, match=f"{name} has strides"):
            naive_and_grouped.matmul(a, b, variant, SMALL)


def test_the_largest_tile_that_offsets_of_32_bits_reach():
    """2**31 - 1 is served, and one more is not, however many rows and columns there are."""
    tile, ones = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}, torch.ones(1, 1).half()
    for name, sides in {"a": (32, 16), "b": (16, 32)}.items():
        for span in (2**31 - 1, 2**31):
            x = reaching((40, 40), sides, span)
            a, b = (x, ones.expand(40, 3)) if name == "a" else (ones.expand(3, 40), x)
            with mock.patch.object(naive_and_grouped, "matmul_kernel") as kernel:
                if span < 2**31:
                    naive_and_grouped.matmul(a, b, VARIANT, tile)
                    assert kernel.__getitem__.called
                    continue
                with pytest.raises(ValueError, match=f"{name} has strides"):
                    naive_and_grouped.matmul(a, b, VARIANT, tile)


SASS = """
        /*0000*/                   MOV R1, R2 ;
.L_x_0:
        /*0010*/               @P0 BRA `(.L_x_1) ;
        /*0020*/                   BRA `(.L_x_0) ;
.L_x_1:
        /*0030*/              @!P1 IADD3 R1, R2, R3 ;
                                                                 /* 0x00000f20 */
        /*0040*/                   LDGSTS.E.128 [R1], [R2.64] ;
        /*0050*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], R24 ;
        /*0060*/              @UP0 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
"""


def test_the_loop_is_the_one_that_multiplies():
    assert naive_and_grouped.loop(SASS) == ["IADD3", "LDGSTS", "HGMMA", "BRA"]
    with pytest.raises(ValueError):
        naive_and_grouped.loop(SASS.replace("HGMMA", "FFMA"))


def test_counts_without_a_gpu():
    """Short offsets take fewer instructions, as many as in grouped.py; and all copy and multiply alike."""
    code = (
        "from snippets.matmul.naive_and_grouped import SIDES, code, counts\n"
        "assert code.benchmarks.x_vals == list(SIDES)[:-1]\n"
        "found = {side: counts(side) for side in code.benchmarks.x_vals}\n"
        "assert found['groups of 1, 64 bits']['rest'] > found['groups of 1, 32 bits']['rest'], found\n"
        "assert found['groups of 8, 32 bits']['rest'] == found['grouped.py']['rest'], found\n"
        "assert found['groups of 8, 64 bits']['rest'] > found['groups of 8, 32 bits']['rest'], found\n"
        "assert {(one['multiply'], one['copy']) for one in found.values()} == {(4, 8)}\n"
        "assert all(one['multiply'] + one['copy'] + one['rest'] == one['all'] for one in found.values())\n"
        "print(code.fn('naive.py', 'rest'), found['naive.py']['rest'])"
    )
    done = run_python("-c", code, env=environment("cuda"))
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1


def test_main_lists_every_benchmark(capsys):
    naive_and_grouped.main()
    assert [line.split(".")[0] for line in capsys.readouterr().out.splitlines()] == ["speed", "code"]


@pytest.mark.gpu
def test_rates():
    for median, low, high in naive_and_grouped.measure_speed(256).values():
        assert 0 < low <= median <= high < 2000
