# SPDX-License-Identifier: Apache-2.0
"""Spread labels along a line so that none covers another, each as near as can be to its place."""

import re


def spread(places: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Return the middle of each label, in pixels from the top: from ``low`` to ``high`` if there is room for all.

    >>> spread([50, 52, 90], [10, 10, 10], 0, 100)
    [46.0, 56.0, 90.0]
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    groups: list[tuple[float, float, list[int]]] = []  # of labels that touch: their upper edge, height and numbers
    for i in order:
        top, height, members = places[i] - heights[i] / 2, heights[i], [i]
        while True:
            top = max(low, min(top, high - height))
            if not groups or groups[-1][0] + groups[-1][1] <= top:
                break
            *_, before = groups.pop()
            members = before + members
            height = sum(heights[j] for j in members)
            top = _best(members, places, heights)
        groups.append((top, height, members))
    found = [0.0] * len(places)
    for top, _, members in groups:
        for i in members:
            found[i] = top + heights[i] / 2
            top += heights[i]
    return found


def _best(members: list[int], places: list[float], heights: list[float]) -> float:
    """Return the upper edge of a group of labels, one below the other, that lies nearest to all their places."""
    above, wanted = 0.0, 0.0
    for i in members:
        wanted += places[i] - heights[i] / 2 - above
        above += heights[i]
    return wanted / len(members)


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines of at most so many letters: between words, a longer one behind its brackets and dots.

    >>> wrapped("TMA, persistent, begun early", 13), wrapped("torch.relu(matmul(x, w))", 13)
    (['TMA,', 'persistent,', 'begun early'], ['torch.relu(', 'matmul(x, w))'])
    """
    lines: list[str] = []
    for word in text.split():
        for part in [word] if len(word) <= width else re.findall(r"[^(._]*[(._]+|[^(._]+$", word):
            gap = " " if part == word or word.startswith(part) else ""
            if lines and len(lines[-1] + gap + part) <= width:
                lines[-1] += gap + part
            else:
                lines.append(part)
    return lines
