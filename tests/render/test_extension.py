# SPDX-License-Identifier: Apache-2.0
"""A page gets what its fences and claims ask for; whatever is wrong stops it, with its line."""

import html
import io
import json
import re
import sys
import zipfile
from html.parser import HTMLParser

import pytest
from bs4 import BeautifulSoup
from markupsafe import escape
from msgspec.structs import replace

from figures.registry import figures
from recorder import fingerprint, printed, recording, runner
from recorder.project import COMPILER, RecorderError, Snippet
from recorder.recording import Line
from render import code
from render.page import PageError
from render.views import frame
from tests.limits import at_most
from tests.render.conftest import NAV
from tests.toy import ASM, ROOT, SETTINGS, TOY, made

VOID = {"br", "img", "link", "meta", "input", "path", "rect", "use", "line", "circle"}


@pytest.fixture
def serving(monkeypatch):
    """A contributor looks at a draft, where nothing can be run."""
    monkeypatch.setattr(sys, "argv", ["mkdocs", "serve"])
    monkeypatch.setattr(runner, "machine_devices", lambda: [])


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


# Figures

VIEWS = {
    "output": ["view: output"],
    "image": ["view: image", "name: dot.png", "alt: A <dot>"],
    "pixels": ["view: pixels", "label: patch"],
    "table": ["view: table", "name: bandwidth", "device: h200", "share_of: copy"],
    "chart": ["view: chart", "name: bandwidth", "device: h200"],
    "timeline": ["view: timeline", "device: h200"],
    "schedule": ["view: schedule", "names: [schedule_few, schedule_shared]", "device: h200"],
    "roofline": ["view: roofline", "device: h200"],
    "ladder": ["view: ladder", "device: h200"],
    "bars": ["view: bars", "name: bandwidth", "line: copy", "rows: {1024: A <b>}", "device: h200"],
    "ranked": ["view: ranked", "name: bandwidth", "ours: triton", "theirs: copy", "device: h200"],
    "rivals": ["view: rivals", "name: bandwidth", "lines: [triton]", "share_of: copy", "device: h200"],
    "accesses": ["view: accesses", "launch: toy_kernel[0]"],
    "explorer": ["view: explorer", "launch: toy_kernel[0]"],
    "swizzle": ["view: swizzle", 'launches: ["toy_kernel[2]", "toy_kernel[3]"]', "sms: 3", "cache: 6"],
    "tiles": ["view: tiles", "launch: toy_kernel[2]", "program: 4"],
    "walk": ["view: walk", "launch: toy_kernel[2]", "program: 4"],
    "online_softmax": ["view: online_softmax", "section: Tiles of scores"],
    "orders": ["view: orders", 'launches: ["toy_kernel[2]", "toy_kernel[3]"]', "sms: 3"],
    "stage": ["view: stage", "launch: toy_kernel[0]", "target: sm_90", "stage: ptx"],
    "stages": ["view: stages", "launch: toy_kernel[0]"],
    "error": ["view: error", "launch: toy_kernel[1]"],
    "layout": ["view: layout", "launch: toy_kernel[0]"],
    "threads": ["view: threads", "launch: toy_kernel[0]"],
    "warp_reduction": ["view: warp_reduction", "launch: toy_kernel[0]"],
    "verdicts": ["view: verdicts", "section: Rows"],
}


# Drawn from what one snippet of the course recorded, and from no other's: their own tests show them.
OF_ONE = {
    "attention_canvas",
    "attention_traffic",
    "banks",
    "blocked",
    "calls",
    "checks",
    "chunks",
    "climb",
    "compiler_passes",
    "counts",
    "decided",
    "dropped",
    "float_bits",
    "fragment",
    "fused_layer",
    "handover",
    "memory_trip",
    "norm_row",
    "outlier",
    "overlap",
    "packed_words",
    "passes",
    "phases",
    "pipeline",
    "race",
    "reduction",
    "routed",
    "row_softmax",
    "scale_blocks",
    "served",
    "shades",
    "shares",
    "split_keys",
    "state_chunks",
    "strides",
    "sum_order",
    "there_and_back",
    "trained",
    "turn",
    "versions",
    "warp_load",
    "waves",
    "window_reads",
    "window_tiles",
}


def test_every_figure_is_shown_below_or_by_tests_of_its_own():
    assert set(VIEWS) | OF_ONE == set(figures())
    rooms = {figures()[name].folder.name for name in OF_ONE}
    assert all((ROOT / f"tests/figures/test_{room}.py").is_file() for room in rooms)


SHUFFLE = Line("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", None)


def kept_whole(course, *more: Line):
    """Have the toy's recording keep all stages that it compares, as the explorer of stages wants them.

    ``more``: lines at the end of its PTX.
    """
    first, *others = made("cpu").compiled
    code = first.targets["sm_90"]
    stages = {**code.stages, "ptx": [*code.stages["ptx"], *more]}
    code = replace(code, stages=stages, digests={stage: code.digests[stage] for stage in code.stages})
    course.record("cpu", compiled=[replace(first, targets=dict.fromkeys(first.targets, code)), *others])


@pytest.mark.parametrize("view", VIEWS)
def test_a_figure_with_where_it_ran(convert, course, view):
    kept_whole(course, *[SHUFFLE] * (view == "warp_reduction"))
    page = convert(fence(*VIEWS[view]))
    device = "h200" if "device: h200" in VIEWS[view] else "cpu"
    assert page.count(f'<figure class="recording" data-device="{device}"') == 1
    where = escape(frame.where(made(device).provenance, figures()[view].foot))
    assert f'recording__where">{where}<' in re.sub("</?time>", "", page) and 'class="recording__notice' not in page
    assert f"recordings/programs/toy/{device}.json" in page and 'href="#file-programs-toy"' in page
    assert "<b>" not in page and "<dot>" not in page, "text of a recording became markup"
    Balance(page)


def test_a_compiler_stage_names_the_triton_that_compiled_it(convert):
    """That Triton is not the one that the launch was seen in."""
    page = convert(fence(*VIEWS["stage"]))
    assert "Compiled without a GPU · Triton 3.9.0 · " in page
    assert "Triton 3.7.1, NumPy 2.4.6, compiled by Triton 3.9.0</dd>" in page
    page = convert(fence(*VIEWS["accesses"]))
    assert "Triton 3.7.1 · " in page and "3.9.0" not in page


def test_a_figure_brings_its_styles_and_its_script_once(convert):
    page = convert("\n\n".join(fence(*VIEWS[view]) for view in ("explorer", "explorer", "swizzle", "output")))
    assert page.count('define("launch-explorer"') == page.count('define("swizzle-explorer"') == 1
    style = (ROOT / "figures/launch_explorer/style.css").read_text("utf-8")
    assert page.count(style) == 1
    other = convert(fence(*VIEWS["output"]))
    assert style not in other and "<script" not in other


def test_what_a_script_reads_from_the_page_holds_no_markup(convert, course):
    kept_whole(course)
    page = convert(fence(*VIEWS["stages"]))
    (blob,) = re.findall(r"<(?:script type=\"application/json\"|template)>(.*?)</(?:script|template)>", page, re.S)
    assert "<" not in blob
    data = json.loads(blob)
    assert set(data["targets"]) == {"sm_80", "sm_90", "sm_100", "gfx942"}
    ptx = data["targets"]["sm_90"]["ptx"]
    assert (ptx["name"], ptx["text"], ptx["lines"]) == ("PTX", ASM, [10, 0, 0])
    assert "8 registers" in ptx["facts"]


def test_a_line_of_code_is_found_again_when_a_comment_moves_it(convert, course):
    course.snippet("toy", TOY.replace('"""A toy."""', '"""A toy,\n\nwith more to say."""'))
    page = convert(fence("view: stage", "launch: toy_kernel[0]", "target: sm_90", "stage: ptx"))
    assert re.search(r'data-line="?12\b', page) and 'class="recording__notice' not in page


def test_verdicts_are_text(convert, course):
    output = "## Rows\n  a `row`\n    ran: <script>alert(1)</script>\n    why: [x](javascript:alert) *y*\n"
    course.record("cpu", output=output)
    course.record("h200", output=output)
    page = convert(fence("view: verdicts", "section: Rows"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script>" not in page and "<em>" not in page
    assert 'href="javascript' not in page
    Balance(page)


# Files


def test_the_whole_file_can_be_read_and_downloaded(convert, course):
    page = convert("", whole_file=True)
    assert '<a href="../../snippets/programs/toy.py" download="toy.py" aria-label="Download toy.py">Download' in page
    assert "<summary>toy.py</summary>" in page
    assert '<a href="../../snippets/programs/toy.html">Read snippets/programs/toy.py</a></p></details>' in page
    Balance(page)


def test_readers_are_not_shown_what_the_formatter_is_told(convert, course):
    page = convert("```python\nkernel(\n    a, b,\n)  # fmt: skip\n```", whole_file=False)
    assert "kernel" in page and "fmt" not in page
    course.snippet("toy", f"{TOY}f(\n    1,\n)  # fmt: skip\n")
    assert "# fmt: skip" in code.color_file(Snippet("programs/toy"))


def zipped() -> dict[str, str]:
    """The files in the toy's zip, by their names."""
    archive = zipfile.ZipFile(io.BytesIO(code.make_zip(Snippet("programs/toy"))))
    return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_file_that_imports_others_of_ours_comes_with_them(convert, course):
    page = convert("", whole_file=True)
    assert "zip" not in page and "checkout" not in page
    least, more = "def add(a, b):\n    return a + b\n", "from snippets.programs.least import add\n"
    toy = f"from snippets.programs import more\n{TOY}"
    course.snippet("least", least)
    course.snippet("more", more)
    course.snippet("toy", toy)
    page = convert("", whole_file=True)
    files = {"toy": toy, "least": least, "more": more}
    assert '<a href="../../snippets/programs/toy.zip" download="toy.zip" aria-label="Download toy.zip">Download' in page
    assert zipped() == {f"snippets/programs/{name}.py": text for name, text in files.items()}
    assert "python -m snippets.programs.toy" in page
    assert all(f"<li><code>snippets/programs/{name}.py</code></li>" in page for name in ("least", "more"))
    Balance(page)


def test_what_main_never_comes_to_can_wait(convert, course):
    course.snippet("other", "from snippets.programs.least import x\n\n\ndef time(): ...\n")
    course.snippet("least", "x = 1\n")
    main = "\n\ndef main():\n    {}\n\n\nif __name__ == '__main__':\n    main()\n"
    text = f"{TOY}\ndef measure():\n    from snippets.programs.other import time\n    time()\n{main}"
    course.snippet("toy", text.format("show()\n\n\ndef show():\n    measure()"))
    files = [f"snippets/programs/{name}.py" for name in ("toy", "least", "other")]
    assert list(zipped()) == files
    asks = "from importlib.util import find_spec\n" + text.format("if find_spec('snippets'): measure()")
    course.snippet("toy", asks)
    assert 'download="toy.py"' in convert("", whole_file=True)
    course.snippet("toy", text.format("pass"))
    page = convert("", whole_file=True)
    assert 'download="toy.py"' in page and "It runs by itself" in page
    assert "<li><code>snippets/programs/other.py</code></li>" in page
    Balance(page)


def test_what_comes_along_is_named_with_where_it_is(convert, course):
    course.snippet("other", "x = 1\n")
    course.snippet("toy", f"from snippets.programs.other import x\n{TOY}")
    course.page("# Other\n\n```recording\nof: programs/other\nview: file\n```\n", "gpu/other.md")
    course.settings([*NAV, "gpu/other.md"])
    page = convert("", whole_file=True)
    assert '<a href="../../gpu/other/#file-programs-other"><code>snippets/programs/other.py</code></a>' in page
    Balance(page)


def test_what_a_snippet_prints_is_repeated_by_itself_and_all_else_by_the_recorder(convert):
    assert "<dd><code>python snippets/programs/toy.py</code>" in convert(fence("view: output"))
    for view in ("accesses", "stage", "table"):
        page = convert(fence(*VIEWS[view]))
        assert "<dd><code>python -m recorder run programs/toy</code>" in page and "python snippets/" not in page


def test_a_page_shows_the_whole_file_behind_its_results(convert):
    with pytest.raises(PageError, match=r"docs/en/programs/toy\.md:1: .*view: file"):
        convert(fence("view: output"), whole_file=False)


# The ledger


def test_the_ledger(convert):
    page = convert(fence("view: ledger"), whole_file=False)
    assert "programs: 2 files ran, 3 recordings, all current" in page
    assert page.count(">programs/toy<") == 1 and page.count(">programs/labs/a_lab<") == 1
    assert "NVIDIA H200" in page and page.count("<b>current</b>") == 3


def test_the_ledger_says_what_is_stale(convert, course):
    course.snippet("toy", TOY + "print('more')\n")
    page = convert(fence("view: ledger"), whole_file=False)
    assert "3 recordings, 2 stale" in page and page.count("<b>stale</b>") == 2


def test_the_ledger_counts_one(convert, course):
    (course.root / "recordings/programs/toy/cpu.json").unlink()
    (course.root / "snippets/programs/labs/a_lab.py").unlink()
    assert "programs: 1 file ran, 1 recording, all current" in convert(fence("view: ledger"), whole_file=False)


# Claims


def test_a_claim(convert):
    page = convert('It sums to {{ cpu: output["sum"]; ,d; > 1000 }}, `{{ cpu: not this }}`.')
    assert ">1,024</data>, <code>{{ cpu: not this }}</code>." in page
    (title,) = re.findall(r'<data class="claim"(?: value="1024"| title="([^"]*)"){2}>', page)
    assert title == "1,024: found in Triton’s interpreter (3.7.1), January 2026, by snippets/programs/toy.py"


def test_what_was_only_compiled_says_so(convert, course):
    course.write("snippets/programs/recorder.toml", SETTINGS + "compiles_only = true\n")
    by_compiler = made("cpu")  # which the settings now ask for
    now = replace(by_compiler.provenance, triton=COMPILER, fingerprint=fingerprint.of(Snippet("programs/toy"), "cpu"))
    recording.save(replace(by_compiler, provenance=now))
    page = convert('# Toy\n\nIt sums to {{ cpu: output["sum"] }}.\n\n' + fence("view: output"))
    assert ">Compiled, not run<" in page
    assert ">Ran in the interpreter<" not in page and "interpreter (3.7.1)" not in page
    assert "1024: read from code compiled by Triton 3.9.0, January 2026" in page


def test_a_claim_of_another_snippet(convert, course):
    course.snippet("other", "print('sum: 5')\n")
    course.write("snippets/programs/recorder.toml", '[other]\ndevices = ["cpu"]\n')
    other = replace(made("cpu"), snippet="programs/other", output="sum: 5\n")
    now = replace(other.provenance, fingerprint=fingerprint.of(Snippet("programs/other"), "cpu"))
    recording.save(replace(other, provenance=now))
    assert ">5</data>" in convert('So {{ cpu of programs/other: output["sum"] }}.')


PLACES = ["{}", "| a |\n|---|\n| {} |", "- {}", "> {}", "**{}**", "[{}](https://a.test)"]
LIKE_MARKUP = ["<script>alert(1)</script>", "*a* **b** `c`", "[x](javascript:alert(1))", "![x](y)", "&lt;", "{: .a }"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [*LIKE_MARKUP, "<a@b.c>", "{{ cpu: 1 }}"])
def test_what_a_claim_inserts_is_text(convert, course, place, text):
    provenance = replace(made("cpu").provenance, device=text)
    course.record("cpu", provenance=provenance)
    page = convert(place.format("{{ cpu: made.device }}"))
    assert f">{html.escape(text, quote=False)}</data>" in page
    assert f'value="{html.escape(text)}"' in page or f'value="{html.escape(text, quote=False)}"' in page
    Balance(page)


def test_a_claim_in_a_heading(convert, course):
    assert ">3</data> elements" in convert("## {{ cpu: launches['toy_kernel'][0].arguments.n }} elements")
    course.record("cpu", provenance=replace(made("cpu").provenance, device="<i>"))
    with pytest.raises(PageError, match=r"toy\.md:3: a heading goes on to menus as HTML; it can hold no '<i>'"):
        convert("# Toy\n\n## {{ cpu: made.device }}")


# What there is not

WRONG = [
    # what the page says, what the message names
    (fence("view: outputs"), ["no view 'outputs'", "output"]),
    (fence("veiw: output"), ["no view None"]),
    (fence("view: output", "onyl: sum"), ["no option 'onyl'", "only"]),
    (fence("view: output", "only: nothing"), ["'nothing'"]),
    (fence("view: output", 'only: "("'), ["missing )"]),
    (fence("view: output", "only: 3000"), ["no line matches 3000"]),
    (fence("view: output", "section: Rowz"), ["'Rowz'", "Rows"]),
    (fence("view: output", "device: h100"), ["'h100'", "h200"]),
    (fence("view: output", "of: programs/toi"), ["'programs/toi'", "programs/toy"]),
    (fence("view: chart", "device: h200"), ["needs the option 'name'"]),
    (fence("view: chart", "name: bandwith", "device: h200"), ["'bandwith'", "bandwidth"]),
    (fence("view: table", "name: bandwidth", "device: h200", "share_of: kopy"), ["'kopy'", "copy"]),
    (fence("view: table", "name: bandwidth", "device: h200", "rows: [1025]"), ["1025", "1024"]),
    (fence("view: table", "name: bandwidth", "device: h200", "rows: 1024"), ["TypeError"]),
    (fence("view: table", "name: bandwidth"), ["no benchmark 'bandwidth'"]),
    (fence("view: accesses", "launch: toy_kernel[4]"), ["launch toy_kernel[4] was counted, not kept"]),
    (fence("view: accesses"), ["which launch is meant? `launch` can be toy_kernel[0], toy_kernel[1]"]),
    (fence("view: accesses", "launch: 0"), ["0 names no launch", "toy_kernel[0], toy_kernel[1]"]),
    (fence("view: accesses", "launch: first"), ["'first' names no launch"]),
    (fence("view: accesses", "launch: toy_kernel[1]"), ["launch toy_kernel[1]"]),
    (fence("view: accesses", "launch: toy_kernel[0]", "tensors: [y_ptr]"), ["y_ptr", "x_ptr"]),
    (fence("view: stage", "launch: toy_kernel[0]", "target: sm_91", "stage: ptx"), ["'sm_91'", "sm_90"]),
    (fence("view: stage", "launch: toy_kernel[0]", "target: sm_90", "stage: ptxx"), ["'ptxx'", "ptx"]),
    (fence("view: stage", "launch: toy_kernel[0]", "target: sm_90", "stage: ptx", "only: nothing"), ["'nothing'"]),
    (fence("view: stages", "launch: toy_kernel[7]"), ["launch toy_kernel[7]"]),
    (fence("view: stages", "launch: toy_kernel[0]", "target: gfx90a"), ["gfx90a"]),
    (fence("view: error", "launch: toy_kernel[0]"), ["the launch compiles"]),
    (fence("view: image", "name: dot.png"), ["needs the option 'alt'"]),
    (fence("view: image", "name: dott.png", "alt: A dot"), ["'dott.png'", "dot.png"]),
    (fence("view: file", "of: programs/toy", "device: cpu"), ["'file' has no option 'device'"]),
    (fence("view: ledger", "of: programs/toy"), ["'ledger' has no option 'of'"]),
    (fence("just words"), ["option: value"]),
    (fence("view: [output"), ["option: value"]),
    (fence("- view: output"), ["option: value"]),
    (fence("view: output", "view: output"), ["'view' is given twice"]),
    (fence(), ["no view None"]),
    ('```recording title="x"\nview: output\n```', ["no attribute 'title'"]),
    ('```recording linenums="1"\nview: output\n```', ["no attribute 'linenums'"]),
    ('```{.recording title="x"}\nview: output\n```', ["no attribute 'title'"]),
    ("```{.recording #x}\nview: output\n```", ["no attribute 'x'"]),
    ("```{.recording .wide}\nview: output\n```", ["no attribute 'wide'"]),
    ("```recording output\nview: output\n```", ["no attribute 'output'"]),
    ("```Recording\nview: output\n```", ["no fence is called 'Recording'", "recording"]),
    ("``` recordings\nview: output\n```", ["no fence is called 'recordings'", "recording"]),
    ("```recordng\nview: output\n```", ["no fence is called 'recordng'", "recording"]),
    ("> ```recordng\n> view: output\n> ```", ["'recordng'"]),
    ("- An item.\n\n    ```recordng\n    view: output\n    ```", ["'recordng'"]),
    ("1. ```recordng\n   view: output\n   ```", ["'recordng'"]),
    ("````recordng\nview: output\n````", ["'recordng'"]),
    ("~~~recordng\nview: output\n~~~", ["'recordng'"]),
    ("```{.recordng}\nview: output\n```", ["'recordng'"]),
    ('=== "Tab"\n\n    ```recordng\n    view: output\n    ```', ["'recordng'"]),
    ("Words.\n\n     ```recording\n     view: output\n     ```", ["indented wrongly"]),
    ("- ```recording\n  view: output\n  ```", ["indented wrongly"]),
    ("A term\n: ```recording\n  view: output\n  ```", ["indented wrongly"]),
    ("{{ h200: bandwith[2**20].triton }}", ["'bandwith'", "bandwidth"]),
    ("{{ h200: bandwidth[2**21].triton }}", ["2097152"]),
    ("{{ h200: bandwidth[2**20].tritn }}", ["'tritn'", "triton"]),
    ("{{ h100: made.triton }}", ["'h100'", "h200"]),
    ("{{ H200: made.triton }}", ["'H200'", "h200"]),
    ("{{ cpu of programs/toi: made.triton }}", ["'programs/toi'", "programs/toy"]),
    ('{{ cpu: output["sum"]; d; > 1024 }}', ["> 1024", "it is 1024"]),
    ("{{ cpu: 10**10**10 }}", ["a power of more than 300 digits"]),
    ("{{ cpu: made.update(triton='4') }}", ["a method cannot be called here"]),
    ("{{ launches }}", ["no claim"]),
    ("{{ }}", ["no claim"]),
    ("<p>{{ cpu: 1 }}</p>", ["'{{ cpu: 1 }}' was not taken for a claim"]),
    ("So { { cpu: 1 }}.", ["was not taken for a claim"]),
    ("So {{ cpu: 1 }.", ["was not taken for a claim"]),
    ("So {{ cpu:\n\n1 }}.", ["was not taken for a claim"]),
    ("`a` {{ cpu: '`' }} `b`", ["was not taken for a claim"]),
    ("![{{ cpu: made.date }}](x.png)", ["of 1 claims 0 stand"]),
    ("[x]({{ cpu: made.date }})", ["of 1 claims 0 stand"]),
    ("{{ cpu: made.date }} and [{{ cpu: made.date }}]({{ cpu: made.date }})", ["of 3 claims 2 stand"]),
    ('So <data class="claim" value="9">9</data>.', ["of 0 claims 1 stand"]),
    ("So <data value=9 class='a claim'>9</data>.", ["of 0 claims 1 stand"]),
    ('<figure class="recording"><pre>sum: 9</pre></figure>', ["a recording is drawn, not typed by hand"]),
    ("<figure class='wide recording'><pre>sum: 9</pre></figure>", ["a recording is drawn, not typed by hand"]),
    ("<figure class = recording><pre>sum: 9</pre></figure>", ["a recording is drawn, not typed by hand"]),
    ("<!--\n```recording\nview: output\n```\n-->", ["of 2 recording fences only 1 are understood"]),
    ("{{ cpu: 1042 }}", ["1042", "typed by hand"]),
    ('--8<-- "programs/toy.py:kernel"', ["stands in a fence"]),
    ('```python\n--8<-- "programs/toy.py:kernal"\n```', ["'kernal'", "kernel"]),
    ('```python\n--8<-- "programs/toi.py"\n```', ["snippets/programs/toi.py", "toy.py"]),
    ('```python\n-8<- "programs/toy.py:kernel"\n```', ["write it as --8<--"]),
    ("```python\n--8<-- 'programs/toy.py:kernel'\n```", ["write it as --8<--"]),
    ('```python\n---8<--- "programs/toy.py:kernel"\n```', ["write it as --8<--"]),
    ("```python\n--8<--\nprograms/toy.py\n--8<--\n```", ["write it as --8<--"]),
    ('```python\n--8<-- "https://a.test/toy.py"\n```', ["no file snippets/https"]),
    ('```python\n;--8<-- "programs/toy.py:kernel"\n```', ["write it as --8<--"]),
    ('```python\nx = 1  --8<-- "programs/toy.py:kernel"\n```', ["write it as --8<--"]),
    ('```python\n--8<-- "../mkdocs.yml"\n```', ["../mkdocs.yml"]),
    ('```yaml\n--8<-- "mkdocs.yml"\n```', ["no file snippets/mkdocs.yml"]),
    ('```python\n--8<-- "template/src/toy/ops.pi"\n```', ["no file snippets/template/src/toy/ops.pi"]),
    ('```python\n--8<-- "programs/toy.py:1:3"\n```', ["no section '1:3'"]),
]


@pytest.mark.parametrize(("text", "named"), WRONG)
def test_what_is_wrong_stops_the_page_with_its_line(convert, text, named):
    with pytest.raises(PageError) as raised:
        convert(f"# Title\n\nWords.\n\n{text}\n")
    message = str(raised.value)
    line = int(re.match(r"docs/en/programs/toy\.md:(\d+): ", message)[1])
    assert 5 <= line <= 5 + text.count("\n"), message
    assert all(word in message for word in named), message
    assert "/tmp" not in message


def test_shows_parts_of_the_package_to_download(convert, course):
    course.write("template/src/toy/ops.py", "# --8<-- [start:call]\ncalled = 1\n# --8<-- [end:call]\nleft = 2\n")
    fence = '```python\n--8<-- "template/src/toy/ops.py:{}"\n```\n'
    shown = BeautifulSoup(convert(f"# Title\n\n{fence.format('call')}"), "html.parser")
    assert shown.select_one(".highlight code").text == "called = 1\n" and not shown.select("[data-typed]")
    with pytest.raises(PageError, match=r"template/src/toy/ops\.py has no section 'cal'.*call"):
        convert(f"# Title\n\n{fence.format('cal')}")


SECTIONS = {
    "twice": TOY + "# --8<-- [start:kernel]\nx = 1\n# --8<-- [end:kernel]\n",
    "without an end": TOY.replace("# --8<-- [end:kernel]\n", ""),
    "empty": re.sub(r"(start:kernel\]\n).*?(# --8<-- \[end)", r"\1\2", TOY, flags=re.S),
    "ended before it begins": TOY.replace("[start:", "[x:").replace("[end:", "[start:").replace("[x:", "[end:"),
}


@pytest.mark.parametrize("text", SECTIONS.values(), ids=SECTIONS)
def test_a_section_that_shows_something_else_than_it_seems(convert, course, text):
    course.snippet("toy", text)
    with pytest.raises(PageError, match=r"toy\.md:2: section 'kernel' of .*toy\.py is not begun and ended once"):
        convert('```python\n--8<-- "programs/toy.py:kernel"\n```')


@pytest.mark.parametrize("text", ["```text\nWords.", "````\nWords.\n```", "- A\n\n    ~~~\n    Words."])
def test_a_fence_that_nobody_closes(convert, text):
    with pytest.raises(PageError, match=r"toy\.md(:\d)?: a fence is not closed"):
        convert(f"Words.\n\n{text}\n", whole_file=False)


def test_all_that_is_wrong_is_named_at_once(convert):
    text = 'Not {{ cpu: output["sum"]; d; > 1024 }}, but {{ cpu: output["sum"] }}.\n\nNor {{ cpu: output["s"] }}.'
    with pytest.raises(PageError) as raised:
        convert(text)
    one, other = str(raised.value).splitlines()
    assert "toy.md:1: " in one and "> 1024" in one and "toy.md:3: " in other and "'s'" in other


@pytest.mark.parametrize(
    "text",
    [
        "```text\n1 + 1\n```",
        "````text\n```recording\nview: outputs\n```\n{{ cpu: wrong }}\n````",
        "~~~text\n```recording\nview: outputs\n```\n~~~",
        "`{{ cpu: wrong }}` and ``{{ wrong }}``",
        "<!-- {{ cpu: wrong }} -->",
        "{{ cpu:\nmade.date }}",
    ],
)
def test_what_only_looks_wrong(convert, text):
    assert convert(f"Words.\n\n{text}\n")


INSIDE = ["", "> ", "- A\n\n    ", "1. A\n\n    ", "!!! note\n    ", '??? note "A"\n    ', '=== "A"\n\n    ']


@pytest.mark.parametrize("before", INSIDE)
def test_a_recording_stands_wherever_a_fence_may(convert, before):
    *above, inner = before.split("\n")
    page = convert("\n".join([*above, *(inner + line for line in fence("view: output").splitlines())]))
    assert page.count('<figure class="recording"') == 1
    Balance(page)


LONG = ["{{" + " " * 20_000, "{{ cpu" + " of" * 9_000, "{{ " * 3_000, ">" * 500, "[" * 3_000, "`" * 9_000]


@pytest.mark.speed
@pytest.mark.parametrize("text", LONG, ids=[text[:8] for text in LONG])
def test_no_page_keeps_a_build_waiting(convert, text):
    with at_most(20):
        try:
            convert(text)
        except (PageError, RecursionError) as error:
            assert len(str(error)) < 400


def test_a_recording_that_cannot_be_read_stops_the_page(convert, course):
    course.write("recordings/programs/toy/h200.json", "{")
    with pytest.raises(PageError, match=r"toy\.md:[345]: recordings/programs/toy/h200\.json"):
        convert("# A page\n\n" + fence("view: output", "device: h200"))


@pytest.mark.speed
@pytest.mark.parametrize("pattern", ["(a|a?)+$", "(a+)+$", "((a*)*)*$"])
def test_a_pattern_keeps_no_build_waiting(convert, course, monkeypatch, pattern):
    monkeypatch.setattr(printed, "SECONDS", 0.05)
    for device in ("cpu", "h200"):
        course.record(device, output="a" * 4000 + "b\n")
    with at_most(20), pytest.raises(PageError, match=r"toy\.md:1: .*(takes more than|no line matches)"):
        convert(fence("view: output", f'only: "{pattern}"'))


# What is stale


def stale(course):
    course.snippet("toy", TOY + "print(1)\n")
    return fence("view: output") + '\n\nIt is {{ cpu: output["sum"] }}.'


def test_a_stale_recording_stops_the_page(convert, course):
    with pytest.raises(PageError) as raised:
        convert(stale(course))
    for line, message in zip((1, 5), str(raised.value).splitlines(), strict=True):
        assert re.match(rf"docs/en/programs/toy\.md:{line}: recordings/programs/toy/cpu\.json: stale", message)
        assert "fix: python -m recorder run programs/toy" in message


def test_while_serving_it_is_shown_as_such(convert, course, serving):
    page = convert(stale(course))
    assert 'class="recording__notice recording__notice--stale"' in page and "sum: 1,024" in page
    assert "not installed" in page and 'class="claim claim--stale"' in page
    assert "fix: " not in page.partition("</figure>")[2].partition("<details")[0]


ELSE = [fence("view: outputs"), '{{ cpu: output["sum"]; d; > 1024 }}', '--8<-- "programs/toi.py"', "```recordng\n```"]


@pytest.mark.parametrize("text", ELSE)
def test_while_serving_everything_else_stops_the_page_too(convert, course, serving, text):
    with pytest.raises(PageError):
        convert(f"{stale(course)}\n\n{text}\n")


@pytest.mark.parametrize("command", ["mkdocs build", "mkdocs build -d serve", "render check --built serve", "-c"])
def test_only_who_serves_is_shown_what_is_stale(convert, course, monkeypatch, command):
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(PageError):
        convert(stale(course))


def test_a_preview_is_labeled_and_never_written(convert, course, serving, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", lambda *a, **options: replace(made("cpu"), output=f"new {options}\n"))
    course.snippet("toy", TOY + "print('preview')\n")
    before = course.files()
    page = convert(fence("view: output", "device: h200"))
    assert "recording__notice--preview" in page and "&#39;only_output&#39;: True" in page
    assert "sum: 1,024" not in page and 'data-device="cpu"' in page
    assert course.files() == before


def test_what_is_measured_has_no_preview(convert, course, serving, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", lambda *args, **kwargs: pytest.fail("it was run"))
    course.snippet("toy", TOY + "print('measured')\n")
    assert "recording__notice--stale" in convert(fence("view: table", "name: bandwidth", "device: h200"))


def test_no_preview_of_output_that_differs(convert, course, serving, monkeypatch):
    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", lambda *args, **kwargs: pytest.fail("it was run"))
    course.snippet("toy", TOY + "print('preview')\n")
    course.write("snippets/programs/recorder.toml", '[toy]\ndiffers = "on every device"\n')
    assert "recording__notice--stale" in convert(fence("view: output", "device: h200"))


def test_a_changed_snippet_that_fails_keeps_its_old_output(convert, course, serving, monkeypatch):
    def fails(*args, **kwargs):
        raise RecorderError("Traceback\nNameError: <x>")

    monkeypatch.setattr(runner, "machine_devices", lambda: ["cpu"])
    monkeypatch.setattr(runner, "record", fails)
    course.snippet("toy", TOY + "print('fails')\n")
    page = convert(fence("view: output"))
    assert "recording__notice--stale" in page and "it fails: NameError: &lt;x&gt;" in page and "sum: 1,024" in page


def test_a_snippet_that_was_never_recorded(convert, course, serving):
    course.snippet("new", "print(1)\n")
    text = f"{fence('of: programs/new', 'view: output')}\n\n{fence('of: programs/new', 'view: file')}\n\n"
    page = convert(f"{text}So {{{{ cpu of programs/new: output['x'] }}}}.")
    assert "recording__notice--missing" in page and "never been recorded" in page and ">?</data>" in page
