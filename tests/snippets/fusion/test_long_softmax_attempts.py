# SPDX-License-Identifier: Apache-2.0
"""Each attempt gives the shares of torch in float64, whatever rows, columns and parts; nothing else is touched; whoever
waits, waits for what can come; the table from made-up times. On a GPU: the same at real sizes, and in graphs."""

import contextlib
import dataclasses
import math
import re
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
import triton.language as tl
from compiled import compiled
from guards import Guarded, as_if_compiled, environment, handed_out, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.fusion import long_softmax_attempts as snippet
from snippets.fusion.long_softmax import Plan
from snippets.fusion.long_softmax_attempts import (
    ATTEMPTS,
    BACKWARDS,
    Attempt,
    backward_by,
    hear,
    numerators,
    say_sum,
    softmax_by,
)
from snippets.tools.benchmarking import Timing
from tests.processes import run_script

SOURCE = Path(snippet.__file__)
WAYS = {
    "delayed by 0": Attempt("delayed", 8, 1),
    "delayed by 2": Attempt("delayed", 8, 1, delay=2),
    "delayed by 9, hints": Attempt("delayed", 8, 1, delay=9, hints=True),
    "held": Attempt("held", 16, 1),
    "persistent": Attempt("persistent", 16, 1),
    "persistent, more groups": Attempt("persistent", 16, 1, per_multiprocessor=3),
}
ways = pytest.mark.parametrize("way", WAYS)


def numbers(rows, columns, dtype, device, scale=3.0, start=0.0, seed=0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, columns, generator=random, dtype=torch.float64) * scale + start).to(device, dtype)


def check(y, x):
    exact = torch.softmax(x.double(), dim=-1)
    assert (y.shape, y.dtype, y.is_contiguous()) == (x.shape, x.dtype, True)
    stored = torch.finfo(x.dtype)
    low, high = x.double().aminmax(dim=-1, keepdim=True) if x.numel() else (0, 0)
    allowed = (stored.eps + 1.2e-7 * (3 * x.shape[-1] + 16 + 4 * (high - low))) * exact + stored.tiny
    assert ((y.double() - exact).abs() <= allowed).all()


@ways
@settings(max_examples=15)
@example(7, 33, 3.0, 0.0, 0, torch.float32)
@example(2, 64, 40.0, -1000.0, 0, torch.float32)
@example(5, 1, 0.0, 0.0, 0, torch.float16)
@given(
    rows=st.integers(0, 5), columns=st.integers(0, 41), scale=st.sampled_from([0.0, 3.0, 40.0]),
    start=st.sampled_from([0.0, -1000.0, 1000.0]), seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float16, torch.float32]),
)  # fmt: skip
def test_as_torch_computes_it_in_float64(device, way, rows, columns, scale, start, seed, dtype):
    x = numbers(rows, columns, dtype, device, scale, start, seed)
    check(softmax_by(x, WAYS[way]), x)


def seen(device):
    return recorded_accesses() if device == "cpu" else contextlib.nullcontext([])


def only_inside(accesses, op, *tensors):
    """Loads and stores; atomics are not recorded."""
    ranges = [(x.data_ptr(), x.data_ptr() + x.nbytes) for x in tensors]
    for kind, addresses in accesses:
        for at in addresses.tolist() if kind == op else ():
            assert any(begin <= at < end for begin, end in ranges)


@ways
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 41])
def test_nothing_else_is_touched(device, way, columns):
    rows, by = 4, WAYS[way]
    x, out = (Guarded((rows, columns), torch.float32, device, before=64, after=64, fill=0xFF) for _ in range(2))
    x.tensor.copy_(numbers(rows, columns, torch.float32, device))
    words = rows * triton.cdiv(columns, by.block) + 1
    said = Guarded((words,), torch.int64, device, before=16, after=16, fill=0xFF)
    said.tensor.zero_()
    made = mock.patch.object(torch, "empty_like", lambda x: out.tensor)
    with made, handed_out("zeros", said.tensor), seen(device) as accesses:
        assert softmax_by(x.tensor, by) is out.tensor
    only_inside(accesses, "load", x.tensor, said.tensor)
    only_inside(accesses, "store", out.tensor)
    check(out.tensor, x.tensor)
    for buffer in (x, out, said):
        buffer.check("a tensor")
    assert said.tensor[:-1].all(), "all have spoken"
    parts, tickets = triton.cdiv(columns, by.block), said.tensor[-1:].view(torch.int32).tolist()
    started = {"delayed": (rows + by.delay) * 2 * parts, "held": rows * parts, "persistent": 0}
    assert tickets == [started[by.way], 0], "each program has drawn one"


@ways
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, 0 / 0
def test_infinities_and_nan_as_in_torch(device, way):
    inf, nan = math.inf, math.nan
    specials = [
        [-inf] * 40, [-inf] * 39 + [2.0], [-inf] * 17 + [0.0] * 23, [0.0] * 40, [0.0] * 39 + [inf],
        [nan] + [0.0] * 39, [-inf] * 39 + [nan], [-3.4e38] * 40, [3.4e38] + [-3.4e38] * 39, [-0.0] * 40,
    ]  # fmt: skip
    x = torch.tensor(specials, device=device)
    found = softmax_by(x, WAYS[way])
    assert torch.allclose(found.double(), torch.softmax(x.double(), dim=-1), equal_nan=True, rtol=1e-5)


BACK = {name: by for name, by in WAYS.items() if by.way != "delayed"}


@pytest.mark.parametrize("way", BACK)
@settings(max_examples=15)
@given(rows=st.integers(0, 5), columns=st.integers(0, 41), seed=st.integers(0, 99))
def test_the_gradient_is_that_of_torch_in_float64(device, way, rows, columns, seed):
    grad, x = (numbers(rows, columns, torch.float32, device, seed=seed + i) for i in range(2))
    y = torch.softmax(x, dim=-1)
    found, products = backward_by(grad, y, BACK[way]), grad.double() * y
    assert found.shape == y.shape and found.is_contiguous()
    assert torch.allclose(found.double(), y * (grad - products.sum(dim=-1, keepdim=True)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", BACK)
@pytest.mark.parametrize("columns", [1, 16, 41])
def test_the_backward_touches_nothing_else(device, way, columns):
    rows, by = 6, BACK[way]
    made = [Guarded((rows, columns), torch.float32, device, before=64, after=64, fill=0xFF) for _ in range(3)]
    grad, y, grad_x = (each.tensor for each in made)
    grad.copy_(numbers(rows, columns, torch.float32, device))
    y.fill_(1 / columns)
    said = torch.zeros(rows * triton.cdiv(columns, by.block) + 1, dtype=torch.int64, device=device)
    given_out = mock.patch.object(torch, "empty_like", lambda _: grad_x)
    with given_out, handed_out("zeros", said), seen(device) as accesses:
        assert backward_by(grad, y, by) is grad_x
    only_inside(accesses, "load", grad, y, said)
    only_inside(accesses, "store", grad_x)
    assert torch.allclose(grad_x, (grad - grad.mean(dim=1, keepdim=True)) / columns, atol=1e-6)
    for each in made:
        each.check("a tensor")


@contextlib.contextmanager
def words_nowhere(ticket):
    """Inside of ``recorded_accesses(memory=False)``: words are not written. Tickets are drawn."""
    from triton.runtime.interpreter import interpreter_builder as builder

    change = builder.create_atomic_rmw

    def changed(op, pointers, value, *rest):
        drawn = (pointers.data.astype("int64") == ticket.data_ptr()).all()
        return change(op, pointers, value, *rest) if drawn else value

    with mock.patch.object(builder, "create_atomic_rmw", changed):
        yield


FAR, COLUMNS = 2**20 + 1, 2**11  # a row whose numbers begin beyond 2**31, and how many it has


def rows_touched(kernel, given, counts, program=0, ticket=None, **options):
    """The rows at whose beginning a program loads from each of ``given``, and those where it stores; tensors are told
    of more elements than there are."""
    out, said, tickets = torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.tensor([ticket or 0]).int()
    drawn = [] if ticket is None else [tickets]
    options |= {"LOWEST": -3e38, "BLOCK": 8, "WORDS": 1}
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as accesses, words_nowhere(tickets):
        kernel[(1,)](*given, out, said, *drawn, *counts, **options)
    firsts = [(op, int(at[0])) for op, at in accesses if len(at)]
    rows = lambda kind, of: {(at - of.data_ptr()) / 4 / COLUMNS for op, at in firsts if op == kind}
    return [rows("load", each) for each in given], rows("store", out)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: loads yield -infinity alone
@pytest.mark.parametrize("step", ["", "_backward"])
def test_offsets_are_computed_in_64_bits(step):
    given = [torch.zeros(1) for _ in range(2 if step else 1)]
    loads, stores = rows_touched(getattr(snippet, f"held{step}_kernel"), given, (COLUMNS, 1), ticket=FAR)
    assert all(FAR in each for each in loads) and FAR in stores
    counts = FAR + 2, COLUMNS, 1, 1
    loads, stores = rows_touched(getattr(snippet, f"persistent{step}_kernel"), given, counts, program=FAR)
    assert all({FAR, FAR + 1} <= each for each in loads) and {FAR, FAR + 1} <= stores


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("second", [False, True])
def test_offsets_of_delayed_passes_are_computed_in_64_bits(second):
    counts = FAR + 1, COLUMNS, 1, 0
    [loads], stores = rows_touched(
        snippet.delayed_kernel, [torch.zeros(1)], counts, ticket=2 * FAR + second, FIRST="", SECOND=""
    )
    assert FAR in loads and (FAR in stores) == second


def test_a_thread_gets_no_more_registers_than_there_are():
    assert snippet.options_of(1, Attempt("persistent", 16, 1))["maxnreg"] == 248
    assert snippet.options_of(1, Attempt("persistent", 16, 8, per_multiprocessor=3))["maxnreg"] == 80
    assert "maxnreg" not in snippet.options_of(1, Attempt("held", 16, 1))


def test_more_parts_than_a_warp_reads_at_once(device):
    x = numbers(2, 40, torch.float32, device)
    x[1, 35:] += 20
    check(softmax_by(x, Attempt("delayed", 1, 1)), x)


@ways
def test_every_run_gives_the_same_bits(device, way):
    x = numbers(2 if device == "cpu" else 5, 37, torch.float32, device)
    assert torch.equal(softmax_by(x, WAYS[way]), softmax_by(x, WAYS[way]))


# Waiting


def test_a_second_pass_waits_for_smaller_tickets_alone():
    """The interpreter runs them in order, in one launch, so a ticket that waited for a larger one would never end."""
    with mock.patch.object(snippet.torch.Tensor, "fill_", mock.Mock(side_effect=AssertionError)):
        x = numbers(4, 20, torch.float32, "cpu")
        for delay in range(6):
            check(softmax_by(x, Attempt("delayed", 8, 1, delay=delay)), x)


def test_waits_for_a_word_that_comes_late():
    """The second of three words is 0 when it is read for the first time, and for the second."""
    from triton.runtime.interpreter import interpreter_builder as builder

    x, said = numbers(1, 20, torch.float32, "cpu"), torch.zeros(4, dtype=torch.int64)
    load, reads = builder.create_masked_load, []

    def late(pointers, *rest):
        found, at = load(pointers, *rest), pointers.data.ravel()[0]
        if at == said.data_ptr():
            reads.append(found.data.copy())
            found.data[1] *= len(reads) > 2
        return found

    with handed_out("zeros", said), mock.patch.object(builder, "create_masked_load", late):
        check(softmax_by(x, Attempt("delayed", 8, 1)), x)
    assert len(reads) == 3 + 2, "one program of three reads them three times"


@triton.jit
def hear_kernel(said_ptr, out_ptr, parts, LOWEST: tl.constexpr, WORDS: tl.constexpr):
    maximum, total = hear(said_ptr, parts, LOWEST, WORDS)
    tl.store(out_ptr, maximum)
    tl.store(out_ptr + 1, total)


def words(maxima: torch.Tensor, totals: torch.Tensor) -> torch.Tensor:
    high, low = (x.view(torch.int32).long() for x in (maxima, totals))
    return high << 32 | low & 0xFFFFFFFF


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_what_is_heard_two_at_a_time(parts):
    """A maximum that grows takes what was summed before along; the word behind the last one is not waited for."""
    from triton.runtime.interpreter import interpreter_builder as builder

    maxima, totals = torch.tensor([-3.0, -1.5, 0.25, 2.0, 1.0])[:parts], torch.tensor([4.0, 3.5, 0.5, 7.0, 2.0])[:parts]
    said = Guarded.around(words(maxima, totals), before=64, after=64, fill=0xFF)
    out, read = torch.empty(2), set()

    def late(pointers, *rest):
        found, at = load(pointers, *rest), int(pointers.data.ravel()[0])
        if at not in read:
            read.add(at)
            found.data[0] = 0  # not there at the first look
        return found

    with recorded_accesses() as accesses:
        load = builder.create_masked_load  # which notes what it is asked
        with mock.patch.object(builder, "create_masked_load", late):
            hear_kernel[(1,)](said.tensor, out, parts, LOWEST=-1e30, WORDS=2)
    exact = (totals.double() * (maxima.double() - maxima.double().max()).exp()).sum()
    assert out[0] == maxima.max() and abs(out[1] / exact - 1) < 1e-6
    assert len(accesses) == 2 * triton.cdiv(parts, 2) + 2, "each word twice, and two stores"
    only_inside(accesses, "load", said.tensor)


@triton.jit
def numerators_kernel(x_ptr, out_ptr, LOWEST: tl.constexpr, BLOCK: tl.constexpr):
    _, _, total = numerators(tl.load(x_ptr + tl.arange(0, BLOCK)), LOWEST)
    tl.store(out_ptr, total)


def test_a_sum_of_16_bits_is_taken_in_32(device):
    x, out = numbers(1, 4096, torch.float16, device)[0], torch.empty(1, device=device)
    numerators_kernel[(1,)](x, out, LOWEST=-1e30, BLOCK=4096)
    exact = (x.double() - x.double().max()).exp().sum()
    assert abs(out[0].double() / exact - 1) < 1e-5


@triton.jit
def say_sum_kernel(said_ptr, out_ptr):
    say_sum(said_ptr, tl.zeros((4,), tl.float32))
    _, total = hear(said_ptr, 1, 1.0, 1)
    tl.store(out_ptr, total)


def test_a_sum_of_zero_is_a_word_all_the_same(device):
    """A word of 0 would be waited for."""
    said, out = torch.full((1,), 7, dtype=torch.int64, device=device), torch.full((1,), 7.0, device=device)
    say_sum_kernel[(1,)](said, out)
    assert said[0] not in (0, 7) and out[0] == 0


def test_in_the_interpreter_held_parts_are_launched_twice():
    said, ticket = torch.zeros(3, dtype=torch.int64), torch.full((2,), 7, dtype=torch.int32)
    seen = []
    for number in snippet.launches(said, ticket, "held"):
        seen.append((number, said.tolist(), ticket.tolist()))
        said.fill_(5)
        ticket.fill_(6)
    assert seen == [(1, [1, 1, 1], [0, 0]), (2, [5, 5, 5], [0, 0])]
    said.zero_()
    assert list(snippet.launches(said, ticket, "delayed")) == [1] and not said.any()
    with as_if_compiled(snippet, "held_kernel"):
        assert list(snippet.launches(said, ticket, "held")) == [1] and not said.any()


@dataclasses.dataclass
class Gpu:
    multi_processor_count: int = 132


def test_no_more_wait_than_surely_run_at_once():
    of_gpu = mock.patch.object(snippet.torch.cuda, "get_device_properties", lambda _: Gpu())
    with as_if_compiled(snippet, "held_kernel") as on_gpu, of_gpu:
        for way, most in (("held", 132), ("persistent", 264)):
            by = Attempt(way, 1024, 4, per_multiprocessor=2)
            snippet.check(on_gpu(1, most * 1024), by)
            with pytest.raises(ValueError, match=f"{most + 1} parts of a row must run at once, and {most} programs"):
                snippet.check(on_gpu(1, most * 1024 + 1), by)
        snippet.check(on_gpu(1, 2**20), Attempt("delayed", 1024, 4))


def test_persistent_programs_are_launched_together_and_fit():
    """Registers of all of them: no more than a multiprocessor has."""
    with (
        mock.patch.object(snippet, "interpreted", lambda: False),
        mock.patch.object(snippet, "check"),
        mock.patch.object(snippet.torch.cuda, "get_device_properties", lambda _: Gpu()),
        mock.patch.object(snippet, "persistent_kernel") as kernel,
    ):
        for by in (by for by in ATTEMPTS.values() if by.way == "persistent"):
            for rows, columns in snippet.SHAPES:
                kernel.reset_mock()
                softmax_by(without_memory(rows, columns), by)
                parts = columns // by.block
                groups = min(132 * by.per_multiprocessor // parts, rows)
                kernel.__getitem__.assert_called_once_with((groups * parts,))
                options = kernel.__getitem__.return_value.call_args.kwargs
                assert options["launch_cooperative_grid"] is True
                assert options["maxnreg"] % 8 == 0, "else CUDA rounds it up"
                assert 60000 < options["maxnreg"] * 32 * by.num_warps * by.per_multiprocessor <= 65536


COMPILED = """
from types import SimpleNamespace

module.check = lambda *_: None
torch.cuda.get_device_properties = lambda _: SimpleNamespace(multi_processor_count=132)
x = torch.empty(1, 2**18, dtype=torch.bfloat16)
for name in NAMES:
    module.softmax_by(x, module.ATTEMPTS[name])
for by in module.BACKWARDS.values():
    module.backward_by(x, x, by)
"""


def test_compiles_to_wide_loads_and_waits_without_a_barrier():
    """For an H200, without one. Threads that wait in a loop may leave it in different turns: a barrier in the loop
    would hang. And the next row is on its way before the waiting begins."""
    names = ["delayed by 33 rows, with hints", "held, 4,096 columns"]
    names += ["persistent, 4,096 columns", "persistent, 8,192 columns, 8 warps", "persistent, 16,384 columns"]
    launches = compiled("fusion/long_softmax_attempts", COMPILED.replace("NAMES", str(names)))
    cases = [(name, ATTEMPTS[name], "") for name in names]
    cases += [(name, by, "_backward") for name, by in BACKWARDS.items()]
    for (name, by, step), launch in zip(cases, launches, strict=True):
        assert (launch.kernel, launch.spills) == (f"{by.way}{step}_kernel", 0), name
        wide = {"LDG.E.128", "LDG.E.64.STRONG.SYS", "STG.E.128"}
        if by.hints:
            wide = {"LDG.E.64.STRONG.SYS", "LDG.E.EF.128", "LDG.E.EL.128", "STG.E.EF.128"}  # evict first, evict last
        assert set(re.findall(r"(?:LDG|STG)[.A-Z0-9]*", launch.sass)) == wide, name
        lines = []  # the instructions that matter and the labels, each with the label that it names
        for line in launch.sass.splitlines():
            if found := re.search(r"LDG.E.64.STRONG|LDG.E.128|BAR.SYNC|ATOMG.E.EXCH|BRA `|^\.L_x_[0-9]+", line):
                lines.append((found[0], next(iter(re.findall(r"\.L_x_[0-9]+", line)), None)))
        polls = [at for at, (what, _) in enumerate(lines) if what == "LDG.E.64.STRONG"]
        assert len(polls) == 2, "one before the loop, one in it"
        begins = {label: at for at, (what, label) in enumerate(lines) if what == label}
        loops = [
            (begins[label], at)
            for at, (what, label) in enumerate(lines)
            if what == "BRA `" and begins.get(label, at) < at
        ]
        begin, end = min((loop for loop in loops if loop[0] < polls[1] < loop[1]), key=lambda loop: loop[1] - loop[0])
        assert "BAR.SYNC" not in [what for what, _ in lines[begin:end]], name
        if by.way == "persistent":
            spoken = next(at for at, (what, _) in enumerate(lines) if what == "ATOMG.E.EXCH")
            assert "LDG.E.128" in [what for what, _ in lines[spoken:begin]], name


# What is refused


@pytest.mark.parametrize(
    "make, by, fragment",
    [
        (lambda x: x.t(), {}, r"x must be contiguous, of two axes and of one of torch.float16"),
        (lambda x: x[0], {}, r"got shape \(3,\)"),
        (lambda x: x.double(), {}, "torch.float64"),
        (lambda x: x.to("meta"), {}, "x is on meta; kernels run on"),
        (lambda x: x, {"way": "split"}, "way must be delayed, held or persistent; got 'split'"),
        (lambda x: x, {"delay": -1}, "delay must be 0 or more; got -1"),
        (lambda x: x, {"delay": 2**30}, "2 rows of 3 columns are too many for one launch"),
        (lambda x: x.repeat(1, 22), {"way": "held"}, "5 parts of a row must run at once, and 4 programs are sure to"),
    ],
)
def test_refuses(make, by, fragment):
    with pytest.raises(ValueError, match=fragment):
        softmax_by(make(torch.ones(2, 3)), Attempt("delayed", 16, 1)._replace(**by))


@pytest.mark.parametrize(
    "grad, by",
    [
        (torch.ones(2, 4), Attempt("held", 16, 1)),
        (torch.ones(2, 3).half(), Attempt("held", 16, 1)),
        (torch.ones(2, 3), Attempt("delayed", 16, 1)),
        (torch.ones(3, 2).t(), Attempt("held", 16, 1)),
    ],
)
def test_the_backward_refuses(grad, by):
    with pytest.raises(ValueError, match=r"grad and y must be alike, and the way not delayed|x must be contiguous"):
        backward_by(grad, torch.ones(2, 3), by)


# What is measured


@pytest.fixture
def made_up(monkeypatch):
    """The copy takes 1 ms, the first pass 0.5, others 2."""
    seen = []

    def compared(sides, make, rounds):
        seen.append((list(sides), [tuple(x.shape) for x in make()], rounds))
        takes = {"copy": (1, 1.25, 0.5), "first pass alone": (0.5, 0.5, 0.5)}
        return {name: Timing(takes.get(name, (2, 2, 2))) for name in sides}

    no_memory = lambda *shape, **options: torch.empty(*shape, device="meta", dtype=options["dtype"])
    monkeypatch.setattr(snippet.torch, "randn", no_memory)
    monkeypatch.setattr(snippet, "check_alike", lambda sides, given, expected: seen.append((list(sides), expected)))
    monkeypatch.setattr(snippet, "compare_in_rotation", compared)
    snippet.measure.cache_clear(), snippet.measure_backward.cache_clear()
    yield seen
    snippet.measure.cache_clear(), snippet.measure_backward.cache_clear()


def test_the_table(made_up):
    marks = snippet.attempts.benchmarks
    cells = {side: {line: snippet.attempts.fn(side, line) for line in marks.line_vals} for side in marks.x_vals}
    for rows, columns in snippet.SHAPES:
        shape, moved = str(columns), 4 * rows * columns
        assert cells["copy"][f"rate_{shape}"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
        shares = {side: cells[side][f"share_{shape}"] for side in cells}
        assert shares.pop("copy") == shares.pop("first pass alone") == pytest.approx(1)
        assert list(shares.values()) == pytest.approx([0.5] * (2 + len(ATTEMPTS)))
    compared = [call for call in made_up if len(call) == 2]
    timed = [call for call in made_up if len(call) == 3]
    assert compared == [(["two launches", "torch", *ATTEMPTS], "torch")] * 2
    assert timed == [([*compared[0][0], "first pass alone", "copy"], [shape], 3) for shape in snippet.SHAPES]


def test_the_table_of_the_backward(made_up):
    marks = snippet.backwards.benchmarks
    cells = {side: {line: snippet.backwards.fn(side, line) for line in marks.line_vals} for side in marks.x_vals}
    assert list(cells) == ["two launches", "torch", *BACKWARDS, "copy"]
    for rows, columns in snippet.SHAPES:
        shape, moved = str(columns), 6 * rows * columns
        assert cells["torch"][f"rate_{shape}"] == pytest.approx((moved / 2e6,) * 3)
        assert [cells[side][f"share_{shape}"] for side in cells] == pytest.approx([0.5] * (2 + len(BACKWARDS)) + [1])
    timed = [call for call in made_up if len(call) == 3]
    sides = ["two launches", "torch", *BACKWARDS]
    assert timed == [
        call for rows, columns in snippet.SHAPES
        for call in ((sides, [(rows, columns)] * 2, 3), (["copy"], [(3 * rows * columns // 2,)], 3))
    ]  # fmt: skip


def test_the_first_pass_is_that_of_the_two_launches(device):
    x = numbers(3, 9000, torch.float32, device)
    with mock.patch.object(snippet, "plan_of_two", lambda *_: Plan("split", 4096, 4, parts=3)):
        assert torch.equal(snippet.first_pass(x), torch.stack([part.amax(1) for part in x.split(4096, 1)], 1))


def test_prints_what_the_docstring_says(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    names = [f"delayed by {delay} rows" for delay in (0, 1, 6)] + ["held", "persistent"]
    lines = [f"{name}, the shares are torch's: True" for name in names]
    assert done.stdout.splitlines() == lines + [f"{name}, the gradient is torch's: True" for name in names[-2:]]


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("name", ATTEMPTS)
def test_real_sizes_and_in_a_cuda_graph(name):
    """Forty times, with words of other tensors left in memory: a program that does not wait would show."""
    by = ATTEMPTS[name]
    for rows, columns in ((512, 131072), (64, 262144), (1, 131072), (37, 100_001), (3, 5)):
        x = numbers(1, columns, torch.float32, "cuda") * torch.linspace(0.5, 2, rows, device="cuda")[:, None]
        x = x.bfloat16()
        wanted = torch.softmax(x.float(), dim=-1)
        graph = torch.cuda.CUDAGraph()
        y = softmax_by(x, by)
        with torch.cuda.graph(graph):
            captured = softmax_by(x, by)
        for _ in range(40):
            captured.zero_()
            graph.replay()
            assert torch.equal(captured, y)
        assert torch.allclose(y.float(), wanted, rtol=0.01, atol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("name", BACKWARDS)
def test_the_backward_at_real_sizes_and_in_a_cuda_graph(name):
    for rows, columns in ((512, 131072), (64, 262144), (37, 100_001), (3, 5)):
        grad, x = torch.randn(2, rows, columns, device="cuda").bfloat16()
        y = torch.softmax(x, dim=-1)
        found = backward_by(grad, y, BACKWARDS[name])
        wanted = snippet.torch_backward(grad.double(), y.double())
        assert torch.allclose(found.double(), wanted, rtol=0.01, atol=1e-7)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = backward_by(grad, y, BACKWARDS[name])
        for _ in range(40):
            captured.zero_()
            graph.replay()
            assert torch.equal(captured, found)


@pytest.mark.gpu
def test_held_parts_of_two_streams_at_once():
    """Neither launch keeps the other's last row from starting."""
    by, xs = ATTEMPTS["held, 8,192 columns"], [numbers(64, 131072, torch.bfloat16, "cuda", seed=s) for s in (0, 1)]
    wanted = [softmax_by(x, by) for x in xs]
    streams = [torch.cuda.Stream() for _ in xs]
    torch.cuda.synchronize()
    found = [[], []]
    for _ in range(30):
        for x, stream, results in zip(xs, streams, found, strict=True):
            with torch.cuda.stream(stream):
                results.append(softmax_by(x, by))
    torch.cuda.synchronize()
    assert all(torch.equal(y, expected) for results, expected in zip(found, wanted, strict=True) for y in results)


@pytest.mark.gpu
def test_measures():
    with mock.patch.object(snippet, "ATTEMPTS", dict(list(ATTEMPTS.items())[4:5])):
        found = snippet.measure.__wrapped__(64, 131072)
    with mock.patch.object(snippet, "BACKWARDS", dict(list(BACKWARDS.items())[:1])):
        found |= snippet.measure_backward.__wrapped__(64, 131072)
    assert all(0 < timing.median < 1 for timing in found.values())
