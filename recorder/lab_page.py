# SPDX-License-Identifier: Apache-2.0
"""A MkDocs hook that gives labs the look, the checked links and the size of every other page.

mkdocs-jupyter makes notebooks pages and lays the file beside the page, for download. What it renders is left out.
No option of the plugin changes that: it inlines 590 kB of JupyterLab's styles (some of them appended in code, after its
template), a script from another host, and its own highlighting; and the Markdown that it renders is not the
site's, so a dead link in a lab would pass ``mkdocs build --strict``. Here a notebook's Markdown cells take the way of
every Markdown page, and its code cells become what the site's own fences become, in Jupyter's classes.
"""

import html
import json
import logging
from pathlib import Path, PurePosixPath

from mkdocs.exceptions import PluginError

from recorder import lab, views

log = logging.getLogger("mkdocs.recorder")  # below "mkdocs", so that --strict counts the warnings


def on_page_markdown(markdown, *, page, config, **_):
    """Turn the source of a notebook into Markdown in which its code cells are empty elements, filled in later."""
    if not page.file.src_uri.endswith(".ipynb"):
        return markdown
    notebook = json.loads(markdown)
    vars(page).pop("render", None)  # mkdocs-jupyter's; the page's own renders Markdown
    script = notebook["metadata"].get("provenance", {}).get("script")
    if page.edit_url and script:
        page.edit_url = page.edit_url.replace(_in_repository(page, config), script)
    title, *rest = notebook["cells"]  # the title stays first: MkDocs takes the page's name from it
    cells = [_source(title), _notice(page, config, script), *map(_source, rest)]
    return "\n\n".join(cells)


def on_page_content(content, *, page, config, **_):
    """Fill in the code cells and offer the notebook for download."""
    if not page.file.src_uri.endswith(".ipynb"):
        return content
    for cell in json.loads(page.file.content_string)["cells"]:
        if cell["cell_type"] == "code":
            if _placeholder(cell) not in content:
                raise PluginError(f"{page.file.src_uri}: the place of {cell['id']} was lost between Markdown and HTML")
            content = content.replace(_placeholder(cell), _code_cell(cell, page.file.src_uri))
    content = content.replace("</h1>", f"</h1>\n{_actions(page, config)}", 1)
    return f'<div class="jupyter-wrapper">\n{content}\n</div>'


def _in_repository(page, config) -> str:
    root = Path(config.config_file_path).parent
    return Path(page.file.abs_src_path).relative_to(root).as_posix()


def _source(cell: dict) -> str:
    if cell["cell_type"] == "code":
        return _placeholder(cell)
    text = "".join(cell["source"])
    return f"{text}\n{{: .recording__where }}" if "provenance" in cell["metadata"].get("tags", ()) else text


def _notice(page, config, script: str | None) -> str:
    """Nothing for a notebook that is what its script makes, else a word to the reader.

    ``recorder.markdown`` warns of every script whose notebook is at fault; a notebook without a script is left to us.
    """
    path = Path(config.config_file_path).parent / (script or "")
    if not path.is_file():
        log.warning(f"{page.file.src_uri}: orphaned: no script makes this notebook; mend: git rm it")
        return '<div class="recording__notice recording__notice--stale">No script makes this notebook any more.</div>'
    status = lab.status(path, Path(page.file.abs_src_path))
    if status == "fresh":
        return ""
    why = {"stale": "its script has changed since it ran", "edited": "it was edited by hand"}[status]
    return f'<div class="recording__notice recording__notice--stale">Not to be trusted: {why}.</div>'


def _placeholder(cell: dict) -> str:
    return f'<div id="{cell["id"]}" class="jp-Cell"></div>'


def _code_cell(cell: dict, page: str) -> str:
    code = views.highlighted("".join(cell["source"]))
    parts = [f'<div class="jp-InputArea">{code}</div>']
    if cell["outputs"]:
        outputs = "".join(_output(output, cell["id"], page) for output in cell["outputs"])
        parts.append(f'<div class="jp-OutputArea no-copy" role="group" aria-label="Output">{outputs}</div>')
    body = "".join(parts)
    if "solution" in cell["metadata"].get("tags", ()):
        body = f"<details><summary>Solution</summary>{body}</details>"
    return f'<div id="{cell["id"]}" class="jp-Cell jp-CodeCell">{body}</div>'


def _output(output: dict, cell: str, page: str) -> str:
    """Text in a ``<pre>``. Raises ``PluginError`` for an error and for pictures, which no lab has yet."""
    if output["output_type"] == "error":
        raise PluginError(f"{page}: {cell} failed: {output['ename']}: {output['evalue']}")
    data = output.get("data", {"text/plain": output.get("text", "")})
    if any(kind.startswith(("image/", "text/html")) for kind in data):
        raise PluginError(f"{page}: {cell} shows {', '.join(data)}; recorder/lab_page.py knows only text so far")
    kind = " jp-mod-stderr" if output.get("name") == "stderr" else ""
    text = html.escape("".join(data["text/plain"]).rstrip("\n"), quote=False)
    # As in a fence, the inner element scrolls; where it may, a keyboard has to reach it.
    return f'<pre class="jp-OutputArea-output{kind}"><code tabindex="0">{text}</code></pre>'


def _actions(page, config) -> str:
    """Links to the notebook, which lies beside its page, and to Colab where the repository is on GitHub."""
    name = PurePosixPath(page.file.src_uri).name
    links = [f'<a href="{name}" download>Download this notebook</a>']
    if (config.repo_url or "").startswith("https://github.com/"):
        repository = config.repo_url.removeprefix("https://github.com/").strip("/")
        branch = (config.edit_uri or "edit/main").split("/")[1]
        address = f"https://colab.research.google.com/github/{repository}/blob/{branch}/{_in_repository(page, config)}"
        links.append(f'<a href="{address}">Open in Colab</a>')
    return f'<p class="lab-actions">{" · ".join(links)}</p>'
