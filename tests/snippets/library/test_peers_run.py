# SPDX-License-Identifier: Apache-2.0
"""Peers' cases are counted as what they are, and of many, few are chosen in which all pairs of options meet."""

import itertools

import pytest
import torch

from snippets.library import peers_compared as compared
from snippets.library import peers_norms
from snippets.library import peers_run as snippet


def toy(size, wrong=False, refused=False, broken=False):
    def ours(x):
        if refused:
            raise ValueError("refused of 1 is not supported")
        return x * (2.1 if wrong else 2)

    def exact(x):
        if broken:
            raise RuntimeError("out of memory")
        return x * 2

    return compared.agrees(ours, exact, torch.ones(size))


def test_each_case_is_counted_once_as_what_it_is():
    faults = [(None, None, None), (True, None, None), (None, True, None), (None, None, True)]
    grids = [
        snippet.grid({"size": [3, 4], "wrong refused broken": faults}),
        snippet.grid({"size": [3], "dropout": [None, 0.1]}),
    ]
    ((peer, name, cases, lacking, run, counts, why),) = snippet.tally({("a peer", "toy"): (toy, grids)}, {})
    assert (peer, name, cases, lacking, run) == ("a peer", "toy", 9, 1, 8)
    assert counts == {"pass": 2, "wrong": 2, "refused": 2, "failed": 2}
    assert why["missing: dropout"] == 1 and why["refused: refused of 1 is not supported"] == 2
    assert why["wrong: {'size': 3, 'wrong': True}"] == 1
    assert why["failed: RuntimeError: out of memory: {'size': 4, 'broken': True}"] == 1


def test_what_is_counted_is_printed(capsys):
    grids = [snippet.grid({"wrong": [None, True], "dropout": [None, 0.1]}, size=3)]
    snippet.report({("a peer", "toy"): (toy, grids)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["a", "peer", "toy", "4", "2", "2", "1", "0", "1"]
    assert "a peer, toy: missing: dropout (2)" in lines
    assert lines[-6:] == ["cases: 4", "missing: 2", "run: 2", "pass: 1", "refused: 0", "wrong: 1"]


def test_a_wrong_reference_is_counted_as_wrong(monkeypatch):
    case = {"rows": 3, "columns": 20, "dtype": torch.float32}
    assert snippet.outcome(peers_norms.norm, case) == "pass"
    right = peers_norms.norms.in_torch
    monkeypatch.setattr(peers_norms.norms, "in_torch", lambda *given, **more: (2 * right(*given, **more)[0], None))
    assert snippet.outcome(peers_norms.norm, case).startswith("wrong")


def test_an_option_without_a_parameter_is_missing():
    case = {"rows": 3, "columns": 20, "dtype": torch.float32, "offset": 1.0, "dropout": 0.1}
    known = snippet.parameters(peers_norms.norm, peers_norms.norms.rms_norm)
    assert snippet.missing(known, case) == ["dropout"]
    assert snippet.missing(snippet.parameters(peers_norms.norm, None), case) == ["offset", "dropout"]


def test_of_many_each_pair_of_options_is_chosen():
    axes = {"a": range(8), "b": range(6), "c": [None, True], "rows": range(5), "columns": range(5)}
    cases = snippet.grid({name: [*values] for name, values in axes.items()})
    kept = snippet.chosen(cases)
    assert len(kept) < 1.1 * 8 * 6  # no choice has fewer than a × b; any case with a new pair, as they come: 79
    for a, b in itertools.combinations(axes, 2):
        if {a, b} != {"rows", "columns"}:
            pairs = lambda cases, a=a, b=b: {(case.get(a), case.get(b)) for case in cases}
            assert pairs(kept) == pairs(cases), (a, b)
    assert snippet.chosen(cases[: snippet.MOST]) == cases[: snippet.MOST]


@pytest.mark.gpu
def test_cases_of_every_size_run_in_processes():
    rows = (3, 2**14 + 1, 5, 2**12 + 1)
    work = [(peers_norms.norm, {"rows": n, "columns": 2**14, "dtype": torch.float16}) for n in rows]
    held = {min(most for most in snippet.WORKERS if snippet.elements(case) <= most) for _, case in work}
    assert held == {*snippet.WORKERS}
    assert snippet.outcomes(work) == ["pass"] * 4
