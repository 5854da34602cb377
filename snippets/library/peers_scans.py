# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums and linear recurrences: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import torch

from snippets.library import scan
from snippets.library.peers_compared import F16, F32, agrees, device, numbers
from snippets.library.peers_run import ON, grid, report


def sums(batch, tokens, columns, dtype, reverse=False):
    exact = lambda x: x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    return agrees(lambda x: scan.cumsum(x, 1, reverse=reverse), exact, numbers(batch, tokens, columns, dtype=dtype))


def recurrence(batch, tokens, columns, dtype):
    """Compare a gated recurrence from a state."""
    gates = torch.rand(batch, tokens, columns, device=device()).to(dtype)
    tensors = [gates, numbers(batch, tokens, columns, dtype=dtype), numbers(batch, columns, dtype=dtype)]
    ours, exact = ((lambda a, x, h, f=f: f(a, x, 1, initial=h)) for f in (scan.recurrence, scan.in_torch))
    return agrees(ours, lambda *given: exact(*given)[0], *tensors)


PEERS = {}

# flash-linear-attention, tests:
# https://github.com/fla-org/flash-linear-attention/tree/bc3b101dcb713ddc5bd8924b66754eb68b5ccf89
LINES = "batch tokens columns"
PEERS["flash-linear-attention", "cumsum"] = sums, [
    grid({LINES: [(1, 63, 30), (2, 500, 240), (2, 1000, 640), (3, 1024, 3000), (4, 2048, 8192)], "reverse": ON,
          "part": [None, 64]}, dtype=F32),
    grid({LINES: [(1, 15, 120), (1, 1000, 300), (1, 2000, 1024), (1, 2048, 2000), (1, 2048, 2048)], "reverse": ON,
          "part": [None, 64]}, dtype=F32, cu_seqlens=True),
]  # fmt: skip
PEERS["flash-linear-attention", "linear recurrence"] = recurrence, [
    grid({LINES + " dtype": [(1, 63, 500, F32), (2, 1024, 500, F32), (2, 1024, 512, F32), (2, 1024, 1000, F32), (4,
         2048,
          2048, F32), (1, 63, 500, F16), (2, 500, 1000, F16), (2, 1000, 1024, F16), (4, 2048, 2048, F16)]}),
    grid({LINES: [(1, 15, 500), (1, 1000, 512), (1, 2000, 1000), (1, 2048, 2048)]}, dtype=F32, cu_seqlens=True),
]  # fmt: skip


def main():
    report(PEERS)


if __name__ == "__main__":
    main()
