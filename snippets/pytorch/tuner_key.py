# SPDX-License-Identifier: Apache-2.0
"""Whose tuner is at work under torch.compile, and does each length get its own winner?

The kernel stores its own block size into every element, ``out[i] = BLOCK``, so the result says which configuration ran:
small blocks suit short tensors, large ones long ones. Launched as it is, Triton's tuner chooses by ``key=["n"]``.
Compiled, a plain launch is tuned by Inductor, and one within a ``custom_op`` by Triton.

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
CONFIGS = [
    triton.Config({"BLOCK": 16}, num_warps=1),
    triton.Config({"BLOCK": 2**15}, num_warps=4),
]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def say_block_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, BLOCK, mask=i < n)
# --8<-- [end:kernel]


# --8<-- [start:ways]
def plain(x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    say_block_kernel[grid](out, n)
    return out


closed = custom_op("course::say_block", plain, mutates_args=())


@closed.register_fake
def _(x):
    return torch.empty_like(x)
# --8<-- [end:ways]


def chosen(function, n: int) -> int:
    """Return the block size of the configuration that ran for n elements."""
    blocks = function(torch.zeros(n, dtype=torch.int32, device="cuda")).unique().tolist()
    assert len(blocks) == 1, blocks
    return blocks[0]


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
            say_block_kernel.cache.clear()
            lengths = (SHORT, LONG, SHORT) if first == SHORT else (LONG, SHORT, LONG)
            print(f"{name}:", ", ".join(f"{n:,}: {chosen(function, n)}" for n in lengths))


if __name__ == "__main__":
    main()
