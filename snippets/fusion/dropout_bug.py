# SPDX-License-Identifier: Apache-2.0
"""Dropout, wrong on purpose in three ways. Do not copy these.

- ``offsets_bug`` numbers the elements of each program from 0, so that all programs drop the same ones.
- ``pid_bug`` adds the pid to the seed instead. The mask then depends on the block: a backward with another block drops
  other elements than its forward did.
- ``layers_bug`` gives one seed to all layers. What the first one keeps, all keep, multiplied each time.

The right kernels are those of ``dropout.py``.
Run it on a GPU with ``python dropout_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.dropout import dropout, scale_of


# --8<-- [start:offsets]
@triton.jit
def offsets_bug(x_ptr, out_ptr, seed, n, p, scale, BLOCK_SIZE: tl.constexpr):
    lane = tl.arange(0, BLOCK_SIZE)
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + lane
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    u = tl.rand(seed, lane)
    tl.store(out_ptr + offsets, tl.where(u >= p, x * scale, 0), mask=mask)
# --8<-- [end:offsets]


# --8<-- [start:pid]
@triton.jit
def pid_bug(x_ptr, out_ptr, seed, n, p, scale, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    lane = tl.arange(0, BLOCK_SIZE)
    offsets = pid * BLOCK_SIZE + lane
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    u = tl.rand(seed + pid, lane)
    tl.store(out_ptr + offsets, tl.where(u >= p, x * scale, 0), mask=mask)
# --8<-- [end:pid]


# --8<-- [start:layers]
def layers_bug(x, p, seed, layers):
    for _ in range(layers):
        x = dropout(x, p, seed=seed)
    return x
# --8<-- [end:layers]


def layers_right(x, p, seed, layers):
    for layer in range(layers):
        x = dropout(x, p, seed=seed + layer)
    return x


def dropped(kernel, x: torch.Tensor, p: float, seed: int, block_size: int) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, block_size),)](x, out, seed, n, p, scale_of(p), BLOCK_SIZE=block_size)
    return out


def marks(out: torch.Tensor) -> str:
    return " ".join("x" if each else "-" for each in out.tolist())


def main():
    device = "cuda" if isinstance(offsets_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## offsets")
    x = torch.ones(12, device=device)
    print("kept:", marks(dropped(offsets_bug, x, 0.5, 2, block_size=4)))
    x = torch.ones(16, 1024, device=device)
    kept = dropped(offsets_bug, x, 0.5, 2, block_size=1024) > 0
    print(f"16 blocks of 1024, share kept: {kept.double().mean().item():.2f}")
    print(f"different blocks: {len(kept.unique(dim=0))}")

    print("## pid")
    x = torch.ones(8, device=device)
    for name, block_size in {"forward, block of 4: ": 4, "backward, block of 8:": 8}.items():
        print(name, marks(dropped(pid_bug, x, 0.5, 2, block_size)))

    print("## layers")
    x = torch.ones(2**14, device=device)
    for name, out in {"one seed": layers_bug(x, 0.1, 2, 4), "a seed each": layers_right(x, 0.1, 2, 4)}.items():
        print(f"{name}, share kept: {(out > 0).double().mean().item():.2f}")
        print(f"{name}, mean: {out.double().mean().item():.2f}")


if __name__ == "__main__":
    main()
