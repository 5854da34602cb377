# SPDX-License-Identifier: Apache-2.0
"""The kernels of the chapter *Models*, and those of 8 bits, called in the five ways of ``every_kernel.py``.

What takes numbers of 8 or 4 bits is given what its own ``quantize`` makes of floats. Kernels in Gluon aren't here, nor
is ``sample``: they want a newer Triton than 3.6, and torch 2.11 compiles only with that one.

Run it on a GPU with ``python every_model_kernel.py``.
"""

import concurrent.futures
import multiprocessing
from functools import partial

import torch

from snippets.matmul import fp8
from snippets.models import (
    block_scales,
    block_scales_few_rows,
    conv2d,
    convolution,
    experts,
    int4,
    state,
    stencil,
    window_attention,
)
from snippets.programs import greyscale
from snippets.pytorch.every_kernel import WAYS, WORKERS, Subject, begin, compiled, floats, heads, verdict


def picture():
    return (torch.randint(256, (3, 60, 100), dtype=torch.uint8, device="cuda"),)


def in_8_bits(x, w):
    (q, x_scale), (p, w_scale) = fp8.quantize(x), fp8.quantize(w)
    return fp8.scaled_matmul(q, p, x_scale, w_scale, torch.float16)


def with_scales(function, x, w):
    (q, x_scales), (p, w_scales) = block_scales.quantize(x), block_scales.quantize_weight(w)
    return function(q, p, x_scales, w_scales, torch.float16)


def normal_in_8_bits(x, weight):
    q, scales = block_scales.norm_and_quantize(x, weight)
    return q.float(), scales


def packed():
    weight = int4.quantize(*floats((64, 256))())
    return *floats((4, 256), dtype=torch.float16)(), weight.words, weight.scales


def by_4_bits(x, words, scales):
    return int4.int4_matmul(x, int4.Packed(words, scales, n=64, k=256, bits=4, group=128))


def layer():
    return floats((32, 64), (32, 8), (8, 64, 64), (8, 32, 64), dtype=torch.float16)()


def decaying():
    *rest, log_decay = floats((2, 2, 100, 32), (2, 2, 100, 32), (2, 2, 100, 32), (2, 2, 100))()
    return *rest, -log_decay.abs()


SUBJECTS = {
    "int4_matmul": Subject(by_4_bits, packed),
    "fp8.scaled_matmul": Subject(in_8_bits, floats((128, 256), (256, 64), dtype=torch.float16)),
    "block_scaled_matmul": Subject(
        partial(with_scales, block_scales.block_scaled_matmul), floats((128, 256), (64, 256), dtype=torch.bfloat16)
    ),
    "block_scaled_few_rows": Subject(
        partial(with_scales, block_scales_few_rows.block_scaled_few_rows),
        floats((4, 256), (64, 256), dtype=torch.bfloat16),
    ),
    "norm_and_quantize": Subject(normal_in_8_bits, floats((32, 256), (256,))),
    "experts": Subject(partial(experts.experts, top_k=2), layer, 4),
    "window_attention": Subject(partial(window_attention.window_attention, window=16), heads()),
    "state_scan": Subject(state.state_scan, decaying, 4),
    "causal_conv1d": Subject(convolution.causal_conv1d, floats((2, 60, 100), (60, 4), (60,)), 3),
    "conv2d": Subject(conv2d.conv2d, floats((2, 3, 20, 20), (8, 3, 3, 3))),
    "blur": Subject(stencil.blur, floats((100, 60))),
    "greyscale": Subject(greyscale.greyscale, picture),
}


def line(name: str) -> tuple[str, list[str]]:
    """Return a function's line of the table, and what was said in it."""
    subject = SUBJECTS[name]
    found = {way: verdict(run, subject) for way, run in WAYS.items()}
    cells = {way: text if text in ("works", "wrong", "-") else "refused" for way, text in found.items()}
    if cells["compile"] == "refused":
        found["compile without fullgraph"] = verdict(partial(compiled, fullgraph=False), subject)
        if found["compile without fullgraph"] == "works":
            cells["compile"] = "breaks"
    said = [f"{name}, {way}: {text}" for way, text in found.items() if text not in ("works", "-")]
    return "  ".join([name, *cells.values()]), said


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile and CUDA graphs take one")
    said = []
    print("## Kernels of models")
    print("  ".join(["function", *WAYS]))
    with concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"), begin) as pool:
        for text, more in pool.map(line, SUBJECTS):
            print(text, flush=True)
            said += more
    print("## What they say")
    print("\n".join(said))


if __name__ == "__main__":
    main()
