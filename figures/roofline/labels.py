# SPDX-License-Identifier: Apache-2.0
"""Place the labels of points in a picture so that no two overlap and few cover a line. Lengths are pixels.

A label is a tag in the color of its point, and a line leads from one to the other, past all other points and labels."""

import random
from functools import cache
from math import hypot, inf

from markupsafe import Markup

from figures import svg

GLYPH, LINE = 6.6, 15  # how wide a letter is on average, and how high a line, at 12 pixels
PAD = 3.5  # of a tag, at each end

Place = tuple[float, float]  # of a point; or of a label's middle, seen from its point
Box = tuple[float, float, float, float]  # left, top, right, bottom


def width_of(text: str) -> float:
    return len(text) * GLYPH


def place(
    points: list[Place],
    texts: list[str],
    size: tuple[float, float],
    taken: list[Box] = (),
    avoid: list[Box] = (),
    pad: float = 0,
) -> list[Place] | None:
    """Return the place of each label in a picture of a width and a height, or None if there is no room for all.

    None covers another, a point, or what is ``taken``; one covers what to ``avoid`` only if all else is far away. With
    ``pad``, so much wider at each end, labels are tags, and the line to one goes over no other point or label.
    """
    boxes = [(x - 6, y - 6, x + 6, y + 6) for x, y in points] + list(taken)
    crowd = lambda i: sum(hypot(points[i][0] - x, points[i][1] - y) < 60 for x, y in points)
    whole = range(len(points))
    shuffled = random.Random(0)  # the same on every build
    orders = [sorted(whole, key=crowd, reverse=True), *(shuffled.sample(whole, len(points)) for _ in range(40))]
    best = inf, {}
    for order in orders:
        best = _place_in_order(order, points, texts, size, boxes, avoid, pad, best[0]) or best
    return [best[1][i] for i in whole] if best[0] < inf else None


def along(begin: Place, end: Place) -> list[Box]:
    """Small boxes along a line."""
    (x1, y1), (x2, y2) = begin, end
    steps = ((x1 + (x2 - x1) * i / 100, y1 + (y2 - y1) * i / 100) for i in range(101))
    return [(x - 2, y - 2, x + 2, y + 2) for x, y in steps]


def _place_in_order(
    order, points, texts, size, taken, avoid, pad: float, limit: float
) -> tuple[float, dict[int, Place]] | None:
    """Return the sum of squared distances from label to point, and the places; each takes the best one that is left.

    None if there is no room, or if they would be as far as ``limit`` or farther.
    """
    chosen, boxes, leaders, total = {}, list(taken), [], 0.0
    for i in order:
        (x, y), half = points[i], width_of(texts[i]) / 2 + pad
        here = (x, y, x, y)  # a line that begins within a box, of a dot that is very near, has to leave it
        others = [box for box in boxes if not _touches(here, [box])] if pad else []
        best = None
        for cost, dx, dy in _places(half):
            if best and cost >= best[0]:
                break
            box = (x + dx - half, y + dy - LINE / 2, x + dx + half, y + dy + LINE / 2)
            inside = box[0] >= 0 and box[2] <= size[0] and box[1] >= 0 and box[3] <= size[1]
            if inside and not _touches(box, boxes) and not _touches(box, leaders):
                if any(_touches(step, others) for step in (_leader((x, y), (x + dx, y + dy)) if pad else ())):
                    continue
                cost += 20 * _touches(box, avoid)
                best = min(best or (cost, (dx, dy), box), (cost, (dx, dy), box))
        total += best[0] ** 2 if best else inf  # one far away is worse than two that are not quite near
        if total >= limit:
            return None
        chosen[i] = best[1]
        left, top, right, bottom = best[2]
        space = 2 if pad else GLYPH  # or 5 and 13 would read as 513
        boxes.append((left - space, top, right + space, bottom))
        leaders += _leader((x, y), (x + best[1][0], y + best[1][1])) if pad else ()
    return total, chosen


def _leader(begin: Place, end: Place) -> list[Box]:
    """Small boxes along the line from a point to its label."""
    (x1, y1), (x2, y2) = begin, end
    steps = range(1, int(hypot(x2 - x1, y2 - y1) / 3) + 1)
    parts = [3 * i / hypot(x2 - x1, y2 - y1) for i in steps]
    return [(x1 + (x2 - x1) * part - 1, y1 + (y2 - y1) * part - 1, x1 + (x2 - x1) * part + 1, y1 + (y2 - y1) * part + 1)
            for part in parts]  # fmt: skip


@cache
def _places(half: float) -> list[tuple[float, float, float]]:
    """Return the cost of each place that a label can take, and its offset from the point; the nearest come first."""
    sides = half + 11, -half - 11, half + 24, -half - 24, half + 48, -half - 48, 0, half, -half
    return sorted((hypot(max(abs(dx) - half, 0), dy), dx, dy) for dx in sides for dy in range(-240, 241, 3))


def _touches(box: Box, others: list[Box]) -> bool:
    left, top, right, bottom = box
    return any(a < right and left < c and b < bottom and top < d for a, b, c, d in others)


def tag(text: str, at: Place, color: str, corner: float) -> tuple[Markup, Markup]:
    """Draw the line to a label, which goes below its point, and the label."""
    (dx, dy), half = at, width_of(text) / 2 + PAD
    leader = svg.element("path", d=f"M0 0L{dx:g} {dy:g}", stroke=color, stroke_width=1.5)
    box = svg.element(
        "rect", x=dx - half, y=dy - 7, width=2 * half, height=14, rx=corner, fill=color, stroke="var(--paper)"
    )
    return leader, box + svg.text(dx, dy + 4, text, ink="paper", text_anchor="middle", class_="roofline__number")
