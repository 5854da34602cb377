# SPDX-License-Identifier: Apache-2.0
"""Execute labs, refuse those that fail, and get the same result again."""

import json
import os
from datetime import date

import pytest

from recorder import lab, replay
from recorder.__main__ import Progress
from recorder.project import Lab, RecorderError
from recorder.recording import write_atomically
from tests.limits import GROWING, HANGS
from tests.processes import run_script
from tests.toy import runs_snippets

LAB = Lab("programs/labs/a_lab")
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
def small(project):
    """Return the one small lab of a project."""
    project.write("snippets/programs/labs/a_lab.py", SMALL.format(root=str(project.root)))
    return project


def build(timeout=HANGS):
    lab.build(LAB, LAB.notebook, timeout=timeout)
    return json.loads(LAB.notebook.read_text("utf-8"))


def outputs(cells: list[dict]) -> str:
    """Return what the cells printed, in order."""
    return "".join(o["text"] for c in cells if c["cell_type"] == "code" for o in c["outputs"] if "text" in o)


@runs_snippets
def test_building_again_writes_the_same_bytes(small, monkeypatch):
    build()
    first = LAB.notebook.read_bytes()

    class Later(date):
        @classmethod
        def today(cls):
            return cls(2100, 1, 1)

    monkeypatch.setattr(lab, "date", Later)
    build()
    assert LAB.notebook.read_bytes() == first
    small.write("snippets/programs/labs/a_lab.py", LAB.path.read_text() + "print('more')\n")
    assert "· 2100-01-01" in build()["cells"][-1]["source"]


@runs_snippets
def test_what_is_written_and_what_makes_it_stale(small):
    assert lab.status(LAB) == "missing"
    cells = build()["cells"]
    assert outputs(cells).startswith("in .\nroot .\n"), "paths of this machine"
    assert str(small.root) not in json.dumps([cell.get("outputs") for cell in cells])
    assert str(small.root) in cells[1]["source"]  # code stays as it was written
    assert lab.status(LAB) == "fresh" and lab.cells(LAB.notebook) == lab.read(LAB.notebook)["cells"][:-1] == cells[:-1]

    source, written = LAB.path.read_text(), LAB.notebook.read_text("utf-8")
    small.write("snippets/programs/labs/a_lab.py", source.replace("See", "Look at"))  # prose alone: part of the page
    assert lab.status(LAB) == "stale"
    small.write("snippets/programs/labs/a_lab.py", source)
    assert lab.status(LAB) == "fresh"
    for changed in (written.replace("hidden", "shown"), written.replace('"torch": "', '"torch": "9'), written[:-9]):
        assert changed != written
        LAB.notebook.write_text(changed, "utf-8")
        assert lab.status(LAB) == "edited"


@runs_snippets
def test_a_lab_is_run_again_by_replay(small, capsys):
    """A notebook that says something else is noticed, though its digest is right and its script unchanged."""
    whole = build()
    assert list(replay.replay(Progress())) == []
    whole["cells"][1]["outputs"][0]["text"] = "in .\nroot /\n"
    whole["metadata"]["digest"] = lab.digest(whole)
    write_atomically(LAB.notebook, json.dumps(whole))
    assert lab.status(LAB) == "fresh"
    (difference,) = replay.replay(Progress())
    assert difference == "programs/labs/a_lab: cells.1.outputs.0.text line 2 was 'root /', is 'root .'"
    assert json.loads(LAB.notebook.read_text("utf-8")) == whole and "NOT as recorded" in capsys.readouterr().err


@runs_snippets
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("while True: pass", "was not done within 2"),
        ("import os; os._exit(1)", "stopped the kernel"),
    ],
)
def test_a_failing_cell_is_named_and_leaves_the_old_notebook(small, fault, reason):
    small.write("docs/en/programs/a-lab.ipynb", "the old one")
    text = f"# %% [markdown]\n# # A lab\n\n# %%\nprint(1)\n\n# %%\n# the faulty one\n{fault}\n"
    small.write("snippets/programs/labs/a_lab.py", text)
    for limit in GROWING if "while" in fault else [HANGS]:  # until the cell before is done before it is up
        with pytest.raises(RecorderError) as caught:
            build(timeout=limit)
        if "cell 3" in str(caught.value):
            break
    assert f"snippets/programs/labs/a_lab.py: cell 3 (# the faulty one) {reason}" in str(caught.value)
    assert LAB.notebook.read_text() == "the old one"
    assert os.listdir(LAB.notebook.parent) == [LAB.notebook.name]


@runs_snippets
def test_the_first_lab_is_a_script_that_prints_what_its_notebook_shows():
    first = Lab("programs/labs/vector_add_step_by_step")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    plain = run_script(first.path, env=environment)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout == outputs(lab.cells(first.notebook))


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
