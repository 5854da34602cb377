# SPDX-License-Identifier: Apache-2.0
"""The verdicts in all recordings of one snippet, side by side.

The snippet prints them as sections of rows (see ``recorder.printed.verdicts``). A table shows one section; versions of
Triton that say the same share a line, and the rows on which everyone says the same share one below it.
"""

import re
from itertools import groupby

from markupsafe import Markup, escape

from figures.registry import figure
from figures.templates import render
from recorder import recording
from recorder.printed import verdicts as parse
from recorder.project import RecorderError, Snippet, interpreted, nearest
from recorder.recording import Recording

# Rows on which everyone says the same are only named, under one of these.
ALIKE = {"Right everywhere": {"right", "yes"}, "Refused everywhere": {"refused"}}
Versions = list[tuple[str, str]]  # versions of Triton with their verdicts


@figure(of="output", foot="Each column ran as listed above; repeated with Triton {triton} by the command", every=True)
def verdicts(made: Recording, *, section=..., every=False, changed=False):
    """Draw a section of the output as a table: a column for the interpreter, for each GPU, and for the compiler.

    ``every`` also shows the rows on which all say the same. ``changed`` shows only those on which two versions of
    Triton differ, with those that not every version has.
    """
    known = parse(made.output)
    if section not in known:
        raise RecorderError(f"the run printed no section {section!r}{nearest(section, known)}")
    cpu, gpus = _recordings(Snippet(made.snippet))
    kinds, columns = dict.fromkeys(what for row in known[section].values() for what in row), {}
    if "ran" in kinds:
        columns["In the interpreter"] = ("ran", cpu)
        columns |= {f"On {g.provenance.device}, Triton {g.provenance.triton}": ("ran", [g]) for g in gpus}
    columns |= {what.capitalize(): (what, cpu) for what in kinds if what != "ran"}
    shown, same = {}, {}
    rows = dict.fromkeys(row for recorded in (made, *cpu) for row in parse(recorded.output).get(section, {}))
    for row in sorted(rows) if changed else known[section]:
        cells = {title: _say(row, section, *column) for title, column in columns.items()}
        if changed:
            if any(len({verdict for _, verdict in versions}) > 1 for versions in cells.values()):
                shown[row] = cells
            continue
        alike = next((text for text, allowed in ALIKE.items() if _kinds(cells.values()) <= allowed), None)
        same.setdefault(alike, []).append(_code(row)) if alike and not every else shown.update({row: cells})
    titles = [title for title in columns if _kinds(cells[title] for cells in shown.values()) != {"yes"}]
    same |= {f"{title}, all of them": ["yes"] for title in columns if title not in titles}
    rows = {_code(row): {title: _cell(cells[title]) for title in titles} for row, cells in shown.items()}
    return render(
        "verdicts/template.html", section=section, titles=titles, rows=rows, same=same, places=_places([*cpu, *gpus])
    )


def _recordings(snippet: Snippet) -> tuple[list[Recording], list[Recording]]:
    """Return the interpreter's recordings by version of Triton, and those of GPUs."""
    every = [recording.load(snippet, device) for device in recording.devices(snippet)]
    number = lambda made: [int(part) for part in re.findall(r"\d+", made.provenance.triton)]
    ours = [made for made in every if interpreted(made.device)]
    return sorted(ours, key=number), [made for made in every if not interpreted(made.device)]


def _say(row: str, section: str, what: str, made: list[Recording]) -> Versions:
    verdict = lambda recorded: parse(recorded.output).get(section, {}).get(row, {}).get(what, "–")
    return [(recorded.provenance.triton, verdict(recorded)) for recorded in made]


def _kind(verdict: str) -> str:
    return re.match(r"\w*", verdict)[0]


def _kinds(columns) -> set[str]:
    return {_kind(verdict) for versions in columns for _, verdict in versions}


def _cell(versions: Versions) -> list[tuple[str, str, Markup]]:
    """Return kind, versions and verdict of each line of a cell; the versions only where not all say the same."""
    groups = [(verdict, [version for version, _ in same]) for verdict, same in groupby(versions, key=lambda v: v[1])]
    span = lambda versions: " to ".join(dict.fromkeys((versions[0], versions[-1]))) if len(groups) > 1 else ""
    return [(_kind(verdict), span(versions), _code(verdict)) for verdict, versions in groups]


def _places(made: list[Recording]) -> list[str]:
    """Return where each recording was made: the figure's foot names only one."""
    places = {}
    for recorded in made:
        facts, settings = recorded.provenance, Snippet(recorded.snippet).settings
        device = "Compiled without a GPU" if settings.compiles_only else facts.device
        places.setdefault((device, facts.torch, facts.date), []).append(facts.triton)
    return [
        f"{device} · Triton {', '.join(versions)} · torch {torch} · {day}"
        for (device, torch, day), versions in places.items()
    ]


def _code(text: str) -> Markup:
    """Format text in backticks as code; long names may break at their parts."""
    parts = lambda name: re.sub(r"(?<=_)|(?<=[a-z])(?=[A-Z])", "\0", name[0])
    broken = re.sub(r"[\w.]{16,}", parts, text)
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", str(escape(broken))).replace("\0", "<wbr>"))
