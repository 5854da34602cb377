# SPDX-License-Identifier: Apache-2.0
"""`<attention-traffic>`: the matrix of ``<attention-canvas>`` as torch's operations go through it, one after the other.

Each stores all of it. How much goes through memory at a real size, for them and for our kernel, comes from a formula
(``traffic``), as the lesson's table has it. It takes the run of ``snippets/fusion/attention_tiles.py``, for its shape.
"""

from markupsafe import Markup

from figures.attention_canvas import read
from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder.recording import Recording

REAL = 8192, 64, 128  # queries and keys, head_dim, and queries of a tile: what traffic is counted for


def traffic() -> tuple[float, list[float]]:
    """Return the millions of elements that go through memory: of our kernel all, of torch's four operations each."""
    n, d, tile = REAL
    ours = 2 * n * d + n + 2 * d * n * (n // tile)  # q, the result, a number a query; k and v for each tile of queries
    torch = 2 * n * d + n * n, 2 * n * n, 2 * n * n, n * n + 2 * n * d
    return ours / 1e6, [count / 1e6 for count in torch]


@figure(of="output", foot=EXPLORER)
def attention_traffic(recording: Recording, *, id="traffic") -> Markup:
    """Draw what the same matrix costs when each operation stores all of it."""
    run = read(recording)
    ours, torch = traffic()
    side = len(run.scores)
    return render(
        "attention_traffic/template.html",
        id=id,
        tile=run.tile,
        side=side,
        last=4 * (side // run.tile),
        ours=ours,
        torch=torch,
        scores=f"{REAL[0] ** 2 / 1e6:.0f} million",
    )
