# SPDX-License-Identifier: Apache-2.0
"""The small kernels: each part holds what it should, all parts their sum, each key its row; nothing else is touched."""

import contextlib

import torch
from guards import Guarded, check_each_once, check_inside, recorded_accesses

from snippets.fusion import decoding_steps as snippet


def numbers(size, device, seed=0):
    return 3 * torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(device)


def kept(tensor, **zones):
    """A guarded copy, and what it must still hold later."""
    return Guarded.around(tensor, before=32, after=32, fill=0xFF, **zones), tensor.clone()


def test_the_toy_of_parts(device):
    """Maximum, sum and weighted sum of each of three parts, and what they are together."""
    (score, scores), (value, values) = (kept(numbers(12, device, seed)) for seed in range(2))
    parts, out = (Guarded(shape, torch.float32, device, before=32, after=32, fill=0xFF) for shape in ((3, 3), (2,)))
    snippet.toy_part_kernel[(3,)](score.tensor, value.tensor, parts.tensor, BLOCK=4)
    maxima, weights = scores.view(3, 4).amax(1), (scores.view(3, 4) - scores.view(3, 4).amax(1, keepdim=True)).exp()
    wanted = torch.stack([maxima, weights.sum(1), (weights * values.view(3, 4)).sum(1)], dim=1)
    assert torch.allclose(parts.tensor, wanted)
    four, of_four = kept(torch.cat([wanted, torch.tensor([[-1.0, 2.0, -3.0]], device=device)]))
    snippet.toy_combine_kernel[(1,)](four.tensor, out.tensor, PARTS=4)
    assert torch.allclose(out.tensor, ((of_four[:, 0] - of_four[:, 0].max()).exp() @ of_four[:, 1:]))
    for each, before in ((score, scores), (value, values), (four, of_four)):
        each.check("what is given")
        assert torch.equal(each.tensor, before)
    parts.check("parts"), out.check("out")


def test_the_toy_of_pages(device):
    """Ten keys in pages of four: the last page is not full. The table's rows are three of four columns."""
    pages = torch.tensor([[5, 0, 8, -99], [1, 9, 3, -99], [7, 2, 4, -99]], dtype=torch.int32, device=device)
    table, before = kept(pages)
    out = Guarded((3, 10), torch.int32, device, before=32, after=32, fill=0xFF)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with seen as accesses:
        snippet.toy_pages_kernel[(3,)](table.tensor, out.tensor, 4, 10, PAGE_SIZE=4, BLOCK=16)
    assert out.tensor.tolist() == [[4 * row[key // 4] + key % 4 for key in range(10)] for row in pages.tolist()]
    out.check("out"), table.check("table")
    assert torch.equal(table.tensor, before)
    if device == "cpu":
        check_inside(accesses, "load", table=table.tensor[:, :3])
        check_each_once(accesses, "store", out=out.tensor)


def test_parts_of_the_toy_are_attention(device):
    scores, values = snippet.toy(device)
    weights = (scores - scores.amax()).exp()
    for parts in (1, 2, 4):
        stored, (total, accumulator) = snippet.in_parts(scores, values, parts)
        assert [maximum for maximum, *_ in stored] == scores.view(parts, -1).amax(1).tolist()
        torch.testing.assert_close([total, accumulator], [weights.sum().item(), (weights @ values).item()])


def test_rows_of_keys_in_a_slice_of_a_table(device):
    table = snippet.toy_table(device)
    found = snippet.rows_of_keys(snippet.toy_pages_kernel, table, table.stride(0))
    assert found == [[8, 9, 0, 1, 4, 5], [2, 3, 10, 11, 6, 7]]
