# SPDX-License-Identifier: Apache-2.0
"""The language of Triton, a feature a kernel: shapes, loops, reductions, atomics, descriptors.

``interpreter_and_gpu.py`` judges and runs them; what is right comes from PyTorch, plain Python or the definition.

Run it with ``python interpreter_and_gpu_language.py`` on a GPU, or with ``TRITON_INTERPRET=1`` in Triton's interpreter;
there it also compiles every kernel for a GPU of compute capability 9.0.
Source: Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from snippets.tools.interpreter_and_gpu import feature, interpreted, larger, main, numbers


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


ONE = tl.constexpr(1)


@triton.jit
def math_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FUNCTION == "tanh":
        out = libdevice.tanh(x)
    else:
        out = tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [x], tl.float32, True, ONE)
    tl.store(out_ptr + i, out)


def function(name, title, tolerance):
    def run(device):
        x = torch.linspace(-2, 2, 1024, dtype=torch.float32, device=device)
        out = torch.zeros(1024, device=device)
        math_kernel[(1,)](x, out, name, 1024)
        right = getattr(torch, name)(x.double())
        return out, right if tolerance else right.float(), tolerance

    run.__name__ = f"math_{name}"
    feature("language", title)(run)


function("tanh", "`libdevice.tanh`", 1e-6)
function("neg", "`tl.inline_asm_elementwise` (PTX)", 0.0)


if __name__ == "__main__":
    main(__file__, "language")
