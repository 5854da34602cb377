# SPDX-License-Identifier: Apache-2.0
"""The k largest or smallest numbers along any dimension, sorted, and where they stand; their softmax; with gradients.

The lesson ``fusion/topk.py`` derives the keys: each element becomes one integer, its upper half ordering the values,
its lower half the columns. All keys differ, and the larger key is wanted first. The order is that of ``torch.topk``: -0
equals 0, and a NaN is larger than all else. Of equal values the earlier comes first, which torch leaves open.

To sort a whole row is much work for a few of it. So neighbors form a group, and first each group sends its best value
alone. The k best elements all lie in the k groups whose best values are best, the earlier group first of equals: if a
group is not among those k, then each of them holds an element that goes before all of its own. So only the keys of the
groups' best, and then of the members of k groups, are sorted.

- :func:`topk`: the function to call
- ``topk_kernel`` selects up to ``MOST``; for more, ``run_kernel`` sorts pieces of a row, and ``merge_kernel`` joins two

Traffic, in elements: forward reads ``x`` once, and of each row k groups again; backward writes each
gradient of ``x`` once. Beyond ``MOST``, keys of 8 bytes are read and written once for each doubling of the pieces.
Every run gives the same bits.
Source: Anil Shanbhag, Holger Pirk and Samuel Madden, *Efficient Top-K Query Processing on Massively Parallel
Hardware*, 2018, which ``tl.topk`` follows; the groups are *delegates* in Anil Gaihre and others, *Dr. Top-k*, 2021.

Run it on a GPU with ``python topk.py``, or with ``TRITON_INTERPRET=1 python topk.py`` in the interpreter.
"""

import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

FLOATS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}
DTYPES = (*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool)
MOST = 1024  # of a row that the kernel with groups selects
RUN = 2048  # keys of the first sorted pieces of a row, if more are wanted


# --8<-- [start:keys]
@triton.jit
def keys_of(
    x,
    place,
    LARGEST: tl.constexpr,
    INFINITY: tl.constexpr,
    KEY: tl.constexpr,
):
    """Return keys that order by value, the best being the largest, and equal values by place, the first being larger.

    Parameters:
        x: Floats or integers.
        place: Columns, or whatever tells them apart, less than half as many bits as a key has.
        INFINITY: The bits of the float ``inf``; None for integers.
        KEY: ``tl.int64``, or ``tl.int32`` for 16 bits or fewer in no more than 2**16 columns.
    """
    HALF: tl.constexpr = KEY.primitive_bitwidth // 2
    if INFINITY is None:
        order = x.to(KEY)
    else:
        BITS: tl.constexpr = x.dtype.primitive_bitwidth
        order = x.to(tl.int16 if BITS == 16 else tl.int32, bitcast=True).to(KEY)
        magnitude = order & ((1 << (BITS - 1)) - 1)
        order = tl.where(order < 0, -magnitude, magnitude)
        order = tl.where(magnitude > INFINITY, (1 << (BITS - 1)) - 1, order)  # NaN
    if not LARGEST:
        order = ~order  # the smallest becomes the largest
    return (order << HALF) | ((1 << HALF) - 1 - place.to(KEY))


@triton.jit
def place_of(key):
    HALF: tl.constexpr = key.dtype.primitive_bitwidth // 2
    return (1 << HALF) - 1 - (key & ((1 << HALF) - 1))


@triton.jit
def better(first, second, LARGEST: tl.constexpr):
    if LARGEST:
        return tl.maximum(first, second, propagate_nan=tl.PropagateNan.ALL)
    else:  # a NaN is never the smaller; the interpreter's tl.minimum says it is (seen in 3.7.1)
        return tl.where((second < first) | (first != first), second, first)


@triton.jit
def larger(first, second):
    return better(first, second, True)


@triton.jit
def smaller(first, second):
    return better(first, second, False)
# --8<-- [end:keys]


# --8<-- [start:kernel]
@triton.jit
def topk_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    rows,
    columns,
    x_stride,
    k,
    LARGEST: tl.constexpr,
    INFINITY: tl.constexpr,
    WORST: tl.constexpr,
    SOFTMAX: tl.constexpr,
    KEY: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    MEMBERS: tl.constexpr,
    LOADED: tl.constexpr,
    SORTED: tl.constexpr,
    K: tl.constexpr,
):
    """Select the best k of ``ROWS`` rows, whose columns form groups of ``MEMBERS`` neighbors.

    Parameters, beside those of :func:`keys_of`:
        x_ptr: ``(rows, columns)``, rows ``x_stride * UNIT`` apart.
        values_ptr, indices_ptr: ``(rows, k)``, contiguous.
        columns, x_stride: Divided by ``UNIT``, which tells the compiler what divides them.
        WORST: What stands in for columns beyond the last: no value is less wanted.
        SOFTMAX: Whether the softmax of the values is stored in their place.
        GROUPS, MEMBERS: Powers of two; their product is no less than the columns.
        LOADED: Members of every group that are loaded at a time; it divides ``MEMBERS``.
        SORTED: Members of the chosen groups that are sorted at a time; it divides ``MEMBERS``.
        K: A power of two, no less than k and no more than ``GROUPS``.
    """
    columns *= UNIT
    first = tl.program_id(axis=0).to(tl.int64) * ROWS
    one = tl.arange(0, ROWS)[:, None]
    row = one < rows - first
    x_ptr += first * x_stride * UNIT
    inside = one.to(tl.int64) * x_stride * UNIT if ROWS > 1 else one
    WIDE: tl.constexpr = tl.int32 if INFINITY is None else tl.float32
    # the best value of each group
    group = tl.arange(0, GROUPS)[None, :]
    best = tl.full((ROWS, GROUPS, LOADED), WORST, WIDE)
    for start in range(0, MEMBERS, LOADED):
        column = group[:, :, None] * MEMBERS + start + tl.arange(0, LOADED)[None, None, :]
        mask = row[:, :, None] & (column < columns)
        x = tl.load(x_ptr + inside[:, :, None] + column, mask=mask, other=WORST).to(WIDE)
        best = better(best, x, LARGEST)
    best = tl.reduce(best, 2, larger if LARGEST else smaller)
    keys = tl.topk(keys_of(best.to(x_ptr.dtype.element_ty), group, LARGEST, INFINITY, KEY), K)
    if MEMBERS > 1:  # the same of the members of the best groups
        begin = place_of(keys).to(tl.int32)[:, :, None] * MEMBERS
        found = tl.full((ROWS, K), -(2 ** (KEY.primitive_bitwidth - 1)), KEY)
        for start in range(0, MEMBERS, SORTED):
            column = begin + start + tl.arange(0, SORTED)[None, None, :]
            mask = row[:, :, None] & (column < columns)
            x = tl.load(x_ptr + inside[:, :, None] + column, mask=mask, other=WORST)
            new = keys_of(x, column, LARGEST, INFINITY, KEY)
            new = tl.topk(tl.reshape(new, (ROWS, K * SORTED)), K)
            if SORTED < MEMBERS:
                new = tl.sort(tl.maximum(found, tl.flip(new, dim=1)), descending=True)
            found = new
        keys = found
    index = place_of(keys)
    place = tl.arange(0, K)[None, :]
    value = tl.load(x_ptr + inside + index, mask=row & (place < k), other=0)
    if SOFTMAX:
        value = softmax(value.to(tl.float32), place < k)
    out = first * k + one * k + place
    tl.store(values_ptr + out, value, mask=row & (place < k))
    tl.store(indices_ptr + out, index, mask=row & (place < k))


@triton.jit
def softmax(x, mask):
    x = tl.where(mask, x, -float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    return numerator / tl.sum(numerator, axis=1, keep_dims=True)
# --8<-- [end:kernel]


# More than a program selects: the whole row is sorted, in pieces that are merged


# --8<-- [start:sort]
@triton.jit
def run_kernel(
    x_ptr,
    keys_ptr,
    columns,
    x_stride,
    padded,
    LARGEST: tl.constexpr,
    INFINITY: tl.constexpr,
    WORST: tl.constexpr,
    RUN: tl.constexpr,
):
    """Sort the keys of one piece of a row.

    Parameters, beside those of :func:`topk_kernel`:
        x_ptr: ``(rows, columns)``, rows ``x_stride`` apart.
        keys_ptr: ``(rows, padded)`` of int64, contiguous.
        RUN: Columns of a piece, which divide ``padded``.
    """
    pieces = padded // RUN
    row = (tl.program_id(axis=0) // pieces).to(tl.int64)
    column = tl.program_id(axis=0) % pieces * RUN + tl.arange(0, RUN)
    x = tl.load(x_ptr + row * x_stride + column, mask=column < columns, other=WORST)
    keys = keys_of(x, column, LARGEST, INFINITY, tl.int64)
    tl.store(keys_ptr + row * padded + column, tl.sort(keys, descending=True))


@triton.jit
def merge_kernel(
    keys_ptr,
    merged_ptr,
    padded,
    run,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Merge sorted runs two by two: each key finds its place by counting the keys of the other run before it.

    Parameters:
        keys_ptr, merged_ptr: ``(rows, padded)`` of int64, contiguous.
        run: Keys of a sorted run; the last of a row may be shorter.
        STEPS: Enough halvings to count up to ``run``.
        BLOCK: Keys of a program, which divide ``padded``.
    """
    blocks = padded // BLOCK
    row = (tl.program_id(axis=0) // blocks).to(tl.int64) * padded
    i = tl.program_id(axis=0) % blocks * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + row + i)
    mine = i // run
    begin = (mine ^ 1) * run
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.minimum(tl.maximum(padded - begin, 0), run)
    for _ in range(STEPS):
        middle = (low + high) // 2
        other = tl.load(keys_ptr + row + begin + middle, mask=low < high, other=0)
        before = (other > key) | ((other == key) & (mine % 2 == 1))  # only keys beyond the row's end are equal
        low = tl.where((low < high) & before, middle + 1, low)
        high = tl.where((low < high) & ~before & (middle >= low), middle, high)
    place = tl.minimum(mine * run, begin) + i % run + low
    tl.store(merged_ptr + row + place, key)


@triton.jit
def read_kernel(
    x_ptr,
    keys_ptr,
    values_ptr,
    indices_ptr,
    k,
    x_stride,
    padded,
    BLOCK: tl.constexpr,
):
    """Read the values and columns of the first k keys of each row."""
    blocks = tl.cdiv(k, BLOCK)
    row = (tl.program_id(axis=0) // blocks).to(tl.int64)
    place = tl.program_id(axis=0) % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = place < k
    index = place_of(tl.load(keys_ptr + row * padded + place, mask=mask, other=0))
    value = tl.load(x_ptr + row * x_stride + index, mask=mask)
    tl.store(values_ptr + row * k + place, value, mask=mask)
    tl.store(indices_ptr + row * k + place, index, mask=mask)
# --8<-- [end:sort]


# --8<-- [start:backward_kernel]
@triton.jit
def scatter_kernel(
    grad_ptr,
    weights_ptr,
    indices_ptr,
    grad_x_ptr,
    rows,
    k,
    columns,
    ROWS: tl.constexpr,
    K: tl.constexpr,
):
    """Send each gradient to the column that its value came from.

    Parameters:
        grad_ptr, indices_ptr: ``(rows, k)``, contiguous.
        weights_ptr: Like ``grad_ptr``, the softmax of the values, whose gradient ``grad_ptr`` is; or None.
        grad_x_ptr: ``(rows, columns)``, contiguous, zero where nothing was selected.
        K: A power of two; no less than k, if there are weights.
    """
    row = tl.program_id(axis=0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    place = tl.program_id(axis=1) * K + tl.arange(0, K)[None, :]
    mask = (row < rows) & (place < k)
    grad = tl.load(grad_ptr + row * k + place, mask=mask, other=0)
    index = tl.load(indices_ptr + row * k + place, mask=mask, other=0)
    if weights_ptr is not None:
        weight = tl.load(weights_ptr + row * k + place, mask=mask, other=0).to(tl.float32)
        flows = weight * grad.to(tl.float32)
        grad = flows - weight * tl.sum(flows, axis=1, keep_dims=True)
    tl.store(grad_x_ptr + row * columns + index, grad, mask=mask)
# --8<-- [end:backward_kernel]


# --8<-- [start:plan]
class Plan(NamedTuple):
    """A program's plan: rows, groups, members sorted at a time, warps."""

    rows: int
    groups: int
    sorted: int
    num_warps: int


def plan(rows: int, columns: int, k: int) -> Plan:
    """Choose for rows of ``columns``, of which k are wanted.

    >>> plan(16384, 128, 8), plan(8192, 4096, 8)
    (Plan(rows=8, groups=128, sorted=1, num_warps=4), Plan(rows=1, groups=128, sorted=32, num_warps=1))
    """
    whole = triton.next_power_of_2(columns)
    if whole <= max(256, 2 * kept(k)):  # so few that each is a group of its own
        at_once = min(max(1024 // whole, 1), triton.next_power_of_2(rows))
        return Plan(at_once, max(whole, kept(k)), 1, num_warps=min(max(at_once * whole // 256, 1), 8))
    balance = triton.next_power_of_2(math.isqrt(kept(k) * columns) + 1) // 2  # about as many as members of the best
    groups = min(max(balance, kept(k), 128), 4096)
    return Plan(1, groups, min(whole // groups, max(2048 // kept(k), 1)), num_warps=min(groups // 128, 8))


def kept(k: int) -> int:
    """Return how many a program keeps: a power of two, and not 1, which ``tl.topk`` of Triton before 3.9 cannot do."""
    return max(triton.next_power_of_2(k), 2)
# --8<-- [end:plan]


# --8<-- [start:launches]
def topk_forward(
    x: torch.Tensor,
    k: int,
    largest: bool,
    softmax: bool,
    by: Plan | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best k along the last dimension, or their softmax, and their columns."""
    check_arguments(x, k, softmax)
    shape = (*x.shape[:-1], k)
    values = torch.empty(shape, dtype=x.dtype, device=x.device)
    indices = torch.empty(shape, dtype=torch.int64, device=x.device)
    if values.numel():
        tensors = as_rows(as_numbers(x)), as_numbers(values), indices
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            if k <= MOST:
                select(*tensors, largest, softmax, by)
            else:
                sort(*tensors, largest)
    return values, indices


def select(
    x: torch.Tensor,
    values: torch.Tensor,
    indices: torch.Tensor,
    largest: bool,
    softmax: bool,
    by: Plan | None,
) -> None:
    rows, columns = x.shape
    k = indices.shape[-1]
    by = by or plan(rows, columns, k)
    members = max(triton.next_power_of_2(columns) // by.groups, 1)
    short = x.element_size() <= 2 and columns <= 2**16
    unit = math.gcd(8, columns, x.stride(0))  # told this, the compiler loads 16 bytes at a time
    topk_kernel[(triton.cdiv(rows, by.rows),)](
        x, values, indices, rows, columns // unit, x.stride(0) // unit, k,
        **order_of(x.dtype, largest), SOFTMAX=softmax, KEY=tl.int32 if short else tl.int64, UNIT=unit, ROWS=by.rows,
        GROUPS=by.groups, MEMBERS=members, LOADED=min(members, 16 // x.element_size()), SORTED=min(by.sorted, members),
        K=kept(k), num_warps=by.num_warps,
    )  # fmt: skip


def sort(x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, largest: bool) -> None:
    rows, columns = x.shape
    k = indices.shape[-1]
    padded = triton.cdiv(columns, RUN) * RUN
    keys = torch.empty((rows, padded), dtype=torch.int64, device=x.device)
    run_kernel[(rows * padded // RUN,)](
        x, keys, columns, x.stride(0), padded, **order_of(x.dtype, largest), RUN=RUN, num_warps=8
    )
    run, merged = RUN, torch.empty_like(keys)
    block = min(RUN, 512)
    while run < padded:
        merge_kernel[(rows * padded // block,)](keys, merged, padded, run, STEPS=run.bit_length(), BLOCK=block)
        keys, merged, run = merged, keys, 2 * run
    read_kernel[(rows * triton.cdiv(k, block),)](x, keys, values, indices, k, x.stride(0), padded, BLOCK=block)


def order_of(dtype: torch.dtype, largest: bool) -> dict:
    """Return what tells a kernel how values are ordered: the largest or the smallest first, infinity, the worst."""
    if dtype not in FLOATS:
        limits = torch.iinfo(dtype)
        return {"LARGEST": largest, "INFINITY": None, "WORST": limits.min if largest else limits.max}
    infinity = torch.tensor(math.inf, dtype=dtype).view(FLOATS[dtype]).item()
    return {"LARGEST": largest, "INFINITY": infinity, "WORST": -math.inf if largest else math.nan}


def topk_backward(
    grad: torch.Tensor,
    weights: torch.Tensor | None,
    indices: torch.Tensor,
    columns: int,
) -> torch.Tensor:
    """Return the gradient of ``x``; of softmax, if there are weights."""
    k = indices.shape[-1]
    grad, indices = grad.resolve_neg().contiguous(), indices.contiguous()
    grad_x = torch.zeros((*grad.shape[:-1], columns), dtype=grad.dtype, device=grad.device)
    if grad.numel():
        rows, block = grad.numel() // k, min(kept(k), MOST)
        at_once = max(256 // block, 1)
        weights = None if weights is None else weights.contiguous()
        with torch.cuda.device_of(grad):
            scatter_kernel[(triton.cdiv(rows, at_once), triton.cdiv(k, block))](
                grad, weights, indices, grad_x, rows, k, columns, ROWS=at_once, K=block
            )
    return grad_x
# --8<-- [end:launches]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


def as_numbers(x: torch.Tensor) -> torch.Tensor:
    """Return truths as 0 and 1."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


# --8<-- [start:function]
class TopK(torch.autograd.Function):
    """Tie both directions together. Saved: the columns, and the weights that softmax gave."""

    @staticmethod
    def forward(x, k, largest, softmax):
        return topk_forward(x, k, largest, softmax)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _, _, ctx.softmax = inputs
        values, indices = output
        ctx.columns = x.shape[-1]
        ctx.save_for_backward(indices, *([values] if ctx.softmax else []))
        ctx.mark_non_differentiable(indices)

    @staticmethod
    def backward(ctx, grad, _):
        indices, *weights = ctx.saved_tensors
        weights = weights[0] if weights else None
        if torch.is_grad_enabled():  # the gradient itself may be asked for a gradient
            return in_torch_backward(grad, weights, indices, ctx.columns), None, None, None
        return topk_backward(grad, weights, indices, ctx.columns), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, *options):
        return TopK.apply(x.movedim(in_dims[0], 0), *options), (0, 0)
# --8<-- [end:function]


def in_torch_backward(grad, weights, indices, columns):
    """Compute what ``topk_backward`` does by torch, which can take the gradient of it."""
    if weights is not None:
        flows = weights * grad
        grad = flows - weights * flows.sum(-1, keepdim=True)
    return grad.new_zeros((*grad.shape[:-1], columns)).scatter(-1, indices, grad)


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::topk", mutates_args=())
def topk_op(x: torch.Tensor, k: int, largest: bool, softmax: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return topk_forward(x, k, largest, softmax)


@torch.library.custom_op("triton_by_example_library::topk_backward", mutates_args=())
def topk_backward_op(
    grad: torch.Tensor,
    weights: torch.Tensor | None,
    indices: torch.Tensor,
    columns: int,
) -> torch.Tensor:
    return topk_backward(grad, weights, indices, columns)


@topk_op.register_fake
def _(x, k, *_):
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


@topk_backward_op.register_fake
def _(grad, weights, indices, columns):
    return grad.new_empty((*grad.shape[:-1], columns))


def topk_op_backward(ctx, grad, _):
    indices, *weights = ctx.saved_tensors
    return topk_backward_op(grad, weights[0] if weights else None, indices, ctx.columns), None, None, None


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
def topk(
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    softmax: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest or smallest along ``dim``, the best first, and where they stand.

    As ``torch.topk(x, k, dim, largest, sorted)``, except that of equal values the earlier comes first, which torch
    leaves open. With k the length of the row, it sorts.

    Args:
        x: On a GPU (in the interpreter: on the CPU), with a dimension or more, of one of ``DTYPES``. It is copied
            unless the elements along ``dim`` are neighbors in memory, and the rows lie evenly apart.
        k: From 0 to the length of ``dim``; with ``softmax``, no more than ``MOST``. A number of Python, NumPy or a
            tensor on the CPU.
        dim: Along which is selected.
        largest: Whether the largest are wanted; else the smallest. To both, a NaN is larger than all else.
        sorted: If false, any order will do; they come sorted all the same.
        softmax: Whether the softmax of the k values is returned in their place, as a router's weights: computed in
            float32, rounded to the dtype of ``x``.

    Returns:
        New contiguous tensors, ``dim`` of length k: the values, bit for bit those of ``x``, or their softmax; and int64
        indices. Values of floats have gradients, of any order. The kernel may still be running when they are returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.

    >>> values, indices = topk(torch.tensor([1.0, 5.0, -7.0, 5.0]), 3)
    >>> values, indices
    (tensor([5., 5., 1.]), tensor([1, 3, 0]))
    >>> topk(torch.tensor([[3, 1], [2, 9]]).int(), 1, dim=0, largest=False)[0]
    tensor([[2, 1]], dtype=torch.int32)
    """
    dim = as_int("dim", dim)
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"dim must be one of x's {x.ndim} dimensions; got {dim}")
    select = topk_op if torch.compiler.is_compiling() else TopK.apply
    results = select(x.movedim(dim, -1), as_int("k", k), bool(largest), bool(softmax))
    return tuple(each.movedim(-1, dim).contiguous() for each in results)
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, k: int, softmax: bool) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    if x.dtype in (torch.int64, torch.float64):
        raise ValueError(f"x is {x.dtype}, whose 64 bits leave a key no room for the column; use 32 bits or fewer")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    columns = x.shape[-1]
    if not 0 <= k <= columns:
        raise ValueError(f"k must be from 0 to {columns}, the length of dim; got {k}")
    if softmax and x.dtype not in FLOATS:
        raise ValueError(f"softmax needs floats; x is {x.dtype}")
    if softmax and k > MOST:
        raise ValueError(f"softmax takes k up to {MOST}; got {k}: call torch.softmax on the values")
    if columns > 2**31 - 2**13:
        raise ValueError(f"{columns} columns are too many; at most 2**31 - 2**13 are served")
    programs = x.shape[:-1].numel() * (triton.cdiv(columns, 512) if k > MOST else 1)
    if programs > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{x.shape[:-1].numel()} rows are too many for one launch; split x")
    interpreted = not isinstance(topk_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and softmax and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def in_torch(x, k, dim=-1, largest=True, softmax=False):
    """Return what ``topk`` does, by a stable sort."""
    values, indices = x.sort(dim=dim, descending=largest, stable=True)
    values, indices = values.narrow(dim, 0, k), indices.narrow(dim, 0, k)
    return values.softmax(dim) if softmax else values, indices


def main():
    device = "cuda" if isinstance(topk_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## options")
    x = torch.randn(3, 300, device=device)
    whole = torch.randint(-9, 9, (3, 300), device=device).int()
    cases = {
        "largest": (x, {"k": 8}),
        "smallest": (x, {"k": 8, "largest": False}),
        "integers, with equals": (whole, {"k": 50}),
        "along the first dimension": (x, {"k": 2, "dim": 0}),
        "softmax of the k": (x, {"k": 8, "softmax": True}),
        "1,100 of 2,100": (torch.randn(1, 2100, device=device), {"k": 1100}),
    }
    for name, (x, given) in cases.items():
        x.requires_grad_(x.is_floating_point())
        found, wanted = topk(x, **given), in_torch(x, **given)
        same = torch.allclose(found[0], wanted[0]) and torch.equal(found[1], wanted[1])
        if x.requires_grad:
            grads = [torch.autograd.grad((values**2).sum(), x)[0] for values, _ in (found, wanted)]
            same = same and torch.allclose(*grads, atol=1e-6)
        print(f"{name}:", "as by torch" if same else "NOT as by torch")

    print("## groups")
    # --8<-- [start:groups]
    x = torch.tensor([4, 1, 0, 3, 7, 6, 2, 5], device=device).int()
    values, places = topk_forward(x, 2, True, False, Plan(rows=1, groups=4, sorted=2, num_warps=1))
    print(values.tolist(), places.tolist())
    # --8<-- [end:groups]


if __name__ == "__main__":
    main()
