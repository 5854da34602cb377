# SPDX-License-Identifier: Apache-2.0
"""Labs: what is written and when it is refused, and the page that shows it."""

import json
import os
import re
import shutil
from datetime import date
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from recorder import fingerprint, lab, project
from tests.processes import run_python, run_script

ROOT = Path(__file__).resolve().parents[2]
NAME = "programs/labs/vector_add_step_by_step"
runs_labs = pytest.mark.skipif(find_spec("triton") is None, reason="labs run where Triton is installed")

SMALL = """\
# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # A lab
#
# See [the other page](other.md).

# %%
import os
print("in", os.getcwd())
print("root", {root!r})

# %%
print("<b>&", [1, 2], "{{{{ no claim }}}}")
7 * 6

# %% tags=["solution"]
print("hidden")
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A project with one small lab; returns its script and where its notebook belongs."""
    for module in (project, fingerprint, lab):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("torch==1.0\n")
    script = tmp_path / "snippets/programs/labs/a_lab.py"
    script.parent.mkdir(parents=True)
    script.write_text(SMALL.format(root=str(tmp_path)))
    return script, tmp_path / "docs/en/programs/a-lab.ipynb"


def outputs(notebook: Path) -> str:
    """What the cells printed, in order."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return "".join(o["text"] for c in cells if c["cell_type"] == "code" for o in c["outputs"] if "text" in o)


@runs_labs
def test_building_again_writes_the_same_bytes(small, monkeypatch):
    script, notebook = small
    lab.build(script, notebook, timeout=60)
    first = notebook.read_bytes()

    class Later(date):
        @classmethod
        def today(cls):
            return cls(2100, 1, 1)

    monkeypatch.setattr(lab, "date", Later)
    lab.build(script, notebook, timeout=60)
    assert notebook.read_bytes() == first
    script.write_text(script.read_text() + "print('more')\n")
    lab.build(script, notebook, timeout=60)
    assert "· 2100-01-01" in json.loads(notebook.read_text())["cells"][-1]["source"]


@runs_labs
def test_notebook_names_no_path_of_this_machine(small, tmp_path):
    script, notebook = small
    lab.build(script, notebook, timeout=60)
    assert outputs(notebook).startswith("in .\nroot .\n")
    cells = json.loads(notebook.read_text())["cells"]
    assert str(tmp_path) not in json.dumps([cell.get("outputs") for cell in cells])
    assert str(tmp_path) in cells[1]["source"]  # code stays as it was written


@runs_labs
def test_status(small):
    script, notebook = small
    assert lab.status(script, notebook) == "missing"
    lab.build(script, notebook, timeout=60)
    assert lab.status(script, notebook) == "fresh"

    source, written = script.read_text(), notebook.read_text("utf-8")
    script.write_text(source.replace("See", "Look at"))  # prose alone: in a lab, it is part of the page
    assert lab.status(script, notebook) == "stale"
    script.write_text(source)
    assert lab.status(script, notebook) == "fresh"
    by_hand = (written.replace("hidden", "shown"), written.replace('"torch": "', '"torch": "9'), written[:-9], "[]")
    for changed in by_hand:
        assert changed != written
        notebook.write_text(changed, "utf-8")
        assert lab.status(script, notebook) == "edited"


@runs_labs
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("while True: pass", "was not done within 2 s"),
        ("import os; os._exit(1)", "stopped the kernel"),
    ],
)
def test_a_failing_cell_is_named_and_leaves_the_old_notebook(small, fault, reason):
    script, notebook = small
    notebook.parent.mkdir(parents=True)
    notebook.write_text("the old one")
    script.write_text(f"# %% [markdown]\n# # A lab\n\n# %%\nprint(1)\n\n# %%\n# the faulty one\n{fault}\n")
    with pytest.raises(project.RecorderError) as caught:
        lab.build(script, notebook, timeout=2)
    assert f"snippets/programs/labs/a_lab.py: cell 3 (# the faulty one) {reason}" in str(caught.value)
    assert notebook.read_text() == "the old one"
    assert os.listdir(notebook.parent) == [notebook.name]


@runs_labs
def test_the_first_lab_runs_again_and_as_a_script(tmp_path):
    it = project.Lab(NAME)
    again = tmp_path / "again.ipynb"
    lab.build(it.path, again, timeout=120)
    assert outputs(again) == outputs(it.notebook)
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    plain = run_script(it.path, env=environment)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout == outputs(it.notebook)


class Page(HTMLParser):
    """Collects what a page loads, its inline styles, and the text of its outputs outside and inside ``<details>``."""

    def __init__(self, text: str):
        super().__init__()
        self.loads, self.styles, self.outputs, self.hidden, self.open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("script", "link", "img", "iframe") and attributes.get("rel") != "canonical":
            self.loads.append(attributes.get("src") or attributes.get("href") or "")
        if tag not in ("link", "img", "meta", "input", "br", "hr"):
            self.open.append((tag, (attributes.get("class") or "").split()))
            if "jp-OutputArea-output" in self.open[-1][1]:
                self._place().append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            self.styles.append(data)
        elif any("jp-OutputArea-output" in classes for _, classes in self.open):
            self._place()[-1] += data

    def _place(self):
        return self.hidden if any(tag == "details" for tag, _ in self.open) else self.outputs


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A function that builds a site of the first lab alone, by the project's own configuration."""

    def build(*, repository="", change=None):
        folder = tmp_path_factory.mktemp("site")
        it = project.Lab(NAME)
        for path in (it.path, it.notebook, ROOT / "requirements.txt", ROOT / "docs/en/reference/glossary.md"):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for name in ("recordings", "recorder", "theme"):
            (folder / name).mkdir()
        (folder / "docs/en/programs/vector-add.md").write_text("# Vector add\n")
        (folder / "docs/en/index.md").write_text("# Home\n[A cell](programs/vector-add-step-by-step.ipynb#try-it)\n")
        (folder / "mkdocs.yml").write_text(
            f"INHERIT: {json.dumps(str(ROOT / 'mkdocs.yml'))}\n"
            f"hooks: [{json.dumps(str(ROOT / 'recorder/lab_page.py'))}]\n"
            "theme: {custom_dir: theme}\n"
            "nav: [index.md, programs/vector-add.md, programs/vector-add-step-by-step.ipynb, reference/glossary.md]\n"
        )
        if change:
            change(folder)
        environment = os.environ | {"PYTHONPATH": str(ROOT), "REPO_URL": repository, "NO_MKDOCS_2_WARNING": "1"}
        environment["EDIT_URI"] = "edit/main/docs/en/" if repository else ""
        done = run_python("-m", "mkdocs", "build", "--strict", env=environment, cwd=folder, timeout=60)
        return done, folder / "site/programs/vector-add-step-by-step"

    return build


def test_page_is_light_and_asks_no_other_host(site):
    done, folder = site()
    assert done.returncode == 0, done.stderr
    text = (folder / "index.html").read_text("utf-8")
    page = Page(text)
    assert len(text.encode()) < 60_000
    assert all(len(style) < 2000 for style in page.styles)
    assert page.loads and not [address for address in page.loads if re.match(r"(\w+:)?//", address)]

    printed = outputs(project.Lab(NAME).notebook)
    assert "".join(f"{part}\n" for part in page.outputs + page.hidden) == printed
    assert len(page.hidden) == 1  # the solution's
    assert '<a class="headerlink" href="#try-it"' in text and 'href="#try-it" class="md-nav__link"' in text
    assert 'href="../vector-add/"' in text
    assert "colab" not in text and "recording__notice" not in text
    assert '<a href="vector-add-step-by-step.ipynb" download>' in text
    assert (folder / "vector-add-step-by-step.ipynb").read_bytes() == project.Lab(NAME).notebook.read_bytes()


def test_page_links_to_the_repository_where_it_is_known(site):
    done, folder = site(repository="https://github.com/someone/something")
    assert done.returncode == 0, done.stderr
    text = (folder / "index.html").read_text("utf-8")
    notebook = "docs/en/programs/vector-add-step-by-step.ipynb"
    assert f"https://colab.research.google.com/github/someone/something/blob/main/{notebook}" in text
    assert f"https://github.com/someone/something/edit/main/snippets/{NAME}.py" in text


def _dead_link(folder):
    notebook = folder / "docs/en/programs/vector-add-step-by-step.ipynb"
    made = json.loads(notebook.read_text("utf-8"))
    made["cells"][0]["source"] += "\n\n[dead](no-such-page.md)"
    made["metadata"]["digest"] = lab.digest(made)
    notebook.write_text(json.dumps(made), "utf-8")


def _dead_anchor(folder):
    index = folder / "docs/en/index.md"
    index.write_text(index.read_text().replace("#try-it", "#no-such-place"))


def _stale(folder):
    script = folder / f"snippets/{NAME}.py"
    script.write_text(script.read_text("utf-8").replace("block = 4", "block = 8"), "utf-8")


def _error_output(folder):
    notebook = folder / "docs/en/programs/vector-add-step-by-step.ipynb"
    made = json.loads(notebook.read_text("utf-8"))
    cell = next(cell for cell in made["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "error", "ename": "NameError", "evalue": "no x", "traceback": []}]
    made["metadata"]["digest"] = lab.digest(made)
    notebook.write_text(json.dumps(made), "utf-8")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_dead_link, r"vector-add-step-by-step.ipynb' contains a link 'no-such-page.md'"),
        (_dead_anchor, r"does not contain an anchor '#no-such-place'"),
        (_stale, r"vector-add-step-by-step.ipynb: stale"),
        (lambda folder: (folder / f"snippets/{NAME}.py").unlink(), r"vector-add-step-by-step.ipynb: orphaned"),
        (_error_output, r"vector-add-step-by-step.ipynb: cell-\d+ failed: NameError: no x"),
    ],
    ids=["dead link", "dead anchor", "stale", "orphaned", "error"],
)
def test_strict_build_refuses(site, change, complaint):
    done, _ = site(change=change)
    assert done.returncode != 0
    assert re.search(complaint, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('os.environ["TRITON_INTERPRET"] = "1"', "CPU, Triton's interpreter"),
        ('os.environ.pop("TRITON_INTERPRET", None)  # "1" would interpret', "CPU, Triton's compiler, nothing launched"),
    ],
)
def test_where_a_lab_runs(tmp_path, line, where):
    script = tmp_path / "lab.py"
    script.write_text(f"# %%\nimport os\n{line}\n")
    assert lab.device(script) == where
