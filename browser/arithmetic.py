# SPDX-License-Identifier: Apache-2.0
"""Functions of ``triton.language`` that compute: element by element, and products of matrices."""

import builtins
import math
import operator
from array import array
from itertools import repeat

from . import block
from .block import PropagateNan, add, broadcast, mul, negative, operands, quotients, tensor, truediv, unwrap
from .dtypes import bfloat16, float32, float64, int1, int8, int32, int64
from .memory import MEMORY

__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "dot", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log",
    "log2", "maximum", "minimum", "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "swizzle2d", "umulhi", "where",
]  # fmt: skip
MEMBERS = [
    "abs", "cdiv", "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sigmoid", "sin", "sqrt",
    "sqrt_rn",
]  # fmt: skip
BITS = {"tf32": 0xFFFFE000}  # of a float32, those that a GPU's matrix units keep of it


def where(condition, x, y):
    condition = block.cast(block.to_tensor(condition), int1)
    x, y = operands(x, y, True, True)
    if x.dtype.is_ptr() and x.dtype.origin != y.dtype.origin:
        x, y = (block.cast(block.cast(p, int64), p.dtype) for p in (x, y))  # as addresses
    if condition.shape:
        condition, x = broadcast(condition, x)
        x, y = broadcast(x, y)
    else:
        condition, _ = broadcast(condition, x)
    data = [a if c else b for c, a, b in zip(condition.data, x.data, y.data, strict=True)]
    return tensor(data, x.dtype, x.shape)


def _widened(x):
    x = block.to_tensor(x)
    return block.cast(x, float32) if x.dtype == bfloat16 else x


def _extreme(better):
    """Return maximum or minimum. Of a number and a NaN the number is taken, or the NaN where that is asked for."""

    def apply(x, y, propagate_nan=PropagateNan.NONE):
        x, y = operands(_widened(x), _widened(y))
        if not x.dtype.is_floating():
            return tensor([a if better(a, b) else b for a, b in zip(x.data, y.data, strict=True)], x.dtype, x.shape)
        if unwrap(propagate_nan) == PropagateNan.ALL:
            data = [a if better(a, b) or a != a else b for a, b in zip(x.data, y.data, strict=True)]
        else:
            data = [a if better(a, b) or b != b else b for a, b in zip(x.data, y.data, strict=True)]
        return tensor(data, x.dtype, x.shape)

    return apply


maximum, minimum = _extreme(operator.ge), _extreme(operator.le)


def clamp(x, min, max, propagate_nan=PropagateNan.NONE):
    x, min, max = map(_widened, (x, min, max))
    min, max = operands(min, max)
    x, min = operands(x, min)
    x, max = operands(x, max)
    if not x.dtype.is_floating():
        raise TypeError(f"Unexpected dtype {x.dtype}. Only floating point clamp is supported")
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def attempt(compute, at):
    """Return ``compute``, and what it is where Python raises an error: ``at`` of the number."""

    def safe(value):
        try:
            return compute(value)
        except (ValueError, OverflowError, ZeroDivisionError):
            return at(value)

    return safe


def _unary(name, compute, at=lambda value: math.nan, dtypes=("fp32", "fp64")):
    safe = attempt(compute, at)

    def apply(x):
        _only(dtypes, x)
        x = block.to_tensor(x)
        try:
            data = x.dtype.round(map(compute, x.data))
        except (ValueError, OverflowError, ZeroDivisionError):
            data = x.dtype.round(map(safe, x.data))
        return tensor(data, x.dtype, x.shape)

    apply.__name__ = name
    return apply


def _at_zero(value):
    return -math.inf if value == 0 else math.nan


def _rounded_reciprocal(root):
    """1 / sqrt(x), where the root is rounded, too."""

    def apply(x):
        _only(("fp32", "fp64"), x)
        roots = root(block.to_tensor(x))
        return tensor(roots.dtype.round(quotients([1.0] * len(roots.data), roots.data)), roots.dtype, roots.shape)

    return apply


exp = _unary("exp", math.exp, lambda value: math.inf)
exp2 = _unary("exp2", lambda value: 2.0**value, lambda value: math.inf)
log = _unary("log", math.log, _at_zero)
log2 = _unary("log2", math.log2, _at_zero)
sin, cos = _unary("sin", math.sin), _unary("cos", math.cos)
sqrt = _unary("sqrt", math.sqrt)
sqrt_rn = _unary("sqrt_rn", math.sqrt, dtypes=("fp32",))
erf = _unary("erf", math.erf)
floor = _unary("floor", lambda v: float(math.floor(v)), lambda value: value)
ceil = _unary("ceil", lambda v: math.copysign(math.ceil(v), v), lambda value: value)
rsqrt = _rounded_reciprocal(sqrt)
tanh = _unary("tanh", math.tanh)


def abs(x):
    x = block.to_tensor(x)
    return tensor(x.dtype.round(map(builtins.abs, x.data)), x.dtype, x.shape)


def sigmoid(x):
    return 1 / (1 + exp(negative(x)))


def fdiv(x, y, ieee_rounding=False):
    x, y = block.to_tensor(x), block.to_tensor(y)
    if not x.dtype.is_floating() or not y.dtype.is_floating():
        raise TypeError("both operands of fdiv must have floating scalar type")
    x, y = broadcast(x, y)  # and no promotion: float16 stays float16
    wide = max(x.dtype, y.dtype, key=lambda of: of.size)
    return tensor(x.dtype.round(wide.round(quotients(x.data, y.data))), x.dtype, x.shape)


def _only(names, *operands):
    for x in operands:
        if isinstance(x, tensor) and x.dtype.name not in names:
            raise ValueError(f"Expected dtype {list(names)} but got {x.dtype.name}")


def div_rn(x, y):
    _only(("fp32",), x, y)
    return truediv(*operands(block.to_tensor(x), block.to_tensor(y)))


def fma(x, y, z):
    """Multiply and add; rounded in between, too, as Triton's interpreter does."""
    return add(mul(block.to_tensor(x), block.to_tensor(y)), block.to_tensor(z))


def umulhi(x, y):
    _only(("int32", "int64", "uint32", "uint64"), x, y)
    a, b = operands(block.to_tensor(x), block.to_tensor(y))
    width = a.dtype.primitive_bitwidth
    mask = (1 << width) - 1
    high = [(m & mask) * (n & mask) >> width for m, n in zip(a.data, b.data, strict=True)]
    return tensor(a.dtype.round(high), a.dtype, a.shape)


def cdiv(x, div):
    return (x + (div - 1)) // div


def swizzle2d(i, j, size_i, size_j, size_g):
    ij = i * size_j + j
    in_group = size_g * size_j
    first = ij // in_group * size_g
    rows = minimum(size_i - first, size_g)
    ij = ij % in_group
    return first + ij % rows, ij // rows


# Matrix products


def dot(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=float32):
    """Multiply matrices. Each sum of products is exact to a float64 and rounded once, then the accumulator is added."""
    a, b, acc, out = input, other, unwrap(acc), unwrap(out_dtype)
    assert len(a.shape) == len(b.shape) >= 2, "input and other must have equal ranks >= 2"
    assert a.shape[:-2] == b.shape[:-2], "input and other must have equal batch shapes"
    assert a.shape[-1] == b.shape[-2], "input and other must have equal reduction dimensions"
    shape = (*a.shape[:-1], b.shape[-1])
    assert acc is None or tuple(acc.shape) == shape, "accumulator shape is incompatible"
    served = ("int8", "uint8", "fp16", "bf16", "fp32", "fp64")
    assert a.dtype.name in served, f"Unsupported lhs dtype {a.dtype}"
    assert b.dtype.name in served, f"Unsupported rhs dtype {b.dtype}"
    assert a.dtype == b.dtype, f"Both operands must be same dtype. Got {a.dtype} and {b.dtype}"
    if allow_tf32 is not None:
        input_precision = "tf32" if unwrap(allow_tf32) else "ieee"
    precision = (unwrap(input_precision) or "tf32").lower()
    assert precision in ("tf32", "tf32x3", "ieee"), (
        f"input_precision must be one of ('tf32', 'tf32x3', 'ieee'). Got {precision}"
    )
    if a.dtype.is_int():
        assert a.dtype == int8, "only int8 supported!"
        kind = int32
    elif out == bfloat16:
        raise ValueError(
            "out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16 and cast with `.to(tl.bfloat16)`"
        )
    else:
        kind = {"fp32": float32, "bf16": float32, "fp64": float64}.get(a.dtype.name, out)
    assert acc is None or a.dtype.is_int() or acc.dtype == out, f"acc is {acc.dtype}, and out_dtype is {out}"
    left, right = a.data, b.data
    if a.dtype == float32 and precision == "tf32":
        MEMORY.tf32 = MEMORY.tf32 or MEMORY.line()
        left, right = map(_shortened, (left, right))
    m, k, n = *a.shape[-2:], b.shape[-1]
    products: list = []
    for i in builtins.range(math.prod(a.shape[:-2])):
        rows = [left[j : j + k] for j in builtins.range(i * m * k, (i + 1) * m * k, k)]
        columns = [right[i * k * n + j : (i + 1) * k * n : n] for j in builtins.range(n)]
        products += [sum(map(operator.mul, row, column)) for row in rows for column in columns]
    result = tensor(kind.round(products), kind, shape)
    return result if acc is None else tensor(kind.round(map(operator.add, result.data, acc.data)), kind, shape)


def _shortened(data: list) -> list:
    bits = array("I", array("f", data).tobytes())
    return array("f", array("I", map(operator.and_, bits, repeat(BITS["tf32"]))).tobytes()).tolist()


for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
for _name in MEMBERS:
    setattr(tensor, _name, globals()[_name])
