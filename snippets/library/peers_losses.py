# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy, also with the last linear layer: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import torch

from snippets.library import cross_entropy as losses
from snippets.library.peers_compared import BF16, F16, F32, agrees, device, numbers, whole
from snippets.library.peers_run import BASIC, FLOATS, HALF, ON, grid, report


def targets(rows, columns, ignore_index):
    """Return a column for each row, and for some of them ``ignore_index``."""
    return torch.where(torch.rand(rows, device=device()) < 0.2, ignore_index, whole(0, columns, (rows,)))


def loss(rows, columns, dtype, inner=None, bias=False, class_weight=False, autocast=None, ignore_index=-100,
         with_z_loss=False, with_accuracy=False, with_predicted=False, gradient=True, **options):  # fmt: skip
    """Compare cross-entropy of logits or, with ``inner``, of what comes before the last linear layer."""
    target = targets(rows, columns, ignore_index)
    options |= {"ignore_index": ignore_index}
    options |= {"class_weight": torch.rand(columns, device=device()) + 0.1} if class_weight else {}
    asked = lambda **details: [details[name] for name, wanted in (("z", with_z_loss), ("predicted", with_predicted),
                               ("accuracy", with_accuracy)) if wanted]  # fmt: skip
    if not inner:
        tensors, linear, function = [numbers(rows, columns, dtype=dtype)], lambda x: x, losses.cross_entropy
    else:
        tensors = [numbers(rows, inner, dtype=dtype), numbers(columns, inner, dtype=dtype, scale=inner**-0.5)]
        tensors += [numbers(columns, dtype=dtype)] if bias else []
        linear = torch.nn.functional.linear
        function = lambda x, w, *rest, **more: losses.linear_cross_entropy(x, w, rest[-1], *rest[:-1], **more)

    def ours(*tensors):
        with torch.autocast(device(), autocast, enabled=bool(autocast)):
            found = function(*tensors, target, details=True, **options)
        return found.loss, *asked(z=found.z_loss, predicted=found.predicted, accuracy=found.accuracy)

    def exact(*tensors):
        logits, given = linear(*tensors), {name: x for name, x in options.items() if name != "chunk"}
        if class_weight:
            given["class_weight"] = given["class_weight"].to(logits.dtype)
        total = losses.in_torch(logits, target, **given)[0]
        alone = losses.in_torch(logits, target, **given | {"z_loss": 0.0})[0] if with_z_loss else total
        predicted = torch.where(target == ignore_index, -1, logits.detach().argmax(-1))
        accuracy = ((predicted == target).sum() / (target != ignore_index).sum()).to(logits.dtype)
        return total, *asked(z=(total - alone).detach(), predicted=predicted, accuracy=accuracy)

    return agrees(ours, exact, *tensors, gradient=gradient, narrow=autocast)


OURS = {loss: losses.linear_cross_entropy}  # whose options a comparison passes on
PEERS = {}

# Liger-Kernel, test/transformers:
# https://github.com/linkedin/Liger-Kernel/tree/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c
REDUCTIONS = ["mean", "sum", "none"]
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

# FlashAttention, tests: https://github.com/Dao-AILab/flash-attention/tree/0251105a2fb19d2957484b7f023cd8c115286ced
PEERS["FlashAttention", "cross-entropy"] = loss, [
    grid({"columns": [50257, 128256], "label_smoothing": [None, 0.9], "with_z_loss": ON, "dtype rows": [(F32, 4096),
          (F16, 16384), (BF16, 16384)]}),
    grid({"columns": [50257, 128256], "label_smoothing": [None, 0.9], "with_z_loss": ON, "dtype rows": [(F32, 1024),
          (F16, 4096), (BF16, 4096)], "z_loss logit_scale": [(1e-2, None), (1e-2, 0.7), (None, 0.7)]}),
    grid({"columns": [50257, 128256], "with_z_loss": ON, "dtype rows": [(F32, 4096), (F16, 16384), (BF16, 16384)],
          "z_loss": [None, 1e-2]}, log_sum_exp_given=True),
]  # fmt: skip

# triton-lang/kernels, test: https://github.com/triton-lang/kernels/tree/eeeebdd8be7d13629de22d600621e6234057eed3
PEERS["triton-lang/kernels", "cross-entropy"] = loss, [
    grid({"rows": [1024, 821], "columns": [512, 857, 1871, 2089, 8573, 31000], "dtype": [F16, F32]}, reduction="none"),
]  # fmt: skip

# flash-linear-attention, tests:
# https://github.com/fla-org/flash-linear-attention/tree/bc3b101dcb713ddc5bd8924b66754eb68b5ccf89
PEERS["flash-linear-attention", "cross-entropy"] = loss, [
    grid({"rows": [1024, 2048], "columns": [32000, 100000], "softcap": [None, 30.0]}, dtype=BF16),
]  # fmt: skip
PEERS["flash-linear-attention", "linear cross-entropy"] = loss, [
    grid({"rows": [1024, 2048], "inner": [1024, 2048], "columns": [32000, 100000], "softcap logit_scale": [(None, None),
          (30.0, None), (None, 0.5)]}, bias=True, dtype=BF16),
]  # fmt: skip


def main():
    report(PEERS, OURS)


if __name__ == "__main__":
    main()
