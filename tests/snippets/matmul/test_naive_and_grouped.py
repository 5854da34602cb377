# SPDX-License-Identifier: Apache-2.0
"""naive_and_grouped: all variants are the same product, and what is counted is the loop that multiplies."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, environment, precisions_of_dots, recorded_accesses

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


@pytest.mark.parametrize("variant", naive_and_grouped.VARIANTS)
@pytest.mark.parametrize("M, N, K", [(5, 9, 33), (3, 17, 1), (25, 9, 2), (2, 3, 0), (0, 1, 2)])
@pytest.mark.parametrize("views", [("rows", "columns"), ("gaps", "gaps")], ids="-".join)
def test_is_the_product(device, variant, M, N, K, views):
    tile = SMALL if device == "cpu" else {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
    a, b = torch.randint(-3, 4, (M, K)).float().to(device), torch.randint(-3, 4, (K, N)).float().to(device)
    expected, a, b = a @ b, among_nans(a, views[0]), among_nans(b, views[1])
    out = Guarded((M, N), torch.float32, device, before=64, after=64, fill=0x5A)
    recorded = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with recorded as accesses, mock.patch.object(torch, "empty", return_value=out.tensor):
        c = naive_and_grouped.matmul(a, b, variant, tile)
    assert torch.equal(c, expected)
    out.check("c")
    if accesses is not None:
        check_inside(accesses, "load", a=a, b=b)
        check_each_once(accesses, "store", c=out.tensor)


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
    done = run_python("-c", code, env=environment("cuda"), timeout=110)
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1


def test_main_lists_every_benchmark(capsys):
    naive_and_grouped.main()
    assert [line.split(".")[0] for line in capsys.readouterr().out.splitlines()] == ["speed", "code"]


@pytest.mark.gpu
def test_rates():
    for median, low, high in naive_and_grouped.measure_speed(256).values():
        assert 0 < low <= median <= high < 2000
