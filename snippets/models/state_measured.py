# SPDX-License-Identifier: Apache-2.0
"""A state in chunks, measured: beside one step after the other, beside torch's operations, and beside attention.

- :func:`lengths`: milliseconds by the number of steps, of one text with 32 heads
- :func:`shapes`: microseconds of the forward and of both passes, beside a copy of as many bytes
- :func:`decoding`: microseconds of the next step of 16 texts, by how many steps came before

Keys and values have 128 numbers, bfloat16, normally distributed; the decays are about 0.95. *copy* copies as many bytes
as the forward must move: it reads q, k, v and log_decay, and writes y. *torch* is the same algorithm in torch's
operations, chunk by chunk, as Mamba-2's authors published it. *attention* is torch's, causal, of the same q, k and v.

All sides run in turns on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``),
after their results were compared.

Source: Tri Dao and Albert Gu, *Transformers are SSMs*, 2024, listing 1, for torch's side.

``python state_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.fusion.decoding import decode_attention
from snippets.models.state import state_scan
from snippets.models.state_steps import step_by_step
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

HEADS, WIDTH = 32, 128
LENGTHS = [2**i for i in range(10, 17)]
# Batch, heads, steps, keys and values; Mamba-2's have 64 values.
SHAPES = {
    "1 × 32 × 65536, 128 × 128": (1, 32, 65536, 128, 128),
    "1 × 32 × 8192, 128 × 128": (1, 32, 8192, 128, 128),
    "8 × 32 × 4096, 128 × 128": (8, 32, 4096, 128, 128),
    "8 × 64 × 4096, 128 × 64": (8, 64, 4096, 128, 64),
}
TEXTS, KV_HEADS = 16, 8


# --8<-- [start:torch]
def decays_between(log_decay):
    """Return the log of what is left of each step, a column, at each later step, a row; -inf for what is not later."""
    so_far = log_decay.cumsum(-1)
    between = so_far[..., :, None] - so_far[..., None, :]
    return between.masked_fill(torch.ones_like(between, dtype=torch.bool).triu(1), -torch.inf)


def in_chunks(q, k, v, log_decay, chunk=64):
    """Return the results: each chunk's own, its state, the states passed on, and what they add to the results."""
    split = lambda x: x.unflatten(2, (-1, chunk))
    q, k, v, log_decay = map(split, (q, k, v, log_decay))
    so_far = log_decay.cumsum(-1)
    weights = (q @ k.mT) * decays_between(log_decay).exp().to(q.dtype)
    left = (so_far[..., -1:] - so_far).exp().to(q.dtype)
    own = (k * left[..., None]).mT @ v
    # Row c: the state before chunk c, of the chunks before it.
    whole = torch.nn.functional.pad(so_far[..., -1], (1, 0))
    passed = decays_between(whole).exp()[..., :-1, 1:].to(q.dtype)
    states = (passed.tril(-1) @ own.flatten(3)).view_as(own)
    y = weights @ v + (q * so_far.exp().to(q.dtype)[..., None]) @ states
    return y.flatten(2, 3)
# --8<-- [end:torch]


# --8<-- [start:operands]
def operands(batch: int, heads: int, steps: int, keys: int, values: int) -> list[torch.Tensor]:
    """Return q, k, v, log decays, and what the results' gradient is to be."""
    new = lambda width: torch.randn(batch, heads, steps, width, device="cuda", dtype=torch.bfloat16)
    log_decay = torch.nn.functional.logsigmoid(torch.randn(batch, heads, steps, device="cuda") + 3)
    return [new(keys) * keys**-0.5, new(keys), new(values), log_decay, new(values)]


def moved(q, k, v, log_decay) -> int:
    """Return the bytes that a forward has to move."""
    return sum(x.nbytes for x in (q, k, v, log_decay, v))


def copied(*given):
    """Return a function that moves as many bytes as a forward, of memory that is not in the cache either.

    It negates what it copies: torch's clone would be no kernel in a CUDA graph, and was slower there.
    """
    half = moved(*given[:4]) // 2
    buffers = [torch.zeros(half // 4, dtype=torch.int32, device="cuda") for _ in range(2 if half > 2**28 else 8)]
    turns = iter(range(2**62))
    return lambda *_: torch.neg(buffers[next(turns) % len(buffers)])


def check_alike(name: str, found: torch.Tensor, wanted: torch.Tensor, most: float = 0.02) -> None:
    """Raise ``RuntimeError`` if results differ by more than rounding does."""
    error = ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()
    if not error < most:
        raise RuntimeError(f"{name} differs by {error:.2g}")
# --8<-- [end:operands]


# --8<-- [start:lengths]
@functools.cache
def measure_lengths(steps: int) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    make = functools.partial(operands, 1, HEADS, steps, WIDTH, WIDTH)
    attention = torch.nn.functional.scaled_dot_product_attention
    sides = {
        "chunks": lambda q, k, v, a, _: state_scan(q, k, v, a),
        "stepwise": lambda q, k, v, a, _: step_by_step(q, k, v, a, block_v=8, num_warps=1),
        "torch": lambda q, k, v, a, _: in_chunks(q, k, v, a),
        "attention": lambda q, k, v, a, _: attention(q, k, v, is_causal=True),
    }
    given = make()
    wanted = sides["chunks"](*given)[0]
    check_alike("stepwise", sides["stepwise"](*given)[0], wanted)
    check_alike("torch", sides["torch"](*given), wanted)
    del wanted
    sides["copy"] = copied(*given)
    return compare_in_rotation(sides, make, rounds=2)


SIDES = {
    "chunks": "in chunks",
    "stepwise": "step by step",
    "torch": "torch’s operations, in chunks",
    "attention": "torch’s attention",
    "copy": "a copy",
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="lengths",
        x_names=["steps"],
        x_vals=LENGTHS,
        xlabel="steps",
        x_log=True,
        y_log=True,
        ylabel="ms",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=list(SIDES.values()),
        args={},
    )
)
def lengths(steps, side):
    """Milliseconds of a text's results: median, fastest and slowest round."""
    timing = measure_lengths(steps)[side]
    return timing.median, min(timing.rounds), max(timing.rounds)
# --8<-- [end:lengths]


# --8<-- [start:shapes]
@functools.cache
def measure_shapes(shape: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    make = functools.partial(operands, *SHAPES[shape])

    def both(q, k, v, a, grad):
        leaves = [x.detach().requires_grad_() for x in (q, k, v, a)]
        return torch.autograd.grad(state_scan(*leaves)[0], leaves, grad)

    sides = {"forward": lambda q, k, v, a, _: state_scan(q, k, v, a), "both": both, "copy": copied(*make())}
    return compare_in_rotation(sides, make, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="shapes",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="texts × heads × steps, keys × values",
        ylabel="µs",
        line_arg="side",
        line_vals=["forward", "both", "copy"],
        line_names=["forward", "forward and backward", "a copy of the forward’s bytes"],
        args={},
    )
)
def shapes(shape, side):
    """Microseconds: median, fastest and slowest of 3 rounds."""
    timing = measure_shapes(shape)[side]
    return tuple(1e3 * each for each in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:shapes]


# --8<-- [start:decoding]
@functools.cache
def measure_decoding(before: int) -> dict[str, Timing]:
    """Return the milliseconds of one step: with a state, and with a cache of as many keys as steps came before."""
    torch.manual_seed(0)
    new = lambda *shape: torch.randn(*shape, WIDTH, device="cuda", dtype=torch.bfloat16)

    make = lambda: [new(TEXTS, HEADS, 1), new(TEXTS, KV_HEADS, before), new(TEXTS, KV_HEADS, before)]
    k, v = new(TEXTS, HEADS, 1), new(TEXTS, HEADS, 1)
    decay = torch.full((TEXTS, HEADS, 1), -0.05, device="cuda")
    # The states are small beside the caches, so they get a rotation of their own.
    states = [torch.randn(TEXTS, HEADS, WIDTH, WIDTH, device="cuda") for _ in range(8)]
    turns = iter(range(2**62))
    sides = {
        "state": lambda q, *_: step_by_step(q, k, v, decay, states[next(turns) % len(states)]),
        "cache": lambda q, keys, values: decode_attention(q, keys, values),
    }
    return compare_in_rotation(sides, make, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="decoding",
        x_names=["before"],
        x_vals=[1024, 8192, 65536],
        xlabel="steps before",
        ylabel="µs",
        line_arg="side",
        line_vals=["state", "cache"],
        line_names=["a state", "a cache of keys and values"],
        args={},
    )
)
def decoding(before, side):
    """Microseconds: median, fastest and slowest of 3 rounds."""
    timing = measure_decoding(before)[side]
    return tuple(1e3 * each for each in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:decoding]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for benchmark in (lengths, shapes, decoding):
        print(f"{benchmark.fn.__name__}.run(print_data=True)  # {benchmark.fn.__doc__.splitlines()[0]}")
    state, cache = HEADS * WIDTH * WIDTH * 4, 65536 * KV_HEADS * 2 * WIDTH * 2
    print(f"a text's state, MB: {state / 1e6:.1f}")
    print(f"a text's cache of 65536 keys and values, MB: {cache / 1e6:.1f}")


if __name__ == "__main__":
    main()
