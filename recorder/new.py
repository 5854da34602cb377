# SPDX-License-Identifier: Apache-2.0
"""Begin a lesson: a snippet, its test and its page that run as they are, its settings and its line in the menu."""

from pathlib import Path

from recorder import menu
from recorder.project import ROOT, SETTINGS, RecorderError, Snippet, check_new_name, nearest, relative
from recorder.recording import write_atomically

SKELETON = Path(__file__).parent / "skeleton"
NEXT = """\
Begun. Next:

 1. {snippet}: write the kernel, its host function and main(), which prints what the page shows.
    Run it: TRITON_INTERPRET=1 python {snippet}
 2. {test}: what must hold. Break a mask, a bound, an offset: a test must fail.
    What it refuses is an entry in tests/snippets/test_contract.py, which may take the place of its tests of that.
    Run it: python -m pytest {test} {snippet}, and then: python -m tests.mutants {name}
 3. python -m recorder run {name}     records it, on every device that this machine has
    {settings} says what is kept beside the output: launches to draw, compiler stages;
    and `devices = ["cpu"]` says that no GPU is to record it. Take that line away when one has.
 4. {page}: write the page. `make serve` shows it at /{address}
    The menu in mkdocs.yml has this line: {line}
    To move it, move the line; a page that is no lesson has no number. Then: python -m recorder number
 5. python -m render check            says what is missing: a fence, a test, the link of a term's first use to paste;
                                      and the sentences that call another lesson by the number that it had before
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
    address = page.relative_to(ROOT / "docs" / "en").as_posix()
    title = short.replace("_", " ").capitalize()
    changed_menu = menu.add(address, title)
    for path, skeleton in files.items():
        text = (SKELETON / skeleton).read_text("utf-8")
        write_atomically(path, text.replace("NAME", short).replace("CHAPTER", chapter).replace("TITLE", title))
    settings = snippet.settings_file.read_text("utf-8").rstrip() + "\n\n" if snippet.settings_file.is_file() else ""
    own = f'[{short}]\ndevices = ["cpu"]\nlaunches = ["{short}_kernel[0]"]\n'
    write_atomically(snippet.settings_file, f"{settings}{own}")
    write_atomically(ROOT / "mkdocs.yml", changed_menu)
    return NEXT.format(
        name=name, snippet=relative(snippet.path), test=relative(snippet.test), page=relative(page),
        settings=f"snippets/{chapter}/{SETTINGS}", address=f"{chapter}/{page.stem}/",
        line=next(line.strip() for line in changed_menu.splitlines() if line.endswith(address)),
    )  # fmt: skip
