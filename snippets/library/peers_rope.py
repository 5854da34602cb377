# SPDX-License-Identifier: Apache-2.0
"""RoPE: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import functools
import math

import torch

from snippets.library import rope
from snippets.library.peers_compared import BF16, F16, F32, agrees, device, numbers, whole
from snippets.library.peers_run import BASIC, FLOATS, HALF, ON, grid, report


def rotary(batch, tokens, heads, head_dim, dtype, kv_heads=None, rotary_dim=None, table_dtype=None, offset=None,
           positions=False, tables="shared", packed=False, strided=False, of_one=False, left_pad=False,
           gradient=True, **options):  # fmt: skip
    """Compare RoPE: of tokens in order, from offsets, at any positions, or of sequences packed one after another."""
    half, kv_heads = ((rotary_dim or head_dim) + 1) // 2, heads if kv_heads is None else kv_heads
    planes = len(options.get("sections", [0]))
    angles = torch.rand(2 * tokens, half, device=device()) * 2 * math.pi
    q, k = (numbers(batch, tokens, n, head_dim + 64 * strided, dtype=dtype)[..., :head_dim] for n in (heads, kv_heads))
    if of_one:
        q, k = torch.cat([q, k, k], dim=2).split([heads, kv_heads, kv_heads], dim=2)[:2]
    at = whole(0, 2 * tokens, (planes, batch, tokens))
    if tables == "of each":  # as transformers make them: of each sequence, and each number twice
        angles = angles[at if planes > 1 else at[0]]
    if tables != "shared":
        angles, options["repeated"] = torch.cat([angles, angles], -1), "halves"
    cos, sin = (function(angles).to(table_dtype or dtype) for function in (torch.cos, torch.sin))
    if packed:
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        positions = torch.cat([torch.arange(tokens, device=device()) for _ in range(batch)])
        if offset:
            positions = positions + whole(0, tokens, (batch, 1)).expand(-1, tokens).flatten()
    elif positions:
        options["positions"] = at if planes > 1 else at[0]
    if left_pad:
        pads = torch.arange(batch, device=device()) * (tokens // (2 * batch))
        options["offset"] = -pads
        real = (torch.arange(tokens, device=device()) >= pads[:, None])[..., None, None]
    elif offset and not packed:
        options["offset"] = 5 if offset == "number" else whole(0, tokens, (batch,))
    if packed:
        options["positions"] = positions
    if options.get("heads_first"):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    tensors = [q, k] if kv_heads else [q]

    def run(function, q, k=None):
        if options.get("in_place"):
            q, k = q.clone(), None if k is None else k.clone()
        tables = (cos, sin) if function is rope.rope else (cos.to(q.dtype), sin.to(q.dtype))
        outs = function(q, k, *tables, **options)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return tuple(torch.where(real, out, 0) for out in outs) if left_pad else outs

    def exact(q, k, cos, sin, *, in_place=None, **more):
        if left_pad:
            more["offset"] = more["offset"].clamp(min=0) * 0
            more["positions"] = (torch.arange(tokens, device=device()) - pads[:, None]).clamp(min=0)
        return rope.in_torch(q, k, cos, sin, **more)

    return agrees(functools.partial(run, rope.rope), functools.partial(run, exact), *tensors, gradient=gradient)


OURS = {rotary: rope.rope}  # whose options a comparison passes on
PEERS = {}

# Liger-Kernel, test/transformers:
# https://github.com/linkedin/Liger-Kernel/tree/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c
HEADS = "batch tokens heads kv_heads head_dim"
MANY = [(1, 128, 32, 32, 64), (2, 128, 32, 32, 64), (1, 128, 32, 8, 64), (2, 128, 32, 8, 64), (3, 423, 73, 213, 92),
        (3, 423, 73, 155, 92)]  # fmt: skip
VISION = {"head_dim sections": [(128, (16, 24, 24)), (96, (16, 16, 16)), (64, (8, 12, 12))]}
PEERS["Liger-Kernel", "RoPE"] = rotary, [
    grid({HEADS: [*MANY, (1, 8192, 32, 8, 128), (1, 2, 2, 2, 8), (1, 2, 1, 2, 8), (9, 7, 41, 41, 41)], "dtype": FLOATS},
         tables="of each", heads_first=True),
    grid({HEADS: [(1, 128, 32, 32, 64), (1, 256, 16, 16, 128), (1, 423, 73, 73, 92)], "dtype": FLOATS},
         tables="of all", heads_first=True),
    grid({HEADS: [*MANY, (1, 2, 2, 2, 8), (1, 2, 1, 2, 8), (9, 7, 41, 41, 40)], "dtype": BASIC},
         interleaved=True, table_dtype=F32),
    grid(VISION | {"batch": [1, 2], "tokens": [128, 131], "heads kv_heads": [(64, 8), (28, 4), (12, 2)],
                   "dtype": BASIC}, tables="of each", heads_first=True),
]  # fmt: skip

# QuACK, tests: https://github.com/Dao-AILab/quack/tree/c8ec3170057987da0ec99883736f381ea1937cf3
ROTATED = {"interleaved": ON, "rotary_dim": [128, 64], "offset": [None, "of each"], "dtype": BASIC}
PARTS = [(d, part) for d in (32, 64, 96, 128) for part in range(8, d + 1, 8)] + [(256, 256), (512, 512)]
PEERS["QuACK", "RoPE"] = rotary, [
    grid(ROTATED | {"in_place": ON, "packed": ON}, batch=8, tokens=67, heads=4, kv_heads=0, head_dim=128),
    grid({"head_dim rotary_dim": PARTS, "inverse": ON, "interleaved": ON, "dtype": BASIC, "table_dtype": BASIC},
         batch=1, tokens=17, heads=1, kv_heads=0),
    grid(ROTATED | {"heads kv_heads": [(4, 4), (8, 4)]}, batch=4, tokens=64, head_dim=128, of_one=True, in_place=True),
]  # fmt: skip

# FlashAttention, tests: https://github.com/Dao-AILab/flash-attention/tree/0251105a2fb19d2957484b7f023cd8c115286ced
TURNED = {"interleaved": ON, "rotary_dim": [128, 64], "offset": [None, "number", "of each"], "dtype": HALF}
PEERS["FlashAttention", "RoPE"] = rotary, [
    grid(TURNED | {"in_place": ON, "packed": ON}, batch=32, tokens=217, heads=4, kv_heads=0, head_dim=128),
    grid(TURNED | {"heads kv_heads": [(4, 4), (8, 4)]}, batch=32, tokens=512, head_dim=128, of_one=True, in_place=True),
]  # fmt: skip

# vLLM, tests/kernels: https://github.com/vllm-project/vllm at 0cf5d8e8 (RoPE), 08011e0d (M-RoPE)
PEERS["vLLM", "RoPE"] = rotary, [
    grid({"interleaved": ON, "strided": ON, "tokens": [11, 8192], "head_dim rotary_dim": [(d, r) for d in (64, 80,
         120, 256)
          for r in (None, 32)], "dtype": [BF16, F32], "kv_heads": [17, 0]}, batch=5, heads=17, positions=True,
          gradient=0),
    grid({"tokens": [11, 8192], "heads kv_heads": [(28, 4), (14, 2), (64, 8), (32, 8), (16, 4), (32, 4), (16, 2)],
          "sections in_turns": [((16, 24, 24), None), ((24, 20, 20), True)]}, batch=1, head_dim=128, dtype=BF16,
         positions=True, gradient=0),
    grid({"tokens": [11, 8192], "heads kv_heads": [(32, 2), (16, 1)]}, batch=1, head_dim=128, rotary_dim=64, dtype=BF16,
         sections=(8, 12, 12), positions=True, gradient=0),
]  # fmt: skip

# flash-linear-attention, tests:
# https://github.com/fla-org/flash-linear-attention/tree/bc3b101dcb713ddc5bd8924b66754eb68b5ccf89
PEERS["flash-linear-attention", "RoPE"] = rotary, [
    grid({"tokens": [2048, 4096], "kv_heads": [4, 1], "head_dim": [128, 256], "dtype offset packed": [(BF16, None,
         None),
          (F32, "of each", None), (BF16, "of each", None), (F32, None, True), (BF16, None, True)]}, batch=2, heads=4),
    grid({"tokens": [2048, 4096], "head_dim": [128, 256], "dtype": [F32, F16]}, batch=4, heads=4, left_pad=True,
         gradient=0),
    grid({"tokens": [256, 2048], "head_dim": [128, 256], "dtype": [F32, F16]}, batch=2, heads=4, rotary_dim=64),
]  # fmt: skip


def main():
    report(PEERS, OURS)


if __name__ == "__main__":
    main()
