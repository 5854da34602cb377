# SPDX-License-Identifier: Apache-2.0
"""What torch.compile says, and what it makes of a kernel, beside a Triton that it was not built for.

The function is that of ``compile.py``: RMS norm, with a product before and a sum and ReLU after it. Whether a number of
columns is a multiple of 16 makes a difference, because Triton compiles that in.

Run it on a GPU with ``python other_triton.py``, after installing another Triton than the one that torch asks for.
Source: PyTorch, ``torch/_higher_order_ops/triton_kernel_wrap.py``.
"""

import logging
import textwrap
from importlib.metadata import requires

import torch
import triton
from torch import Tensor
from torch._dynamo.utils import counters

from snippets.pytorch.compile import WAYS, in_torch, with_neighbors

READER = "torch._dynamo"
WIDTH = 76  # of what is printed


# --8<-- [start:listen]
class Warned(logging.Handler):
    """Keep the warnings of torch.compile, each with its reason."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        because = f": {str(error).splitlines()[-1]}" if error else ""
        self.said.append(record.getMessage() + because)
# --8<-- [end:listen]


def asked_for() -> str:
    """Return the Triton that the installed torch asks for.

    >>> asked_for().count("==") <= 1
    True
    """
    found = [each.split(";")[0].strip() for each in requires("torch") or () if each.startswith("triton")]
    return found[0] if found else "none"


# --8<-- [start:compiled_by]
def compiled_by(way: str, x: Tensor, weight: Tensor) -> dict[str, str]:
    """Compile the function with CUDA graphs, call it a few times, and
    return what was said, and what it thinks of its inputs."""
    torch._dynamo.reset()
    counters.clear()
    x, weight = x.clone(), weight.clone()
    warned = Warned()
    logging.getLogger(READER).addHandler(warned)
    function = with_neighbors(WAYS[way])
    compiled = torch.compile(
        function, fullgraph=True, mode="reduce-overhead"
    )
    outs = [compiled(x, weight).clone() for _ in range(3)]
    logging.getLogger(READER).removeHandler(warned)
    wanted = with_neighbors(in_torch)(x, weight)
    right = all(torch.allclose(out, wanted, atol=1e-4) for out in outs)
    return {
        "warnings": "; ".join(dict.fromkeys(warned.said)) or "none",
        "results": "right" if right else "wrong",
        "its weight, written to": str(weight._version > 0),
        "CUDA graphs skipped": str(counters["inductor"]["cudagraph_skips"]),
    }
# --8<-- [end:compiled_by]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile runs Triton only on one")
    print(f"torch {torch.__version__.split('+')[0]} asks for: {asked_for()}")
    print(f"installed: triton {triton.__version__}")
    for columns in (1024, 1000):  # a multiple of 16, and none
        for way in WAYS:
            print(f"## {way}, {columns:,} columns")
            made = torch.Generator("cuda").manual_seed(0)
            x = torch.randn(256, columns, device="cuda", generator=made)
            weight = torch.rand(columns, device="cuda", generator=made)
            for what, found in compiled_by(way, x, weight).items():
                print(textwrap.fill(f"{what}: {found}", WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main()
