# SPDX-License-Identifier: Apache-2.0
"""Reduce, scan, sort and count blocks.

The order of a float sum: along the last axis as NumPy adds, in pairs (eight sums side by side over 128 elements, then
neighbors, and so on), for float16 in float32; along any other axis one element after the other. A GPU has an order of
its own. Scans go from first to last, and so does ``tl.reduce`` with a function of the kernel's.
"""

import functools
import operator
from itertools import accumulate

from . import layout
from .arithmetic import exp, fdiv, maximum, minimum
from .block import cast, tensor, to_tensor, unwrap
from .dtypes import bfloat16, dtype, float16, float32, int32, uint32
from .language import axis_of, expand_dims

__all__ = [
    "argmax", "argmin", "associative_scan", "bitonic_merge", "cumprod", "cumsum", "flip", "histogram", "max", "min",
    "reduce", "reduce_or", "softmax", "sort", "sum", "topk", "xor_sum",
]  # fmt: skip
LEAF, LANES = 128, 8  # of NumPy's sum in pairs


def _along(x: tensor, axis) -> tuple[list[list], int | None, tuple[int, ...]]:
    """Return the lines along an axis, or all elements as one; the axis; and the shape without it."""
    axis = unwrap(axis)
    if axis is None:
        return [x.data], None, ()
    if not isinstance(x, tensor):
        raise ValueError(f"input must be a tensor, got {type(x)}")
    if isinstance(axis, tensor) and axis.shape:  # the compiler fails on it, in words that help nobody
        raise ValueError(f"axis {str(axis.type).replace(' ', '')} out of bounds for shape {x.shape}")
    if axis >= len(x.shape):
        raise ValueError(f"axis {axis} out of bounds for shape {x.shape}")
    axis = axis_of(axis, len(x.shape))
    return layout.lines(x.data, tuple(x.shape), axis), axis, (*x.shape[:axis], *x.shape[axis + 1 :])


def _kept(result: tensor, x: tensor, axis, keep_dims) -> tensor:
    if not unwrap(keep_dims):
        return result
    return expand_dims(result, [*range(len(x.shape))] if axis is None else axis)


def _reduced(x: tensor, axis, keep_dims, fold, of: dtype) -> tensor:
    parts, axis, shape = _along(x, axis)
    return _kept(tensor([fold(part) for part in parts], of, shape), x, axis, keep_dims)


def _widened(x, of=None):
    x = to_tensor(x)
    return cast(x, of or float32) if of or x.dtype == bfloat16 else x


def _sum_dtype(x: tensor, asked) -> dtype | None:
    if unwrap(asked) is not None:
        return unwrap(asked)
    if x.dtype.is_int() and x.dtype.int_bitwidth < 32:
        return int32 if x.dtype.is_int_signed() else uint32
    return None


def sum(input, axis=None, keep_dims=False, dtype=None):
    x = to_tensor(input)
    x = _widened(x, _sum_dtype(x, dtype))
    last = unwrap(axis) is None or axis_of(unwrap(axis), len(x.shape)) == len(x.shape) - 1
    if not x.dtype.is_floating():
        return _reduced(x, axis, keep_dims, lambda part: x.dtype.round([_total(part)])[0], x.dtype)
    parts, axis, shape = _along(x, axis)
    total = in_pairs(parts, x.dtype) if last else in_turn(parts, x.dtype)
    return _kept(tensor([v + 0.0 for v in total], x.dtype, shape), x, axis, keep_dims)  # no -0, as NumPy begins at 0


_total = functools.partial(functools.reduce, operator.add)


def in_turn(parts: list[list], of: dtype) -> list:
    """Add up each part from first to last, rounding after each addition; all parts side by side."""
    columns = zip(*parts, strict=True)
    total = list(next(columns))
    for column in columns:
        total = of.round(map(operator.add, total, column))
    return total


def in_pairs(parts: list[list], of: dtype) -> list:
    """Add up each part as NumPy does where elements are neighbors. Their number is a power of two."""
    wide = float32 if of in (float16, bfloat16) else of
    n, count = len(parts[0]), len(parts)
    if n < LANES:
        return of.round(in_turn(parts, wide))
    flat = [value for part in parts for value in part]
    leaf = min_(n, LEAF)
    sums = _strided(flat, leaf, 0)
    for start in range(LANES, leaf, LANES):
        sums = wide.round(map(operator.add, sums, _strided(flat, leaf, start)))
    while len(sums) > count:
        sums = wide.round(map(operator.add, sums[::2], sums[1::2]))
    return of.round(sums)


min_, max_ = min, max


def _strided(flat: list, leaf: int, start: int) -> list:
    """Return of each leaf the LANES elements from ``start`` on."""
    return [value for at in range(start, len(flat), leaf) for value in flat[at : at + LANES]]


def _extreme(choose, first):
    """Return tl.max or tl.min. A NaN loses to any number; where all are NaN, the result is."""

    def best(part):
        return choose((v for v in part if v == v), default=part[0])

    def apply(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
        x = _widened(input)
        if unwrap(return_indices):
            parts, at, shape = _along(x, axis)
            found = [first(part) for part in parts]
            pairs = ([p[i] for p, i in zip(parts, found, strict=True)], x.dtype), (found, int32)
            return tuple(_kept(tensor(data, of, shape), x, at, keep_dims) for data, of in pairs)
        if x.dtype.primitive_bitwidth < 32:
            x = cast(x, float32 if x.dtype.is_floating() else int32)
        return _reduced(x, axis, keep_dims, best if x.dtype.is_floating() else choose, x.dtype)

    return apply


def _first(choose):
    """Return where the best is, the first of equal ones. A NaN counts as the best, as in NumPy."""

    def find(part):
        strange = next((i for i, v in enumerate(part) if v != v), None)
        return part.index(choose(part)) if strange is None else strange

    return find


max, min = _extreme(max_, _first(max_)), _extreme(min_, _first(min_))


def argmax(input, axis, tie_break_left=True, keep_dims=False):
    return max(input, axis, return_indices=True, keep_dims=keep_dims)[1]


def argmin(input, axis, tie_break_left=True, keep_dims=False):
    return min(input, axis, return_indices=True, keep_dims=keep_dims)[1]


def _bits(name, compute):
    def apply(input, axis=None, keep_dims=False):
        assert input.dtype.is_int(), f"{name} only supported for integers"
        return _reduced(input, axis, keep_dims, lambda part: functools.reduce(compute, part), input.dtype)

    return apply


xor_sum, reduce_or = _bits("xor_sum", operator.xor), _bits("reduce_or", operator.or_)


def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    dim = 0 if dim is None else dim
    numerator = exp(x - max(x, dim, keep_dims=keep_dims))
    return fdiv(numerator, sum(numerator, dim, keep_dims=keep_dims))


# With a function of the kernel's


def _combiner(function, dtypes):
    """Return a function of two tuples of numbers, of what the kernel's says of two tuples of scalars."""

    def combine(left: tuple, right: tuple) -> tuple:
        scalars = [tensor([v], of) for v, of in zip(left + right, dtypes * 2, strict=True)]
        got = function(*scalars)
        got = got if isinstance(got, tuple) else (got,)
        return tuple(cast(to_tensor(v), of).data[0] for v, of in zip(got, dtypes, strict=True))

    return combine


def _known(function):
    """Return the reduction that a function of Triton's own stands for, if it does."""
    return {maximum: max, minimum: min}.get(getattr(function, "__wrapped__", function))


def reduce(input, axis, combine_fn, keep_dims=False):
    inputs = input if isinstance(input, (tuple, list)) else (input,)
    if len(inputs) == 1 and (known := _known(combine_fn)):
        return known(inputs[0], axis, keep_dims=keep_dims)
    combine = _combiner(combine_fn, tuple(x.dtype for x in inputs))
    parts = [_along(x, axis) for x in inputs]
    rows = [zip(*lines, strict=True) for lines in zip(*(p[0] for p in parts), strict=True)]
    results = [functools.reduce(combine, row) for row in rows]
    made = [
        _kept(tensor(list(data), x.dtype, shape), x, at, keep_dims)
        for data, x, (_, at, shape) in zip(zip(*results, strict=True), inputs, parts, strict=True)
    ]
    return tuple(made) if isinstance(input, (tuple, list)) else made[0]


def associative_scan(input, axis, combine_fn, reverse=False):
    inputs = input if isinstance(input, (tuple, list)) else (input,)
    axis = axis_of(unwrap(axis), len(inputs[0].shape))
    combine = _combiner(combine_fn, tuple(x.dtype for x in inputs))
    lines = zip(*(_along(x, axis)[0] for x in inputs), strict=True)
    scanned = [_scan(list(zip(*line, strict=True)), combine, reverse) for line in lines]
    made = [
        tensor(layout.from_lines([[v[i] for v in line] for line in scanned], tuple(x.shape), axis), x.dtype, x.shape)
        for i, x in enumerate(inputs)
    ]
    return tuple(made) if isinstance(input, (tuple, list)) else made[0]


def _scan(line: list, combine, reverse) -> list:
    if unwrap(reverse):
        return [*accumulate(reversed(line), combine)][::-1]
    return [*accumulate(line, combine)]


def _cumulative(compute, widens):
    def apply(input, axis=0, reverse=False, dtype=None):
        x = _widened(input)
        x = _widened(x, _sum_dtype(x, dtype) if widens else None)
        axis_, of = axis_of(unwrap(axis), len(x.shape)), x.dtype
        combine = lambda a, b: of.round([compute(a, b)])[0]
        parts = [_scan(line, combine, reverse) for line in _along(x, axis_)[0]]
        return tensor(layout.from_lines(parts, tuple(x.shape), axis_), of, x.shape)

    return apply


cumsum = _cumulative(operator.add, widens=True)
_cumprod = _cumulative(operator.mul, widens=False)


def cumprod(input, axis=0, reverse=False):
    return _cumprod(input, axis, reverse)


# Sorting and counting


def _last_axis(x, dim):
    dim = len(x.shape) - 1 if unwrap(dim) is None else unwrap(dim)
    assert dim == len(x.shape) - 1, "only minor dimension is currently supported"
    return layout.lines(x.data, tuple(x.shape), dim), dim


def _sorted(x, dim, descending, k=None):
    parts, dim = _last_axis(x, dim)
    k = x.shape[dim] if unwrap(k) is None else unwrap(k)
    assert k <= x.shape[dim], f"there are no {k} elements along axis {dim} of {x.shape}"
    if k < x.shape[dim] and x.dtype.size < 4:
        x = cast(x, float32 if x.dtype.is_floating() else int32)  # by Triton's max, on the way
        parts, _ = _last_axis(x, dim)
    parts = [sorted(part, reverse=bool(unwrap(descending)))[:k] for part in parts]
    return tensor([v for part in parts for v in part], x.dtype, (*x.shape[:-1], k))


def sort(x, dim=None, descending=False):
    return _sorted(x, dim, descending)


def topk(x, k, dim=None):
    return _sorted(x, dim, True, k)


bitonic_merge = sort  # of two sorted halves, one of them upside down


def flip(x, dim=None):
    if unwrap(dim) is None:
        raise TypeError("'<=' not supported between instances of 'int' and 'NoneType'")  # as Triton's does
    if tuple(x.shape) == (1,):
        raise AttributeError("'dtype' object has no attribute 'numel'")  # as Triton's, which takes it for a scalar
    dim = axis_of(unwrap(dim), len(x.shape))
    parts = [part[::-1] for part in layout.lines(x.data, tuple(x.shape), dim)]
    return tensor(layout.from_lines(parts, tuple(x.shape), dim), x.dtype, x.shape)


def histogram(input, num_bins, mask=None):
    assert len(input.shape) == 1, "histogram only supports 1D input"
    assert input.dtype.is_int(), "histogram only supports integer input"
    counts = [0] * unwrap(num_bins)
    on = [True] * len(input.data) if mask is None else to_tensor(unwrap(mask)).data
    for value, counted in zip(input.data, on, strict=True):
        if counted and 0 <= value < len(counts):
            counts[value] += 1
    return tensor(counts, int32, (len(counts),))


for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
    if _name not in ("bitonic_merge", "topk"):
        setattr(tensor, _name, globals()[_name])
