# SPDX-License-Identifier: Apache-2.0
"""A transformer block of fused kernels, most from ``snippets/library/``, and the same block of PyTorch's operations.

The block is Llama's. ``x`` is what the layer before has added, ``residual`` the sum until then::

    y, residual = add_rms_norm(x, residual)           # one kernel
    q, k, v = y @ qkv                                 # cuBLAS
    q, k = rope(q, k)                                 # one kernel
    x = attention(q, k, v) @ out                      # one kernel; cuBLAS
    y, residual = add_rms_norm(x, residual)           # one kernel
    x = swiglu(y @ gate_up) @ down                    # cuBLAS; one kernel; cuBLAS

- :class:`Block`: the block; :class:`Ops` says whose operations it calls, ``OURS`` or ``TORCH``
- :class:`Model`: an embedding, blocks, and a loss; :func:`repeated` makes something for it to learn

Shapes: ``x``, ``residual`` and the results ``(batch, tokens, dim)``.
Source: Touvron and others, *LLaMA*, 2023, for the block; Olsson and others, *In-context Learning and Induction Heads*,
2022, for sequences that repeat themselves.

Run it on a GPU with ``python block.py``, or with ``TRITON_INTERPRET=1 python block.py`` in the interpreter.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
from torch.nn import functional

from snippets.fusion.linear_cross_entropy import linear_cross_entropy
from snippets.library.attention import attention, attention_kernel
from snippets.library.norms import add_rms_norm, rms_norm
from snippets.library.rope import rope, rope_tables
from snippets.library.swiglu import swiglu

EPS = 1e-6


# --8<-- [start:ops]
class Ops(NamedTuple):
    """The operations of a block, except for plain products."""

    norm: Callable  # of x and a weight
    # Of x, a residual and a weight; also returns the sum.
    add_norm: Callable
    # Of q and k (batch, tokens, heads, head_dim), cos and sin.
    rope: Callable
    # causal, of q, k and v (batch, heads, tokens, head_dim).
    attention: Callable
    swiglu: Callable  # of gate and up in one tensor
    # Of hidden (tokens, dim), the last weight and the targets.
    loss: Callable


OURS = Ops(
    norm=lambda x, weight: rms_norm(x, weight, EPS),
    add_norm=lambda x, residual, weight: add_rms_norm(
        x, residual, weight, EPS
    ),
    rope=rope,
    attention=lambda q, k, v: attention(q, k, v, causal=True),
    swiglu=swiglu,
    loss=linear_cross_entropy,
)
# --8<-- [end:ops]


# --8<-- [start:torch]
def torch_norm(x, weight):
    return functional.rms_norm(x, weight.shape, weight.to(x.dtype), EPS)


def torch_add_norm(x, residual, weight):
    residual = x + residual
    return torch_norm(residual, weight), residual


def torch_rope(q, k, cos, sin):
    def turned(x):
        a, b = x.chunk(2, dim=-1)
        c, s = (table[: x.shape[1], None].to(x.dtype) for table in (cos, sin))
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1)

    return turned(q), turned(k)


def torch_attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def torch_swiglu(x):
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def torch_loss(hidden, weight, target):
    return functional.cross_entropy((hidden @ weight.t()).float(), target)


TORCH = Ops(torch_norm, torch_add_norm, torch_rope, torch_attention, torch_swiglu, torch_loss)
# --8<-- [end:torch]


# --8<-- [start:block]
class Block(torch.nn.Module):
    """A Llama block. Weights are float32 and are rounded to the dtype of ``x``; ``ops`` is ``OURS`` or ``TORCH``."""

    def __init__(self, dim: int, heads: int, kv_heads: int, hidden: int, ops: Ops = OURS, device=None):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.ops = heads, kv_heads, dim // heads, ops
        ones = lambda: torch.nn.Parameter(torch.ones(dim, device=device))
        weight = lambda *shape: torch.nn.Parameter(torch.randn(shape, device=device) * shape[1] ** -0.5)
        self.first_norm, self.second_norm = ones(), ones()
        self.qkv = weight((heads + 2 * kv_heads) * self.head_dim, dim)
        self.out = weight(dim, dim)
        self.gate_up, self.down = weight(2 * hidden, dim), weight(dim, hidden)

    def forward(self, x, residual, cos, sin):
        ops, (batch, tokens, _) = self.ops, x.shape
        # --8<-- [start:forward]
        if residual is None:  # before the first block
            y, residual = ops.norm(x, self.first_norm), x
        else:
            y, residual = ops.add_norm(x, residual, self.first_norm)
        qkv = linear(y, self.qkv).view(batch, tokens, -1, self.head_dim)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        q, k = ops.rope(q, k, cos, sin)
        mixed = ops.attention(*(each.transpose(1, 2) for each in (q, k, v)))
        x = linear(mixed.transpose(1, 2).reshape(batch, tokens, -1), self.out)
        y, residual = ops.add_norm(x, residual, self.second_norm)
        return linear(ops.swiglu(linear(y, self.gate_up)), self.down), residual
        # --8<-- [end:forward]


def linear(x, weight):
    return x @ weight.to(x.dtype).t()
# --8<-- [end:block]


# --8<-- [start:model]
class Model(torch.nn.Module):
    """An embedding, blocks, a norm, and the loss of each token's successor; computed in ``dtype``."""

    def __init__(self, tokens: int, vocabulary: int, dim: int, heads: int, blocks: int, ops: Ops, dtype, device=None):
        super().__init__()
        self.ops, self.dtype = ops, dtype
        self.embedding = torch.nn.Parameter(torch.randn(vocabulary, dim, device=device))
        self.blocks = torch.nn.ModuleList(Block(dim, heads, heads, 2 * dim, ops, device) for _ in range(blocks))
        self.norm = torch.nn.Parameter(torch.ones(dim, device=device))
        self.head = torch.nn.Parameter(torch.randn(vocabulary, dim, device=device) * dim**-0.5)
        self.tables = rope_tables(tokens, dim // heads, device=device)

    def forward(self, sequences):
        """Return the mean loss of the second half of each of ``sequences (batch, tokens + 1)``."""
        x, residual = functional.embedding(sequences[:, :-1], self.embedding).to(self.dtype), None
        for block in self.blocks:
            x, residual = block(x, residual, *self.tables)
        hidden, _ = self.ops.add_norm(x, residual, self.norm)
        half = hidden.shape[1] // 2
        target = sequences[:, half + 1 :].reshape(-1)
        hidden = hidden[:, half:].reshape(len(target), -1)
        return self.ops.loss(hidden, self.head.to(self.dtype), target)


def repeated(batch: int, tokens: int, vocabulary: int, generator) -> torch.Tensor:
    """Return random numbers, then the same again, ``(batch, tokens + 1)``: the second half follows from the first."""
    half = torch.randint(vocabulary, (batch, tokens // 2), generator=generator)
    return torch.cat([half, half, half[:, :1]], dim=1)
# --8<-- [end:model]


# --8<-- [start:train]
def train(model: Model, steps: int, batch: int, tokens: int, vocabulary: int, seed: int = 1) -> list[float]:
    """Return the loss before each step, all steps on new sequences, which ``seed`` decides."""
    device = model.head.device
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = model(repeated(batch, tokens, vocabulary, generator).to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # not .item(), which would wait for the GPU in each step
    return torch.stack(losses).tolist()
# --8<-- [end:train]


def largest_difference(found, wanted) -> float:
    """Return the largest difference between tensors, as a share of the largest number of each."""
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, wanted, strict=True))


def both_ways(make: Callable[[Ops], torch.nn.Module], run: Callable) -> list[list[torch.Tensor]]:
    """Return, for ours and torch's, what ``run`` returns for the module, and the gradients of its parameters."""
    found = []
    for ops in (OURS, TORCH):
        torch.manual_seed(0)
        module = make(ops)
        results = run(module)
        grads = torch.autograd.grad(sum(each.square().mean() for each in results), list(module.parameters()))
        found.append([*results, *grads])
    return found


def main():
    device = "cuda" if isinstance(attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## a block")
    x, residual = torch.randn(2, 2, 5, 64, generator=torch.Generator().manual_seed(0)).to(device)
    cos, sin = rope_tables(5, 16, device=device)
    make = lambda ops: Block(64, heads=4, kv_heads=2, hidden=96, ops=ops, device=device)
    found, wanted = both_ways(make, lambda block: block(x, residual, cos, sin))
    print(f"results and gradients: {len(found)}")
    print("as torch:", largest_difference(found, wanted) < 1e-4)

    print("## two steps of a model")
    for name, ops in {"ours": OURS, "torch": TORCH}.items():
        torch.manual_seed(0)
        model = Model(16, 8, 32, heads=2, blocks=1, ops=ops, dtype=torch.float32, device=device)
        print(f"{name}:", *(f"{loss:.4f}" for loss in train(model, 2, batch=2, tokens=16, vocabulary=8)))


if __name__ == "__main__":
    main()
