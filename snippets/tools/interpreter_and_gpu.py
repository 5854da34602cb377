# SPDX-License-Identifier: Apache-2.0
"""Run many small kernels, each on one feature of Triton, and say of each whether its result is right.

Run it compiled with ``python interpreter_and_gpu.py`` on a machine with a GPU, or without one in Triton's interpreter
with ``TRITON_INTERPRET=1 python interpreter_and_gpu.py``. In the interpreter it also compiles every kernel for a GPU
of compute capability 9.0, which takes none. Choose another Triton by putting its folder first on ``PYTHONPATH``.

What is right comes from PyTorch, from plain Python or from the definition of the feature, never from Triton. The
features run in a process of their own, which is started anew behind a feature that brought it down.

Source: the features are those of Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.errors import InterpreterError

TIME_LIMIT = 300  # seconds for all features together
TARGET = triton.backends.compiler.GPUTarget("cuda", 90, 32)  # what to compile for without a GPU
REFUSED = "refused"  # what is expected of a kernel that the compiler must not accept
SECTIONS = {
    "language": "The language",
    "looking": "Looking into a kernel",
    "numbers": "Numbers",
    "refused": "What the compiler must refuse",
    "beside": "Lanes and programs side by side",
}
FEATURES = {}  # by the names of their functions, in the order of the table


# --8<-- [start:feature]
@dataclass(frozen=True)
class Feature:
    section: str
    title: str
    run: callable  # takes a device, returns what was got and expected, and perhaps a relative tolerance


def feature(section, title):
    """Enter a function into ``FEATURES``."""

    def enter(run):
        FEATURES[run.__name__] = Feature(section, title, run)
        return run

    return enter


def judge(got, expected=None, tolerance=0.0) -> str:
    """Say in a few words how a result compares with what is right; ``None`` where nothing is.

    >>> judge(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]))
    'differs: got 4 instead of 3, one of 3 values'
    >>> judge(torch.tensor([1.0001]), torch.tensor([1.0]), 1e-3)
    'right'
    """
    if expected is None:
        return f"got {spell(got)}"
    if expected == REFUSED:
        return f"accepted: got {spell(got)}"
    if isinstance(got, str):
        return "right" if got == expected else f"differs: {got}"
    got, expected = values(got), values(expected)
    if got.shape != expected.shape:
        return f"differs: got shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
    wrong = ~torch.isclose(got, expected, rtol=tolerance, atol=0, equal_nan=True)
    if not wrong.any():
        return "right"
    first = got[wrong][0].item(), expected[wrong][0].item()
    digits = next((d for d in (4, 7) if len({f"{value:.{d}g}" for value in first}) == 2), 9)
    spelled = [f"{value:.{digits}g}" if tolerance else number(value, digits) for value in first]  # sums vary by CPU
    told = f"differs: got {spelled[0]} instead of {spelled[1]}"
    many = int(wrong.sum())
    return told if got.numel() == 1 else f"{told}, {'one' if many == 1 else many} of {got.numel()} values"
# --8<-- [end:feature]


def values(tensor) -> torch.Tensor:
    return torch.as_tensor(tensor).detach().cpu().to(torch.float64).flatten()


def number(value: float, digits: int = 7) -> str:
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e12 else f"{value:.{digits}g}"


def spell(got) -> str:
    """Up to four values of a tensor, or a text as it is."""
    if isinstance(got, str):
        return got
    texts = map(number, values(got)[:4].tolist())
    return ", ".join(texts) + (", …" if values(got).numel() > 4 else "")


def complaint(error: BaseException) -> str:
    """The cause of an error in one line.

    >>> complaint(ValueError("two\\nlines"))
    'ValueError: two'
    """
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = lines[-1] if lines[0].startswith("at ") else lines[0]  # "at 3:4:", the line, what is wrong with it
    told = f"{type(error).__name__}: {re.sub(r' object at 0x[0-9a-f]+', '', text)}".removesuffix(": ")
    return told if len(told) <= 120 else f"{told[:119]}…"


# The language


@triton.jit
def program_id_kernel(out_ptr):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    index = (i * tl.num_programs(1) + j) * tl.num_programs(2) + k
    tl.store(out_ptr + index, 100 * i + 10 * j + k)


@feature("language", "`tl.program_id`, three axes")
def program_id(device):
    out = torch.zeros(2, 3, 4, dtype=torch.int32, device=device)
    program_id_kernel[(2, 3, 4)](out)
    i, j, k = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(4), indexing="ij")
    return out, 100 * i + 10 * j + k


# --8<-- [start:none]
@triton.jit
def none_kernel(out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + rows * COLUMNS + columns, 10 * rows + columns)


@feature("language", "`x[:, None]` and `x[None, :]`")
def none_slicing(device):
    out = torch.zeros(4, 8, dtype=torch.int32, device=device)
    none_kernel[(1,)](out, 4, 8)
    return out, 10 * torch.arange(4)[:, None] + torch.arange(8)
# --8<-- [end:none]


@triton.jit
def swizzle_kernel(rows_ptr, columns_ptr, GROUP: tl.constexpr):
    i, j, rows, columns = tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1)
    row, column = tl.swizzle2d(i, j, rows, columns, GROUP)
    tl.store(rows_ptr + i * columns + j, row)
    tl.store(columns_ptr + i * columns + j, column)


@feature("language", "`tl.swizzle2d`")
def swizzle2d(device):
    rows, columns = torch.zeros(2, 5, 4, dtype=torch.int32, device=device)
    swizzle_kernel[(5, 4)](rows, columns, 3)
    order = [(r, c) for first in (0, 3) for c in range(4) for r in range(first, min(first + 3, 5))]
    return torch.stack([rows.flatten(), columns.flatten()], 1), torch.tensor(order)


@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 32)).reshape(4, 8)
    tl.store(out_ptr + tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4), tl.trans(x))


@feature("language", "`tl.reshape`, `tl.trans`")
def transpose(device):
    x, out = numbers(32, device), torch.zeros(8, 4, device=device)
    transpose_kernel[(1,)](x, out)
    return out, x.reshape(4, 8).T


@triton.jit
def permute_kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 32)).reshape(2, 4, 4)
    tl.store(out_ptr + tl.arange(0, 32), tl.permute(x, (2, 0, 1)).reshape(32))


@feature("language", "`tl.permute`")
def permute(device):
    x, out = numbers(32, device), torch.zeros(32, device=device)
    permute_kernel[(1,)](x, out)
    return out, x.reshape(2, 4, 4).permute(2, 0, 1).flatten()


@triton.jit
def join_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 16)
    x, y = tl.split(tl.join(tl.load(x_ptr + i), tl.load(x_ptr + 16 + i)))
    tl.store(out_ptr + tl.arange(0, 32), tl.interleave(y, x))


@feature("language", "`tl.join`, `tl.split`, `tl.interleave`")
def join(device):
    x, out = numbers(32, device), torch.zeros(32, device=device)
    join_kernel[(1,)](x, out)
    return out, torch.stack([x[16:], x[:16]], 1).flatten()


# --8<-- [start:loop]
@triton.jit
def loop_kernel(out_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for start in range(0, n, BLOCK):
        total += start
    tl.store(out_ptr, total)


@feature("language", "`range(0, n, BLOCK)`, `n` an argument")
def loop(device):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    loop_kernel[(1,)](out, 100, 32)
    return out, [0 + 32 + 64 + 96]
# --8<-- [end:loop]


@triton.jit
def loaded_loop_kernel(n_ptr, out_ptr):
    total = 0
    for i in range(tl.load(n_ptr)):
        total += i
    tl.store(out_ptr, total)


@feature("language", "`range(n)`, `n` loaded from memory")
def loaded_loop(device):
    n, out = torch.tensor([10], dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    loaded_loop_kernel[(1,)](n, out)
    return out, [45]


@triton.jit
def staged_loop_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.arange(0, BLOCK), total)


@feature("language", "`tl.range(…, num_stages=3)`")
def staged_loop(device):
    x, out = numbers(128, device), torch.zeros(32, device=device)
    staged_loop_kernel[(1,)](x, out, 128, 32, 3)
    return out, x.view(4, 32).sum(0)


@triton.jit
def while_kernel(n_ptr, out_ptr, limit):
    n = tl.load(n_ptr)
    steps = 0
    while (n != 1) & (steps < limit):
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out_ptr, steps)


@feature("language", "`while` and `if` on loaded values")
def while_loop(device):
    n, out = torch.tensor([27], dtype=torch.int32, device=device), torch.zeros(2, dtype=torch.int32, device=device)
    while_kernel[(1,)](n, out, 1000)
    while_kernel[(1,)](n, out[1:], 50)
    return out, [111, 50]


@triton.jit
def both(a, b):
    return a + b, a * b


@triton.jit
def static_kernel(out_ptr, N: tl.constexpr):
    total = 1
    for i in tl.static_range(1, N):
        total, product = both(total, i)
        tl.store(out_ptr + 2 * i, total)
        tl.store(out_ptr + 2 * i + 1, product)


@feature("language", "`tl.static_range`, a helper that returns two values")
def static_loop(device):
    out = torch.zeros(4, 2, dtype=torch.int32, device=device)
    static_kernel[(1,)](out, 4)
    return out, [[0, 0], [2, 1], [4, 4], [7, 12]]


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def reduce_kernel(x_ptr, out_ptr, KIND: tl.constexpr):
    i, j = tl.arange(0, 4), tl.arange(0, 16)
    x = tl.load(x_ptr + i[:, None] * 16 + j[None, :])
    if KIND == "sum":
        out = tl.sum(x, axis=1)
    elif KIND == "max":
        out = tl.max(x, axis=1)
    elif KIND == "argmax":
        out = tl.argmax(x, axis=1)
    else:
        out = tl.reduce(x, 1, larger)
    tl.store(out_ptr + i, out)


def reduced(kind, dtype=torch.float32):
    def run(device):
        x, out = numbers(64, device), torch.zeros(4, dtype=dtype, device=device)
        reduce_kernel[(1,)](x, out, kind)
        x = x.view(4, 16)
        return out, {"sum": x.sum(1), "argmax": x.argmax(1)}.get(kind, x.max(1).values)

    run.__name__ = f"reduce_{kind}"
    return run


feature("language", "`tl.sum` along an axis")(reduced("sum"))
feature("language", "`tl.max` along an axis")(reduced("max"))
feature("language", "`tl.argmax`")(reduced("argmax", torch.int32))
feature("language", "`tl.reduce` with a function of your own")(reduced("own"))


@triton.jit
def scan_kernel(x_ptr, out_ptr, KIND: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i)
    if KIND == "cumsum":
        out = tl.cumsum(x)
    elif KIND == "associative_scan":
        out = tl.associative_scan(x, 0, larger, reverse=True)
    elif KIND == "sort":
        out = tl.sort(x)
    elif KIND == "flip":
        out = tl.flip(x.reshape(4, 4), 1).reshape(16)
    elif KIND == "gather":
        out = tl.gather(x.reshape(4, 4), (3 - i % 4).reshape(4, 4), 1).reshape(16)
    else:
        out = tl.histogram(x.to(tl.int32) % 16, 16)
    tl.store(out_ptr + i, out)


def scanned(kind):
    def run(device):
        x, out = numbers(16, device), torch.zeros(16, device=device)
        scan_kernel[(1,)](x, out, kind)
        return out, {
            "cumsum": x.cumsum(0),
            "associative_scan": x.flip(0).cummax(0).values.flip(0),
            "sort": x.sort().values,
            "histogram": torch.bincount(x.long() % 16, minlength=16),
        }.get(kind, x.view(4, 4).flip(1).flatten())

    run.__name__ = kind
    return run


for kind in ("cumsum", "associative_scan", "sort", "flip", "gather", "histogram"):
    feature("language", f"`tl.{kind}`")(scanned(kind))


@triton.jit
def atomic_kernel(out_ptr, old_ptr, KIND: tl.constexpr):
    pid = tl.program_id(0)
    value = pid + 1
    if KIND == "add":
        tl.atomic_add(out_ptr, value)
    elif KIND == "max":
        tl.atomic_max(out_ptr, value)
    elif KIND == "cas":
        tl.store(old_ptr + pid, tl.atomic_cas(out_ptr, 0, value))
    else:
        tl.store(old_ptr + pid, tl.atomic_xchg(out_ptr, value))


def atomic(kind, dtype):
    """Sixteen programs at one element; what is expected holds for any order of them."""

    def run(device):
        out, old = torch.zeros(1, dtype=dtype, device=device), torch.zeros(16, dtype=dtype, device=device)
        atomic_kernel[(16,)](out, old, kind)
        if kind == "cas":  # one of them found the 0, all others what that one wrote
            winner = int(out) - 1
            return old, [0 if pid == winner else max(winner, 0) + 1 for pid in range(16)]
        if kind == "xchg":  # every value is found once by some program, or is the last
            return torch.cat([old, out]).sort().values, range(17)
        return out, [136 if kind == "add" else 16]

    run.__name__ = f"atomic_{kind}_{str(dtype).removeprefix('torch.')}"
    return run


for kind, dtype in (
    ("add", torch.int32), ("add", torch.float32), ("add", torch.float16), ("add", torch.bfloat16),
    ("max", torch.int32), ("max", torch.float32), ("cas", torch.int32), ("xchg", torch.int32), ("xchg", torch.float32),
):  # fmt: skip
    feature("language", f"`tl.atomic_{kind}`, {str(dtype).removeprefix('torch.')}")(atomic(kind, dtype))


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, rows, out_rows, columns):
    source = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [8, 16])
    target = tl.make_tensor_descriptor(out_ptr, [out_rows, columns], [columns, 1], [8, 16])
    top = tl.program_id(0) * 8
    target.store([top, 0], source.load([top, 0]) + 1)


@feature("language", "`tl.make_tensor_descriptor`, ragged rows")
def descriptor(device):
    if not interpreted():
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=device))
    x, out = numbers(16 * 16, device).view(16, 16), torch.zeros(24, 16, device=device)
    descriptor_kernel[(3,)](x, out, 12, 23, 16)  # of 16 rows the first 12, of 24 the first 23
    inside = torch.cat([x[:12] + 1, torch.ones(11, 16, device=device)])
    return out, torch.cat([inside, torch.zeros(1, 16, device=device)])


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, n):
    block = tl.make_block_ptr(x_ptr, [n], [1], [tl.program_id(0) * 8], [8], [0])
    x = tl.load(block, boundary_check=(0,), padding_option="zero")
    tl.store(out_ptr + tl.program_id(0) * 8 + tl.arange(0, 8), x)


@feature("language", "`tl.make_block_ptr` (deprecated)")
def block_pointer(device):
    x, out = numbers(16, device), torch.zeros(16, device=device)
    block_pointer_kernel[(2,)](x, out, 12)
    return out, torch.where(torch.arange(16) < 12, x.cpu(), 0)


@triton.jit
def random_kernel(out_ptr, seed):
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, tl.rand(seed, i))


def philox(seed, offset):
    """The first word of Philox 4×32-10, the counter-based generator of Salmon et al. (2011)."""
    c, k, mask = [offset, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32], 0xFFFFFFFF
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


@feature("language", "`tl.rand`, the numbers of Philox")
def random(device):
    out = torch.zeros(64, device=device)
    random_kernel[(1,)](out, 2026)
    words = [philox(2026, i) for i in range(64)]
    return out, [(word if word < 2**31 else 2**32 - 1 - word) / 2**31 for word in words], 1e-6


@triton.jit
def and_kernel_bug(out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, ((i > 1) and (i < 6)).to(tl.int32))


@feature("language", "`and` between blocks")
def block_and(device):
    out = torch.zeros(8, dtype=torch.int32, device=device)
    and_kernel_bug[(1,)](out)
    return out, [0, 0, 1, 1, 1, 1, 0, 0]


@triton.jit
def chained_kernel_bug(out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, (1 < i < 6).to(tl.int32))


@feature("language", "`1 < i < 6` on a block")
def chained(device):
    out = torch.zeros(8, dtype=torch.int32, device=device)
    chained_kernel_bug[(1,)](out)
    return out, [0, 0, 1, 1, 1, 1, 0, 0]


@triton.jit
def min_kernel_bug(out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, min(i, 7 - i))


@feature("language", "Python's `min` of two blocks")
def block_min(device):
    out = torch.zeros(8, dtype=torch.int32, device=device)
    min_kernel_bug[(1,)](out)
    return out, [0, 1, 2, 3, 3, 2, 1, 0]


@triton.jit
def tuple_kernel(sources, out_ptr):
    i = tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(sources[0] + i) - tl.load(sources[1] + i))


@feature("language", "a tuple of tensors as an argument")
def tuples(device):
    x, out = numbers(32, device), torch.zeros(16, device=device)
    tuple_kernel[(1,)]((x[:16], x[16:]), out)
    return out, x[:16] - x[16:]


@triton.jit
def bool_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, ~x)


@feature("language", "tensors of bool")
def booleans(device):
    x = torch.tensor([False, True, True, False], device=device)
    out = torch.zeros(4, dtype=torch.bool, device=device)
    bool_kernel[(1,)](x, out)
    return out, ~x


# Looking into a kernel


@triton.jit
def print_kernel():
    print("pid", tl.program_id(0))


@triton.jit
def device_print_kernel():
    tl.device_print("pid", tl.program_id(0))


@triton.jit
def static_print_kernel(N: tl.constexpr):
    tl.static_print("N is", N)


def printed(kernel, *args):
    """The lines that a launch of two programs printed, also from below Python."""
    with tempfile.TemporaryFile("w+") as file:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            kernel[(2,)](*args)
            sys.stdout.flush()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)
        file.seek(0)
        return file.read().splitlines()


def last_numbers(lines):
    """The different numbers at the ends of lines: a GPU prints one line for each thread, in any order."""
    return sorted({int(number) for line in lines for number in re.findall(r"\d+", line)[-1:]})


@feature("looking", "`print`")
def plain_print(device):
    return last_numbers(printed(print_kernel)), [0, 1]


@feature("looking", "`tl.device_print`")
def device_print(device):
    return last_numbers(printed(device_print_kernel)), [0, 1]


@feature("looking", "`tl.static_print`, once, while compiling")
def static_print(device):
    return len([line for line in printed(static_print_kernel, 7) if "N is 7" in line.replace("constexpr[7]", "7")]), 1


@triton.jit
def assert_kernel_bug(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 0, "x is not positive")


@feature("looking", "`tl.device_assert` that fails (`debug=True`)")
def device_assert(device):
    try:
        assert_kernel_bug[(1,)](torch.zeros(1, device=device), debug=True)
        if device == "cuda":
            torch.cuda.synchronize()
    except (RuntimeError, InterpreterError):
        return "stopped", "stopped"
    return "not stopped", "stopped"


@triton.jit
def static_assert_kernel_bug(N: tl.constexpr):
    tl.static_assert(N > 7, "N is too small")


@feature("refused", "a `tl.static_assert` that fails")
def static_assert(device):
    static_assert_kernel_bug[(1,)](7)
    return "no error", REFUSED


@triton.jit
def breakpoint_kernel():
    breakpoint()


@feature("looking", "`breakpoint()`")
def stop(device):
    stops, before = [], sys.breakpointhook
    sys.breakpointhook = lambda *args, **kwargs: stops.append(1)
    try:
        breakpoint_kernel[(2,)]()
    finally:
        sys.breakpointhook = before
    return len(stops), 2


# Numbers


# --8<-- [start:binary]
@triton.jit
def binary_kernel(a_ptr, b_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    if OP == "+":
        out = a + b
    elif OP == "*":
        out = a * b
    elif OP == "/":
        out = a / b
    elif OP == "//":
        out = a // b
    elif OP == "%":
        out = a % b
    elif OP == ">>":
        out = a >> b
    elif OP == "max":
        out = tl.maximum(a, b)
    elif OP == "max, NaN wins":
        out = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        out = larger(a, b)
    elif OP == "div_rn":
        out = tl.div_rn(a, b)
    else:
        out = a * a - b
    tl.store(out_ptr + i, out)
# --8<-- [end:binary]


def binary(name, title, a, b, op, expected, out=None, dtype=torch.float32, tolerance=0.0):
    def run(device):
        a_, b_ = (torch.as_tensor(x).to(dtype).to(device) for x in (a, b))
        result = torch.zeros(len(a_), dtype=out or dtype, device=device)
        binary_kernel[(1,)](a_, b_, result, op, len(a_))
        return result, expected(a_.cpu(), b_.cpu()) if callable(expected) else expected, tolerance

    run.__name__ = name
    feature("numbers", title)(run)


nan, inf = math.nan, math.inf
pairs = [1, nan, 2, nan, 5, 4, 7, 8], [nan, 1, 3, nan, 8, 4, 6, 5]


def exact(a, b):
    """Sums as bfloat16 must be: exact, then rounded once."""
    return (a.double() + b.double()).to(a.dtype)


def draw(n, seed=0):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed)) + 0.5


@triton.jit
def scale_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, 0.5 * tl.load(x_ptr + i))


@feature("numbers", "uint8 block × Python float")
def uint8_times_float(device):
    x = torch.tensor([3, 1, 200, 255], dtype=torch.uint8, device=device)
    out = torch.zeros(4, device=device)
    scale_kernel[(1,)](x, out)
    return out, [1.5, 0.5, 100, 127.5]


binary("uint8_sum", "uint8 + uint8 wraps", [200, 1, 255, 7], [100, 2, 1, 8], "+", [44, 3, 0, 15], dtype=torch.uint8)
binary(
    "int32_sum", "int32 + int32 wraps", [2**31 - 1, -(2**31)], [1, -1], "+",
    [-(2**31), 2**31 - 1], dtype=torch.int32,
)  # fmt: skip
binary(
    "int32_product", "int32 × int32 into int64 wraps", [2**16, 3], [2**16, 5], "*",
    [0, 15], out=torch.int64, dtype=torch.int32,
)  # fmt: skip
binary(
    "int_division", "`//` of negative integers, toward zero as in C", [-7, 7, -7, 7], [2, -2, -2, 2], "//",
    [-3, -3, 3, 3], dtype=torch.int32,
)  # fmt: skip
binary(
    "int_remainder", "`%` of negative integers, sign as in C", [-7, 7, -7, 7], [2, -2, -2, 2], "%",
    [-1, 1, -1, 1], dtype=torch.int32,
)  # fmt: skip
binary("shift", "`>>` of negative integers keeps the sign", [-8, 8], [1, 1], ">>", [-4, 4], dtype=torch.int32)
binary("bf16_sum", "bfloat16 + bfloat16", draw(16), draw(16, 1), "+", exact, dtype=torch.bfloat16)
binary("fp16_sum", "float16 + float16", draw(16), draw(16, 1), "+", exact, dtype=torch.float16)
binary(
    "division", "float32 `/`, last bit", draw(256), draw(256, 1), "/",
    lambda a, b: a / b,
)  # fmt: skip
binary("div_rn", "`tl.div_rn`, last bit", draw(256), draw(256, 1), "div_rn", lambda a, b: a / b)
binary(
    "fused", "`a * a - b` rounded twice (not fused)", [1 + 2**-12] * 2, [1 + 2**-11] * 2, "a * a - b",
    [0, 0],
)  # fmt: skip
binary("max_nan", "`tl.maximum` with a NaN: the number", *pairs, "max", [1, 1, 3, nan, 8, 4, 7, 8])
binary(
    "max_nan_all", "`tl.maximum(…, propagate_nan=ALL)`", *pairs, "max, NaN wins", [nan, nan, 3, nan, 8, 4, 7, 8],
)  # fmt: skip
binary(
    "where_nan", "`tl.where(a > b, a, b)` with a NaN: b", *pairs, "where", [nan, 1, 3, nan, 8, 4, 7, 8],
)  # fmt: skip


# --8<-- [start:cast]
@triton.jit
def cast_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i))  # which casts to the type that it stores
# --8<-- [end:cast]


def cast(name, title, x, source, target, expected):
    def run(device):
        x_ = torch.as_tensor(x, dtype=torch.float64 if source.is_floating_point else torch.int64).to(source).to(device)
        out = torch.zeros(len(x_), dtype=target, device=device)
        cast_kernel[(1,)](x_, out, len(x_))
        return out, expected

    run.__name__ = name
    feature("numbers", title)(run)


E4M3, E5M2, BF16, FP16, FP32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32
cast("to_int", "float32 → int32, toward zero", [2.7, -2.7, 0.5, -0.5], FP32, torch.int32, [2, -2, 0, 0])
cast("to_int_large", "float32 → int32, out of range", [1e10, -1e10], FP32, torch.int32, None)
cast("to_int_nan", "float32 → int32, NaN", [nan, nan], FP32, torch.int32, None)
cast("to_uint8_negative", "float32 → uint8, negative", [-1.5, -3.0], FP32, torch.uint8, None)
cast("to_uint8_large", "float32 → uint8, above 255", [300.0, 1000.0], FP32, torch.uint8, None)
cast("to_bf16_large", "float32 → bfloat16, the largest", [3.4e38], FP32, BF16, [inf])
cast("to_int8", "int32 → int8 wraps", [300, -129], torch.int32, torch.int8, [44, 127])
cast("int_to_float", "int32 → float32, to nearest even", [2**24 + 1, 2**24 + 3], torch.int32, FP32, [2**24, 2**24 + 4])
# Halfway between two neighbors, twice, and just beside that.
cast(
    "to_bf16", "float32 → bfloat16, to nearest even", [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8],
    FP32, BF16, [1, 1 + 2**-6, 1 + 2**-7, -1],
)  # fmt: skip
cast(
    "to_fp16", "float32 → float16, to nearest even", [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, 1e5],
    FP32, FP16, [1, 1 + 2**-9, 1 + 2**-10, inf],
)  # fmt: skip
cast(
    "to_e4m3", "float32 → float8e4nv, to nearest even", [1 + 2**-4, 1 + 3 * 2**-4, 1 + 2**-4 + 2**-20, -440],
    FP32, E4M3, [1, 1.25, 1.125, -448],
)  # fmt: skip
cast("to_e4m3_large", "float32 → float8e4nv, above 448", [500, 1e5], FP32, E4M3, None)
cast(
    "to_e5m2", "float32 → float8e5, to nearest even", [1 + 2**-3, 1 + 3 * 2**-3, 1 + 2**-3 + 2**-20, -3],
    FP32, E5M2, [1, 1.5, 1.25, -3],
)  # fmt: skip
cast("from_e4m3", "float8e4nv → float32", [0.5, -1.125, 448, 2**-9], E4M3, FP32, [0.5, -1.125, 448, 2**-9])
cast("from_e5m2", "float8e5 → float32", [0.5, -1.25, 57344, 2**-16], E5M2, FP32, [0.5, -1.25, 57344, 2**-16])


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + i[None, :])
    out = tl.dot(a, b, input_precision=PRECISION)
    tl.store(out_ptr + i[:, None] * 16 + i[None, :], out)


def dot(name, title, dtype, precision=None, tolerance=1e-6):
    def run(device):
        integer = not dtype.is_floating_point
        generator = torch.Generator().manual_seed(0)
        a, b = (
            torch.randint(-100, 100, shape, generator=generator).to(dtype) if integer
            else (torch.rand(shape, generator=generator) + 0.5).to(dtype)
            for shape in ((16, 32), (32, 16))
        )  # fmt: skip
        out = torch.zeros(16, 16, dtype=torch.int32 if integer else torch.float32, device=device)
        dot_kernel[(1,)](a.to(device), b.to(device), out, precision, 32)
        return out, a.double() @ b.double(), tolerance

    run.__name__ = f"dot_{name}"
    feature("numbers", title)(run)


dot("ieee", "`tl.dot`, float32, `ieee`", torch.float32, "ieee")
dot("tf32", "`tl.dot`, float32, `tf32`, within 1e-6", torch.float32, "tf32")
dot("fp16", "`tl.dot`, float16", torch.float16)
dot("bf16", "`tl.dot`, bfloat16", torch.bfloat16)
dot("e4m3", "`tl.dot`, float8e4nv", E4M3)
dot("e5m2", "`tl.dot`, float8e5", E5M2)
dot("int8", "`tl.dot`, int8", torch.int8, tolerance=0.0)


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), axis=0))


def summed(name, title, x, dtype, expected, tolerance=0.0):
    def run(device):
        x_ = torch.as_tensor(x).to(dtype).to(device)
        out = torch.zeros(1, dtype=FP32, device=device)
        sum_kernel[(1,)](x_, out, len(x_))
        return out, expected if expected is not None else x_.double().sum(), tolerance

    run.__name__ = name
    feature("numbers", title)(run)


summed("sum_fp16", "`tl.sum` of 4,096 float16, within 0.1 %", 0.1 * draw(4096), FP16, None, 1e-3)
summed("sum_bf16", "`tl.sum` of 4,096 bfloat16, within 1 %", 0.1 * draw(4096), BF16, None, 1e-2)
summed("sum_fp32", "`tl.sum` of 4,096 float32, within 1e-6", draw(4096), FP32, None, 1e-6)
summed("sum_int8", "`tl.sum` of int8 in 32 bits", [100] * 64, torch.int8, [6400])


@triton.jit
def extreme_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.max(x, axis=0))
    tl.store(out_ptr + 1, tl.min(x, axis=0))


@feature("numbers", "`tl.max` and `tl.min` of a block with a NaN: the numbers'")
def extreme_nan(device):
    x, out = torch.tensor([1, nan, 3, 2], device=device), torch.zeros(2, device=device)
    extreme_kernel[(1,)](x, out, 4)
    return out, [3, 1]


ONE = tl.constexpr(1)


@triton.jit
def math_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FUNCTION == "exp":
        out = tl.exp(x)
    elif FUNCTION == "log":
        out = tl.log(x)
    elif FUNCTION == "sin":
        out = tl.sin(x)
    elif FUNCTION == "sqrt":
        out = tl.sqrt(x)
    elif FUNCTION == "tanh":
        out = libdevice.tanh(x)
    elif FUNCTION == "neg":
        out = tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [x], tl.float32, True, ONE)
    else:
        out = tl.sqrt_rn(x)
    tl.store(out_ptr + i, out)


def function(name, title, low, high, tolerance, section="numbers"):
    def run(device):
        x = torch.linspace(low, high, 1024, dtype=FP32, device=device)
        out = torch.zeros(1024, device=device)
        math_kernel[(1,)](x, out, name, 1024)
        right = getattr(torch, name.removesuffix("_rn"))(x.double())
        return out, right if tolerance else right.float(), tolerance

    run.__name__ = f"math_{name}"
    feature(section, title)(run)


function("exp", "`tl.exp` of −10 … 10, within 1e-6", -10, 10, 1e-6)
function("log", "`tl.log` of 2 … 100, within 1e-6", 2, 100, 1e-6)
function("sin", "`tl.sin` of 0.1 … 3, within 1e-6", 0.1, 3, 1e-6)
function("sqrt", "`tl.sqrt`, last bit", 0.1, 100, 0.0)
function("tanh", "`libdevice.tanh`", -2, 2, 1e-6, section="language")
function("neg", "`tl.inline_asm_elementwise` (PTX)", -2, 2, 0.0, section="language")
function("sqrt_rn", "`tl.sqrt_rn`, last bit", 0.1, 100, 0.0)


# What the compiler must not accept


@triton.jit
def three_kernel_bug(out_ptr):
    tl.store(out_ptr + tl.arange(0, 3), 1.0)


@triton.jit
def argument_range_kernel_bug(out_ptr, n):
    tl.store(out_ptr + tl.arange(0, n), 1.0)


@triton.jit
def block_if_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    if i < 2:
        tl.store(out_ptr + i, 1.0)


@triton.jit
def power_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, tl.load(out_ptr + i) ** 2)


@triton.jit
def select_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr, tl.sum(i[i > 1]).to(tl.float32))


@triton.jit
def slice_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i[0:2], 1.0)


@triton.jit
def break_kernel_bug(out_ptr):
    total = 0.0
    for i in range(4):
        if i == 2:
            break
        total += 1.0
    tl.store(out_ptr, total)


@triton.jit
def changing_kernel_bug(out_ptr):
    total = 0
    for _ in range(4):
        total = total + 0.5
    tl.store(out_ptr, total)


@triton.jit
def python_kernel_bug(out_ptr):
    tl.store(out_ptr, math.sqrt(tl.load(out_ptr)))


factor = 3.0  # a global that is no tl.constexpr, as ONE is


@triton.jit
def global_kernel_bug(out_ptr):
    tl.store(out_ptr, factor)


@triton.jit
def list_kernel_bug(out_ptr):
    values = [tl.load(out_ptr + i) for i in range(2)]
    tl.store(out_ptr, values[0] + values[1])


@triton.jit
def small_dot_kernel_bug(out_ptr):
    i = tl.arange(0, 2)
    a = tl.load(out_ptr + i[:, None] * 2 + i[None, :])
    tl.store(out_ptr + i[:, None] * 2 + i[None, :], tl.dot(a, a))


def refused(title, kernel, *args):
    def run(device):
        out = torch.ones(4, device=device)
        kernel[(1,)](out, *args)
        return out, REFUSED

    run.__name__ = kernel.__name__.removesuffix("_kernel_bug")
    feature("refused", title)(run)


refused("`tl.arange(0, 3)`", three_kernel_bug)
refused("`tl.arange(0, n)`, `n` an argument", argument_range_kernel_bug, 4)
refused("`if` on a block", block_if_kernel_bug)
refused("`x ** 2` of a block", power_kernel_bug)
refused("`x[x > 1]`", select_kernel_bug)
refused("`x[0:2]`", slice_kernel_bug)
refused("`break`", break_kernel_bug)
refused("a variable that changes its type in a loop", changing_kernel_bug)
refused("a function of Python's, `math.sqrt(x)`", python_kernel_bug)
refused("a global that is no constexpr", global_kernel_bug)
refused("a list comprehension", list_kernel_bug)
refused("`tl.dot` of 2×2 blocks", small_dot_kernel_bug)


# Programs and lanes beside each other


# --8<-- [start:race]
@triton.jit
def race_kernel_bug(counter_ptr):
    tl.store(counter_ptr, tl.load(counter_ptr) + 1)


@feature("beside", "256 programs add 1 to an element, without an atomic")
def race(device):
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    race_kernel_bug[(256,)](counter)
    return counter, [256]
# --8<-- [end:race]


@triton.jit
def last_kernel_bug(out_ptr):
    tl.store(out_ptr, tl.program_id(0))


@feature("beside", "256 programs write their pid to one element")
def last_writer(device):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    last_kernel_bug[(256,)](out)
    return out, None


@triton.jit
def chain_kernel_bug(out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid + 1, tl.load(out_ptr + pid) + 1)


@feature("beside", "each program reads what the one before it wrote")
def chain(device):
    out = torch.zeros(257, dtype=torch.int32, device=device)
    chain_kernel_bug[(256,)](out)
    return out, range(257)


@triton.jit
def reverse_kernel_bug(x_ptr, out_ptr, scratch_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, 2 * tl.load(x_ptr + i))
    tl.store(out_ptr + i, tl.load(scratch_ptr + (N - 1 - i)))


@triton.jit
def reverse_kernel(x_ptr, out_ptr, scratch_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, 2 * tl.load(x_ptr + i))
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(scratch_ptr + (N - 1 - i)))


def reversed_by(kernel, device):
    x, scratch, out = numbers(8192, device), torch.zeros(8192, device=device), torch.zeros(8192, device=device)
    kernel[(1,)](x, out, scratch, 8192, num_warps=16)
    return out, 2 * x.flip(0)


@feature("beside", "a program reads back, in other lanes, what it stored")
def read_back(device):
    return reversed_by(reverse_kernel_bug, device)


@feature("beside", "the same, with a `tl.debug_barrier()` between them")
def read_back_barrier(device):
    return reversed_by(reverse_kernel, device)


@triton.jit
def wait_kernel_bug(flag_ptr, out_ptr, TRIES: tl.constexpr):
    if tl.program_id(0) == 0:
        seen = 0
        tries = 0
        while (seen == 0) & (tries < TRIES):
            seen = tl.atomic_add(flag_ptr, 0)
            tries += 1
        tl.store(out_ptr, seen)
    else:
        tl.atomic_xchg(flag_ptr, 1)


@feature("beside", "program 0 waits for program 1, 1,000 tries")
def wait(device):
    flag, out = torch.zeros(2, dtype=torch.int32, device=device).split(1)
    wait_kernel_bug[(2,)](flag, out, 1000)
    return out, [1]


@triton.jit
def masked_kernel_bug(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < 2))


@feature("beside", "lanes of a load that are off, without `other`")
def masked(device):
    x, out = torch.full((4,), 7.0, device=device), torch.full((4,), -1.0, device=device)
    masked_kernel_bug[(1,)](x, out)
    return out[2:], None


@triton.jit
def stray_kernel_bug(x_ptr, out_ptr, distance):
    tl.store(out_ptr, tl.load(x_ptr + distance))


@feature("beside", "a load one element past the tensor, into its neighbor")
def stray_near(device):
    x, out = torch.full((5,), 7.0, device=device), torch.zeros(1, device=device)
    stray_kernel_bug[(1,)](x[:4], out, 4)
    return out, None


@feature("beside", "a load 2⁴⁰ elements past the tensor")
def stray_far(device):
    x, out = torch.full((4,), 7.0, device=device), torch.zeros(1, device=device)
    stray_kernel_bug[(1,)](x, out, 2**40)
    return out, None


# Running them


def interpreted() -> bool:
    return not isinstance(cast_kernel, triton.JITFunction)


def numbers(n, device) -> torch.Tensor:
    """``n`` integers as float32, no two alike and in no order."""
    return ((torch.arange(n) * 5 + 3) % (n + 1)).to(device=device, dtype=torch.float32)


def try_out(name, device, compiling=False) -> str:
    """Run a feature, or only compile it, and judge the result; an exception is a result too."""
    try:
        got, expected, *tolerance = FEATURES[name].run(device)
        return "yes" if compiling else judge(got, expected, *tolerance)
    except Exception as error:
        kind = "refused" if compiling or FEATURES[name].section == "refused" else "error"
        return f"{kind}: {complaint(error)}"


class NoGPU:
    """Stands in for the driver of a GPU that is not there: it only says what to compile for."""

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


@contextlib.contextmanager
def compile_only():
    """Let every launch compile its kernel and run nothing."""
    launch = triton.JITFunction.run
    triton.runtime.driver.set_active(NoGPU())
    triton.JITFunction.run = lambda self, *args, warmup, **options: launch(self, *args, warmup=True, **options)
    try:
        yield
    finally:
        triton.JITFunction.run = launch


def child(file: str, compiling: str, *names: str) -> None:
    """What the process does that the features run in: write a line of JSON before and behind each."""
    device = "cuda" if not interpreted() and not compiling else "cpu"
    with open(file, "a", encoding="utf-8") as results, compile_only() if compiling else contextlib.nullcontext():
        for name in names:
            print(json.dumps([name, None]), file=results, flush=True)
            verdict = try_out(name, device, bool(compiling))
            print(json.dumps([name, verdict]), file=results, flush=True)
            if device == "cuda":
                torch.cuda.synchronize()  # after an error on the GPU this raises, and the next needs a new process


def run(names, compiling=False) -> dict[str, str]:
    """The verdict on each feature. One that ends the process costs no other."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET" or not compiling}
    verdicts, waiting = {}, list(names)
    while waiting:
        with tempfile.TemporaryDirectory() as folder:
            environment["TRITON_CACHE_DIR"] = folder  # nothing was compiled before
            file = Path(folder) / "verdicts.jsonl"
            command = [sys.executable, str(Path(__file__)), "--child", str(file), "compiling" * compiling, *waiting]
            with open(f"{folder}/log", "w+", encoding="utf-8") as log:
                try:
                    done = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=TIME_LIMIT)
                    end = f"crash: {ending(done.returncode)}"
                except subprocess.TimeoutExpired:
                    end = f"not done after {TIME_LIMIT} s"
                if not file.exists():  # it did not get as far as the first feature
                    log.seek(0)
                    raise SystemExit(f"{end}\n{log.read()}")
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for name, verdict in lines:
            verdicts[name] = verdict or end
        waiting = [name for name in waiting if name not in verdicts]
    return verdicts


def ending(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


# --8<-- [start:main]
def main():
    if not interpreted() and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    ran = run(FEATURES)
    compiled = run(FEATURES, compiling=True) if interpreted() else {}
    counts = {}
    for section, title in SECTIONS.items():
        print(f"## {title}")
        for name in (name for name, row in FEATURES.items() if row.section == section):
            print(f"  {FEATURES[name].title}\n    ran: {ran[name]}")
            if name in compiled:
                print(f"    compiles for sm_90: {compiled[name]}")
            for part in ("rows", ran[name].partition(":")[0].partition(" ")[0]):
                counts[section, part] = counts.get((section, part), 0) + 1
    print("## Counts")
    for (section, part), count in counts.items():
        print(f"  {section}, {part}: {count}")
# --8<-- [end:main]


if __name__ == "__main__":
    child(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main()
