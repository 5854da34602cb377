# SPDX-License-Identifier: Apache-2.0
"""A figure's frame ends where its picture ends: what folds out of it stands below, beside where it ran."""

import pytest
from markupsafe import Markup

from render.views.frame import _without_numbers

NUMBERS = Markup('<details class="as-table"><summary>As a table</summary><table></table></details>')
INSIDE = Markup("<details><summary>How to read it</summary></details>")
PICTURE = Markup("<svg></svg>")


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_table_at_the_end_of_a_figure_stands_below_its_frame(end):
    assert _without_numbers(PICTURE + NUMBERS + end) == (PICTURE, NUMBERS)


@pytest.mark.parametrize("body", [PICTURE, NUMBERS + PICTURE, NUMBERS + INSIDE, PICTURE + INSIDE])
def test_what_else_a_figure_folds_stays_in_it(body):
    assert _without_numbers(body) == (body, "")
