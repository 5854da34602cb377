# SPDX-License-Identifier: Apache-2.0
"""Functions of ``triton.language`` that load, store and change memory: by pointers, block pointers, descriptors."""

import builtins
import math
import operator
from struct import pack, unpack

from . import block, memory
from .block import OPERATORS, add, broadcast, tensor, unwrap
from .dtypes import bfloat16, float16, int1, int64

__all__ = [
    "advance", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg",
    "atomic_xor", "load", "load_tensor_descriptor", "make_block_ptr", "make_tensor_descriptor", "store",
    "store_tensor_descriptor", "tensor_descriptor",
]  # fmt: skip
MEMBERS = [
    "advance", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg",
    "atomic_xor", "store",
]  # fmt: skip


def _mask(pointer, mask):
    if mask is None:
        return pointer, None
    mask = block.to_tensor(mask)
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
        raise ValueError(f"Unsupported ptr type {_type(pointer)} in `tl.load`")
    if mask is None and other is not None:
        raise ValueError("`other` cannot be provided without `mask`")
    if padding_option or boundary_check:
        raise ValueError("`padding_option` or `boundary_check` argument is not supported for loading a tensor of"
                         "pointers or loading a scalar. Because the compiler does not know the boundary; please "
                         "use block pointers (defined by `make_block_ptr`) instead")  # fmt: skip
    pointer, mask = _mask(pointer, mask)
    if other is not None:
        other = block.to_tensor(other)
        if other.shape and not pointer.shape:
            raise ValueError("Other argument cannot be block type if pointer argument is not a block")
        pointer, other = broadcast(pointer, other) if pointer.shape else (pointer, other)
        other = block.cast(other, pointer.dtype.element_ty).data
    got = memory.load(pointer, None if mask is None else _truth(mask), other)
    return tensor(got, pointer.dtype.element_ty, pointer.shape)


def _type(pointer) -> str:
    return repr(pointer.type) if hasattr(pointer, "type") else type(pointer).__name__


def _truth(mask: tensor) -> list:
    return mask.data if mask.dtype.is_bool() else block.cast(mask, int1).data


def store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy=""):
    value, mask = block.to_tensor(value), unwrap(mask)
    if isinstance(pointer, BlockPointer):
        return pointer.store(value, boundary_check)
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        raise ValueError(f"Unsupported ptr type {_type(pointer)} in `tl.store`")
    if boundary_check:
        raise ValueError("`boundary_check` argument is not supported for storing a tensor of pointers or storing a "
                         "scalar. Because the compiler does not know the boundary; please use block pointers "
                         "(defined by `make_block_ptr`) instead")  # fmt: skip
    mask = None if mask is None else block.to_tensor(mask)
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
    memory.store(pointer, block.cast(value, pointer.dtype.element_ty).data, None if mask is None else mask.data)


def _atomic(name, change, floats=()):
    def apply(pointer, val, mask=None, sem=None, scope=None):
        val, mask = block.to_tensor(val), unwrap(mask)
        if not pointer.dtype.is_ptr():
            raise ValueError(f"Pointer argument of store instruction is {pointer.type!r}")
        of = pointer.dtype.element_ty
        if of.primitive_bitwidth < 32 and (name != "add" or of not in (float16, bfloat16)):
            raise ValueError(f"atomic_{name} does not support {of}")
        if of.is_floating() and of.name not in floats:
            raise TypeError(f"atomic_{name} not supported for dtype {of}")
        mask = None if mask is None else block.to_tensor(mask)
        if pointer.shape:
            val = block.broadcast_to(val, pointer.shape)
            mask = None if mask is None else block.broadcast_to(mask, pointer.shape)
        olds = memory.update(pointer, block.cast(val, of).data, None if mask is None else _truth(mask), change)
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
    cmp, val = (block.cast(block.to_tensor(v), of) for v in (cmp, val))
    if pointer.shape:
        cmp, val = (block.broadcast_to(v, pointer.shape) for v in (cmp, val))
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
        return ptrs, mask if mask is None else block.broadcast_to(mask, self.block_shape)

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
        store(ptrs, value if value.shape else block.broadcast_to(value, self.block_shape), mask)


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
        assert block.cast(base, int64).data[0] % 16 == 0, "base must be 16-byte aligned"
        assert all(step * size % 16 == 0 for step in self.steps[:-1]), "stride must be 16-byte aligned"
        self.shape, self.strides = ([tensor([n], int64) for n in of] for of in (self.sizes, self.steps))

    def _at(self, offsets):
        rank = len(self.block_shape)
        assert len(offsets) == rank, f"expected {rank} offsets, but got {len(offsets)}"
        offsets = [_scalar(n) for n in offsets]
        assert offsets[-1] * self.dtype.size % 16 == 0, "block offset start must be 16-byte aligned"
        return offsets, builtins.range(rank)

    def load(self, offsets):
        return self.read(*self._at(offsets), self.padding)

    def store(self, offsets, value):
        at = self._at(offsets)
        assert tuple(value.shape) == tuple(self.block_shape)
        ptrs, mask = self.pointers(*at)
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
