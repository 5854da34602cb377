# SPDX-License-Identifier: Apache-2.0
"""Every function of the course that people copy, as models use it: compiled, captured, differentiated, under autocast.

For each function and each way, ``works`` means that the results are those of a plain call. Anything else is the first
line of what was raised.

- compile: ``torch.compile(fullgraph=True)``; ``breaks`` where that is refused and ``torch.compile`` alone works
- graph: captured in a CUDA graph, its inputs changed, replayed
- grad: ``torch.func.grad`` of the sum of the results, against ``Tensor.backward``
- autocast: float32 inputs under ``torch.autocast`` to bfloat16; only that it runs and returns what is finite
- vmap: ``torch.vmap`` over a new first dimension, against a loop

Run it on a GPU with ``python every_kernel.py``.
"""

import concurrent.futures
import multiprocessing
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch._inductor import config as inductor

from snippets.fusion import attention as attention_forward
from snippets.fusion import (
    attention_backward,
    autograd,
    decoding,
    dropout,
    histogram,
    linear_cross_entropy,
    long_softmax,
    norms,
    rope,
    scan,
    swiglu,
    topk,
)
from snippets.fusion import attention_variable as variable
from snippets.fusion import cross_entropy as entropy
from snippets.library import attention as to_copy_attention
from snippets.library import cross_entropy as to_copy_entropy
from snippets.library import decoding as to_copy_decoding
from snippets.library import log_softmax as to_copy_log_softmax
from snippets.library import matmul as to_copy_matmul
from snippets.library import norms as to_copy_norms
from snippets.library import rope as to_copy_rope
from snippets.library import scan as to_copy_scan
from snippets.library import swiglu as to_copy_swiglu
from snippets.library import topk as to_copy_topk
from snippets.matmul import autotuned, few_rows, fused, grouped, naive, persistent, split_k
from snippets.matmul import matmul as product
from snippets.programs import masks, offsets, softmax, vector_add


class Subject(NamedTuple):
    """A function, and the tensors that it takes; a gradient is asked for the first ``wanted`` of them."""

    function: Callable
    inputs: Callable[[], tuple[Tensor, ...]]
    wanted: int = 0
    random: bool = False  # whether a call gives other numbers each time


def floats(*shapes, dtype=torch.float32):
    return lambda: tuple(torch.randn(shape, device="cuda").to(dtype) for shape in shapes)


def heads(queries=64, keys=64, dtype=torch.float16):
    return floats((2, 2, queries, 64), (2, 2, keys, 64), (2, 2, keys, 64), dtype=dtype)


def packed():
    begins = torch.tensor([0, 30, 100], dtype=torch.int32, device="cuda")
    return *floats((100, 2, 64), (100, 2, 64), (100, 2, 64), dtype=torch.float16)(), begins, begins


def rotary():
    q, k = floats((2, 16, 4, 64), (2, 16, 2, 64))()
    return q, k, *to_copy_rope.rope_tables(16, 64, device="cuda")


def logits():
    return *floats((32, 1000))(), torch.randint(1000, (32,), device="cuda")


def last_layer():
    return *floats((32, 64), (1000, 64))(), torch.randint(1000, (32,), device="cuda")


def whole():
    return (torch.randint(16, (1000,), dtype=torch.int32, device="cuda"),)


MATRICES = floats((128, 256), (256, 64), dtype=torch.float16)
LAYER = floats((128, 256), (64, 256), (64,), dtype=torch.float16)

SUBJECTS = {
    "vector_add.add": Subject(vector_add.add, floats((1000,), (1000,))),
    "offsets.contiguous": Subject(lambda x: offsets.contiguous(x.t()), floats((100, 60))),
    "masks.row_sum": Subject(masks.row_sum, floats((100, 60))),
    "softmax.softmax": Subject(softmax.softmax, floats((100, 60))),
    "naive.matmul": Subject(naive.matmul, MATRICES),
    "grouped.matmul": Subject(grouped.matmul, MATRICES),
    "autotuned.matmul": Subject(autotuned.matmul, MATRICES),
    "persistent.matmul": Subject(persistent.matmul, MATRICES),
    "fused.linear": Subject(partial(fused.linear, activation="relu"), LAYER),
    "split_k.matmul": Subject(split_k.matmul, MATRICES),
    "few_rows": Subject(few_rows.few_rows, floats((4, 256), (256, 64), dtype=torch.float16)),
    "matmul.matmul": Subject(product.matmul, MATRICES),
    "autograd.silu_mul": Subject(autograd.silu_mul, floats((100, 60), (100, 60)), 2),
    "long_softmax.softmax": Subject(long_softmax.softmax, floats((10, 3000)), 1),
    "norms.rms_norm": Subject(norms.rms_norm, floats((10, 300), (300,)), 2),
    "swiglu.swiglu": Subject(swiglu.swiglu, floats((10, 300), (10, 300)), 2),
    "rope.rope": Subject(rope.rope, rotary, 2),
    "dropout.dropout": Subject(dropout.dropout, floats((100, 60)), 1, random=True),
    "cross_entropy.cross_entropy": Subject(entropy.cross_entropy, logits, 1),
    "linear_cross_entropy": Subject(linear_cross_entropy.linear_cross_entropy, last_layer, 2),
    "attention.attention": Subject(attention_forward.attention, heads()),
    "attention_backward.attention": Subject(attention_backward.attention, heads(), 3),
    "attention_variable": Subject(partial(variable.attention_variable), packed),
    "decoding.decode_attention": Subject(decoding.decode_attention, heads(queries=1)),
    "scan.cumsum": Subject(scan.cumsum, floats((10, 300))),
    "scan.recurrence": Subject(scan.recurrence, floats((10, 300), (10, 300)), 2),
    "topk.topk": Subject(lambda x: topk.topk(x, 8)[0], floats((10, 300))),
    "histogram.histogram": Subject(partial(histogram.histogram, bins=16), whole),
}
TO_COPY = {
    "matmul": Subject(to_copy_matmul.matmul, MATRICES, 2),
    "linear": Subject(partial(to_copy_matmul.linear, activation="gelu"), LAYER, 3),
    "rms_norm": Subject(to_copy_norms.rms_norm, floats((10, 300), (300,)), 2),
    "add_rms_norm": Subject(to_copy_norms.add_rms_norm, floats((10, 300), (10, 300), (300,)), 3),
    "layer_norm": Subject(to_copy_norms.layer_norm, floats((10, 300), (300,), (300,)), 3),
    "swiglu": Subject(to_copy_swiglu.swiglu, floats((10, 300), (10, 300)), 2),
    "rope": Subject(to_copy_rope.rope, rotary, 2),
    "attention": Subject(partial(to_copy_attention.attention, causal=True), heads(), 3),
    "attention_variable": Subject(partial(to_copy_attention.attention_variable, causal=True), packed, 3),
    "decode_attention": Subject(to_copy_decoding.decode_attention, heads(queries=1)),
    "log_softmax": Subject(to_copy_log_softmax.log_softmax, floats((10, 300)), 1),
    "cross_entropy": Subject(to_copy_entropy.cross_entropy, logits, 1),
    "linear_cross_entropy": Subject(to_copy_entropy.linear_cross_entropy, last_layer, 2),
    "cumsum": Subject(to_copy_scan.cumsum, floats((10, 300)), 1),
    "recurrence": Subject(to_copy_scan.recurrence, floats((10, 300), (10, 300)), 2),
    "topk": Subject(lambda x: to_copy_topk.topk(x, 8)[0], floats((10, 300)), 1),
}


# --8<-- [start:ways]
def results(found) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def alike(found, wanted, random: bool = False) -> bool:
    if random:  # no number can be the same, so as many must be dropped, about
        kept = [each.count_nonzero().item() / each.numel() for each in (*results(found), *results(wanted))]
        return max(kept) - min(kept) < 0.1
    pairs = zip(results(found), results(wanted), strict=True)
    return all(torch.allclose(a.float(), b.float(), rtol=1e-2, atol=1e-2, equal_nan=True) for a, b in pairs)


def seeded(function: Callable, *inputs):
    """Call with the same random numbers each time, for dropout."""
    torch.manual_seed(0)
    return function(*inputs)


def compiled(subject: Subject, fullgraph: bool = True) -> bool:
    torch._dynamo.reset()
    given = subject.inputs()
    wanted = seeded(subject.function, *given)
    return alike(seeded(torch.compile(subject.function, fullgraph=fullgraph), *given), wanted, subject.random)


def captured(subject: Subject) -> bool:
    given, other = subject.inputs(), subject.inputs()
    subject.function(*given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = subject.function(*given)
    for mine, new in zip(given, other, strict=True):
        mine.copy_(new)
    graph.replay()
    return alike(out, subject.function(*other), subject.random)


def total(function: Callable, *inputs) -> Tensor:
    return sum(each.float().square().sum() for each in results(seeded(function, *inputs)))


def differentiated(subject: Subject) -> bool:
    if not subject.wanted:
        return None
    given = subject.inputs()
    asked = tuple(range(subject.wanted))
    found = torch.func.grad(partial(total, subject.function), argnums=asked)(*given)
    mine = [each.detach().clone().requires_grad_(i in asked) for i, each in enumerate(given)]
    return alike(found, torch.autograd.grad(total(subject.function, *mine), [mine[i] for i in asked]))


def under_autocast(subject: Subject) -> bool:
    given = [each.float() if each.is_floating_point() else each for each in subject.inputs()]
    with torch.autocast("cuda", torch.bfloat16):
        return all(each.isfinite().all().item() for each in results(subject.function(*given)))


def mapped(subject: Subject) -> bool:
    first, second = subject.inputs(), subject.inputs()
    both = [torch.stack(pair) for pair in zip(first, second, strict=True)]
    found = results(torch.vmap(subject.function, randomness="different")(*both))
    return all(
        alike(tuple(each[i] for each in found), subject.function(*of), subject.random)
        for i, of in enumerate((first, second))
    )
# --8<-- [end:ways]


WAYS = {"compile": compiled, "graph": captured, "grad": differentiated, "autocast": under_autocast, "vmap": mapped}


def verdict(way: Callable, subject: Subject) -> str:
    """Return ``works``, ``wrong``, ``-`` where there is no gradient, or the first line of what was raised."""
    try:
        found = way(subject)
    except Exception as error:
        torch.cuda.synchronize()
        line = next(line for line in str(error).strip().splitlines() or [type(error).__name__] if line.strip())
        return f"{type(error).__name__}: {re.sub(' +', ' ', line.strip())[:160]}"
    return "-" if found is None else "works" if found else "wrong"


def short(way: str, text: str, subject: Subject) -> str:
    """Return what a cell of the table says of a verdict."""
    if text in ("works", "wrong", "-"):
        return text
    breaks = way == "compile" and verdict(partial(compiled, fullgraph=False), subject) == "works"
    return "breaks" if breaks else "refused"


TABLES = {"Kernels of the lessons": SUBJECTS, "Kernels to copy": TO_COPY}
WORKERS = 8  # processes that share the GPU, for compiling takes longest


def begin():
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    inductor.compile_threads = 1  # or each of the processes starts as many of its own as there are cores


def line(title: str, name: str) -> tuple[str, list[str]]:
    """Return a line of a table, and what was said in it."""
    subject = TABLES[title][name]
    found = {way: verdict(run, subject) for way, run in WAYS.items()}
    said = [f"{name}, {way}: {text}" for way, text in found.items() if text not in ("works", "-")]
    return "  ".join([name, *(short(way, text, subject) for way, text in found.items())]), said


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile and CUDA graphs take one")
    said = []
    with concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"), begin) as pool:
        waiting = {(title, name): pool.submit(line, title, name) for title in TABLES for name in TABLES[title]}
        for title, subjects in TABLES.items():
            print(f"## {title}")
            print("  ".join(["function", *WAYS]))
            for name in subjects:
                text, more = waiting[title, name].result()
                print(text, flush=True)
                said += more
    print("## What they say")
    print("\n".join(said))


if __name__ == "__main__":
    main()
