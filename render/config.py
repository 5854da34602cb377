# SPDX-License-Identifier: Apache-2.0
"""mkdocs.yml, read without a site generator: the menu, the folder of pages, the Markdown extensions."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name

import markdown
import yaml

from recorder.project import ROOT, RecorderError, read_text


class _Loader(yaml.SafeLoader):
    """A loader of YAML with MkDocs' two tags: a Python name, and a variable of the environment with its default."""


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
    """Return mkdocs.yml. Raise ``RecorderError`` where it cannot be read."""
    try:
        settings = yaml.load(read_text(ROOT / "mkdocs.yml"), Loader=_Loader)
    except (yaml.YAMLError, ImportError, AttributeError, ValueError, RecursionError) as error:
        raise RecorderError(f"mkdocs.yml cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise RecorderError(f"mkdocs.yml holds no settings, `name: value`, but {settings!r:.60}")
    for name, kind, example in SHAPES:
        if not isinstance(settings.get(name), kind):
            raise RecorderError(f"mkdocs.yml: {name} is {settings.get(name)!r:.60}; write it as {example}")
    if not (ROOT / settings["docs_dir"]).is_dir():
        raise RecorderError(f"mkdocs.yml: docs_dir is {settings['docs_dir']!r}, and there is no such folder")
    for entry in settings["markdown_extensions"]:
        name, options = next(iter(entry.items()), (None, None)) if isinstance(entry, dict) else (entry, None)
        if not isinstance(name, str) or not isinstance(options, dict | None) or len(entry) == 0:
            raise RecorderError(
                f"mkdocs.yml: {entry!r:.60} is no Markdown extension: a name, or a name and its options"
            )
    _check_menu(settings["nav"])
    return settings


SHAPES = (  # what of mkdocs.yml is read here
    ("docs_dir", str, "docs_dir: docs/en"),
    ("markdown_extensions", list, "a list of names"),
    ("nav", list, "a list of pages, such as `- Home: index.md`"),
    ("repo_url", str | None, "an address"),
    ("edit_uri", str | None, "a way, such as edit/main/docs/en"),
    ("site_url", str | None, "an address"),
)


def _check_menu(part) -> None:
    """Raise ``RecorderError`` unless each entry of the menu is a page, or a title with a page or with more entries."""
    for entry in part:
        inner = list(entry.values()) if isinstance(entry, dict) else [entry]
        titled = not isinstance(entry, dict) or all(isinstance(title, str) for title in entry)
        if not inner or not titled or not all(isinstance(each, str | list) for each in inner):
            raise RecorderError(f"mkdocs.yml: {entry!r:.60} in nav is no entry such as `- Home: index.md`")
        for each in inner:
            if isinstance(each, list):
                _check_menu(each)


def forget() -> None:
    """Have mkdocs.yml read anew."""
    config.cache_clear()
    menu.cache_clear()


def docs():
    return ROOT / config()["docs_dir"]


def pages() -> list[str]:
    """Return every page in the folder of pages, Markdown and notebooks, by its file."""
    paths = (path for path in docs().rglob("*") if path.suffix in (".md", ".ipynb"))
    return sorted(path.relative_to(docs()).as_posix() for path in paths if ".ipynb_checkpoints" not in path.parts)


@dataclass(frozen=True)
class Entry:
    """A page in the menu."""

    page: str
    title: str | None  # that the menu gives it
    section: str | None  # the title of the part of the menu that it stands in


@cache
def menu() -> tuple[Entry, ...]:
    """Return the pages of the menu, in its order."""

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
    """Return the files of the menu's pages, in its order."""
    return [entry.page for entry in menu()]


def address(page: str) -> str:
    """Return where a page is on the site: ``programs/vector-add.md`` at ``programs/vector-add/``."""
    name = page.rpartition(".")[0]
    return name.removesuffix("index") if name.rpartition("/")[2] == "index" else f"{name}/"


def converter() -> markdown.Markdown:
    """Return a converter of Markdown with the extensions of mkdocs.yml."""
    names, options = extensions()
    for name in names:
        try:
            markdown.Markdown(extensions=[name], extension_configs=options)
        except Exception as error:  # whatever an extension makes of its options
            why = f"{type(error).__name__}: {error}"
            raise RecorderError(f"mkdocs.yml: Markdown's extension {name!r} cannot be loaded ({why})") from error
    return markdown.Markdown(extensions=names, extension_configs=options)


def extensions() -> tuple[list[str], dict[str, dict]]:
    """Return the names of Markdown's extensions, those that every page has first, and their options."""
    names, options = ["tables", "fenced_code"], {}
    for entry in config()["markdown_extensions"]:
        name, given = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
        names.append(name)
        options[name] = _absolute(name, given or {})
    return names, options


def _absolute(name: str, options: dict) -> dict:
    if name == "pymdownx.snippets":
        folders = options.get("base_path")
        if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
            raise RecorderError(f"mkdocs.yml: base_path of {name} is {folders!r}; write it as [snippets]")
        return options | {"base_path": [str(ROOT / folder) for folder in folders]}
    return options
