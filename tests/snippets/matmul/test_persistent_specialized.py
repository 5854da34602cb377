# SPDX-License-Identifier: Apache-2.0
"""Warp specialization, an experiment: right in the interpreter; on a GPU some configs are not."""

from pathlib import Path

import pytest
import torch
from guards import check_each_once, environment, recorded_accesses

from snippets.matmul import persistent_measured, persistent_specialized
from snippets.matmul.persistent_specialized import specialized
from snippets.tools import benchmarking_cold
from tests.processes import run_code


def numbers(rows, columns, device, seed=0):
    """Whole numbers: every product in these tests is exact."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=random).to(device, torch.float16)


@pytest.mark.parametrize(
    "M, K, N, block",
    [
        (1, 8, 8, (16, 32, 64)),
        (70, 200, 104, (32, 16, 64)),
        (33, 24, 136, (16, 64, 32)),
        (150, 40, 24, (64, 32, 16)),
        (205, 24, 192, (16, 16, 32)),  # 156 tiles: each program takes two
    ],
)
def test_right_in_the_interpreter(M, K, N, block):
    a, b = numbers(M, K, "cpu"), numbers(K, N, "cpu", seed=1)
    with recorded_accesses() as accesses:
        out = specialized(a, b, block=block, num_stages=2)
    assert torch.equal(out, (a.double() @ b.double()).half())
    check_each_once(accesses, "store", out=out)


@pytest.mark.parametrize(
    "make, fragment",
    [
        (lambda: (numbers(8, 16, "cpu"), numbers(8, 16, "cpu")), "(M, K) and (K, N)"),
        (lambda: (numbers(8, 0, "cpu"), numbers(0, 8, "cpu")), "not empty"),
        (lambda: (numbers(8, 8, "cpu"), numbers(8, 8, "cpu").float()), "alike"),
        (lambda: (numbers(8, 8, "cpu").t(), numbers(8, 8, "cpu")), "a must be contiguous"),
        (lambda: (numbers(8, 8, "cpu"), numbers(8, 12, "cpu")), "b must be contiguous, with rows of 16 n bytes"),
    ],
)
def test_refuses(make, fragment):
    with pytest.raises(ValueError) as error:
        specialized(*make())
    assert fragment in str(error.value)


def test_says_that_it_needs_a_gpu():
    with pytest.raises(SystemExit, match="needs a Hopper GPU"):
        persistent_specialized.main()


def test_sides_differ_in_the_flag_and_in_warps(monkeypatch):
    from snippets.matmul import persistent

    launched, warps = [], persistent_specialized.warps
    rates = lambda sides, make, flops: {name: (run(*make()), flops) for name, run in sides.items()}
    monkeypatch.setattr(persistent_measured, "random_pair", lambda side: torch.ones(2, side, side).unbind())
    monkeypatch.setattr(persistent_specialized, "specialized", lambda a, b, **options: launched.append(options))
    monkeypatch.setattr(persistent, "matmul", torch.matmul)
    monkeypatch.setattr(benchmarking_cold, "rates", rates)
    persistent_specialized.measure.cache_clear()
    found = {side: warps.fn(8, side) for side in warps.benchmarks.line_vals}
    persistent_specialized.measure.cache_clear()
    assert launched == [{}, {"warp_specialize": False}, {"warp_specialize": False, "num_warps": 8}]
    assert all(flops == 2 * 8**3 for _, flops in found.values())


def test_the_flag_takes_effect_with_four_warps_only():
    """Compiled for an H200, without it: warps that are divided by task, or not, and shared memory that it has."""
    code = """
import torch
from snippets.matmul import persistent_specialized
from tests.snippets.launches import compiled_for
a = torch.empty(2048, 2048, dtype=torch.bfloat16)
with compiled_for("H200", persistent_specialized) as launches:
    for options in ({}, {"warp_specialize": False}, {"num_warps": 8}, {"warp_specialize": False, "num_warps": 8}):
        persistent_specialized.specialized(a, a, **options)
for launch in launches:
    print("ttg.warp_specialize" in launch.asm["ttgir"], launch.metadata.num_warps, launch.metadata.shared <= 232_448)
"""
    done = run_code(code, env=environment("cuda", OMP_NUM_THREADS="1"), cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True 12 True", "False 4 True", "False 8 True", "False 8 True"]


@pytest.mark.gpu
@pytest.mark.parametrize("M, K, N", [(1000, 512, 776), (2048, 1024, 512)])
@pytest.mark.parametrize("options", [{}, {"warp_specialize": False}, {"warp_specialize": False, "num_warps": 8}])
def test_right_on_a_gpu(M, K, N, options):
    a, b = numbers(M, K, "cuda"), numbers(K, N, "cuda", seed=1)
    assert torch.equal(specialized(a, b, **options), (a.double() @ b.double()).half())
