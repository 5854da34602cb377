# SPDX-License-Identifier: Apache-2.0
"""Warp specialization, an experiment: right in the interpreter; on a GPU some configs are not."""

import pytest
import torch
from guards import check_each_once, recorded_accesses

from snippets.matmul import persistent_specialized
from snippets.matmul.persistent_specialized import specialized


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


@pytest.mark.gpu
@pytest.mark.parametrize("M, K, N", [(1000, 512, 776), (2048, 1024, 512)])
@pytest.mark.parametrize("warp_specialize", [False, True])
def test_right_on_a_gpu(M, K, N, warp_specialize):
    a, b = numbers(M, K, "cuda"), numbers(K, N, "cuda", seed=1)
    assert torch.equal(specialized(a, b, warp_specialize=warp_specialize), (a.double() @ b.double()).half())
