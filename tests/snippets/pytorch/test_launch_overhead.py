# SPDX-License-Identifier: Apache-2.0
"""A prepared launch gives what the function gives; a replay sees what the page says that it sees, and nothing else."""

import contextlib
from pathlib import Path

import pytest
import torch
import triton
from guards import Guarded, check_each_once, environment, recorded_accesses
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.pytorch import launch_overhead as snippet
from snippets.pytorch.compile import plain
from tests.processes import run_script

INTERPRETED = not torch.cuda.is_available()
SEEN = {
    "a tensor, written in place", "a number in a tensor", "a seed in a tensor", "the state of torch.rand",
    "a descriptor's tensor, written in place",
}  # fmt: skip


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1024, 1040])
def test_what_was_prepared_launches_on_other_tensors(columns):
    x, weight = torch.rand(4, columns, device="cuda"), torch.rand(columns, device="cuda")
    launch = snippet.prepare(x, weight)
    other, out = torch.rand(4, columns, device="cuda"), torch.empty(4, columns, device="cuda")
    launch(other, weight, out)
    assert torch.equal(out, plain(other, weight))


@pytest.mark.gpu
@pytest.mark.parametrize("what", snippet.FROZEN)
def test_what_a_replay_sees(what):
    assert snippet.FROZEN[what]() == (what in SEEN)


@pytest.mark.gpu
def test_the_rest_goes_wrong_as_the_page_says():
    assert snippet.after_it_was_freed() == 42
    assert "misaligned address" in snippet.last_line("unaligned")
    assert snippet.writes_elsewhere(kept=True) and not snippet.writes_elsewhere(kept=False)


@pytest.mark.parametrize("within", [False, True])
def test_a_number_is_added_through_a_descriptor(device, within):
    x = torch.arange(16.0, device=device)
    if within:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=device))
        found = snippet.add_describing(x, 2.5)
    else:
        found = snippet.add_described(TensorDescriptor.from_tensor(x, [16]), 2.5)
    assert torch.equal(found, x + 2.5)


@pytest.mark.parametrize("n", [1, 5, 16])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_number_is_added(device, loaded, n):
    x, out = (Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF) for _ in range(2))
    x.tensor.copy_(torch.randn(n))
    number = torch.tensor(2.5, device=device) if loaded else 2.5
    kernel = snippet.add_loaded_kernel if loaded else snippet.add_number_kernel
    with recorded_accesses() if INTERPRETED else contextlib.nullcontext() as accesses:
        kernel[(1,)](x.tensor, out.tensor, number, n, BLOCK=16)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor, **({"number": number} if loaded else {}))
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor + 2.5) and torch.equal(snippet.add_number(x.tensor, number), out.tensor)


@pytest.mark.parametrize("kernel", [snippet.add_number_kernel, snippet.add_loaded_kernel])
def test_a_program_adds_its_own_block(device, kernel):
    x, out = torch.arange(40.0, device=device), torch.zeros(40, device=device)
    kernel[(3,)](x, out, torch.tensor(1.0, device=device) if kernel is snippet.add_loaded_kernel else 1.0, 40, BLOCK=16)
    assert torch.equal(out, x + 1)


@pytest.mark.parametrize("given", [7, torch.tensor(7)], ids=["number", "tensor"])
def test_noise_is_that_of_the_seed_and_the_place(device, given):
    seed = given.to(device) if isinstance(given, torch.Tensor) else given
    kernel = snippet.noise_loaded_kernel if isinstance(given, torch.Tensor) else snippet.noise_kernel
    out = Guarded((40,), torch.float32, device, before=64, after=64, fill=0xFF)
    kernel[(3,)](out.tensor, seed, 40, BLOCK=16)
    out.check("out")
    wide = Guarded((64,), torch.float32, device, before=0, after=0, fill=0xFF).tensor
    snippet.noise_kernel[(1,)](wide, 7, 64, BLOCK=64)
    assert torch.equal(out.tensor, wide[:40]) and len({*wide.tolist()}) == 64
    few = torch.zeros(16, device=device)
    assert torch.equal(snippet.noise(few, seed), wide[:16]) and torch.equal(few, torch.zeros_like(few))


