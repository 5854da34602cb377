# SPDX-License-Identifier: Apache-2.0
"""A plan of one's own is the one that runs; the plan that is picked is among those timed, and first by its estimate."""

import pytest
import torch
import triton

from snippets.matmul import matmul, plans_measured
from snippets.tools.benchmarking import Timing

TILE = matmul.Plan("tile", False, 16, 16, 16, 4, 2, 2, 8)


@pytest.mark.parametrize("shape", plans_measured.LARGE)
def test_the_one_picked_has_the_shortest_estimate(shape):
    found = plans_measured.plans(*plans_measured.LARGE[shape], plans_measured.NEAR)
    times = [microseconds for microseconds, _ in found.values()]
    assert next(iter(found.values()))[1] == matmul.plan(*plans_measured.LARGE[shape])
    assert times == sorted(times) and times[-1] <= 1.25 * times[0]
    assert all(plans_measured.name_of(plan) == name for name, (_, plan) in found.items())


def test_of_each_tile_the_number_of_parts_with_the_shortest_estimate():
    M, N, K = 256, 256, 65536
    *_, plan = plans_measured.plans(M, N, K)["described 128 × 128"]
    reckon = lambda parts: matmul.estimate(
        M, N, K, 2, False, 132, 232_448, plan._replace(parts=parts, programs=4 * parts)
    )
    assert plan.parts > 1 and min(range(1, 200), key=reckon) == plan.parts


def test_a_plan_of_ones_own_is_the_one_that_runs(monkeypatch):
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-2, 3, shape, generator=random).half() for shape in ((70, 32), (32, 66)))
    launched, run = [], matmul.Launch.run
    note = lambda launch, *given: (launched.append(launch.plan), run(launch, *given))
    monkeypatch.setattr(matmul.Launch, "run", note)
    before = matmul.prepared.cache_info()
    ours = plans_measured.by(TILE._replace(programs=50))
    if isinstance(matmul.tile_kernel, triton.JITFunction):
        pytest.skip("a kernel that is compiled needs a GPU")
    assert torch.equal(ours(a, b), a @ b) and torch.equal(ours(a + 1, b), (a + 1) @ b)
    assert launched == [TILE._replace(programs=50)] * 2
    assert matmul.prepared.cache_info() == before, "our product keeps its own plans"


@pytest.fixture
def made_up(monkeypatch):
    """The first plan by its estimate is the second by its time; cuBLAS is as fast as that one."""

    def compared(sides, make, **options):
        seen.append((list(sides), options))
        times = {name: Timing((float(number),)) for number, name in enumerate(list(sides)[1:], 1)}
        first, *rest = times
        if rest:
            times[first], times[rest[0]] = times[rest[0]], times[first]
        return {"cublas": times[first]} | times

    seen = []
    monkeypatch.setattr(plans_measured, "operands", lambda M, N, K: (torch.empty(M, K), torch.empty(K, N)))
    monkeypatch.setattr(plans_measured, "check_alike", lambda sides, given: None)
    monkeypatch.setattr(plans_measured, "compare_in_rotation", compared)
    plans_measured.measure.cache_clear()
    yield seen
    plans_measured.measure.cache_clear()


def test_tables(made_up):
    for shape in plans_measured.LARGE:
        row = {what: plans_measured.chosen.fn(shape, what) for what in plans_measured.chosen.benchmarks.line_vals}
        tried = len(plans_measured.plans(*plans_measured.LARGE[shape], plans_measured.NEAR))
        assert row["tried"] == tried and row["cublas"] == row["picked"]
        assert row["place"] == min(tried, 2) and row["share"] == 1 / min(tried, 2)
        assert row["quickest"] == (1000, 1000, 1000)
    assert len(made_up) == len(plans_measured.LARGE), "each is measured once"
    for plan in plans_measured.square.benchmarks.x_vals:
        assert plans_measured.square.fn(plan, "estimated") == plans_measured.plans(1536, 1536, 1536)[plan][0]
    first, second, *_ = plans_measured.square.benchmarks.x_vals
    assert [plans_measured.square.fn(plan, "takes")[0] for plan in (first, second)] == [2000, 1000]
    assert made_up[-1] == (["cublas", *plans_measured.square.benchmarks.x_vals], {"rounds": 3, "steady": False})


def test_main_lists_the_plans(capsys):
    plans_measured.main()
    said = capsys.readouterr().out
    assert "1536 × 1536 × 1536: streamed 128 × 192 17.0, described 128 × 256 17.2" in said
    assert said.count("\n") == 2 + len(plans_measured.LARGE)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", ["1000 × 1000 × 1000", "300 × 7168 × 2048"])
def test_every_plan_multiplies(shape):
    given = plans_measured.operands(*plans_measured.NAMED[shape])
    plans = plans_measured.plans(*plans_measured.NAMED[shape])
    sides = {name: plans_measured.by(plan) for name, (_, plan) in plans.items()}
    plans_measured.check_alike({"cublas": torch.matmul} | sides, given)
