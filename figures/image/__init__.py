# SPDX-License-Identifier: Apache-2.0
"""A picture that the snippet wrote, such as ``grey.png``."""

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="output")
def image(recording: Recording, *, name=..., alt=..., pixelated=False):
    """``pixelated`` shows its pixels as squares, enlarged."""
    if name not in recording.pictures:
        raise RecorderError(f"the run wrote no picture {name!r}{nearest(name, recording.pictures)}")
    kind = "jpeg" if name.endswith(".jpg") else "png"
    data = f"data:image/{kind};base64,{recording.pictures[name]}"
    return render("image/template.html", data=data, alt=alt, pixelated=pixelated)
