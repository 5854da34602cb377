# SPDX-License-Identifier: Apache-2.0
"""Vector add with a slip: the wrapper takes ``X`` and ``Y``, and its body says ``x`` and ``y``. Do not copy it.

In a file of its own it raises ``NameError``. In a notebook, where an earlier cell has left an ``x`` and a ``y``, it
runs, and adds those instead of what it was given.

Run it on a GPU with ``python vector_add_names_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.programs.vector_add import add_kernel


# --8<-- [start:wrapper]
def add_bug(X, Y):
    out = torch.empty_like(x)  # noqa: F821
    n = out.numel()
    add_kernel[(triton.cdiv(n, 4),)](
        x, y, out, n, BLOCK_SIZE=4,  # noqa: F821
    )  # fmt: skip
    return out
# --8<-- [end:wrapper]


def main():
    device = "cuda" if isinstance(add_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    a = torch.arange(7.0, device=device)
    try:
        add_bug(a, a)
    except NameError as error:
        print(f"add_bug(a, a): NameError: {error}")
    names = globals()
    names["x"] = names["y"] = torch.full((7,), 50.0, device=device)  # as an earlier cell of a notebook might
    print("after x = y = seven times 50")
    print("add_bug(a, a):", add_bug(a, a).tolist())
    print("a + a:        ", (a + a).tolist())


if __name__ == "__main__":
    main()
