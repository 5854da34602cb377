# SPDX-License-Identifier: Apache-2.0
"""Begin a lesson: a snippet, its test and its page that run as they are, its settings and its line in the menu."""

import re
from pathlib import Path

from recorder.project import ROOT, SETTINGS, RecorderError, Snippet, check_new_name, nearest, relative
from recorder.recording import write_atomically

SKELETON = Path(__file__).parent / "skeleton"
NEXT = """\
Begun. Next:

 1. {snippet}: write the kernel, its host function and main(), which prints what the page shows.
    Run it: TRITON_INTERPRET=1 python {snippet}
 2. {test}: what must hold. Break a mask, a bound, an offset: a test must fail.
    Run it: python -m pytest {test} {snippet}, and then: python -m tests.mutants {name}
 3. python -m recorder run {name}     records it, on every device that this machine has
    {settings} says what is kept beside the output: launches to draw, compiler stages;
    and `devices = ["cpu"]` says that no GPU is to record it. Take that line away when one has.
 4. {page}: write the page. `make serve` shows it at /{address}
    In the menu of mkdocs.yml it stands behind the last page of {chapter}/: move it to its place.
 5. python -m render check            says what is missing: a fence, a test, the link of a term's first use to paste
    make test-changed                 runs the tests that your change can touch
"""


def new(name: str) -> str:
    """Write the skeletons of a lesson and return what to do next. Raise ``RecorderError`` if it exists already."""
    check_new_name(name)
    chapter, _, short = name.partition("/")
    if not (ROOT / "snippets" / chapter).is_dir():
        known = [path.name for path in (ROOT / "snippets").iterdir() if path.is_dir()]
        raise RecorderError(f"there is no chapter {chapter!r}{nearest(chapter, known)}")
    snippet = Snippet(name)
    page = ROOT / "docs" / "en" / chapter / f"{short.replace('_', '-')}.md"
    files = {snippet.path: "snippet.txt", snippet.test: "test.txt", page: "page.txt"}
    if there := [path for path in [*files, snippet.recordings] if path.exists()]:
        raise RecorderError(f"{relative(there[0])} is there already; take another name")
    menu = _menu(chapter, page)
    for path, skeleton in files.items():
        text = (SKELETON / skeleton).read_text("utf-8")
        title = short.replace("_", " ").capitalize()
        write_atomically(path, text.replace("NAME", short).replace("CHAPTER", chapter).replace("TITLE", title))
    settings = snippet.settings_file.read_text("utf-8").rstrip() + "\n\n" if snippet.settings_file.is_file() else ""
    own = f'[{short}]\ndevices = ["cpu"]\nlaunches = ["{short}_kernel[0]"]\n'
    write_atomically(snippet.settings_file, f"{settings}{own}")
    write_atomically(ROOT / "mkdocs.yml", menu)
    return NEXT.format(
        name=name, chapter=chapter, snippet=relative(snippet.path), test=relative(snippet.test), page=relative(page),
        settings=f"snippets/{chapter}/{SETTINGS}", address=f"{chapter}/{page.stem}/",
    )  # fmt: skip


def _menu(chapter: str, page: Path) -> str:
    """Return the text of mkdocs.yml with the page after the last one of its chapter."""
    text, entry = (ROOT / "mkdocs.yml").read_text("utf-8"), page.relative_to(ROOT / "docs" / "en").as_posix()
    start = text.find("\nnav:")
    lines = [m for m in re.finditer(rf"^( *)- (?:.*: )?{chapter}/\S+$", text, re.M) if m.start() > start >= 0]
    if not lines:
        raise RecorderError(f"the menu in mkdocs.yml has no page of {chapter}/ behind which {entry} could stand")
    last = lines[-1]
    return f"{text[: last.end()]}\n{last[1]}- {entry}{text[last.end() :]}"
