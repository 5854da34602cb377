# SPDX-License-Identifier: Apache-2.0
"""The clock of a pipeline: what it wrote down is read right; on a Hopper GPU it is exact, and its steps in order."""

import itertools

import pytest
import torch

from snippets.matmul import pipeline_clock as clock
from snippets.matmul.pipeline_clock import Step


def written(rounds: int, begin: int = 1000, step: int = 10):
    """Return times and a span of a program, by a clock of two cycles for a nanosecond."""
    times, now, spans = [], begin, []
    for _ in range(rounds):
        for _ in range(clock.STORE):
            times.append([now, now + 1, now + 2, now + 6])
            now += step
        now += 50  # the store
        spans.append(now)
    return times, [7, 5000, begin, 5000 + (now + 8 - begin) // 2, now + 8, *spans]


def test_steps_of_one_tile(monkeypatch):
    slow = written(1, step=40)
    launched = [written(1), written(1, begin=3000, step=20), slow]
    monkeypatch.setattr(clock, "launched", lambda stages, per_tile: tuple(map(list, zip(*launched, strict=True))))
    steps = clock.one_tile.__wrapped__(3)
    assert steps[0] == Step(0, 0.5, 1, 3) and steps[1] == Step(10, 10.5, 11, 13), "of the program between two others"
    last = (clock.STORE - 1) * 10 + 3
    assert len(steps) == clock.STORE + 1
    assert steps[-1][:3] == (last,) * 3 and steps[-1].ends == pytest.approx(clock.STORE * 10 + 29), "until it had ended"


def test_two_tiles_of_a_program_for_each(monkeypatch):
    programs = [written(1, begin=first * 10_000) for first in (2, 0, 1, 3)]
    monkeypatch.setattr(clock, "launched", lambda stages, per_tile: tuple(map(list, zip(*programs, strict=True))))
    found = clock.two_tiles.__wrapped__(True)
    assert len(found) == 2 * (clock.STORE + 1)
    assert found[0, 0].begins == 0 and found[1, 0].begins == 5000, "its second and its third, in the order of time"
    assert found[0, clock.STORE].ends > found[0, clock.STORE].begins == found[0, clock.STORE - 1].ends


def test_two_tiles_of_one_loop(monkeypatch):
    programs = [written(4)] * 128
    monkeypatch.setattr(clock, "launched", lambda stages, per_tile: tuple(map(list, zip(*programs, strict=True))))
    found = clock.two_tiles.__wrapped__(False)
    assert found[0, 0].begins == 0 and found[1, 0].begins == pytest.approx((clock.STORE * 10 + 50) / 2)
    assert found[0, clock.STORE].ends == pytest.approx((clock.STORE * 10 + 50 - 2) / 2), "not when the program ended"


@pytest.mark.parametrize(
    "a, b, fragment",
    [
        (torch.zeros(1024, 64), torch.zeros(64, 256), "must be bfloat16"),
        (torch.zeros(1000, 64).bfloat16(), torch.zeros(64, 256).bfloat16(), "whole groups"),
        (torch.zeros(1024, 64).bfloat16(), torch.zeros(64, 200).bfloat16(), "whole groups"),
        (torch.zeros(1024, 64).bfloat16(), torch.zeros(128, 256).bfloat16(), "whole groups"),
        (torch.zeros(1024, 64).bfloat16(), torch.zeros(64, 256).bfloat16(), "on a GPU"),
    ],
)
def test_refuses(a, b, fragment):
    with pytest.raises(ValueError, match=fragment):
        clock.clocked(a, b)


def test_says_that_it_needs_a_gpu():
    with pytest.raises(SystemExit, match="needs a Hopper GPU"):
        clock.main()


@pytest.mark.gpu
@pytest.mark.parametrize("stages, per_tile", [*itertools.product(clock.STAGES, (True, False))])
def test_is_exact_and_in_order(stages, per_tile):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is Hopper's")
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-2, 3, (2048, 2048), generator=random).to("cuda", torch.bfloat16) for _ in range(2))
    found = clock.clocked(a, b, stages=stages, per_tile=per_tile)
    assert torch.equal(found.out, (a.float() @ b.float()).bfloat16())
    asked, waits, begins, ends = found.times[: 1 if per_tile else None, :32].unbind(-1)
    assert (asked <= begins).all() and (waits <= begins).all() and (begins < ends).all()
    assert (ends[:, :-1] <= waits[:, 1:]).all()
