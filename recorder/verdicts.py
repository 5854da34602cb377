# SPDX-License-Identifier: Apache-2.0
"""The view that lays the verdicts in all recordings of one snippet side by side.

The snippet prints them as sections (``## Numbers``) of rows (indented by two spaces) with verdicts (by four), such as
``ran: right`` and ``compiles: yes``. A table shows one section; versions of Triton that say the same share a line,
and the rows on which everyone says the same share one below it.
"""

import html
import re
from functools import lru_cache
from itertools import groupby

from recorder import recording
from recorder.project import RecorderError, Snippet, interpreted, nearest

# Rows on which everyone says the same are only named, under one of these.
ALIKE = {"Right everywhere": {"right", "yes"}, "Refused everywhere": {"refused"}}


@lru_cache(maxsize=16)
def parse(output: str) -> dict[str, dict[str, dict[str, str]]]:
    """``{section: {row: {what: verdict}}}`` of the lines that a run printed."""
    sections, section, row = {}, {}, {}
    for line in output.splitlines():
        if line.startswith("## "):
            section = sections.setdefault(line.removeprefix("## "), {})
        elif re.match(r" {2}\S", line):
            row = section.setdefault(line.strip(), {})
        elif line.startswith("    "):
            what, _, row[what] = line.strip().partition(": ")
    return sections


def of(made: dict, row: str, what: str = "ran") -> str:
    """What a recording says of a row, whose name is given without its backticks."""
    rows = {name.replace("`", ""): said for rows in parse(made["output"]).values() for name, said in rows.items()}
    if row not in rows:
        raise RecorderError(f"the run printed no row {row!r}{nearest(row, rows)}")
    return rows[row][what]


def verdicts(snippet: Snippet, recorded: dict, *, section=..., every=False) -> str:
    """A section of the output as a table: a column for the interpreter, for each GPU, and for the compiler.

    ``every`` also shows the rows on which all say the same.
    """
    known = parse(recorded["output"])
    if section not in known:
        raise RecorderError(f"the run printed no section {section!r}{nearest(section, known)}")
    cpu, gpus = recordings(snippet)
    columns = {"In the interpreter": ("ran", cpu)}
    where = lambda made: f"On {made['provenance']['device']}, Triton {made['provenance']['triton']}"
    columns |= {where(made): ("ran", [made]) for made in gpus}
    others = {what: None for row in known[section].values() for what in row if what != "ran"}
    columns |= {what.capitalize(): (what, cpu) for what in others}
    table, same = {}, {}
    for row in known[section]:
        said = {title: say(row, section, *column) for title, column in columns.items()}
        alike = next((text for text, allowed in ALIKE.items() if kinds(said.values()) <= allowed), None)
        same.setdefault(alike, []).append(code(row)) if alike and not every else table.update({row: said})
    titles = [title for title in columns if kinds(said[title] for said in table.values()) != {"yes"}]
    head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in ("Feature", *titles))
    body = [
        f'<tr><th scope="row">{code(row)}</th>{"".join(cell(title, said[title]) for title in titles)}</tr>'
        for row, said in table.items()
    ]
    same |= {f"{title}, all of them": ["yes"] for title in columns if title not in titles}
    rest = "".join(
        f'<p class="verdicts__same"><strong>{text}:</strong> {" · ".join(rows)}</p>' for text, rows in same.items()
    )
    return (
        f'<section class="table-scroll table-scroll--words verdicts" tabindex="0" aria-label="{html.escape(section)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></section>"
        f"{rest}{places([*cpu, *gpus])}"
    )


def recordings(snippet: Snippet) -> tuple[list[dict], list[dict]]:
    """The interpreter's recordings by version of Triton, and those of GPUs."""
    every = [recording.load(snippet, device) for device in recording.devices(snippet)]
    number = lambda made: [int(part) for part in re.findall(r"\d+", made["provenance"]["triton"])]
    ours = [made for made in every if interpreted(made["device"])]
    return sorted(ours, key=number), [made for made in every if made not in ours]


def say(row: str, section: str, what: str, made: list[dict]) -> list[tuple[str, str]]:
    """What some recordings say of a row: versions of Triton with their verdicts."""
    verdict = lambda recorded: parse(recorded["output"]).get(section, {}).get(row, {}).get(what, "–")
    return [(recorded["provenance"]["triton"], verdict(recorded)) for recorded in made]


def kind(verdict: str) -> str:
    return re.match(r"\w*", verdict)[0]


def kinds(columns) -> set[str]:
    return {kind(verdict) for said in columns for _, verdict in said}


def cell(title: str, said: list[tuple[str, str]]) -> str:
    """The verdicts of one column on one row. Where not all are the same, it says which versions say what."""
    groups = [(verdict, [version for version, _ in same]) for verdict, same in groupby(said, key=lambda pair: pair[1])]
    lines = []
    for verdict, versions in groups:
        span = " to ".join(dict.fromkeys((versions[0], versions[-1])))
        span = f"<strong>{span}</strong> " if len(groups) > 1 else ""
        lines.append(f'<span class="verdict verdict--{kind(verdict)}">{span}{code(verdict)}</span>')
    return f'<td data-title="{html.escape(title)}">{"".join(lines)}</td>'


def places(made: list[dict]) -> str:
    """Where each recording was made: the figure's foot names only one."""
    places = {}
    for facts in (m["provenance"] for m in made):
        places.setdefault((facts["device"], facts["torch"], facts["date"]), []).append(facts["triton"])
    lines = [
        f"{device} · Triton {', '.join(versions)} · torch {torch} · {day}"
        for (device, torch, day), versions in places.items()
    ]
    return f'<p class="verdicts__places">{"<br>".join(map(html.escape, lines))}</p>'


def code(text: str) -> str:
    """What stands in backticks as code; long names may break at their parts."""
    parts = lambda name: re.sub(r"(?<=_)|(?<=[a-z])(?=[A-Z])", "\0", name[0])
    broken = re.sub(r"[\w.]{16,}", parts, text)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(broken)).replace("\0", "<wbr>")
