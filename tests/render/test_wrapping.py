# SPDX-License-Identifier: Apache-2.0
"""Which blocks of code wrap on a narrow screen, and that no character is lost on the way."""

import html
import re

import pytest

from render.code import highlight_python
from render.wrapping import FITS, with_wrapping

LONG = "x = tl.load(x_ptr + offsets, mask=mask, other=0)  # two blanks before a comment are no columns"
SHORT = "y = x"
CODES = [LONG, f"{SHORT}\n{LONG}\n\n{SHORT}", f"{LONG}\n{LONG}", f"\n{LONG}\n\n\n{LONG}\n", "\n".join([SHORT] * 3)]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.mark.parametrize("code", CODES)
def test_the_text_stays_what_it_was(code):
    for page in (highlight_python(code), f"<pre><code>{code}</code></pre>"):
        assert text_of(with_wrapping(page)) == text_of(page)


@pytest.mark.parametrize("code", CODES)
def test_each_long_line_of_code_is_a_block_and_no_other_is(code):
    page = with_wrapping(highlight_python(code))
    found = re.findall(r'(?s)<span class="long"[^>]*>(.*?)(?=\n</span>|</span>\n?(?:</code>|$))', page)
    assert [text_of(line) for line in found] == [line for line in code.split("\n") if len(line) > FITS]


def test_what_comes_of_a_line_stands_further_in_than_the_line():
    indented = f"def f():\n        {LONG}"
    assert 'class="long" style="--in:12"' in with_wrapping(highlight_python(indented))


@pytest.mark.parametrize(
    "text",
    [
        "kernel            TFLOP/s    share\nours                 671    101 %\n"
        + "and a line of more than forty columns, too",
        "    x = tl.load(pointers_of_a_long_name, mask=mask)\n        ^\nthe arrow points at a column",
    ],
)
def test_what_is_set_in_columns_keeps_its_lines(text):
    shown = with_wrapping(f'<pre class="output" tabindex="0"><code>{text}</code></pre>')
    columns = max(map(len, text.splitlines()))
    begin = f'<pre class="output" tabindex="0"><code class="in-columns" style="--columns:{columns}">'
    assert shown == f"{begin}{text}</code></pre>"


def test_names_joined_by_dots_break_after_a_dot():
    page = with_wrapping(highlight_python(f"x = first_name.second_name.third_name  # {LONG}\ny = first.second"))
    assert page.count("<wbr>") == page.count('<span class="o">.</span><wbr>') == 2  # none in the short line


def test_a_sentence_that_a_run_printed_wraps():
    text = "ValueError: x is on cpu, and the kernel takes tensors of a GPU"
    assert '<span class="long"' in with_wrapping(f'<pre class="output"><code>{text}</code></pre>')


def test_a_listing_of_the_compiler_stays():
    listing = f'<pre class="stage stage--ptx"><code><span class="code-line">{LONG}</span></code></pre>'
    assert with_wrapping(listing) == listing


def test_the_code_of_an_explorer_stays():
    line = f'<span data-line="1" role="button">{LONG}\n</span>'
    assert with_wrapping(f'<pre class="stages__source"><code>{line}</code></pre>').count("<span") == 1
