# SPDX-License-Identifier: Apache-2.0
"""Draw Triton's random numbers in a kernel: Philox, the same to the bit."""

from .arithmetic import cos, log, maximum, sin, sqrt, where
from .block import bitcast, broadcast, cast, constexpr, tensor, to_tensor, unwrap
from .dtypes import float32, int32, int64, uint32, uint64
from .language import full

__all__ = [
    "pair_uniform_to_normal", "philox", "philox_impl", "rand", "rand4x", "randint", "randint4x", "randn", "randn4x",
    "uint_to_uniform_float",
]  # fmt: skip
N_ROUNDS = constexpr(10)
CONSTANTS = {  # by width: what is added to the keys, and by what is multiplied
    32: (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157),
}


def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds=N_ROUNDS):
    assert c0.dtype in (uint32, uint64), "dtype not supported in philox_impl"
    width = c0.dtype.primitive_bitwidth
    add_a, add_b, times_a, times_b = CONSTANTS[width]
    mask, blocks = (1 << width) - 1, [c0, c1, c2, c3, k0, k1]
    for i in range(10):  # until all have the shape of all
        blocks[i % 5], blocks[i % 5 + 1] = broadcast(blocks[i % 5], blocks[i % 5 + 1])
    blocks = [broadcast(blocks[-1], x)[1] for x in blocks]
    out = []
    for a, b, c, d, x, y in zip(*(x.data for x in blocks), strict=True):
        for _ in range(unwrap(n_rounds)):
            first, third = times_a * a, times_b * c
            a, b, c, d = (third >> width) ^ b ^ x, third & mask, (first >> width) ^ d ^ y, first & mask
            x, y = x + add_a & mask, y + add_b & mask
        out.append((a, b, c, d))
    return tuple(tensor(list(data), c0.dtype, blocks[0].shape) for data in zip(*out, strict=True))


def philox(seed, c0, c1, c2, c3, n_rounds=N_ROUNDS):
    seed = to_tensor(seed)
    assert seed.dtype.is_int()
    seed = cast(seed, uint64)
    c0, c1, c2, c3 = map(to_tensor, (c0, c1, c2, c3))
    if c0.dtype.primitive_bitwidth == 32:
        of, low, high = uint32, cast(seed & 0xFFFFFFFF, uint32), cast((seed >> 32) & 0xFFFFFFFF, uint32)
    else:
        assert c0.dtype.primitive_bitwidth == 64, "bitwidth not supported in philox"
        of, low, high = uint64, seed, full((1,), 0, uint64)
    return philox_impl(*(bitcast(c, of) for c in (c0, c1, c2, c3)), low, high, n_rounds)


def randint4x(seed, offset, n_rounds=N_ROUNDS):
    offset = to_tensor(offset)
    low = cast(offset, uint32)
    zero = low * 0
    high = cast(offset >> 32, uint32) if offset.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


def randint(seed, offset, n_rounds=N_ROUNDS):
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x):
    if x.dtype.primitive_bitwidth == 32:
        x, scale = bitcast(x, int32), 4.6566127342e-10
    else:
        x, scale = bitcast(x, int64), 1.0842020432385337e-19
    return where(x < 0, -x - 1, x) * tensor(float32.round([scale]), float32)


def rand(seed, offset, n_rounds=N_ROUNDS):
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed, offsets, n_rounds=N_ROUNDS):
    return tuple(map(uint_to_uniform_float, randint4x(seed, offsets, n_rounds)))


def pair_uniform_to_normal(u1, u2):
    u1 = maximum(1.0e-7, u1)
    angle, radius = 6.283185307179586 * u2, sqrt(-2.0 * log(u1))
    return radius * cos(angle), radius * sin(angle)


def randn4x(seed, offset, n_rounds=N_ROUNDS):
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return *pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4)


def randn(seed, offset, n_rounds=N_ROUNDS):
    return randn4x(seed, offset, n_rounds)[0]
