# SPDX-License-Identifier: Apache-2.0
"""Show what a run printed."""

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="output")
def output(recording: Recording, *, section=None, only=None):
    """``section``: what follows its line ``## SECTION``; ``only``: a regular expression for lines."""
    text = recording.output
    if section:
        sections = printed.sections(text)
        if section not in sections:
            raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
        text = sections[section]
    lines = printed.matching(text.splitlines(), only)
    return render("output/template.html", text="\n".join(lines))
