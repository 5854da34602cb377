# SPDX-License-Identifier: Apache-2.0
"""The loads and stores of a small launch: a picture, and the table that says the same in text.

A square is an element, a rounded one a lane. Its color is the program that touches it; hatched is masked off, outlined
is loaded, filled is stored, gray is untouched, red is out of bounds. A label repeats in words what each color says.

``reading``: what the accesses come to, by program and by tensor. ``drawing``: the picture of that. ``by_program``: a
column for each program, where there are many tensors and lanes do not stand above their elements anyway. ``canvas``:
what both draw with.
"""

from figures.accesses.by_program import by_program
from figures.accesses.drawing import aligned, legible, pictures
from figures.accesses.drawing import picture as picture  # of which the explorer draws its first state
from figures.accesses.reading import read
from figures.registry import figure
from figures.templates import render
from recorder.recording import Recording


@figure(of="launches")
def accesses(recording: Recording, *, launch=None, tensors=None):
    """Drawn from what the interpreter really touched; ``tensors``: the arguments to draw, all by default."""
    seen = recording.traced(launch)
    programs, shown = legible(seen, tensors)
    grid = None if aligned(programs, shown) else by_program(seen, programs, shown)
    drawn = [] if grid else pictures(seen, tensors)
    return render("accesses/template.html", pictures=drawn, grid=grid, kernel=seen.kernel, programs=read(seen)[0])
