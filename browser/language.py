# SPDX-License-Identifier: Apache-2.0
"""The functions of ``triton.language`` but those that reduce, scan, sort or draw random numbers."""

import builtins
import math
import operator
from array import array
from itertools import repeat
from struct import pack, unpack

from . import layout, memory
from .block import (
    MAX_NUMEL,
    OPERATORS,
    PropagateNan,
    add,
    bitcast,
    broadcast,
    constant,
    constexpr,
    mul,
    negative,
    operands,
    quotients,
    sub,
    tensor,
    truediv,
    unwrap,
)  # fmt: skip
from .block import (
    broadcast_to as _broadcast_to,
)
from .block import (
    cast as _cast,
)
from .block import (
    to_tensor as _to_tensor,
)
from .dtypes import bfloat16, float16, float32, float64, int1, int8, int32, int64

__all__ = [
    "abs",
    "add",
    "advance",
    "arange",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "constexpr",
    "cos",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "fdiv",
    "floor",
    "fma",
    "full",
    "gather",
    "interleave",
    "item",
    "join",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "make_block_ptr",
    "make_tensor_descriptor",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "permute",
    "program_id",
    "range",
    "ravel",
    "reshape",
    "rsqrt",
    "sigmoid",
    "sin",
    "split",
    "sqrt",
    "sqrt_rn",
    "squeeze",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "sub",
    "swizzle2d",
    "tensor_descriptor",
    "to_tensor",
    "trans",
    "umulhi",
    "unsqueeze",
    "view",
    "where",
    "zeros",
    "zeros_like",
]  # fmt: skip
MEMBERS = [
    "abs", "advance", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg",
    "atomic_xor", "broadcast_to", "cast", "cdiv", "ceil", "cos", "erf", "exp", "exp2", "expand_dims", "floor", "gather",
    "item", "log", "log2", "permute", "ravel", "reshape", "rsqrt", "sigmoid", "sin", "split", "sqrt", "sqrt_rn",
    "store", "trans", "view",
]  # fmt: skip
BITS = {"tf32": 0xFFFFE000}  # of a float32, those that a GPU's matrix units keep of it


def to_tensor(x):
    return _to_tensor(x)


def sizes(shape) -> tuple[int, ...]:
    """Return a shape's numbers, or raise what Triton raises where it is no shape of a block."""
    shape = tuple(unwrap(n) for n in unwrap(shape))
    for i, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {i} must have type `constexpr[int]`, got `constexpr[{type(size)}]")
        if size & (size - 1) or size < 1:
            raise ValueError(f"Shape element {i} must be a power of 2")
    if (count := math.prod(shape)) > MAX_NUMEL:
        raise ValueError(f"numel ({count}) exceeds triton maximum tensor numel ({MAX_NUMEL})")
    return shape


def _listed(values) -> list:
    """Accept dimensions one by one or as one sequence."""
    values = [unwrap(v) for v in values]
    return [unwrap(v) for v in (values[0] if len(values) == 1 and not isinstance(values[0], int) else values)]


def axis_of(axis, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"invalid axis {axis}. Expected {-rank} <= axis < {rank}")
    return axis % rank


# Programs and loops


def program_id(axis):
    if unwrap(axis) not in (0, 1, 2):
        raise ValueError(f"program_id axis must be 0, 1, or 2 but got {axis}")
    return tensor([memory.MEMORY.program[unwrap(axis)]], int32)


def num_programs(axis):
    if unwrap(axis) not in (0, 1, 2):
        raise ValueError(f"num_programs axis must be 0, 1, or 2 but got {axis}")
    return tensor([memory.MEMORY.launch.grid[unwrap(axis)]], int32)


def range(arg1, arg2=None, step=None, **hints):
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    return builtins.range(*(operator.index(unwrap(v)) for v in (start, end, 1 if step is None else step)))


static_range = range


def static_print(*values, sep=" ", end="\n", **options):
    print(*values, sep=sep, end=end)


def static_assert(cond, msg=""):
    assert unwrap(cond), unwrap(msg)


def device_assert(cond, msg="", mask=None):
    """Do nothing, as Triton does outside of its debug mode."""


def assume(cond):
    assert all(_to_tensor(cond).data), "Assume failed"


def debug_barrier():
    """Do nothing: one lane after the other finishes each line here."""


def device_print(prefix, *args, hex=False):
    prefix = unwrap(prefix)
    if args:
        prefix = prefix.rstrip().removesuffix(":") + ": "
    if len(prefix) > 2 and not prefix.startswith(" "):
        prefix = " " + prefix
    x, y, z = memory.MEMORY.program
    for value in map(_to_tensor, args):
        shown = [f"0x{v & (1 << value.dtype.primitive_bitwidth) - 1:02x}" for v in value.data] if hex else value
        print(f"({x}, {y}, {z}) {prefix} {shown}")
    if not args:
        print(f"({x}, {y}, {z}) {prefix}")


def _hint(x, values):
    values = [values] if isinstance(unwrap(values), int) else list(values)
    if isinstance(x, tensor) and len(values) != max(1, len(x.shape)):
        raise ValueError("Shape of input to multiple_of does not match the length of values")
    return x


multiple_of = max_contiguous = max_constancy = _hint


# Making blocks, and changing their shape


def arange(start, end):
    start, end = unwrap(start), unwrap(end)
    if type(start) is not int or type(end) is not int:
        raise ValueError("arange's arguments must be of type tl.constexpr")
    if start >> 32 or end >> 32:
        raise ValueError("arange must fit in int32")
    if end <= start:
        raise ValueError("arange's end argument must be greater than the start argument")
    if (end - start) & (end - start - 1):
        raise ValueError("arange's range must be a power of 2")
    return tensor(list(builtins.range(start, end)), int32, sizes((end - start,)))


def full(shape, value, dtype):
    shape, value, dtype = sizes(shape), unwrap(value), unwrap(dtype)
    if isinstance(value, tensor):
        assert len(value.data) == 1, "only accepts size-1 tensor"
        return tensor(_cast(value, dtype).data * math.prod(shape), dtype.scalar, shape)
    if value is None or not hasattr(dtype, "is_floating"):
        raise ValueError("dtype must be specified when value is not a tensor")
    return _broadcast_to(constant(value, dtype), shape)


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def zeros_like(input):
    return zeros(input.shape, input.dtype)


def cast(input, dtype, fp_downcast_rounding=None, bitcast=False):
    x, to = _to_tensor(input), unwrap(dtype)
    if not hasattr(to, "scalar"):
        raise TypeError(f"{to} is no dtype of triton.language")
    if unwrap(bitcast):
        return _bitcast(x, to)
    mode, narrower = unwrap(fp_downcast_rounding), x.dtype.is_floating() and to.is_floating()
    if mode not in (None, "rtne", "rtz"):
        raise ValueError(f"Invalid rounding mode: {mode}. Supported rounding modes are 'rtne' and 'rtz'.")
    if mode and not (narrower and to.size < x.dtype.size):
        raise ValueError("fp_downcast_rounding should be set only for truncating fp conversions. "
                         f"Source scalar type is {x.dtype} and destination type is {to}")  # fmt: skip
    return tensor(to.towards_zero(x.data), to, x.shape) if mode == "rtz" else _cast(x, to)


_bitcast = bitcast


def reshape(input, *shape, can_reorder=False):
    shape = sizes(_listed(shape))
    if shape and not input.shape:
        raise AttributeError("'dtype' object has no attribute 'numel'")  # as Triton says that a scalar has no shape
    if math.prod(shape) != len(input.data):
        raise ValueError("reshape() cannot change total number of elements in tensor")
    return tensor(input.data, input.dtype, shape)


def view(input, *shape):
    return reshape(input, *shape)


def item(input):
    return reshape(input, ())


def ravel(x, can_reorder=False):
    return reshape(x, (len(x.data),))


def expand_dims(input, axis):
    x = _to_tensor(input)
    axes = [unwrap(axis)] if isinstance(unwrap(axis), int) else [unwrap(a) for a in unwrap(axis)]
    rank = len(x.shape) + len(axes)
    axes = sorted(axis_of(a, rank) for a in axes)
    if len({*axes}) != len(axes):
        raise ValueError(f"expand_dims received duplicate axes, normalized axes = {axes}")
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, 1)
    return tensor(x.data, x.dtype, shape)


def squeeze(x, dim):
    assert x.shape[dim] == 1
    return reshape(x, x.shape[:dim] + x.shape[unwrap(dim) + 1 :])


def unsqueeze(x, dim):
    return reshape(x, (*x.shape[:dim], 1, *x.shape[unwrap(dim) :]))


def broadcast_to(input, *shape):
    return _broadcast_to(input, sizes(_listed(shape)))


def permute(input, *dims):
    dims = _listed(dims)
    if len(dims) != len(input.shape):
        raise ValueError("permute dims must have the same length as input shape, got "
                         f"{len(input.shape)} and {len(dims)}")  # fmt: skip
    if sorted(dims) != list(builtins.range(len(dims))):
        raise ValueError(f"permute dims must be a permutation of 0, 1, ..., n-1, but were {dims}")
    data = layout.permuted(input.data, input.shape, dims)
    return tensor(data, input.dtype, [input.shape[i] for i in dims])


def trans(input, *dims):
    return permute(input, *dims) if _listed(dims) else input.T


def join(a, b):
    if a.dtype != b.dtype:
        raise TypeError(f"blocks that are joined have one dtype, not {a.dtype} and {b.dtype}")
    a, b = broadcast(a, b)
    return tensor([v for pair in zip(a.data, b.data, strict=True) for v in pair], a.dtype, (*a.shape, 2))


def split(a):
    assert len(a.shape) > 0
    assert a.shape[-1] == 2
    return tuple(tensor(a.data[i::2], a.dtype, a.shape[:-1]) for i in (0, 1))


def interleave(a, b):
    c = join(a, b)
    return c if len(c.shape) == 1 else tensor(c.data, c.dtype, (*c.shape[:-2], 2 * c.shape[-2]))


def cat(input, other, can_reorder=False, dim=0):
    if unwrap(can_reorder):
        assert len(input.shape) == 1 == len(other.shape) and input.dtype == other.dtype
        return tensor(input.data + other.data, input.dtype, (input.shape[0] + other.shape[0],))
    rank = len(input.shape)
    assert rank == len(other.shape), f"tensors must have the same rank, got {rank} and {len(other.shape)}"
    dim = axis_of(unwrap(dim), rank)
    c, order = join(input, other), list(builtins.range(rank))
    order.insert(dim, rank)
    shape = list(input.shape)
    shape[dim] += other.shape[dim]
    return reshape(permute(c, order), shape)


def gather(src, index, axis):
    assert index.dtype.is_int(), "index must be an integer tensor"
    rank = len(src.shape)
    assert len(index.shape) == rank, "source and index tensors must have the same rank"
    axis = axis_of(unwrap(axis), rank)
    assert all(m == n for d, (m, n) in enumerate(zip(src.shape, index.shape, strict=True)) if d != axis), (
        f"index dim {axis} must match the corresponding source dim"
    )
    whole, wanted = (layout.lines(x.data, tuple(x.shape), axis) for x in (src, index))
    parts = [[values[i] for i in at] for values, at in zip(whole, wanted, strict=True)]
    return tensor(layout.from_lines(parts, tuple(index.shape), axis), src.dtype, index.shape)


# Elementwise


def where(condition, x, y):
    condition = _cast(_to_tensor(condition), int1)
    x, y = operands(x, y, True, True)
    if x.dtype.is_ptr() and x.dtype.origin != y.dtype.origin:
        x, y = (_cast(_cast(p, int64), p.dtype) for p in (x, y))  # as addresses
    if condition.shape:
        condition, x = broadcast(condition, x)
        x, y = broadcast(x, y)
    else:
        condition, _ = broadcast(condition, x)
    data = [a if c else b for c, a, b in zip(condition.data, x.data, y.data, strict=True)]
    return tensor(data, x.dtype, x.shape)


def _widened(x):
    x = _to_tensor(x)
    return _cast(x, float32) if x.dtype == bfloat16 else x


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


def _attempt(compute, at):
    """Return ``compute``, and what it is where Python raises an error: ``at`` of the number."""

    def safe(value):
        try:
            return compute(value)
        except (ValueError, OverflowError, ZeroDivisionError):
            return at(value)

    return safe


def _unary(name, compute, at=lambda value: math.nan, dtypes=("fp32", "fp64")):
    safe = _attempt(compute, at)

    def apply(x):
        _only(dtypes, x)
        x = _to_tensor(x)
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
        roots = root(_to_tensor(x))
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
    x = _to_tensor(x)
    return tensor(x.dtype.round(map(builtins.abs, x.data)), x.dtype, x.shape)


def sigmoid(x):
    return 1 / (1 + exp(negative(x)))


def fdiv(x, y, ieee_rounding=False):
    x, y = _to_tensor(x), _to_tensor(y)
    if not x.dtype.is_floating() or not y.dtype.is_floating():
        raise TypeError("both operands of fdiv must have floating scalar type")
    return truediv(x, y)


def _only(names, *operands):
    for x in operands:
        if isinstance(x, tensor) and x.dtype.name not in names:
            raise ValueError(f"Expected dtype {list(names)} but got {x.dtype.name}")


def div_rn(x, y):
    _only(("fp32",), x, y)
    return truediv(*operands(_to_tensor(x), _to_tensor(y)))


def fma(x, y, z):
    """Multiply and add; rounded in between, too, as Triton's interpreter does."""
    return add(mul(_to_tensor(x), _to_tensor(y)), _to_tensor(z))


def umulhi(x, y):
    _only(("int32", "int64", "uint32", "uint64"), x, y)
    a, b = operands(_to_tensor(x), _to_tensor(y))
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


# Memory


def _mask(pointer, mask):
    if mask is None:
        return pointer, None
    mask = _to_tensor(mask)
    if not pointer.shape and mask.shape:
        raise ValueError("Mask argument cannot be block type if pointer argument is not a block")
    return broadcast(pointer, mask) if pointer.shape else (pointer, mask)


def load(pointer, mask=None, other=None, boundary_check=(), padding_option="", cache_modifier="", eviction_policy="",
         volatile=False):  # fmt: skip
    mask, other = unwrap(mask), unwrap(other)
    if isinstance(pointer, BlockPointer):
        if mask is not None or other is not None:
            raise ValueError("`mask` and `other` arguments cannot be specified for loading block pointers")
        return pointer.load(boundary_check, unwrap(padding_option))
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        raise ValueError(f"Unsupported ptr type {getattr(pointer, 'type', type(pointer))!r} in `tl.load`")
    if mask is None and other is not None:
        raise ValueError("`other` cannot be provided without `mask`")
    if padding_option or boundary_check:
        raise ValueError("`padding_option` or `boundary_check` argument is not supported for loading a tensor of"
                         "pointers or loading a scalar. Because the compiler does not know the boundary; please "
                         "use block pointers (defined by `make_block_ptr`) instead")  # fmt: skip
    pointer, mask = _mask(pointer, mask)
    if other is not None:
        other = _to_tensor(other)
        if other.shape and not pointer.shape:
            raise ValueError("Other argument cannot be block type if pointer argument is not a block")
        pointer, other = broadcast(pointer, other) if pointer.shape else (pointer, other)
        other = _cast(other, pointer.dtype.element_ty).data
    got = memory.load(pointer, None if mask is None else _truth(mask), other)
    return tensor(got, pointer.dtype.element_ty, pointer.shape)


def _truth(mask: tensor) -> list:
    return mask.data if mask.dtype.is_bool() else _cast(mask, int1).data


def store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy=""):
    value, mask = _to_tensor(value), unwrap(mask)
    if isinstance(pointer, BlockPointer):
        return pointer.store(value, boundary_check)
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        raise ValueError(f"Unsupported ptr type {getattr(pointer, 'type', type(pointer))!r} in `tl.store`")
    if boundary_check:
        raise ValueError("`boundary_check` argument is not supported for storing a tensor of pointers or storing a "
                         "scalar. Because the compiler does not know the boundary; please use block pointers "
                         "(defined by `make_block_ptr`) instead")  # fmt: skip
    mask = None if mask is None else _to_tensor(mask)
    if not pointer.shape:
        if value.shape:
            raise ValueError("Value argument cannot be block type if pointer argument is not a block")
        if mask is not None and mask.shape:
            raise ValueError("Mask argument cannot be block type if pointer argument is not a block")
    else:
        shape = pointer.shape
        pointer, value = broadcast(pointer, value)
        if mask is not None:
            pointer, mask = broadcast(pointer, mask)
            pointer, value = broadcast(pointer, value)
        if pointer.shape != shape:
            raise ValueError(f"Expected pointer argument to have shape {pointer.shape} but got {shape}")
    if mask is not None and not mask.dtype.is_bool():
        raise ValueError("Mask must have boolean scalar type")
    memory.store(pointer, _cast(value, pointer.dtype.element_ty).data, None if mask is None else mask.data)


def _atomic(name, change, floats=()):
    def apply(pointer, val, mask=None, sem=None, scope=None):
        val, mask = _to_tensor(val), unwrap(mask)
        if not pointer.dtype.is_ptr():
            raise ValueError(f"Pointer argument of store instruction is {pointer.type!r}")
        of = pointer.dtype.element_ty
        if of.primitive_bitwidth < 32 and (name != "add" or of not in (float16, bfloat16)):
            raise ValueError(f"atomic_{name} does not support {of}")
        if of.is_floating() and of.name not in floats:
            raise TypeError(f"atomic_{name} not supported for dtype {of}")
        mask = None if mask is None else _to_tensor(mask)
        if pointer.shape:
            val = _broadcast_to(val, pointer.shape)
            mask = None if mask is None else _broadcast_to(mask, pointer.shape)
        olds = memory.update(pointer, _cast(val, of).data, None if mask is None else _truth(mask), change)
        return tensor(olds, of, pointer.shape)

    return apply


atomic_add = _atomic("add", operator.add, ("fp16", "bf16", "fp32", "fp64"))


def _by_bits(better):
    """Choose of two floats as Triton does, by their bits: as integers, unsigned and the other way round if negative."""

    def choose(old, new):
        if not isinstance(new, float):
            return old if better(old, new) else new
        a, b = unpack("<2q", pack("<2d", old, new))
        mask = (1 << 64) - 1
        kept = better(a, b) if b >= 0 else better(b & mask, a & mask)
        return old if kept else new

    return choose


atomic_max, atomic_min = (
    _atomic(name, _by_bits(better), ("fp32", "fp64")) for name, better in (("max", operator.ge), ("min", operator.le))
)
atomic_and, atomic_or = _atomic("and", operator.and_), _atomic("or", operator.or_)
atomic_xor = _atomic("xor", operator.xor)
atomic_xchg = _atomic("xchg", lambda old, new: new, ("fp32", "fp64"))


def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    of = pointer.dtype.element_ty
    if of.primitive_bitwidth not in (16, 32, 64):
        raise ValueError("atomic_cas only supports elements with width {16, 32, 64}")
    cmp, val = (_cast(_to_tensor(v), of) for v in (cmp, val))
    if pointer.shape:
        cmp, val = (_broadcast_to(v, pointer.shape) for v in (cmp, val))
    pairs = list(zip(cmp.data, val.data, strict=True))
    olds = memory.update(pointer, pairs, None, lambda old, pair: pair[1] if old == pair[0] else old)
    return tensor(olds, of, pointer.shape)


# Block pointers and tensor descriptors


def _scalar(value) -> int:
    if isinstance(value, tensor):
        assert len(value.data) == 1, "Expected a scalar in shape/strides/offsets"
        assert value.dtype.is_int(), "Expected an integer scalar type in shape/strides/offsets"
        return value.data[0]
    assert isinstance(unwrap(value), int), f"Unsupported element type in shape/strides/offsets: {type(value)}"
    return unwrap(value)


class _Tiles:
    """What block pointers and descriptors share: a base, a shape with strides, and the shape of a tile."""

    def __init__(self, base, shape, strides, block_shape):
        self.base, self.sizes, self.steps = base, [_scalar(n) for n in shape], [_scalar(n) for n in strides]
        self.block_shape = [unwrap(n) for n in block_shape]
        self.dtype = base.dtype.element_ty

    def pointers(self, offsets, checked):
        """Return pointers to the tile at those offsets, and a mask of what lies inside along the checked axes."""
        ptrs, mask = self.base, None
        for axis, (offset, size, step, n) in enumerate(
            zip(offsets, self.sizes, self.steps, self.block_shape, strict=True)
        ):
            places = [offset + i for i in builtins.range(n)]
            shape = [n if i == axis else 1 for i in builtins.range(len(self.block_shape))]
            ptrs = add(ptrs, tensor([p * step for p in places], int64, shape))
            if axis in checked:
                inside = tensor([0 <= p < size for p in places], int1, shape)
                mask = inside if mask is None else OPERATORS["and"](mask, inside)
        return ptrs, mask if mask is None else _broadcast_to(mask, self.block_shape)

    def read(self, offsets, checked, padding):
        ptrs, mask = self.pointers(offsets, checked)
        if mask is None:
            return load(ptrs)
        return load(ptrs, mask, math.nan if padding == "nan" else 0 if padding else None)


class BlockPointer(_Tiles):
    def __init__(self, base, shape, strides, offsets, block_shape, order):
        super().__init__(base, shape, strides, block_shape)
        self.offsets, self.order = [_scalar(n) for n in offsets], order

    def load(self, boundary_check, padding):
        return self.read(self.offsets, [unwrap(a) for a in boundary_check], padding)

    def store(self, value, boundary_check=()):
        ptrs, mask = self.pointers(self.offsets, [unwrap(a) for a in boundary_check])
        store(ptrs, value if value.shape else _broadcast_to(value, self.block_shape), mask)


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    return BlockPointer(base, shape, strides, offsets, block_shape, order)


def advance(base, offsets):
    moved = [a + _scalar(b) for a, b in zip(base.offsets, offsets, strict=True)]
    return BlockPointer(base.base, base.sizes, base.steps, moved, base.block_shape, base.order)


class tensor_descriptor(_Tiles):
    """A tensor's shape and strides as a kernel knows them; offsets outside of it load zeros and store nothing."""

    def __init__(self, base, shape, strides, block_shape, padding="zero"):
        super().__init__(base, shape, strides, block_shape)
        self.padding = padding
        rank, size = len(self.sizes), self.dtype.size
        if not 1 <= rank <= 5:
            raise ValueError(f"Expected 1 <= ndim <= 5 but got {rank} dimensions")
        if len(self.steps) != rank:
            raise ValueError(f"Expected {rank} strides but got {len(self.steps)}")
        if len(self.block_shape) != rank:
            raise ValueError(f"Expected block_shape to have {rank} dimensions but got {len(self.steps)}")
        if (bytes_ := self.block_shape[-1] * size) < 16:
            raise ValueError("Descriptor block shape must have at least 16 bytes in the last dimension, but got "
                             f"{self.block_shape[-1]} * {size} = {bytes_} bytes")  # fmt: skip
        if self.steps[-1] != 1:
            raise ValueError(f"Tensor descriptor last dim must be 1 but got {self.steps[-1]}")
        assert _cast(base, int64).data[0] % 16 == 0, "base must be 16-byte aligned"
        assert all(step * size % 16 == 0 for step in self.steps[:-1]), "stride must be 16-byte aligned"
        self.shape, self.strides = ([tensor([n], int64) for n in of] for of in (self.sizes, self.steps))

    def _at(self, offsets):
        offsets = [_scalar(n) for n in offsets]
        rank = len(self.block_shape)
        assert len(offsets) == rank, f"expected {rank} offsets, but got {len(offsets)}"
        assert offsets[-1] * self.dtype.size % 16 == 0, "block offset start must be 16-byte aligned"
        return offsets, builtins.range(rank)

    def load(self, offsets):
        return self.read(*self._at(offsets), self.padding)

    def store(self, offsets, value):
        assert tuple(value.shape) == tuple(self.block_shape)
        ptrs, mask = self.pointers(*self._at(offsets))
        store(ptrs, value, mask)


def make_tensor_descriptor(base, shape, strides, block_shape, padding_option="zero"):
    return tensor_descriptor(base, shape, strides, block_shape, unwrap(padding_option))


def load_tensor_descriptor(desc, offsets):
    return desc.load(offsets)


def store_tensor_descriptor(desc, offsets, value):
    return desc.store(offsets, value)


for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
for _name in MEMBERS:
    setattr(tensor, _name, globals()[_name])
tensor.to = cast
