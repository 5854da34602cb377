# SPDX-License-Identifier: Apache-2.0
"""Show what a kernel can be given: each value goes in, what the kernel found comes out, and a refusal says why.

A tensor arrives as a pointer to its first element. A number arrives in the smallest type of Triton's list that holds
it; ``None`` and every ``tl.constexpr`` are part of the compiled code and do not arrive at all.

Source: Triton's launch, ``kernel[grid](...)``; no algorithm of anybody's.

Run it on a GPU with ``python programs_and_threads_arguments.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python programs_and_threads_arguments.py``.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def arguments_kernel(out_ptr, value, DTYPE: tl.constexpr):
    if value is None:
        tl.store(out_ptr, -1.0)
    else:
        tl.store(out_ptr, tl.cast(value, DTYPE))
# --8<-- [end:kernel]


def received(value, dtype: tl.dtype = tl.float64, *, device) -> float:
    """Return what a kernel that is given ``value`` finds in it, after a cast to ``dtype``; -1 if it finds ``None``.

    Whatever cannot be given to a kernel is refused by Triton, with an error of its own.

    >>> received(7, device="cpu")
    7.0
    """
    out = torch.empty(1, dtype=torch.float64, device=device)
    with torch.cuda.device_of(out):
        arguments_kernel[(1,)](out, value, DTYPE=dtype)
    return out.item()


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(arguments_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    for value, dtype in (
        (7, tl.float64),
        (2**40, tl.float64),
        (1, tl.float64),
        (True, tl.float64),
        (0.1, tl.float64),
        (0.1, tl.int32),
        (None, tl.float64),
        ("text", tl.float64),
    ):
        try:
            found = f"{received(value, dtype, device=device):.17g}"
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(f"given {value!r}, stored as {dtype}: {found}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
