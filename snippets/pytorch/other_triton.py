# SPDX-License-Identifier: Apache-2.0
"""What torch.compile says, and what it makes of a kernel, beside a Triton that it was not built for.

The function is that of ``compile.py``: RMS norm, with a product before and a sum and ReLU after it.

Run it on a GPU with ``python other_triton.py``, after installing another Triton than the one that torch asks for.
Source: PyTorch, ``torch/_higher_order_ops/triton_kernel_wrap.py``.
"""

import logging
from importlib.metadata import requires

import torch
import triton

from snippets.pytorch.compile import WAYS, called_in, in_torch, with_neighbors

READER = "torch._higher_order_ops.triton_kernel_wrap"


# --8<-- [start:listen]
class Warned(logging.Handler):
    """Keep the warnings of what reads a kernel for torch.compile."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        because = f" ({type(error).__name__}: {error})" if error else ""
        self.said.append(record.getMessage() + because)
# --8<-- [end:listen]


def asked_for() -> str:
    """Return the Triton that the installed torch asks for.

    >>> asked_for().count("==") <= 1
    True
    """
    found = [each.split(";")[0].strip() for each in requires("torch") or () if each.startswith("triton")]
    return found[0] if found else "none"


def compiled_by(way: str, x, weight) -> dict[str, str]:
    """Compile the function with a kernel given to torch.compile in one way, and return what came of it."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    warned = Warned()
    logger = logging.getLogger(READER)
    logger.addHandler(warned)
    try:
        compiled = torch.compile(with_neighbors(WAYS[way]), fullgraph=True)
        out, (code, *_) = run_and_get_code(compiled, x, weight)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}
    finally:
        logger.removeHandler(warned)
    right = torch.allclose(out, with_neighbors(in_torch)(x, weight), rtol=1e-4, atol=1e-4)
    return {
        "warnings": "; ".join(dict.fromkeys(warned.said)) or "none",
        "as torch": str(right),
        "calls": ", ".join(called_in(code)),
    }


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile runs Triton only on one")
    print(f"torch {torch.__version__.split('+')[0]} asks for: {asked_for()}")
    print(f"installed: triton {triton.__version__}")
    random = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(256, 1024, device="cuda", generator=random)
    weight = torch.rand(1024, device="cuda", generator=random)
    for way in WAYS:
        print(f"## {way}")
        for what, found in compiled_by(way, x, weight).items():
            print(f"{way}, {what}: {found}")


if __name__ == "__main__":
    main()
