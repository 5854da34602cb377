# SPDX-License-Identifier: Apache-2.0
"""Cases that meet each pair of options once, where all combinations would only repeat what a pair has shown."""

import itertools

import pytest


def cover(axes: dict[str, list], together: int = 2) -> list[tuple]:
    """Return few rows in which each value of an axis meets each value of another one, or of two others for 3.

    >>> len(cover({"dtype": [16, 32, 64], "reverse": [False, True], "start": [False, True]}))
    6
    >>> rows = cover({"a": range(4), "b": range(3), "c": range(2), "d": range(2)}, together=3)
    >>> len({(a, b, d) for a, b, _, d in rows}), len({(b, c, d) for _, b, c, d in rows}), len(rows) < 48
    (24, 12, True)
    """
    values = [list(each) for each in axes.values()]
    candidates = [*itertools.product(*(range(len(each)) for each in values))]
    meetings = [*itertools.combinations(range(len(values)), min(together, len(values)))]
    met_by = {row: {(of, tuple(row[i] for i in of)) for of in meetings} for row in candidates}
    missing, rows = set().union(*met_by.values()), []
    while missing:
        rows.append(max(candidates, key=lambda row: len(met_by[row] & missing)))
        missing -= met_by[rows[-1]]
    return [tuple(each[i] for each, i in zip(values, row, strict=True)) for row in sorted(rows)]


def covering(together: int = 2, **axes):
    """Parametrize a test by the rows of ``cover``."""
    return pytest.mark.parametrize(tuple(axes), cover(axes, together))
