# SPDX-License-Identifier: Apache-2.0
"""Every shape of the models is compared; a call's parts are what the call does, and the rest is what is left."""

import contextlib
from unittest import mock

import pytest
import torch
import triton

from snippets.matmul import matmul, matmul_measured
from snippets.matmul.model_shapes import SHAPES
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(matmul_measured).values() if isinstance(value, triton.testing.Mark)]
EVERY = [shape[:3] for kind in SHAPES.values() for shape in kind]
OURS, CUBLAS = Timing((0.002, 0.001, 0.004)), Timing((0.001, 0.001, 0.003))


def test_main_lists_every_benchmark_and_every_pick(capsys):
    matmul_measured.main()
    listed, picks = capsys.readouterr().out.split("## picks\n")
    names = [line.split(".")[0] for line in listed.splitlines()]
    assert sorted(names) == sorted(mark.benchmarks.plot_name for mark in MARKS)
    assert [tuple(map(int, line.split(":")[0].split(" x "))) for line in picks.splitlines()] == EVERY


@pytest.mark.parametrize("shape", EVERY)
def test_what_is_picked_is_what_a_call_looks_up(shape):
    """For a weight's transpose, in 16 bits; in words all of it."""
    (M, N, K), cpu = shape, torch.device("cpu")
    sizes = (M, K), (K, 1), (K, N), (1, K), torch.float16, torch.float16
    found = matmul.prepared.__wrapped__(*sizes, cpu, cpu, (True, True), "ieee").plan
    assert found == matmul.plan(*shape)
    said = matmul_measured.picked(*shape, cpu)
    assert said.startswith(f"{found.kernel}, {found.block_m} x {found.block_n + found.more_n} x {found.block_k}")
    assert ("of the transposed" in said) == found.swapped
    numbers = {"warps": found.num_warps, "stages": found.num_stages, "programs": found.programs}
    numbers |= {"tiles whole": found.whole} if found.kernel == "streamed" else {"parts": found.parts}
    assert all(f" {number} {what}" in said for what, number in numbers.items())


def test_every_shape_is_compared():
    assert list(matmul_measured.NAMED.values()) == EVERY
    assert matmul_measured.shapes.benchmarks.x_vals == [f"{m} × {n} × {k}" for m, n, k in EVERY]
    assert len(matmul_measured.FP16) == 12 and set(matmul_measured.FP16) <= set(matmul_measured.NAMED)
    assert all(any(matmul_measured.NAMED[name] == shape[:3] for name in matmul_measured.FP16 for shape in kind)
               for kind in SHAPES.values())  # fmt: skip


def test_some_of_the_shapes():
    some = matmul_measured.SOME
    assert some["all"] == EVERY and sum(map(len, some.values())) == 3 * len(EVERY)
    assert set(some["M ≤ 64"]) | set(some["M > 64"]) == set(EVERY)
    assert max(some["M ≤ 64"])[0] == 64 and min(some["M > 64"])[0] > 64


@pytest.fixture
def made_up(monkeypatch):
    """The second fastest of our rounds takes twice the time of cuBLAS's."""
    seen = []

    def compared(sides, make, **options):
        seen.append((list(sides), [tuple(x.shape) for x in make()], make()[0].dtype, options))
        return {"ours": OURS, "cublas": CUBLAS, "empty": CUBLAS}

    operands = lambda M, N, K, dtype: (torch.empty(M, K, dtype=dtype), torch.empty(N, K, dtype=dtype).t())
    monkeypatch.setattr(matmul_measured, "operands", operands)
    monkeypatch.setattr(matmul_measured, "check_alike", lambda sides, given: None)
    monkeypatch.setattr(matmul_measured, "compare_in_rotation", compared)
    matmul_measured.measure.cache_clear()
    yield seen
    matmul_measured.measure.cache_clear()


@pytest.mark.parametrize("mark, dtype", [("shapes", torch.bfloat16), ("fp16", torch.float16)])
def test_tables(made_up, mark, dtype):
    mark = getattr(matmul_measured, mark)
    benchmark = mark.benchmarks
    for shape in benchmark.x_vals:
        row = {line: mark.fn(shape, line, **benchmark.args) for line in benchmark.line_vals}
        assert row["ours"] == pytest.approx((2, 1, 4)) and row["cublas"] == row["empty"] == pytest.approx((1, 1, 3))
        assert row["share"] == 0.5
    assert len(made_up) == len(benchmark.x_vals), "each is measured once"
    for (M, N, K), (sides, given, given_dtype, options) in zip(
        map(matmul_measured.NAMED.get, benchmark.x_vals), made_up, strict=True
    ):
        assert sides == ["ours", "cublas", "empty"] and given == [(M, K), (K, N)] and given_dtype == dtype
        assert options == {"rounds": 3, "steady": M * N * K > 5e10}


def test_shares(monkeypatch):
    shares = {(1, 2, 3): 0.9, (100, 2, 3): 1.1, (200, 2, 3): 1.6}
    measured = lambda M, N, K, dtype: {"ours": Timing((1.0,)), "cublas": Timing((shares[M, N, K],))}
    monkeypatch.setattr(matmul_measured, "measure", measured)
    monkeypatch.setattr(matmul_measured, "SOME", {"all": list(shares), "M ≤ 64": [(1, 2, 3)]})
    found = [matmul_measured.shares.fn("all", what) for what in ("least", "mean", "most")]
    assert found == pytest.approx([0.9, (0.9 * 1.1 * 1.6) ** (1 / 3), 1.6])
    assert matmul_measured.shares.fn("M ≤ 64", "mean") == pytest.approx(0.9)


def test_a_wrong_side_is_refused():
    given = torch.ones(2, 8, dtype=torch.float16), torch.ones(8, 4, dtype=torch.float16)
    matmul_measured.check_alike({"ours": torch.matmul, "cublas": torch.matmul}, given)
    for wrong in (lambda a, b: 1.01 * (a @ b), lambda a, b: (a @ b) * float("nan")):
        with pytest.raises(RuntimeError, match=r"ours differs from cuBLAS by .* at \(2, 8\) @ \(8, 4\)"):
            matmul_measured.check_alike({"ours": wrong, "cublas": torch.matmul}, given)


def test_the_largest_error_is_allowed():
    given = torch.ones(1, 1).half(), torch.full((1, 1), 4.0).half()
    sides = {"ours": lambda a, b: a @ b + 1, "cublas": torch.matmul}
    for bound, raised in ((0.25, contextlib.nullcontext()), (0.249, pytest.raises(RuntimeError))):
        with mock.patch.object(matmul_measured, "LARGEST_ERROR", {torch.float16: bound}), raised:
            matmul_measured.check_alike(sides, given)


def test_the_error_is_a_share_of_a_large_result():
    """Whose norm float16 cannot hold, nor that of an error of 64 in each of its elements of 60,032."""
    given = torch.full((1100, 1), 245.0).half(), torch.full((1, 1100), 245.0).half()
    sides = {"ours": lambda a, b: a @ b - 64, "cublas": torch.matmul}
    with mock.patch.object(matmul_measured, "LARGEST_ERROR", {torch.float16: 65 / 60032}):
        matmul_measured.check_alike(sides, given)
    with (
        mock.patch.object(matmul_measured, "LARGEST_ERROR", {torch.float16: 63 / 60032}),
        pytest.raises(RuntimeError, match=r"ours differs from cuBLAS by 0\.0011 at"),
    ):
        matmul_measured.check_alike(sides, given)


# Parts of a call


def whole_numbers(M, N, K, device="cpu"):
    random = torch.Generator().manual_seed(0)
    a, weight = (torch.randint(-2, 3, (rows, K), generator=random).to(device, torch.float16) for rows in (M, N))
    return a, weight.t()


PLANS = {  # parts, allocations, descriptors
    "few": ((3, 40, 64), matmul.Plan("tile", True, 16, 16, 16, 4, 2, 2, 6), 2, 0),
    "described": ((16, 32, 32), matmul.Plan("described", False, 16, 16, 16, 4, 2, 1, 2), 1, 2),
    "streamed": ((16, 32, 64), matmul.Plan("streamed", False, 16, 16, 16, 4, 2, 1, 3), 2, 3),
    "persistent": ((32, 32, 32), matmul.Plan("persistent", False, 16, 16, 16, 4, 2, 1, 2), 1, 3),
}


@pytest.mark.parametrize("shape, plan, allocations, descriptors", PLANS.values(), ids=PLANS)
def test_parts_are_what_a_call_does(shape, plan, allocations, descriptors):
    a, b = whole_numbers(*shape)
    matmul.prepared.cache_clear()
    with mock.patch.object(matmul, "plan", return_value=plan):
        parts = matmul_measured.parts_of(a, b)
        assert list(parts) == ["our product", "bare launch", *matmul_measured.PARTS]
        assert torch.equal(parts["our product"](), a @ b)
    matmul.prepared.cache_clear()
    buffers, made = parts["torch.empty"](), parts["descriptors"]()
    assert buffers[0].shape == (a @ b).shape and buffers[0].dtype == a.dtype
    assert len(buffers) == allocations and len(made) == descriptors

    launched, kind, inputs = [], type(matmul.tile_kernel), max(2, descriptors if plan.kernel == "streamed" else 0)
    run = kind.run
    note = lambda kernel, *given, **options: launched.extend(given) or run(kernel, *given, **options)
    with mock.patch.object(kind, "run", note):
        parts["bare launch"]()
    result = next(x for x in (getattr(x, "base", x) for x in launched[inputs:]) if isinstance(x, torch.Tensor))
    for _ in range(2):  # and its counters are zeros again
        result.zero_()
        parts["bare launch"]()
        assert torch.equal(result, a @ b)


@pytest.fixture
def a_clock(monkeypatch):
    """A call of our product takes the host 100 µs, its parts 10, 20 and 30, a bare launch 70, another product 50."""
    takes = {"our product": 100, "compiled launch": 10, "torch.empty": 20, "descriptors": 30, "bare launch": 70}
    sides = {name: lambda us=us: us for name, us in takes.items()}
    monkeypatch.setattr(matmul_measured, "parts_of", lambda a, b: sides)
    monkeypatch.setattr(matmul_measured, "operands", lambda *shape: (None, None))
    monkeypatch.setattr(matmul_measured, "OTHERS", dict.fromkeys(matmul_measured.OTHERS, lambda a, b: 50))
    monkeypatch.setattr(matmul_measured.autotuned, "prepare", lambda a, b: None)
    monkeypatch.setattr(matmul_measured.launch_cost, "host", lambda run, calls: run() * calls * 1e-6)
    matmul_measured.measure_host.cache_clear()
    yield takes
    matmul_measured.measure_host.cache_clear()


def test_host(a_clock):
    benchmark = matmul_measured.host.benchmarks
    for shape in benchmark.line_vals:
        found = {what: matmul_measured.host.fn(what, shape) for what in benchmark.x_vals}
        assert found.pop("the rest") == pytest.approx(40)
        expected = a_clock | dict.fromkeys(matmul_measured.OTHERS, 50)
        assert found == {name: pytest.approx((us, us, us)) for name, us in expected.items()}
    assert set(matmul_measured.CALLED.values()) <= set(matmul_measured.NAMED)


# On a GPU


@pytest.mark.gpu
def test_kernels_of_cublas():
    for shape in ((1, 4096, 4096), (512, 6144, 4096)):
        names = matmul_measured.kernels_of_cublas(*shape)
        assert names and not any("Memcpy" in name for name in names), names


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 1024, 1024), (256, 512, 1024)])
def test_measures(shape, dtype):
    found = matmul_measured.measure(*shape, dtype)
    assert set(found) == {"ours", "cublas", "empty"} and all(len(timing.rounds) == 3 for timing in found.values())
    assert 0 < found["empty"].median < min(found["ours"].median, found["cublas"].median) < 1


@pytest.mark.gpu
@pytest.mark.parametrize("shape", matmul_measured.CALLED.values())
def test_measures_the_host(shape):
    found = matmul_measured.measure_host(shape, calls=20, rounds=2)
    assert list(found) == ["our product", "bare launch", *matmul_measured.PARTS, *matmul_measured.OTHERS]
    assert found["compiled launch"].median < found["our product"].median < 1
