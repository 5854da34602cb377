# SPDX-License-Identifier: Apache-2.0
"""The view of kernels under their ceilings: points where the numbers say, labels apart, and what limits each."""

import math
import re
from math import log10

import pytest

from recorder import roofline
from recorder.project import RecorderError
from tests.made_up import CEILINGS, KERNELS, recorded, rooflines

CEILING_TABLE, KERNEL_TABLE = rooflines()
WORK = roofline.read(KERNEL_TABLE, CEILINGS)
PLOT = roofline.Plot.around(WORK, CEILINGS)


def html(benchmarks=None, **options):
    return roofline.roofline(None, recorded() | ({"benchmarks": benchmarks} if benchmarks else {}), **options)


def changed(**values):
    row = KERNEL_TABLE["rows"][0] | values
    return [CEILING_TABLE, KERNEL_TABLE | {"rows": [row]}]


def test_points_are_where_the_numbers_say():
    points = re.findall(r'<svg data-kernel="\d" x="([\d.]+)%" y="([\d.]+)"', html())
    left, right, low, high = PLOT.left, PLOT.right, PLOT.low, PLOT.high
    for (x, y), (_, _, gflop, gbyte, ms) in zip(points, KERNELS, strict=True):
        assert float(x) == pytest.approx(100 * (log10(gflop / gbyte) - left) / (right - left), abs=0.01)
        assert float(y) == pytest.approx(roofline.HEIGHT * (high - log10(gflop / ms)) / (high - low), abs=0.06)
        assert 0 < float(x) < 100 and 0 < float(y) < roofline.HEIGHT


def test_says_what_limits_each():
    said = [kernel.sentence for kernel in WORK]
    assert said[1] == (
        "add: 100 MFLOP on 1.2 GB in 300 µs. That is 0.0833 FLOP per byte and 0.333 TFLOP/s: 100% of the ceiling "
        "above it, memory."
    )
    assert said[0].endswith(
        "0.3% of the ceiling above it, memory. That far below, something else limits it, or it moves bytes that it "
        "need not."
    )
    assert "16 FLOP per byte and 40 TFLOP/s: 80% of the ceiling above it, fp32 arithmetic." in said[2]
    assert "1.1 TFLOP on 400 MB in 1,500 µs" in said[3] and "92% of the ceiling above it, bf16 arithmetic." in said[3]


def test_says_all_of_it_without_a_picture():
    label = re.search(r'aria-label="(A roofline[^"]*)"', html())[1]
    assert "memory 4,000 GB/s; fp32 50 TFLOP/s; bf16 800 TFLOP/s" in label
    assert "add &lt;small&gt;, 0.3% of its ceiling" in label and "<small>" not in html()
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", html())[1:]]
    assert cells[2] == ["3", "powers", "fp32", "16", "1", "0.4", "16", "40", "80%", "arithmetic"]


@pytest.mark.parametrize("width, texts", [(roofline.WIDE, "a kernel of some length"), (roofline.NARROW, "16")])
def test_labels_do_not_overlap(width, texts):
    rows = [(f"k{i}", "fp32", 10 ** (i % 4 / 3), 1.0, 1 + i / 10) for i in range(16)]
    table = KERNEL_TABLE | {
        "rows": [{"kernel": k, "unit": u, "gflop": [f], "gbyte": [b], "ms": [ms]} for k, u, f, b, ms in rows]
    }
    work = roofline.read(table, CEILINGS)
    plot = roofline.Plot.around(work, CEILINGS)
    half, tall = len(texts) * roofline.GLYPH / 2, roofline.LINE
    placed = roofline.place(plot, work, width, [texts] * 16)
    pairs = zip(work, placed, strict=True)
    middles = [(plot.x(k.intensity) * width + dx, plot.y(k.rate) + dy) for k, (dx, dy) in pairs]
    for i, (x, y) in enumerate(middles):
        assert half <= x <= width - half and 0 < y < roofline.HEIGHT
        assert all(abs(x - x2) >= 2 * half - 1e-6 or abs(y - y2) >= tall - 1e-6 for x2, y2 in middles[:i])


def test_of_all_orders_the_nearest_labels_are_taken(monkeypatch):
    """Also where an order is given up once it is as far as the best one before it."""
    totals, place = [], roofline._place_in_order

    def whole(*given):
        found = place(*given[:-1], math.inf)
        totals.append(found[0])
        assert (place(*given) is None) == (found[0] >= given[-1])
        return place(*given)

    monkeypatch.setattr(roofline, "_place_in_order", whole)
    rows = [(f"k{i}", "fp32", 10 ** (i % 4 / 3), 1.0, 1 + i / 10) for i in range(8)]
    table = {"rows": [{"kernel": k, "unit": u, "gflop": [f], "gbyte": [b], "ms": [ms]} for k, u, f, b, ms in rows]}
    work = roofline.read(KERNEL_TABLE | table, CEILINGS)
    plot = roofline.Plot.around(work, CEILINGS)
    placed = roofline.place(plot, work, roofline.WIDE, ["a kernel of some length"] * 8)
    assert len(set(totals)) > 1, "the order matters"
    half = len("a kernel of some length") * roofline.GLYPH / 2
    total = sum(math.hypot(max(abs(dx) - half, 0), dy) ** 2 for dx, dy in placed)
    assert total == pytest.approx(min(totals))


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
        ([CEILING_TABLE, KERNEL_TABLE], {"kernels": "rofline"}, r"no benchmark 'rofline'.*roofline"),
        ([CEILING_TABLE, KERNEL_TABLE], {"ceilings": "roofline"}, "'roofline' .* no line 'rate'"),
        ([CEILING_TABLE | {"rows": CEILING_TABLE["rows"][1:]}, KERNEL_TABLE], {}, "no row 'copy'"),
        (changed(unit="fp23"), {}, r"unit 'fp23', which is no ceiling.*fp32"),
        (changed(unit="copy"), {}, r"unit 'copy', which is no ceiling"),
        (changed(gflop=[0.0]), {}, "must be positive"),
    ],
)
def test_refuses_what_is_no_roofline(benchmarks, options, words):
    with pytest.raises(RecorderError, match=words):
        html(benchmarks, **options)
