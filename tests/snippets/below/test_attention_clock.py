# SPDX-License-Identifier: Apache-2.0
"""The clock is read where it should be, and its cycles become nanoseconds."""

import re

import pytest
import torch
from stand_ins import compile_for_hopper

from snippets.below import attention_clock
from snippets.below.attention_clock import FIRST, SHOWN, STEPS, WAYS, in_nanoseconds


def program(group_later):
    steps = [[10 * i, 10 * i + 4, 10 * i + 6, 10 * i + 9] for i in range(STEPS)]
    span = [1000, 0, 1000 + 5 * STEPS, 10 * STEPS]  # two cycles a nanosecond
    return [[*steps, span], [*([time + group_later for time in step] for step in steps), span]]


def test_nanoseconds_begin_with_the_first_step_that_is_shown():
    found = in_nanoseconds(program(group_later=2))
    assert len(found) == 2 * SHOWN
    assert found[0, 0] == [0, 2, 3, 4.5] and found[1, 0] == [1, 3, 4, 5.5] and found[0, 2] == [10, 12, 13, 14.5]


def test_what_is_written_down(monkeypatch):
    times = torch.tensor([program(2), program(4), program(6)])
    times[:, :, -1, 2] += torch.tensor([[1000], [0], [500]])
    monkeypatch.setattr(attention_clock, "random_heads", lambda: [])
    monkeypatch.setattr(attention_clock, "clocked", lambda way: (None, times))
    attention_clock.seen.cache_clear()
    median = in_nanoseconds(times[2].tolist())
    assert attention_clock.steps.fn(1, 3, "scored", "turns") == median[1, 3][1]
    assert attention_clock.steps.fn(1, 3, "asked", "turns") == median[1, 3][0], "together with the scores"
    assert attention_clock.steps.fn(1, 3, "asked", "waiting") == median[1, 3][2], "not before there are weights"
    attention_clock.seen.cache_clear()
    assert FIRST + SHOWN < STEPS


def test_the_clock_is_read_around_products_and_exponentials():
    code = """
import re
from snippets.below import attention, attention_clock as snippet
x = torch.empty(1, 1, 128, 128, dtype=torch.bfloat16)
described = attention.describe(x, x, x, x, rows=64, keys=128)
event = re.compile("(HGMMA)[.]|(MUFU[.]EX2)|WARPGROUP[.](DEPBAR)|CS2R R[0-9]+, (SR_CLOCKLO)")
for way, (flying, turns) in snippet.WAYS.items():
    made = snippet.clocked_kernel.warmup(*described, torch.zeros(8, dtype=torch.int64), 8, 4, 1, 1, 1024, 64,
        FACTOR=0.1275, BUFFERS=2, FLYING=flying, TURNS=turns, num_warps=4, grid=(1,))
    found = [match[match.lastindex] for match in event.finditer(made.asm["sass"])]
    print(way, "".join({"HGMMA": "m", "MUFU.EX2": "e", "DEPBAR": "w", "SR_CLOCKLO": "c"}[each] for each in found))
"""
    orders = dict(line.split() for line in compile_for_hopper(code))
    found = {way: re.sub(r"(.)\1+", r"\1", order) for way, order in orders.items()}
    loops = {"waiting": "mwcecmwc", "flying": "cmwcecwc", "turns": "cmwcecwc"}
    assert {way: len(re.findall(loop, found[way])) for way, loop in loops.items()} == dict.fromkeys(loops, 2), "groups"


def test_says_that_it_needs_a_gpu():
    with pytest.raises(SystemExit, match="no GPU found"):
        attention_clock.main()


@pytest.mark.gpu
def test_on_a_gpu():
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is Hopper's")
    q, k, v = (torch.randn(1, 2, 512, 128, device="cuda").bfloat16() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    for way in WAYS:
        out, times = attention_clock.clocked(q, k, v, way)
        torch.testing.assert_close(out.double(), expected, atol=0.02, rtol=0)
        assert (times[:, :, 1:-1].diff(dim=-1) > 0).all(), "in order"
