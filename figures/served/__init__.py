# SPDX-License-Identifier: Apache-2.0
"""`<served-call>`: a package as a tree of files, and which of its functions serve a call on which machine.

It takes the sections of a run: ``files`` (the tree), ``functions`` (a line of names for each module), and one for each
machine, with the lines ``given``, ``imported``, ``ran`` (functions, in their order, each behind its file) and
``result``. The sections of what other devices recorded of the same snippet follow those of this one.
"""

import re
from typing import NamedTuple

from markupsafe import Markup, escape

from figures.registry import figure
from figures.templates import render
from recorder import printed, recording
from recorder.project import RecorderError, Snippet
from recorder.recording import Recording

LINES = ("given", "imported", "ran", "result")
FOOT = "Each machine is a new process, recorded on {date}, Triton {triton}, torch {torch}"


class Machine(NamedTuple):
    """What came of the call on one machine."""

    given: str
    imported: list[str]  # files
    ran: list[str]  # "ops.py check", in their order
    result: str

    @property
    def works(self) -> bool:
        return self.result == "as PyTorch's"

    @property
    def says(self) -> str:
        """Say in a sentence what the lines show."""
        last = self.ran[-1].split()[-1]
        if not self.works:
            return f"{last} refuses: "
        kernel = "kernels.py is imported for it." if "kernels.py" in self.imported else "Nothing imports kernels.py."
        return f"{last} computes it, and the result is PyTorch's. {kernel}"


@figure(of="output", foot=FOOT, every=True)
def served(made: Recording, *, id="served"):
    """Draw the tree, with the first machine chosen."""
    sections = {}
    for each in (made, *_others(made)):
        sections |= {name: text for name, text in _sections(each).items() if name not in sections}
    if missing := [name for name in ("files", "functions") if name not in sections]:
        raise RecorderError(f"the output has no section {missing[0]!r}")
    files = sections.pop("files").split()
    functions = dict(line.split(": ") for line in sections.pop("functions").splitlines())
    machines = {name: found for name, text in sections.items() if (found := read(text))}
    if not machines:
        raise RecorderError("the output has no section with the lines " + ", ".join(LINES))
    names = {file: text.split(", ") for file, text in functions.items()}
    known = {f"{file} {name}" for file, inside in names.items() for name in inside}
    for name, machine in machines.items():
        if strange := [each for each in machine.ran if each not in known]:
            raise RecorderError(f"on {name!r} ran {strange[0]!r}, which the section 'functions' does not have")
    return render(
        "served/template.html",
        id=id,
        folders=tree(files),
        functions=names,
        machines=machines,
        first=next(iter(machines)),
        options={name: name for name in machines},
        data={
            name: {
                "data-given": each.given,
                "data-imported": "|".join(each.imported),
                "data-ran": "|".join(each.ran),
                "data-says": each.says,
                "data-error": "" if each.works else each.result,
            }
            for name, each in machines.items()
        },
        rows=[
            (name, *map(breaking, (each.given, ", ".join(run.split()[-1] for run in each.ran), each.result)))
            for name, each in machines.items()
        ],
    )


def _others(made: Recording) -> list[Recording]:
    snippet = Snippet(made.snippet)
    return [recording.load(snippet, device) for device in recording.devices(snippet) if device != made.device]


def _sections(made: Recording) -> dict[str, str]:
    return printed.sections(made.output)


def read(text: str) -> Machine | None:
    """Read a machine's section, or return None if it is of something else.

    >>> read("given: a, b\\nimported: a.py\\nran: a.py f, a.py\\n  g\\nresult: right\\n").ran
    ['a.py f', 'a.py g']
    """
    lines = dict(line.split(": ", 1) for line in re.sub(r"\n +", " ", text).splitlines() if ": " in line)
    if any(name not in lines for name in LINES):
        return None
    return Machine(lines["given"], lines["imported"].split(", "), lines["ran"].split(", "), lines["result"])


def breaking(text: str) -> Markup:
    """Let long names break, on a phone.

    >>> breaking("a < b_c")
    Markup('a &lt; b_<wbr>c')
    """
    return Markup(str(escape(text)).replace("_", "_<wbr>"))


def tree(files: list[str]) -> dict[str, list[str]]:
    """Return files by their folders, those at the top last.

    >>> tree(["a/b/c.py", "d.py", "a/e.py"])
    {'a/b/': ['c.py'], 'a/': ['e.py'], '': ['d.py']}
    """
    folders = {}
    for file in sorted(files, key=lambda file: "/" not in file):
        folder, slash, name = file.rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    return folders
