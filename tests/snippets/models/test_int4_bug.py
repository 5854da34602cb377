# SPDX-License-Identifier: Apache-2.0
"""Each is wrong in the way that the page says, and right where it says so."""

import torch

from snippets.models import int4_bug as snippet
from snippets.models.int4 import int4_matmul, pack, unpacked


def test_without_a_mask_large_numbers_turn_negative(device):
    q = torch.arange(16)
    words = (q << 12).to(torch.int16).to(device)
    found = torch.empty_like(words)
    snippet.highest_part_bug[(1,)](words, found, BLOCK=16)
    assert found.tolist() == [*range(8), *range(-8, 0)]


def test_neighbors_in_a_word_meet_the_wrong_numbers_of_x(device):
    q = torch.randint(16, (8, 256), generator=torch.Generator().manual_seed(0)).to(device)
    given = q, torch.ones(8, 2, device=device), torch.full((8, 2), 8, device=device)
    wrong, right = snippet.pack_neighbors_bug(*given), pack(*given)
    ones = torch.ones(1, 256, device=device).half()
    assert torch.equal(int4_matmul(ones, wrong), int4_matmul(ones, right))
    x = torch.arange(256, device=device)[None].half() % 3
    assert (int4_matmul(x, wrong) != int4_matmul(x, right)).any()
    turned = x.view(1, 2, 32, 4).transpose(2, 3).reshape(1, 256)  # x in the order of the words
    assert torch.equal(int4_matmul(turned, wrong).double(), x.double() @ unpacked(right).double().t())
