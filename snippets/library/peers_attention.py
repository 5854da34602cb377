# SPDX-License-Identifier: Apache-2.0
"""Attention, of whole or packed sequences and while decoding: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import functools
import itertools
import random

import torch
import triton

from snippets.library import attention as attentions
from snippets.library.decoding import decode_attention
from snippets.library.peers_compared import BF16, F16, FP8, TOLERANCE, agrees, device, numbers, whole
from snippets.library.peers_run import HALF, ON, grid, report


def attention(batch, heads, keys, head_dim, dtype, queries=None, kv_heads=None, causal=False, window=None, alibi=False,
              softcap=None, sinks=False, scale=None, packed=False, cu_seqlens=None):  # fmt: skip
    """Compare attention: of a batch, or of sequences packed one after another, some a little shorter than others."""
    queries = queries or keys
    options = {"causal": causal, "softcap": softcap, "scale": scale, "window": (None, None)}
    if window:  # True: some to both sides; a number: so many up to itself
        options["window"] = (keys // 3, keys // 5) if window is True else (window - 1, None)
    if alibi:
        options["alibi_slopes"] = torch.rand(*([] if packed else [batch]), heads, device=device()) * 0.3
    if not packed:
        shapes = (batch, queries, heads), (batch, keys, kv_heads or heads), (batch, keys, kv_heads or heads)
        tensors = [numbers(*shape, head_dim, dtype=dtype).transpose(1, 2) for shape in shapes]
        ours = attentions.attention
        exact = lambda *given, **more: attentions.in_torch(*given, **more)[0]
    else:
        lengths = [[n - random.randrange(min(n, 20)) for _ in range(batch)] for n in (queries, keys)]
        ends = [[0, *itertools.accumulate(each)] for each in lengths] if cu_seqlens is None else [cu_seqlens] * 2
        shapes = (ends[0][-1], heads), (ends[1][-1], kv_heads or heads), (ends[1][-1], kv_heads or heads)
        tensors = [numbers(*shape, head_dim, dtype=dtype) for shape in shapes]
        cu = [torch.tensor(each, dtype=torch.int32, device=device()) for each in ends]
        ours = lambda q, k, v, **more: attentions.attention_variable(q, k, v, *cu, **more)
        exact = functools.partial(one_by_one, *ends)
    if sinks:
        tensors.append(numbers(heads))
    slopes = options.pop("alibi_slopes", None)

    def run(function, q, k, v, s=None):
        kept = slopes if slopes is None or function is ours else slopes.to(q.dtype)
        return function(q, k, v, sinks=s, alibi_slopes=kept, **options)

    sides = functools.partial(run, ours), functools.partial(run, exact)
    return agrees(*sides, *tensors, tolerance=TOLERANCE[dtype], floor=0.1)


def one_by_one(ends_q, ends_k, q, k, v, **options):
    """Compute the attention of each packed sequence by torch."""
    cut = lambda x, ends: [x[a:b].transpose(0, 1)[None] for a, b in itertools.pairwise(ends)]
    parts = zip(cut(q, ends_q), cut(k, ends_k), cut(v, ends_k), strict=True)
    return torch.cat([attentions.in_torch(*each, **options)[0][0].transpose(0, 1) for each in parts])


def decoding(heads, head_dim, dtype, batch=None, queries=None, keys=None, sequences=None, kv_heads=None,
             value_dim=None, causal=False, window=None, alibi=False, softcap=None, page_size=None, pages=None,
             cache=None, q_dtype=None):  # fmt: skip
    """Compare queries to a cache, in pages or not; queries are packed if there are lengths of sequences."""
    lengths = sequences or [(queries, random.randint(1, keys)) for _ in range(batch)]
    keys, kv_heads = max([k for _, k in lengths] + [keys or 0]), kv_heads or heads
    options = {"causal": causal, "softcap": softcap, "window": (None, None)}
    if window:
        options["window"] = (keys // 3, keys // 5) if window is True else (window - 1, None)
    slopes = torch.rand(len(lengths), heads, device=device()) * 0.3 if alibi else None
    if page_size:
        columns = triton.cdiv(keys, page_size)
        table = whole(0, pages or columns * len(lengths), (len(lengths), columns)).int()
        shape = (pages or columns * len(lengths), page_size, kv_heads)
        rows = lambda x, i: x[table[i]].flatten(0, 1)
    else:
        table, shape = None, (len(lengths), keys, kv_heads)
        rows = lambda x, i: x[i]
    k, v = (numbers(*shape, width, dtype=dtype).to(cache or dtype) for width in (head_dim, value_dim or head_dim))
    ends = [0, *itertools.accumulate(q for q, _ in lengths)]
    q = numbers(ends[-1], heads, head_dim, dtype=dtype).to(q_dtype or dtype)
    scales = {name: torch.tensor(s, device=device()) for name, s in (("k_scale", 0.5), ("v_scale", 0.25)) if cache}
    more = options | scales | {"page_table": table, "alibi_slopes": slopes}
    more["lengths"] = torch.tensor([k for _, k in lengths], device=device())
    if sequences:
        more |= {"cu_seqlens_q": torch.tensor(ends, device=device()), "max_seqlen_q": max(n for n, _ in lengths)}

    def ours(q):
        given = (k, v) if page_size else (k.transpose(1, 2), v.transpose(1, 2))
        if sequences:
            return decode_attention(q, *given, **more)
        return decode_attention(q.view(batch, queries, *q.shape[1:]).transpose(1, 2), *given, **more).transpose(1, 2)

    def exact(q):
        outs = []
        for i, (begin, (_, length)) in enumerate(zip(ends, lengths, strict=False)):
            kept = [rows(x, i)[:length].to(q.dtype).transpose(0, 1)[None] for x in (k, v)]
            kept = [x * scale for scale, x in zip(scales.values() or (1, 1), kept, strict=True)]
            each = options | ({"alibi_slopes": slopes[i]} if alibi else {})
            out, _ = attentions.in_torch(q[begin : ends[i + 1]].transpose(0, 1)[None], *kept, **each)
            outs.append(out[0].transpose(0, 1))
        return torch.cat(outs) if sequences else torch.stack(outs)

    return agrees(ours, exact, q, gradient=False, tolerance=TOLERANCE[cache or dtype])


PEERS = {}

# FlashAttention, tests: https://github.com/Dao-AILab/flash-attention/tree/0251105a2fb19d2957484b7f023cd8c115286ced
DIMS = [32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256]
PAIRS = [(113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024),
         (1024, 1023), (2048, 2048)]  # fmt: skip
SHORT = [(1, 239), (3, 799), (127, 512), (127, 513), (113, 203), (128, 217), (113, 211), (108, 256), (256, 512),
         (1023, 1024)]  # fmt: skip
SWAPPED = SHORT + [(k, q) for q, k in SHORT]
SPLIT = [(3, 1024), (1, 339), (64, 800), (3, 799), (64, 2048), (16, 20000), (16, 100000), (128, 128), (256, 256)]
SEEN = {"causal": ON, "window": ON, "alibi": ON}
BASE = {"head_dim": DIMS, "dtype": HALF}
RACES = [(1, 239), (239, 1), (3, 799), (799, 3), (1024, 128)] + [(n, n) for n in
         (97, 128, 200, 256, 257, 384, 512, 768, 1024)]  # fmt: skip
same = lambda lengths: {"queries keys": [(n, n) for n in lengths]}
PEERS["FlashAttention", "attention"] = attention, [
    grid(BASE | SEEN | {"queries keys": PAIRS, "kv_heads": [6, 1, 2], "dropout": [None, 0.17]}, batch=4, heads=6),
    grid(BASE | SEEN | {"queries keys": PAIRS, "kv_heads": [4, 1, 2]}, batch=4, heads=4, softcap=50.0),
    grid(BASE | SEEN | same([97, 128, 200, 384, 768, 1024, 1025, 2048]) | {"dropout": [None, 0.17]}, batch=4, heads=9),
    grid(BASE | {"queries keys": SWAPPED, "window": ON}, batch=8, heads=9, causal=True),
    grid(BASE | SEEN | {"queries keys": SPLIT + [(k, q) for q, k in SPLIT]}, batch=1, heads=12),
    grid({"head_dim": DIMS, "queries keys": RACES, "causal": ON, "dropout": [None, 0.17]}, batch=60, heads=4,
         dtype=F16),
    grid({"head_dim": [16, 32, 64], "causal": ON} | same([1, 2, 5, 17, 128]), batch=2, heads=5, dtype=F16),
    grid({"head_dim": [64, 128], "causal": ON, "dtype": HALF} | same([97, 128, 200, 256]), batch=5, heads=2),
]  # fmt: skip
PEERS["FlashAttention", "packed attention"] = attention, [
    grid(BASE | SEEN | {"queries keys": [(1, 147), *PAIRS], "kv_heads": [6, 1, 2], "dropout": [None, 0.17]}, batch=4,
         heads=6, packed=True),
    grid(BASE | SEEN | {"queries keys": [(1, 147), *PAIRS], "kv_heads": [4, 1, 2]}, batch=4, heads=4, packed=True,
         softcap=50.0),
    grid(BASE | SEEN | same([97, 128, 200, 257, 384, 512, 768, 1025, 2048]) | {"dropout": [None, 0.17]}, batch=5,
         heads=6, packed=True),
    grid(BASE | {"queries keys": SWAPPED, "window": ON}, batch=8, heads=9, causal=True, packed=True),
]  # fmt: skip
CACHED = {"queries keys": [(1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000),
          (1, 131072), (16, 131072), (128, 128)], "head_dim": [32, 59, 64, 80, 128, 256],
          "kv_heads": [6, 1, 3]}  # fmt: skip
APPENDED = {"append": [True], "rotary_of_new": [None, "half", "all"], "rotary_interleaved": ON}
PEERS["FlashAttention", "decoding"] = decoding, [
    *(grid(CACHED | SEEN | {"page_size left_pad": [(None, None), (None, True), (256, None)]} | more, batch=2, heads=6,
           dtype=F16) for more in ({}, APPENDED)),
    grid(BASE | {"queries keys": SWAPPED, "window": ON, "page_size": [256, 512]}, batch=8, heads=9, causal=True),
]  # fmt: skip

# triton-lang/kernels, test: https://github.com/triton-lang/kernels/tree/eeeebdd8be7d13629de22d600621e6234057eed3
PEERS["triton-lang/kernels", "attention"] = attention, [
    grid({"head_dim": [16, 32, 64, 128], "dtype": HALF, "causal": ON}, batch=2, heads=4, queries=512, keys=512,
         scale=0.5),
]  # fmt: skip

# vLLM, tests/kernels: https://github.com/vllm-project/vllm at 003ee616 and 16ef2eba
SEQUENCES = [((1, 1328), (5, 18), (129, 463)), ((1, 523), (1, 37), (1, 2011))]
PAGED = {"sequences": SEQUENCES, "heads kv_heads": [(4, 4), (8, 2), (5, 1)], "head_dim": [128, 256],
         "pages": [32768, 2048]}  # fmt: skip
PEERS["vLLM", "decoding"] = decoding, [
    grid(PAGED | {"window": [None, 64, 128, 256], "softcap": [None, 50.0], "q_dtype cache": [(None, None), (FP8, FP8)]},
         page_size=16, dtype=BF16, causal=True),
    grid(PAGED, page_size=16, dtype=BF16, causal=True, cache=FP8),
    grid({"batch": [3, 5], "keys": [1027, 1025], "kv_heads": [32, 8], "head_dim": [128, 192, 576], "value_dim": [128,
         512],
          "page_size": [1, 16]}, queries=1, heads=32, dtype=BF16),
]  # fmt: skip

# flash-linear-attention, tests:
# https://github.com/fla-org/flash-linear-attention/tree/bc3b101dcb713ddc5bd8924b66754eb68b5ccf89
PEERS["flash-linear-attention", "attention"] = attention, [
    grid({"batch keys kv_heads heads head_dim scale": [(1, 63, 1, 1, 64, 1.0), (3, 111, 2, 2, 100, 1.0), (3, 1024, 2,
         8, 60,
          0.1), (3, 1024, 2, 8, 128, 0.1), (4, 2048, 2, 8, 64, 0.1)], "gated": ON}, dtype=F16, causal=True),
    grid({"batch keys kv_heads heads head_dim window sinks": [(1, 63, 1, 1, 64, 16, None), (3, 111, 2, 2, 100, 32,
         None),
          (3, 1024, 2, 8, 128, 64, None), (1, 63, 1, 1, 64, None, 1), (3, 111, 2, 2, 100, None, 1), (3, 1024, 2, 8, 128,
          None, 1), (2, 192, 2, 8, 64, None, 1), (2, 192, 2, 8, 64, 64, 1)]}, dtype=F16, causal=True),
    grid({"kv_heads heads head_dim window cu_seqlens": [(2, 2, 64, None, (0, 15)), (2, 8, 64, None, (0, 256, 500,
         1000)),
          (2, 2, 100, None, (0, 15, 100, 300, 1200, 2000)), (2, 2, 64, 16, (0, 111)), (2, 8, 100, 32, (0, 256, 500,
          1000)),
          (2, 8, 64, 64, (0, 97, 173, 300))]}, batch=1, keys=1, dtype=F16, causal=True, packed=True),
]  # fmt: skip


def main():
    report(PEERS)


if __name__ == "__main__":
    main()
