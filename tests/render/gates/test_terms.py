# SPDX-License-Identifier: Apache-2.0
"""A term of the glossary is a link to it where a page first uses it, and the glossary is in order."""

import pytest

from render.gates.terms import misplaced, prose_of, terms, unlinked

KNOWN = ["Block", "Lane", "Thread block"]
LINK = '<a href="../glossary.md#block">blocks</a>'


def test_the_terms_are_the_headings_of_the_glossary():
    html = '<h1>Glossary</h1><h2 id="block">Block<a class="headerlink">¶</a></h2><p>B</p><h3>No</h3><h2>FP8</h2>'
    assert terms(html) == ["Block", "FP8"]


def test_the_glossary_is_in_order():
    assert misplaced(["Block", "fp8", "Lane"]) == []
    assert misplaced(["fp8", "Block", "Lane"]) == ["fp8", "Block"]


@pytest.mark.parametrize(
    ("page", "uses"),
    [
        ("<p>A block.</p>", ["Block"]),
        ("<ul><li>Two blocks and <b>a lane</b></li></ul>", ["Block", "Lane"]),
        ("<table><td>Lane</td></table>", ["Lane"]),
        ("<p>A thread block.</p>", ["Thread block"]),  # which is no block
        (f"<p>A block is like {LINK}.</p>", ["Block"]),  # the link comes too late
        (f"<p>{LINK} and a block.</p>", []),
        (f'<p>{LINK.replace("block", "thread-block")}: <a href="../glossary.md#thread-block">thread block</a></p>', []),
        (f'<p><a href="x.md">A block</a>, {LINK}.</p>', []),  # a link to another page says where it leads
        ('<p><a href="x.md">A block</a>, a block.</p>', ["Block"]),
        ("<h2>Block</h2><pre>block</pre><p><code>block</code></p>", []),
        ('<figure class="recording"><p>block</p></figure><details><p>a lane</p></details>', []),
        ("<svg><text>block</text></svg><div>block</div>", []),
        ("<p>blocky, unblock, multi-block, block-wise</p>", []),
        ("<p>Block’s lanes</p>", ["Block", "Lane"]),
    ],
)
def test_a_first_use_without_a_link(page, uses):
    assert list(unlinked(prose_of(page), KNOWN)) == uses


def test_what_is_said_of_it():
    words = "one two three four five six seven eight nine ten eleven"
    (quoted,) = unlinked(prose_of(f"<p>{words}\nblock\n{words}</p>"), ["Block"]).values()
    assert "ten eleven block one two" in quoted and len(quoted) < 90
