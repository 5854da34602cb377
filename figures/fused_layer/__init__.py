# SPDX-License-Identifier: Apache-2.0
"""`<fused-layer>`: what a layer moves and how long it takes, as two kernels and as one, by the length K of its sums.

It takes a benchmark of milliseconds by K, with a line for two kernels and one for the fused kernel, of a layer whose
result is square. The bytes are counted: x and the weight are loaded, the result is stored, and between two kernels
``y``, as large as the result, goes to memory and back. ``shares`` names a benchmark that has the same count, as the
share of one kernel's ``bytes`` in two's; the picture is refused if the two differ.
"""

from dataclasses import dataclass

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

SIZE = 2  # bytes of a bfloat16


@dataclass(frozen=True)
class Layer:
    """A layer with sums of K terms; bytes in MB, times in µs."""

    K: int
    inputs: float  # x and the weight
    result: float
    two: float
    one: float

    @property
    def both(self) -> float:
        """Return the MB that two kernels move."""
        return self.inputs + 3 * self.result

    @property
    def alone(self) -> float:
        """Return the MB that one kernel moves."""
        return self.inputs + self.result

    @property
    def about(self) -> str:
        return (
            f"K = {self.K:,}: two kernels move {self.both:,.0f} MB in {self.two:,.0f} µs, one moves "
            f"{self.alone:,.0f} MB in {self.one:,.0f} µs, {self.one / self.two:.0%} of the time."
        )


@figure(of="rows")
def fused_layer(recording: Recording, *, side=..., name="by_k", two="torch", one="fused", shares="share", id="layer"):
    """``side``: rows and columns of the result; ``two`` and ``one``: the lines of the two ways."""
    counted = recording.benchmark(shares, "bytes").medians()
    layers = [
        Layer(K, 2 * side * K * SIZE / 1e6, side * side * SIZE / 1e6, 1e3 * row[two], 1e3 * row[one])
        for K, row in sorted(recording.benchmark(name, two, one).medians().items())
    ]
    for layer in layers:
        if abs(layer.alone / layer.both - counted[layer.K].bytes) > 1e-3:
            raise RecorderError(f"at K = {layer.K} the picture counts other bytes than {shares!r} has")
    return render(
        "fused_layer/template.html",
        id=id,
        layers=layers,
        first=layers[0],  # the shortest sums, where fusing saves most
        most=max(layer.both for layer in layers),
        titles=["K", "MB, two kernels", "MB, one kernel", "µs, two kernels", "µs, one kernel", "share of the time"],
        rows=[
            [f"{x.K:,}", *(f"{value:,.0f}" for value in (x.both, x.alone, x.two, x.one)), f"{x.one / x.two:.0%}"]
            for x in layers
        ],
    )
