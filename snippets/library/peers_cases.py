# SPDX-License-Identifier: Apache-2.0
"""The cases that other libraries test, run with the files to copy: which pass, which are refused, what is missing.

Each peer's tests list shapes, dtypes and options. What they list is written down here anew; for each case our function
is called, and compared with torch, results and gradients (``library/peers_compared.py``). A case counts once, however
many tests have it. What a peer can choose that changes time or memory but no result is left out: an order that is the
same in every run, a buffer that is written over, ``torch.compile``, the number of splits.

- missing: it needs an option that our function does not have
- run: all others, or of more than ``MOST`` so many that each option has met each value of another parameter
- pass, refused, wrong: of those that ran. Refused means an error that says what is not served

Run it on a GPU, or with TRITON_INTERPRET=1 on a CPU, where it takes a few cases, and makes them small.
"""

import collections
import concurrent.futures
import inspect
import itertools
import math
import multiprocessing
import random

import torch

from snippets.library import norms, rope, swiglu
from snippets.library import peers_compared as compared
from snippets.library.cross_entropy import linear_cross_entropy
from snippets.library.peers_compared import attention, best, decoding, gate, layer, loss, norm, product, rotary

F16, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn
HALF, FLOATS, ON = [F16, BF16], [F16, BF16, F32], [False, True]
MOST = 40
LARGE = 2**28  # elements of a case that gets the GPU to itself
FEW = 2  # cases of each operation in the interpreter
WORKERS = 14  # processes that share the GPU, for compiling takes longest
OURS = {loss: linear_cross_entropy, norm: norms.rms_norm, rotary: rope.rope, gate: swiglu.glu}  # take more options
# Sizes, which need not meet each other; and how large they may be in the interpreter.
SIZES = {"batch": 2, "queries": 20, "keys": 40, "rows": 5, "columns": 160, "inner": 40, "tokens": 9, "pages": 64,
         "heads": None, "kv_heads": None, "head_dim": None, "rotary_dim": None, "sequences": None, "cu_seqlens": None,
         "sections": None}  # fmt: skip


def grid(axes: dict[str, list], **fixed) -> list[dict]:
    """Return each combination of values; what is off, None or False, is left out."""
    rows = []
    for values in itertools.product(*axes.values()):
        row = dict(fixed)
        for names, value in zip(axes, values, strict=True):
            row |= zip(names.split(), value if " " in names else [value], strict=True)
        rows.append({name: value for name, value in row.items() if value is not None and value is not False})
    return rows


# --8<-- [start:cases]
PEERS = {}

# Liger-Kernel, test/transformers:
# https://github.com/linkedin/Liger-Kernel/tree/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c
BASIC, REDUCTIONS = [F32, BF16], ["mean", "sum", "none"]
TOKENS = {"rows columns": [(2 * 4096, 32000), (3 * 423, 32000)], "dtype": BASIC}
MIXED = {"ignore_index z_loss label_smoothing softcap": [(-100, 1e-4, 0.1, 30.0), (42, 1e-5, 0.2, 40.0)]}
PEERS["Liger-Kernel", "cross-entropy"] = loss, [
    grid(TOKENS | {"reduction": REDUCTIONS, "class_weight": ON}),
    grid({"rows columns": [(4, 8), (63, 41)], "dtype": BASIC}),
    grid({"rows columns ignore_index": [(8192, 32000, 2), (1269, 32000, -123)], "dtype": BASIC,
         "reduction": REDUCTIONS}),
    grid(TOKENS | {"label_smoothing ignore_index": [(0.1, -100), (0.1, 1), (0.2, -300)]}),
    grid(TOKENS | {"reduction": REDUCTIONS}, softcap=30.0),
    grid(TOKENS | {"z_loss": [1e-4, 1e-5], "with_z_loss": ON}),
    grid(TOKENS | {"z_loss with_z_loss": [(1e-4, True), (1e-5, None)],
                   "label_smoothing ignore_index reduction": [(0.1, 42, "mean"), (0.2, -42, "sum")]}),
    grid(TOKENS | MIXED | {"reduction": REDUCTIONS}, class_weight=True),
    grid(TOKENS | MIXED | {"reduction": REDUCTIONS[:2]}),
    grid(TOKENS | {"dtype": FLOATS, "reduction": REDUCTIONS, "ignore_index": [-100, 2]}, gradient=0),
    grid({"rows columns": [(256, 512), (141, 31)], "ignore_index": [-100, 2], "dtype": BASIC}, with_predicted=True),
    grid({"dtype": HALF, "label_smoothing": [None, 0.1], "reduction": REDUCTIONS[:2]}, rows=64, columns=512),
]  # fmt: skip
HIDDEN = {"rows inner columns": [(8 * 128, 1024, 4096), (4 * 47, 31, 123)], "bias": ON}
PEERS["Liger-Kernel", "linear cross-entropy"] = loss, [
    grid(HIDDEN | {"dtype": BASIC, "reduction": REDUCTIONS[:2], "gradient": [1, 0],
                   "class_weight label_smoothing ignore_index z_loss softcap with_z_loss":
                   [(None, None, None, None, None, None), (True, 0.1, 42, 1e-4, 30.0, True)]}),
    grid({"rows inner columns": [(4, 8, 8), (63, 41, 41)], "dtype": BASIC, "class_weight": ON, "bias": ON}),
    grid(HIDDEN | {"dtype": BASIC}, with_accuracy=True),
    grid(HIDDEN | {"dtype": BASIC, "ignore_index": [-100, 2]}, with_predicted=True),
    grid(HIDDEN | {"autocast": HALF}, dtype=F32),
    grid({"rows inner columns": [(32, 32, 64), (32, 64, 128)], "bias": ON}, dtype=F32, reduction="none"),
    grid({"ignore_index": [-100, 2]}, rows=32, inner=32, columns=64, dtype=F32, bias=True, token_scaling=True),
]  # fmt: skip
LLAMA = {"offset round_first": [(None, True), (1.0, None), (None, None)], "weight": [True, 0]}
PEERS["Liger-Kernel", "RMS norm"] = norm, [
    grid({"rows columns": [(256, 512), (615, 123), (4, 8), (63, 41)], "dtype": BASIC} | LLAMA),
    *(grid({"rows columns": [(256, 512), (615, 123), (4, 8), (63, 41)]} | LLAMA, dtype=dtype, residual_dtype=dtype)
      for dtype in BASIC),
]  # fmt: skip
PEERS["Liger-Kernel", "layer norm"] = norm, [
    grid({"rows columns": [(16, 64), (64, 128), (1, 1023), (21, 256), (1, 1500), (1536, 128)], "dtype": BASIC},
         layer=True, bias=True, eps=1e-5),
]  # fmt: skip
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
PEERS["Liger-Kernel", "SwiGLU, GEGLU, squared ReLU"] = gate, [
    grid({"rows columns": [(512, 512), (252, 431), (16, 8), (63, 41), (4, 11009), (3, 14337), (4, 16384)],
         "dtype": BASIC}),
    grid({"rows columns": [(512, 512), (252, 431), (16, 8), (63, 41)], "dtype": BASIC,
          "gate_multiplier down_multiplier": [(0.7, 1.3), (1.5, 0.5)]}),
    grid({"rows columns": [(4, 11009), (3, 14337), (4, 16384)], "dtype": BASIC}, gate_multiplier=1.3),
    grid({"rows columns": [(4096, 4096), (369, 4231), (4, 8), (63, 41)], "dtype": BASIC}, activation="gelu_tanh"),
    grid({"rows columns": [(16, 4096), (64, 2048), (1, 1023), (21, 256), (2, 8), (1, 4096)], "dtype": BASIC},
         activation="relu2", gated=0),
]  # fmt: skip

# QuACK, tests: https://github.com/Dao-AILab/quack/tree/c8ec3170057987da0ec99883736f381ea1937cf3
PEERS["QuACK", "cross-entropy"] = loss, [
    grid({"dtype": FLOATS, "columns": [192, 668, 1024, 1128, 4096, 32768, 128256, 262144], "rows": [1, 289],
          "class_weight": ON}, reduction="none"),
    grid({"dtype": FLOATS, "columns": [192, 1024, 32768, 128256], "rows": [1, 77, 289], "class_weight": ON},
         reduction="none"),
    grid({"dtype": [BF16, F32], "columns": [1024, 32768, 128256], "rows": [77, 289], "reduction": REDUCTIONS},
         class_weight=True),
    grid({"rows": [0]}, columns=1024, dtype=BF16, reduction="none"),
    grid({"rows": [4096]}, columns=128256, dtype=BF16, reduction="none", log_sum_exp_of_a_part=True),
]  # fmt: skip
PEERS["QuACK", "linear cross-entropy"] = loss, [
    grid({"rows": [8, 16, 24], "inner": [768, 1024], "columns": [32000, 50264, 128256], "reduction": REDUCTIONS[:2]},
         dtype=BF16, chunk=16),
    grid({"rows": [128, 600, 1024], "inner": [512, 768], "columns": [1536, 2048], "reduction": REDUCTIONS[:2]},
         dtype=BF16),
]  # fmt: skip
WIDE = [192, 256, 760, 1024, 1128, 4096, 32768, 131072, 262144]
PEERS["QuACK", "RMS norm"] = norm, [
    grid({"rows": [1, 199, 8192], "columns": WIDE, "dtype": FLOATS, "weight weight_dtype": [(1, BF16), (1, F32), (0,
         None)]}),
    grid({"rows": [1, 199, 8192], "columns": [1024, 4096, 32768], "dtype": BASIC, "weight_dtype": BASIC}, offset=1.0),
    grid({"rows heads columns": [(32, 4, 64), (1, 32, 128)], "dtype": FLOATS}),
    *(grid({"rows heads columns": [(32, 4, 64), (1, 32, 128)]}, dtype=dtype, residual_dtype=dtype, bias=True)
      for dtype in FLOATS),
    grid({"bias residual_dtype": [(True, None), (None, F16), (None, F32), (True, F32)]}, rows=32, columns=1024,
         dtype=F16),
    grid({"bias": ON}, rows=0, columns=1024, dtype=BF16), grid({"strided": [True]}, rows=32, columns=1024, dtype=BF16),
]  # fmt: skip
PEERS["QuACK", "layer norm"] = norm, [
    grid({"rows": [1, 37, 199, 4096], "columns": [256, 512, 760, 1024, 1128, 2048, 4096, 8192, 16384, 32768, 65536,
          131072, 262144], "dtype": FLOATS, "bias": ON}, layer=True, weight_dtype=F32),
]  # fmt: skip
ROTATED = {"interleaved": ON, "rotary_dim": [128, 64], "offset": [None, "of each"], "dtype": BASIC}
PARTS = [(d, part) for d in (32, 64, 96, 128) for part in range(8, d + 1, 8)] + [(256, 256), (512, 512)]
PEERS["QuACK", "RoPE"] = rotary, [
    grid(ROTATED | {"in_place": ON, "packed": ON}, batch=8, tokens=67, heads=4, kv_heads=0, head_dim=128),
    grid({"head_dim rotary_dim": PARTS, "inverse": ON, "interleaved": ON, "dtype": BASIC, "table_dtype": BASIC},
         batch=1, tokens=17, heads=1, kv_heads=0),
    grid(ROTATED | {"heads kv_heads": [(4, 4), (8, 4)]}, batch=4, tokens=64, head_dim=128, of_one=True, in_place=True),
]  # fmt: skip
PEERS["QuACK", "top-k"] = best, [
    grid({"rows": [1, 37, 199], "columns best": [(64, 16), (128, 32), (256, 16), (512, 32), (1024, 32), (4096, 32),
          (4096, 64), (4096, 128)], "dtype": FLOATS, "softmax": ON}),
    grid({"rows": [0]}, columns=1024, best=32, dtype=BF16),
]  # fmt: skip
SHAPES = {"inner": [736, 1024], "columns": [1504, 2048]}
MAJOR = {"a_transposed": ON, "b_transposed": ON, "out_transposed": [0, 1]}
EMPTY = {"rows inner columns": [(0, 256, 256), (256, 0, 256), (256, 256, 0)]}
PEERS["QuACK", "matmul"] = product, [
    grid(SHAPES | MAJOR, rows=960, dtype=BF16),
    grid(SHAPES | MAJOR | {"bias_dtype": [None, F32, BF16], "concat": ["a", "b", "out"]}, rows=960, dtype=BF16),
    grid({"rows": [480, 960], "inner": [256, 768], "columns": [512, 1024], "alpha": [0.5, 1.0, 2.0],
          "beta": [0.0, 0.5, 1.0, 1.5], "number": [None, "tensor"], "concat": [None, "out"]}, dtype=BF16, c=True),
    grid(SHAPES | {"rows": [960, 1920], "out_transposed": [None, 0], "concat": [None, "out"]}, dtype=BF16, c=True,
         beta=1.0),
    grid({"rows": [480, 960], "inner": [256, 768], "columns": [512, 1024], "dtype": HALF}, stochastic_rounding=True),
    grid(SHAPES | {"rows": [960, 1920], "c": ON, "scale_dtype": [None, BF16, F32]}, dtype=BF16, rms_of_rows=True),
    grid(EMPTY | {"c": ON}, dtype=BF16),
]  # fmt: skip
GATES = ["silu", "gelu", "relu", "sigmoid", "swiglu of gpt-oss"]
FEATURES = {"inner": [736, 4096], "columns": [1504, 2048]}
PEERS["QuACK", "linear layers"] = layer, [
    grid(FEATURES | {"bias_dtype": [None, F32], "activation": [None, "relu", "relu2", "gelu_tanh", "tanh"]}, rows=960,
         strided=True, dtype=BF16),
    grid(FEATURES | {"bias_dtype": [None, F32, BF16], "activation": GATES, "interleaved": ON}, rows=960, strided=True,
         dtype=BF16, gated=True),
    grid({"activation gated interleaved": [("gelu_tanh", 0, None), ("relu", 0, None), ("silu", 1, True),
          ("relu", 1, True), ("gelu", 1, True), ("silu", 1, None), ("relu", 1, None)]}, rows=512, inner=512,
         columns=512, dtype=BF16),
    grid(EMPTY | {"activation gated interleaved": [(None, 0, None), ("relu", 0, None), ("silu", 1, True)]},
         dtype=BF16),
]  # fmt: skip

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
TURNED = {"interleaved": ON, "rotary_dim": [128, 64], "offset": [None, "number", "of each"], "dtype": HALF}
PEERS["FlashAttention", "RoPE"] = rotary, [
    grid(TURNED | {"in_place": ON, "packed": ON}, batch=32, tokens=217, heads=4, kv_heads=0, head_dim=128),
    grid(TURNED | {"heads kv_heads": [(4, 4), (8, 4)]}, batch=32, tokens=512, head_dim=128, of_one=True, in_place=True),
]  # fmt: skip
PEERS["FlashAttention", "cross-entropy"] = loss, [
    grid({"columns": [50257, 128256], "label_smoothing": [None, 0.9], "with_z_loss": ON, "dtype rows": [(F32, 4096),
          (F16, 16384), (BF16, 16384)]}),
    grid({"columns": [50257, 128256], "label_smoothing": [None, 0.9], "with_z_loss": ON, "dtype rows": [(F32, 1024),
          (F16, 4096), (BF16, 4096)], "z_loss logit_scale": [(1e-2, None), (1e-2, 0.7), (None, 0.7)]}),
    grid({"columns": [50257, 128256], "with_z_loss": ON, "dtype rows": [(F32, 4096), (F16, 16384), (BF16, 16384)],
          "z_loss": [None, 1e-2]}, log_sum_exp_given=True),
]  # fmt: skip
SUMS = {"dtype residual_dtype": [(F16, F16), (F16, F32), (F32, F32), (BF16, BF16), (BF16, F32), (F16, None),
        (F32, None), (BF16, None)], "columns": [192, 2048, 2560, 3000, 4096],
        "weight_dtype": [F32, F16, BF16]}  # fmt: skip
MORE = {"dropout": [None, 0.27], "row_scale second_x": [(None, None), (True, None), (None, True)], "second_weight": ON}
PEERS["FlashAttention", "RMS norm"] = norm, [grid(SUMS | MORE, rows=4096)]
PEERS["FlashAttention", "layer norm"] = norm, [grid(SUMS | MORE, rows=4096, layer=True, bias=True)]
PEERS["FlashAttention", "linear layers"] = layer, [
    grid({"inner": [1024, 4096], "columns": [1024, 4096], "dtype bias_dtype": [(F16, F16), (BF16, BF16), (F16, None),
          (BF16, None)], "activation": [None, "gelu_tanh", "relu"]}, rows=4096),
]  # fmt: skip

# unsloth, unsloth/kernels: https://github.com/unslothai/unsloth/tree/015bdef0d94a241bcd94eec7a405b1700632180d
LONG = {"rows": [21 * 3341, 21 * 2048, 21 * 349], "columns": [512, 1024, 2048],
        "dtype autocast": [(F16, F16), (BF16, BF16)]}  # fmt: skip
PEERS["unsloth", "RMS norm"] = norm, [grid(LONG, weight_dtype=F32, eps=1e-5)]
PEERS["unsloth", "layer norm"] = norm, [grid(LONG, layer=True, bias=True, eps=1e-5)]

# triton-lang/kernels, test: https://github.com/triton-lang/kernels/tree/eeeebdd8be7d13629de22d600621e6234057eed3
PEERS["triton-lang/kernels", "attention"] = attention, [
    grid({"head_dim": [16, 32, 64, 128], "dtype": HALF, "causal": ON}, batch=2, heads=4, queries=512, keys=512,
         scale=0.5),
]  # fmt: skip
PEERS["triton-lang/kernels", "cross-entropy"] = loss, [
    grid({"rows": [1024, 821], "columns": [512, 857, 1871, 2089, 8573, 31000], "dtype": [F16, F32]}, reduction="none"),
]  # fmt: skip
TILED = [(16, 16, 16), (32, 16, 16), (16, 16, 32), (16, 32, 16), (32, 32, 32), (128, 32, 256), (107, 83, 233),
         (256, 160, 384), (256, 160, 512), (64, 32, 128)]  # fmt: skip
ORDERS = {"a_transposed": ON, "b_transposed": ON}
PEERS["triton-lang/kernels", "matmul"] = product, [
    grid({"rows inner columns": TILED, "dtype": FLOATS} | ORDERS),
    grid({"rows inner columns": [(32, 32, 32), (128, 32, 256), (64, 32, 128)], "dtype b_dtype": [(FP8, FP8), (FP8, F16),
          (F16, FP8), (F16, F32), (F32, F16), (BF16, F32), (F32, BF16)]} | ORDERS),
    grid({"rows inner columns": [(32, 32, 32), (128, 32, 256)], "sum_dtype": [None, F16],
          "out_dtype": [None, F16, F32]}, dtype=F16),
]  # fmt: skip

# vLLM, tests/kernels: https://github.com/vllm-project/vllm at 041b9f54 (norms), 06e570e9 (activations),
# 0cf5d8e8 (RoPE), 08011e0d (M-RoPE), 003ee616 and 16ef2eba (attention with pages)
INFERENCE = {"rows": [7, 83, 4096], "columns": [8, 768, 769, 5120, 5125, 8192], "strided": ON}
PEERS["vLLM", "RMS norm"] = norm, [
    grid(INFERENCE | {"dtype residual_dtype": [(d, r) for d in FLOATS for r in (None, d)], "weight offset quant_scale":
         [(1, None, None), (0, None, None), (1, 1.0, None), *((1, None, s) for s in (0.01, 1.0, 10.0))]}, gradient=0),
]  # fmt: skip
PEERS["vLLM", "SwiGLU, GEGLU"] = gate, [
    grid({"rows": [7, 83, 2048], "columns": [512, 13824], "dtype": FLOATS, "activation": ["silu", "gelu", "gelu_tanh",
          "fatrelu"]}, one=True, gradient=0),
    grid({"rows": [7, 83, 2048], "columns": [512, 13824], "dtype": FLOATS,
         "alpha limit up_offset interleaved gate_second":
          [(None, None, None, None, True), (1.702, 7.0, 1.0, True, None)]}, one=True, gradient=0),
    grid({"rows": [7, 83, 2048], "columns": [512, 13824], "dtype": FLOATS, "activation alpha": [("gelu_tanh", None),
          ("silu", 1.702)]}, gated=0, gradient=0),
]  # fmt: skip
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
PEERS["flash-linear-attention", "cross-entropy"] = loss, [
    grid({"rows": [1024, 2048], "columns": [32000, 100000], "softcap": [None, 30.0]}, dtype=BF16),
]  # fmt: skip
PEERS["flash-linear-attention", "linear cross-entropy"] = loss, [
    grid({"rows": [1024, 2048], "inner": [1024, 2048], "columns": [32000, 100000], "softcap logit_scale": [(None, None),
          (30.0, None), (None, 0.5)]}, bias=True, dtype=BF16),
]  # fmt: skip
PEERS["flash-linear-attention", "norms"] = norm, [
    grid({"columns": [50, 64, 128], "weight bias": [(0, None), (1, None), (1, True)]}, rows=2048, layer=True,
         dtype=F32),
    grid({"columns": [50, 64, 128, 256]}, rows=2048, dtype=F32),
    grid({"rows": [1, 2, 4, 8, 16, 32, 128], "columns": [128, 256, 512], "layer": ON}, dtype=F32),
    grid({"heads columns": [(g, d // g) for g in (1, 4) for d in (64, 128, 512, 1024, 2048)], "layer": ON}, rows=1024,
         bias=True, dtype=F32),
]  # fmt: skip
PEERS["flash-linear-attention", "RoPE"] = rotary, [
    grid({"tokens": [2048, 4096], "kv_heads": [4, 1], "head_dim": [128, 256], "dtype offset packed": [(BF16, None,
         None),
          (F32, "of each", None), (BF16, "of each", None), (F32, None, True), (BF16, None, True)]}, batch=2, heads=4),
    grid({"tokens": [2048, 4096], "head_dim": [128, 256], "dtype": [F32, F16]}, batch=4, heads=4, left_pad=True,
         gradient=0),
    grid({"tokens": [256, 2048], "head_dim": [128, 256], "dtype": [F32, F16]}, batch=2, heads=4, rotary_dim=64),
]  # fmt: skip
PEERS["flash-linear-attention", "activations"] = gate, [
    grid({"rows columns": [(1, 64), (1000, 128), (1024, 128), (6144, 1200)], "strided": ON, "activation gated":
          [("silu", True), ("sigmoid", True), ("power", True)]}, dtype=F32),
    grid({"rows columns": [(1, 64), (1000, 128), (1024, 128), (6144, 1200)], "activation": ["sigmoid", "logsigmoid",
         "silu",
          "gelu_tanh", "relu2"]}, dtype=F32, gated=0),
]  # fmt: skip
LINES = "batch tokens columns"
PEERS["flash-linear-attention", "cumsum"] = compared.sums, [
    grid({LINES: [(1, 63, 30), (2, 500, 240), (2, 1000, 640), (3, 1024, 3000), (4, 2048, 8192)], "reverse": ON,
          "part": [None, 64]}, dtype=F32),
    grid({LINES: [(1, 15, 120), (1, 1000, 300), (1, 2000, 1024), (1, 2048, 2000), (1, 2048, 2048)], "reverse": ON,
          "part": [None, 64]}, dtype=F32, cu_seqlens=True),
]  # fmt: skip
PEERS["flash-linear-attention", "linear recurrence"] = compared.recurrence, [
    grid({LINES + " dtype": [(1, 63, 500, F32), (2, 1024, 500, F32), (2, 1024, 512, F32), (2, 1024, 1000, F32), (4,
         2048,
          2048, F32), (1, 63, 500, F16), (2, 500, 1000, F16), (2, 1000, 1024, F16), (4, 2048, 2048, F16)]}),
    grid({LINES: [(1, 15, 500), (1, 1000, 512), (1, 2000, 1000), (1, 2048, 2048)]}, dtype=F32, cu_seqlens=True),
]  # fmt: skip
# --8<-- [end:cases]


# --8<-- [start:run]
def missing(operation, case: dict) -> list[str]:
    """Return the options that our function does not have."""
    known = {*inspect.signature(operation).parameters}
    if operation in OURS:
        known |= {*inspect.signature(OURS[operation]).parameters}
    return [name for name in case if name not in known]


def outcome(operation, case: dict) -> str:
    """Return "pass"; "refused" and why; or "wrong" or "failed" and the case."""
    torch.manual_seed(0)
    random.seed(0)
    try:
        return "pass" if operation(**case) else f"wrong: {case}"
    except compared.Refused as error:
        return f"refused: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error)[:80]}: {case}"
    finally:
        if compared.device() == "cuda":
            torch.cuda.empty_cache()  # other processes want it, too


def distinct(grids: list[list[dict]]) -> list[dict]:
    return [*{tuple(sorted(case.items())): case for case in itertools.chain(*grids)}.values()]


def chosen(cases: list[dict]) -> list[dict]:
    """Return all, or so many that each option has met each value of another parameter."""
    if len(cases) <= MOST:
        return cases
    names, met, kept = sorted({name for case in cases for name in case}), set(), []
    pairs = [pair for pair in itertools.combinations(names, 2) if not SIZES.keys() >= {*pair}]
    for case in random.Random(0).sample(cases, len(cases)):
        meets = {(a, case.get(a), b, case.get(b)) for a, b in pairs}
        if meets - met:
            kept.append(case)
            met |= meets
    return kept


def small(case: dict) -> dict:
    """Return a case for the interpreter: few elements, and float32 for bfloat16, which it gets wrong."""
    case = {name: (F16 if name == "autocast" else F32) if x is BF16 else x for name, x in case.items()}
    cut = {name: min(x, SIZES[name]) if SIZES.get(name) else x for name, x in case.items()}
    if case.get("kv_heads") and not case["heads"] % case["kv_heads"]:
        cut["kv_heads"] = min(case["kv_heads"], 2)
        cut["heads"] = min(case["heads"] // case["kv_heads"], 3) * cut["kv_heads"]
    elif "heads" in case and "tokens" in case:
        cut["heads"] = min(case["heads"], 4)
    if "sequences" in case:
        cut["sequences"] = tuple((min(q, 9), min(k, 40)) for q, k in case["sequences"])
    if "cu_seqlens" in case and case["cu_seqlens"] is not True:
        cut["cu_seqlens"] = tuple(min(n, 20 * i) for i, n in enumerate(case["cu_seqlens"]))
    return cut


def elements(case: dict) -> int:
    return math.prod(case.get(name, 1) for name in ("batch", "heads", "queries", "keys", "rows", "columns"))


def outcomes(work: list[tuple]) -> list[str]:
    """Run cases: small ones in several processes at once, large ones after them, each alone."""
    if compared.device() == "cpu":
        return [outcome(operation, small(case)) for operation, case in work]
    with concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        order = random.Random(0).sample(range(len(work)), len(work))  # so that not all that take much memory meet
        waiting = {i: pool.submit(outcome, *work[i]) for i in order if elements(work[i][1]) <= LARGE}
    crashed = {i: f"failed: {work[i][1]}" for i, future in waiting.items() if future.exception()}
    done = {i: future.result() for i, future in waiting.items() if i not in crashed} | crashed
    return [done[i] if i in done else outcome(*work[i]) for i in range(len(work))]


def tally(peers: dict, few: int | None = None) -> list[tuple]:
    """Return for each peer and operation: cases, and a count of what became of them, with the reasons."""
    rows, work = [], []
    for (peer, name), (operation, grids) in peers.items():
        cases = distinct(grids)
        lacking = [missing(operation, case) for case in cases]
        takes = chosen([case for case, names in zip(cases, lacking, strict=True) if not names])[:few]
        rows.append((peer, name, len(cases), lacking, len(takes)))
        work += [(operation, case) for case in takes]
    found, table = iter(outcomes(work)), []
    for peer, name, cases, lacking, run in rows:
        why = collections.Counter(f"missing: {each}" for names in lacking for each in names)
        became = [next(found) for _ in range(run)]
        why.update(each for each in became if ":" in each)
        counts = collections.Counter(each.split(":")[0] for each in became)
        table.append((peer, name, cases, sum(map(bool, lacking)), run, counts, why))
    return table


def main():
    if compared.device() == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run few cases in Triton's interpreter, on the CPU")
    table = tally(PEERS, None if compared.device() == "cuda" else FEW)
    print("## cases")
    print(f"{'peer':24}{'operation':30}{'cases':>8}{'missing':>9}{'run':>6}{'pass':>6}{'refused':>9}{'wrong':>7}")
    for peer, name, cases, lacking, run, counts, _ in table:
        wrong = counts["wrong"] + counts["failed"]
        print(f"{peer:24}{name:30}{cases:8}{lacking:9}{run:6}{counts['pass']:6}{counts['refused']:9}{wrong:7}")
    print("## why not")
    for peer, name, *_, why in table:
        for reason, times in sorted(why.items()):
            print(f"{peer}, {name}: {reason.replace(chr(10), ' ')[:300]} ({times})")
    print("## in all")
    total = lambda *names: sum(row[5][name] for row in table for name in names)
    print(f"cases: {sum(row[2] for row in table)}\nmissing: {sum(row[3] for row in table)}")
    print(f"run: {sum(row[4] for row in table)}\npass: {total('pass')}\nrefused: {total('refused')}")
    print(f"wrong: {total('wrong', 'failed')}")
# --8<-- [end:run]


if __name__ == "__main__":
    main()
