# SPDX-License-Identifier: Apache-2.0
"""What a page can ask for, what it gets, and what it is told when there is no such thing."""

import html
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from markdown import Extension, Markdown

from recorder import recording, runner, views
from recorder.markdown import PageError, render_fence
from recorder.project import Snippet
from tests.recorder.conftest import ASM, TOY, made

FILE = "```recording\nview: file\n```\n"
VOID = {"br", "img", "link", "meta", "input", "path", "rect", "use", "line", "circle"}


@pytest.fixture
def convert(toy, caplog):
    """Turn Markdown into the HTML of the lesson's page, as MkDocs would."""

    class ThisPage(Extension):
        def extendMarkdown(self, md):
            path = toy.root / "docs/en/programs/toy.md"
            page = SimpleNamespace(abs_src_path=str(path), src_uri="programs/toy.md")
            processor = SimpleNamespace(file=page, config=None, run=lambda root: None)
            md.treeprocessors.register(processor, "relpath", 0)

    def convert(text, whole_file=True):
        text += f"\n\n{FILE}" if whole_file else ""
        toy.write("docs/en/programs/toy.md", text)
        fences = [{"name": "recording", "class": "recording", "format": render_fence}]
        return Markdown(
            extensions=["recorder.markdown", "pymdownx.superfences", "pymdownx.snippets", "md_in_html", ThisPage()],
            extension_configs={
                "pymdownx.superfences": {"custom_fences": fences},
                "pymdownx.snippets": {"base_path": [str(toy.root / "snippets")], "check_paths": True},
            },
        ).convert(text)

    return convert


def fence(*lines):
    return "\n".join(["```recording", *lines, "```"])


class Balance(HTMLParser):
    """Asserts that tags are closed in the order in which they were opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


# Views

VIEWS = {
    "output": ["view: output"],
    "image": ["view: image", "name: dot.png", "alt: A dot"],
    "pixels": ["view: pixels", "label: patch"],
    "table": ["view: table", "name: bandwidth", "device: h200", "share_of: copy"],
    "chart": ["view: chart", "name: bandwidth", "device: h200"],
    "timeline": ["view: timeline", "device: h200"],
    "schedule": ["view: schedule", "names: [schedule_few, schedule_shared]", "device: h200"],
    "roofline": ["view: roofline", "device: h200"],
    "ladder": ["view: ladder", "device: h200"],
    "accesses": ["view: accesses", "launch: 0"],
    "explorer": ["view: explorer", "launch: 0"],
    "swizzle": ["view: swizzle", "launches: [2, 3]", "sms: 3", "cache: 6"],
    "tiles": ["view: tiles", "launch: 2", "program: 4"],
    "orders": ["view: orders", "launches: [2, 3]", "sms: 3"],
    "stage": ["view: stage", "target: sm_90", "stage: ptx"],
    "stages": ["view: stages"],
    "error": ["view: error", "launch: 1"],
    "layout": ["view: layout"],
    "verdicts": ["view: verdicts", "section: Rows"],
}


def test_every_view_is_shown_below():
    from recorder import views

    assert set(VIEWS) == set(views.VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_with_where_it_ran(convert, view):
    if view == "chart":
        pytest.importorskip("matplotlib")
    page = convert(fence(*VIEWS[view]))
    device = "h200" if "device: h200" in VIEWS[view] else "cpu"
    assert f'<figure class="recording recording--{view}" data-device="{device}"' in page
    assert "recording__notice" not in page and "2026-01-02" in page
    assert f"recordings/programs/toy/{device}.json" in page and 'href="#file-programs-toy"' in page
    assert "<b>" not in page, "text of a recording became markup"
    Balance(page)


def test_output(convert):
    page = convert(fence("view: output"))
    assert "sum: 1,024\nratio = 0.5\n&lt;b&gt;bold&lt;/b&gt;\nlist [1, 2]" in page
    some = convert(fence("view: output", 'only: "sum|ratio"'))
    assert "sum: 1,024\nratio = 0.5</code>" in some and "bold" not in some.split("figcaption")[0]


def test_image(convert):
    page = convert(fence("view: image", "name: dot.png", 'alt: "One <dot>"'))
    assert '<img src="data:image/png;base64,iVBORw0KGgo=" alt="One &lt;dot&gt;">' in page
    assert 'class="pixelated"' in convert(fence("view: image", "name: dot.png", "alt: A dot", "pixelated: true"))


def test_table(convert):
    page = convert(fence("view: table", "name: bandwidth", "device: h200", "share_of: copy", "rows: [1048576]"))
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert cells == ["2<sup>20</sup>", "10", "20", "0.50"]
    assert "a &lt;copy&gt; &amp; &quot;more&quot;</th>" in page and "<caption>GB/s</caption>" in page


def test_table_writes_powers_only_where_all_are():
    recorded = made("h200")
    recorded["benchmarks"][0]["rows"][1]["n"] = 4097
    assert re.findall(r"<tr><td>(.*?)</td>", views.table(None, recorded, name="bandwidth")) == ["1,024", "4,097"]


def test_stages_carry_their_data_and_no_markup_of_it(convert):
    page = convert(fence("view: stages"))
    (blob,) = re.findall(r"<(?:script type=\"application/json\"|template)>(.*?)</(?:script|template)>", page, re.S)
    assert "<" not in blob
    data = json.loads(blob)
    assert set(data) == {"sm_80", "sm_90", "sm_100", "gfx942"}
    assert data["sm_90"]["stages"]["ptx"] == {"name": "PTX", "text": ASM, "lines": [10, 0, 0]}
    assert data["sm_90"]["registers"] == 8
    assert html.escape("// </script><b>&amp;") in page.replace("&#x27;", "'")


def test_stages_follow_their_kernel_when_a_comment_moves_it(convert, toy):
    toy.snippet("toy", TOY.replace('"""A toy."""', '"""A toy,\n\nwith more to say."""'))
    page = convert(fence("view: stage", "target: sm_90", "stage: ptx"))
    assert 'data-line=12' in page and "recording__notice" not in page


def test_the_whole_file_can_be_downloaded(convert, toy):
    text = TOY + "# größer & <b> \"100%\" 'a' #x?y+z\\\n"
    toy.snippet("toy", text)
    page = convert("", whole_file=True)
    (link,) = re.findall(r'<a href="data:text/x-python;charset=utf-8,([^"]*)" download="toy.py">', page)
    assert unquote(html.unescape(link)) == text
    Balance(page)


def test_readers_are_not_shown_what_the_formatter_is_told(convert, toy):
    page = convert("```python\nkernel(\n    a, b,\n)  # fmt: skip\n```", whole_file=False)
    assert "kernel" in page and "fmt" not in page
    toy.snippet("toy", f"{TOY}f(\n    1,\n)  # fmt: skip\n")
    assert "# fmt: skip" in convert("", whole_file=True)


def test_the_whole_file_says_what_it_imports_of_ours(convert, toy):
    assert "in a checkout" not in convert("", whole_file=True)
    toy.snippet("other", "def add(a, b):\n    return a + b\n")
    toy.snippet("toy", f"from snippets.programs.other import add\n{TOY}")
    page = convert("", whole_file=True)
    assert "runs in a checkout:</p><ul><li><code>snippets/programs/other.py</code></li></ul>" in page
    Balance(page)


def test_what_a_snippet_prints_is_repeated_by_itself_and_all_else_by_the_recorder(convert):
    assert "<dd><code>python snippets/programs/toy.py</code>" in convert(fence("view: output"))
    for view in ("accesses", "stage", "table"):
        page = convert(fence(*VIEWS[view]))
        assert "<dd><code>python -m recorder run programs/toy</code>" in page and "python snippets/" not in page


def test_the_ledger(convert):
    page = convert(fence("view: ledger"), whole_file=False)
    assert "programs: 1 file ran, 2 recordings, all current" in page and page.count("programs/toy") == 1
    assert "NVIDIA H200" in page and page.count("<b>current</b>") == 2


def test_the_ledger_says_what_is_stale(convert, toy):
    toy.snippet("toy", TOY + "print('more')\n")
    page = convert(fence("view: ledger"), whole_file=False)
    assert "2 recordings, 2 stale" in page and page.count("<b>stale</b>") == 2


def test_the_ledger_counts_one(convert, toy):
    (toy.root / "recordings/programs/toy/cpu.json").unlink()
    assert "programs: 1 file ran, 1 recording, all current" in convert(fence("view: ledger"), whole_file=False)


def test_a_page_shows_the_whole_file_behind_its_results(convert):
    with pytest.raises(PageError, match=r"docs/en/programs/toy\.md:2: .*view: file"):
        convert(fence("view: output"), whole_file=False)


# Claims


def test_a_claim(convert):
    page = convert("It sums to {{ cpu: output[\"sum\"]; ,d; > 1000 }}, `{{ cpu: not this }}`.")
    assert '>1,024</data>, <code>{{ cpu: not this }}</code>.' in page
    (title,) = re.findall(r'<data class="claim" title="([^"]*)" value="1024">', page) or re.findall(
        r'<data class="claim" value="1024" title="([^"]*)">', page
    )
    assert "output[" in title and "= 1024 in programs/toy, CPU, Triton" in title


def test_a_claim_of_another_snippet(convert, toy):
    toy.snippet("other", "print('sum: 5')\n")
    recording.save(Snippet("programs/other"), "cpu", {**made("cpu"), "output": "sum: 5\n"}, {})
    assert ">5</data>" in convert('So {{ cpu of programs/other: output["sum"] }}.')


# What there is not

WRONG = [
    # what the page says, what the message names
    (fence("view: outputs"), ["no view 'outputs'", "output"]),
    (fence("veiw: output"), ["no view None"]),
    (fence("view: output", "onyl: sum"), ["no option 'onyl'", "only"]),
    (fence("view: output", "only: nothing"), ["'nothing'"]),
    (fence("view: output", 'only: "("'), ["missing )"]),
    (fence("view: output", "only: 3"), ["TypeError"]),
    (fence("view: output", "device: h100"), ["'h100'", "h200"]),
    (fence("view: output", "of: programs/toi"), ["'programs/toi'", "programs/toy"]),
    (fence("view: chart", "device: h200"), ["needs the option 'name'"]),
    (fence("view: chart", "name: bandwith", "device: h200"), ["'bandwith'", "bandwidth"]),
    (fence("view: table", "name: bandwidth", "device: h200", "share_of: kopy"), ["'kopy'", "copy"]),
    (fence("view: table", "name: bandwidth", "device: h200", "rows: [1025]"), ["1025", "1024"]),
    (fence("view: table", "name: bandwidth", "device: h200", "rows: 1024"), ["TypeError"]),
    (fence("view: table", "name: bandwidth"), ["no benchmark 'bandwidth'"]),
    (fence("view: accesses", "launch: 4"), ["launch 4", "4"]),
    (fence("view: accesses", "launch: first"), ["launch first"]),
    (fence("view: accesses", "launch: 1"), ["launch 1"]),
    (fence("view: accesses", "launch: 0", "tensors: [y_ptr]"), ["y_ptr", "x_ptr"]),
    (fence("view: stage", "target: sm_91", "stage: ptx"), ["'sm_91'", "sm_90"]),
    (fence("view: stage", "target: sm_90", "stage: ptxx"), ["'ptxx'", "ptx"]),
    (fence("view: stage", "target: sm_90", "stage: ptx", "only: nothing"), ["'nothing'"]),
    (fence("view: stages", "launch: 7"), ["launch 7"]),
    (fence("view: stages", "target: gfx90a"), ["gfx90a"]),
    (fence("view: error", "launch: 0"), ["launch 0 compiles"]),
    (fence("just words"), ["option: value"]),
    (fence("view: [output"), ["option: value"]),
    ("{{ h200: bandwith[2**20].triton }}", ["'bandwith'", "bandwidth"]),
    ("{{ h200: bandwidth[2**21].triton }}", ["2097152"]),
    ("{{ h200: bandwidth[2**20].tritn }}", ["'tritn'", "triton"]),
    ("{{ h100: output }}", ["'h100'", "h200"]),
    ("{{ H200: output }}", ["'H200'", "h200"]),
    ("{{ cpu of programs/toi: output }}", ["'programs/toi'", "programs/toy"]),
    ('{{ cpu: output["sum"]; d; > 1024 }}', ["> 1024", "it is 1024"]),
    ("{{ launches }}", ["no claim"]),
    ("{{ }}", ["no claim"]),
    ('```python\n--8<-- "programs/toy.py:kernal"\n```', ["'kernal'", "kernel"]),
    ('```python\n--8<-- "programs/toi.py"\n```', ["snippets/programs/toi.py", "toy.py"]),
]


@pytest.mark.parametrize("text, named", WRONG)
def test_what_is_wrong_stops_the_page_with_its_line(convert, text, named):
    with pytest.raises(PageError) as raised:
        convert(f"# Title\n\nWords.\n\n{text}\n")
    message = str(raised.value)
    line = int(re.match(r"docs/en/programs/toy\.md:(\d+): ", message)[1])
    assert 5 <= line <= 5 + text.count("\n"), message
    assert all(word in message for word in named), message
    assert "/tmp" not in message


def test_all_claims_that_do_not_hold_are_named_at_once(convert):
    text = 'Not {{ cpu: output["sum"]; d; > 1024 }}, but {{ cpu: output["sum"] }}.\n\nNor {{ cpu: output["s"] }}.'
    with pytest.raises(PageError) as raised:
        convert(text)
    one, other = str(raised.value).splitlines()
    assert "toy.md:1: " in one and "> 1024" in one and "toy.md:3: " in other and "'s'" in other


def test_a_misspelled_fence_stops_the_page(convert):
    with pytest.raises(PageError, match=r"toy\.md:3: no fence is called 'recordng'; the nearest .*: recording"):
        convert("One line.\n\n```recordng\nview: output\n```")
    assert "<code>1 + 1" in convert("```text\n1 + 1\n```")  # and a language is none


def test_a_fault_in_a_list_has_its_line_too(convert):
    with pytest.raises(PageError, match=r"toy\.md:4: .*'outputs'"):
        convert("- An item.\n\n    ```recording\n    view: outputs\n    ```\n")


def test_a_recording_that_cannot_be_read_stops_the_page(convert, toy):
    (toy.root / "recordings/programs/toy/h200.json").write_text("{")
    with pytest.raises(PageError, match=r"recordings/programs/toy/h200\.json"):
        convert("# Nothing of it is shown here")


# What is stale


def test_a_stale_recording_is_shown_under_a_notice(convert, toy, monkeypatch, caplog):
    monkeypatch.setattr(runner, "machine_devices", lambda: [])  # as where torch is not installed
    toy.snippet("toy", TOY + "print(1)\n")
    page = convert(fence("view: output") + '\n\nIt is {{ cpu: output["sum"] }}.')
    assert 'class="recording__notice recording__notice--stale"' in page and "sum: 1,024" in page
    assert "not installed" in page and 'class="claim claim--stale"' in page
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any(re.match(r"docs/en/programs/toy\.md:2: recordings/programs/toy/cpu\.json: stale", w) for w in warnings)
    assert all(record.name.startswith("mkdocs.") for record in caplog.records), "MkDocs counts only its own warnings"


def test_a_preview_is_labeled_and_never_written(convert, toy, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", lambda *a, **options: {**made("cpu"), "output": f"new {options}\n"})
    toy.snippet("toy", TOY + "print('preview')\n")
    before = toy.files()
    page = convert(fence("view: output", "device: h200"))
    assert "recording__notice--preview" in page and "&#x27;only_output&#x27;: True" in page
    assert "sum: 1,024" not in page and 'data-device="cpu"' in page
    assert toy.files() == before


def test_no_preview_of_output_that_differs(convert, toy, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", lambda *args, **kwargs: pytest.fail("it was run"))
    toy.snippet("toy", TOY + "print('preview')\n")
    toy.write("pyproject.toml", '[tool.recorder.snippets."programs/toy"]\ndiffers = "on every device"\n')
    page = convert(fence("view: output", "device: h200"))
    assert "recording__notice--stale" in page


def test_a_snippet_that_was_never_recorded(convert, toy, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: [])
    toy.snippet("new", "print(1)\n")
    page = convert(f"{fence('of: programs/new', 'view: table')}\n\n{fence('of: programs/new', 'view: file')}")
    assert "recording__notice--missing" in page and "never been recorded" in page
