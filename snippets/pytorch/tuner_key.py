# SPDX-License-Identifier: Apache-2.0
"""Whose tuner is at work under torch.compile, and does each length get its own winner?

The kernel stores into every element how many programs its configuration starts, ``out[i] = PROGRAMS``, so the result
says which configuration ran: one program suits a short tensor, thousands a long one. Launched as it is, Triton's tuner
chooses by ``key=["n"]``. Compiled, a plain launch is tuned by Inductor, and one within a ``custom_op`` by Triton.

Shapes: ``out`` (n,), int32.
Source: the question, https://github.com/pytorch/pytorch/issues/164124.

Run it on a GPU with ``python tuner_key.py``: torch.compile runs Triton only there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

SHORT, LONG = 16, 2**24


# --8<-- [start:kernel]
CONFIGS = [triton.Config({"PROGRAMS": count}) for count in (1, 16384)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def say_programs_kernel(
    out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):
    begin = tl.program_id(axis=0) * BLOCK
    for start in range(begin, n, PROGRAMS * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, PROGRAMS, mask=i < n)
# --8<-- [end:kernel]


# --8<-- [start:ways]
def plain(x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    grid = lambda meta: (meta["PROGRAMS"],)
    say_programs_kernel[grid](out, n, BLOCK=1024)
    return out


closed = custom_op("course::say_programs", plain, mutates_args=())


@closed.register_fake
def _(x):
    return torch.empty_like(x)
# --8<-- [end:ways]


def chosen(function, n: int) -> int:
    """Return how many programs the configuration starts that ran for n elements."""
    counts = function(torch.zeros(n, dtype=torch.int32, device="cuda")).unique().tolist()
    assert len(counts) == 1, counts
    return counts[0]


# --8<-- [start:cases]
def cases() -> dict:
    torch._dynamo.reset()
    compiled = lambda function, **how: torch.compile(
        function, fullgraph=True, **how
    )
    return {
        "eager": plain,
        "compiled": compiled(plain),
        "compiled, dynamic=True": compiled(plain, dynamic=True),
        "compiled, in a custom_op": compiled(closed, dynamic=True),
    }
# --8<-- [end:cases]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile runs Triton only on one")
    for first in (SHORT, LONG):
        print(f"## first a length of {first:,}")
        for name, function in cases().items():
            say_programs_kernel.cache.clear()
            lengths = (SHORT, LONG, SHORT) if first == SHORT else (LONG, SHORT, LONG)
            print(f"{name}:", "; ".join(f"{n:,}, programs: {chosen(function, n):,}" for n in lengths))


if __name__ == "__main__":
    main()
