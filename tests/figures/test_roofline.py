# SPDX-License-Identifier: Apache-2.0
"""Kernels under their ceilings: points where the numbers say, labels apart, and what limits each."""

import math
import re
from math import log10

import pytest
from markupsafe import escape
from msgspec.structs import replace

from figures import roofline
from figures.roofline import labels
from recorder.project import RecorderError
from recorder.recording import Reading
from tests.toy import CEILINGS, KERNELS, made, rooflines

CEILING_TABLE, KERNEL_TABLE = rooflines()
WORK = roofline.read(KERNEL_TABLE, CEILINGS)
PLOT = roofline.Plot.around(WORK, CEILINGS)


def html(benchmarks=(CEILING_TABLE, KERNEL_TABLE), **options):
    return roofline.roofline(replace(made("h200"), benchmarks=list(benchmarks)), **options)


def kernel(name="add", unit="fp32", gflop=1.0, gbyte=1.0, ms=1.0) -> Reading:
    return Reading(x=[name, unit], y={"gflop": [gflop], "gbyte": [gbyte], "ms": [ms]})


def of(*rows: Reading):
    return CEILING_TABLE, replace(KERNEL_TABLE, rows=list(rows))


def test_a_remark_stands_beside_the_dot_of_its_kernel():
    drawn = html(remarks={"powers": "waits for nobody"})
    assert re.findall(r'<svg data-kernel="(\d)"(?:(?!</svg>).)*>waits for nobody</text></g></svg>', drawn) == ["3"]
    with pytest.raises(RecorderError, match=r"'power', which is no kernel.*powers"):
        html(remarks={"power": "waits for nobody"})


def test_points_are_where_the_numbers_say():
    points = re.findall(r'<svg data-kernel="\d" x="([\d.]+)%" y="([\d.]+)"', html())
    left, right, low, high = PLOT.left, PLOT.right, PLOT.low, PLOT.high
    for (x, y), (_, _, gflop, gbyte, ms) in zip(points, KERNELS, strict=True):
        assert float(x) == pytest.approx(100 * (log10(gflop / gbyte) - left) / (right - left), abs=0.01)
        assert float(y) == pytest.approx(roofline.HEIGHT * (high - log10(gflop / ms)) / (high - low), abs=0.06)
        assert 0 < float(x) < 100 and 0 < float(y) < roofline.HEIGHT


def test_says_what_limits_each():
    summary = [kernel.sentence for kernel in WORK]
    assert summary[1] == (
        "add: 100 MFLOP on 1.2 GB in 300 µs. That is 0.0833 FLOP per byte and 0.333 TFLOP/s: 100% of the ceiling "
        "above it, memory."
    )
    assert summary[0].endswith(
        "0.3% of the ceiling above it, memory. So far below it, something else limits the kernel, or it moves bytes "
        "that it doesn't have to."
    )
    assert "16 FLOP per byte and 40 TFLOP/s: 80% of the ceiling above it, fp32 arithmetic." in summary[2]
    assert (
        "1.1 TFLOP on 400 MB in 1,500 µs" in summary[3]
        and "92% of the ceiling above it, bf16 arithmetic." in summary[3]
    )


def test_says_all_of_it_without_a_picture():
    label = re.search(r'aria-label="(A roofline[^"]*)"', html())[1]
    assert "memory 4,000 GB/s; fp32 50 TFLOP/s; bf16 800 TFLOP/s" in label
    assert "add &lt;small&gt;, 0.3% of its ceiling" in label and "<small>" not in html()
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", html(), re.S)[1:]]
    assert cells[2] == ["3", "powers", "fp32", "16", "1", "0.4", "16", "40", "80%", "arithmetic"]


def crowd(count: int, width: int) -> list[tuple[float, float]]:
    """Points that are close together, in pixels of a picture of this width."""
    rows = [kernel(f"k{i}", gflop=10 ** (i % 4 / 3), ms=1 + i / 10) for i in range(count)]
    work = roofline.read(of(*rows)[1], CEILINGS)
    plot = roofline.Plot.around(work, CEILINGS)
    return [plot.at((k.intensity, k.rate), width) for k in work]


@pytest.mark.parametrize("width, text", [(640, "a kernel of some length"), (roofline.WIDTHS["narrow"], "16")])
def test_labels_do_not_overlap(width, text):
    points = crowd(16, width)
    placed = labels.place(points, [text] * 16, (width, roofline.HEIGHT))
    half, tall = labels.width_of(text) / 2, labels.LINE
    middles = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(points, placed, strict=True)]
    for i, (x, y) in enumerate(middles):
        assert half <= x <= width - half and 0 < y < roofline.HEIGHT
        assert all(abs(x - x2) >= 2 * half - 1e-6 or abs(y - y2) >= tall - 1e-6 for x2, y2 in middles[:i])


def test_the_line_to_a_tag_goes_over_no_other_dot_or_tag():
    for width in roofline.WIDTHS.values():
        points = crowd(12, width)
        texts = [str(i) for i in range(1, 13)]
        placed = labels.place(points, texts, (width, roofline.HEIGHT), pad=labels.PAD)
        tags = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(points, placed, strict=True)]
        for i, ((x, y), (tag_x, tag_y)) in enumerate(zip(points, tags, strict=True)):
            for step in range(8, 21):  # what is nearer to its dot may lie on one that is as near
                at = x + (tag_x - x) * step / 20, y + (tag_y - y) * step / 20
                assert all(math.dist(at, tag) > 5 for j, tag in enumerate(tags) if j != i)
                assert all(math.dist(at, dot) > 3 for dot in points if math.dist(dot, (x, y)) > 9)


def test_says_how_more_than_the_ceiling_can_be_where_a_kernel_is_above_it():
    said = "memory’s is the speed of a copy, which a kernel can beat"
    assert said not in html() and said in html(of(kernel(ms=0.2), kernel("b")))


def test_of_all_orders_the_nearest_labels_are_taken(monkeypatch):
    """Also where an order is given up once it is as far as the best one before it."""
    totals, place = [], labels._place_in_order

    def whole(*given):
        matches = place(*given[:-1], math.inf)
        totals.append(matches[0])
        assert (place(*given) is None) == (matches[0] >= given[-1])
        return place(*given)

    monkeypatch.setattr(labels, "_place_in_order", whole)
    texts = ["a kernel of some length"] * 8
    placed = labels.place(crowd(8, 640), texts, (640, roofline.HEIGHT))
    assert len(set(totals)) > 1, "the order matters"
    half = labels.width_of(texts[0]) / 2
    total = sum(math.hypot(max(abs(dx) - half, 0), dy) ** 2 for dx, dy in placed)
    assert total == pytest.approx(min(totals))


def test_a_label_goes_out_of_the_way_of_lines():
    place = lambda *boxes: labels.place([(100, 100)], ["a label on its point"], (200, 200), avoid=boxes)
    above, below = (labels.along((0, y), (200, y)) for y in (85, 115))
    assert place() == [(0, -15)], "there is no room beside it"
    assert place(*above) == [(0, 15)]
    assert place(*above, *below) == [(0, -27)], "over the line"


def test_refuses_more_kernels_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(labels, "place", lambda *_: None)
    with pytest.raises(RecorderError, match="4 kernels are too many"):
        html(of(*(kernel(f"k{i}") for i in range(4))))


def test_the_key_has_each_kernel_with_its_share():
    row = r'<li data-kernel="(\d)"( class=roofline__flat)?><i>\d</i><span>(.*?)</span><strong>(.*?)</strong>'
    key = re.findall(row, html())
    assert [(number, name, share) for number, _, name, share in key] == [
        (str(k.number), str(escape(k.name)), k.percent) for k in WORK
    ]
    assert [bool(flat) for _, flat, *_ in key] == [not k.under_slope for k in WORK]


@pytest.mark.parametrize(
    "value, text", [(0.0012345, "0.00123"), (0.5, "0.5"), (5.333, "5.33"), (40.0, "40"), (1480.2, "1,480"), (0, "0")]
)
def test_numbers_have_three_digits_that_count(value, text):
    assert roofline.short(value) == text


@pytest.mark.parametrize("giga, text", [(1100, "1.1 T"), (1, "1 G"), (0.134, "134 M"), (4.9e-5, "49 k"), (3e-9, "3 ")])
def test_amounts_have_a_prefix(giga, text):
    assert roofline.amount(giga) == text


@pytest.mark.parametrize(
    "benchmarks, options, words",
    [
        (rooflines(), {"kernels": "rofline"}, r"no benchmark 'rofline'.*roofline"),
        (rooflines(), {"ceilings": "roofline"}, "'roofline' has no line 'rate'"),
        ((replace(CEILING_TABLE, rows=CEILING_TABLE.rows[1:]), KERNEL_TABLE), {}, "no row 'copy'"),
        (of(kernel(unit="fp23")), {}, r"unit 'fp23', which is no ceiling.*fp32"),
        (of(kernel(unit="copy")), {}, r"unit 'copy', which is no ceiling"),
        (of(kernel(gflop=0.0)), {}, "must be positive"),
    ],
)
def test_refuses_what_is_no_roofline(benchmarks, options, words):
    with pytest.raises(RecorderError, match=words):
        html(benchmarks, **options)
