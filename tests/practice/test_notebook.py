# SPDX-License-Identifier: Apache-2.0
"""The notebook with all exercises, as it runs in a notebook; and the picture of a launch that it draws."""

import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from coach import gaps, svg
from coach.check import Verdict
from coach.desk import Desk
from coach.exercise import exercises, find
from coach.finding import Finding
from coach.notebook import Notebook

from render.practice import handout
from tests.limits import HANGS
from tests.practice.conftest import PRACTICE

SCALE = find("scale", exercises())
DRAWN = {
    "kernel": "k", "grid": [3, 1, 1], "op": "store", "tensor": "y_ptr", "line": 16, "shape": [4], "focus": [2, 2],
    "programs": [
        {"program": 0, "pid": [0], "lanes": "■■■■", "offsets": [0, 1, 2, 3]},
        {"program": 2, "pid": [2], "lanes": "■✗!·", "offsets": [8, 9, 10, 11]},
    ],
}  # fmt: skip


def test_the_files_are_those_that_the_menu_and_the_exercises_make():
    """Else: ``python -m render.practice.handout``."""
    assert handout.NOTEBOOK.read_text("utf-8") == handout.notebook(handout.repository_of())
    assert handout.PAGES.read_text("utf-8") == handout.pages()


def test_where_the_repository_is_known_it_is_cloned():
    cells = json.loads(handout.notebook("https://example.org/course"))["cells"]
    (fetch,) = [text for cell in cells if "isdir" in (text := "".join(cell["source"]))]
    assert "git clone --quiet --depth 1 https://example.org/course course" in fetch and "upload" not in fetch


def test_the_pins_are_exact():
    assert [pin.partition("==")[0] for pin in handout.pins()] == ["torch", "triton", "numpy", "numpy"]
    assert all(re.fullmatch(r"[a-z]+==[\d.]+(; python_full_version [<>]=? '3\.12')?", pin) for pin in handout.pins())


@pytest.mark.long
def test_it_runs_as_a_notebook(tmp_path):
    """The first exercise, three times: as it comes, with a mask too few, and solved; then a hint."""
    import nbformat
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient

    folder = tmp_path / "practice"
    shutil.copytree(PRACTICE, folder, ignore=shutil.ignore_patterns("mine", "__pycache__"))
    notebook = nbformat.read(folder / "practice.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = {cell.id: cell for cell in notebook.cells}
    assert set(cells) >= {"install", "fetch", "load", *(each.name.replace("_", "-") for each in exercises())}
    first = cells["scale"]
    wrong = next(w for w in SCALE.wrong() if w.name == "no_mask")
    filled = [f"%%exercise scale\n{text}" for text in (wrong.text, SCALE.solution)]
    more = [nbformat.v4.new_code_cell(text) for text in (*filled, "%hint scale", "%hint scal")]
    notebook.cells = [cells["fetch"], cells["load"], first, *more]
    kernel = AsyncKernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = NotebookClient(notebook, km=kernel, timeout=HANGS, coalesce_streams=True)
    client.execute(env={**os.environ, "PYTHONPATH": ""}, cwd=str(folder), cleanup_kc=True)
    empty, masked, solved, hint, unknown = (
        "".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells[2:]
    )
    assert "Gap 1 is still empty" in empty and "Stuck? %hint scale" in empty
    assert "has no mask" in masked and "✗ reads and writes in bounds" in masked and "■" not in masked
    (picture,) = [o.data["image/svg+xml"] for o in notebook.cells[3].outputs if "data" in o]
    assert "out of bounds" in ET.fromstring(picture).find("{*}desc").text
    assert "scale is right." in solved
    assert hint.startswith("Hint 1 of 3: ") and "There is no exercise 'scal'. Did you mean scale?" in unknown
    assert (folder / "mine" / "scale.py").read_text() == SCALE.solution


class Toy:
    """Stands in for the coach."""

    def check(self, exercise, path):
        return Verdict(Finding("It is off.", stage="values"), [])


def test_a_cell_as_it_came_does_not_replace_what_was_written_elsewhere(tmp_path, capsys):
    shutil.copytree(SCALE.folder, tmp_path / "exercises" / SCALE.name)
    desk = Desk(tmp_path)
    desk.mine.mkdir()
    desk.copy_of(SCALE).write_text("mine\n")
    Notebook(desk, Toy()).exercise("scale", SCALE.skeleton)
    assert (desk.mine / "scale.bak.py").read_text() == "mine\n"
    assert desk.copy_of(SCALE).read_text() == SCALE.skeleton
    assert "It is off." in capsys.readouterr().out


# The picture


def test_it_shows_each_lane_in_its_state_and_color():
    picture = ET.fromstring(svg.launch(DRAWN, "one"))
    squares = [s for s in picture.iter() if s.tag.endswith("rect") and s.get("width") == "25"]
    assert len(squares) == 8
    red = [s for s in squares if "out-of-bounds" in s.get("stroke")]
    assert len(red) == 1 and "pid-2" in squares[4].get("stroke") and "pid-0" in squares[0].get("stroke")
    assert squares[7].get("fill") == "url(#one-pid-2)" and squares[7].get("stroke-dasharray")
    text = "".join(picture.itertext())
    assert "Program 2, offsets 8 to 11: 1 out of bounds, 1 wrong here, 1 masked off, 1 on." in text
    assert "⋮ program 2" in text
    assert "filled: on · hatched: masked off · red ×: out of bounds · ×: on, wrong here" in text


def test_no_color_but_that_of_out_of_bounds_is_red():
    assert "out-of-bounds" not in svg.launch(DRAWN | {"programs": DRAWN["programs"][:1]}, "one")


def test_its_colors_are_the_sites():
    """Where the page has none of its own, as in a notebook."""
    tokens = Path(handout.ROOT, "theme/assets/tokens.css").read_text()
    light = dict(re.findall(r"--([\w-]+): (#\w+);", tokens.partition("@media")[0]))
    assert tuple(light[f"pid-{i}"] for i in range(8)) == svg.COLORS
    assert [light[name] for name in ("out-of-bounds", "ink", "ink-muted", "paper")] == [
        svg.RED,
        svg.INK,
        svg.MUTED,
        svg.PAPER,
    ]


def test_a_long_block_is_shown_around_the_lane_that_is_spoken_of():
    entry = {"program": 0, "pid": [0], "lanes": "■" * 1000 + "!" * 24, "offsets": list(range(1024))}
    picture = svg.launch(DRAWN | {"programs": [entry], "shape": [1024], "focus": [0, 1000]}, "one")
    assert ">1000<" in picture and ">3<" not in picture and "of 1024" in picture


def test_a_block_of_rows_stands_as_rows():
    entry = {"program": 0, "pid": [0, 0], "lanes": "■■■···", "offsets": [0, 1, 2, 8, 9, 10]}
    picture = ET.fromstring(svg.launch(DRAWN | {"programs": [entry], "shape": [2, 3], "focus": [0, 0]}, "one"))
    squares = [s for s in picture.iter() if s.tag.endswith("rect") and s.get("width") == "25"]
    assert [s.get("x") for s in squares[:3]] == [s.get("x") for s in squares[3:]]
    assert "program (0, 0)" in "".join(picture.itertext())


def test_every_skeleton_is_a_cell_with_its_gaps():
    cells = json.loads(handout.NOTEBOOK.read_text("utf-8"))["cells"]
    filled = {cell["id"]: "".join(cell["source"]).partition("\n")[2] for cell in cells if cell["cell_type"] == "code"}
    for each in exercises():
        assert gaps.gaps(filled[each.name.replace("_", "-")]).keys() == gaps.gaps(each.solution).keys()
