# SPDX-License-Identifier: Apache-2.0
"""The views: each turns a recording into the HTML of one figure, with where it ran under it."""

import ast
import html
import json
import re
from collections import Counter
from functools import lru_cache
from urllib.parse import quote

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from recorder import (
    claims,
    explorers,
    fingerprint,
    lab,
    ladder,
    layout,
    picture,
    pixels,
    recording,
    roofline,
    schedule,
    swizzle,
    tiles,
    timeline,
    verdicts,
)
from recorder.project import ROOT, RecorderError, Snippet, labs, nearest, relative, snippets

STAGE_NAMES = {
    "ttir": "Triton IR",
    "ttgir": "TritonGPU IR",
    "llir": "LLVM IR",
    "ptx": "PTX",
    "sass": "SASS",
    "amdgcn": "AMD assembly",
}


def escape(text) -> str:
    return html.escape(str(text), quote=True)


# What each view takes beside `view`, `of` and `device`: a name and its default; ... means that it must be given.


def output(snippet, recorded, *, section=None, only=None):
    """What the run printed; `section`: what follows its line `## SECTION`; `only`: a regular expression for lines."""
    text = recorded["output"]
    if section:
        sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, re.M))
        if section not in sections:
            raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
        text = sections[section]
    lines = [line for line in text.splitlines() if not only or re.search(only, line)]
    if not lines:
        raise RecorderError(f"no line of the output matches {only!r}; it begins {recorded['output'][:60]!r}")
    return f'<pre class="output" tabindex="0"><code>{escape(chr(10).join(lines))}</code></pre>'


def benchmark(recorded, name):
    tables = {table["name"]: table for table in recorded["benchmarks"]}
    if name not in tables:
        raise RecorderError(f"there is no benchmark {name!r}{nearest(name, tables)}")
    return tables[name]


def table(snippet, recorded, *, name=..., share_of=None, rows=None, spread=False):
    """The medians of a benchmark; `share_of` adds each line's share of that one; `rows` lists x values to show.

    `spread` adds least and most under each median of several readings.
    """
    data = benchmark(recorded, name)
    if share_of and share_of not in data["lines"]:
        raise RecorderError(f"there is no line {share_of!r}{nearest(share_of, data['lines'])}")
    medians = claims.medians(data)
    if unknown := [x for x in rows or [] if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    others = [line for line in data["lines"] if share_of and line != share_of]
    head = [data["xlabel"], *data["lines"].values()]
    head += [f"{data['lines'][line]}, share of {data['lines'][share_of]}" for line in others]
    shown = [vars(medians[x]) for x in rows or medians]
    numbers = _numbers([[row[line] for line in data["lines"]] for row in shown])
    if spread:
        ranges = [[(row[line].least, row[line].most) for line in data["lines"]] for row in shown]
        ends = _numbers([[end for pair in row for end in pair] for row in ranges])
        for cells, pairs, row in zip(numbers, ranges, ends, strict=True):
            for i, (least, most) in enumerate(pairs):
                if least < most:  # it was read more than once
                    cells[i] += f"<small>{row[2 * i]}–{row[2 * i + 1]}</small>"
    form = _power if all(map(_is_power, rows or medians)) else _plain
    body = []
    for x, row, cells in zip(rows or medians, shown, numbers, strict=True):
        cells = [form(x), *cells, *(f"{row[line] / row[share_of]:.2f}" for line in others)]
        body.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    unit = f"<caption>{escape(data['ylabel'])}</caption>" if data["ylabel"] else ""
    header = "".join(f'<th scope="col">{_breakable(escape(title))}</th>' for title in head)
    label = f"{name}: {', '.join(data['lines'].values())}"  # another snippet's may have the same name,
    label += f"; {len(rows)} rows from {rows[0]}" if rows else ""  # and a page may show one in parts
    return (
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table>{unit}<thead><tr>{header}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _breakable(html: str) -> str:
    """A long name may go on in the next line, so that a column is not as wide as it."""
    return re.sub(r"(?<=[_=])(?=\w)", "<wbr>", html)


def _is_power(x) -> bool:
    return isinstance(x, int) and x >= 64 and x & (x - 1) == 0


def _power(x) -> str:
    return f"2<sup>{x.bit_length() - 1}</sup>"


def _plain(x) -> str:
    return escape(f"{x:,}" if isinstance(x, int) else x)


def _numbers(rows: list[list[float]]) -> list[list[str]]:
    """Three digits each; a row or a column of whole numbers has no decimals, small beside tiny ones have exponents."""
    counts = [all(value == int(value) for value in column) for column in zip(*rows, strict=True)]
    tiny = any(0 < abs(value) < 1e-4 for row in rows for value in row)

    def text(value: float, whole: bool) -> str:
        if whole or abs(value) >= 99.95:
            return f"{value:,.0f}"
        return f"{value:.1e}" if tiny and 0 < abs(value) < 0.01 else f"{value:#.3g}" if value else "0"

    return [
        [text(value, whole or all(v == int(v) for v in row)) for value, whole in zip(row, counts, strict=True)]
        for row in rows
    ]


def chart(snippet, recorded, *, name=..., share_of=None):
    """The picture of a benchmark, with its table to unfold under it."""
    benchmark(recorded, name)
    svg = recording.chart(snippet, recorded["device"], name)
    numbers = table(snippet, recorded, name=name, share_of=share_of)
    return f'{svg}<details class="as-table"><summary>The numbers</summary>{numbers}</details>'


def _launch(recorded, number) -> dict:
    launches = recorded["launches"]
    if not isinstance(number, int) or not 0 <= number < len(launches):
        raise RecorderError(f"there is no launch {number}; the run made {len(launches)}, counted from 0")
    return launches[number]


def accesses(snippet, recorded, *, launch=0, tensors=None):
    """A picture of every load and store of a small launch, drawn from what the interpreter really touched."""
    seen = _launch(recorded, launch)
    if not seen.get("accesses"):
        raise RecorderError(
            f"the accesses of launch {launch} were not written down; only small ones in the interpreter are"
        )
    numbers = f'<details class="as-table"><summary>As a table</summary>{picture.launch_text(seen)}</details>'
    return picture.launch_svg(seen, tensors=tensors) + numbers


def explorer(snippet, recorded, *, launch=0, id="launch", switch=False):
    """`<launch-explorer>`, starting as a recorded one-dimensional launch."""
    seen = _launch(recorded, launch)
    block = next(value for name, value in seen["arguments"].items() if name in seen["constexprs"])
    form = {"id": id, "switch": switch, "n": seen["arguments"]["n"], "block": block}
    return explorers.launch_explorer(picture.launch_svg(seen), **form)


def kernel_lines(snippet, recorded, seen) -> tuple[list[tuple[int, str]], dict[int, int]]:
    """The kernel's source as it stands, with line numbers, and where each recorded line stands in it."""
    path = ROOT / seen["file"]
    now, then = path.read_text("utf-8"), recorded["source"][seen["file"]]
    moved = _moved_lines(then, now)
    source = now if moved else then
    kernel = next(node for node in ast.walk(ast.parse(source)) if getattr(node, "name", None) == seen["kernel"])
    lines, first = source.splitlines(), kernel.decorator_list[0].lineno
    numbered = [(n, lines[n - 1]) for n in range(first, kernel.end_lineno + 1) if "--8<--" not in lines[n - 1]]
    return numbered, moved


@lru_cache
def _moved_lines(then: str, now: str) -> dict[int, int]:
    return fingerprint.line_map(then, now) if fingerprint.same_code(then, now) else {}


def _stage_lines(lines) -> str:
    return "".join(
        f'<span class="code-line"{f" data-line={number}" if number else ""}>'
        f'<span class="code-line__number">{number or ""}</span>{escape(text)}\n</span>'
        for number, text in lines
    )


def stage(snippet, recorded, *, launch=0, target=..., stage=..., only=None):
    """One compiler stage of a launch; `only` is a regular expression for the lines to show."""
    seen = _launch(recorded, launch)
    code = claims.stage(recorded, launch, target, stage)
    _, moved = kernel_lines(snippet, recorded, seen)
    lines = zip((moved.get(n, n) for n in code["lines"]), code["text"].splitlines(), strict=True)
    lines = [(number, text) for number, text in lines if not only or re.search(only, text)]
    if not lines:
        raise RecorderError(f"no line of {stage} for {target} matches {only!r}")
    name = f"{STAGE_NAMES[stage]} for {target}"
    return (
        f'<pre class="stage stage--{stage}" tabindex="0" aria-label="{name}"><code>{_stage_lines(lines)}</code></pre>'
    )


def stages(snippet, recorded, *, launch=0, targets=None, target="sm_90", stage="ptx"):
    """`<stage-explorer>`: the kernel beside every compiler stage, line tied to line."""
    seen = _launch(recorded, launch)
    code = {name: claims.compiled(recorded, launch, name) for name in targets or ("sm_80", "sm_90", "sm_100", "gfx942")}
    claims.stage(recorded, launch, target, stage)
    source, moved = kernel_lines(snippet, recorded, seen)
    data = {
        name: {
            "registers": entry["registers"],
            "spills": entry["spills"],
            "shared": entry["shared"],
            "stages": {
                s: {"name": STAGE_NAMES[s], "text": part["text"], "lines": [moved.get(n, n) for n in part["lines"]]}
                for s, part in entry["stages"].items()
            },
        }
        for name, entry in code.items()
    }
    first = data[target]["stages"][stage]
    shown = list(zip(first["lines"], first["text"].splitlines(), strict=True))
    # In a template, not in a script: under instant navigation Material runs every script that it finds.
    blob = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
    known = {s: None for entry in data.values() for s in entry["stages"]}  # in the order of compilation
    options = "".join(f"<option{' selected' if name == target else ''}>{name}</option>" for name in data)
    radio = '<label><input type="radio" name="stage" value="{}"{}> {}</label>'
    radios = "".join(radio.format(s, " checked" if s == stage else "", STAGE_NAMES[s]) for s in known)
    return (
        f'<stage-explorer id="stages-{launch}"><form class="stages__controls" autocomplete="off" hidden>'
        f'<label>Target <select name="target">{options}</select></label>'
        f'<fieldset><legend>Stage</legend>{radios}</fieldset><output role="status"></output></form>'
        f'<div class="stages"><pre class="stages__source" tabindex="0" aria-label="The kernel"><code>'
        f"{_stage_lines(source)}</code></pre>"
        f'<pre class="stages__code stage--{stage}" tabindex="0" aria-label="{STAGE_NAMES[stage]} for {target}"><code>'
        f"{_stage_lines(shown)}</code></pre></div>"
        f"<template>{blob}</template></stage-explorer>"
    )


def error(snippet, recorded, *, launch=0, target="sm_90"):
    """What the compiler said about a launch that it refused."""
    said = claims.compiled(recorded, launch, target).get("error")
    if not said:
        raise RecorderError(f"launch {launch} compiles for {target}: there is no error to show")
    said = "\n".join(line for line in said.splitlines() if "--8<--" not in line)
    return f'<pre class="output" tabindex="0"><code>{escape(said)}</code></pre>'


def image(snippet, recorded, *, name=..., alt=..., pixelated=False):
    """A picture that the snippet wrote, such as `grey.png`; `pixelated` shows its pixels as squares, enlarged."""
    pictures = recorded.get("pictures", {})
    if name not in pictures:
        raise RecorderError(f"the run wrote no picture {name!r}{nearest(name, pictures)}")
    kind = "jpeg" if name.endswith(".jpg") else "png"
    style = ' class="pixelated"' if pixelated else ""
    return f'<img{style} src="data:image/{kind};base64,{pictures[name]}" alt="{escape(alt)}">'


@lru_cache
def highlighted(source: str) -> str:
    """Python source as the site's own fences show it."""
    code = highlight(source, PythonLexer(), HtmlFormatter(cssclass="language-python highlight", wrapcode=True))
    return re.sub(r'<span class="[nw]">([^<]*)</span>', r"\1", code)  # colored as text, and a sixth of the page


def file(snippet: Snippet) -> str:
    """The whole file, to read, copy and download, and what it imports of ours. It needs no recording."""
    source = snippet.path.read_text("utf-8")
    others = [relative(path) for path in fingerprint.local_modules(snippet.path) if path != snippet.path]
    needs = "".join(f"<li><code>{escape(path)}</code></li>" for path in others)
    needs = f"<p>It imports others of this course, so it runs in a checkout:</p><ul>{needs}</ul>" if others else ""
    code = highlighted(source)
    link = f"data:text/x-python;charset=utf-8,{quote(source)}"
    return (
        f'<div class="recording recording--file" id="{file_id(snippet)}">'
        f'<details class="whole-file" data-search-exclude><summary>{escape(relative(snippet.path))}, the whole file'
        f"</summary>{needs}{code}"
        f'<p><a href="{link}" download="{snippet.path.name}">Download {snippet.path.name}</a></p></details></div>'
    )


_VIEWS = (
    output, image, pixels.pixels, table, chart, timeline.timeline, ladder.ladder, accesses, explorer, stage, stages,
    error, layout.layout, verdicts.verdicts, schedule.schedule, roofline.roofline, swizzle.swizzle,
    swizzle.orders,
    tiles.tiles,
)  # fmt: skip
VIEWS = {view.__name__: view for view in _VIEWS}
# What a quick run on any machine can show of code that has changed.
PREVIEWED = ("output", "image", "pixels", "accesses", "explorer", "swizzle", "orders")
SEARCHED = ("error",)  # what a reader may have met elsewhere; the others would swell the index
PRINTED = ("output", "image", "pixels", "verdicts")  # by the snippet itself; all else is made by the recorder around it
COMPILED = ("stage", "stages", "error", "layout")  # made by the compiler alone


def ledger() -> str:
    """Everything that was recorded, by chapter: what ran, where, when, and whether it is still the code."""
    chapters = {}
    for snippet in snippets():
        faults = {problem.path: problem.fault for problem in recording.problems(snippet)}
        for device in recording.devices(snippet):
            state = faults.get(relative(recording.path_of(snippet, device)), "current")
            _enter(chapters, snippet.name, recording.load(snippet, device)["provenance"], state)
    for script in labs():
        made = json.loads(script.notebook.read_text("utf-8"))["metadata"]["provenance"]
        status = lab.status(script.path, script.notebook)
        made = {"device": "CPU, Triton's interpreter", **made}
        _enter(chapters, script.name, made, status.replace("fresh", "current"))
    return "".join(
        f'<details class="ledger" data-search-exclude><summary>{escape(chapter)}: {_counted(entries)}</summary><dl>'
        + "".join(f"<dt><code>{name}</code></dt>{''.join(lines)}" for name, (lines, _) in entries.items())
        + "</dl></details>"
        for chapter, entries in sorted(chapters.items())
    )


def _enter(chapters: dict, name: str, made: dict, state: str) -> None:
    lines, states = chapters.setdefault(name.partition("/")[0], {}).setdefault(name, ([], []))
    lines.append(f"<dd>{escape(where(made))} · <b>{escape(state)}</b></dd>")
    states.append(state)


def _counted(entries: dict) -> str:
    """Such as ``31 files ran, 62 recordings, all current``."""
    states = [state for _, each in entries.values() for state in each]
    others = Counter(state for state in states if state != "current")
    judged = ", ".join(f"{count} {escape(state)}" for state, count in others.items()) or "all current"
    files, recordings = f"file{'s' * (len(entries) > 1)}", f"recording{'s' * (len(states) > 1)}"
    return f"{len(entries)} {files} ran, {len(states)} {recordings}, {judged}"


def file_id(snippet: Snippet) -> str:
    return "file-" + snippet.name.replace("/", "-")


def where(made: dict, view: str = "") -> str:
    """The line under every view: device, versions, date."""
    if view in ("explorer", "swizzle"):
        return f"Begins as the run recorded on {made['date']}, Triton {made['triton']}; then computed in your browser"
    if view == "verdicts":
        return f"Each column ran as listed above; repeated with Triton {made['triton']} by the command"
    if view in COMPILED:
        return f"Compiled without a GPU · Triton {made['triton']} · {made['date']}"
    return f"{made['device']} · Triton {made['triton']} · torch {made['torch']} · {made['date']}"


def foot(view: str, snippet: Snippet, recorded: dict) -> str:
    made, path = recorded["provenance"], relative(recording.path_of(snippet, recorded["device"]))
    command = made["command"] if view in PRINTED else f"python -m recorder run {snippet.name}"
    facts = {
        "Command": f"<code>{escape(command)}</code>",
        "Device": escape(
            made["device"] + (f", driver {made['driver']}, {made['runtime']}" if made.get("driver") else "")
        ),
        "Versions": escape(
            f"Python {made['python']}, torch {made['torch']}, Triton {made['triton']}, NumPy {made['numpy']}"
        ),
        "Recording": f"<code>{escape(path)}</code>, fingerprint <code>{made['fingerprint'][:12]}</code>",
        "Code": f'<a href="#{file_id(snippet)}">the whole file</a>, to copy or download',
    }
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())
    dated = re.sub(r"[\d-]{10}", r'<time>\g<0></time>', escape(where(made, view)))
    return (
        '<figcaption class="recording__foot" data-search-exclude>'
        f'<span class="recording__where">{dated}</span>'
        f'<details class="recording__repeat"><summary>Repeat it</summary><dl>{rows}</dl></details></figcaption>'
    )


def figure(view: str, snippet: Snippet, recorded: dict, body: str, notice: str = "") -> str:
    """The frame around a view."""
    searched = "" if view in SEARCHED else " data-search-exclude"
    return (
        f'<figure class="recording recording--{view}" data-device="{escape(recorded["device"])}"{searched}>{notice}'
        f'<div class="recording__view">{body}</div>{foot(view, snippet, recorded)}</figure>'
    )


def notice(kind: str, text: str) -> str:
    return f'<div class="recording__notice recording__notice--{kind}" role="note">{escape(text)}</div>'
