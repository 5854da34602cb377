# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows that no program can hold: three attempts to read each element from memory once.

``long_softmax.py`` goes through all rows twice, in two launches: maxima and sums, then shares. When the second begins,
the first rows have long left the L2 cache, and come from memory again. Here one launch does it all, and its programs
tell each other the maximum and the sum of their part of a row:

- ``delayed``: a program for each part and pass; the second pass of a row is some rows behind its first, so that it may
  find the row in L2
- ``held``: a program for each part, which keeps it in registers while it waits for the other parts of its row
- ``persistent``: the same, for one row after another; the part of the next row is on its way while a program waits

**Why nobody waits for ever.** A program that waits takes up a place on the GPU. So those that it waits for must have
one, or get one without it.

- ``delayed`` and ``held`` go by tickets: a program counts one up, and is the program of that number, whichever pid it
  has. So all smaller numbers have started before. In ``delayed``, a second pass waits for smaller numbers, of first
  passes, which wait for nobody. In ``held``, a program says its numbers before it waits, so a row whose programs have
  all started ends. Only the last row may lack some; then fewer than ``parts`` wait, and the next program gets a place
  if the GPU has that many. Of k such launches at once, each may lack some: k * (parts - 1) + 1 places are enough.
- ``persistent`` starts no more programs than fit, and as a cooperative launch: CUDA starts all of them or none, and
  raises an error if they cannot all be there.

A program says its two numbers as one word of 64 bits, which is never 0: a sum is 1 or more, or the maximum is not 0.
The words begin as zeros, and whoever waits reads those of its row until none is 0.

- :func:`softmax_by`, :func:`backward_by`: softmax of the rows of ``x``, and its gradient, by an :class:`Attempt`
- :func:`attempts`: GB/s of each, of the two launches, of torch, of the first pass alone and of a copy
- :func:`backwards`: the same of the backward

Shapes: ``x``, result ``(rows, columns)``, bfloat16 where measured. Bytes: each element of what is given is read once,
and each of the result written once, as if by a copy of so many; of the first pass alone each is read once. Units: GB/s
of 10**9 bytes.
Source: Merrill and Garland, *Single-pass Parallel Prefix Scan with Decoupled Look-back*, 2016: waiting for programs
that have started before.

Run it on a GPU with ``python long_softmax_attempts.py``, or with ``TRITON_INTERPRET=1`` in the interpreter: it shows
that all give the same shares. ``.run`` of the benchmark needs a GPU, pandas and matplotlib.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from snippets.fusion.long_softmax import backward, parts_kernel, shared_out, softmax
from snippets.fusion.long_softmax import plan as plan_of_two
from snippets.fusion.long_softmax_measured import check_alike
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SHAPES = ((512, 131072), (64, 262144))
BY_COLUMNS = {str(columns): (rows, columns) for rows, columns in SHAPES}
REGISTERS = 65536  # of a multiprocessor
MOST_REGISTERS = 248  # of a thread: the hardware has 255, and gives them by eights


# --8<-- [start:words]
@triton.jit
def say(said_ptr, maximum, total):
    """Publish two numbers of 32 bits as one word."""
    high = maximum.to(tl.int32, bitcast=True).to(tl.int64) << 32
    word = high | total.to(tl.uint32, bitcast=True).to(tl.int64)
    tl.atomic_xchg(said_ptr, word, sem="relaxed")


@triton.jit
def hear(said_ptr, parts, LOWEST: tl.constexpr, WORDS: tl.constexpr):
    """Wait until all parts of a row have spoken; return maximum and sum.

    It reads ``WORDS`` at a time, at most 32, so each warp does it alone.
    Then warps need not meet in the loop, and may leave it at any turn.
    """
    maximum = tl.full((), LOWEST, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for begin in range(0, parts, WORDS):
        part = begin + tl.arange(0, WORDS)
        words = tl.load(
            said_ptr + part, mask=part < parts, other=1, volatile=True
        )  # fmt: skip
        while tl.min((words != 0).to(tl.int32), axis=0) == 0:
            words = tl.load(
                said_ptr + part, mask=part < parts, other=1, volatile=True
            )  # fmt: skip
        maxima = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        totals = words.to(tl.int32).to(tl.float32, bitcast=True)
        # of the lanes that are off, 1 as a sum is 10**-45
        maxima = tl.where(part < parts, maxima, LOWEST)
        grown = tl.maximum(maximum, tl.max(maxima, axis=0))
        total = (
            total * tl.exp(maximum - grown)
            + tl.sum(totals * tl.exp(maxima - grown), axis=0)
        )  # fmt: skip
        maximum = grown
    return maximum, total


@triton.jit
def numerators(x, LOWEST: tl.constexpr):
    """Return exp(x - maximum) of a part, its maximum and its sum."""
    x = x.to(tl.float32)
    maximum = tl.maximum(tl.max(x, axis=0), LOWEST)
    numerator = tl.exp(x - maximum)
    return numerator, maximum, tl.sum(numerator, axis=0)


# --8<-- [end:words]


# --8<-- [start:delayed]
@triton.jit
def delayed_kernel(
    x_ptr, out_ptr, said_ptr, ticket_ptr, rows, columns, parts, delay,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    ticket = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    group, place = ticket // (2 * parts), ticket % (2 * parts)
    second, part = place >= parts, place % parts
    row = tl.where(second, group - delay, group).to(tl.int64)
    if (row >= 0) & (row < rows):
        column = part * BLOCK + tl.arange(0, BLOCK)
        mask = column < columns
        x_ptr += row * columns
        said_ptr += row * parts
        if second:
            x = tl.load(x_ptr + column, mask=mask, other=-float("inf"), eviction_policy=SECOND)
            maximum, total = hear(said_ptr, parts, LOWEST, WORDS)
            share = tl.exp(x.to(tl.float32) - maximum) * (1 / total)
            tl.store(out_ptr + row * columns + column, share, mask=mask, eviction_policy=SECOND)
        else:
            x = tl.load(x_ptr + column, mask=mask, other=-float("inf"), eviction_policy=FIRST)
            _, maximum, total = numerators(x, LOWEST)
            say(said_ptr + part, maximum, total)


# --8<-- [end:delayed]


# --8<-- [start:held]
@triton.jit
def held_kernel(
    x_ptr, out_ptr, said_ptr, ticket_ptr, columns, parts,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    ticket = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    row, part = (ticket // parts).to(tl.int64), ticket % parts
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=-float("inf"))
    numerator, mine, total = numerators(x, LOWEST)
    say(said_ptr + row * parts + part, mine, total)
    maximum, total = hear(said_ptr + row * parts, parts, LOWEST, WORDS)
    share = numerator * (tl.exp(mine - maximum) / total)
    tl.store(out_ptr + row * columns + column, share, mask=mask)


# --8<-- [end:held]


# --8<-- [start:persistent]
@triton.jit
def persistent_kernel(
    x_ptr, out_ptr, said_ptr, rows, columns, parts, groups,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    group, part = (
        tl.program_id(axis=0) // parts, tl.program_id(axis=0) % parts
    )  # fmt: skip
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(
        x_ptr + group.to(tl.int64) * columns + column, mask=mask,
        other=-float("inf")
    )  # fmt: skip
    for this in range(group, rows, groups):
        row = tl.cast(this, tl.int64)
        numerator, mine, total = numerators(x, LOWEST)
        say(said_ptr + row * parts + part, mine, total)
        following = row + groups  # asked for now, used in the next turn
        x = tl.load(
            x_ptr + following * columns + column,
            mask=mask & (following < rows), other=-float("inf")
        )  # fmt: skip
        maximum, total = hear(said_ptr + row * parts, parts, LOWEST, WORDS)
        share = numerator * (tl.exp(mine - maximum) / total)
        tl.store(out_ptr + row * columns + column, share, mask=mask)


# --8<-- [end:persistent]


# --8<-- [start:backward]
@triton.jit
def held_backward_kernel(
    grad_ptr, y_ptr, grad_x_ptr, said_ptr, ticket_ptr, columns, parts,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    ticket = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    row, part = (ticket // parts).to(tl.int64), ticket % parts
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    grad = tl.load(grad_ptr + row * columns + column, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row * columns + column, mask=mask, other=0.0).to(tl.float32)
    say_sum(said_ptr + row * parts + part, grad * y)
    _, total = hear(said_ptr + row * parts, parts, LOWEST, WORDS)
    tl.store(grad_x_ptr + row * columns + column, y * (grad - total), mask=mask)


@triton.jit
def persistent_backward_kernel(
    grad_ptr, y_ptr, grad_x_ptr, said_ptr, rows, columns, parts, groups,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    group, part = (
        tl.program_id(axis=0) // parts, tl.program_id(axis=0) % parts
    )  # fmt: skip
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    place = group.to(tl.int64) * columns + column
    next_grad = tl.load(grad_ptr + place, mask=mask, other=0.0)
    next_y = tl.load(y_ptr + place, mask=mask, other=0.0)
    for this in range(group, rows, groups):
        row = tl.cast(this, tl.int64)
        grad, y = next_grad.to(tl.float32), next_y.to(tl.float32)
        say_sum(said_ptr + row * parts + part, grad * y)
        following = row + groups
        there = mask & (following < rows)
        next_grad = tl.load(grad_ptr + following * columns + column, mask=there, other=0.0)
        next_y = tl.load(y_ptr + following * columns + column, mask=there, other=0.0)
        _, total = hear(said_ptr + row * parts, parts, LOWEST, WORDS)
        tl.store(grad_x_ptr + row * columns + column, y * (grad - total), mask=mask)


@triton.jit
def say_sum(said_ptr, products):
    """Publish a sum with a maximum of 1, the same for all parts, so that sums are added up as they are."""
    total = tl.sum(products, axis=0)
    say(said_ptr, tl.full((), 1.0, tl.float32), total)


# --8<-- [end:backward]


# --8<-- [start:host]
class Attempt(NamedTuple):
    """A way, columns of a part, warps of a program; and what some of the ways ask for in addition."""

    way: str
    block: int
    num_warps: int
    delay: int = 0  # delayed: rows between the two passes
    hints: bool = False  # delayed: whether the cache is told to keep what is read first, and to give up the rest
    per_multiprocessor: int = 1  # persistent: programs


def softmax_by(x: torch.Tensor, by: Attempt) -> torch.Tensor:
    """Return the softmax of each row, in one launch.

    Args:
        x: ``(rows, columns)``, contiguous, of one of ``DTYPES``, on a GPU (in the interpreter: on the CPU).
        by: How.

    Raises:
        ValueError: The kernels cannot serve ``x``, or a row has more parts than programs that wait may be.
    """
    check(x, by)
    rows, columns = x.shape
    out = torch.empty_like(x)
    if not out.numel():
        return out
    parts = triton.cdiv(columns, by.block)
    options = options_of(parts, by)
    said = torch.zeros(rows * parts + 1, dtype=torch.int64, device=x.device)
    said, ticket = said[:-1], said[-1:].view(torch.int32)
    with torch.cuda.device_of(x):
        for _ in launches(said, ticket, by.way):
            if by.way == "delayed":
                first, second = ("evict_last", "evict_first") if by.hints else ("", "")
                delayed_kernel[((rows + by.delay) * 2 * parts,)](
                    x, out, said, ticket, rows, columns, parts, by.delay, FIRST=first, SECOND=second, **options
                )
            elif by.way == "held":
                held_kernel[(rows * parts,)](x, out, said, ticket, columns, parts, **options)
            else:
                groups = min(places(x, by) // parts, rows)
                persistent_kernel[(groups * parts,)](x, out, said, rows, columns, parts, groups, **options)
    return out


def backward_by(grad: torch.Tensor, y: torch.Tensor, by: Attempt) -> torch.Tensor:
    """Return the gradient of ``x``, from the softmax and its gradient; both as ``x`` of :func:`softmax_by`.

    Raises:
        ValueError: As there; and the way is delayed, for which there is no backward.
    """
    check(y, by)
    check(grad, by)
    if grad.shape != y.shape or grad.dtype != y.dtype or by.way == "delayed":
        raise ValueError(f"grad and y must be alike, and the way not delayed; got {grad.shape}, {y.shape}, {by.way}")
    rows, columns = y.shape
    grad_x = torch.empty_like(y)
    if not grad_x.numel():
        return grad_x
    parts = triton.cdiv(columns, by.block)
    said = torch.zeros(rows * parts + 1, dtype=torch.int64, device=y.device)
    said, ticket = said[:-1], said[-1:].view(torch.int32)
    with torch.cuda.device_of(y):
        for _ in launches(said, ticket, by.way):
            if by.way == "held":
                held_backward_kernel[(rows * parts,)](
                    grad, y, grad_x, said, ticket, columns, parts, **options_of(parts, by)
                )
            else:
                groups = min(places(y, by) // parts, rows)
                persistent_backward_kernel[(groups * parts,)](
                    grad, y, grad_x, said, rows, columns, parts, groups, **options_of(parts, by)
                )
    return grad_x


def options_of(parts: int, by: Attempt) -> dict:
    """Return the options that all kernels are compiled with.

    Of persistent ones, as many as are asked for fit on a multiprocessor.
    """
    options = {
        "LOWEST": torch.finfo(torch.float32).min, "BLOCK": by.block, "WORDS": min(triton.next_power_of_2(parts), 32),
        "num_warps": by.num_warps,
    }  # fmt: skip
    if by.way == "persistent":
        of_a_thread = REGISTERS // (by.per_multiprocessor * by.num_warps * 32) // 8 * 8  # they are given by eights
        options |= {"maxnreg": min(of_a_thread, MOST_REGISTERS), "launch_cooperative_grid": True}
    return options


def launches(said: torch.Tensor, ticket: torch.Tensor, way: str) -> Iterator[int]:
    """Yield the number of each launch: 1 alone, on a GPU.

    The interpreter runs a program to its end before the next begins, so none may wait for a later one: there, all have
    said something before the first launch, wrong as it is, and the second one hears what is right.
    """
    if way == "delayed" or not interpreted():
        yield 1
        return
    said.fill_(1)
    for number in (1, 2):
        ticket.zero_()
        yield number


def interpreted() -> bool:
    return not isinstance(held_kernel, triton.JITFunction)


def places(x: torch.Tensor, by: Attempt) -> int:
    """Return how many programs are sure to run at once: one on each multiprocessor, or as many as the attempt asks for.
    """
    each = by.per_multiprocessor if by.way == "persistent" else 1
    return each * (4 if interpreted() else torch.cuda.get_device_properties(x.device).multi_processor_count)


def check(x: torch.Tensor, by: Attempt) -> None:
    if by.way not in ("delayed", "held", "persistent"):
        raise ValueError(f"way must be delayed, held or persistent; got {by.way!r}")
    if x.ndim != 2 or not x.is_contiguous() or x.dtype not in DTYPES:
        raise ValueError(
            f"x must be contiguous, of two axes and of one of {', '.join(map(str, DTYPES))}; got shape"
            f" {tuple(x.shape)}, strides {x.stride()}, {x.dtype}"
        )
    if x.device.type != ("cpu" if interpreted() else "cuda"):
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted() else 'a GPU'}")
    if by.delay < 0:
        raise ValueError(f"delay must be 0 or more; got {by.delay}")
    rows, columns = x.shape
    parts = triton.cdiv(columns, by.block)
    if by.way != "delayed" and parts > places(x, by):
        raise ValueError(f"{parts} parts of a row must run at once, and {places(x, by)} programs are sure to")
    if (rows + by.delay) * 2 * parts >= 2**31:
        raise ValueError(f"{rows} rows of {columns} columns are too many for one launch")


# --8<-- [end:host]


# --8<-- [start:measure]
ATTEMPTS = {
    "delayed by 8 rows": Attempt("delayed", 8192, 4, delay=8),
    "delayed by 33 rows": Attempt("delayed", 8192, 4, delay=33),
    "delayed by 33 rows, with hints": Attempt("delayed", 8192, 4, delay=33, hints=True),
    "held, 4,096 columns": Attempt("held", 4096, 4),
    "held, 8,192 columns": Attempt("held", 8192, 4),
    "held, 8,192 columns, 8 warps": Attempt("held", 8192, 8),
    "persistent, 4,096 columns": Attempt("persistent", 4096, 4, per_multiprocessor=6),
    "persistent, 8,192 columns": Attempt("persistent", 8192, 4, per_multiprocessor=4),
    "persistent, 8,192 columns, 8 warps": Attempt("persistent", 8192, 8, per_multiprocessor=3),
    "persistent, 16,384 columns": Attempt("persistent", 16384, 8, per_multiprocessor=2),
}
BACKWARDS = {
    "held, 4,096 columns": Attempt("held", 4096, 4),
    "held, 8,192 columns, 8 warps": Attempt("held", 8192, 8),
    "persistent, 4,096 columns": Attempt("persistent", 4096, 4, per_multiprocessor=4),
    "persistent, 8,192 columns, 8 warps": Attempt("persistent", 8192, 8, per_multiprocessor=2),
}


def first_pass(x: torch.Tensor) -> torch.Tensor:
    """Launch only the first of the two kernels: maxima and sums."""
    by = plan_of_two(*x.shape, x.dtype)
    parts, length, maxima, totals = shared_out(x, by)
    parts_kernel[(len(x) * parts,)](
        x, maxima, totals, x.shape[1], x.stride(0), parts, length,
        LOWEST=torch.finfo(torch.float32).min, COMPUTE=tl.float32, BLOCK=by.block, num_warps=by.num_warps,
    )  # fmt: skip
    return maxima


OTHERS = {"two launches": softmax, "torch": functools.partial(torch.softmax, dim=-1)}


def torch_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._softmax_backward_data(grad, y, -1, y.dtype)


@functools.cache
def measure(rows: int, columns: int) -> dict[str, Timing]:
    """Return the milliseconds of each side, after all results were compared with torch's."""
    torch.manual_seed(0)
    make = lambda: [torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)]
    sides = OTHERS | {name: functools.partial(softmax_by, by=by) for name, by in ATTEMPTS.items()}
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides | {"first pass alone": first_pass, "copy": torch.clone}, make, rounds=3)


@functools.cache
def measure_backward(rows: int, columns: int) -> dict[str, Timing]:
    """Return the same of the backward alone. The copy moves as many bytes: it is of one and a half tensors."""
    torch.manual_seed(0)

    def make():
        x, grad = (torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        return [grad, torch.softmax(x, dim=-1)]

    sides = {"two launches": backward, "torch": torch_backward}
    sides |= {name: functools.partial(backward_by, by=by) for name, by in BACKWARDS.items()}
    check_alike(sides, make(), "torch")
    found = compare_in_rotation(sides, make, rounds=3)
    of_copy = lambda: [torch.randn(3 * rows * columns // 2, device="cuda", dtype=torch.bfloat16)]
    return found | compare_in_rotation({"copy": torch.clone}, of_copy, rounds=3)


# --8<-- [end:measure]


# --8<-- [start:tables]
COLUMNS = {
    "x_names": ["side"],
    "ylabel": "GB/s",
    "line_arg": "what",
    "line_vals": [f"{what}_{columns}" for columns in BY_COLUMNS for what in ("rate", "share")],
    "line_names": [
        f"{rows} × {columns}{what}" for rows, columns in SHAPES for what in ("", ", share of the copy's speed")
    ],
    "args": {},
}


def shape_of(what: str) -> tuple[int, int]:
    return BY_COLUMNS[what.split("_")[1]]


def cell(found, side: str, what: str, tensors: int):
    """Return GB/s for ``tensors`` that are read or written once, or the share of those of the copy."""
    rows, columns = shape_of(what)
    moved = rows * columns * torch.bfloat16.itemsize
    of_side = found[side].rate((1 if side == "first pass alone" else tensors) * moved)
    return of_side if what.startswith("rate") else of_side[0] / found["copy"].rate(tensors * moved)[0]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="attempts", x_vals=[*OTHERS, *ATTEMPTS, "first pass alone", "copy"], **COLUMNS
    )
)  # fmt: skip
def attempts(side, what):
    """GB/s of the forward: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return cell(measure(*shape_of(what)), side, what, tensors=2)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="backwards", x_vals=[*OTHERS, *BACKWARDS, "copy"], **COLUMNS
    )
)  # fmt: skip
def backwards(side, what):
    """GB/s of the backward: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return cell(measure_backward(*shape_of(what)), side, what, tensors=3)


# --8<-- [end:tables]


def main():
    torch.manual_seed(0)
    x = torch.randn(6, 40, device="cpu" if interpreted() else "cuda")
    x[4, :24] = -float("inf")
    wanted = torch.softmax(x, dim=-1)
    for by in (
        *(Attempt("delayed", 16, 1, delay=delay) for delay in (0, 1, 6)),
        Attempt("held", 16, 1),
        Attempt("persistent", 16, 1),
    ):
        name = f"{by.way} by {by.delay} rows" if by.way == "delayed" else by.way
        print(f"{name}, the shares are torch's: {torch.allclose(softmax_by(x, by), wanted)}")
    grad = torch.randn_like(x)
    for by in (Attempt("held", 16, 1), Attempt("persistent", 16, 1)):
        slope = backward_by(grad, wanted, by)
        print(f"{by.way}, the gradient is torch's: {torch.allclose(slope, torch_backward(grad, wanted), atol=1e-6)}")


if __name__ == "__main__":
    main()
