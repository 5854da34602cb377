# SPDX-License-Identifier: Apache-2.0
"""The same elements by threads and by programs, and no value where the guard or the mask is false."""

import pytest
import torch
from guards import recorded_accesses

from snippets.programs import programs_and_threads_variables as variables


@pytest.mark.parametrize("n, side", [(1, 1), (6, 4), (8, 4), (9, 4), (5, 8)])
def test_threads_and_programs_hold_the_same(n, side):
    x = 10 + torch.arange(n)
    threads = variables.cuda_variables(x, threads=side)
    with recorded_accesses() as accesses:
        programs = variables.triton_variables(x, block_size=side)
    loaded = [address for op, addresses in accesses if op == "load" for address in addresses]
    assert [int(address - x.data_ptr()) // x.itemsize for address in loaded] == list(range(n))
    assert [row[2:] for row in threads] == [lane for _, *held in programs for lane in zip(*held, strict=True)]
    assert [row[:2] for row in threads] == [(pid, lane) for pid, *_ in programs for lane in range(side)]
    for _, _, i, guard, value in threads:
        assert guard == (i < n) and value == (10 + i if i < n else variables.OFF)


def test_prints_what_the_page_shows(capsys):
    variables.main()
    eight, two = capsys.readouterr().out.split("## ")[1:]
    assert eight.count("True") == 6 and eight.count("False") == 2 and eight.count("·") == 2
    assert "pid 0" in two and two.count("True") == 6 and two.count("·") == 2
