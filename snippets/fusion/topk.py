# SPDX-License-Identifier: Apache-2.0
"""The k largest numbers of each row, sorted, and where they stand: ``tl.topk`` over keys that hold both; with gradient.

``tl.sort`` and ``tl.topk`` return values alone. So each element becomes one integer, its key: the upper half orders the
values, the lower half is the element's column, counted from the end. Keys are all different, and the larger key is the
larger value or, of equal values, the earlier one. The order of the values is that of ``torch.topk``: -0 equals 0, and a
NaN is larger than all else.

A float's bits are a sign and a magnitude that grows with the number. Negate the magnitude if the sign is set, and
integers compare as the floats do. So the kernel computes with integers only, exactly.

A program takes a row, or some short ones, ``BLOCK`` columns at a time. It sorts the best k of a block, and merges them
with the best so far. Backward, each gradient goes back to the column that its value came from.

- :func:`topk`: the function to call; it has a gradient, and works under ``torch.compile``

Shapes: ``x`` ``(..., columns)``; results ``(..., k)``.
Traffic, in elements: forward reads ``x`` once, and k of each row again; backward writes each gradient of ``x`` once,
k of each row again. Every run gives the same bits.
Source: Anil Shanbhag, Holger Pirk and Samuel Madden, *Efficient Top-K Query Processing on Massively Parallel
Hardware*, 2018, which ``tl.topk`` follows.

Run it on a GPU with ``python topk.py``, or with ``TRITON_INTERPRET=1 python topk.py`` in the interpreter.
"""

import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

INTEGERS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}
DTYPES = tuple(INTEGERS)
MOST = 1024  # of a row that are returned


# --8<-- [start:keys]
@triton.jit
def keys(
    x_ptr, inside, column, mask,
    INFINITY: tl.constexpr, KEY: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = KEY.primitive_bitwidth // 2
    LOWEST: tl.constexpr = -(2 ** (KEY.primitive_bitwidth - 1))
    bits = tl.load(x_ptr + inside + column, mask=mask, other=0).to(KEY)
    SIGN: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth - 1
    magnitude = bits & ((1 << SIGN) - 1)
    order = tl.where(bits < 0, -magnitude, magnitude)
    order = tl.where(magnitude > INFINITY, (1 << SIGN) - 1, order)  # NaN
    from_end = (1 << HALF) - 1 - column
    return tl.where(mask, (order << HALF) | from_end, LOWEST)
# --8<-- [end:keys]


# --8<-- [start:kernel]
@triton.jit
def topk_kernel(
    x_ptr, values_ptr, indices_ptr, rows, columns, x_stride, k,
    INFINITY: tl.constexpr, KEY: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = KEY.primitive_bitwidth // 2
    columns *= UNIT
    first = tl.program_id(axis=0).to(tl.int64) * ROWS
    one = tl.arange(0, ROWS)[:, None]
    row = one < rows - first
    x_ptr += first * x_stride * UNIT
    inside = one.to(tl.int64) * x_stride * UNIT if ROWS > 1 else one
    column = tl.arange(0, BLOCK)[None, :].to(KEY)
    mask = row & (column < columns)
    best = tl.topk(keys(x_ptr, inside, column, mask, INFINITY, KEY), K)
    for _ in range(BLOCK, columns, BLOCK):
        column += BLOCK
        mask = row & (column < columns)
        new = tl.topk(keys(x_ptr, inside, column, mask, INFINITY, KEY), K)
        best = tl.sort(
            tl.maximum(best, tl.flip(new, dim=1)), descending=True
        )
    index = (1 << HALF) - 1 - (best & ((1 << HALF) - 1))
    place = tl.arange(0, K)[None, :]
    mask = row & (place < k)
    value = tl.load(x_ptr + inside + index, mask=mask)
    tl.store(values_ptr + first * k + one * k + place, value, mask=mask)
    tl.store(indices_ptr + first * k + one * k + place, index, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def scatter_kernel(
    grad_ptr, indices_ptr, grad_x_ptr, n, k, columns, BLOCK: tl.constexpr
):  # fmt: skip
    i = tl.program_id(axis=0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    grad = tl.load(grad_ptr + i, mask=mask)
    index = tl.load(indices_ptr + i, mask=mask)
    tl.store(grad_x_ptr + i // k * columns + index, grad, mask=mask)
# --8<-- [end:backward_kernel]


class Plan(NamedTuple):
    """A program's plan: rows, columns at a time, warps."""

    rows: int
    block: int
    num_warps: int


# --8<-- [start:plan]
def plan(rows: int, columns: int, k: int) -> Plan:
    """Choose for rows of ``columns``, of which k are wanted.

    >>> plan(16384, 128, 8), plan(8192, 1024, 8), plan(512, 100_000, 8)
    (Plan(rows=8, block=128, num_warps=4), Plan(rows=1, block=1024, num_warps=4), \
Plan(rows=1, block=2048, num_warps=8))
    """
    most = 4096 if k <= 64 and columns <= 4096 else 2048
    block = max(min(triton.next_power_of_2(columns), most), kept(k))
    at_once = min(max(1024 // block, 1), triton.next_power_of_2(rows))
    return Plan(at_once, block, num_warps=min(max(at_once * block // 256, 1), 8))


def kept(k: int) -> int:
    """Return how many a program keeps: a power of two, and not 1, which ``tl.topk`` of Triton before 3.9 cannot do."""
    return max(triton.next_power_of_2(k), 2)
# --8<-- [end:plan]


# --8<-- [start:forward]
def topk_forward(x: torch.Tensor, k: int, by: Plan | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    check_arguments(x, k)
    shape = (*x.shape[:-1], k)
    values = torch.empty(shape, dtype=x.dtype, device=x.device)
    indices = torch.empty(shape, dtype=torch.int64, device=x.device)
    if values.numel():
        of = INTEGERS[x.dtype]
        x_rows = as_rows(x).view(of)
        rows, columns = x_rows.shape
        by = by or plan(rows, columns, k)
        narrow = of == torch.int16 and triton.cdiv(columns, by.block) * by.block <= 2**16
        unit = math.gcd(8, columns, x_rows.stride(0))  # told this, the compiler loads 16 bytes at a time
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            topk_kernel[(triton.cdiv(rows, by.rows),)](
                x_rows, values.view(of), indices, rows, columns // unit, x_rows.stride(0) // unit, k,
                INFINITY=torch.tensor(math.inf, dtype=x.dtype).view(of).item(), KEY=tl.int32 if narrow else tl.int64,
                UNIT=unit, ROWS=by.rows, BLOCK=by.block, K=kept(k), num_warps=by.num_warps,
            )  # fmt: skip
    return values, indices
# --8<-- [end:forward]


# --8<-- [start:backward]
def topk_backward(grad: torch.Tensor, indices: torch.Tensor, columns: int) -> torch.Tensor:
    k = indices.shape[-1]
    grad, indices = grad.resolve_neg().contiguous(), indices.contiguous()
    grad_x = torch.zeros((*grad.shape[:-1], columns), dtype=grad.dtype, device=grad.device)
    n = grad.numel()
    if n:
        with torch.cuda.device_of(grad):
            scatter_kernel[(triton.cdiv(n, 256),)](grad, indices, grad_x, n, k, columns, BLOCK=256)
    return grad_x
# --8<-- [end:backward]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


# --8<-- [start:function]
class TopK(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return topk_forward(x, k)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _ = inputs
        _, indices = output
        ctx.columns = x.shape[-1]
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)

    @staticmethod
    def backward(ctx, grad, _):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "topk has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
                " which always ask for it; use torch.autograd.grad"
            )
        return topk_backward(grad, *ctx.saved_tensors, ctx.columns), None
# --8<-- [end:function]


# The same for torch.compile, which looks into no custom op


@torch.library.custom_op("triton_by_example::topk", mutates_args=())
def topk_op(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return topk_forward(x, k)


@torch.library.custom_op("triton_by_example::topk_backward", mutates_args=())
def topk_backward_op(grad: torch.Tensor, indices: torch.Tensor, columns: int) -> torch.Tensor:
    return topk_backward(grad, indices, columns)


@topk_op.register_fake
def _(x, k):
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


@topk_backward_op.register_fake
def _(grad, indices, columns):
    return grad.new_empty((*grad.shape[:-1], columns))


def topk_op_backward(ctx, grad, _):
    return topk_backward_op(grad, *ctx.saved_tensors, ctx.columns), None


topk_op.register_autograd(topk_op_backward, setup_context=TopK.setup_context)


def as_int(name: str, value) -> int:
    """Return a whole number of Python or NumPy, or of a tensor on the CPU, as Python's ``int``."""
    if isinstance(value, int):
        return value
    try:
        if getattr(value, "is_cuda", False):  # to read it, the host would wait for the GPU
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not on a GPU; got {value!r}") from None


# --8<-- [start:host]
def topk(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row, largest first, and their columns; the values have a gradient.

    As ``torch.topk(x, k)``, except that of equal values the earlier comes first, which torch leaves open. With k the
    number of columns, it sorts.

    Args:
        x: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied unless the
            elements of a row are neighbors in memory, and the rows lie evenly apart.
        k: From 0 to the number of columns, and no more than ``MOST``.

    Returns:
        New contiguous tensors ``(..., k)``: the values, bit for bit those of ``x``, and int64 indices. A NaN is larger
        than all else; -0 equals 0. The indices are kept for the backward. The kernel may still be running when they
        are returned.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> values, indices = topk(torch.tensor([1.0, 5.0, -7.0, 5.0]), 3)
    >>> values, indices
    (tensor([5., 5., 1.]), tensor([1, 3, 0]))
    """
    return (topk_op if torch.compiler.is_compiling() else TopK.apply)(x, as_int("k", k))
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, k: int) -> None:
    """Raise ``ValueError`` for arguments that the kernel would compute wrongly or not at all."""
    if not x.ndim:
        raise ValueError("x must have a dimension or more, the last being the columns; got a single number")
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if not 0 <= k <= min(x.shape[-1], MOST):
        raise ValueError(f"k must be from 0 to {min(x.shape[-1], MOST)} for {x.shape[-1]} columns; got {k}")
    if x.shape[-1] > 2**31 - 2**13:
        raise ValueError(f"{x.shape[-1]} columns are too many; at most 2**31 - 2**13 are served")
    if x.shape[:-1].numel() > 2**31 - 1:  # CUDA's limit for programs along one axis
        raise ValueError(f"{x.shape[:-1].numel()} rows are too many for one launch; split x")
    interpreted = not isinstance(topk_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")


# --8<-- [start:by_hand]
def key_of(value: float, column: int) -> int:
    """Return the key of a float16, as the kernel makes it."""
    bits = torch.tensor(value, dtype=torch.float16).view(torch.int16).item()
    magnitude = bits & 0x7FFF
    order = -magnitude if bits < 0 else magnitude
    return (order << 16) | (0xFFFF - column)
# --8<-- [end:by_hand]


def shown(values) -> str:
    return " ".join(f"{value:6g}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(topk_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## three of a row")
    x = torch.tensor([1.0, 5.0, -7.0, 5.0, 0.0, 2.0], dtype=torch.float16, device=device)
    values, indices = topk(x, 3)
    for name, row in {"x": x, "values": values, "indices": indices}.items():
        print(f"{name:7}", shown(row))

    print("## keys")
    for column, value in enumerate(x.tolist()[:4]):
        key = key_of(value, column)
        print(f"{value:4g} in column {column}: {key >> 16:6} and {key & 0xFFFF}, key {key}")

    print("## what is large")
    nan, inf = math.nan, math.inf
    x = torch.tensor([-0.0, -inf, nan, 0.0, -1.0, inf, -nan, 3.0], device=device)
    print("x      ", shown(x))
    for name, row in zip(("values", "indices"), topk(x, 8), strict=True):
        print(f"{name:7}", shown(row))

    print("## blocks of four, two kept")
    x = torch.tensor([1.0, 5.0, -7.0, 4.0, 0.0, 2.0, 9.0, 3.0], dtype=torch.float16, device=device)
    print("x      ", shown(x))
    values, indices = topk_forward(x, 2, Plan(1, 4, 1))
    print("values ", shown(values))

    print("## gradient")
    grad = torch.tensor([0.5, 0.25], dtype=torch.float16, device=device)
    print("grad   ", shown(grad))
    print("grad_x ", shown(topk_backward(grad, indices, 8)))
    # --8<-- [start:gradcheck]
    # float32 computes these differences exactly: all are small multiples of 1/64
    x = (torch.randperm(14, device=device).view(2, 7) / 8).requires_grad_()
    check = {"eps": 1 / 64, "atol": 0.0, "rtol": 0.0}
    print("gradcheck:", torch.autograd.gradcheck(lambda x: topk(x, 3)[0], (x,), **check))
    # --8<-- [end:gradcheck]
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    compiled = torch.compile(topk, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    x = torch.randn(3, 40, device=device)
    for name, function in {"topk": topk, "compiled": compiled}.items():
        same = all(map(torch.equal, function(x, 5), torch.topk(x, 5)))
        print(f"3 x 40, {name}, as torch:", same)


if __name__ == "__main__":
    main()
