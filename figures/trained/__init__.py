# SPDX-License-Identifier: Apache-2.0
"""What a layer of fused kernels learns, and how long it takes: losses as lines, and beside them times as bars.

It takes a benchmark of losses by step and one of times by shape. The lines are a ``chart`` with a logarithmic axis,
because a loss falls over several powers of ten; the bars begin at zero, all to one scale. The sentence below the bars
is the least and the most that the times give.
"""

from figures.chart import chart
from figures.chart.series import numbers
from figures.registry import figure
from figures.templates import render
from recorder.recording import Recording


@figure(of="rows", places=("chart",))
def trained(recording: Recording, *, losses="losses", times="times", ours="ours", others=..., note=""):
    """``ours``: the line that is compared, in both benchmarks; ``others``: those of the times, and what to call them.

    ``note``: what a reader must know of the losses' lines.
    """
    data = recording.benchmark(times, ours, *others)
    names = {**others, ours: "ours"}
    shapes = {shape: {line: float(row[line]) for line in names} for shape, row in data.medians().items()}
    colors = numbers([*others, ours])
    most = max(time for row in shapes.values() for time in row.values())
    return render(
        "trained/template.html",
        curves=chart(recording, name=losses, log=True),
        note=note,
        unit=data.ylabel,
        shapes={
            shape: [
                (names[x], x == ours, colors[x], f"{time:.1f}", f"{100 * time / most:.2f}") for x, time in row.items()
            ]
            for shape, row in shapes.items()
        },
        beside=[(names[line], _beside([row[line] / row[ours] for row in shapes.values()])) for line in others],
    )


def _beside(ratios: list[float]) -> str:
    """Return how many times as fast ours is, from the least to the most.

    >>> _beside([1.041, 1.179]), _beside([0.97, 0.9701])
    ('1.04 to 1.18', '0.97')
    """
    least, most = (f"{end(ratios):.2f}" for end in (min, max))
    return least if least == most else f"{least} to {most}"
