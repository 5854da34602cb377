# SPDX-License-Identifier: Apache-2.0
"""Model ``torch.Tensor``: a dtype, a shape and strides over flat memory. What it computes is in ``functions``."""

import math
from operator import index as as_int

from . import dtypes, layout
from .layout import strides_of
from .memory import MEMORY, Allocation


class torch_dtype:
    """A dtype of torch; ``of`` is Triton's."""

    def __init__(self, name: str, of: dtypes.dtype):
        self.name, self.of = name, of
        self.itemsize, self.is_floating_point, self.is_complex = of.size, of.is_floating(), False
        self.is_signed = of.is_floating() or of.is_int_signed()

    def __repr__(self):
        return f"torch.{self.name}"


DTYPES = {of.label: torch_dtype(of.label, of) for of in dtypes.ALL if of is not dtypes.int1}
DTYPES["bool"] = torch_dtype("bool", dtypes.int1)
bool_, int64, float32, float64 = (DTYPES[name] for name in ("bool", "int64", "float32", "float64"))
ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}


class device:
    """A device: always the CPU, for the reader's browser lends no GPU."""

    def __init__(self, kind="cpu", index=None):
        kind = str(kind)
        if kind.split(":")[0] != "cpu":
            raise AssertionError("Torch not compiled with CUDA enabled")
        self.type, self.index = "cpu", index

    def __eq__(self, other):
        return str(other) == "cpu" or isinstance(other, device)

    def __hash__(self):
        return hash("cpu")

    def __str__(self):
        return "cpu"

    def __repr__(self):
        return "device(type='cpu')"


class Size(tuple):
    def __repr__(self):
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        return math.prod(self)

    def __getitem__(self, key):
        got = super().__getitem__(key)
        return Size(got) if isinstance(key, slice) else got


class Tensor:
    is_cuda, is_sparse, is_quantized, layout = False, False, False, "torch.strided"

    def __init__(self, storage: Allocation, dtype: torch_dtype, shape, strides, offset: int = 0):
        self.storage, self.dtype, self.shape = storage, dtype, Size(shape)
        self.steps, self.offset = tuple(strides), offset
        self.requires_grad, self.node, self.grad = False, None, None

    # What it is

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.numel() * self.itemsize)
    device = property(lambda self: device())
    data = property(lambda self: self.detach())
    is_leaf = property(lambda self: self.node is None)
    grad_fn = property(lambda self: self.node)
    T = property(lambda self: self.permute(*reversed(range(self.ndim))))
    mT = property(lambda self: self.transpose(-1, -2))

    def dim(self):
        return self.ndim

    def numel(self) -> int:
        return math.prod(self.shape)

    nelement = numel

    def size(self, axis=None):
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis=None):
        return self.steps if axis is None else self.steps[axis]

    def element_size(self) -> int:
        return self.itemsize

    def storage_offset(self) -> int:
        return self.offset

    def data_ptr(self) -> int:
        return self.storage.address + self.offset * self.itemsize if self.numel() else 0

    def untyped_storage(self):
        return self.storage

    def is_contiguous(self) -> bool:
        wanted = strides_of(self.shape)
        used = zip(self.shape, self.steps, wanted, strict=True)
        return self.numel() == 0 or all(n == 1 or a == b for n, a, b in used)

    def is_neg(self) -> bool:
        return False

    is_conj = is_complex = is_neg

    def resolve_neg(self):
        return self

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __hash__(self):
        return id(self)

    # Its numbers

    def values(self) -> list:
        """Return the numbers, row by row."""
        view = self.storage.view(self.dtype.of.code)
        if self.is_contiguous():
            return self.dtype.of.decode(view[self.offset : self.offset + self.numel()].tolist() if self.numel() else [])
        return self.dtype.of.decode([view[i] for i in layout.indices(self.shape, self.steps, self.offset)])

    def write(self, values: list):
        """Replace the numbers, row by row; they are of this dtype."""
        view = self.storage.view(self.dtype.of.code)
        places = layout.indices(self.shape, self.steps, self.offset)
        for i, value in zip(places, self.dtype.of.encode(values), strict=True):
            view[i] = value
        return self

    def tolist(self):
        def nest(values, shape):
            if not shape:
                return values[0]
            step = math.prod(shape[1:])
            return [nest(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]

        return nest(self.values(), self.shape)

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.values()[0]

    def __bool__(self):
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        return as_int(self.item())

    def __format__(self, spec):
        return format(self.item(), spec) if not self.shape and spec else str(self)

    def __repr__(self):
        return printed(self)

    # Views

    def _view(self, shape, strides, offset=None):
        made = Tensor(self.storage, self.dtype, shape, strides, self.offset if offset is None else offset)
        return made

    def as_strided(self, size, stride, storage_offset=None):
        return self._view(size, stride, storage_offset)

    def detach(self):
        return self._view(self.shape, self.steps)

    def permute(self, *axes):
        axes = [a % self.ndim for a in flat(axes)]
        return self._view([self.shape[a] for a in axes], [self.steps[a] for a in axes])

    def transpose(self, a, b):
        axes = list(range(self.ndim))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(*axes)

    def t(self):
        return self.transpose(0, 1) if self.ndim == 2 else self

    def movedim(self, source, destination):
        axes = [a for a in range(self.ndim) if a != source % self.ndim]
        axes.insert(destination % self.ndim, source % self.ndim)
        return self.permute(*axes)

    def view(self, *shape):
        if len(shape) == 1 and isinstance(shape[0], torch_dtype):
            return self._as_dtype(shape[0])
        shape = filled_in(shape, self.numel())
        strides = self._strides_as(shape)
        if strides is None:
            raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one "
                               "dimension spans across two contiguous subspaces). "
                               "Use .reshape(...) instead.")  # fmt: skip
        return self._view(shape, strides)

    def _strides_as(self, shape):
        """Return the strides of another shape over the same memory, or None where no strides reach it."""
        if self.is_contiguous():
            return strides_of(shape)
        reached = layout.indices(self.shape, self.steps)
        steps = strides_of(shape)
        strides = [reached[step] if n > 1 else 0 for n, step in zip(shape, steps, strict=True)]
        return strides if layout.indices(tuple(shape), tuple(strides)) == reached else None

    def _as_dtype(self, dtype):
        if dtype.itemsize == self.itemsize:
            return Tensor(self.storage, dtype, self.shape, self.steps, self.offset)
        if not self.is_contiguous():
            raise RuntimeError("self.stride(-1) must be 1 to view it as another dtype of another size")
        last = self.shape[-1] * self.itemsize // dtype.itemsize
        shape = (*self.shape[:-1], last)
        return Tensor(self.storage, dtype, shape, strides_of(shape), self.offset * self.itemsize // dtype.itemsize)

    def reshape(self, *shape):
        shape = filled_in(shape, self.numel())
        strides = self._strides_as(shape)
        return self._view(shape, strides) if strides is not None else self.clone().view(shape)

    def flatten(self, start_dim=0, end_dim=-1):
        if not self.shape:
            return self.reshape(1)
        start, end = start_dim % self.ndim, end_dim % self.ndim
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, dim, sizes):
        dim %= self.ndim
        sizes = filled_in(tuple(sizes), self.shape[dim])
        return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1 :])

    def unsqueeze(self, dim):
        dim %= self.ndim + 1
        shape, strides = list(self.shape), list(self.steps)
        step = shape[dim] * strides[dim] if dim < self.ndim else 1
        shape.insert(dim, 1)
        strides.insert(dim, step)
        return self._view(shape, strides)

    def squeeze(self, dim=None):
        gone = [a for a in range(self.ndim) if self.shape[a] == 1 and (dim is None or a == dim % self.ndim)]
        kept = [a for a in range(self.ndim) if a not in gone]
        return self._view([self.shape[a] for a in kept], [self.steps[a] for a in kept])

    def expand(self, *shape):
        shape = [as_int(n) for n in flat(shape)]
        missing = len(shape) - self.ndim
        shape = [n if n != -1 else self.shape[i - missing] for i, n in enumerate(shape)]
        for i, size in enumerate(self.shape):
            if size not in (1, shape[i + missing]):
                raise RuntimeError(f"The expanded size of the tensor ({shape[i + missing]}) must match the existing "
                                   f"size ({size}) at non-singleton dimension {i + missing}.")  # fmt: skip
        strides = [0 if n == 1 and shape[i + missing] != 1 else s
                   for i, (n, s) in enumerate(zip(self.shape, self.steps, strict=True))]  # fmt: skip
        return self._view(shape, [0] * missing + strides)

    def expand_as(self, other):
        return self.expand(*other.shape)

    def narrow(self, dim, start, length):
        return self[(slice(None),) * (dim % self.ndim) + (slice(start, start + length),)]

    def select(self, dim, index):
        return self[(slice(None),) * (dim % self.ndim) + (index,)]

    def unbind(self, dim=0):
        return tuple(self.select(dim, i) for i in range(self.shape[dim]))

    def split(self, size, dim=0):
        total = self.shape[dim]
        sizes = [min(size, total - i) for i in range(0, total, size)] if isinstance(size, int) else list(size)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return tuple(self.narrow(dim, start, n) for start, n in zip(starts, sizes, strict=True))

    def chunk(self, chunks, dim=0):
        return self.split(max(1, -(-self.shape[dim] // chunks)), dim)

    def __getitem__(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        if len(keys) == 1 and isinstance(keys[0], (Tensor, list)):
            return self._taken(keys[0])
        if at := next((i + 1 for i, k in enumerate(keys) if k is ...), 0):
            at -= 1
            named = sum(k is not None and k is not ... for k in keys)
            keys[at : at + 1] = [slice(None)] * (self.ndim - named)
        shape, strides, offset, axis = [], [], self.offset, 0
        for part in keys:
            if part is None:
                shape.append(1)
                strides.append(0)
                continue
            if axis >= self.ndim:
                raise IndexError("too many indices for tensor of dimension " + str(self.ndim))
            size, step = self.shape[axis], self.steps[axis]
            if isinstance(part, slice):
                start, stop, stride = part.indices(size)
                if stride < 1:
                    raise ValueError("step must be greater than zero")
                shape.append(len(range(start, stop, stride)))
                strides.append(step * stride)
                offset += start * step
            else:
                at = as_int(part)
                if not -size <= at < size:
                    raise IndexError(f"index {at} is out of bounds for dimension {axis} with size {size}")
                offset += at % size * step
            axis += 1
        return self._view(shape + list(self.shape[axis:]), strides + list(self.steps[axis:]), offset)

    def _taken(self, key):
        """Return the rows with these numbers, or the elements that a mask has on."""
        key = key if isinstance(key, Tensor) else tensor(key)
        rows = key.values()
        if key.dtype is bool_:
            rest = self.shape[key.ndim :]
            flat_self = self.reshape(-1, *rest)
            wanted, shape = [i for i, on in enumerate(rows) if on], None
        else:
            rest, flat_self, wanted, shape = self.shape[1:], self, rows, key.shape
        width, data = math.prod(rest), flat_self.values()
        picked = [v for i in wanted for v in data[i % len(flat_self) * width :][:width]]
        return made(picked, self.dtype, (*(shape if shape is not None else (len(wanted),)), *rest))

    def __setitem__(self, key, value):
        if isinstance(key, Tensor) and key.dtype is bool_:
            old, new = self.values(), value.values() if isinstance(value, Tensor) else None
            on = key.expand(*self.shape).values() if key.shape != self.shape else key.values()
            fresh = iter(new * (sum(on) if len(new) == 1 else 1)) if new is not None else iter([value] * sum(on))
            self.write(self.dtype.of.round([next(fresh) if m else v for v, m in zip(old, on, strict=True)]))
        elif isinstance(key, (Tensor, list)):
            rows = key.values() if isinstance(key, Tensor) else key
            value = value if isinstance(value, Tensor) else tensor(value, dtype=self.dtype)
            for i, row in zip(rows, value.expand(len(rows), *self.shape[1:]), strict=True):
                self[i].copy_(row)
        else:
            self[key].copy_(value)

    # In place, and copies

    def _copy(self, other):
        other = other if isinstance(other, Tensor) else tensor(other)
        return self.write(dtypes.convert(other.expand(*self.shape).values(), other.dtype.of, self.dtype.of))

    def fill_(self, value):
        return self._copy(value)

    def zero_(self):
        return self._copy(0)

    def clone(self):
        return made(self.values(), self.dtype, self.shape)

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def cpu(self):
        return self

    def cuda(self, *args, **options):
        return self.to("cuda")

    def requires_grad_(self, on=True):
        self.requires_grad = on
        return self

    def to(self, *args, dtype=None, device=None, copy=False, non_blocking=False):
        for value in args:
            if isinstance(value, Tensor):
                dtype = value.dtype
            elif isinstance(value, torch_dtype):
                dtype = value
            elif value is not None and not isinstance(value, bool):
                device = value
        device_of(device)
        if device is not None:
            self.storage.elsewhere = 0  # by now it is where it is wanted; see ``functions.creates``
        if dtype is None or (dtype is self.dtype and not copy):
            return self.clone() if copy else self
        return made(dtypes.convert(self.values(), self.dtype.of, dtype.of), dtype, self.shape)

    def type_as(self, other):
        return self.to(other.dtype)

    def type(self, dtype=None):
        return f"torch.{self.dtype}" if dtype is None else self.to(dtype)


def device_of(value):
    """Refuse a device other than the CPU."""
    if value is not None:
        device(value)


for _short, _name in {**ALIASES, "bool": "bool", "bfloat16": "bfloat16"}.items():
    setattr(Tensor, _short, lambda self, to=_name: self.to(DTYPES[to]))


def flat(shape) -> tuple:
    """Accept a shape as several numbers or as one sequence."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)


def filled_in(shape, count: int) -> tuple[int, ...]:
    """Return a shape of that many elements, with its -1 worked out."""
    shape = tuple(as_int(n) for n in flat(shape))
    if -1 in shape:
        rest = -math.prod(shape)
        shape = tuple(count // rest if n == -1 else n for n in shape) if rest else shape
    if math.prod(shape) != count:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return shape


def made(values: list, dtype: torch_dtype, shape) -> Tensor:
    """Return a new, contiguous tensor with these numbers, which are of its dtype."""
    return first(MEMORY.allocate(bytearray(dtype.of.to_bytes(values))), dtype, shape, strides_of(tuple(shape)))


def fresh(shape, dtype: torch_dtype, strides=None) -> Tensor:
    """Return a tensor that nobody has written yet."""
    shape = tuple(as_int(n) for n in shape)
    count = math.prod(shape)
    fill = MEMORY.fresh if dtype is not bool_ else lambda size: MEMORY.allocate(bytearray(size))
    return first(fill(count * dtype.itemsize), dtype, shape, strides or strides_of(shape))


def first(storage: Allocation, dtype: torch_dtype, shape, strides) -> Tensor:
    """Return the tensor for which memory was allocated. The memory keeps how it lies there, views aside."""
    storage.made = dtype, tuple(shape), tuple(strides)
    return Tensor(storage, *storage.made)


def tensor(data, *, dtype=None) -> Tensor:
    if isinstance(data, Tensor):
        return data.clone() if dtype is None else data.to(dtype, copy=True)
    shape, level = [], data
    while isinstance(level, (list, tuple, range)):
        shape.append(len(level))
        level = level[0] if len(level) else None

    def flatten(value, depth):
        if depth == len(shape):
            return [value.item() if isinstance(value, Tensor) else value]
        if len(value) != shape[depth]:
            raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(value)})")
        return [v for part in value for v in flatten(part, depth + 1)]

    values = flatten(data, 0)
    if dtype is None:
        kinds = set(map(type, values))
        dtype = float32 if float in kinds or not kinds else bool_ if kinds == {bool} else int64
    if dtype.is_floating_point:
        values = list(map(float, values))
    elif dtype is bool_:
        values = [v != 0 for v in values]
    else:
        values = list(map(int, values))
    return made(dtype.of.round(values), dtype, shape)


# Printing


def printed(x: Tensor) -> str:
    """Return what torch prints for a small tensor."""
    values, suffix = x.values(), ""
    if x.dtype not in (float32, int64, bool_) or (not values and x.dtype is not float32):
        suffix = f", dtype={x.dtype}"
    if x.requires_grad:
        suffix += ", requires_grad=True" if x.node is None else f", grad_fn=<{type(x.node).__name__}>"
    if len(values) > 1000:
        return f"tensor of shape {tuple(x.shape)}{suffix}"  # torch shows its corners
    if not values:
        size = f", size={tuple(x.shape)}" if x.ndim > 1 else ""
        return f"tensor([]{size}{suffix})"
    text = _formatted(values) if x.dtype.is_floating_point else [str(v) for v in values]
    counts = [t for t, v in zip(text, values, strict=True) if not isinstance(v, float) or (v and math.isfinite(v))]
    width = max(map(len, counts), default=1)
    text = [t.rjust(width) for t in text]

    def nest(parts, shape, indent):
        if not shape:
            return parts[0].strip() if not x.shape else parts[0]
        step = len(parts) // shape[0]
        inner = [nest(parts[i : i + step], shape[1:], indent + 1) for i in range(0, len(parts), step)]
        if len(shape) == 1:
            per_line = max(1, (80 - indent) // (width + 2))
            rows = [", ".join(inner[i : i + per_line]) for i in range(0, len(inner), per_line)]
            return "[" + (",\n" + " " * indent).join(rows) + "]"
        return "[" + ("," + "\n" * (len(shape) - 1) + " " * indent).join(inner) + "]"

    return f"tensor({nest(text, tuple(x.shape), 8)}{suffix})"


def _formatted(values: list[float]) -> list[str]:
    finite = [abs(v) for v in values if math.isfinite(v) and v]
    if not finite:
        return [f"{v:.0f}." if math.isfinite(v) else str(v) for v in values]
    high, low, whole = max(finite), min(finite), all(v == math.ceil(v) for v in finite)
    scientific = high / low > 1000 or high > 1e8 or low < 1e-4
    form = ".4e" if scientific else ".0f" if whole else ".4f"
    dot = "." if form == ".0f" else ""
    return [format(v, form) + dot if math.isfinite(v) else str(v) for v in values]
