# SPDX-License-Identifier: Apache-2.0
"""The order of programs: both pictures are read from what the programs loaded and stored."""

import re

import pytest
from msgspec.structs import replace

from figures import swizzle
from recorder.project import RecorderError
from recorder.recording import Launch, Recording
from tests.toy import made, product

LAUNCHES = [product(1), product(2), product(9), product(2, m=3)]


def recorded(launches: list[Launch] = LAUNCHES) -> Recording:
    named = {f"toy_kernel[{number}]": launch for number, launch in enumerate(launches)}
    return replace(made("cpu"), launches=named, launched={"toy_kernel": len(launches)})


def html(launches=(0, 1), draw=swizzle.orders, changed=LAUNCHES, **options):
    return draw(recorded(changed), launches=[f"toy_kernel[{number}]" for number in launches], **options)


def changed(**changes) -> list[Launch]:
    """The launches, the second with some parts of its eighth access changed: the second load of B by program 1."""
    accesses = list(LAUNCHES[1].accesses)
    assert accesses[8].op == "load" and accesses[8].tensor == "b_ptr"
    accesses[8] = replace(accesses[8], **changes)
    return [LAUNCHES[0], replace(LAUNCHES[1], accesses=accesses)]


@pytest.mark.parametrize(
    ("number", "title", "pids"),
    [(0, "Row-major", "0 1 2 3 4 5 6 7 8 9 10 11"), (1, "Groups of 2 rows", "0 2 4 1 3 5 6 8 10 7 9 11"),
     (2, "Column-major", "0 4 8 1 5 9 2 6 10 3 7 11")],
)  # fmt: skip
def test_the_order_is_that_of_the_stores(number, title, pids):
    order = swizzle.read(recorded(), f"toy_kernel[{number}]")
    assert (order.m, order.n, order.k, order.title) == (4, 3, 2, title)
    numbers = html([0, number]).split("<pre")[-1]
    assert numbers.split("</pre>")[0].partition(">")[2].split() == pids.split()


def test_what_the_first_wave_reads_and_what_all_read():
    order = swizzle.read(recorded(), "toy_kernel[0]")
    first, run = swizzle.run(order, 3, 240, waves=1), swizzle.run(order, 3, 240)
    assert (first.reads, first.misses, first.resident) == (12, 2 + 6, [(0, 0), (0, 1), (0, 2)])
    assert first.now == {("A", 0, 1): True, **{("B", 1, j): True for j in range(3)}}, "A came with the first program"
    assert (run.reads, run.misses) == (48, 8 + 6), "with room for all, each tile comes once"
    assert swizzle.run(order, 3, 1).misses == 48, "with room for one, none is found"


def test_a_cache_drops_what_was_used_longest_ago():
    order = swizzle.read(recorded(), "toy_kernel[0]")
    steps = swizzle.run(order, 1, 3, waves=2)
    assert list(steps.kept) == [("B", 0, 1), ("A", 0, 1), ("B", 1, 1)]


def test_the_picture_and_its_words():
    page = html(sms=3, cache=240)
    assert "Now: 1 row of A, 3 columns of B. From memory: 8 of 12 reads so far, 14 of 48 in the end." in page
    assert "Now: 2 rows of A, 2 columns of B. From memory: 8 of 12 reads so far, 14 of 48 in the end." in page
    assert page.count('role="img"') == 2 and "<form" not in page
    waves = re.findall('<path class="pid-([0-3]) (now|later)" d="([^"]*)"', page.split("swizzle__legend")[0])
    assert [(int(wave), kind, path.count("M")) for wave, kind, path in waves] == 2 * [
        (wave, "later" if wave else "now", 3) for wave in range(4)
    ]
    texts = re.findall(r"<text [^>]*>(\w+)</text>", page)
    assert texts == [*map(str, range(12)), "B", "A"] * 2
    for kind in ("now", "done", "later", "miss", "hit", "kept", "memory"):
        assert f'<path class="pid-0 {kind}"' in page.split("swizzle__legend")[1], "each kind of tile is explained"


def test_the_explorer_begins_with_the_grouped_picture_and_a_race():
    page = html(draw=swizzle.swizzle, sms=3, cache=6, id="other")
    fields = dict(re.findall(r'name="(\w+)"[^>]* value="(\d+)"', page))
    sizes = {"m": "4", "n": "3", "k": "2", "sms": "3", "cache": "6"}
    assert fields == {**sizes, "axes": "1", "group": "2", "step": "4"}
    assert 'id="other"' in page
    (picture,) = re.findall(r'<svg[^>]* role="img".*?</svg>', page)
    waves = re.findall('<path class="pid-([0-3]) (done|now|later)"', picture)
    assert waves == [("0", "done"), ("1", "now"), ("2", "later"), ("3", "later")], "two waves have run"
    racers = re.findall(
        r'<p><span>(.*?)</span>\s*<i style="--now: (.*?); --end: (.*?)"></i><span>(.*?)</span></p>', page
    )
    assert [(name, summary) for name, *_, summary in racers] == [
        ("Row-major", "16 of 32"), ("Groups of 2 rows", "14 of 28"),
    ]  # fmt: skip
    assert [(float(now), float(end)) for _, now, end, _ in racers] == [(16 / 32, 1), (14 / 32, 28 / 32)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"launches": [0, 9]}, r"no launch toy_kernel\[9\]; the run launched toy_kernel 4"),
     ({"launches": [0]}, "must list two, such as"),
     ({"launches": [1, 0]}, r"launch toy_kernel\[1\] is not row-major: its GROUP_M is 2"),
     ({"launches": [0, 3]}, r"are of \(4, 3, 2\) and \(3, 3, 2\) tiles"),
     ({"sms": 0}, "must be whole numbers from 1, not 0 and 60"), ({"cache": "all"}, "not 9 and 'all'"),
     ({"sms": 25, "draw": swizzle.swizzle}, "goes up to 24 for 'SMs', not to 25"),
     ({"changed": [LAUNCHES[0], replace(LAUNCHES[1], accesses=None)]}, r"toy_kernel\[1\] were not written down"),
     ({"changed": changed(tensor="a_ptr")}, r"launch toy_kernel\[1\] is no product of tiles: program 1 loads others"),
     ({"changed": changed(op="store")}, "program 1 loads others")],
)  # fmt: skip
def test_refuses_what_it_cannot_draw(asked, words):
    with pytest.raises(RecorderError, match=words):
        html(**asked)
