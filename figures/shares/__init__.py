# SPDX-License-Identifier: Apache-2.0
"""What each kernel of a step takes of the GPU's time: one bar, cut into kernels, with a list of them.

It takes printed lines such as ``  267.6 us   58%  turn_row_kernel``, the longest first.
"""

import re

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LINE = re.compile(r"\s*([\d.]+) us\s+\d+%\s+(.+)")


@figure(of="output")
def shares(recording: Recording, *, section=..., names=None):
    """``names``: what to call a kernel, by the beginning of its name."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    found = [match for line in sections[section].splitlines() if (match := LINE.fullmatch(line))]
    if not found:
        raise RecorderError(f"section {section!r} has no line such as '267.6 us   58%  turn_row_kernel'")
    times = {match[2]: float(match[1]) for match in found}
    names = names or {}
    if unknown := [begin for begin in names if not any(name.startswith(begin) for name in times)]:
        raise RecorderError(f"no kernel begins with {unknown[0]!r}{nearest(unknown[0], times)}")
    total = sum(times.values())
    kernels = [
        {
            "name": next((called for begin, called in names.items() if name.startswith(begin)), name),
            "time": f"{us:.0f} µs" if us >= 1 else "< 1 µs",
            "share": f"{us / total:.0%}",
            "width": f"{100 * us / total:.2f}%",
        }
        for name, us in times.items()
    ]
    return render("shares/template.html", kernels=kernels, total=f"{total:.0f} µs")
