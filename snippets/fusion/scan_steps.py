# SPDX-License-Identifier: Apache-2.0
"""Scans step by step: a row that fits into one block, pairs of steps joined, and the gradients checked.

All else is that of ``scan.py``.

Run it on a GPU with ``python scan_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.scan import cumsum, join, recurrence, shown


# --8<-- [start:block]
@triton.jit
def one_block_kernel(
    a_ptr, x_ptr, h_ptr, length, BLOCK: tl.constexpr
):  # fmt: skip
    t = tl.arange(0, BLOCK)
    mask = t < length
    a = tl.load(a_ptr + t, mask=mask, other=1)
    x = tl.load(x_ptr + t, mask=mask, other=0)
    _, h = tl.associative_scan((a, x), axis=0, combine_fn=join)
    tl.store(h_ptr + t, h, mask=mask)
# --8<-- [end:block]


def joined(steps: list[tuple[float, float]]) -> tuple[float, float]:
    """Return steps in a row as one."""
    gate, own = steps[0]
    for a, x in steps[1:]:
        gate, own = gate * a, a * own + x
    return gate, own


def main():
    device = "cuda" if isinstance(one_block_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## scans of a row")
    x = torch.tensor([4.0, 6.0, 0.0, 2.0, 10.0, 0.0], device=device)
    a = torch.full_like(x, 0.5)
    h = torch.empty_like(x)
    one_block_kernel[(1,)](a, x, h, 6, BLOCK=8)
    for name, values in {"x": x, "cumsum": cumsum(x), "a": a, "recurrence": h}.items():
        print(f"{name:10}", shown(values))

    print("## pairs")
    first, second = [(0.5, 4.0), (0.5, 6.0)], [(0.5, 0.0), (0.5, 2.0)]
    for name, steps in {"steps 0, 1": first, "steps 2, 3": second, "all four": [joined(first), joined(second)]}.items():
        print("{}: a {:g}, x {:g}".format(name, *joined(steps)))

    print("## gradients")
    torch.manual_seed(0)
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    a, x = torch.randn(2, 5, **options), torch.randn(2, 5, **options)
    for function, inputs in ((recurrence, (a, x)), (cumsum, (x,))):
        print(f"{function.__name__}, gradcheck:", torch.autograd.gradcheck(function, inputs))


if __name__ == "__main__":
    main()
