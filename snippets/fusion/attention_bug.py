# SPDX-License-Identifier: Apache-2.0
"""Online softmax, wrong on purpose. Do not copy this.

``no_rescale_bug`` rescales the sum, but not the accumulator, when the maximum grows. The right kernels are those of
``attention_tiles.py`` and ``attention.py``. The short one, ``online_softmax_kernel``, is run here on a tile of which
nothing is seen: ``-inf - -inf`` is NaN, which ``attention_kernel`` guards against.

Run it on a GPU with ``python attention_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.attention_tiles import online_softmax_kernel, toy


# --8<-- [start:no_rescale]
@triton.jit
def no_rescale_bug(score_ptr, value_ptr, out_ptr, n, BLOCK: tl.constexpr):
    maximum, total, accumulator = -float("inf"), 0.0, 0.0
    for begin in range(0, n, BLOCK):
        offsets = begin + tl.arange(0, BLOCK)
        score = tl.load(score_ptr + offsets, mask=offsets < n, other=-float("inf"))
        value = tl.load(value_ptr + offsets, mask=offsets < n, other=0.0)
        new_maximum = tl.maximum(maximum, tl.max(score, axis=0))
        rescale = tl.exp(maximum - new_maximum)
        weight = tl.exp(score - new_maximum)
        total = total * rescale + tl.sum(weight, axis=0)
        accumulator = accumulator + tl.sum(weight * value, axis=0)
        maximum = new_maximum
    tl.store(out_ptr, maximum)
    tl.store(out_ptr + 1, total)
    tl.store(out_ptr + 2, accumulator)
# --8<-- [end:no_rescale]


def result(kernel, scores, values, block=4) -> float:
    out = torch.empty(3, device=scores.device)
    kernel[(1,)](scores, values, out, len(scores), BLOCK=block)
    _, total, accumulator = out.tolist()
    return accumulator / total


def main():
    device = "cuda" if isinstance(no_rescale_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    scores, values = toy(device)
    first = scores.roll(-4)  # the tile with the largest score comes first
    unseen = scores.clone()
    unseen[:4] = -float("inf")

    print("## no rescale")
    for name, case in {"as in the lesson": (scores, values), "largest first": (first, values.roll(-4))}.items():
        print(f"{name}, no_rescale_bug: {result(no_rescale_bug, *case):.4f}")
        print(f"{name}, torch: {case[0].softmax(0) @ case[1]:.4f}")

    print("## unseen tile")
    print(f"first tile unseen: {result(online_softmax_kernel, unseen, values):.4f}")
    print(f"last tile unseen: {result(online_softmax_kernel, unseen.flip(0), values.flip(0)):.4f}")
    print(f"torch, either way: {unseen.softmax(0) @ values:.4f}")


if __name__ == "__main__":
    main()
