# SPDX-License-Identifier: Apache-2.0
"""Without the minimum, tiles of the last group are nobody's; with whole groups, nobody notices."""

from snippets.matmul import grouped_bug
from snippets.matmul.grouped import order
from snippets.matmul.grouped_bug import order_bug


def test_right_for_whole_groups(device):
    for shape in ((6, 4, 3), (8, 5, 8), (4, 4, 1)):
        assert order_bug(*shape, device).equal(order(*shape, device=device))


def test_wrong_for_a_last_group_with_fewer_rows(device):
    taken = order_bug(5, 4, 3, device)
    assert (taken < 0).nonzero().tolist() == [[3, 3], [4, 3]]
    assert order_bug(1, 8, 8, device).tolist() == [[0, -1, -1, -1, -1, -1, -1, -1]]


def test_prints_what_the_page_shows(capsys):
    grouped_bug.main()
    five, six = capsys.readouterr().out.split("## ")[1:]
    assert "12  15  18   ·" in five and "tiles that no program takes: 2" in five
    assert "·" not in six and "tiles that no program takes: 0" in six
