# SPDX-License-Identifier: Apache-2.0
"""The gates: each fault is planted in a throw-away copy of the project, and must stop the build or the check.

What a name looks like that a page gets wrong is tested quickly, without MkDocs, in tests/recorder/test_markdown.py;
here one of each kind goes the whole way.
"""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from recorder import recording
from tests.site.gates_support import LESSON, ROOT, Copy, make_copy, other_hosts

PAGE = "docs/en/programs/vector-add.md"
SNIPPET = "snippets/programs/vector_add.py"
RECORDED = "recordings/programs/vector_add"
LAB = "snippets/programs/labs/vector_add_step_by_step.py"
NOTEBOOK = "docs/en/programs/vector-add-step-by-step.ipynb"
runs_snippets = pytest.mark.skipif(find_spec("triton") is None, reason="previews run where Triton is installed")


@pytest.fixture(scope="session")
def original(tmp_path_factory) -> Copy:
    return make_copy(tmp_path_factory.mktemp("gates") / "project")


@pytest.fixture
def copy(original, tmp_path) -> Copy:
    shutil.copytree(original.root, tmp_path / "project", ignore=shutil.ignore_patterns("site"))
    return Copy(tmp_path / "project")


def refused(result: tuple[int, str], *named: str) -> str:
    """Assert that a command failed, in so many words and not by crashing, and that its output names the culprit."""
    status, output = result
    assert status not in (0, None), f"passed:\n{output}"
    assert "Traceback" not in output, output
    for text in named:
        assert text in output, f"no {text!r} in:\n{output}"
    return output


# Without a fault


def test_the_copy_passes_every_gate(original):
    """Otherwise the tests below would prove nothing."""
    status, output = original.check()
    assert status == 0, output
    status, output = original.strict()
    assert status == 0 and "WARNING" not in output, output
    assert other_hosts(original.root / "site") == []
    page = (original.root / "site/programs/vector-add/index.html").read_text("utf-8")
    assert "recording__notice" not in page and "recording--output" in page and 'value="3"' in page


@pytest.mark.parametrize("command", [("-m", "recorder", "check"), ("-m", "mkdocs", "build")])
def test_it_is_the_copy_that_is_tested(copy, command):
    """With the project also installed in the environment, Python could as well import that."""
    copy.append("recorder/project.py", '\nraise SystemExit(f"imported {__file__}")\n')
    status, output = copy.python(*command)
    assert status and f"imported {copy.root}/recorder/project.py" in output


def test_the_snippets_of_the_copy_are_imported(copy):
    status, output = copy.python("-c", "import snippets.programs as p; print(list(p.__path__)[0])")
    assert (status, output.strip()) == (0, str(copy.root / "snippets/programs"))


def test_the_project_itself_is_clean():
    done = subprocess.run([sys.executable, "-m", "recorder", "check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_site_itself_asks_no_other_host(site):
    assert len(site.pages) >= 4
    assert other_hosts(site.folder) == []


# Recordings


def test_a_stale_recording(copy):
    copy.edit(SNIPPET, "mask = offsets < n\n", "mask = offsets > n\n")
    for result in (copy.check(), copy.strict()):
        output = refused(result, f"{RECORDED}/cpu.json: stale", f"{RECORDED}/h200.json: stale")
        assert f"{SNIPPET} has changed" in output and "mend: python -m recorder run programs/vector_add" in output
        assert "vector_add_bug" not in output


def test_a_changed_pin_makes_recordings_of_the_interpreter_stale(copy):
    copy.edit("requirements.txt", "torch==", "torch==1")
    output = refused(copy.check(), f"{RECORDED}/cpu.json: stale")
    assert "h200.json" not in output


def test_a_changed_comment_or_docstring_makes_nothing_stale(copy):
    copy.edit(SNIPPET, "# In 64 bits:", "# A longer word on this,\n    # in 64 bits:")
    copy.edit(SNIPPET, '"""Return ``x + y``', '"""Give ``x + y``')
    assert copy.check()[0] == 0
    status, output = copy.strict()
    assert status == 0, output


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_a_recording_edited_by_hand(copy, device):
    kept = json.loads(copy.read(f"{RECORDED}/{device}.json"))
    kept["output"] = kept["output"].replace("909.0", "908.0")
    copy.write(f"{RECORDED}/{device}.json", json.dumps(kept))
    refused(copy.check(), f"{RECORDED}/{device}.json: edited")
    if device == "h200":
        refused(copy.strict(), copy.line(PAGE, "view: output"), f"{RECORDED}/{device}.json: edited")


def test_a_timing_edited_by_hand(copy):
    kept = json.loads(copy.read(f"{RECORDED}/h200.json"))
    kept["benchmarks"][0]["rows"][-1]["triton"][0] *= 1.001
    copy.write(f"{RECORDED}/h200.json", json.dumps(kept))
    refused(copy.check(), f"{RECORDED}/h200.json: edited")


def test_a_chart_edited_by_hand(copy):
    copy.edit(f"{RECORDED}/h200.bandwidth.svg", "GB/s", "TB/s")
    for result in (copy.check(), copy.strict()):
        refused(result, f"{RECORDED}/h200.bandwidth.svg: edited")


def test_a_missing_chart(copy):
    (copy.root / RECORDED / "h200.bandwidth.svg").unlink()
    refused(copy.check(), f"{RECORDED}/h200.bandwidth.svg: missing")


def test_devices_that_disagree(copy):
    program = "kept = recording.load(s := find('programs/vector_add'), 'h200');"
    program += "kept['output'] = kept['output'].replace('909.0', '908.0');"
    program += "charts = {name: recording.chart(s, 'h200', name) for name in kept['charts']};"
    program += "recording.save(s, 'h200', kept, charts)"
    copy.python("-c", f"from recorder import recording; from recorder.project import find; {program}")
    refused(copy.check(), f"{RECORDED}/h200.json: disagrees", "908.0", "909.0")


ORPHANS = ["recordings/programs/gone/cpu.json", "recordings/notes.txt", f"{RECORDED}/h200.old.svg"]


@pytest.mark.parametrize("orphan", ORPHANS)
def test_an_orphaned_recording_and_a_stray_file(copy, orphan):
    copy.write(orphan, "{}")
    refused(copy.check(), f"{orphan}: orphaned", f"git rm {orphan}")
    if "gone" in orphan:
        refused(copy.strict(), f"{orphan}: orphaned")


def test_a_recording_that_is_no_whole_json_file(copy):
    text = copy.read(f"{RECORDED}/h200.json")
    copy.write(f"{RECORDED}/h200.json", text[: len(text) // 2])
    for result in (copy.check(), copy.strict()):
        refused(result, f"{RECORDED}/h200.json is not a whole recording")


def test_a_recording_that_holds_something_else(copy):
    copy.write(f"{RECORDED}/h200.json", "[]")
    refused(copy.check(), f"{RECORDED}/h200.json")


def test_a_snippet_without_a_recording(copy):
    copy.write("snippets/programs/new.py", "print(1)\n")
    for result in (copy.check(), copy.strict()):
        refused(result, "recordings/programs/new: missing", "python -m recorder run programs/new")


# What pages ask for


def test_a_missing_section(copy):
    copy.edit(PAGE, "vector_add.py:kernel", "vector_add.py:kernal")
    refused(copy.strict(), copy.line(PAGE, "--8<--"), "'kernal'", "kernel")
    refused(copy.build(), copy.line(PAGE, "--8<--"))


def test_a_missing_file(copy):
    copy.edit(PAGE, "vector_add.py:kernel", "vector_ad.py:kernel")
    refused(copy.strict(), copy.line(PAGE, "--8<--"), "snippets/programs/vector_ad.py", "vector_add.py")


def test_a_section_that_was_renamed_in_its_snippet(copy):
    copy.edit(SNIPPET, "[start:kernel]", "[start:kernels]")
    copy.edit(SNIPPET, "[end:kernel]", "[end:kernels]")
    refused(copy.strict(), copy.line(PAGE, "--8<--"), "'kernel'", "kernels")


def test_a_claim_on_a_value_that_is_not_there(copy):
    copy.append(PAGE, "\nSo {{ h200: bandwith[2**28].triton; .0f }} GB/s.\n")
    refused(copy.strict(), copy.line(PAGE, "bandwith"), "'bandwith'", "bandwidth")


def test_a_claim_that_holds_no_longer(copy):
    """The sentence stays; what was measured changes, and was recorded properly."""
    kept = json.loads(copy.read(f"{RECORDED}/cpu.json"))
    kept["launches"][0]["grid"][0] = 4
    copy.write(f"{RECORDED}/cpu.json", json.dumps({**kept, "digest": recording.digest(kept)}))
    assert copy.check()[0] == 0
    refused(copy.strict(), copy.line(PAGE, "launches[0]"), "launches[0].grid[0] == 3", "it is 4")


def test_what_looks_like_a_claim_and_is_none(copy):
    copy.append(PAGE, "\nSo {{ launches[0].grid[0] }} programs.\n")
    refused(copy.strict(), copy.line(PAGE, "So {{"), "no claim")


def test_an_unknown_view(copy):
    copy.edit(PAGE, "view: output", "view: outputs")
    refused(copy.strict(), PAGE, "'outputs'", "output")


# Links


@pytest.mark.parametrize("target", ["gone.md", "vector-add.md#gone", "#gone", "/programs/vector-add/"])
def test_a_dead_link_in_a_page(copy, target):
    copy.append(PAGE, f"\nSee [this]({target}).\n")
    refused(copy.strict(), "programs/vector-add.md", target)


@pytest.mark.parametrize("target", ["gone.md", "vector-add.md#gone"])
def test_a_dead_link_in_a_lab(copy, target):
    program = "n = json.loads((p := labs()[0].notebook).read_text('utf-8')); n['cells'][0]['source'] += ' [x](TARGET)';"
    program += "n['metadata']['digest'] = lab.digest(n); p.write_text(json.dumps(n), 'utf-8')"
    program = f"import json; from recorder import lab; from recorder.project import labs; {program}"
    status, output = copy.python("-c", program.replace("TARGET", target))
    assert status == 0, output
    assert copy.check()[0] == 0  # or the build would fail for another reason
    refused(copy.strict(), "programs/vector-add-step-by-step.ipynb", target)


def test_a_page_that_is_in_no_navigation(copy):
    copy.write("docs/en/programs/lost.md", "# Lost\n")
    refused(copy.strict(), "programs/lost.md")


# Labs


def test_a_notebook_edited_by_hand(copy):
    copy.edit(NOTEBOOK, "three programs", "four programs")
    for result in (copy.check(), copy.strict()):
        refused(result, f"{NOTEBOOK}: edited")


@pytest.mark.parametrize("comment", [False, True])
def test_a_stale_notebook(copy, comment):
    """In a lab the comments are the prose, so they count."""
    copy.append(LAB, "\n# One word more.\n" if comment else "\nprint(1)\n")
    refused(copy.check(), f"{NOTEBOOK}: stale", "python -m recorder run programs/labs/vector_add_step_by_step")
    if not comment:
        refused(copy.strict(), f"{NOTEBOOK}: stale")


# Other hosts

FOREIGN = {
    "page.html": """
        <a href="https://a.test/followed-by-choice">fine</a> <link rel="canonical" href="https://a.test/">
        <svg xmlns="http://www.w3.org/2000/svg"><use xlink:href="#local"/></svg> <img src="//h01.test/x.png">
        <img src="local.png" srcset="local.png 1x, https://h02.test/x.png 2x"> <script src="https://h03.test/x.js"></script>
        <link rel="stylesheet" href="HTTPS://h04.test/x.css"> <link rel="shortcut icon" href="https://h05.test/x.ico">
        <link rel=preload href=https://h06.test/x> <iframe src="https://h07.test"></iframe>
        <video poster="https://h08.test/x.png"><source src="https://h09.test/x.mp4"></video>
        <audio src="https://h10.test/x.mp3"></audio> <object data="https://h11.test/x"></object>
        <embed src="//h12.test/x">
        <style>@import "https://h13.test/x.css"; a { background: url( 'https://h14.test/x.png' ) }</style>
        <p style="background: url(https://h15.test/x.png)">
        <script>import "https://h16.test/x.js"; fetch('//h17.test')</script>
        <link rel="preconnect" href="https://h18.test"> <svg><image href="https://h19.test/x.png"/></svg>
    """,
    "style.css": "@import url(https://h20.test/x.css);\n@font-face { src: url('//h21.test/x.woff2') }\n"
    "/* https://a.test */",
    "code.js": "// https://a.test\nimport x from 'https://h22.test/x.js';\nconst y = import(`https://h23.test/y.js`);",
    "picture.svg": '<svg xmlns="http://www.w3.org/2000/svg"><image xlink:href="https://h24.test/x.png"/></svg>',
}


def test_every_way_to_ask_another_host_is_seen(tmp_path):
    for name, text in FOREIGN.items():
        (tmp_path / name).write_text(text)
    found = "\n".join(other_hosts(tmp_path))
    assert [n for n in range(1, 25) if f"h{n:02}.test" not in found] == []
    assert "//a.test" not in found
    assert "code.js:3: https://h23.test/y.js" in found


def test_a_page_that_asks_another_host(copy):
    copy.append(PAGE, "\n![x](https://images.test/x.png)\n\n<script src='https://scripts.test/x.js'></script>\n")
    copy.append("theme/assets/tokens.css", "\n@import url(https://styles.test/x.css);\n")
    copy.edit("mkdocs.yml", "font: false", "font: {text: Roboto}")
    status, output = copy.build()
    assert status == 0, output
    found = other_hosts(copy.root / "site")
    assert any(line.startswith("programs/vector-add/index.html:") and "images.test" in line for line in found)
    assert any(line.startswith("programs/vector-add/index.html:") and "scripts.test" in line for line in found)
    assert any(line.startswith("assets/tokens.css:") and "styles.test" in line for line in found)
    assert any(line.startswith("index.html:") and "fonts.g" in line for line in found)


# Without --strict, a contributor sees what is wrong


@runs_snippets
def test_a_changed_snippet_is_previewed(copy):
    copy.edit(SNIPPET, "y = 100 * x", "y = 200 * x")
    before = copy.files("recordings")
    status, output = copy.build()
    assert status == 0 and "vector_add/h200.json: stale" in output, output
    page = (copy.root / "site/programs/vector-add/index.html").read_text("utf-8")
    assert "recording__notice--preview" in page
    assert "[0.0, 201.0, 402.0, 603.0" in page and "[0.0, 101.0, 202.0, 303.0" not in page
    figure = page.split("recording--output")[1].split("</figure>")[0]
    assert "Triton&#x27;s interpreter" in figure and "NVIDIA H200" not in figure
    assert copy.files("recordings") == before


@runs_snippets
def test_a_changed_snippet_that_fails_keeps_its_old_output(copy):
    copy.edit(SNIPPET, "y = 100 * x", "y = 100 * x_")
    status, output = copy.build()
    assert status == 0, output
    page = (copy.root / "site/programs/vector-add/index.html").read_text("utf-8")
    assert "recording__notice--stale" in page and "NameError" in page and "[0.0, 101.0, 202.0, 303.0" in page


def test_a_stale_view_that_has_no_preview_says_so(copy):
    copy.write(PAGE, LESSON.replace("view: output", "view: table\nname: bandwidth"))
    copy.edit(SNIPPET, "y = 100 * x", "y = 200 * x")
    status, output = copy.build()
    assert status == 0, output
    page = (copy.root / "site/programs/vector-add/index.html").read_text("utf-8")
    assert "recording__notice--stale" in page and "claim--stale" in page and "<table>" in page


@runs_snippets
def test_a_page_of_a_snippet_that_was_never_recorded(copy):
    copy.write("snippets/programs/new.py", "raise SystemExit('no use')\n")
    copy.write("docs/en/programs/new.md", "# New\n\n" + "".join(LESSON.partition("```recording")[1:]))
    copy.edit("mkdocs.yml", "  - programs/vector-add.md\n", "  - programs/vector-add.md\n  - programs/new.md\n")
    status, output = copy.build()
    assert status == 0, output
    page = Path(copy.root / "site/programs/new/index.html").read_text("utf-8")
    assert "recording__notice--missing" in page and "snippets/programs/new.py has never been recorded" in page
