# SPDX-License-Identifier: Apache-2.0
"""A MkDocs hook that gives labs the look, the checked links and the size of every other page.

mkdocs-jupyter makes notebooks pages and lays the file beside the page, for download. What it renders is left out.
No option of the plugin changes that: it inlines 590 kB of JupyterLab's styles (some of them appended in code, after its
template), a script from another host, and its own highlighting; and the Markdown that it renders is not the
site's, so a dead link in a lab would pass ``mkdocs build --strict``. Here a notebook's Markdown cells take the way of
every Markdown page, and its code cells become what the site's own fences become, in Jupyter's classes.
"""

import json
import re
from pathlib import Path, PurePosixPath

from mkdocs.exceptions import PluginError

from recorder import lab
from recorder.project import Lab
from render.code import highlight_python
from render.labs import asks, cells_of, is_lab, markdown_of, placeholder
from render.page import serving
from render.templates import render
from render.wrapping import with_wrapping


def on_page_markdown(markdown, *, page, config, **_):
    """Turn the source of a notebook into Markdown in which its code cells are empty elements, filled in later."""
    if not is_lab(page.file.src_uri):
        return markdown
    vars(page).pop("render", None)  # mkdocs-jupyter's; the page's own renders Markdown
    script = json.loads(markdown)["metadata"].get("provenance", {}).get("script")
    if page.edit_url and script:
        page.edit_url = page.edit_url.replace(_in_repository(page, config), script)
    return markdown_of(markdown, _notice(page.file.src_uri, script))


def on_page_content(content, *, page, config, **_):
    """Fill in the code cells and offer the notebook for download."""
    if not is_lab(page.file.src_uri):
        return content
    cells = cells_of(page.file.content_string)
    for before, cell in zip([None, *cells], cells, strict=False):
        if cell["cell_type"] != "code":
            continue
        if placeholder(cell) not in content:
            raise PluginError(f"{page.file.src_uri}: the place of {cell['id']} was lost between Markdown and HTML")
        shown = _code_cell(cell, page.file.src_uri, bool(before) and asks(before))
        content = content.replace(placeholder(cell), with_wrapping(shown))
    under = r'</h1>(?:\s*<p class="page-head".*?</p>)?'
    content = re.sub(under, lambda head: f"{head[0]}\n{_actions(page, config)}", content, count=1, flags=re.S)
    return f'<div class="jupyter-wrapper">\n{content}\n</div>'


def _in_repository(page, config) -> str:
    root = Path(config.config_file_path).parent
    return Path(page.file.abs_src_path).relative_to(root).as_posix()


def _notice(page: str, script: str | None) -> str:
    """Return a notice for contributors, empty for a notebook that its script makes.

    Raise ``PluginError`` unless the site is served.
    """
    made_from = Lab(script.removeprefix("snippets/").removesuffix(".py")) if script else None
    status = lab.status(made_from) if made_from and made_from.path.is_file() else "orphaned"
    if status == "fresh":
        return ""
    why = {
        "stale": "its script has changed since it ran",
        "edited": "it was edited by hand",
        "orphaned": "no script makes it any more",
    }[status]
    if not serving():
        raise PluginError(f"{page}: {status}: {why}; fix: python -m recorder run, or git rm it")
    return str(render("notice.html", notice=("stale", f"Not to be trusted: {why}.")))


def _code_cell(cell: dict, page: str, asked: bool) -> str:
    outputs = [_output(output, cell["id"], page) for output in cell["outputs"]]
    folded = "solution" in cell["metadata"].get("tags", ())
    code = highlight_python("".join(cell["source"]))
    return render("cell.html", id=cell["id"], code=code, outputs=outputs, folded=folded, asked=asked)


def _output(output: dict, cell: str, page: str) -> tuple[str, str]:
    """Return the class and text of an output. Raise ``PluginError`` for an error and for pictures, which no lab has."""
    if output["output_type"] == "error":
        raise PluginError(f"{page}: {cell} failed: {output['ename']}: {output['evalue']}")
    data = output.get("data", {"text/plain": output.get("text", "")})
    if any(kind.startswith(("image/", "text/html")) for kind in data):
        raise PluginError(f"{page}: {cell} shows {', '.join(data)}; render/mkdocs/labs.py knows only text so far")
    kind = " jp-mod-stderr" if output.get("name") == "stderr" else ""
    return kind, "".join(data["text/plain"]).rstrip("\n")


def _actions(page, config) -> str:
    """Return links to the notebook, which lies beside its page, and to Colab where the repository is on GitHub."""
    colab = ""
    if (config.repo_url or "").startswith("https://github.com/"):
        repository = config.repo_url.removeprefix("https://github.com/").strip("/")
        branch = (config.edit_uri or "edit/main").split("/")[1]
        colab = f"https://colab.research.google.com/github/{repository}/blob/{branch}/{_in_repository(page, config)}"
    return render("actions.html", notebook=PurePosixPath(page.file.src_uri).name, colab=colab)
