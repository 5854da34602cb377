# SPDX-License-Identifier: Apache-2.0
"""The three wrong rotations are wrong in just the way that the file's docstring says, and in no other."""

import torch

from snippets.fusion import rope_bug as bug
from snippets.fusion.rope import rope, rope_tables, toy


def test_the_second_of_a_pair_sees_the_first_that_was_turned(device):
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0)).to(device)
    cos, sin = rope_tables(5, 12, device=device)
    found = bug.overwritten(x, cos, sin)
    right = rope(x[:, None], x[:, None], cos, sin)[0][:, 0]
    assert torch.allclose(found[:, :6], right[:, :6])
    assert torch.allclose(found[:, 6:], x[:, 6:] * cos + right[:, :6] * sin, atol=1e-6)
    assert torch.allclose(found[0], right[0]), "nothing is turned at position 0"
    assert not torch.isclose(found[1:].norm(dim=1), x[1:].norm(dim=1), rtol=1e-3).any()


def test_the_other_layout_keeps_lengths_and_distances_but_not_scores(device):
    x, cos, sin = toy(device)
    right, wrong = (function(x, x, cos, sin)[0] for function in (rope, bug.layout_bug))
    assert torch.allclose(right.norm(dim=-1), wrong.norm(dim=-1))
    for scores in (bug.scores(right), bug.scores(wrong)):
        assert torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-4)
    assert not torch.allclose(bug.scores(right)[2, :2], bug.scores(wrong)[2, :2], rtol=0.1)


def test_angles_in_bfloat16_repeat_from_256_on(device):
    cos, sin = bug.coarse_tables_bug(1024, 8, device=device)
    right_cos, right_sin = rope_tables(1024, 8, device=device)
    for t in (256, 300, 511):
        same = t + 1 if t % 2 == 0 else t + 3 - (t + 3) % 4
        assert torch.equal(cos[t], cos[same]) and torch.equal(sin[t], sin[same])
    assert (cos[:100, 0].float() - right_cos[:100, 0]).abs().max() < 0.01, "the first pair turns by 1"
    assert (cos[257:, 0].float() - right_cos[257:, 0]).abs().max() > 0.4
    assert cos.shape == right_cos.shape and sin.shape == right_sin.shape


def test_every_wrong_one_is_tested_here():
    wrong = {name for name in vars(bug) if name.endswith("bug")}
    assert wrong == {"overwritten_bug", "layout_bug", "coarse_tables_bug"}
