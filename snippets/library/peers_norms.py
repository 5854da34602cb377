# SPDX-License-Identifier: Apache-2.0
"""Norms, activations and gates: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import functools

import torch

from snippets.library import norms, swiglu
from snippets.library.peers_compared import BF16, F16, F32, agrees, device, numbers
from snippets.library.peers_run import BASIC, FLOATS, ON, grid, report


def norm(rows, columns, dtype, weight_dtype=None, residual_dtype=None, layer=False, weight=True, bias=False, heads=None,
         strided=False, gradient=True, autocast=None, eps=1e-6, **options):  # fmt: skip
    """Compare an RMS or layer norm, perhaps of a sum, perhaps with a weight for each head."""
    shape = (heads, columns) if heads else (columns,)
    tensors = {"x": numbers(rows, *shape[:-1], columns * (1 + strided), dtype=dtype)[..., :columns]}
    if residual_dtype:
        tensors["residual"] = numbers(rows, *shape, dtype=residual_dtype)
    if weight:
        tensors["weight"] = numbers(*shape, dtype=weight_dtype or dtype)
    if bias:
        tensors["bias"] = numbers(*shape, dtype=weight_dtype or dtype)
    kind = ("add_" if residual_dtype else "") + ("layer_norm" if layer else "rms_norm")

    def ours(*given):
        with torch.autocast(device(), autocast, enabled=bool(autocast)):
            return getattr(norms, kind)(**dict(zip(tensors, given, strict=True)), eps=eps, **options)

    def exact(*given):
        kept = {name: x for name, x in options.items() if name == "offset"}
        out, total = norms.in_torch(**dict(zip(tensors, given, strict=True)), layer=layer, eps=eps, **kept)
        return (out, total) if residual_dtype else out

    return agrees(ours, exact, *tensors.values(), gradient=gradient, narrow=autocast)


def gate(rows, columns, dtype, activation="silu", gated=True, one=False, strided=False, gradient=True, **options):
    """Compare SwiGLU or a relative, of two tensors or of one, or an activation alone."""
    if not gated:
        ours = lambda x: swiglu.activate(x, activation, **options)
        exact = lambda x: swiglu.in_torch(x, activation=activation, gated=False, **options)
        return agrees(ours, exact, numbers(rows, columns, dtype=dtype), gradient=gradient)
    tensors = [numbers(rows, columns * (1 + strided), dtype=dtype)[:, :columns] for _ in "gu"]
    tensors = [torch.cat(tensors, -1)] if one else tensors
    ours, exact = (functools.partial(each, activation=activation, **options) for each in (swiglu.glu, swiglu.in_torch))
    return agrees(ours, exact, *tensors, gradient=gradient)


OURS = {norm: norms.rms_norm, gate: swiglu.glu}  # whose options a comparison passes on
PEERS = {}

# Liger-Kernel, test/transformers:
# https://github.com/linkedin/Liger-Kernel/tree/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c
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

# FlashAttention, tests: https://github.com/Dao-AILab/flash-attention/tree/0251105a2fb19d2957484b7f023cd8c115286ced
PARTS = [(d, part) for d in (32, 64, 96, 128) for part in range(8, d + 1, 8)] + [(256, 256), (512, 512)]
SUMS = {"dtype residual_dtype": [(F16, F16), (F16, F32), (F32, F32), (BF16, BF16), (BF16, F32), (F16, None),
        (F32, None), (BF16, None)], "columns": [192, 2048, 2560, 3000, 4096],
        "weight_dtype": [F32, F16, BF16]}  # fmt: skip
MORE = {"dropout": [None, 0.27], "row_scale second_x": [(None, None), (True, None), (None, True)], "second_weight": ON}
PEERS["FlashAttention", "RMS norm"] = norm, [grid(SUMS | MORE, rows=4096)]
PEERS["FlashAttention", "layer norm"] = norm, [grid(SUMS | MORE, rows=4096, layer=True, bias=True)]

# unsloth, unsloth/kernels: https://github.com/unslothai/unsloth/tree/015bdef0d94a241bcd94eec7a405b1700632180d
LONG = {"rows": [21 * 3341, 21 * 2048, 21 * 349], "columns": [512, 1024, 2048],
        "dtype autocast": [(F16, F16), (BF16, BF16)]}  # fmt: skip
PEERS["unsloth", "RMS norm"] = norm, [grid(LONG, weight_dtype=F32, eps=1e-5)]
PEERS["unsloth", "layer norm"] = norm, [grid(LONG, layer=True, bias=True, eps=1e-5)]

# vLLM, tests/kernels: https://github.com/vllm-project/vllm at 041b9f54 (norms), 06e570e9 (activations)
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

# flash-linear-attention, tests:
# https://github.com/fla-org/flash-linear-attention/tree/bc3b101dcb713ddc5bd8924b66754eb68b5ccf89
PEERS["flash-linear-attention", "norms"] = norm, [
    grid({"columns": [50, 64, 128], "weight bias": [(0, None), (1, None), (1, True)]}, rows=2048, layer=True,
         dtype=F32),
    grid({"columns": [50, 64, 128, 256]}, rows=2048, dtype=F32),
    grid({"rows": [1, 2, 4, 8, 16, 32, 128], "columns": [128, 256, 512], "layer": ON}, dtype=F32),
    grid({"heads columns": [(g, d // g) for g in (1, 4) for d in (64, 128, 512, 1024, 2048)], "layer": ON}, rows=1024,
         bias=True, dtype=F32),
]  # fmt: skip
PEERS["flash-linear-attention", "activations"] = gate, [
    grid({"rows columns": [(1, 64), (1000, 128), (1024, 128), (6144, 1200)], "strided": ON, "activation gated":
          [("silu", True), ("sigmoid", True), ("power", True)]}, dtype=F32),
    grid({"rows columns": [(1, 64), (1000, 128), (1024, 128), (6144, 1200)], "activation": ["sigmoid", "logsigmoid",
         "silu",
          "gelu_tanh", "relu2"]}, dtype=F32, gated=0),
]  # fmt: skip


def main():
    report(PEERS, OURS)


if __name__ == "__main__":
    main()
