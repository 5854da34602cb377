# SPDX-License-Identifier: Apache-2.0
"""Whatever was neither executed nor recorded says so, wherever it stands; and none looks as if it had been."""

import pytest
from bs4 import BeautifulSoup

from render import config
from render.page import PageError

FILE = "```recording\nview: file\n```\n"


@pytest.fixture
def convert(course):
    def convert(text):
        text = f"# Toy\n\n{text}\n\n{FILE}"
        converter = config.converter()
        converter.page_of_check = (course.write("docs/en/programs/toy.md", text), "programs/toy.md")
        return BeautifulSoup(converter.convert(text), "html.parser")

    return convert


LANGUAGES = (
    "output",
    "pytb",
    "json",
    "bash",
    "ptx",
    "cuda",
    "diff",
    "text",
    "console",
    "",
    "toml",
    "c++",
    "py",
    "pycon",
)
PLACES = {
    "title": '```output title="a"\nsum: 9\n```',
    "braces": '```{.output .wide linenums="1"}\nsum: 9\n```',
    "tildes": "~~~~ output\nsum: 9\n~~~~",
    "indented": "Words.\n\n    sum: 9",
    "tab": '=== "One"\n\n    ```output\n    sum: 9\n    ```',
    "tab after another": '=== "One"\n\n    Words.\n\n=== "Two"\n\n    ```json\n    9\n    ```',
    "admonition": "!!! note\n    ```output\n    sum: 9\n    ```",
    "details": "??? note\n\n    ```output\n    sum: 9\n    ```",
    "list": "1. Words.\n\n    ```output\n    sum: 9\n    ```",
    "quotation": "> ```output\n> sum: 9\n> ```",
    "HTML": "<div markdown>\n\n```output\nsum: 9\n```\n\n</div>",
}


@pytest.mark.parametrize("text", [*(f"```{name}\nsum: 9\n```" for name in LANGUAGES), *PLACES.values()])
def test_a_block_that_nothing_ran_is_marked(convert, text):
    (block,) = convert(text).select("div.highlight")
    assert "yped by hand" in block["data-typed"] or block["data-typed"] == "To type yourself"
    assert "data-search-exclude" in block.attrs


@pytest.mark.parametrize("text", ["```python\nx = 1\n```", '```cuda\n--8<-- "programs/toy.py:kernel"\n```'])
def test_what_a_test_executes_or_a_snippet_holds_is_not(convert, text):
    (block,) = convert(text).select("div.highlight")
    assert "data-typed" not in block.attrs


IMITATIONS = [
    '<span class="claim">1042</span>',
    "<span class='a claim'>1042</span>",
    "<i class=claim--stale>9</i>",
    '<span class="cl&#97;im">1042</span>',
    '<b CLASS="claim">9</b>',
    '<span\nclass\n=\n"claim">9</span>',
    "<data>9</data>",
    "<data value=9>9</data>",
    '<span class="&#114;ecording">9</span>',
    '<p class="recording__where">H200</p>',
    '<div class="&#x72;ecording__view" markdown>\nWords.\n</div>',
    "*9*{: .claim }",
    "*9*{: class='recording__foot' }",
    "Words.\n{: .recording__where }",
    '<div class="by-gpu">9</div>',
    '<span data-by-gpu="{}">9</span>',
    '<i data-device="h200">9</i>',
    '<i data-typed="">9</i>',
    '<span title="9: measured on an NVIDIA H200, May 2026">9</span>',
    "[9](x.md){: title='9: found in Triton&#8217;s interpreter' }",
    "*9*{: title='read from code compiled by Triton 3.9' }",
    '<div class="language-python highlight"><pre><code>x = 1</code></pre></div>',
    "<pre>sum: 9</pre>",
    "<pre\nclass=output>sum: 9</pre>",
    '<svg class="recording"></svg>',
    "<div class='jp-OutputArea'>9</div>",
    '{{ cpu: made.date }} and <span title="9: measured on an NVIDIA H100" class="x">9</span>',
]


@pytest.mark.parametrize("text", IMITATIONS)
def test_what_looks_like_a_recording_is_refused(convert, text):
    with pytest.raises(PageError, match=r"typed by hand|use a fence|no test executes it"):
        convert(text)


def test_what_runs_say_still_passes(convert):
    page = convert("It is {{ h200: output['sum']; d }}.\n\n```recording\nview: output\ndevice: h200\n```")
    assert page.select("figure.recording pre") and page.select("data.claim") and not page.select("[data-typed]")
