# SPDX-License-Identifier: Apache-2.0
"""What the toy prints is what torch finds: tiles of each expert that never cross an end, and programs left over."""

import itertools

import pytest
import torch
from guards import check_inside, recorded_accesses

from snippets.models import experts, experts_steps
from snippets.models.experts_steps import BLOCK_M, EXPERTS, ROUTINGS, TOP_K, by_hand, found, logits_of, until


@pytest.mark.parametrize("chosen", ROUTINGS.values(), ids=ROUTINGS)
def test_tiles(chosen, device):
    routing = experts.route(logits_of(chosen).to(device), TOP_K)
    assert ["".join(map(str, pair)) for pair in routing.experts.tolist()] == chosen
    assert torch.allclose(routing.weights, torch.tensor([0.75, 0.25], device=device).expand(8, 2))
    counts = [sum(str(e) in pair for pair in chosen) for e in range(EXPERTS)]
    expected, begin = [], 0
    for e, count in enumerate(counts):
        expected += [(e, begin + first, min(BLOCK_M, count - first)) for first in range(0, count, BLOCK_M)]
        begin += count
    tiles = found(routing)
    assert tiles == expected + [(-1, -1, -1)] * (len(tiles) - len(expected))
    assert len(tiles) == experts.most_tiles(16, EXPERTS, BLOCK_M)
    upto = list(itertools.accumulate(-(-count // BLOCK_M) for count in counts))
    assert until(routing) == upto
    for tile in range(upto[-1]):  # what is done by hand is what the kernel finds
        said = by_hand(tile, upto, routing.offsets.tolist())
        assert f"expert {tiles[tile][0]}," in said and said.endswith(f"= {tiles[tile][1]}")


@pytest.mark.parametrize("tiles_n", [1, 3])
def test_one_kernel(tiles_n):
    """Of any counts, and with several columns of tiles, each row and column of tiles is found once."""
    for counts in itertools.product((0, 1, 4, 9), repeat=3):
        offsets = torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32)
        programs = sum(-(-count // 4) for count in counts) * tiles_n
        out = torch.full((max(1, programs) + 2, 3), -1, dtype=torch.int32)
        with recorded_accesses() as accesses:
            experts_steps.toy_kernel[(programs + 2,)](offsets, out, 3, tiles_n, EXPERTS=4, BLOCK_M=4)
        check_inside(accesses, "load", offsets=offsets)
        seen = [tuple(row) for row in out[:programs].tolist()]
        wanted = [
            (e, int(offsets[e]) + first, min(4, count - first))
            for e, count in enumerate(counts) for first in range(0, count, 4)
        ]  # fmt: skip
        assert sorted(seen) == sorted(wanted * tiles_n) and (out[programs:] == -1).all()


def test_prints(capsys):
    experts_steps.main()
    printed = capsys.readouterr().out
    assert printed.count("## ") == len(ROUTINGS) and "counts: 7 5 3 1\noffsets: 0 7 12 15 16\n" in printed
    assert "until: 2 4 5 6\ntile 3: over 1 0 0 0, expert 1, its tile 3 - 2 = 1, from row 7" in printed
    assert "program 3: expert 1, rows 11 to 11\n" in printed and printed.count("leaves") == 3 + 1 + 3
