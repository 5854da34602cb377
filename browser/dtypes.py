# SPDX-License-Identifier: Apache-2.0
"""Round, wrap, convert and store numbers as each dtype does. Values of a block are lists of Python's numbers.

A float32 is a Python float that has been rounded: for +, -, *, / and the square root, computing in float64 and rounding
once gives the same bits as computing in float32 (or float16, or bfloat16), because float64 has more than twice as many
digits.
"""

import math
from array import array
from functools import cache
from itertools import repeat
from struct import pack, unpack

HALF_MAX = 65520.0  # from here on, rounding to float16 gives infinity


class dtype:
    """A dtype of Triton. ``code`` is how memory holds it, as ``array`` names it; 16-bit floats are held as bits."""

    def __init__(self, name: str, label: str, kind: str, bits: int, code: str, mantissa: int = 0):
        self.name, self.label, self.kind_name, self.code = name, label, kind, code
        self.primitive_bitwidth, self.size = bits, max(1, bits // 8)
        self.fp_mantissa_width = mantissa
        if kind != "float":
            self.int_bitwidth = bits
            self.low = -(1 << bits - 1) if kind == "int" and bits > 1 else 0
            self.high = (1 << bits - (kind == "int" and bits > 1)) - 1

    scalar = property(lambda self: self)
    itemsize = property(lambda self: self.size)
    rank = property(lambda self: {"bool": 0, "int": 1, "uint": 1, "float": 2}[self.kind_name])  # Triton's kinds

    def is_floating(self) -> bool:
        return self.kind_name == "float"

    def is_int(self) -> bool:
        return self.kind_name in ("bool", "int", "uint")

    def is_int_signed(self) -> bool:
        return self.kind_name == "int"

    def is_int_unsigned(self) -> bool:  # Triton counts int1 among these
        return self.kind_name in ("bool", "uint")

    def is_bool(self) -> bool:
        return self.kind_name == "bool"

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_fp8(self) -> bool:
        return False

    is_standard_floating = is_floating

    def get_int_max_value(self) -> int:
        return self.high

    def get_int_min_value(self) -> int:
        return self.low

    def with_element_ty(self, element: "dtype") -> "dtype":
        return element

    def __eq__(self, other) -> bool:
        return isinstance(other, dtype) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"triton.language.{self.label}"

    def round(self, data) -> list:
        """Return numbers of any size as this dtype holds them: rounded to the nearest, ties to even, or wrapped."""
        match self.name:
            case "fp32":
                return array("f", data).tolist()
            case "fp64":
                return list(map(float, data))
            case "fp16":
                return list(unpack(f"{len(data := list(data))}e", _half_bytes(data)))
            case "bf16":
                return self.from_bytes(self.to_bytes(data))
            case "int1":
                return [v & 1 == 1 for v in data]
        data = data if isinstance(data, list) else list(data)
        try:
            array(self.code, data)  # in C, so quicker than looking at each
            return data
        except OverflowError:
            low, span = self.low, (1 << self.primitive_bitwidth) - 1
            return [(v - low & span) + low for v in data]

    def to_bytes(self, data) -> bytes:
        if self.name == "fp16":
            return _half_bytes(list(data))
        if self.name == "bf16":
            bits = array("I", array("f", data).tobytes())
            return array("H", [_upper_half(b) for b in bits]).tobytes()
        return array(self.code, data).tobytes()

    def from_bytes(self, data: bytes) -> list:
        if self.name == "int1":
            return [b != 0 for b in data]
        return self.decode(array(self.code, data))

    def decode(self, stored) -> list:
        """Return the numbers of what a memoryview or an array of ``code`` holds."""
        if self.name in ("fp16", "bf16"):
            return list(map(_table(self.name).__getitem__, stored))
        return list(map(bool, stored)) if self.name == "int1" else list(stored)

    def encode(self, data: list) -> list:
        """Return what to write into such a memoryview."""
        return array("H", self.to_bytes(data)).tolist() if self.name in ("fp16", "bf16") else data

    def towards_zero(self, data: list) -> list:
        """Round, but never to a larger magnitude. A float's bits, less one, are the next smaller magnitude."""
        code = {2: "H", 4: "I", 8: "Q"}[self.size]
        bits, rounded = array(code, self.to_bytes(data)), self.round(data)
        lowered = [b - (abs(r) > abs(v)) for b, r, v in zip(bits, rounded, data, strict=True)]
        return self.from_bytes(array(code, lowered).tobytes())


def _half_bytes(data: list) -> bytes:
    try:
        return pack(f"{len(data)}e", *data)
    except OverflowError:
        return pack(f"{len(data)}e", *(v if abs(v) < HALF_MAX or v != v else math.copysign(math.inf, v) for v in data))


def _upper_half(bits: int) -> int:
    """Round the bits of a float32 to those of a bfloat16, to the nearest, ties to even; a NaN stays one."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


@cache
def _table(name: str) -> list[float]:
    """Return the value of each of the 65,536 patterns of 16 bits."""
    if name == "fp16":
        return list(unpack("65536e", array("H", range(65536)).tobytes()))
    return array("f", array("I", [bits << 16 for bits in range(65536)]).tobytes()).tolist()


class pointer_type(dtype):
    """A pointer to elements. With an ``origin``, its values are offsets in elements; else they are addresses."""

    def __init__(self, element_ty: dtype, address_space: int = 1, const: bool = False, origin=None):
        super().__init__(f"pointer<{element_ty}>", f"pointer_type({element_ty!r})", "pointer", 64, "q")
        self.element_ty, self.address_space, self.const, self.origin = element_ty, address_space, const, origin

    scalar = property(lambda self: self)

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def __repr__(self):
        return str(self)

    def __str__(self):
        return f"pointer<{self.element_ty}>"


class block_type(dtype):
    def __init__(self, element_ty: dtype, shape):
        self.element_ty, self.shape = element_ty, tuple(getattr(n, "value", n) for n in shape)
        self.name = f"<{list(self.shape)}, {element_ty}>"
        self.numel = math.prod(self.shape)

    scalar = property(lambda self: self.element_ty)

    def is_block(self) -> bool:
        return True

    def is_int(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return False

    def is_bool(self) -> bool:
        return False

    def get_block_shapes(self):
        return self.shape

    def with_element_ty(self, element: dtype):
        return block_type(element, self.shape)

    def __eq__(self, other):
        return isinstance(other, block_type) and (self.element_ty, self.shape) == (other.element_ty, other.shape)

    __hash__ = None

    def __repr__(self):
        return str(self)


int1 = dtype("int1", "int1", "bool", 1, "B")
int8, int16, int32, int64 = (
    dtype(f"int{n}", f"int{n}", "int", n, c) for n, c in zip((8, 16, 32, 64), "bhiq", strict=True)
)
uint8, uint16, uint32, uint64 = (
    dtype(f"uint{n}", f"uint{n}", "uint", n, c) for n, c in zip((8, 16, 32, 64), "BHIQ", strict=True)
)
float16 = dtype("fp16", "float16", "float", 16, "H", 10)
bfloat16 = dtype("bf16", "bfloat16", "float", 16, "H", 7)
float32 = dtype("fp32", "float32", "float", 32, "f", 23)
float64 = dtype("fp64", "float64", "float", 64, "d", 52)
void = dtype("void", "void", "void", 0, "B")
INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
ALL = (int1, *INTEGERS, *FLOATS)
for _of in ALL:
    setattr(dtype, f"is_{_of.name}", lambda self, name=_of.name: self.name == name)


def convert(data: list, source: dtype, target: dtype) -> list:
    """Return values of one dtype as values of another."""
    if source == target:
        return data
    if target.name == "int1":
        return [v != 0 for v in data]
    if source.is_floating() and target.is_int():
        return target.round(map(_whole, data, repeat(target)))
    if source.is_int() and target.is_floating():
        if target.size < 8 and source.primitive_bitwidth == 64:
            data = map(_sticky, data)
        return target.round(map(float, data))
    if source.name == "int1":
        return list(map(int, data))
    if source.name == "fp64" and target.name == "bf16":
        data = float32.round(data)  # a GPU has no shorter way
    return target.round(data)


def _whole(value: float, target: dtype) -> int:
    """Cut off a float's fraction. What does not fit is undefined on a GPU; here it is as on the interpreter's host."""
    if target.name == "uint64" and value >= 1 << 64:
        return 0
    low = -(1 << 63) if target.primitive_bitwidth == 64 or target.name == "uint32" else -(1 << 31)
    return int(value) if low <= value < -low or (target.name == "uint64" and value >= 0) else low


def _sticky(value: int) -> int:
    """Shorten an integer to what a float64 holds, so that a second rounding, to a shorter float, is right."""
    size = abs(value)
    if size < 1 << 53:
        return value
    kept = (size >> 11 | (size & 2047 != 0)) << 11
    return kept if value > 0 else -kept
