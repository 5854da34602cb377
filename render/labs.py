# SPDX-License-Identifier: Apache-2.0
"""The cells of a lab's notebook as a Markdown page, which every reader of pages can take."""


def markdown_of(cells: list[dict], notice: str = "") -> str:
    """The cells of a notebook as a Markdown page, with empty elements for code."""
    title, *rest = cells  # the title stays first: MkDocs takes the page's name from it
    return "\n\n".join([_source(title), notice, *map(_source, rest)])


def _source(cell: dict) -> str:
    if cell["cell_type"] == "code":
        return placeholder(cell)
    text = "".join(cell["source"])
    return f"{text}\n{{: .recording__where }}" if "provenance" in cell["metadata"].get("tags", ()) else text


def placeholder(cell: dict) -> str:
    return f'<div id="{cell["id"]}" class="jp-Cell"></div>'
