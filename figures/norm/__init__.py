# SPDX-License-Identifier: Apache-2.0
"""`<norm-row>`: a row as bars to drag, its size as a line, the row divided by it, and a gradient.

It takes the first row of a run's section, with the weights of that run: the picture is refused if the printed results
are not its quotients times the weights, or the printed gradient not what is computed here. What a reader drags is
computed in the browser, by the same formulas.
"""

import math

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

EPS = 1e-12  # keeps a row of zeros from dividing by 0
ROOM = 1.5  # the row may become so many times as large
FOOT = "At first a run recorded on {date}, Triton {triton}; what you drag is computed in your browser"


@figure(of="output", foot=FOOT)
def norm_row(recording: Recording, *, section=..., backward=..., weights=..., row=0, id="norm"):
    """``section`` and ``backward``: where a row and its result are printed, and its gradient."""
    x, out = (_read(recording, section, f"row {row}, {name}") for name in ("x", "out"))
    grad, grad_x = (_read(recording, backward, f"row {row}, {name}") for name in ("grad", "grad_x"))
    scaled = [quotient * weight for quotient, weight in zip(quotients(x), weights, strict=True)]
    if any(abs(a - b) > 0.05 for a, b in zip(scaled, out, strict=True)):
        raise RecorderError(f"row {row} gives {out}, and not {scaled}, its quotients times the weights")
    if grad != [0.0] * (len(x) - 1) + [1.0]:
        raise RecorderError(f"the gradient of row {row} is not that of its last result alone, but {grad}")
    slopes = [each * weights[-1] for each in gradient(x)]
    if any(abs(a - b) > 5e-5 for a, b in zip(slopes, grad_x, strict=True)):
        raise RecorderError(f"row {row} has the gradient {grad_x}, and not {slopes}")
    most = max(x)
    return render(
        "norm/template.html",
        id=id,
        x=x,
        rms=rms(x),
        quotients=quotients(x),
        gradient=gradient(x),
        most=most,
        top=most * ROOM,
        longest=math.sqrt(len(x)),
        steepest=2 * max(abs(each) for each in gradient(x)),
        room=ROOM,
    )


def _read(recording: Recording, section: str, label: str) -> list[float]:
    texts = printed.sections(recording.output)
    if section not in texts:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, texts)}")
    for line in texts[section].splitlines():
        name, _, rest = line.partition(":")
        if name == label:
            return [float(each) for each in rest.partition("rms")[0].split()]
    raise RecorderError(f"section {section!r} has no line {label!r}")


def rms(x: list[float]) -> float:
    """
    >>> round(rms([3.0, 4.0, 0.0, 0.0]), 6)
    2.5
    """
    return math.sqrt(sum(each * each for each in x) / len(x) + EPS)


def quotients(x: list[float]) -> list[float]:
    size = rms(x)
    return [each / size for each in x]


def gradient(x: list[float]) -> list[float]:
    """Return by how much the last quotient grows when an element of the row grows a little, for each element."""
    hat = quotients(x)
    mean = hat[-1] / len(x)
    return [((i == len(x) - 1) - each * mean) / rms(x) for i, each in enumerate(hat)]
