# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: a program whose threads hand numbers to each other through memory, and do not wait for each other.

Each program writes its block into a scratch tensor and reads it back in reverse, so that a thread reads what another
one wrote. ``reverse_bug`` does not wait in between; ``reverse`` does, by ``tl.debug_barrier``.

Shapes: one-dimensional, int32, contiguous, a multiple of ``BLOCK_SIZE``.

Run it on a GPU with ``python hierarchy_bug.py``, or without one in Triton's interpreter, where nothing goes wrong, with
``TRITON_INTERPRET=1 python hierarchy_bug.py``.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 1024


# --8<-- [start:bug]
@triton.jit
def reverse_kernel(
    x_ptr, scratch_ptr, out_ptr, BLOCK_SIZE: tl.constexpr, WAIT: tl.constexpr
):
    first = tl.program_id(axis=0) * BLOCK_SIZE
    lanes = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + first + lanes)
    tl.store(scratch_ptr + first + lanes, x)
    if WAIT:
        tl.debug_barrier()
    # What other threads wrote:
    mirrored = tl.load(scratch_ptr + first + BLOCK_SIZE - 1 - lanes)
    tl.store(out_ptr + first + lanes, mirrored)
# --8<-- [end:bug]


def launch(x: torch.Tensor, wait: bool) -> torch.Tensor:
    if x.dtype != torch.int32 or x.dim() != 1 or not x.is_contiguous() or x.numel() % BLOCK_SIZE:
        raise ValueError(f"x must be contiguous int32, of one dimension, a multiple of {BLOCK_SIZE}; got {x.shape}")
    scratch, out = torch.full_like(x, -1), torch.empty_like(x)  # -1: not written yet
    if x.numel():
        reverse_kernel[(x.numel() // BLOCK_SIZE,)](x, scratch, out, BLOCK_SIZE=BLOCK_SIZE, WAIT=wait, num_warps=8)
    return out


def reverse_bug(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with each block of 1024 reversed, except where a thread read before another one had written."""
    return launch(x, wait=False)


def reverse(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, int32, with each block of 1024 reversed. Raises ``ValueError`` for what it cannot serve.

    >>> reverse(torch.arange(2048, dtype=torch.int32))[[0, 1023, 1024]]
    tensor([1023,    0, 2047], dtype=torch.int32)
    """
    return launch(x, wait=True)


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(reverse_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    programs = 16384 if device == "cuda" else 16
    x = torch.arange(programs * BLOCK_SIZE, dtype=torch.int32, device=device)
    right = x.view(-1, BLOCK_SIZE).flip(1)
    for name, function in (("no barrier", reverse_bug), ("tl.debug_barrier", reverse)):
        out = function(x).view(-1, BLOCK_SIZE)
        print(f"{name}, wrong elements: {int((out != right).sum())}")
        print(f"{name}, programs with one: {int((out != right).any(1).sum())}")
    print(f"elements: {x.numel()}")
    print(f"programs: {programs}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
