# SPDX-License-Identifier: Apache-2.0
"""The view ``snippet``: what is to know of a file before one copies it, from the file and its recordings alone."""

import ast
import re

import pytest
from bs4 import BeautifulSoup

from recorder.recording import Code, Compiled
from render import config
from render.page import PageError
from render.views.snippet import functions, sentence, signature
from tests.toy import TOY, made

MOST = '''\
import torch

DTYPES = (torch.float16, torch.float32)
MOST = 2**15


def add(x: torch.Tensor, y: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """Return ``x + y``. And no more: *not* ``x <= y``.

    Args:
        x: On a GPU, of one of ``DTYPES``,
            contiguous.
        y, scale: Likewise.

    Returns:
        A new tensor.

    Raises:
        ValueError: ``x`` is too long. Or it has
            more than others: so it is too long, too.

    >>> add(1, 2)
    3
    """


def subtract(x):
    """Return less. Its errors are those of :func:`add`."""


def check_arguments(x):
    """Raise ``ValueError`` for what cannot be served."""


def _hidden(x):
    """Hide.

    Raises:
        ValueError: Never.
    """


def main():
    """Show."""
'''
SAYS = '"""A toy: ``x & y``. Some more.\n\nShapes: ``(n,)``, at most\n``MOST``.\nSource: none.\n"""'
SAID = TOY.replace('"""A toy."""', SAYS)
OTHER = "# Of *the* `toy`\n\n```recording\nof: programs/toy\nview: file\n```\n"


@pytest.fixture
def shown(course):
    """The page's HTML, once the toy is something to copy."""

    def shown(text=SAID + MOST, record=True, page="```recording\nview: snippet\n```\n"):
        course.snippet("toy", text)
        if record:
            course.record("cpu")
            course.record("h200")
        converter = config.converter()
        converter.page_of_check = (course.write("docs/en/programs/toy.md", f"# Toy\n\n{page}"), "programs/toy.md")
        return BeautifulSoup(converter.convert(f"# Toy\n\n{page}"), "html.parser")

    return shown


def facts(page) -> dict[str, str]:
    names = [term.text for term in page.select(".offer__facts > dt")]
    return dict(zip(names, [fact.text for fact in page.select(".offer__facts > dd")], strict=True))


def test_it_says_what_the_file_says(shown):
    page = shown()
    assert page.select_one(".offer__idea").text == "add, subtract\u00a0· A toy: x & y."
    signatures = [each.text.strip() for each in page.select(".offer__signature")]
    assert signatures == ["add(x: Tensor, y: Tensor, *, scale: float = 1.0) -> Tensor", "subtract(x)"]
    assert facts(page)["Shapes"] == "(n,), at most MOST = 2 ** 15."
    assert facts(page)["dtypes"] == "float16, float32"
    assert facts(page)["Test"] == "tests/snippets/programs/test_toy.py"
    parts = page.select_one(".offer__says")
    assert [term.text for term in parts.find_all("dt", recursive=False)] == ["Args", "Returns", "Raises"]
    args = [each.text for each in parts.select("dd > dl")[0].find_all(["dt", "dd"])]
    assert args == ["x", "On a GPU, of one of DTYPES, contiguous.", "y, scale", "Likewise."]
    raised = [each.text for each in parts.select("dd > dl")[1].find_all(["dt", "dd"])]
    assert raised == ["ValueError", "x is too long. Or it has more than others: so it is too long, too."]
    assert ">>> add(1, 2)\n3" in page.select_one("details").text
    assert page.select_one("details code").text == "add"  # of two functions


def test_it_says_where_it_ran_and_for_what_it_was_compiled(shown, course):
    text = facts(shown())
    assert "Compiled" not in text  # one of its launches is refused by the only target that it was compiled for
    assert text["Ran"].startswith("NVIDIA H200: Triton 3.7.1, torch 2.13.0")
    assert "CPU, Triton's interpreter: Triton 3.7.1" in text["Ran"]
    first = made("cpu").compiled[0]
    course.record("cpu", compiled=[first])
    text = facts(shown(record=False))
    assert text["Compiled"] == "for sm_80, sm_90, sm_100, gfx942, by Triton 3.9.0, without running it"
    refused = Compiled(["k[9]"], "k", "f", {**dict.fromkeys(first.targets, Code()), "sm_80": Code(error="no")})
    course.record("cpu", compiled=[first, refused])
    assert facts(shown(record=False))["Compiled"].startswith("for sm_90, sm_100, gfx942,")


def test_it_leads_to_the_page_that_shows_the_file(shown, course):
    assert "Taught" not in facts(shown())
    course.write("docs/en/programs/other.md", OTHER)
    course.settings(["index.md", {"1. Other": "programs/other.md"}])
    page = shown()
    links = [link["href"] for link in page.select(".recording--snippet a:not([download])")]
    assert links == ["../other/#file-programs-toy", "../other/"]
    assert facts(page)["Taught"] == "Lesson 1, Other"
    course.settings(["index.md", "programs/other.md"])
    assert facts(shown())["Taught"] == "Of *the* toy"


def test_the_download_is_the_file_or_a_zip_with_what_it_imports(shown, course):
    page = shown()
    (link,) = page.select("a[download]")
    assert (link["download"], link.text) == ("toy.py", "Download toy.py")
    assert link["href"] == "../../snippets/programs/toy.py"
    assert facts(page)["Needs"] == "nothing but torch and Triton"
    course.snippet("other", "def more():\n    pass\n")
    page = shown(f"from snippets.programs.other import more\n{SAID}{MOST}")
    (link,) = page.select("a[download]")
    assert (link["download"], link["href"]) == ("toy.zip", "../../snippets/programs/toy.zip")
    assert "snippets/programs/other.py" in facts(page)["Needs"] and "snippets.programs.toy" in facts(page)["Needs"]


@pytest.mark.parametrize(
    "text, complaint",
    [
        (TOY, "nothing to copy: no public host function"),
        (SAID + MOST.replace("Raises:", "Note:").replace("errors are", "x"), "nothing to copy"),
        ("@triton.jit\n" + MOST[MOST.index("def add") : MOST.index("def subtract")], "nothing to copy"),
    ],
)
def test_what_is_not_to_be_copied_is_refused(shown, text, complaint):
    with pytest.raises(PageError, match=complaint):
        shown(text)


def test_a_fault_on_purpose_is_refused(shown, course):
    course.snippet("toy_bug", SAID + MOST)
    with pytest.raises(PageError, match="toy_bug is not to be copied"):
        shown(page="```recording\nof: programs/toy_bug\nview: snippet\n```\n")


def test_without_a_test_it_is_refused(shown, course):
    page = shown()
    assert page.select(".offer__facts")
    (course.root / "tests/snippets/programs/test_toy.py").unlink()
    converter = config.converter()
    converter.page_of_check = (course.root / "docs/en/programs/toy.md", "programs/toy.md")
    with pytest.raises(PageError, match="has no test"):
        converter.convert("# Toy\n\n```recording\nview: snippet\n```\n")


def test_a_stale_recording_is_refused(shown):
    with pytest.raises(PageError, match="stale"):
        shown(record=False)


def test_it_takes_no_other_options(shown):
    with pytest.raises(PageError, match="'snippet' has no option 'device'"):
        shown(page="```recording\nview: snippet\ndevice: gpu\n```\n")


def test_what_a_docstring_says_is_text(shown):
    page = shown((SAID + MOST).replace("A new tensor.", "<script>alert(1)</script> ``<b>``"))
    assert not page.find("script") and not page.find_all("b", string="<b>") and "<script>" in page.text


def test_a_long_signature_is_broken_between_arguments():
    written = "a: torch.Tensor, b=1, /, *rest, key: int | None = None, last: str = 'x' * 30, **more"
    node = ast.parse(f"def f({written}): ...").body[0]
    assert signature(node).splitlines() == [
        "f(", "    a: Tensor, b=1, /, *rest, key: int | None = None,", "    last: str = 'x' * 30, **more,", ")",
    ]  # fmt: skip


def test_a_lone_star_stays_with_what_follows():
    written = ", ".join(f"argument_{i}" for i in range(5)) + ", *, key: int | None = None"
    lines = signature(ast.parse(f"def f({written}): ...").body[0]).splitlines()
    assert lines[2] == "    *, key: int | None = None,"


def test_the_first_sentence():
    assert sentence("Add, as in ``x.y`` and so.\nOn. And more.\n\nA paragraph.") == "Add, as in ``x.y`` and so."
    assert sentence("Softmax: ``e.g. Big``. Then.") == "Softmax: ``e.g. Big``."


def test_every_function_of_the_real_snippets_page_has_an_argument_list_that_python_reads():
    from recorder.project import ROOT

    page = (ROOT / "docs/en/reference/snippets.md").read_text("utf-8")
    names = re.findall(r"of: (\S+)\nview: snippet", page)
    assert len(names) > 15
    for name in names:
        for function in functions(ast.parse((ROOT / f"snippets/{name}.py").read_text("utf-8"))):
            text = BeautifulSoup(function.signature, "html.parser").text
            ast.parse(f"def {text.strip()}: ...")
