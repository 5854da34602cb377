# SPDX-License-Identifier: Apache-2.0
"""What mkdocs.yml says of pages and of Markdown, read without a site generator."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name

import markdown
import yaml

from recorder.project import ROOT, RecorderError, read_text

GENERATORS_OWN = "material."  # Markdown extensions that only work inside of a generator


class _Loader(yaml.SafeLoader):
    """With MkDocs' two tags: a Python name, and a variable of the environment with its default."""


def _python_name(loader, suffix, node):
    module, _, name = suffix.rpartition(".")
    return resolve_name(f"{module}:{name}")


def _environment(loader, node):
    variable, *default = loader.construct_sequence(node)
    return os.environ.get(variable, *default)


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", _python_name)
_Loader.add_constructor("!ENV", _environment)


@cache
def config() -> dict:
    """mkdocs.yml. Raises ``RecorderError``."""
    try:
        return yaml.load(read_text(ROOT / "mkdocs.yml"), Loader=_Loader)
    except (yaml.YAMLError, ImportError, AttributeError) as error:
        raise RecorderError(f"mkdocs.yml cannot be read: {error}") from error


def forget() -> None:
    """Have mkdocs.yml read anew."""
    config.cache_clear()
    menu.cache_clear()


def docs():
    return ROOT / config()["docs_dir"]


def pages() -> list[str]:
    """Every page there is: Markdown and notebooks, from the folder of pages."""
    found = (path for path in docs().rglob("*") if path.suffix in (".md", ".ipynb"))
    return sorted(path.relative_to(docs()).as_posix() for path in found if ".ipynb_checkpoints" not in path.parts)


@dataclass(frozen=True)
class Entry:
    """A page in the menu."""

    page: str
    title: str | None  # that the menu gives it
    section: str | None  # the title of the part of the menu that it stands in


@cache
def menu() -> tuple[Entry, ...]:
    """The pages of the menu, in its order."""

    def entries(part, title=None, section=None) -> Iterator[Entry]:
        if isinstance(part, str):
            yield Entry(part, title, section)
        elif isinstance(part, dict):
            for name, inner in part.items():
                yield from entries(inner, name, section)
        for inner in part if isinstance(part, list) else ():
            yield from entries(inner, None, title)

    return tuple(entries(config().get("nav") or []))


def nav() -> list[str]:
    """The same, by their files alone."""
    return [entry.page for entry in menu()]


def address(page: str) -> str:
    """Where a page is on the site: ``programs/vector-add.md`` at ``programs/vector-add/``."""
    name = page.rpartition(".")[0]
    return name.removesuffix("index") if name.rpartition("/")[2] == "index" else f"{name}/"


def repository(file: str) -> str:
    """Where a file of the repository can be read, if its address is known and GitHub's; else nothing."""
    here, branch = config().get("repo_url") or "", (config().get("edit_uri") or "edit/main").split("/")[1]
    return f"{here.rstrip('/')}/blob/{branch}/{file}" if here.startswith("https://github.com/") else ""


def converter() -> markdown.Markdown:
    """Markdown as pages are written in, but for what only works inside of a generator."""
    names, options = extensions()
    return markdown.Markdown(extensions=names, extension_configs=options)


def extensions() -> tuple[list[str], dict[str, dict]]:
    """The names of Markdown's extensions, those that every page has first, and their options."""
    names, options = ["tables", "fenced_code"], {}
    for entry in config()["markdown_extensions"]:
        name, given = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
        if not name.startswith(GENERATORS_OWN):
            names.append(name)
            options[name] = _absolute(name, given or {})
    return names, options


def _absolute(name: str, options: dict) -> dict:
    if name == "pymdownx.snippets":
        return options | {"base_path": [str(ROOT / folder) for folder in options["base_path"]]}
    return options
