# SPDX-License-Identifier: Apache-2.0
"""What torch computes: creation, arithmetic, reductions, comparison. A sum is exact to a float64 and rounded once."""

import builtins
import functools
import math
import operator
import random
from itertools import accumulate

from . import layout
from .arithmetic import attempt
from .autograd import tracked
from .block import quotients
from .dtypes import convert
from .launch import caller
from .tensor import (
    DTYPES,
    Size,
    Tensor,
    bool_,
    device_of,
    first,
    flat,
    float32,
    float64,
    fresh,
    int64,
    made,
    tensor,
    torch_dtype,
)  # fmt: skip

RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


# Creation

ON_A_DEVICE = {"empty", "empty_strided", "zeros", "ones", "full", "tensor", "arange"}  # the CPU, unless one is given
HINTS = {"layout", "pin_memory", "memory_format", "non_blocking"}  # which change nothing here


def creates(function):
    """Let a function that makes a tensor accept what all of torch's do: a device, whether it requires a gradient."""

    @functools.wraps(function)
    def make(*args, device=None, requires_grad=False, size=None, **options):
        device_of(device)
        args = args if size is None else (size, *args)
        options = {name: value for name, value in options.items() if name not in HINTS}
        out = function(*args, **options).requires_grad_(requires_grad)
        out.storage.elsewhere = caller() if device is None and function.__name__ in ON_A_DEVICE else 0
        return out

    return make


given = creates(tensor)


@creates
def empty(*size, dtype=None):
    return fresh(flat(size), dtype or float32)


@creates
def full(size, fill_value, *, dtype=None):
    kind = dtype or (bool_ if isinstance(fill_value, bool) else int64 if isinstance(fill_value, int) else float32)
    return made(tensor(fill_value, dtype=kind).values() * math.prod(flat((size,))), kind, flat((size,)))


@creates
def zeros(*size, dtype=None):
    return full(flat(size), 0, dtype=dtype or float32)


@creates
def ones(*size, dtype=None):
    return full(flat(size), 1, dtype=dtype or float32)


@creates
def empty_strided(size, stride, *, dtype=None):
    span = 1 + builtins.sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    return first(fresh((span,), dtype or float32).storage, dtype or float32, size, stride)


def _dense(x: Tensor):
    """Return the strides that torch gives a tensor like ``x``: the same, if no elements lie between or overlap."""
    order = sorted(range(x.ndim), key=lambda a: -x.steps[a])
    steps, step = [0] * x.ndim, 1
    for axis in reversed(order):
        steps[axis] = step
        step *= builtins.max(x.shape[axis], 1)
    return steps if all(n == 1 or s == t for n, s, t in zip(x.shape, x.steps, steps, strict=True)) else None


@creates
def empty_like(x, *, dtype=None):
    return fresh(x.shape, dtype or x.dtype, None if x.is_contiguous() else _dense(x))


zeros_like = lambda x, **options: empty_like(x, **options).zero_()
ones_like = lambda x, **options: empty_like(x, **options).fill_(1)
full_like = lambda x, fill_value, **options: empty_like(x, **options).fill_(fill_value)


@creates
def arange(*ends, dtype=None):
    start, end, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    kind = dtype or (float32 if any(isinstance(v, float) for v in (start, end, step)) else int64)
    values = [start + i * step for i in range(builtins.max(0, math.ceil((end - start) / step)))]
    return tensor(values, dtype=kind)


@creates
def linspace(start, end, steps, *, dtype=None):
    return tensor(
        [start + (end - start) * i / builtins.max(steps - 1, 1) for i in range(steps)], dtype=dtype or float32
    )


@creates
def eye(n, m=None, *, dtype=None):
    return tensor([[float(i == j) for j in range(m or n)] for i in range(n)], dtype=dtype or float32)


class Generator:
    """Draws torch's random numbers, by the Mersenne Twister: the same to the bit, but for randn's last digits."""

    def __init__(self, device="cpu"):
        device_of(device)
        self.manual_seed(67280421310721)

    def manual_seed(self, seed):
        words = [seed & 0xFFFFFFFF]
        for i in range(1, 624):
            words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + i) & 0xFFFFFFFF)
        self.twister, self.later = random.Random(), None
        self.twister.setstate((3, (*words, 624), None))
        return self

    def word(self) -> int:
        return self.twister.getrandbits(32)

    def long_word(self) -> int:
        return self.word() << 32 | self.word()

    def uniform(self, digits=24) -> float:
        drawn = self.word() if digits == 24 else self.long_word()
        return (drawn & (1 << digits) - 1) / (1 << digits)

    def normal(self) -> float:
        if self.later is not None:
            value, self.later = self.later, None
            return value
        angle, radius = 2 * math.pi * self.uniform(53), math.sqrt(-2 * math.log1p(-self.uniform(53)))
        self.later = radius * math.sin(angle)
        return radius * math.cos(angle)

    def normals(self, count: int) -> list[float]:
        if count < 16:
            return [self.normal() for _ in range(count)]
        values = [self.uniform() for _ in range(count)]
        for i in [*range(0, count - 15, 16), *([count - 16] if count % 16 else [])]:
            if i % 16:
                values[i:] = [self.uniform() for _ in range(16)]
            for j in range(i, i + 8):
                radius, angle = math.sqrt(-2 * math.log(1 - values[j])), 2 * math.pi * values[j + 8]
                values[j], values[j + 8] = radius * math.cos(angle), radius * math.sin(angle)
        return values


DEFAULT = Generator()


def manual_seed(seed):
    return DEFAULT.manual_seed(seed)


def _drawn(draw):
    @creates
    def make(*size, generator=None, dtype=None):
        kind, shape = dtype or float32, flat(size)
        values = draw(generator or DEFAULT, math.prod(shape), 53 if kind is float64 else 24)
        return made(kind.of.round(values), kind, shape)

    return make


rand = _drawn(lambda source, count, digits: [source.uniform(digits) for _ in range(count)])
randn = _drawn(lambda source, count, digits: source.normals(count))


@creates
def randint(*args, generator=None, dtype=None):
    low, high, size = args if isinstance(args[1], int) else (0, *args)
    source, kind = generator or DEFAULT, dtype or int64
    draw = source.word if high - low < 1 << 28 else source.long_word
    return tensor([low + draw() % (high - low) for _ in range(math.prod(size))], dtype=kind).reshape(*size)


@creates
def randperm(n, *, generator=None, dtype=None):
    values, source = list(range(n)), generator or DEFAULT
    for i in range(n - 1):
        j = i + source.word() % (n - i)
        values[i], values[j] = values[j], values[i]
    return tensor(values, dtype=dtype or int64)


rand_like = lambda x, *, dtype=None, **options: rand(*x.shape, dtype=dtype or x.dtype, **options)
randn_like = lambda x, *, dtype=None, **options: randn(*x.shape, dtype=dtype or x.dtype, **options)


# Elementwise


def _promoted(a: torch_dtype, b: torch_dtype) -> torch_dtype:
    if a is b:
        return a
    rank_a, rank_b = RANK[a.of.kind_name], RANK[b.of.kind_name]
    if rank_a != rank_b:
        return a if rank_a > rank_b else b
    if a.is_floating_point:
        return float32 if a.itemsize == b.itemsize else builtins.max(a, b, key=lambda d: d.itemsize)
    if a.of.kind_name == b.of.kind_name or a.itemsize != b.itemsize:
        wider, other = (a, b) if a.itemsize > b.itemsize else (b, a)
        if wider.of.kind_name == "int" or other.of.kind_name == "uint":
            return wider
    return DTYPES["int16"] if builtins.max(a.itemsize, b.itemsize) == 1 else int64


def result_type(*operands) -> torch_dtype:
    """Return the dtype of a result: tensors count, then those without axes, then numbers, each if of a higher kind."""
    found = None
    for level in range(3):
        of_level = None
        for value in operands:
            if not isinstance(value, Tensor):
                here, kind = 2, bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else float32
            else:
                here, kind = 0 if value.ndim else 1, value.dtype
            if here == level:
                of_level = kind if of_level is None else _promoted(of_level, kind)
        if of_level and (found is None or RANK[of_level.of.kind_name] > RANK[found.of.kind_name]):
            found = of_level
    return found


def broadcast_shapes(*shapes) -> Size:
    rank, out = builtins.max(map(len, shapes)), []
    for sizes in zip(*([1] * (rank - len(s)) + list(s) for s in shapes), strict=True):
        wanted = {n for n in sizes if n != 1}
        if len(wanted) > 1:
            at = len(out)
            raise RuntimeError(f"The size of tensor a ({sizes[0]}) must match the size of tensor b ({sizes[1]}) at "
                               f"non-singleton dimension {at}")  # fmt: skip
        out.append(wanted.pop() if wanted else 1)
    return Size(out)


def _together(kind: torch_dtype, *operands) -> tuple[list[list], Size]:
    """Return the numbers of all operands, in one dtype and one shape."""
    shape = broadcast_shapes(*(v.shape for v in operands if isinstance(v, Tensor)))
    data = []
    for value in operands:
        if isinstance(value, Tensor):
            data.append(convert(value.expand(*shape).values(), value.dtype.of, kind.of))
        else:
            wide = float32 if kind.is_floating_point and kind.itemsize < 4 else kind  # as torch computes with numbers
            data.append((wide.of.round([value]) if kind.is_floating_point else [value]) * shape.numel())
    return data, shape


def _binary(compute, into=None, lifts=False):
    """Make a function of two tensors or numbers. ``into``: the dtype of the result; ``lifts``: integers to float32."""

    def apply(a, b):
        kind = result_type(a, b)
        if lifts and not kind.is_floating_point:
            kind = float32
        data, shape = _together(kind, a, b)
        target = into or kind
        values = compute(*data) if compute is quotients else map(compute, *data)
        return made(target.of.round(values) if target is not bool_ else list(map(bool, values)), target, shape)

    return apply


def _modulo(a, b):
    if isinstance(a, float):
        return a % b if b and math.isfinite(a) else math.nan
    return a % b


add_, sub_, mul, div = (
    _binary(operator.add), _binary(operator.sub), _binary(operator.mul), _binary(quotients, lifts=True),
)  # fmt: skip
remainder, pow = _binary(_modulo), _binary(operator.pow)
floor_divide = _binary(operator.floordiv)
maximum = _binary(lambda a, b: a if a >= b or a != a else b)
minimum = _binary(lambda a, b: a if a <= b or a != a else b)
eq, ne, lt, le, gt, ge = (_binary(getattr(operator, n), into=bool_) for n in ("eq", "ne", "lt", "le", "gt", "ge"))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, (operator.and_, operator.or_, operator.xor))
bitwise_left_shift, bitwise_right_shift = _binary(operator.lshift), _binary(operator.rshift)


def add(a, b, *, alpha=1):
    return add_(a, b if alpha == 1 else mul(b, alpha))


def sub(a, b, *, alpha=1):
    return sub_(a, b if alpha == 1 else mul(b, alpha))


def where(condition, a, b):
    kind = result_type(a, b)
    (on, left, right), shape = _together(kind, condition.to(kind), a, b)
    return made(kind.of.round([m if c else n for c, m, n in zip(on, left, right, strict=True)]), kind, shape)


def _unary(compute, at=lambda v: math.nan, lifts=True):
    safe = attempt(compute, at)

    def apply(x):
        kind = x.dtype if x.dtype.is_floating_point or not lifts else float32
        return made(kind.of.round(map(safe, convert(x.values(), x.dtype.of, kind.of))), kind, x.shape)

    return apply


_infinite = lambda v: math.inf
_log = lambda v: -math.inf if v == 0 else math.nan
exp, exp2 = _unary(math.exp, _infinite), _unary(lambda v: 2.0**v, _infinite)
log, log2, log1p = _unary(math.log, _log), _unary(math.log2, _log), _unary(math.log1p, _infinite)
sin, cos, tanh, erf = map(_unary, (math.sin, math.cos, math.tanh, math.erf))
sqrt, rsqrt = _unary(math.sqrt), _unary(lambda v: 1 / math.sqrt(v), lambda v: math.inf if v == 0 else math.nan)
sigmoid = _unary(lambda v: 1 / (1 + math.exp(-v)), lambda v: 0.0)
reciprocal = lambda x: div(1.0, x)
floor = _unary(lambda v: math.floor(v), lambda v: v, lifts=False)
ceil = _unary(lambda v: math.ceil(v), lambda v: v, lifts=False)
round = _unary(lambda v: builtins.round(v), lambda v: v, lifts=False)
abs, neg = _unary(builtins.abs, lifts=False), _unary(operator.neg, lifts=False)
square = lambda x: mul(x, x)
relu = _unary(lambda v: v if v > 0 or v != v else 0, lifts=False)
sign = _unary(lambda v: (v > 0) - (v < 0), lifts=False)


def silu(x, inplace=False):
    return made(x.dtype.of.round([v / (1 + math.exp(-v)) if v > -700 else 0.0 for v in x.values()]), x.dtype, x.shape)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        of = lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    else:
        of = lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2)))
    return made(x.dtype.of.round(map(of, x.values())), x.dtype, x.shape)


def _test(compute):
    return lambda x: made([compute(v) for v in x.values()], bool_, x.shape)


isnan, isinf = _test(lambda v: v != v), _test(lambda v: builtins.abs(v) == math.inf)
isfinite, logical_not = _test(math.isfinite), _test(operator.not_)


def bitwise_not(x):
    return (
        logical_not(x)
        if x.dtype is bool_
        else made(x.dtype.of.round(map(operator.invert, x.values())), x.dtype, x.shape)
    )


def clamp(x, min=None, max=None):
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def masked_fill(x, mask, value):
    return where(mask, tensor(value, dtype=x.dtype), x)


def lerp(a, b, weight):
    return add(a, mul(sub(b, a), weight))


# Along an axis


def _axes(x, dim):
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return sorted(d % x.ndim for d in dims) if x.ndim else []


def _lines(x, dim):
    """Return the numbers along some axes, a list for each place on the others; and the shapes without and with them."""
    axes = _axes(x, dim)
    order = [a for a in range(x.ndim) if a not in axes]
    length = math.prod(x.shape[a] for a in axes)
    values, count = x.permute(*order, *axes).values(), math.prod(x.shape[a] for a in order)
    parts = [values[i * length : (i + 1) * length] for i in range(count)]
    return parts, [x.shape[a] for a in order], [1 if a in axes else n for a, n in enumerate(x.shape)]


def _reduction(fold, into=None, lifts=False):
    def apply(x, dim=None, keepdim=False, *, dtype=None):
        x = x if dtype is None else x.to(dtype)
        kind = into(x.dtype) if into else x.dtype
        parts, without, kept = _lines(x, dim)
        return made(kind.of.round([fold(part) for part in parts]), kind, kept if keepdim else without)

    return apply


def _sum(part):
    if part and isinstance(part[0], float):
        return math.fsum(part) if all(map(math.isfinite, part)) else builtins.sum(part)
    return builtins.sum(part)


def _largest(part):
    return builtins.max(part) if all(v == v for v in part) else math.nan


def _smallest(part):
    return builtins.min(part) if all(v == v for v in part) else math.nan


def _wide(kind):
    return kind if kind.is_floating_point else int64


sum = _reduction(_sum, _wide)
prod = _reduction(math.prod, _wide)
mean = _reduction(lambda part: _sum(part) / len(part) if part else math.nan)
amax, amin = _reduction(_largest), _reduction(_smallest)
all_, any_ = _reduction(all, lambda kind: bool_), _reduction(any, lambda kind: bool_)
count_nonzero = _reduction(lambda part: builtins.sum(v != 0 for v in part), lambda kind: int64)


def _variance(part, correction=1):
    middle = _sum(part) / len(part)
    return _sum([(v - middle) ** 2 for v in part]) / (len(part) - correction)


def var(x, dim=None, unbiased=True, keepdim=False, correction=None):
    less = (1 if unbiased else 0) if correction is None else correction
    return _reduction(lambda part: _variance(part, less))(x, dim, keepdim)


def std(x, dim=None, keepdim=False):
    return sqrt(var(x, dim, keepdim=keepdim))


def logsumexp(x, dim, keepdim=False):
    def fold(part):
        high = _largest(part)
        return high + math.log(_sum([math.exp(v - high) for v in part])) if math.isfinite(high) else high

    return _reduction(fold)(x, dim, keepdim)


class _Found(tuple):
    values, indices = property(lambda self: self[0]), property(lambda self: self[1])


def _at(choose):
    """Return where the best is along an axis, the first of equal ones; a NaN is the best."""

    def find(part):
        strange = next((i for i, v in enumerate(part) if v != v), None)
        return part.index(choose(part)) if strange is None else strange

    return _reduction(find, lambda kind: int64)


argmax, argmin = _at(builtins.max), _at(builtins.min)


def _best(value, at, both):
    def apply(x, dim=None, keepdim=False):
        if isinstance(dim, Tensor):
            return both(x, dim)
        return value(x) if dim is None else _Found((value(x, dim, keepdim), at(x, dim, keepdim)))

    return apply


max, min = _best(amax, argmax, maximum), _best(amin, argmin, minimum)


def _along(x, dim, change, kind=None):
    """Return the tensor with each line along an axis replaced by what ``change`` makes of it."""
    dim %= builtins.max(x.ndim, 1)
    parts = [change(part) for part in layout.lines(x.values(), tuple(x.shape) or (1,), dim)]
    kind, length = kind or x.dtype, len(parts[0]) if parts else x.shape[dim]
    shape = [length if a == dim else n for a, n in enumerate(x.shape)]
    return made(kind.of.round(layout.from_lines(parts, tuple(shape) or (1,), dim)), kind, shape)


def _shares(part):
    if not part:
        return []
    high = _largest(part)
    numerators = [math.exp(v - high) if v != -math.inf or high == -math.inf else 0.0 for v in part]
    total = _sum(numerators)
    return quotients(numerators, [total] * len(part))


def softmax(x, dim=None, dtype=None):
    return _along(x if dtype is None else x.to(dtype), -1 if dim is None else dim, _shares)


def log_softmax(x, dim=None, dtype=None):
    return sub(x, logsumexp(x, dim, keepdim=True))


def cumsum(x, dim, dtype=None):
    return _along(x, dim, lambda part: [*accumulate(part)], dtype or _wide(x.dtype))


def cumprod(x, dim, dtype=None):
    return _along(x, dim, lambda part: [*accumulate(part, operator.mul)], dtype or _wide(x.dtype))


def flip(x, *dims):
    for dim in flat(dims):
        x = _along(x, dim, lambda part: part[::-1])
    return x


def sort(x, dim=-1, descending=False, stable=False):
    order = lambda part: sorted(range(len(part)), key=part.__getitem__, reverse=descending)
    return _Found((_along(x, dim, lambda part: sorted(part, reverse=descending)), _along(x, dim, order, int64)))


def argsort(x, dim=-1, descending=False, stable=False):
    return sort(x, dim, descending)[1]


def unique(x):
    return tensor([*dict.fromkeys(builtins.sorted(x.values()))], dtype=x.dtype)


def nonzero(x):
    steps = layout.strides_of(x.shape)
    at = [i for i, v in enumerate(x.values()) if v]
    return tensor([[i // s % n for s, n in zip(steps, x.shape, strict=True)] for i in at], dtype=int64).reshape(
        -1, x.ndim
    )


def roll(x, shifts, dims=None):
    if dims is None:
        return roll(x.flatten(), shifts, 0).reshape(x.shape)
    return _along(x, dims, lambda part: part[-shifts % len(part) :] + part[: -shifts % len(part)])


def norm(x, dim=None, keepdim=False):
    return _reduction(lambda part: math.sqrt(_sum([v * v for v in part])))(x, dim, keepdim)


def topk(x, k, dim=-1, largest=True, sorted=True):
    return _Found(part.narrow(dim % x.ndim, 0, k).clone() for part in sort(x, dim, descending=largest))


def gather(x, dim, index):
    dim %= x.ndim
    parts = zip(
        layout.lines(x.values(), tuple(x.shape), dim),
        layout.lines(index.values(), tuple(index.shape), dim),
        strict=True,
    )
    picked = [[values[i] for i in at] for values, at in parts]
    return made(layout.from_lines(picked, tuple(index.shape), dim), x.dtype, index.shape)


def index_select(x, dim, index):
    return _along(x, dim, lambda part: [part[i] for i in index.values()])


def index_fill(x, dim, index, value):
    at = set(index.values())
    return _along(x, dim, lambda part: [value if i in at else v for i, v in enumerate(part)])


def scatter_add_(x, dim, index, source):
    of = [layout.lines(t.values(), tuple(t.shape), dim % x.ndim) for t in (x, index, source)]
    for target, at, values in zip(*of, strict=True):
        for i, value in zip(at, values, strict=True):
            target[i] = target[i] + value
    return x.write(x.dtype.of.round(layout.from_lines(of[0], tuple(x.shape), dim % x.ndim)))


def repeat_interleave(x, repeats, dim=0):
    return _along(x, dim, lambda part: [v for v in part for _ in range(repeats)])


def cat(tensors, dim=0):
    kind, dim = tensors[0].dtype, dim % tensors[0].ndim
    for other in tensors[1:]:
        kind = _promoted(kind, other.dtype)
    joined = [layout.lines(t.to(kind).values(), tuple(t.shape), dim) for t in tensors]
    parts = [[v for part in across for v in part] for across in zip(*joined, strict=True)]
    shape = list(tensors[0].shape)
    shape[dim] = builtins.sum(t.shape[dim] for t in tensors)
    return made(layout.from_lines(parts, tuple(shape), dim), kind, shape)


def stack(tensors, dim=0):
    return cat([t.unsqueeze(dim) for t in tensors], dim)


def tril(x, diagonal=0):
    return _triangle(x, lambda i, j: j - i <= diagonal)


def triu(x, diagonal=0):
    return _triangle(x, lambda i, j: j - i >= diagonal)


def _triangle(x, keep):
    n = x.shape[-1]
    on = [keep(i // n % x.shape[-2], i % n) for i in range(x.numel())]
    return made([v if k else v * 0 for v, k in zip(x.values(), on, strict=True)], x.dtype, x.shape)


def pad(x, widths, mode="constant", value=None):
    for i, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
        fill, dim = x.dtype.of.round([value or 0])[0], -1 - i
        x = x.narrow(dim, -before, x.shape[dim] + before) if before < 0 else x
        x = x.narrow(dim, 0, x.shape[dim] + after) if after < 0 else x
        left, right = [fill] * builtins.max(before, 0), [fill] * builtins.max(after, 0)
        if x.numel():
            x = _along(x, dim, lambda part, left=left, right=right: left + part + right)
        else:
            x = full(
                [n + len(left) + len(right) if a == x.ndim + dim else n for a, n in enumerate(x.shape)],
                fill,
                dtype=x.dtype,
            )
    return x


def masked_select(x, mask):
    return x[mask]


# Products


def matmul(a, b):
    if a.ndim == 1 or b.ndim == 1:
        left = a.unsqueeze(0) if a.ndim == 1 else a
        right = b.unsqueeze(1) if b.ndim == 1 else b
        out = matmul(left, right)
        out = out.squeeze(-1) if b.ndim == 1 else out
        return out.squeeze(-2 if b.ndim > 1 else -1) if a.ndim == 1 else out
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape[-2:]))} and "
                           f"{'x'.join(map(str, b.shape[-2:]))})")  # fmt: skip
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else ()
    (m, k), n = a.shape[-2:], b.shape[-1]
    left, right = a.expand(*batch, m, k).values(), b.expand(*batch, k, n).values()
    out = []
    for i in range(math.prod(batch)):
        rows = [left[j : j + k] for j in range(i * m * k, (i + 1) * m * k, k)] if k else [[]] * m
        columns = [right[i * k * n + j : (i + 1) * k * n : n] for j in range(n)]
        out += [builtins.sum(map(operator.mul, row, column)) for row in rows for column in columns]
    return made(a.dtype.of.round(out), a.dtype, (*batch, m, n))


def linear(x, weight, bias=None):
    out = matmul(x, weight.transpose(-1, -2))
    return out if bias is None else add(out, bias)


def outer(a, b):
    return mul(a.unsqueeze(1), b.unsqueeze(0))


# Comparing


def equal(a, b):
    return a.shape == b.shape and all(map(operator.eq, *_together(result_type(a, b), a, b)[0]))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    (left, right), shape = _together(float64, a, b)
    close = [
        m == n
        or (equal_nan and m != m and n != n)
        or (math.isfinite(n) and builtins.abs(m - n) <= atol + rtol * builtins.abs(n))
        for m, n in zip(left, right, strict=True)
    ]
    return made(close, bool_, shape)


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return all(isclose(a, b, rtol, atol, equal_nan).values())


TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(
    actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True, check_device=True, msg=None
):
    if not isinstance(actual, Tensor):
        actual, expected = tensor(actual), tensor(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.")
    if check_dtype and actual.dtype is not expected.dtype:
        raise AssertionError(f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}.")
    usual = builtins.max(TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (actual, expected))
    rtol, atol = usual if rtol is None else (rtol, atol)
    off = [i for i, ok in enumerate(isclose(actual, expected, rtol, atol, equal_nan).values()) if not ok]
    if off:
        raise AssertionError(f"Tensor-likes are not close!\n\nMismatched elements: {len(off)} / {actual.numel()} "
                             f"({100 * len(off) / actual.numel():.1f}%)")  # fmt: skip


# The same as methods and operators

METHODS = [
    "abs", "add", "allclose", "amax", "amin", "argmax", "argmin", "argsort", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "ceil", "clamp", "cos", "count_nonzero", "cumprod", "cumsum", "div", "eq", "equal",
    "erf", "exp", "exp2", "flip", "floor", "gather", "ge", "gt", "index_fill", "index_select", "isclose",
    "isfinite", "isinf", "isnan", "le", "log", "log2", "log_softmax", "logical_not", "logsumexp", "lt",
    "masked_fill", "masked_select", "matmul", "max", "maximum", "mean", "min", "minimum", "mul", "ne", "neg",
    "nonzero", "norm", "outer", "pow", "prod", "reciprocal", "relu", "remainder", "repeat_interleave", "roll",
    "round", "rsqrt", "sigmoid", "sign", "sin", "softmax", "sort", "sqrt", "square", "std", "sub", "sum", "tanh",
    "topk", "tril", "triu", "unique", "var",
]  # fmt: skip
SYMBOLS = {
    "add": add, "sub": sub, "mul": mul, "truediv": div, "floordiv": floor_divide, "mod": remainder, "pow": pow,
    "matmul": matmul, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "lshift": bitwise_left_shift,
    "rshift": bitwise_right_shift,
}  # fmt: skip
for _name in METHODS:
    globals()[_name].__name__ = _name
    globals()[_name] = tracked(globals()[_name])
    setattr(Tensor, _name, globals()[_name])
for _name, _function in SYMBOLS.items():
    setattr(Tensor, f"__{_name}__", tracked(_function))
    setattr(Tensor, f"__r{_name}__", tracked(lambda self, other, of=_function: of(other, self)))
    setattr(Tensor, f"__i{_name}__", lambda self, other, of=_function: self.copy_(of(self, other)))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_name}__", globals()[_name])
for _name in ("add", "sub", "mul", "div", "clamp", "masked_fill", "exp", "relu", "sigmoid"):
    _function = globals()[_name]
    setattr(Tensor, f"{_name}_", lambda self, *a, of=_function, **k: self.copy_(of(self, *a, **k)))
for _function in (empty, zeros, ones, full, given):
    setattr(Tensor, f"new_{_function.__name__}", lambda self, *args, of=_function, dtype=None, device=None, **options: (
        of(*args, dtype=dtype or self.dtype, device=device or self.device, **options)))  # fmt: skip
for _name in ("cat", "stack", "where", "linear", "silu", "gelu", "pad", "lerp"):
    globals()[_name].__name__ = _name
    globals()[_name] = tracked(globals()[_name])
Tensor.all, Tensor.any, Tensor.mm, Tensor.bmm = all_, any_, matmul, matmul
Tensor.where = lambda self, condition, other: where(condition, self, other)
Tensor.__neg__, Tensor.__invert__, Tensor.__abs__ = tracked(neg), bitwise_not, tracked(abs)
Tensor.scatter_add_ = scatter_add_
Tensor.repeat = lambda self, *sizes: _repeated(self, flat(sizes))


def _repeated(x, counts):
    x = x.reshape(*[1] * (len(counts) - x.ndim), *x.shape)
    for dim, count in enumerate(counts):
        x = cat([x] * count, dim)
    return x
