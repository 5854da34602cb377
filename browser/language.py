# SPDX-License-Identifier: Apache-2.0
"""Functions of ``triton.language`` for programs, loops, and making, shaping and joining blocks."""

import builtins
import math

from . import block, layout, memory
from .block import MAX_NUMEL, add, broadcast, constant, constexpr, mul, sub, tensor, unwrap
from .dtypes import int32

__all__ = [
    "add", "arange", "assume", "broadcast", "broadcast_to", "cast", "cat", "constexpr", "debug_barrier",
    "device_assert", "device_print", "expand_dims", "full", "gather", "interleave", "item", "join", "max_constancy",
    "max_contiguous", "mul", "multiple_of", "num_programs", "permute", "program_id", "range", "ravel", "reshape",
    "split", "squeeze", "static_assert", "static_print", "static_range", "sub", "to_tensor", "trans", "unsqueeze",
    "view", "zeros", "zeros_like",
]  # fmt: skip
MEMBERS = [
    "broadcast_to", "cast", "expand_dims", "gather", "item", "permute", "ravel", "reshape", "split", "trans",
    "view",
]  # fmt: skip


def to_tensor(x):
    return block.to_tensor(x)


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
    bounds = [block.to_tensor(v) for v in (start, end, 1 if step is None else step)]
    for what, bound in zip(("lower bound", "upper bound", "step"), bounds, strict=True):
        if bound.shape:
            raise TypeError(f"For {what} must be a scalar, got {bound.type}")
    if not all(bound.dtype.is_int() for bound in bounds):
        kinds = ", ".join(str(bound.dtype) for bound in bounds)
        raise TypeError(f"For loop bounds and step must all be ints, are ({kinds})")
    return builtins.range(*(bound.item_of() for bound in bounds))


static_range = range


def static_print(*values, sep=" ", end="\n", **options):
    print(*values, sep=sep, end=end)


def static_assert(cond, msg=""):
    assert unwrap(cond), unwrap(msg)


def device_assert(cond, msg="", mask=None):
    """Do nothing, as Triton does outside of its debug mode."""


def assume(cond):
    assert all(block.to_tensor(cond).data), "Assume failed"


def debug_barrier():
    """Count it, and do no more: one lane after the other finishes each line here."""
    memory.MEMORY.barriers += 1


def device_print(prefix, *args, hex=False):
    prefix = unwrap(prefix)
    assert isinstance(prefix, str), f"{prefix} is not string"
    if args:
        prefix = prefix.rstrip().removesuffix(":") + ": "
    if len(prefix) > 2 and not prefix.startswith(" "):
        prefix = " " + prefix
    x, y, z = memory.MEMORY.program
    for value in map(block.to_tensor, args):
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
        whole = ", and whole numbers" if {type(start), type(end)} <= {int, float} else ""
        raise ValueError(f"arange's arguments must be of type tl.constexpr{whole}")
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
        return tensor(block.cast(value, dtype).data * math.prod(shape), dtype.scalar, shape)
    if hasattr(dtype, "of"):
        raise AttributeError("'torch.dtype' object has no attribute 'to_ir'")
    if value is None or not hasattr(dtype, "is_floating"):
        raise ValueError("dtype must be specified when value is not a tensor")
    return block.broadcast_to(constant(value, dtype), shape)


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def zeros_like(input):
    return zeros(input.shape, input.dtype)


def cast(input, dtype, fp_downcast_rounding=None, bitcast=False):
    x, to = block.to_tensor(input), unwrap(dtype)
    if not hasattr(to, "scalar"):
        kind = "torch.dtype" if hasattr(to, "of") else type(to).__name__
        raise AttributeError(f"'{kind}' object has no attribute 'scalar'")
    if unwrap(bitcast):
        return block.bitcast(x, to)
    mode, narrower = unwrap(fp_downcast_rounding), x.dtype.is_floating() and to.is_floating()
    if mode not in (None, "rtne", "rtz"):
        raise ValueError(f"Invalid rounding mode: {mode}. Supported rounding modes are 'rtne' and 'rtz'.")
    if mode and not (narrower and to.size < x.dtype.size):
        raise ValueError("fp_downcast_rounding should be set only for truncating fp conversions. "
                         f"Source scalar type is {x.dtype} and destination type is {to}")  # fmt: skip
    return tensor(to.towards_zero(x.data), to, x.shape) if mode == "rtz" else block.cast(x, to)


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
    x = block.to_tensor(input)
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
    return block.broadcast_to(input, sizes(_listed(shape)))


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


for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
for _name in MEMBERS:
    setattr(tensor, _name, globals()[_name])
tensor.to = cast
