# SPDX-License-Identifier: Apache-2.0
"""The parts around a figure: where it ran and how to repeat it; once a page, the styles and scripts of its figures, and
the line under the title."""

import re
from collections.abc import Iterable
from datetime import date

from markupsafe import Markup, escape

from figures.registry import EXPLORER, FEET, Figure, module
from recorder import recording
from recorder.project import Snippet, interpreted, relative, triton_of
from recorder.recording import Provenance, Recording
from render.code import download, file_id
from render.lessons import lessons
from render.links import way, way_if_there
from render.recordings import Notice, gpu_name, labels, order
from render.templates import render

INSTALL = "start/install.md"
NUMBERS = '<details class="as-table">'  # as figures/macros.html begins it
NEXT = '<h2 id="next">'
RUNS = '<div class="run"'  # what can be run on a page
STATEMENT = r'(?s:<div class="home__statement">.*?(?=</div>))'  # at home, whose links come before the switch
YOUR_GPU = "reference/your-gpu.md"  # how to repeat on another GPU what was measured on one


def where(made: Provenance, foot: str = FEET["rows"]) -> str:
    """Return device, versions and date: a line such as those in ``figures.registry.FEET``, filled in."""
    compiler = made.compiler or made.triton
    return foot.format(device=made.device, triton=made.triton, compiler=compiler, torch=made.torch, date=made.date)


def compiled_only(made: Recording) -> bool:
    return interpreted(made.device) and Snippet(made.snippet).settings.compiles_only


def origin(figure: Figure, made: Recording) -> str:
    """Return where a figure's content comes from, in a word or two."""
    if figure.foot.startswith("A model"):
        return "A model"
    if figure.of == "stages" or compiled_only(made):
        return "Compiled, not run"
    if not interpreted(made.device):
        return f"Ran on {_article(gpu_name(made))} {gpu_name(made)}"
    version = f" of Triton {made.provenance.triton}" if triton_of(made.device) else ""
    return f"Ran in the interpreter{version}" + (", then in your browser" if figure.foot == EXPLORER else "")


def _article(name: str) -> str:
    return "an" if re.match("[AEFHILMNORSX8]", name) else "a"  # as the letters are said: an NVIDIA, an RTX


def place_of_run(made: Recording, figure: Figure | None = None) -> str:
    """Return where a recording was made, for the head of a page, which names each place once."""
    facts = made.provenance
    if (figure and figure.of == "stages") or compiled_only(made):
        return f"compiled by Triton {facts.compiler or _versions(made, figure)}"
    if interpreted(made.device):
        return f"in Triton’s interpreter ({_versions(made, figure)})"
    return f"on {_article(facts.device)} {facts.device} (Triton {facts.triton})"


def _versions(made: Recording, figure: Figure | None) -> str:
    """Return the version of Triton without a GPU: of a figure that shows all recordings, the first and the last."""
    if not (figure and figure.every):
        return made.provenance.triton
    snippet = Snippet(made.snippet)
    every = (
        recording.load(snippet, each).provenance.triton for each in recording.devices(snippet) if interpreted(each)
    )
    versions = sorted(every, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
    return " to ".join(dict.fromkeys((versions[0], versions[-1])))


def origin_of_claim(made: Recording, claim: str) -> str:
    """Return where and when the number of a claim was recorded, for its tooltip."""
    month = date.fromisoformat(made.provenance.date).strftime("%B %Y")
    if re.search(r"\b(compiled|count)\(", claim) or compiled_only(made):
        return f"read from code compiled by Triton {made.provenance.compiler or made.provenance.triton}, {month}"
    return f"{'found' if interpreted(made.device) else 'measured'} {place_of_run(made)}, {month}"


def with_foot(figure: Figure, made: Recording, body: Markup, notice: Notice = None, page: str = "") -> Markup:
    """Return a figure with its foot, for a page."""
    facts, snippet = made.provenance, Snippet(made.snippet)
    compiler = f", compiled by Triton {facts.compiler}" if figure.of == "stages" and facts.compiler else ""
    dated = re.sub(r"\d{4}-\d\d-\d\d", r"<time>\g<0></time>", str(escape(where(facts, figure.foot))))
    picture, numbers = _without_numbers(body)
    return render(
        "figure.html",
        figure=figure,
        recording=made,
        picture=picture,
        numbers=numbers,
        notice=notice,
        origin=origin(figure, made),
        foot=Markup(dated),
        command=facts.command if figure.of == "output" else f"python -m recorder run {made.snippet}",
        device=facts.device + (f", driver {facts.driver}, {facts.runtime}" if facts.driver else ""),
        versions=f"Python {facts.python}, torch {facts.torch}, Triton {facts.triton}, NumPy {facts.numpy}{compiler}",
        path=relative(recording.path_of(snippet, made.device)),
        file=file_id(snippet),
        your_gpu="" if interpreted(made.device) else way_if_there(page, YOUR_GPU, "see-it-beside-ours"),
    )


def _without_numbers(body: Markup) -> tuple[Markup, Markup]:
    """Return a figure's picture and the fold at its end that says the same as a table, which stands below its frame."""
    picture, fold, rest = body.rstrip().rpartition(NUMBERS)
    if not fold or not rest.endswith("</details>") or "<details" in rest:
        return body, Markup()
    return Markup(picture), Markup(fold + rest)


def by_gpu(drawn: dict[str, Markup]) -> Markup:
    """Return one figure drawn from recordings of several GPUs: the first is shown, the others wait for the switch."""
    (_, first), *others = drawn.items()
    return render("by_gpu.html", first=first, others=others) if others else first


def with_head(
    text: str,
    page: str,
    places_of_runs: Iterable[str],
    gpus: dict[str, str],
    code: Snippet | None = None,
    to_copy: str | None = None,
) -> str:
    """Return the HTML of a page with a line under its title, at home under its headline, and one at its end.

    Above: which lesson it is, a switch between GPUs, and the note with a file to copy, if it has one. Below: its code,
    and where what it shows ran.
    """
    names = labels({device: gpus[device] for device in sorted(gpus, key=order)}) if len(gpus) > 1 else {}
    places = [*places_of_runs, *(["on the GPU you choose at the top"] if names else [])]
    compiled = [place for place in places if place.startswith("compiled")]
    ran = [place for place in places if place not in compiled]
    parts = [f"{verb} {_listed(each)}" for verb, each in (("ran", ran), ("was", compiled)) if each]
    where = (", and " if len(ran) > 1 else " and ").join(parts)
    lesson = lessons().get(page)
    get = download(code, page) if lesson and code else None
    runs = RUNS in text
    text = text.replace(RUNS, f'{RUNS} id="run"', 1)
    if lesson or names:
        copied = way(page, to_copy) if to_copy else None
        under = render("head.html", lesson=lesson, gpus=names, download=get, runs=runs, copied=copied)
        text = re.sub(f"{STATEMENT}|</h1>", lambda title: f"{title[0]}{under}", text, count=1)
    if places or get:
        install = way_if_there(page, INSTALL)
        ending = render("origin.html", where=where, download=get, install=install)
        before, next_part, after = text.partition(NEXT)  # which ends a lesson
        text = f"{before}\n{ending}\n{next_part}{after}" if next_part else f"{text}\n{ending}"
    return text


def _listed(words: list[str]) -> str:
    """Return words as a sentence lists them: one, two and three."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def with_assets(text: str, figures: Iterable[Figure]) -> str:
    """Return a page between the styles and the scripts of its figures, each folder's once."""
    rooms = {figure.folder: figure for figure in figures}.values()
    styles = dict.fromkeys(style for figure in rooms for style in figure.styles_for(text))
    if not rooms:
        return text
    return f"{render('styles.html', styles=styles)}{text}{render('scripts.html', script=module(rooms))}"
