# SPDX-License-Identifier: Apache-2.0
"""Programs written by hand, for what is not drawn: helpers, loops, descriptors, functions that combine."""

import textwrap

import pytest
import torch

from tests import modeled

HEAD = """
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def both(a, i, b, j):
    first = a >= b
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def doubled(x, times: tl.constexpr = 2):
    y = x * times
    return y


@triton.jit
def kernel(p, q, h, out, n, f, D: tl.constexpr):
    i = tl.arange(0, 8)
    at = tl.arange(0, 4)[:, None] * 8 + i[None, :]
    x, y, z = tl.load(p + at), tl.load(q + at), tl.load(h + at)
"""
PROGRAMS = """
## reduce
probe(0, tl.reduce(x, 1, plus))
probe(1, tl.reduce(y, 0, larger))
probe(2, tl.reduce(y, 1, plus, keep_dims=True))
## reduce of all
probe(0, tl.reduce(y, None, plus))
## reduce of two
a, b = tl.reduce((y, at), 1, both)
probe(0, a)
probe(1, b)
## scan
probe(0, tl.associative_scan(y, 1, plus))
probe(1, tl.associative_scan(y, 0, larger, reverse=True))
## scan of two
a, b = tl.associative_scan((y, y), 0, affine)
probe(0, a)
probe(1, b)
## helper
probe(0, doubled(x))
probe(1, doubled(y, 3))
probe(2, doubled(n, times=5))
## loop
t = tl.zeros((4,), tl.float32)
for k in range(0, 3):
    t += tl.sum(x, axis=1) * k
probe(0, t)
## loop of scalars
t = 0
for k in range(n, 20, 3):
    t = t + k
probe(0, t)
## loop of tl
t = 1
for k in tl.range(1, 5, num_stages=2):
    t *= k
for k in tl.static_range(3):
    t += k
probe(0, t)
## while
k = n
while k > 1:
    k = k // 2
probe(0, k)
## if
if n > 3:
    t = y
else:
    t = -y
probe(0, t)
if D == 4 and n < 100:
    probe(1, t + 1)
## assigned numbers
a = 2
b = 0.5
c = True
probe(0, a * y)
probe(1, b * z)
probe(2, z * 0.5)
probe(3, c & (y > 0))
probe(4, y.to(tl.int64) + 2**33)
## float16 sums
probe(0, tl.sum(z, axis=1))
probe(1, tl.sum(z, axis=0))
probe(2, tl.max(z, axis=1))
probe(3, tl.cumsum(z, 1))
## constexpr
E: tl.constexpr = D * 2
probe(0, tl.zeros((E,), tl.int32))
probe(1, y * E)
probe(2, tl.cdiv(n, D))
## dot of whole numbers
a = (y & 7).to(tl.float16)
probe(0, tl.dot(a, tl.trans(a)))
probe(1, tl.dot(a, tl.trans(a), out_dtype=tl.float16))
probe(2, tl.dot((y & 7).to(tl.int8), tl.trans((y & 7).to(tl.int8))))
## dot with accumulator
a = (y & 7).to(tl.float32)
c = tl.full((4, 4), 0.5, tl.float32)
probe(0, tl.dot(a, tl.trans(a), c))
probe(1, tl.dot(a[None, :, :], tl.trans(a)[None, :, :]))
## block pointer
b = tl.make_block_ptr(p, (4, 8), (8, 1), (1, 4), (4, 4), (1, 0))
probe(0, tl.load(b, boundary_check=(0, 1)))
b = tl.advance(b, (0, 2))
probe(1, tl.load(b, boundary_check=(0, 1), padding_option='zero'))
## block pointer store
b = tl.make_block_ptr(out, (4, 8), (8, 1), (2, 4), (4, 4), (1, 0))
tl.store(b, tl.full((4, 4), 3.0, tl.float32), boundary_check=(0, 1))
## descriptor
d = tl.make_tensor_descriptor(p, [4, 8], [8, 1], [2, 4])
probe(0, d.load([1, 4]))
probe(1, d.load([3, 4]))
probe(2, tl.load_tensor_descriptor(d, [n - 8, 0]))
## descriptor store
d = tl.make_tensor_descriptor(out, [4, 8], [8, 1], [2, 4])
d.store([3, 4], tl.full((2, 4), 7.0, tl.float32))
tl.store_tensor_descriptor(d, [0, 0], d.load([3, 4]) + 1)
## join and split
a, b = tl.split(tl.reshape(y, (4, 4, 2)))
probe(0, a)
probe(1, b)
probe(2, tl.join(a, b))
probe(3, tl.interleave(a, b))
probe(4, tl.cat(a, b, dim=1))
probe(5, tl.cat(a, b, dim=0))
## permute
t = tl.reshape(y, (2, 2, 8))
probe(0, tl.permute(t, (2, 0, 1)))
probe(1, tl.trans(t, 1, 0, 2))
probe(2, y.T)
probe(3, tl.ravel(t))
probe(4, tl.expand_dims(y, (0, 2)))
## gather
probe(0, tl.gather(y, at % 4, 0))
probe(1, tl.gather(x, (at * 3) % 8, 1))
## histogram
probe(0, tl.histogram(tl.ravel(y) & 7, 8))
probe(1, tl.histogram(i, 4, mask=i < 3))
## sort
probe(0, tl.sort(x))
probe(1, tl.sort(y, descending=True))
probe(2, tl.topk(x, 2))
probe(3, tl.flip(y, 1))
## argmax
a, b = tl.max(y, axis=1, return_indices=True)
probe(0, a)
probe(1, b)
probe(2, tl.argmin(x, 0))
probe(3, tl.argmax(z, 1, keep_dims=True))
## random
probe(0, tl.rand(n, at))
probe(1, tl.randint(7, i))
a, b, c, d = tl.randint4x(n, i)
probe(2, d)
probe(3, tl.rand(7, i.to(tl.int64) << 33))
probe(4, tl.rand4x(1, i)[2])
probe(5, tl.philox(3, i, i, i, i)[1])
## pointers
r = p + 3
probe(0, tl.load(r))
r += 2
probe(1, tl.load(r - 1))
probe(2, tl.load(tl.where(i < 4, p + i, p + 31 - i)))
probe(3, (q + i).to(tl.int64) - q.to(tl.int64))
## pointer casts
r = p.to(tl.pointer_type(tl.int32))
probe(0, tl.load(r + i))
probe(1, tl.load((q.to(tl.int64) + 4 * i).to(tl.pointer_type(tl.int32))))
probe(2, tl.load(h.to(tl.pointer_type(tl.int16)) + i))
## pointer joins
probe(0, tl.load(tl.where(i % 2 == 0, p + i, p + i + 8)))
probe(1, tl.load(tl.broadcast_to((p + i)[None, :], (4, 8)) + 8 * tl.arange(0, 4)[:, None]))
## signs
u = y.to(tl.uint32)
probe(0, y + u)
probe(1, y.to(tl.int8) * u.to(tl.uint8))
probe(2, y < u)
probe(3, y.to(tl.int16) - u.to(tl.uint8))
probe(4, y.to(tl.int64) + u)
probe(5, y.to(tl.int64) & u.to(tl.uint64))
## masks
probe(5, tl.load(p + i, mask=i > 2))
probe(0, tl.load(p + i, mask=i < 5))
probe(1, tl.load(p + i, mask=i < n, other=-1))
probe(2, tl.load(p + at, mask=(i > 2)[None, :], other=y.to(tl.float32)))
probe(3, tl.load(p, mask=n < 3, other=4.5))
probe(4, tl.load(p + i, mask=True))
## stores
tl.store(out + i, 1)
tl.store(out + 8 + i, i, mask=i < 3)
tl.store(out + at, x, mask=at > 20)
tl.store(out + 31, n)
## atomics
probe(0, tl.atomic_add(out + i % 3, i.to(tl.float32)))
probe(1, tl.atomic_max(q + i, 3))
probe(2, tl.atomic_xor(q + i % 2, i))
probe(3, tl.atomic_cas(q, tl.load(q), n))
probe(4, tl.atomic_or(q + 9, 64))
probe(5, tl.atomic_xchg(q + i, i))
tl.atomic_and(q + i, 3, mask=i > 4)
probe(7, tl.atomic_min(out + i, -1.5))
## bits
probe(0, x.to(tl.int32, bitcast=True))
probe(1, z.to(tl.uint16, bitcast=True))
probe(2, (y.to(tl.uint32) >> 3))
probe(3, y >> 1)
probe(4, y << 30)
probe(5, ~y)
probe(6, y ^ 5)
## rounding
probe(0, x.to(tl.float16, fp_downcast_rounding='rtz'))
probe(1, (x * 1.0e6).to(tl.int32))
probe(2, x.to(tl.float64) / 3)
probe(3, (y / 7))
probe(4, y // 7)
probe(5, y % 7)
probe(6, x % 2.5)
## hints
probe(0, tl.multiple_of(y, (4, 8)))
probe(1, tl.max_contiguous(i, 8))
tl.debug_barrier()
tl.assume(n > 0)
tl.static_assert(D == 4)
tl.device_assert(n > 0, 'no')
probe(2, i)
## division
probe(0, tl.fdiv(z, z + 1))
probe(1, z / 3)
probe(2, tl.fdiv(x, z.to(tl.float32)))
probe(3, tl.div_rn(x, x * x))
## swizzle
a, b = tl.swizzle2d(i, i, 8, 8, 3)
probe(0, a)
probe(1, b)
## shapes
probe(0, tl.zeros(y.shape, y.dtype))
probe(1, tl.zeros_like(z))
probe(2, tl.reshape(x, [y.shape[0] * y.shape[1]]))
probe(3, tl.arange(0, y.shape[1]))
probe(4, tl.full((2, 2), n, tl.int64))
## dtypes
probe(0, p.dtype.element_ty == tl.float32)
probe(1, z.dtype.is_fp16())
probe(2, y.dtype.is_int())
probe(3, x.dtype.primitive_bitwidth)
probe(4, x.to(q.dtype.element_ty))
probe(5, z.type.scalar == tl.float16)
## arguments
probe(0, f * x)
probe(1, f + y)
probe(2, n * 2)
probe(3, n / 2)
probe(4, D * n)
probe(6, n.to(tl.float32))
## builtins
t = min(n, 3)
probe(0, t)
t = max(n, 11)
probe(1, t)
probe(2, float(D))
## clamp
probe(0, tl.clamp(x, -1.0, 1.0))
probe(1, tl.minimum(y, 3))
probe(2, tl.maximum(z, 0.5))
probe(3, tl.abs(y))
probe(4, tl.fma(x, x, x))
## nothing
probe(0, tl.program_id(0))
probe(1, tl.num_programs(0))
probe(2, tl.num_programs(2))
"""
BODIES = dict(part.split("\n", 1) for part in PROGRAMS.split("## ")[1:])


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.filterwarnings("ignore")
def test_a_written_program_is_the_same(tmp_path, body):
    source = torch.Generator().manual_seed(3)
    arguments = [
        torch.randn(32, generator=source), torch.randint(-99, 99, (32,), generator=source, dtype=torch.int32),
        torch.randn(32, generator=source).half(), torch.zeros(32), 10, 0.75, 4,
    ]  # fmt: skip
    triton, model = modeled.both(tmp_path / "written.py", HEAD + textwrap.indent(body, "    "), arguments)
    assert triton.keys() == model.keys()
    for key, value in triton.items():
        assert modeled.same(value, model[key]), f"{key}: {value}\nmodel: {model[key]}"
