# SPDX-License-Identifier: Apache-2.0
"""``python -m render check``: what is wrong with recordings, the menu and pages, each named with its place.

What a single page gets wrong is tested in test_extension.py; here one of each kind goes the whole way.
"""

import re

import msgspec
import pytest

from render import __main__ as command
from render.gates import check
from tests.render.conftest import LESSON, NAV, cells
from tests.toy import TOY, made

PAGE, LAB, HOME = "docs/en/programs/toy.md", "docs/en/programs/a-lab.ipynb", "docs/en/index.md"
RECORDED = "recordings/programs/toy"
LINKED = "[block](../reference/glossary.md#block)"


@pytest.fixture
def refused(capsys):
    """A function that asserts that something is found, in so many words, and returns how many problems were."""

    def refused(*parts: str) -> int:
        assert command.main(["check"]) == 1
        *lines, count = capsys.readouterr().out.splitlines()
        assert any(all(re.search(part, line) for part in parts) for line in lines), "\n".join(lines)
        assert count == f"{len(lines)} problem{'s' * (len(lines) > 1)}."
        return len(lines)

    return refused


def test_all_is_well(course, capsys):
    assert check.problems() == []
    assert command.main(["check"]) == 0 and capsys.readouterr().out == "All is well.\n"


# Recordings


def edit(course, path, old, new):
    text = (course.root / path).read_text("utf-8")
    assert old in text
    course.write(path, text.replace(old, new, 1))


def test_a_stale_recording(course, refused):
    course.snippet("toy", TOY.replace("offsets < n", "offsets <= n"))
    refused(f"^{RECORDED}/cpu.json: stale: snippets/programs/toy.py has changed", "fix: python -m recorder run")
    assert refused(f"^{RECORDED}/h200.json: stale") == 2  # and not once more at each place that shows it


def test_a_missing_recording(course, refused):
    (course.root / RECORDED / "cpu.json").unlink()
    refused(f"^{RECORDED}/cpu.json: missing", "fix: python -m recorder run programs/toy")
    refused(f"^{PAGE}:3: programs/toy has no recording on 'cpu'")


def test_a_snippet_without_a_recording(course, refused):
    course.snippet("new", "print(1)\n")
    refused("^recordings/programs/new/cpu.json: missing")


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_a_recording_edited_by_hand(course, refused, device):
    edit(course, f"{RECORDED}/{device}.json", "1,024", "1,025")
    refused(f"^{RECORDED}/{device}.json: edited")


@pytest.mark.parametrize("path", ["programs/gone/cpu.json", "notes.txt", "programs/toy/h200.bandwidth.svg"])
def test_an_orphan(course, refused, path):
    course.write(f"recordings/{path}", "{}")
    refused(f"^recordings/{path}: orphaned", "fix: rm")


def test_a_recording_that_is_cut_short(course, refused):
    text = (course.root / RECORDED / "h200.json").read_text("utf-8")
    course.write(f"{RECORDED}/h200.json", text[: len(text) // 2])
    refused(f"^{RECORDED}/h200.json: unreadable")


def test_devices_that_disagree(course, refused):
    course.record("h200", output="another\n")
    refused(f"^{RECORDED}/h200.json: disagrees")


# Claims and fences


def test_a_claim_that_holds_no_longer(course, refused):
    """The sentence stays; what runs changes, and was recorded properly."""
    kept, name = made("cpu").launches, "toy_kernel[0]"
    course.record("cpu", launches=kept | {name: msgspec.structs.replace(kept[name], arguments={"n": 4})})
    assert (
        refused(rf"^{PAGE}:3: the sentence relies on launches\[\"toy_kernel\"\]\[0\].arguments.n == 3, but it is 4")
        == 1
    )


def test_faults_of_all_pages_are_named_at_once(course, refused):
    course.page(LESSON.replace("view: output", "view: outputs").replace(":kernel", ":kernal"))
    course.page("# Home\n\n{{ cpu: 1 }}\n\n```recordng\n```\n", "index.md")
    assert refused(f"^{PAGE}:7: .*'kernal'") == 4
    refused(f"^{PAGE}:12: there is no view 'outputs'")
    refused(f"^{HOME}:3: there is no snippet 'index'.*name another by `of:`")
    refused(f"^{HOME}:5: no fence is called 'recordng'")


# The menu


def test_a_wrong_name_in_the_menu(course, refused):
    course.settings([*NAV, {"More": ["programs/tow.md"]}])
    assert refused("^mkdocs.yml: the menu names programs/tow.md, which is no page") == 1


def test_a_page_that_is_not_in_the_menu(course, refused):
    course.page("# Lost\n", "programs/lost.md")
    assert refused("^docs/en/programs/lost.md: the menu in mkdocs.yml does not name it") == 1


def test_a_page_that_is_in_the_menu_twice(course, refused):
    course.settings([*NAV, "index.md"])
    assert refused("^mkdocs.yml: the menu names index.md twice") == 1


@pytest.mark.parametrize("other", ["programs/toy/index.md", "programs/a-lab.md"])
def test_two_pages_with_one_address(course, refused, other):
    course.settings([*NAV, other])
    course.page("# Another\n", other)
    assert refused("^docs/en/programs/.* has its address") == 1


def test_settings_that_cannot_be_read(course, capsys):
    course.settings([])
    course.write("mkdocs.yml", "nav: [")
    assert command.main(["check"]) == 2
    assert "mkdocs.yml cannot be read" in capsys.readouterr().err


# References


def test_a_first_use_of_a_term_without_its_link(course, refused):
    course.page(LESSON.replace(LINKED, "block"))
    message = r"elements in a block.*write: \[block\]\(../reference/glossary.md#block\)$"
    assert refused(f"^{PAGE}:3: the first use of 'Block' is no link", message) == 1


def test_terms_without_links_come_in_the_order_of_the_page(course, capsys):
    course.page("# Glossary\n\n## Alpha\n\nOne.\n\n## Block\n\nTwo.\n", "reference/glossary.md")
    course.page(LESSON.replace(LINKED, "block") + "\n" * 8 + "An alpha.\n")
    command.main(["check"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "is no link to the glossary" in line]
    assert ["'Block'" in lines[0], "'Alpha'" in lines[1], len(lines)] == [True, True, 2]


def test_what_is_left_to_do_on_a_page(course, refused):
    course.page(LESSON + "\nTODO: more of it\n")
    assert refused(f"^{PAGE}:\\d+: unfinished: TODO: more of it") == 1


@pytest.mark.parametrize(
    "text",
    [
        "Try n = 4 and\n10. Then look.",
        "1. Try n = 4 and\n   10. Then look.\n2. Stop.",
        "1. One\n2. Two, for\n2. Two more",
    ],
)
def test_a_sentence_wrapped_before_a_number(course, refused, text):
    course.page(f"{LESSON}\n{text}\n")
    assert refused(f"^{PAGE}:\\d+: '(10. Then look.|2. Two more)': a line that begins with a number") == 1


def test_a_sentence_wrapped_before_a_number_in_a_lab(course, refused):
    first, *rest = cells()
    course.lab(first | {"source": "# A lab\n\n1. Try n = 4 and\n   10. Then look."}, *rest)
    assert refused(f"^{LAB}.*'10. Then look.': a line that begins with a number") == 1


def test_lists_and_numbers_inside_sentences(course):
    course.page(
        f"{LESSON}\n1. Try n = 4, 9 and 10. Then\n   look.\n\n    ```text\n    10. Code\n    ```\n\n2. Stop.\n3. Go.\n"
        "\n> 1. One\n> 2. Two\n\n??? tip\n    1. One\n    2. Two\n\n3\\. Three\n"
    )
    assert check.problems() == []


def test_a_glossary_out_of_order(course, refused):
    course.page("# Glossary\n\n## Lane\n\nOne.\n\n## Block\n\nLanes.\n", "reference/glossary.md")
    refused("^docs/en/reference/glossary.md:3: 'Lane' is not where the alphabet puts it")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("See [this][there].", r"\[this\]\[there\]"),
        ("See [this][].", r"\[this\]\[\]"),
        ("See.[^1]", r"\[\^1\]"),
        ("- See **this[^a-b]**", r"\[\^a-b\]"),
        ("| a |\n|---|\n| b[^1] |", r"\[\^1\]"),
        ("=== Tab\n\n    Words.", "=== Tab"),
        ("!! note\n    Words.", "!! note"),
        ("[x](#toy) { .md-button }", r"{ \.md-button"),
        ("<!-- Words", "<!--"),
    ],
)
def test_what_markdown_leaves_as_it_is(course, refused, text, message):
    course.page(f"{LESSON}\n\n{text}\n")
    line = LESSON.count("\n") + 3 + (text.count("\n") if "|" in text else 0)
    assert refused(f"^{PAGE}:{line}: Markdown makes nothing of {message}") == 1


def test_references_that_are_defined(course):
    text = "See [this][there], [there] and that.[^1] `x[i][j]` is `[^3]`.\n\n[there]: #toy\n[^1]: A.\n"
    course.page(f"{LESSON}\n\n{text}")
    assert check.problems() == []


# Pages that cannot be read


NO_NOTEBOOKS = ["", "{}", "[]", "no JSON", "{", '{"cells": []}', '{"cells": {}}', '{"cells": [{}]}', "null"]


@pytest.mark.parametrize("text", NO_NOTEBOOKS)
def test_a_lab_that_is_no_notebook(course, refused, text):
    course.write(LAB, text)
    refused(f"^{LAB}: it is no notebook")
    refused(f"^{LAB}: edited")


def test_a_lab_edited_by_hand(course, refused):
    edit(course, LAB, "# A lab", "# Any lab")
    assert refused(f"^{LAB}: edited") == 1


@pytest.mark.parametrize("comment", ["# One word more.\n", "print(1)\n"])
def test_a_stale_lab(course, refused, comment):
    """In a lab the comments are the prose, so they count."""
    edit(course, "snippets/programs/labs/a_lab.py", "# %%\n", f"# %%\n{comment}")
    assert refused(f"^{LAB}: stale", "fix: python -m recorder run programs/labs/a_lab") == 1


def test_a_lost_lab(course, refused):
    (course.root / LAB).unlink()
    refused(f"^{LAB}: missing")
    refused("^mkdocs.yml: the menu names programs/a-lab.ipynb, which is no page")


def test_a_lab_that_no_script_makes(course, refused):
    (course.root / "snippets/programs/labs/a_lab.py").unlink()
    refused(f"^{LAB}: orphaned")


def test_a_wrong_claim_in_a_lab(course, refused):
    first, *others = cells()
    course.lab(first | {"source": "# A lab\n\n{{ cpu of programs/toy: 2 - 1; d; == 2 }}"}, *others)
    assert refused(f"^{LAB}:1: the sentence relies on 2 - 1 == 2") == 1


def test_a_page_that_is_not_utf_8(course, refused):
    course.write(PAGE, b"# Toy\n\nGr\xf6\xdfer\n")
    assert refused(f"^{PAGE} is not UTF-8") == 1


DEEP = ["> " * 2000, "<div>" * 2000, "<b>" * 2000, "*" * 2000, "[" * 2000, "    " * 500 + "- "]


@pytest.mark.parametrize("deep", DEEP, ids=[text[:5] for text in DEEP])
def test_a_page_that_is_nested_deep(course, deep):
    """It is converted, or refused in a sentence; and it does not hide what is wrong elsewhere."""
    course.page(f"# Home\n\n{deep}deep\n", "index.md")
    course.page(LESSON.replace("== 3", "== 4"))
    problems = check.problems()
    assert any(problem.startswith(f"{PAGE}:3: the sentence relies on") for problem in problems)
    assert all(problem.startswith((PAGE, HOME)) and len(problem) < 500 for problem in problems)


@pytest.mark.parametrize("text", ["", "Words.\n", "# One\n\n# Two\n", "<h1>One</h1>\n\n# Two\n"])
def test_a_page_has_one_title(course, refused, text):
    course.page(text, "index.md")
    assert refused(f"^{HOME}: it has [02] titles") == 1


@pytest.mark.parametrize("text", ["---\ntitle: [\n---\n\n", "---\ntitle: Toy\n\n", "---\nToy\n---\n\n"])
def test_settings_of_a_page_that_cannot_be_read(course, refused, text):
    course.page(text + LESSON)
    refused(f"^{PAGE}: it cannot be converted")


@pytest.mark.parametrize("name", ["evil.html", "programs/x.markdown", "notes.txt", "script.js"])
def test_what_is_neither_a_page_nor_a_picture(course, refused, name):
    course.page("# X\n", name)
    assert refused(f"^docs/en/{name}: it is neither a page nor a picture") == 1


def test_a_link_to_a_file_elsewhere(course, refused):
    (course.root / "docs/en/secret.png").symlink_to(course.root / "pyproject.toml")
    assert refused("^docs/en/secret.png: it is neither a page nor a picture") == 1


NO_CELLS = [{"id": '"><script>'}, {"id": "cell-1"}, {"source": None, "outputs": None}, {"outputs": [{}]}, {"id": "a b"}]


@pytest.mark.parametrize("code", NO_CELLS)
def test_a_lab_with_a_cell_that_is_none(course, refused, code):
    first, second, last = cells()
    course.lab(first, {key: value for key, value in (second | code).items() if value is not None}, last)
    assert refused(f"^{LAB}: it is no notebook") == 1


def test_what_stands_before_a_page(course):
    course.page(f"---\ntitle: Toy\ndescription: A [block][].\n---\n\n{LESSON}")
    assert check.problems() == []


# Some pages alone


def test_one_page_is_judged_without_the_others(course, capsys):
    edit(course, HOME, "# Home", "# Home\n\n{{ cpu: nothing }}")
    edit(course, PAGE, "It loads", "A lane. It loads")
    assert command.main(["check", "programs/toy"]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert re.search("^docs/en/programs/toy.md:3: the first use of 'Lane' is no link", first) and rest == ["1 problem."]
    edit(course, PAGE, "A lane. It", "It")
    for name in ("programs/toy", "programs/toy.md", PAGE, "programs/toy/"):
        assert command.main(["check", name]) == 0
    assert command.main(["check", HOME]) == 1


def test_one_page_with_a_stale_recording(course, capsys):
    course.snippet("toy", TOY.replace("offsets < n", "offsets <= n"))
    assert command.main(["check", "programs/toy"]) == 1
    assert "cpu.json: stale" in capsys.readouterr().out


def test_a_page_that_is_not_there(course, capsys):
    assert command.main(["check", "programs/toys"]) == 2
    assert "there is no page 'programs/toys'; the nearest that exist: programs/toy.md" in capsys.readouterr().err
