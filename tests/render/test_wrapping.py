# SPDX-License-Identifier: Apache-2.0
"""Which blocks of code wrap on a narrow screen, and that no character is lost on the way."""

import html
import re

import pytest

from render.code import highlight_python
from render.wrapping import FITS, WRAPS, with_wrapping

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
    assert [text_of(line) for line in found] == [line for line in code.split("\n") if len(line) > WRAPS]


def test_what_comes_of_a_line_stands_further_in_than_the_line():
    indented = f"def f():\n        {LONG}"
    assert 'class="long" style="--in:12"' in with_wrapping(highlight_python(indented))


def test_it_stands_further_in_than_the_block_that_the_line_begins():
    begins = "    if columns > 1 and x.stride(1) != 1:"
    assert 'class="long" style="--in:12"' in with_wrapping(highlight_python(f"{begins}\n        return"))


def in_columns(text: str) -> tuple[str, int, int]:
    """The HTML of a text that is set in columns, how wide it is, and what of it must fit a phone."""
    shown = with_wrapping(f'<pre class="output" tabindex="0"><code>{text}</code></pre>')
    assert text_of(shown) == text
    code = re.search(
        r'(?s)<code class="in-columns[ cut]*" style="--columns:(\d+);--kept:(\d+)">(.*)</code></pre>', shown
    )
    return code[3], int(code[1]), int(code[2])


NUMBERS = f"{'row 0, grad:':30} 1.0    0.00   -0.5\n{'row 1, grad_x:':30} 1.0   10.00    7.5"


def test_what_is_set_in_columns_keeps_its_lines_with_less_between_them():
    shown, columns, kept = in_columns(NUMBERS)
    assert columns == 49
    narrow = re.sub('<span class="spare"> +</span>', "", shown)
    assert narrow == "row 0, grad:   1.0  0.00 -0.5\nrow 1, grad_x: 1.0 10.00  7.5"
    assert kept == FITS


def test_words_stay_two_blanks_apart():
    shown, *_ = in_columns(f"{'size':30}   of what it is\n{'10':30}   rows")
    assert re.sub('<span class="spare"> +</span>', "", shown).splitlines()[0] == "size  of what it is"


ARROW = "    x = tl.load(pointers_of_a_long_name, mask=mask)\n        ^\nthe arrow points at a column, in one line"


def test_what_an_arrow_points_at_is_marked_where_its_line_may_wrap():
    shown, columns, kept = in_columns(ARROW)
    assert (columns, kept) == (51, FITS)
    assert '    x = <span class="here">t</span>l.load(' in shown
    assert '\n</span><span class="arrow">        ^\n</span>' in shown


def test_an_arrow_below_a_short_line_stays_as_it_is():
    text = "x = 3\n    ^\nthe arrow points at a column, in one line"
    assert in_columns(text)[0].startswith("x = 3\n    ^\n<span")


def test_a_sketch_stays_whole():
    drawn = f"{'a ' * 25}\nhead{' ' * 30}rest"
    page = f'<div class="language-text highlight"><pre><span></span><code>{drawn}</code></pre></div>'
    assert with_wrapping(page) == page.replace("<code>", '<code class="in-columns">')


def test_code_with_a_gap_wraps_as_code_does():
    """It can't be run, so it isn't marked as Python."""
    code = "@triton.jit\ndef flip_kernel(x_ptr, out_ptr):\n    x = tl.load(x_ptr + ??? * stride, mask=m)  # which row?"
    page = f'<div class="language-text highlight"><pre><span></span><code>{code}</code></pre></div>'
    shown = with_wrapping(page)
    assert "in-columns" not in shown and shown.count('<span class="long"') == 2


def test_a_last_column_of_words_wraps_below_itself():
    rows = "mask     from memory\nother    the value that a load puts where its mask is off, 0 or another one"
    shown, _, kept = in_columns(rows)
    assert '<span class="long" style="--in:7;--full:9">other<span class="spare">  </span>  the value that' in shown
    assert kept == FITS


def test_a_last_column_far_to_the_right_goes_to_the_next_line():
    far = "x" * 22
    shown, *_ = in_columns(f"{far}  one more\n{far}  the value that a load puts where its mask is off")
    assert f'style="--in:4">{far}  the value' in shown


ROWS = """x            8.000  0.000  0.000  0.000 -1.000  0.000  0.000  0.000
recurrence   8.000  4.000  2.000  1.000  0.500  0.250  0.125  0.062"""


def test_rows_of_numbers_break_between_the_same_two_columns():
    shown, columns, kept = in_columns(ROWS)
    cells = [re.findall('<span class="kept">([^<]*)</span>', line) for line in shown.split("\n")]
    assert cells[0] == ["8.000", "0.000", "0.000", "0.000", "-1.000", "0.000", "0.000", "0.000"]
    assert [len(cell.rstrip()) for cell in cells[1]] == list(map(len, cells[0]))  # " 0.500", below -1.000
    assert columns == len(ROWS.splitlines()[0]) and kept == FITS


def test_what_comes_of_a_row_stands_below_its_second_column():
    assert in_columns(ROWS)[0].count("--in:11;--full:13") == 2


def test_a_row_breaks_inside_no_bracket():
    rows = "pid [0]  offsets [ 8  9 10 11]  mask [ True  True False False]"
    shown, *_ = in_columns(f"{rows}\n{rows.replace('0', '1')}")
    assert shown.count('<span class="kept">offsets [') == shown.count('<span class="kept">mask [') == 2
    assert shown.count('<span class="kept">') == 4


def test_a_list_that_is_too_long_for_a_line_breaks_inside():
    rows = "x     = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]\ny     = [0.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]"
    assert "kept" not in in_columns(rows)[0]


TABLE = """config               registers  spilled  shared (bytes)  cp.async  wgmma
128x256x64 w8 s1           226        0          49,152         0      4"""


def test_a_table_whose_columns_have_names_stays_whole_and_says_that_it_scrolls():
    page = with_wrapping(f'<pre class="output" tabindex="0"><code>{TABLE}</code></pre>')
    assert "long" not in page and 'class="in-columns cut"' in page


def test_so_does_a_table_of_words():
    names = "GPU     target  x + x, float32  tl.dot, float16   descriptor            float8e4nv"
    page = with_wrapping(f'<pre class="output"><code>{names}\n{names.replace("GPU ", "B200")}</code></pre>')
    assert "long" not in page and 'class="in-columns cut"' in page


@pytest.mark.parametrize("text", [ROWS, TABLE, ARROW])
def test_one_that_fits_says_nothing(text):
    short = "\n".join(line[:40] for line in text.splitlines())
    assert "cut" not in with_wrapping(f'<pre class="output"><code>{short}</code></pre>')


def test_names_joined_by_dots_break_after_a_dot():
    page = with_wrapping(highlight_python(f"x = first_name.second_name.third_name  # {LONG}\ny = first.second"))
    assert page.count("<wbr>") == page.count('<span class="o">.</span><wbr>') == 2  # none in the short line


def test_the_name_of_a_module_does_too():
    page = with_wrapping(highlight_python("from triton.experimental.gluon.language.nvidia import hopper"))
    assert "triton.<wbr>experimental.<wbr>gluon." in page


def kept(code: str) -> list[str]:
    page = with_wrapping(highlight_python(code))
    pieces = re.findall(r'<span class="kept">((?:<span[^>]*>[^<]*</span>|[^<])*)</span>', page)
    return [text_of(piece) for piece in pieces]


def test_a_short_call_and_a_subscript_stay_in_one_line():
    assert kept("row, step = tl.arange(0, BLOCK_M), tl.load(a, mask=mask)[:, None]") == [
        "tl.arange(0, BLOCK_M),",  # what is colored together stays together
        "tl.load(a, mask=mask)[:, None]",
    ]
    assert kept("scores = tl.where(mask[:, None], scores, 0.0) + bias") == ["mask[:, None],"]


def test_a_comment_and_a_string_wrap_between_their_words():
    assert not kept("total += 1  # of f(a, b) and g(a, b), which are short")
    assert not kept('raise ValueError(f"x is on f(a, b), and the kernel takes others")')


def test_what_has_no_blank_breaks_behind_a_bracket_or_before_a_dot():
    page = with_wrapping(highlight_python("x = mbarrier.expect(arrived_at.index(slot)).of_a_name(x)"))
    assert text_of(page.replace("<wbr>", "|")).strip() == "x = mbarrier.expect(|arrived_at.index(|slot))|.of_a_name(|x)"


def test_a_long_name_of_a_function_breaks_after_its_dots_first():
    page = with_wrapping(highlight_python("y = torch.nn.functional.scaled_dot_product_attention(q)"))
    shown = text_of(page.replace("<wbr>", "|")).strip()
    assert shown == "y = torch.|nn.|functional.|scaled_dot_product_attention(|q)"


def test_a_sign_stays_with_its_number():
    page = with_wrapping(highlight_python(f'x = tl.where(mask, a - b, -float("inf"))  # {LONG}'))
    assert [text_of(kept) for kept in re.findall('<span class="kept">(.*?)</span></span>', page)] == ["-float"]


def test_a_sentence_that_a_run_printed_wraps():
    text = "ValueError: x is on cpu, and the kernel takes tensors of a GPU"
    assert '<span class="long"' in with_wrapping(f'<pre class="output"><code>{text}</code></pre>')


def test_a_listing_of_the_compiler_stays():
    listing = f'<pre class="stage stage--ptx"><code><span class="code-line">{LONG}</span></code></pre>'
    assert with_wrapping(listing) == listing


def test_the_code_of_an_explorer_stays():
    line = f'<span data-line="1" role="button">{LONG}\n</span>'
    assert with_wrapping(f'<pre class="stages__source"><code>{line}</code></pre>').count("<span") == 1
