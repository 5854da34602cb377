# SPDX-License-Identifier: Apache-2.0
"""Guesses are kept and replaced so that each token is distributed as by the large model; no other memory is read."""

import pytest
import torch

from snippets.models import speculative_plain as snippet
from snippets.models.speculative_plain import verify

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy: a token with nothing left waits forever


def among_nans(x):
    nan = x.new_full((64,), torch.nan)
    return torch.cat([nan, x.flatten(), nan])[64:-64].view(x.shape)


def given(rows, q, p, device):
    """Rows that are alike; q and p are lists, one for each guess, p has one more."""
    q, p = (among_nans(torch.tensor(each, device=device).repeat(rows, 1, 1)) for each in (q, p))
    return q, p, torch.arange(rows, device=device)


def test_all_is_kept_where_both_models_agree(device):
    alike = [[0.5, 0.5, 0], [0.25, 0.25, 0.5]]
    q, p, seeds = given(9, alike, [*alike, [0, 0.5, 0.5]], device)
    guesses = torch.tensor([[1, 2]], device=device).repeat(9, 1)
    tokens, kept = verify(guesses, q, p, seeds)
    assert kept.tolist() == [2] * 9 and tokens[:, :2].tolist() == [[1, 2]] * 9
    assert {*tokens[:, 2].tolist()} == {1, 2}  # nothing is taken off the last p


def test_what_the_large_model_never_writes_is_replaced(device):
    q, p, seeds = given(9, [[0.5, 0.5, 0], [1.0, 0, 0]], [[0.5, 0.5, 0], [0, 0.5, 0.5], [1.0, 0, 0]], device)
    tokens, kept = verify(torch.zeros(9, 2, dtype=torch.int64, device=device), q, p, seeds)
    assert kept.tolist() == [1] * 9 and tokens[:, 0].tolist() == [0] * 9 and tokens[:, 2].tolist() == [-1] * 9
    assert {*tokens[:, 1].tolist()} == {1, 2}


def test_first_tokens_are_those_of_the_large_model_and_replacements_of_what_is_left(device):
    rows, q, p = 300, [[0.7, 0.2, 0.1]], [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]
    of_q, of_p, seeds = given(rows, q, p, device)
    guesses = torch.multinomial(of_q[:, 0], 1, generator=torch.Generator(device).manual_seed(0))
    tokens, kept = verify(guesses, of_q, of_p, seeds)
    found = torch.bincount(tokens[:, 0], minlength=3).cpu() / rows
    assert torch.allclose(found, torch.tensor(p[0]), atol=0.08), "four standard deviations are 0.12 at most"
    assert abs(kept.sum().item() / rows - 0.5) < 0.08  # the sum of the smaller of both
    assert {*tokens[kept == 0, 0].tolist()} == {1, 2} and {*tokens[kept == 1, 1].tolist()} == {1}


def test_rounding_may_leave_nothing(device):
    """A guess is dropped although no token has more of p than of q, as p adds up to less than 1."""
    q, p, seeds = given(20, [[0.75, 0.25]], [[0.25, 0.25], [0.0, 1.0]], device)
    tokens, kept = verify(torch.zeros(20, 1, dtype=torch.int64, device=device), q, p, seeds)
    assert 0 < kept.sum() < 20 and ((tokens[:, 0] >= 0) & (tokens[:, 0] < 2)).all()
    assert 1 in tokens[kept == 0, 0]


def test_main_prints_what_is_drawn(capsys):
    snippet.main()
    lines = dict(line.split(": ") for line in capsys.readouterr().out.splitlines() if ": " in line)
    wanted, found = ([float(x) for x in lines[name].split()] for name in ("large model", "first tokens"))
    assert max(abs(a - b) for a, b in zip(wanted, found, strict=True)) < 0.06
    assert abs(float(lines["kept"]) - float(lines["should be kept"])) < 0.06
