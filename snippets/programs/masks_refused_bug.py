# SPDX-License-Identifier: Apache-2.0
"""Kernels that Triton refuses, and two conditions that mean something else than they say. Do not copy these kernels.

- ``block_of_three_bug``, ``huge_block_bug``, ``run_time_block_bug``: blocks of sizes that there are not
- ``slice_bug``, ``boolean_index_bug``: a part of a block, asked for as in NumPy
- ``and_bug``: joins two masks by ``and``. The compiler warns and takes it for ``&``; the interpreter is Python, where
  ``a and b`` is ``b``
- ``no_parentheses_bug``: ``r < n & c < n`` is ``r < (n & c) < n``; the compiler of Triton 3.6 refuses such a chain

Run it on a GPU with ``python masks_refused_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import re
import textwrap
import warnings

import torch
import triton
import triton.language as tl


# --8<-- [start:blocks]
@triton.jit
def block_of_three_bug(x_ptr, out_ptr, n):
    lanes = tl.arange(0, 3)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


@triton.jit
def huge_block_bug(x_ptr, out_ptr, n):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 2097152))))  # 2**21


@triton.jit
def run_time_block_bug(x_ptr, out_ptr, n):
    lanes = tl.arange(0, n)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))
# --8<-- [end:blocks]


# --8<-- [start:slices]
@triton.jit
def slice_bug(x_ptr, out_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(out_ptr + tl.arange(0, 2), x[0:2])


@triton.jit
def boolean_index_bug(x_ptr, out_ptr, n):
    lanes = tl.arange(0, 4)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr, tl.sum(x[lanes < n]))
# --8<-- [end:slices]


# --8<-- [start:and]
@triton.jit
def and_bug(x_ptr, out_ptr, n):
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    mask = (r < n) and (c < n)
    x = tl.load(x_ptr + 4 * r + c, mask=mask)
    tl.store(out_ptr + 4 * r + c, x, mask=mask)
# --8<-- [end:and]


# --8<-- [start:no_parentheses]
@triton.jit
def no_parentheses_bug(x_ptr, out_ptr, n):
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    mask = r < n & c < n
    x = tl.load(x_ptr + 4 * r + c, mask=mask)
    tl.store(out_ptr + 4 * r + c, x, mask=mask)
# --8<-- [end:no_parentheses]


REFUSED = {
    "tl.arange(0, 3)": block_of_three_bug,
    "tl.arange(0, 2**21)": huge_block_bug,
    "tl.arange(0, n)": run_time_block_bug,
    "x[0:2]": slice_bug,
    "x[lanes < n]": boolean_index_bug,
}
JOINED = {"and": and_bug, "no parentheses": no_parentheses_bug}


def innermost(error: BaseException) -> BaseException:
    """Return the error that the others were raised from: the compiler and the interpreter wrap it differently."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def attempt(kernel, device, n=3):
    """Launch ``kernel`` on 0, 1, … 15. Return the result, -1 where nothing was stored, and what was said."""
    x = torch.arange(16, device=device)
    out = torch.full_like(x, -1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            kernel[(1,)](x, out, n)
            said = [f"{type(w.message).__name__}: {w.message}" for w in warned if issubclass(w.category, UserWarning)]
        except Exception as error:
            cause = innermost(error)
            message = re.sub(r" at 0x\w+", "", str(cause)).strip().splitlines()[-1]
            return None, f"{type(cause).__name__}: {message}"
    return out.view(4, 4), said[0] if said else None


def main():
    device = "cuda" if isinstance(slice_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## refused")
    for name, kernel in REFUSED.items():
        _, said = attempt(kernel, device)
        print(name)
        print(textwrap.fill(said, 72, initial_indent="    ", subsequent_indent="    "))
    for name, kernel in JOINED.items():
        print("##", name)
        stored, said = attempt(kernel, device)
        if said:
            print(textwrap.fill(said, 72))
        if stored is not None:
            print("\n".join(str(row) for row in stored.tolist()))


if __name__ == "__main__":
    main()
