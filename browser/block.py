# SPDX-License-Identifier: Apache-2.0
"""Compute with blocks: the values of kernels, ``tl.tensor``. Promotion, broadcasting and operators are Triton's.

A Python number takes part as Triton's ``scalar``: it adopts the other operand's dtype where that is of no lower kind.
A number that has been assigned to a name is a block without axes, whose dtype counts.
"""

import math
import operator
from enum import Enum
from itertools import repeat
from numbers import Number

from . import layout
from .dtypes import (
    bfloat16,
    block_type,
    convert,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    pointer_type,
    uint32,
    uint64,
)  # fmt: skip

MAX_NUMEL = 1 << 20


class constexpr:
    """A value that is known when the kernel is compiled. Arithmetic with another one, or a number, gives one."""

    def __init__(self, value):
        self.value = unwrap(value)
        self.type = self

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __hash__(self):
        return hash(self.value)

    def __index__(self):
        return operator.index(self.value)

    def __bool__(self):
        return bool(self.value)

    def __iter__(self):
        return iter(self.value)

    def __call__(self, *args, **options):
        return self.value(*args, **options)

    def __getitem__(self, key):
        return self.value[unwrap(key)]


def unwrap(value):
    return value.value if isinstance(value, constexpr) else value


def _constant(name):
    compute = getattr(operator, name)
    swapped = lambda self, other: constexpr(compute(unwrap(other), self.value))

    def straight(self, other):
        return NotImplemented if isinstance(other, tensor) else constexpr(compute(self.value, unwrap(other)))

    return straight, swapped


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
    _straight, _swapped = _constant(_name)
    setattr(constexpr, f"__{_name.strip('_')}__", _straight)
    setattr(constexpr, f"__r{_name.strip('_')}__", _swapped)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(constexpr, f"__{_name}__", _constant(_name)[0])
for _name in ("neg", "pos", "invert"):
    setattr(constexpr, f"__{_name}__", lambda self, name=_name: constexpr(getattr(operator, name)(self.value)))


class PropagateNan(Enum):
    NONE, ALL = 0, 0xFFFF


class Shape(tuple):
    """A block's shape: a tuple that can also be extended by a list, as in ``x.shape[:-1] + [2]``."""

    def __add__(self, other):
        return Shape((*self, *other))

    def __getitem__(self, key):
        if not self:
            raise IndexError("list index out of range: a scalar has no axes")
        got = super().__getitem__(unwrap(key))
        return Shape(got) if isinstance(key, slice) else got

    def __eq__(self, other):
        return tuple(self) == tuple(other)

    def __ne__(self, other):
        return not self == other

    __hash__ = tuple.__hash__

    def __str__(self):
        return str(list(self))


class tensor:
    """A block of numbers or pointers: ``data`` is flat, row by row. Without axes it is a scalar."""

    __slots__ = ("data", "dtype", "shape")
    __module__ = "triton.language.core"  # as messages call it

    def __init__(self, data: list, dtype: dtype, shape=()):
        self.data, self.dtype, self.shape = data, dtype, Shape(shape)

    @property
    def type(self):
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def numel(self):
        return constexpr(len(self.data))

    @property
    def T(self):
        if len(self.shape) < 2:
            raise ValueError("tl.trans invoked with a 0- or 1-dimensional tensor")
        order = [*range(len(self.shape))]
        order[-2:] = order[:-3:-1]
        shape = [self.shape[i] for i in order]
        return tensor(layout.permuted(self.data, self.shape, order), self.dtype, shape)

    def item_of(self):
        """Return the only number, as Python's."""
        (value,) = self.data
        return value

    def __bool__(self):
        if len(self.data) != 1:
            raise ValueError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.data[0])

    def __index__(self):
        if len(self.data) != 1 or not self.dtype.is_int():
            raise TypeError("int() argument must be a string, a bytes-like object or a real number, not 'tensor'")
        return int(self.data[0])

    def __float__(self):
        raise TypeError("float() argument must be a string or a real number, not 'tensor'")

    def __hash__(self):
        return id(self)

    def __iter__(self):
        raise ValueError("a block cannot be iterated over")

    def __repr__(self):
        return printed(self.data, self.shape, self.dtype)

    def __getitem__(self, key):
        keys = key if isinstance(key, (tuple, list)) else (key,)
        shape = list(self.shape)
        for axis, part in enumerate(keys):
            part = unwrap(part)
            if part is None:
                shape.insert(axis, 1)
            elif isinstance(part, tensor) or part != slice(None):
                index = part.type if isinstance(part, tensor) else part
                of = f" of {self.type}" if self.dtype.is_ptr() else ""
                raise ValueError(f"unsupported tensor index: {index}{of}")
        return tensor(self.data, self.dtype, shape)


def printed(data: list, shape, of: dtype) -> str:
    """Return numbers as NumPy prints them, near enough for a kernel's ``print``."""
    text = [str(v) if of.is_int() else format(v, ".8g").rstrip() for v in data]
    text = [t if of.is_int() or any(c in t for c in ".en") else t + "." for t in text]
    width = max(map(len, text), default=0)

    def nest(values, sizes):
        if len(sizes) < 2:
            return "[" + " ".join(v.rjust(width) for v in values) + "]"
        step = len(values) // sizes[0]
        return "[" + "\n ".join(nest(values[i : i + step], sizes[1:]) for i in range(0, len(values), step)) + "]"

    return nest(text, tuple(shape) or (1,))


def scalar_type(value) -> dtype:
    """Return the dtype that Triton gives a Python number."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for of, low, high in ((int32, -1 << 31, 1 << 31), (uint32, 0, 1 << 32), (int64, -1 << 63, 1 << 63)):
            if low <= value < high:
                return of
        if 0 <= value < 1 << 64:
            return uint64
        raise ValueError(f"Nonrepresentable integer {value}.")
    if isinstance(value, float):
        size = abs(value)
        fits = size in (0.0, math.inf) or value != value or 2**-126 <= size <= (2 - 2**-23) * 2**127
        return float32 if fits else float64
    raise TypeError(f"cannot convert {value} of type {type(value)} to tensor")


def constant(value, of: dtype) -> tensor:
    if of.is_floating():
        return tensor(of.round([float(value)]), of)
    if (isinstance(value, float) and value != 0) or (not of.is_bool() and not of.low <= value <= of.high):
        raise OverflowError(f"{value} is no {of}")
    return tensor([value != 0 if of.is_bool() else int(value)], of)


def to_tensor(value, check: bool = True):
    value = unwrap(value)
    if isinstance(value, (int, float)):
        return constant(value, scalar_type(value))
    if check and not isinstance(value, tensor):
        raise TypeError(f"cannot convert {value} of type {type(value)} to tensor")
    return value


def cast(x: tensor, to: dtype) -> tensor:
    to = to.scalar
    if x.dtype == to and not x.dtype.is_ptr():
        return x
    if x.dtype.is_ptr() or to.is_ptr():
        return _cast_pointer(x, to)
    return tensor(convert(x.data, x.dtype, to), to, x.shape)


def _cast_pointer(x: tensor, to: dtype) -> tensor:
    if to.is_ptr() and x.dtype.is_ptr() and to.element_ty == x.dtype.element_ty:
        return x
    if not x.dtype.is_ptr():
        if not x.dtype.is_int():
            raise TypeError(f"cannot cast {x.type} to {to}")
        return tensor([v & (1 << 64) - 1 for v in x.data], pointer_type(to.element_ty), x.shape)
    addresses, origin = x.data, x.dtype.origin
    if origin:
        size = x.dtype.element_ty.size
        start = origin.address(size)
        addresses = [start + i * size for i in addresses]
    if not to.is_ptr() and (not to.is_int() or to.primitive_bitwidth not in (1, 64)):
        raise TypeError(f"cannot cast {x.type} to {to}")
    data = [a != 0 for a in addresses] if to.is_bool() else addresses
    return tensor(data, pointer_type(to.element_ty) if to.is_ptr() else to, x.shape)


def bitcast(x: tensor, to: dtype) -> tensor:
    to = to.scalar
    if x.dtype.is_ptr() or to.is_ptr():
        return cast(x, to)
    if x.dtype.primitive_bitwidth != to.primitive_bitwidth:
        raise ValueError(f"Cannot bitcast data-type of size {x.dtype.primitive_bitwidth} to data-type of size "
                         f"{to.primitive_bitwidth}")  # fmt: skip
    return x if x.dtype == to else tensor(to.from_bytes(x.dtype.to_bytes(x.data)), to, x.shape)


# Promotion and broadcasting


def promoted_integer(a: dtype, b: dtype) -> dtype:
    """Return the wider one; of two as wide, the one without a sign, as C does."""
    if a.is_int_signed() == b.is_int_signed():
        return a if a.int_bitwidth > b.int_bitwidth else b
    unsigned, signed = (b, a) if a.is_int_signed() else (a, b)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def promoted(a: dtype, a_weak: bool, b: dtype, b_weak: bool, dividing: bool) -> dtype:
    if a_weak != b_weak:
        weak, other = (a, b) if a_weak else (b, a)
        if weak.rank <= other.rank:
            return float32 if dividing and other in (float16, bfloat16) else other
    for of in (float64, float32):
        if of in (a, b):
            return of
    if float16 in (a, b):
        return float32 if dividing else float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b and not dividing else float32
    if dividing and a.is_int_signed() != b.is_int_signed():
        raise TypeError(f"Cannot use /, #, or % with {a!r} and {b!r} because they have different signedness;this is "
                        "unlikely to result in a useful answer. Cast them to the same signedness.")  # fmt: skip
    return promoted_integer(a, b)


class IncompatibleTypeErrorImpl(Exception):
    def __init__(self, a: dtype, b: dtype):
        super().__init__(f"invalid operands of type {a!r} and {b!r}")


def _check_pointer(a: dtype, b: dtype, allowed: bool):
    if a.is_ptr() and (not allowed or (b.is_ptr() and a != b) or b.is_floating()):
        raise IncompatibleTypeErrorImpl(a, b)


def operands(a, b, pointer_a=False, pointer_b=False, dividing=False) -> tuple[tensor, tensor]:
    """Return both as blocks of one dtype and one shape, or raise what Triton raises."""
    a, b = unwrap(a), unwrap(b)
    weak_a, weak_b = isinstance(a, Number), isinstance(b, Number)
    left, right = to_tensor(a), to_tensor(b)
    _check_pointer(left.dtype, right.dtype, pointer_a)
    _check_pointer(right.dtype, left.dtype, pointer_b)
    if not left.dtype.is_ptr() and not right.dtype.is_ptr():
        of = promoted(left.dtype, weak_a, right.dtype, weak_b, dividing)
        for value, weak in ((a, weak_a), (b, weak_b)):
            if weak and value < 0 and of.is_int_unsigned():
                raise ValueError("Cannot perform a binary operation between an unsigned tensor and a negative scalar. "
                                 "Perform a explicit cast on one of them.")  # fmt: skip
            if weak and of.is_int() and not of.low <= value <= of.high:
                raise ValueError(f"Scalar {value} is out of range for type {of}")
        left = constant(a, of) if weak_a else cast(left, of)
        right = constant(b, of) if weak_b else cast(right, of)
    return broadcast(left, right)


def broadcast(a: tensor, b: tensor) -> tuple[tensor, tensor]:
    if a.shape == b.shape:
        return a, b
    if not a.shape or not b.shape:
        return (broadcast_to(a, b.shape), b) if not a.shape else (a, broadcast_to(b, a.shape))
    rank = max(len(a.shape), len(b.shape))
    left, right = ((1,) * (rank - len(x.shape)) + tuple(x.shape) for x in (a, b))
    shape = []
    for i, (m, n) in enumerate(zip(left, right, strict=True)):
        if m != n and 1 not in (m, n):
            error = ValueError(f"Cannot make_shape_compatible: incompatible dimensions at index {i}: {m} and {n}")
            error.add_note(f"shapes {list(a.shape)} and {list(b.shape)}")
            raise error
        shape.append(n if m == 1 else m)
    return tuple(tensor(layout.spread(x.data, of, tuple(shape)), x.dtype, shape) for x, of in ((a, left), (b, right)))


def broadcast_to(x: tensor, shape) -> tensor:
    shape = tuple(shape)
    if not x.shape:
        return tensor(x.data * math.prod(shape), x.dtype, shape)
    if len(x.shape) != len(shape):
        raise ValueError(f"Cannot broadcast, rank mismatch: {x.shape}, {list(shape)}")
    for i, (size, wanted) in enumerate(zip(x.shape, shape, strict=True)):
        if size not in (1, wanted):
            raise ValueError(f"Cannot broadcast, the expanded size of the tensor ({wanted}) must match the existing "
                             f"size ({size}) at non-singleton dimension {i}: {x.shape}, {list(shape)}")  # fmt: skip
    return tensor(layout.spread(x.data, tuple(x.shape), shape), x.dtype, shape)


# Operators


def add(x, y, sanitize_overflow=True):
    a, b = operands(x, y, True, True)
    if b.dtype.is_ptr():
        if a.dtype.is_ptr():
            raise TypeError("cannot add pointers together")
        a, b = b, a
    if a.dtype.is_ptr():
        if b.dtype.is_bool():
            b = cast(b, int32)
        step = 1 if a.dtype.origin else a.dtype.element_ty.size
        moved = map(operator.add, a.data, b.data if step == 1 else map(operator.mul, b.data, repeat(step)))
        return tensor(list(moved), a.dtype, a.shape)
    if a.dtype.is_bool():
        return tensor(list(map(operator.or_, a.data, b.data)), a.dtype, a.shape)  # as NumPy adds booleans
    return tensor(a.dtype.round(map(operator.add, a.data, b.data)), a.dtype, a.shape)


def sub(x, y, sanitize_overflow=True):
    a, b = operands(x, y, True, False)
    if a.dtype.is_ptr():
        return add(a, negative(b))
    if a.dtype.is_bool():
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported")
    return tensor(a.dtype.round(map(operator.sub, a.data, b.data)), a.dtype, a.shape)


def mul(x, y, sanitize_overflow=True):
    a, b = operands(x, y)
    return tensor(a.dtype.round(map(operator.mul, a.data, b.data)), a.dtype, a.shape)


def _quotient(a: float, b: float) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a: float, b: float) -> float:
    return math.fmod(a, b) if b and abs(a) != math.inf else (math.nan if a == a and b == b else a + b)


def quotients(a: list, b: list) -> list:
    try:
        return list(map(operator.truediv, a, b))
    except ZeroDivisionError:
        return list(map(_quotient, a, b))


def divided(a: int, b: int) -> int:
    """Divide as C does: towards zero. By zero, where a GPU's result is undefined, it is 0 here."""
    if b == 0:
        return 0
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def truediv(x, y):
    a, b = operands(x, y, dividing=True)
    if a.dtype.is_int():
        a, b = cast(a, float32), cast(b, float32)
    return tensor(a.dtype.round(quotients(a.data, b.data)), a.dtype, a.shape)


def floordiv(x, y):
    a, b = operands(x, y, dividing=True)
    if not a.dtype.is_int():
        raise TypeError(f"unexpected type {a.dtype}")
    return tensor(a.dtype.round(map(divided, a.data, b.data)), a.dtype, a.shape)


def mod(x, y):
    a, b = operands(x, y, dividing=True)
    if a.dtype.is_floating():
        return tensor(a.dtype.round(map(_remainder, a.data, b.data)), a.dtype, a.shape)
    left = (m - n * divided(m, n) if n else 0 for m, n in zip(a.data, b.data, strict=True))
    return tensor(a.dtype.round(left), a.dtype, a.shape)


def negative(x: tensor) -> tensor:
    if x.dtype.is_ptr():
        raise ValueError(f"wrong type argument to unary minus ({x.dtype!r})")
    return sub(constant(0, x.dtype), x)


def invert(x: tensor) -> tensor:
    if not x.dtype.is_int():
        raise ValueError(f"wrong type argument to unary invert ({x.dtype!r})")
    ones = -1 if x.dtype.is_int_signed() else x.dtype.high
    return tensor([not v for v in x.data] if x.dtype.is_bool() else [v ^ ones for v in x.data], x.dtype, x.shape)


def _whole_operands(x, y):
    a, b = operands(x, y)
    if not a.dtype.is_int():
        raise IncompatibleTypeErrorImpl(a.dtype, b.dtype)
    return a, b


def _bitwise(compute):
    def apply(x, y):
        a, b = _whole_operands(x, y)
        return tensor(list(map(compute, a.data, b.data)), a.dtype, a.shape)

    return apply


def shift_left(x, y):
    a, b = _whole_operands(x, y)
    width = a.dtype.int_bitwidth
    return tensor(a.dtype.round([v << n if 0 <= n < width else 0 for v, n in zip(a.data, b.data, strict=True)]),
                  a.dtype, a.shape)  # fmt: skip


def shift_right(x, y):
    a, b = _whole_operands(x, y)
    width = a.dtype.int_bitwidth
    return tensor(
        [v >> (n if 0 <= n < width else width) for v, n in zip(a.data, b.data, strict=True)], a.dtype, a.shape
    )


def _comparison(compute):
    def apply(x, y):
        a, b = operands(to_tensor(x), to_tensor(y))
        return tensor(list(map(compute, a.data, b.data)), int1, a.shape)

    return apply


def either(x, y, compute):
    """Combine truth values, for ``and`` and ``or`` of blocks."""
    a, b = (cast(to_tensor(v), int1) for v in (x, y))
    return _bitwise(compute)(a, b)


OPERATORS = {
    "add": add, "sub": sub, "mul": mul, "truediv": truediv, "floordiv": floordiv, "mod": mod,
    "and": _bitwise(operator.and_), "or": _bitwise(operator.or_), "xor": _bitwise(operator.xor),
    "lshift": shift_left, "rshift": shift_right,
}  # fmt: skip
for _name, _function in OPERATORS.items():
    setattr(tensor, f"__{_name}__", lambda self, other, of=_function: of(self, other))
    setattr(tensor, f"__r{_name}__", lambda self, other, of=_function: of(other, self))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(tensor, f"__{_name}__", _comparison(getattr(operator, _name)))
tensor.__neg__, tensor.__invert__, tensor.__pos__ = negative, invert, lambda self: self
tensor.logical_and = lambda self, other: either(self, other, operator.and_)
tensor.logical_or = lambda self, other: either(self, other, operator.or_)
