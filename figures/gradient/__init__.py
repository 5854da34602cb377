# SPDX-License-Identifier: Apache-2.0
"""`<there-and-back>`: one element on its way through a kernel and its backward, and what is saved in between.

It takes a printed table of inputs, result and gradients, an element a column; the incoming gradient is 1.
"""

from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

STEPS = {  # what the bar of time says, and what happens
    "inputs": "Two inputs, and we want the gradients of both.",
    "forward": "PyTorch runs our forward kernel.",
    "saved": "It saves the inputs for later, and computes the loss from the result.",
    "gradient": "Working back from the loss, PyTorch reaches a kernel it can't see inside.",
    "backward": "So it runs our second kernel, on the saved inputs and the gradient so far.",
    "done": "Out come the gradients of both inputs, and PyTorch carries on from there.",
}


class Column(NamedTuple):
    """One element; its texts are as printed."""

    x: str
    y: str
    out: str
    grad_x: str
    grad_y: str


@figure(of="output")
def there_and_back(recording: Recording, *, section=..., forward=..., backward=..., grad="1", id="path"):
    """``forward`` and ``backward``: what the two kernels compute, in words."""
    texts = printed.sections(recording.output)
    if section not in texts:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, texts)}")
    lines = {name: values for name, *values in (line.split() for line in texts[section].splitlines() if line.strip())}
    if missing := [name for name in Column._fields if name not in lines]:
        raise RecorderError(f"section {section!r} has no line {missing[0]!r}{nearest(missing[0], lines)}")
    columns = [Column(*each) for each in zip(*(lines[name] for name in Column._fields), strict=True)]
    signed = lambda text: text.replace("-", "−")
    return render(
        "gradient/template.html",
        id=id,
        columns=[Column(*map(signed, each)) for each in columns],
        names={i: signed(f"x = {float(each.x):g}") for i, each in enumerate(columns)},
        forward=forward,
        backward=backward,
        grad=str(grad),
        steps=STEPS,
    )
