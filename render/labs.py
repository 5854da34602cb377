# SPDX-License-Identifier: Apache-2.0
"""Labs as pages: their Markdown, and the elements in it that no author wrote. All readers of pages ask here.

A lab is a notebook. Its Markdown cells are Markdown like that of other pages; each code cell is an empty element, which
the hook ``mkdocs/labs`` fills in. What only a page can show stands in a cell's metadata, so that a notebook that is
downloaded has no fence in it: ``# %% [markdown] of="start/first_kernel" view="explorer" launch="add_kernel[0]"`` puts
that recording at the end of the cell. The paragraph under the title is the lesson's question.

A cell tagged ``notebook`` is for those alone who have the notebook. One that ends in ``**Predict:**``, a question and a
list is a question to answer on the page (``predict.py``), where its metadata say which choice is right, and why:
``# %% [markdown] right=2 then="Two would leave two elements out."``; what the next cell printed is then folded.
"""

import json
import re

CLASSES = frozenset({"jp-Cell", "recording__where"})  # which the elements below have
RECORDING = ("of", "view", "launch", "tensors", "device")  # keys of a fence `recording` that a cell may have
PREDICT = re.compile(r"\*\*Predict:\*\* (?P<ask>.+(?:\n.+)*)\n\n(?P<choices>- (?:.+\n?)+)\Z")
AS_IT_IS = r"```(?s:.*?)```|`[^`]*`|\]\([^)\s]*\)|<[^>]+>"  # code, the target of a link, a tag
QUOTE = re.compile(rf"""(?P<kept>{AS_IT_IS})|(?P<opens>(?<![^\s(\[*_]))?(?P<quote>["'])""")
CURLY = {"'": "‘’", '"': "“”"}
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
    shown = [cell for cell in cells_of(notebook) if "notebook" not in cell["metadata"].get("tags", ())]
    title, *rest = map(_markdown_of_cell, shown)  # MkDocs takes the page's name from its first line
    return "\n\n".join([title, notice, *rest])


def _markdown_of_cell(cell: dict) -> str:
    if cell["cell_type"] == "code":
        return placeholder(cell)
    text, tags = curled("".join(cell["source"])), cell["metadata"].get("tags", ())
    if asks(cell):
        text = PREDICT.sub(lambda asked: _predict(asked, cell["metadata"]), text)
    if re.fullmatch(r"# .+\n\n(?:.+\n)*.+", text):  # a title and one paragraph
        text += "\n{ .question }"
    if "provenance" in tags:
        text += "\n{: .recording__where }"
    if lines := [f"{key}: {cell['metadata'][key]}" for key in RECORDING if key in cell["metadata"]]:
        text = "\n".join([text, "", "```recording", *lines, "```"])
    return text


def asks(cell: dict) -> bool:
    """Return whether a cell ends in a question that its page asks."""
    return "right" in cell["metadata"] and bool(PREDICT.search("".join(cell["source"])))


def _predict(asked: re.Match, metadata: dict) -> str:
    choices = re.split(r"\n?^- ", asked["choices"].strip(), flags=re.M)[1:]
    listed = [f"  - {'[x] ' * (at == metadata['right'])}{' '.join(text.split())}" for at, text in enumerate(choices, 1)]
    ask = asked["ask"][0].upper() + " ".join(asked["ask"][1:].split())
    return "\n".join(["```predict", f"ask: {ask}", "choices:", *listed, f"then: {curled(metadata['then'])}", "```"])


def curled(text: str) -> str:
    """Return Markdown with the quotes and apostrophes of print, outside of code and links.

    >>> print(curled('''It's `x`'s, not "the 'y'". See [what's on](a'b).'''))
    It’s `x`’s, not “the ‘y’”. See [what’s on](a'b).
    """
    return QUOTE.sub(lambda at: at["kept"] or CURLY[at["quote"]][at["opens"] is None], text)


def placeholder(cell: dict) -> str:
    """Return the empty element of a code cell."""
    return f'<div id="{cell["id"]}" class="jp-Cell"></div>'
