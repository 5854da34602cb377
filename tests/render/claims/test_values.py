# SPDX-License-Identifier: Apache-2.0
"""Names that a page gives values: what a sentence says with them on each GPU, and which are refused, at which line."""

import json
import re

import pytest
from bs4 import BeautifulSoup

from render import config
from render.page import PageError
from tests.render.test_gpus import DIFFERS, record, sums

PAGE = """\
# Toy

```values
total = gpu: output["sum"]
row = gpu of programs/toy:
    bandwidth[2**20]
gain = row.copy / row.triton
lanes = cpu: launches["toy_kernel"][0].arguments.n
```

"""


@pytest.fixture
def convert(course):
    """Turn Markdown into the HTML of the lesson's page, on which a second GPU printed another sum."""
    course.write("snippets/programs/recorder.toml", DIFFERS)
    for device in ("cpu", "h200"):
        course.record(device)
    record(course, "a100", "NVIDIA A100", output=sums(7))

    def convert(text):
        converter = config.converter()
        converter.page_of_check = (course.write("docs/en/programs/toy.md", text), "programs/toy.md")
        return BeautifulSoup(converter.convert(text), "html.parser")

    return convert


def test_a_sentence_says_a_name_on_each_gpu_as_it_would_what_it_stands_for(convert):
    page = convert(
        f"{PAGE}It is {{{{ total; d; > 1000 and row.copy > 1 }}}}, {{{{ gain; .0% }}}}, {{{{ lanes; d; < row.n }}}}.\n"
    )
    total, gain, lanes = page.find_all("data")
    assert [each.text for each in (total, gain, lanes)] == ["1024", "200%", "3"]
    shown = json.loads(total["data-by-gpu"])
    assert shown["h200"][0] == "1024" and shown["a100"][0] == "7 (not so on this GPU)"
    assert json.loads(gain["data-by-gpu"])["a100"][0] == "200%" and "data-by-gpu" not in lanes.attrs
    spelled = convert('# Toy\n\nIt is {{ gpu: output["sum"]; d; > 1000 }}.\n').find("data")
    assert spelled == total and "H200" in total["title"] and "values" not in page.text


def test_what_is_read_from_two_recordings_names_both(convert):
    claim = convert(
        f"{PAGE}It is {{{{ cpu: total / launches['toy_kernel'][0].arguments.n; .0f; > gain and lanes > 1 }}}}.\n"
    ).find("data")
    assert claim.text == "341" and json.loads(claim["data-by-gpu"])["a100"][0] == "2"
    assert re.search("measured on an NVIDIA H200.*; found in Triton’s interpreter", claim["title"])


USED = "It is {{ total }}, {{ gain }}, {{ lanes }}.\n"


@pytest.mark.parametrize(
    ("line", "more", "where", "why"),
    [
        ("spare = gpu: output['sum']", "", 9, "no claim uses 'spare'"),
        ("total = cpu: name", "", 9, "'total' is named twice"),
        ("typed = gpu: 5 * 3", "{{ typed }}", 9, "typed: it is typed by hand"),
        ("wrong = gpu: output['summ']", "{{ wrong }}", 9, "wrong: .*'summ'; the nearest that exist: sum"),
        ("loop = loop + total", "{{ loop }}", 9, "loop: it is made of itself"),
        ("max = gpu: output['sum']", "{{ max }}", 9, "'max' has a meaning of its own"),
        ("name = gpu: output['sum']", "{{ gpu: name }}", 13, "names a value 'name', which is also a part of a recor"),
        ("held = gpu: output['sum']; d; > 3", "{{ held }}", 9, "stand in the sentence"),
        ("half = gpu: row.copy if row.copy > 1 else 0", "{{ half }}", 9, "behind the format"),
        ("half total", "", 9, "no line such as"),
        ("other = 5", "{{ other }}", 13, "is no claim such as"),
        ("", "{{ totl }}", 13, "'totl' is no claim"),
        ("", "{{ total + totl }}", 13, "there is no 'totl'; the nearest that exist: total"),
        ("```\n\n```values\nmore = gpu: name", "{{ more }}", 11, "one fence `values`"),
    ],
)
def test_what_is_refused_and_where(convert, line, more, where, why):
    text = PAGE.replace("```\n\n", f"{line}\n```\n\n") if line else PAGE.replace("```\n\n", "\n```\n\n")
    with pytest.raises(PageError) as raised:
        convert(f"{text}{USED}{more}\n")
    assert re.search(rf"docs/en/programs/toy\.md:{where}: .*{why}", str(raised.value)), raised.value
