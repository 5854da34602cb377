# SPDX-License-Identifier: Apache-2.0
"""Bags, scatter-adds and maxima are torch's at odd sizes, within bounds; what is compiled is what the page says."""

import re
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_inside, environment, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st

from snippets.tools import asked_more as snippet
from tests.processes import run_script

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def guarded(x: torch.Tensor) -> torch.Tensor:
    """Put it between guards of NaN, which spoil a sum that reads them."""
    return Guarded.around(x.to(DEVICE), before=64, after=64, fill=0xFF).tensor


@given(rows=st.integers(1, 9), columns=st.integers(1, 20), lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_bags(rows, columns, lengths):
    table = guarded(torch.randn(rows, columns))
    start = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], device=DEVICE)
    index = torch.randint(rows, (sum(lengths),), device=DEVICE)
    found = snippet.bags(table, index, start)
    for bag in range(len(lengths)):
        picked = table[index[start[bag] : start[bag + 1]]]
        torch.testing.assert_close(found[bag], picked.sum(0), rtol=1e-5, atol=1e-5)


@given(rows=st.integers(1, 9), columns=st.integers(1, 20), sources=st.integers(1, 12))
def test_scatter_add(rows, columns, sources):
    x = guarded(torch.randn(sources, columns))
    index = torch.randint(rows, (sources,), device=DEVICE)
    wanted = torch.zeros(rows, columns, device=DEVICE).index_add_(0, index, x)
    torch.testing.assert_close(snippet.scatter_add(x, index, rows), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 16, 17, 200])
@pytest.mark.parametrize("below", [0.0, 2.0], ids=["positive", "negative"])
def test_largest(n, below):
    x = guarded(torch.rand(n).half() - below)
    assert snippet.largest(x) == x.max().item()


@pytest.mark.skipif(DEVICE == "cuda", reason="the interpreter notes accesses")
@pytest.mark.parametrize("columns", [5, 16])
def test_nothing_outside_is_read(columns):
    rows, index, start = torch.randn(4, columns), torch.tensor([0, 3, 1, 3]), torch.tensor([0, 3, 4])
    with recorded_accesses() as seen:
        snippet.bags(rows, index, start)
    check_inside(seen, "load", rows=rows, index=index, start=start)
    with recorded_accesses() as seen:
        snippet.scatter_add(rows, index, 4)
    check_inside(seen, "load", rows=rows, index=index)
    with recorded_accesses() as seen:
        snippet.largest(rows)
    check_inside(seen, "load", rows=rows)


def test_what_is_printed():
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    _, ran, _, maxima = re.split(r"^## .+\n", done.stdout, flags=re.MULTILINE)
    assert ran.count("as torch's") == 3 and "wrong" not in ran
    said = dict(line.split(": ", 1) for line in maxima.splitlines())
    assert said["fp32"].startswith("atom.") and all("does not support" in said[each] for each in ("fp16", "bf16"))
