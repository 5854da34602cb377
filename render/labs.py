# SPDX-License-Identifier: Apache-2.0
"""Labs as pages: their Markdown, and the elements in it that no author wrote. All readers of pages ask here.

A lab is a notebook. Its Markdown cells are Markdown like that of other pages; each code cell is an empty element, which
the hook ``mkdocs/labs`` fills in. What only a page can show stands in a cell's metadata, so that a notebook that is
downloaded has no fence in it: ``# %% [markdown] of="start/first_kernel" view="explorer" launch="add_kernel[0]"`` puts
that recording at the end of the cell, and ``page="…"`` is what a page says in place of the cell's text. The paragraph
under the title is the lesson's question.
"""

import json
import re

CLASSES = frozenset({"jp-Cell", "recording__where"})  # which the elements below have
RECORDING = ("of", "view", "launch", "tensors", "device")  # keys of a fence `recording` that a cell may have
SHOWN = 'class="jp-InputArea'  # a code cell on a page, as templates/cell.html has it


def is_lab(page: str) -> bool:
    """Return whether a page, by its file, is a lab."""
    return page.endswith(".ipynb")


def cells_of(notebook: str) -> list[dict]:
    """Return the cells of a notebook. Raise ``ValueError`` or ``KeyError`` where one lacks what a page is made from."""
    cells = json.loads(notebook)["cells"]
    for cell in cells:
        if not re.fullmatch(r"[\w-]{1,64}", cell["id"]) or [other["id"] for other in cells].count(cell["id"]) > 1:
            raise ValueError(f"{cell['id']!r} is no name for one cell")
        _ = cell["source"], cell["metadata"], [output["output_type"] for output in cell.get("outputs", [])]
    return cells


def code_cells(notebook: str) -> list[dict]:
    """Return the cells of a notebook that hold code."""
    return [cell for cell in cells_of(notebook) if cell["cell_type"] == "code"]


def markdown_of(notebook: str, notice: str = "") -> str:
    """Return a notebook as Markdown, with a notice for contributors under its title."""
    title, *rest = map(_markdown_of_cell, cells_of(notebook))  # MkDocs takes the page's name from its first line
    return "\n\n".join([title, notice, *rest])


def _markdown_of_cell(cell: dict) -> str:
    if cell["cell_type"] == "code":
        return placeholder(cell)
    text, tags = cell["metadata"].get("page") or "".join(cell["source"]), cell["metadata"].get("tags", ())
    if re.fullmatch(r"# .+\n\n(?:.+\n)*.+", text):  # a title and one paragraph
        text += "\n{ .question }"
    if "provenance" in tags:
        text += "\n{: .recording__where }"
    if lines := [f"{key}: {cell['metadata'][key]}" for key in RECORDING if key in cell["metadata"]]:
        text = "\n".join([text, "", "```recording", *lines, "```"])
    return text


def placeholder(cell: dict) -> str:
    """Return the empty element of a code cell."""
    return f'<div id="{cell["id"]}" class="jp-Cell"></div>'
