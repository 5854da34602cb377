# SPDX-License-Identifier: Apache-2.0
"""What stands around a figure: where it ran, how to repeat it; and, once a page, its styles and script, and what stands
under the title."""

import re
from collections.abc import Iterable
from datetime import date

from markupsafe import Markup, escape

from figures.registry import EXPLORER, FEET, Figure
from recorder import recording
from recorder.project import Snippet, interpreted, relative, triton_of
from recorder.recording import Provenance, Recording
from render.code import download, file_id
from render.gpus import brief, order, short
from render.lessons import Lesson
from render.links import way_if_there
from render.previews import Notice
from render.templates import render

YOUR_GPU = "reference/your-gpu.md"  # how to repeat on another GPU what was measured on one


def where(made: Provenance, foot: str = FEET["rows"]) -> str:
    """Device, versions, date: a line such as those in ``figures.registry.FEET``, filled in."""
    compiler = made.compiler or made.triton
    return foot.format(device=made.device, triton=made.triton, compiler=compiler, torch=made.torch, date=made.date)


def compiled_only(made: Recording) -> bool:
    return interpreted(made.device) and Snippet(made.snippet).settings.compiles_only


def mark(figure: Figure, made: Recording) -> str:
    """Where a figure's content comes from, in a word or two."""
    if figure.of == "stages" or compiled_only(made):
        return "Compiled"
    if not interpreted(made.device):
        return short(made)
    version = f" of Triton {made.provenance.triton}" if triton_of(made.device) else ""
    return f"Interpreter{version}" + (", then your browser" if figure.foot == EXPLORER else "")


def ran(made: Recording, figure: Figure | None = None) -> str:
    """The same for the head of a page, which names each place once."""
    facts = made.provenance
    if (figure and figure.of == "stages") or compiled_only(made):
        return f"compiled by Triton {facts.compiler or facts.triton}"
    if interpreted(made.device):
        return f"in Triton’s interpreter ({facts.triton})"
    article = "an" if re.match("[AEFHILMNORSX8]", facts.device) else "a"  # as the letters are said: an NVIDIA, an RTX
    return f"on {article} {facts.device} (Triton {facts.triton})"


def found(made: Recording, claim: str) -> str:
    """Where and when a number of a claim was found, as a tooltip says it."""
    month = date.fromisoformat(made.provenance.date).strftime("%B %Y")
    if re.search(r"\b(compiled|count)\(", claim) or compiled_only(made):
        return f"read from code compiled by Triton {made.provenance.compiler or made.provenance.triton}, {month}"
    return f"{'found' if interpreted(made.device) else 'measured'} {ran(made)}, {month}"


def framed(figure: Figure, made: Recording, body: Markup, notice: Notice = None, page: str = "") -> Markup:
    """A figure with its foot, on a page."""
    facts, snippet = made.provenance, Snippet(made.snippet)
    compiler = f", compiled by Triton {facts.compiler}" if figure.of == "stages" and facts.compiler else ""
    dated = re.sub(r"\d{4}-\d\d-\d\d", r"<time>\g<0></time>", str(escape(where(facts, figure.foot))))
    return render(
        "figure.html",
        figure=figure,
        recording=made,
        body=body,
        notice=notice,
        mark=mark(figure, made),
        foot=Markup(dated),
        command=facts.command if figure.of == "output" else f"python -m recorder run {made.snippet}",
        device=facts.device + (f", driver {facts.driver}, {facts.runtime}" if facts.driver else ""),
        versions=f"Python {facts.python}, torch {facts.torch}, Triton {facts.triton}, NumPy {facts.numpy}{compiler}",
        path=relative(recording.path_of(snippet, made.device)),
        file=file_id(snippet),
        your_gpu="" if interpreted(made.device) else way_if_there(page, YOUR_GPU, "see-it-beside-ours"),
    )


def by_gpu(drawn: dict[str, Markup]) -> Markup:
    """A figure that was drawn from recordings of several GPUs: the first is shown, the others wait to be asked for."""
    (_, first), *others = drawn.items()
    return render("by_gpu.html", first=first, others=others) if others else first


def headed(
    text: str, lesson: Lesson | None, ran: Iterable[str], gpus: dict[str, str], code: Snippet | None = None
) -> str:
    """A page with what stands under its title: which lesson it is, where it ran, its code, a switch between GPUs."""
    places = sorted(ran, key=lambda place: place.startswith("compiled"))  # what was only compiled comes last
    said = ", ".join(places) if not places or places[0].startswith("compiled") else f"ran {', '.join(places)}"
    get = download(code, lesson.page) if lesson and code else None
    names = brief({device: gpus[device] for device in sorted(gpus, key=order)}) if len(gpus) > 1 else {}
    shown = lesson or said or names
    under = render("head.html", lesson=lesson, ran=said, gpus=names, download=get) if shown else ""
    return re.sub("</h1>", lambda title: f"{title[0]}{under}", text, count=1)


def dressed(text: str, figures: Iterable[Figure]) -> str:
    """A page between the styles and the scripts of its figures, each folder's once, and the style of all explorers."""
    rooms = {figure.folder: figure for figure in figures}.values()
    styles = dict.fromkeys(style for figure in rooms for style in figure.styles)
    return f"{render('styles.html', styles=styles)}{text}{render('scripts.html', figures=rooms)}" if rooms else text
