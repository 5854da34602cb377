# SPDX-License-Identifier: Apache-2.0
"""Whatever the hint, the result is the same, and memory is touched where it may be; most reach the compiled code."""

import contextlib
from pathlib import Path
from unittest import mock

import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    environment,
    recorded_accesses,
    without_memory,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.gpu import cache_hints as hints
from tests.processes import run_script

SOURCE = Path(hints.__file__)
HINTED = """
x = torch.zeros(64)
for load, store, policy in module.COPIES.values():
    module.copy_kernel[(1,)](x, x, 64, LOAD=load, STORE=store, POLICY=policy, BLOCK=module.BLOCK)
stream, keep, result = module.TABLES["all"]
hints = {"STREAM": stream, "KEEP": keep, "RESULT": result}
module.add_table_kernel[(1,)](x, x, x, 64, 1, BLOCK=module.BLOCK, **hints)
"""
POLICIES = st.sampled_from(hints.POLICIES)


def guarded(x, fill=0xFF):
    return Guarded.around(x, before=64, after=2 * hints.BLOCK, fill=fill)


@contextlib.contextmanager
def guarded_result(x):
    """Yield a guarded result and, in the interpreter, the list of accesses."""
    out = Guarded(x.shape, x.dtype, x.device, before=64, after=2 * hints.BLOCK, fill=0x5A)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor),
        recorded_accesses() if x.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        yield out, accesses


def check_copies(n, name, device):
    load, store, policy = hints.COPIES[name]
    x = guarded(torch.rand(n, device=device))
    with guarded_result(x.tensor) as (out, accesses):
        assert hints.copy(x.tensor, load=load, store=store, policy=policy) is out.tensor
    x.check("x"), out.check("the copy")
    check_same_bits(out.tensor, x.tensor)
    if accesses is not None:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)


@pytest.mark.parametrize("name", hints.COPIES)
@pytest.mark.parametrize("n", [0, 1, hints.BLOCK - 1, hints.BLOCK, 3 * hints.BLOCK + 1])
def test_copies(device, n, name):
    if n:
        check_copies(n, name, device)
    else:
        assert hints.copy(torch.empty(0, device=device)).shape == (0,)


@given(st.integers(1, 4), st.sampled_from([1, 5, hints.BLOCK, hints.BLOCK + 3]), POLICIES, POLICIES, POLICIES)
@settings(max_examples=20)
def test_adds_a_table_cpu(rows, columns, stream, keep, result):
    check_adds_a_table(rows, columns, stream, keep, result, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("stream, keep, result", hints.TABLES.values())
@pytest.mark.parametrize("rows, columns", [(1, 1), (7, 5000), (3, 4 * hints.BLOCK)])
def test_adds_a_table_gpu(rows, columns, stream, keep, result):
    check_adds_a_table(rows, columns, stream, keep, result, "cuda")


def check_adds_a_table(rows, columns, stream, keep, result, device):
    x, table = guarded(torch.rand(rows, columns, device=device)), guarded(torch.rand(columns, device=device))
    with guarded_result(x.tensor) as (out, accesses):
        assert hints.add_table(x.tensor, table.tensor, stream=stream, keep=keep, result=result) is out.tensor
    x.check("x"), table.check("table"), out.check("the sum")
    check_same_bits(out.tensor, x.tensor + table.tensor)
    if accesses is not None:
        check_inside(accesses, "load", x=x.tensor, table=table.tensor)
        check_each_once(accesses, "store", out=out.tensor)


def test_offsets_are_computed_in_64_bits():
    x, table, out = torch.zeros(3, 1)
    hint = {"STREAM": "", "KEEP": "", "RESULT": ""}
    with recorded_accesses(first_program=(2**23 + 1, 0, 0), memory=False) as seen:
        hints.add_table_kernel[(1,)](x, table, out, 2**10, 2, BLOCK=2**9, **hint)
    first = [(a[0] - t.data_ptr()) // 4 for (_, a), t in zip(seen, (x, table, out), strict=True)]
    assert first == [2**32 + 2**9, 2**9, 2**32 + 2**9]
    with recorded_accesses(first_program=(2**22, 0, 0), memory=False) as seen:
        hints.copy_kernel[(1,)](x, out, 2**32, LOAD="", STORE="", POLICY="", BLOCK=2**9)
    assert [(a[0] - t.data_ptr()) // 4 for (_, a), t in zip(seen, (x, out), strict=True)] == [2**31] * 2


def test_as_many_programs_as_cuda_has():
    with mock.patch.object(hints, "copy_kernel") as kernel:
        hints.copy(without_memory(hints.BLOCK * (2**31 - 1)))
        with pytest.raises(ValueError, match="too large"):
            hints.copy(without_memory(hints.BLOCK * (2**31 - 1) + 1))
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 1,))]
    with mock.patch.object(hints, "add_table_kernel") as kernel:
        for shape in ((2**31 - 1, 1), (1, 2**30 - 1)):
            hints.add_table(without_memory(*shape), without_memory(shape[1]))
        with pytest.raises(ValueError, match="x is too large"):
            hints.add_table(without_memory(2**31, 1), without_memory(1))
        with pytest.raises(ValueError, match="less than"):
            hints.add_table(without_memory(1, 2**30), without_memory(2**30))
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 1,)), mock.call((2**30 // hints.BLOCK,))]


def test_which_hints_reach_the_compiled_code():
    *copies, table = [hints.instructions(launch.ptx) for launch in compiled("gpu/cache_hints", HINTED)]
    plain = {"ld.global.v4.b32", "st.global.v4.b32"}
    for seen, name in zip(map(set, copies), hints.COPIES, strict=True):
        modifier = name.partition(" ")[2]
        if modifier == ".cv":  # accepted, and then left out
            assert seen == plain
        elif modifier:
            op = {"load": "ld", "store": "st"}[name.partition(" ")[0]]
            assert seen == {word for word in plain if not word.startswith(op)} | {f"{op}.global{modifier}.v4.b32"}
        elif name == "none":
            assert seen == plain
        else:
            assert {word.partition("L1::")[2].partition(".")[0] for word in seen} == {name}
    assert " ".join(table).count("evict_first") == 2 and " ".join(table).count("evict_last") == 1


def test_prints_equal(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    checked, _, compiled = done.stdout.partition("## compiled")
    assert len(checked.splitlines()) == 1 + len(hints.COPIES) + len(hints.TABLES)
    assert all(line.endswith(": equal") for line in checked.splitlines()[1:])
    assert len(compiled.splitlines()) == (3 + len(hints.COPIES) if device == "cuda" else 0)


def test_times_what_comes_after_the_preparation():
    happened = []
    event = mock.Mock(elapsed_time=mock.Mock(side_effect=[3.0, 1.0, 2.0]), record=lambda: happened.append("time"))
    with (
        mock.patch.object(torch.cuda, "Event", return_value=event),
        mock.patch.object(torch.cuda, "synchronize"),
        mock.patch.object(torch, "empty", return_value=mock.Mock(zero_=lambda: happened.append("fill"))),
    ):
        found = hints.milliseconds_from(lambda: happened.append("before"), lambda: happened.append("run"), calls=3)
    assert found == 2.0 and happened == ["run"] + ["before", "fill", "time", "run", "time"] * 3


def test_measures_without_hints_before_it_gives_any():
    asked = []

    def compare(sides, **options):
        asked.extend(sides)
        return {name: hints.Timing((1.0,)) for name in sides}

    hints.measure_tables.cache_clear()
    with (
        mock.patch.object(hints, "operands", lambda size: (torch.zeros(1, 1), torch.zeros(1))),
        mock.patch.object(hints, "compare", compare),
    ):
        found = hints.measure_tables()
    hints.measure_tables.cache_clear()
    assert asked == ["none", "torch"] * 6 + ["keep", "keep_result", "all"] * 6
    assert set(found) == {(size, side) for size in hints.SIZES for side in [*hints.TABLES, "torch"]}


@pytest.mark.gpu
def test_benchmarks_run():
    assert isinstance(hints.forget(), bool)
    x, table = torch.rand(8, 2**20, device="cuda"), torch.rand(2**20, device="cuda")
    for run in hints.sides_of(x, table).values():
        assert hints.forgotten(run, calls=3) > 0
