# SPDX-License-Identifier: Apache-2.0
"""The walk visits every line once, the kernels read and write what they should, and the levels show on a GPU."""

import contextlib
import os
from unittest import mock

import numpy as np
import pytest
import torch
from guards import (
    Guarded,
    as_if_compiled,
    check_each_once,
    check_inside,
    check_same_bits,
    recorded_accesses,
    without_memory,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.gpu import memory


@given(st.integers(1, 60), st.sampled_from([8, 16, 128]), st.integers(0, 9))
def test_a_cycle_goes_through_all_lines(lines, line_bytes, seed):
    following = memory.cycle(lines, line_bytes=line_bytes, device="cpu", seed=seed).tolist()
    assert len(following) == lines * line_bytes // 8
    i, visited = 0, []
    for _ in range(lines):
        i = following[i]
        visited.append(i)
    assert i == 0 and sorted(visited) == list(range(0, len(following), line_bytes // 8))


def test_a_cycle_is_in_no_order():
    steps = memory.cycle(1000, device="cpu")[::16] - torch.arange(0, 16_000, 16)
    assert len(steps.unique()) > 600  # a prefetcher that guesses the next distance would be wrong


@given(st.integers(1, 30), st.integers(0, 40), st.integers(1, 40), st.sampled_from(memory.MODIFIERS))
@settings(max_examples=25)
def test_chases_cpu(lines, warmup, steps, modifier):
    check_chases(lines, warmup, steps, modifier, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("modifier", memory.MODIFIERS)
@pytest.mark.parametrize("lines, warmup, steps", [(1, 0, 1), (100, 0, 100), (100, 33, 1000), (5000, 5000, 7)])
def test_chases_gpu(lines, warmup, steps, modifier):
    check_chases(lines, warmup, steps, modifier, "cuda")


def check_chases(lines, warmup, steps, modifier, device):
    made = memory.cycle(lines, line_bytes=16, device="cpu")
    following = Guarded.around(made.to(device), before=64, after=64, fill=0x7F)
    out = Guarded((3,), torch.int64, device, before=64, after=64, fill=0x5A)
    with (
        mock.patch.object(torch, "empty", return_value=out.tensor),
        recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses,
    ):
        assert memory.chase(following.tensor, steps, warmup=warmup, modifier=modifier) is out.tensor
    following.check("following"), out.check("the result")
    order = [0]
    for _ in range(warmup + steps):
        order.append(made[order[-1]].item())
    end, cycles, nanoseconds = out.tensor.tolist()
    assert end == order[-1]
    if device == "cpu":
        assert cycles == nanoseconds == 0
        loads = np.concatenate([addresses for op, addresses in accesses if op == "load"])
        assert ((loads - following.tensor.data_ptr()) // 8).tolist() == order[:-1]
        check_each_once(accesses, "store", out=out.tensor)
    else:
        assert cycles > 20 * steps and nanoseconds >= 0


@contextlib.contextmanager
def made_up_clocks(*readings):
    """Let ``clocks`` return these pairs, one after the other; and note what each waited for."""
    remaining, waited = iter(readings), []

    def clocks(after, TIMED):
        waited.append(int(after.handle.data.item()))
        cycles, nanoseconds = next(remaining)
        return after * 0 + cycles, after * 0 + nanoseconds

    with mock.patch.object(memory, "clocks", clocks):
        yield waited


@pytest.mark.parametrize("cycles, shift", [(2**62, 0), (-1, -1)])  # a clock is never negative, so never shifts
def test_the_clocks_are_read_between_the_walks(cycles, shift):
    following = torch.tensor([3, 0, 1, 4, 5, 2])  # 0 3 4 5 2 1 0
    with made_up_clocks((cycles, 1000), (cycles + 42, 1007)) as waited:
        assert memory.chase(following, 2, warmup=3).tolist() == [1 if shift == 0 else 2, 42, 7]
    assert waited == [5, 1 if shift == 0 else 2]


def test_the_clocks_are_read_around_the_multiply_adds():
    out = torch.zeros(3, dtype=torch.int64)
    with made_up_clocks((2**62, 1000), (2**62 + 42, 1007)) as waited:
        memory.add_up_kernel[(1,)](out, -1.0, 4.0, 1, TIMED=False)
    assert out.tolist() == [0, 42, 7] and waited == [1, 0]
    with made_up_clocks((-1, 0), (41, 1)) as waited:
        memory.add_up_kernel[(1,)](out, 2.0, -1.0, 1, TIMED=False)
    assert out.tolist() == [1 - 2**17, 42, 1] and waited == [1, 2**17 - 1]


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 4, 16]), st.integers(1, 3))
@settings(max_examples=20)
def test_sums_and_copies_cpu(programs, blocks, block, passes):
    check_sums_and_copies(programs, blocks, block, passes, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("programs, blocks, block, passes", [(1, 1, 1024, 1), (132, 3, 8192, 2), (300, 2, 2048, 5)])
def test_sums_and_copies_gpu(programs, blocks, block, passes):
    check_sums_and_copies(programs, blocks, block, passes, "cuda")


def check_sums_and_copies(programs, blocks, block, passes, device):
    x = torch.randint(-8, 9, (programs * blocks * block,), device=device).float()  # every sum is exact
    x = Guarded.around(x, before=64, after=2 * block, fill=0xFF)
    for function, shape, name in ((memory.sums, (programs,), "empty"), (memory.copy, x.tensor.shape, "empty_like")):
        out = Guarded(shape, torch.float32, device, before=64, after=2 * block, fill=0x5A)
        with (
            mock.patch.object(torch, name, return_value=out.tensor),
            recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses,
        ):
            assert function(x.tensor, programs, passes=passes, block=block) is out.tensor
        x.check("x"), out.check("the result")
        expected = x.tensor if function is memory.copy else passes * x.tensor.view(programs, -1).sum(dim=1)
        check_same_bits(out.tensor, expected.clone())
        if accesses is not None:
            loads = check_inside(accesses, "load", x=x.tensor)
            assert (np.unique(loads, return_counts=True)[1] == passes).all() and len(loads) == passes * x.tensor.numel()
            check_inside(accesses, "store", out=out.tensor)


def test_offsets_are_computed_in_64_bits():
    x, out = torch.zeros(2, 8)
    for kernel, options in ((memory.sums_kernel, {"MODIFIER": ""}), (memory.copy_kernel, {})):
        with recorded_accesses(first_program=(2**21, 0, 0), memory=False) as seen:
            kernel[(1,)](x, out, 2**11, 1, BLOCK=2**10, **options)
        assert [(a[0] - x.data_ptr()) // 4 for op, a in seen if op == "load"] == [2**32, 2**32 + 2**10]
        stores = [(a[0] - out.data_ptr()) // 4 for op, a in seen if op == "store"]
        assert stores == ([2**21] if options else [2**32, 2**32 + 2**10])


def test_multiply_adds_in_the_interpreter():
    out = torch.full((3,), 7)
    memory.add_up_kernel[(1,)](out, 1.0, 2.0, 3, TIMED=False)
    assert out.tolist() == [16 * 3 * 2, 0, 0]
    memory.add_up_kernel[(1,)](out, 2.0, 1.0, 1, TIMED=False)
    assert out.tolist() == [2**16 - 1, 0, 0]


@pytest.mark.parametrize("lines, line_bytes", [(0, 128), (3, 4), (3, 12)])
def test_refuses_a_cycle_of(lines, line_bytes):
    with pytest.raises(ValueError, match=f"got {lines} and {line_bytes}"):
        memory.cycle(lines, line_bytes=line_bytes, device="cpu")


def test_serves_what_is_at_the_limits():
    most = 2**31 - 1
    for n, programs, passes, block in ((most, most, most, 1), (most, 1, 1, 1), (2**16, 1, 1, 2**16)):
        memory.check_parts(without_memory(n), programs, passes, block)
    with pytest.raises(ValueError, match="a part has"):
        memory.check_parts(without_memory(2**31), 1, 1, 1)


def test_where_compiled_kernels_can_read():
    pinned, pageable = (mock.Mock(is_cuda=False, is_pinned=lambda p=p: p, device="cpu") for p in (True, False))
    with as_if_compiled(memory, "chase_kernel") as on_gpu:
        memory.check_place("x", on_gpu(3)), memory.check_place("x", pinned, pinned=True)
        for x, allowed, said in ((pinned, False, "on a GPU$"), (pageable, True, "or pinned"), (pageable, False, "cpu")):
            with pytest.raises(ValueError, match=said):
                memory.check_place("x", x, pinned=allowed)


@pytest.mark.parametrize(
    "size, expected",
    [(2**12, (32, 2**15, 32)), (2**27, (2**20, 2**20, 2**20)), (2**28, (2**21, 2**20, 0)), (2**36, (2**25, 2**20, 0))],
)
def test_walks_once_beforehand_what_may_fit_a_cache(size, expected):
    lines, steps, warmup = expected
    made = mock.Mock()
    with (
        mock.patch.object(memory, "cycle", return_value=made) as cycle,
        mock.patch.object(memory, "chase", return_value=torch.tensor([0, 5 * steps, 3 * steps])) as chase,
    ):
        assert memory.walk_through(size, ".cg", times=2) == [(5, 3)] * 2
    assert cycle.call_args == mock.call(lines, line_bytes=size // lines)
    assert chase.call_args_list == [mock.call(made, steps, warmup=warmup, modifier=".cg")] * 2


@pytest.mark.gpu
def test_levels_are_far_apart():
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("other processes on the GPU, such as other tests, take its caches and its time")
    cycles = [memory.walk_through(size)[0][0] for size in (2**14, 2**23, 2**28)]
    assert 20 < cycles[0] < cycles[1] / 3 < cycles[2] / 5
    assert memory.walk_through(2**14, ".cg")[0][0] > 3 * cycles[0], "past L1"
    assert 2 < memory.registers_latency()[0][0] < cycles[0] / 3
    assert memory.host_latency(times=1, steps=100)[0][0] > cycles[2]


@pytest.mark.gpu
def test_reads_pinned_memory():
    following = memory.cycle(100, device="cpu").pin_memory()
    assert memory.chase(following, 100)[0].item() == 0
    with pytest.raises(ValueError, match="or pinned"):
        memory.chase(memory.cycle(100, device="cpu"), 100)
