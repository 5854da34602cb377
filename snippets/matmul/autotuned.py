# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices, ``c = a @ b``, with auto-tuning: try several tile shapes, and keep the fastest for similar sizes.

``matmul_kernel`` takes tile shape, order and pipeline as compile-time arguments. ``tuned_kernel`` is the same kernel
wrapped in :func:`triton.autotune`. For each new key, it drops the configs that can't work (:func:`fits`), ranks the
rest with an estimate (:func:`estimate`), times the best few, and remembers the winner.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K.
Source: ``triton/runtime/autotuner.py``; the kernel is from Triton's matrix multiplication tutorial, with our own masks.

Run it on a GPU with ``python autotuned.py``, or in Triton's interpreter, which can't tune, with ``TRITON_INTERPRET=1``.
"""

import functools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32
PRECISIONS = "tf32", "tf32x3", "ieee"


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["bucket"])
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    bucket,  # not used by the kernel; it is the key for the tuner
    K_EVEN: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    INDEX: tl.constexpr = tl.int32,
):
    pid = tl.program_id(axis=0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    in_group = pid % (GROUP_M * tiles_n)
    pid_m, pid_n = first_m + in_group % group_m, in_group // group_m

    # Rows and columns past the end wrap around to the tile's first ones. So
    # no load needs a mask for them, and their results aren't stored.
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    rows, columns = (
        (tl.arange(0, BLOCK_M) % (M - m)).to(INDEX),
        (tl.arange(0, BLOCK_N) % (N - n)).to(INDEX),
    )
    k = tl.arange(0, BLOCK_K).to(INDEX)
    # One 64-bit offset leads to the tile. Offsets within it have the dtype
    # INDEX, 32 bits if that's enough.
    a_ptrs = (
        a_ptr
        + m.to(tl.int64) * stride_am
        + (rows[:, None] * stride_am + k[None, :] * stride_ak)
    )
    b_ptrs = (
        b_ptr
        + n.to(tl.int64) * stride_bn
        + (k[:, None] * stride_bk + columns[None, :] * stride_bn)
    )
    step = tl.full((), BLOCK_K, tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        # --8<-- [start:even]
        if K_EVEN:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
            b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        # --8<-- [end:even]
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptrs += step * stride_ak
        b_ptrs += step * stride_bk

    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    c_begin = m.to(tl.int64) * stride_cm + n.to(tl.int64) * stride_cn
    c_ptrs = (
        c_ptr
        + c_begin
        + (
            rows.to(INDEX)[:, None] * stride_cm
            + columns.to(INDEX)[None, :] * stride_cn
        )
    )
    tl.store(
        c_ptrs, acc.to(c_ptr.dtype.element_ty),
        mask=(rows < M - m)[:, None] & (columns < N - n)[None, :],
    )
# --8<-- [end:kernel]


# --8<-- [start:configs]
def config(m, n, k, *, warps, stages):
    tile = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}
    return triton.Config(tile, num_warps=warps, num_stages=stages)


CONFIGS = [
    # Large products. The larger a tile, the fewer bytes per FLOP:
    # (m + n) / (m * n). In these, the largest, each thread holds 128 sums
    # in registers, which leaves room for everything else.
    config(128, 256, 64, warps=8, stages=3),
    config(256, 128, 64, warps=8, stages=3),  # the same for tall results
    # Loads run further ahead, for another 48 KiB of shared memory.
    config(128, 256, 64, warps=8, stages=4),
    # Half the tile with half the warps. Two programs fit on a
    # multiprocessor, so one can compute while the other stores. Or one
    # program with more warps.
    config(128, 128, 64, warps=4, stages=3),
    config(128, 128, 64, warps=8, stages=4),
    # float32 has twice the bytes, which fit in steps half as long.
    config(128, 256, 32, warps=8, stages=4),
    config(128, 128, 32, warps=4, stages=4),
    # Medium products. With tiles of 128 x 256, a result of 1024 x 1024
    # would have only 32 tiles for 132 multiprocessors.
    config(64, 256, 64, warps=4, stages=4),
    config(64, 128, 64, warps=4, stages=4),
    config(128, 64, 64, warps=4, stages=4),
    # Small products have few steps along K, so load everything at once
    # and wait once.
    config(64, 64, 128, warps=4, stages=4),
    config(64, 32, 128, warps=4, stages=5),
    # With steps small enough for float32.
    config(64, 64, 64, warps=4, stages=5),
    # A handful of rows, which would leave most of a 64-row tile empty.
    # (There's no wgmma below 64 rows, but here the bytes decide.)
    config(16, 64, 128, warps=4, stages=4),
    config(32, 64, 128, warps=4, stages=4),
    config(16, 32, 256, warps=4, stages=3),
    # float32 in full precision, which the matrix units can't multiply.
    # Each multiplication is an instruction, so steps are short.
    config(128, 128, 16, warps=8, stages=3),
]
# --8<-- [end:configs]
K_MULTIPLE = math.lcm(*(c.kwargs["BLOCK_K"] for c in CONFIGS))
INTERPRETED = config(32, 32, 32, warps=4, stages=1)  # for the interpreter, where times say nothing


# --8<-- [start:key]
def bucket(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return a number that is the same for products that share a tuning.

    It depends on the sizes, rounded up to a power of two; on the layouts of
    a, b and c; and on the GPU's number of multiprocessors. It leaves out
    the dtypes, because the tuner adds those to every key.

    >>> x, y = torch.empty(4000, 512), torch.empty(4096, 512)
    >>> bucket(x, x.T) == bucket(y, x.T)
    True
    >>> bucket(x, x.T) == bucket(x, torch.empty(512, 4000))
    False
    """
    (M, K), N = a.shape, b.shape[1]
    number = limits_of(a.device).multiprocessors
    for size in (M, N, K):
        # No tile has a side below 16.
        number = number * 32 + (max(size, 16) - 1).bit_length()
    return (number * 36 + layout(a) * 6 + layout(b)) * 2 + (N % 16 == 0)


def layout(x: torch.Tensor) -> int:
    """Return a number for the layout of ``x``: whether its rows or columns
    are contiguous, and whether Triton compiles wide loads for it.

    Wide loads need lines that Triton knows to be aligned. It compiles
    another kernel if sizes and strides are multiples of 16 elements and the
    first element is at a multiple of 16 bytes.
    """
    by_rows, by_columns = x.stride(1) == 1, x.stride(0) == 1
    line = (
        (x.shape[1], x.stride(0)) if by_rows else (x.shape[0], x.stride(1))
    )
    wide = (by_rows or by_columns) and not any(
        n % 16 for n in (*line, x.data_ptr())
    )
    return 3 * wide + (2 if by_rows else by_columns)
# --8<-- [end:key]


# --8<-- [start:limits]
class Limits(NamedTuple):
    """Bytes of shared memory per program, and the multiprocessors."""

    shared: int = 232_448  # these are an H200's
    multiprocessors: int = 132


def shared_bytes(
    size: int, BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, num_stages: int
):
    """Return the bytes of shared memory for the tiles of a and b that are
    under way, with elements of ``size`` bytes.

    (Without wgmma, as for tiles below 64 rows, it's one stage less.)

    >>> shared_bytes(2, 128, 256, 64, 3)
    147456
    """
    return num_stages * (BLOCK_M + BLOCK_N) * BLOCK_K * size


def fits(configs, arguments, limits=None, **more):
    """Drop configs that can't work: the tuner's ``early_config_prune``."""
    given = {**arguments, **more}
    limits = limits or limits_of(given["a_ptr"].device)
    size, kept, shared = given["a_ptr"].element_size(), [], {}
    for c in configs:
        m, n, k = (
            c.kwargs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")
        )
        shared[c] = shared_bytes(size, m, n, k, c.num_stages)
        # Sums per thread. Each needs a register; a thread has up to 255.
        sums = m * n / (32 * c.num_warps)
        fits_in = shared[c] <= limits.shared and sums <= 128
        # Is half of the tile outside the result? Does a step have thousands
        # of instructions?
        oversized = m >= 2 * max(given["M"], 16) or n >= 2 * max(
            given["N"], 32
        )
        unrolled = (
            by_hand(given["a_ptr"], given["PRECISION"]) and sums * k > 2048
        )
        if fits_in and not oversized and not unrolled:
            kept.append(c)
    return kept or [min(configs, key=shared.get)]
# --8<-- [end:limits]


def by_hand(a: torch.Tensor, precision: str) -> bool:
    """Return whether a product is more precise than matrix units can be."""
    return a.dtype == torch.float32 and precision == "ieee"


@functools.cache
def limits_of(device: torch.device) -> Limits:
    """Return the limits of a GPU, or those of an H200 for a CPU."""
    if device.type != "cuda":
        return Limits()
    properties = torch.cuda.get_device_properties(device)
    # A program can ask for more than the default. torch has no such limit for AMD's GPUs.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return Limits(shared, properties.multi_processor_count)


# --8<-- [start:estimate]
# What a multiprocessor does in a nanosecond:
FLOPS = 11_000  # to be divided by the bytes of an element
FLOPS_BY_HAND = 500  # in float32, without the matrix units
BYTES = 80  # loaded from L2
# Nanoseconds:
LATENCY = 800  # from a request to its bytes, with many under way
TURN = 40  # the rest of a step, in which its warps wait for each other


def estimate(
    a_ptr, M, N, K, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, num_stages,
    limits=None, **_,
):
    """Return an estimate in nanoseconds: the tuner's ``perf_model``."""
    limits, size = limits or limits_of(a_ptr.device), a_ptr.element_size()
    flops = FLOPS_BY_HAND if by_hand(a_ptr, PRECISION) else FLOPS / size
    arithmetic = 2 * BLOCK_M * BLOCK_N * BLOCK_K / flops
    loads = (BLOCK_M + BLOCK_N) * BLOCK_K * size / BYTES
    # Programs on one multiprocessor share its arithmetic and loads, but
    # their waits overlap.
    shared = shared_bytes(size, BLOCK_M, BLOCK_N, BLOCK_K, num_stages)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    turns = triton.cdiv(tiles, limits.multiprocessors)
    together = max(1, min(limits.shared // shared, turns))
    step = max(
        arithmetic, loads, LATENCY / max(1, num_stages - 1) / together
    )
    return turns * (
        triton.cdiv(K, BLOCK_K) * (step + TURN) + 2 * LATENCY / together
    )
# --8<-- [end:estimate]


# --8<-- [start:tuned]
tuned_kernel = triton.autotune(
    configs=CONFIGS,
    key=["bucket", "K_EVEN", "PRECISION"],
    prune_configs_by={
        "early_config_prune": fits,
        "perf_model": estimate,
        "top_k": 6,
    },
    # Keep results on disk, beside the compiled code, for the next process.
    cache_results=True,
)(matmul_kernel)
# The tuner stores a call's arguments in itself, so only one thread may use
# it at a time.
tuning = threading.Lock()
# --8<-- [end:tuned]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor, b: torch.Tensor, *, config: triton.Config | None = None, input_precision: str = "ieee"
) -> torch.Tensor:
    """Return ``a @ b``, with sums in float32. The first product of a kind compiles and times configs for seconds.

    Timing has to wait for the GPU, which isn't possible while a CUDA graph is being captured. So multiply once before.

    Args:
        a: ``(M, K)``, float16, bfloat16 or float32, with any strides; on a GPU, or in the interpreter on the CPU.
        b: ``(K, N)`` with the dtype and the device of ``a`` and any strides.
        config: A config to use instead of tuning. The interpreter's default is ``INTERPRETED``.
        input_precision: For float32, ``"ieee"``, or the faster ``"tf32"`` or ``"tf32x3"``, as in ``tl.dot``.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    check_arguments(a, b, input_precision)
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if not c.numel():
        return c
    # --8<-- [start:launch]
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if interpreted and config is None:
        config = INTERPRETED
    grid = lambda meta: (-(-M // meta["BLOCK_M"]) * -(-N // meta["BLOCK_N"]),)
    given = {"PRECISION": input_precision, "INDEX": index_of(a, b, c)}
    with torch.cuda.device_of(a):
        if config is None:
            given["K_EVEN"] = K % K_MULTIPLE == 0
            with tuning:
                tuned_kernel[grid](*arguments(a, b, c), **given)
        else:
            check_config(config, M, N)
            given["K_EVEN"] = K % config.kwargs["BLOCK_K"] == 0
            matmul_kernel[grid](
                *arguments(a, b, c), **given, **config.all_kwargs()
            )
    # --8<-- [end:launch]
    return c


def index_of(*matrices):
    """Return the dtype for offsets within a tile, which has sides of 256 at most."""
    return tl.int64 if any(255 * sum(x.stride()) >= 2**31 for x in matrices) else tl.int32


def arguments(a, b, c):
    """Return the kernel's arguments, apart from its constants."""
    return a, b, c, a.shape[0], b.shape[1], a.shape[1], *a.stride(), *b.stride(), *c.stride(), bucket(a, b)
# --8<-- [end:host]


# --8<-- [start:prepare]
def prepare(
    a: torch.Tensor, b: torch.Tensor, *,
    input_precision: str = "ieee", threads: int | None = None,
) -> None:  # fmt: skip
    """Compile all configs that tuning would time, in parallel. This needs
    a GPU.

    Afterward, ``matmul(a, b)`` only has to time them.

    Raises:
        ValueError: If an argument is something the kernel can't serve, or
            if kernels run in the interpreter.
    """
    check_arguments(a, b, input_precision)
    if not isinstance(matmul_kernel, triton.JITFunction):
        raise ValueError(
            "TRITON_INTERPRET=1 is set: the interpreter compiles nothing"
        )
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    if c.numel():
        even = a.shape[1] % K_MULTIPLE == 0
        given = {
            "K_EVEN": even, "PRECISION": input_precision,
            "INDEX": index_of(a, b, c),
        }
        pool = ThreadPoolExecutor(threads)
        with (
            torch.cuda.device_of(a), tuning, pool,
            triton.AsyncCompileMode(pool),
        ):
            tuned_kernel.warmup(*arguments(a, b, c), **given, grid=(1,))
# --8<-- [end:prepare]


def check_arguments(a: torch.Tensor, b: torch.Tensor, input_precision: str) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    for name, x in (("a", a), ("b", b)):
        if x.device.type != ("cpu" if interpreted else "cuda"):
            where = "the CPU, interpreted" if interpreted else "a GPU"
            raise ValueError(f"{name} is on {x.device}; kernels run on {where}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} is {x.dtype}; it must be one of {', '.join(map(str, DTYPES))}")
        if x.dtype == torch.bfloat16 and interpreted:
            raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")
        if x.ndim != 2 or max(x.shape) >= 2**30:
            raise ValueError(f"{name} must have 2 dimensions, each below 2**30; got shape {tuple(x.shape)}")
    if a.shape[1] != b.shape[0] or a.dtype != b.dtype or a.device != b.device:
        raise ValueError(
            f"a must be (M, K) and b (K, N), of one dtype and on one device; "
            f"got {tuple(a.shape)} of {a.dtype} on {a.device} and {tuple(b.shape)} of {b.dtype} on {b.device}"
        )
    if input_precision not in PRECISIONS:
        raise ValueError(f"input_precision must be one of {', '.join(PRECISIONS)}; got {input_precision!r}")
    if input_precision == "tf32x3" and torch.version.hip is not None:
        raise ValueError("Triton has no tf32x3 on AMD's GPUs; use ieee there")
    if triton.cdiv(a.shape[0], 16) * triton.cdiv(b.shape[1], 32) >= 2**31:  # programs along one axis, smallest tiles
        raise ValueError(f"the result would be too large: {a.shape[0]} x {b.shape[1]}")


def check_config(config: triton.Config, M: int, N: int) -> None:
    """Raise ``ValueError`` for a config that gives no correct kernel for this result."""
    power = lambda size, low, high: isinstance(size, int) and low <= size <= high and size & (size - 1) == 0
    m, n, k, group = (config.kwargs.get(name) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"))
    if not all(power(side, 16, 256) for side in (m, n, k)):
        raise ValueError(f"BLOCK_M, BLOCK_N and BLOCK_K must be powers of two from 16 to 256; got {config}")
    if not isinstance(group, int) or min(group, config.num_stages) < 1 or not power(config.num_warps, 1, 32):
        raise ValueError(f"GROUP_M and num_stages must be at least 1, num_warps a power of two up to 32; got {config}")
    if max(-(-M // m), group) * -(-N // n) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"the result would be too large, or GROUP_M is: {M} x {N}, {config}")


def candidates(M: int, N: int, K: int, dtype: torch.dtype = torch.bfloat16, precision: str = "tf32") -> dict:
    """Return all configs, those that fit on an H200, and those that are timed there, ordered by the estimate."""
    given = {"a_ptr": torch.empty(0, dtype=dtype), "M": M, "N": N, "K": K, "PRECISION": precision}
    fit = fits(CONFIGS, given)
    ranked = sorted(fit, key=lambda c: estimate(**given, **c.all_kwargs()))
    return {"all": CONFIGS, "fit": fit, "timed": ranked[: tuned_kernel.configs_top_k]}


def brief(c: triton.Config) -> str:
    """Return a config as ``128x256x64 w8 s3``: tile, warps, stages."""
    return f"{'x'.join(str(c.kwargs[f'BLOCK_{side}']) for side in 'MNK')} w{c.num_warps} s{c.num_stages}"


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## right")
    a, b = (torch.randint(-3, 4, shape).to(device, torch.float16) for shape in ((100, 70), (70, 90)))
    for c in (CONFIGS[3], INTERPRETED):  # whole numbers: every sum is exact
        equal = torch.equal(matmul(a, b, config=c).double(), a.double() @ b.double())
        print(f"{brief(c)}:", "equal" if equal else "NOT equal")
    print("## candidates")
    for M, N, K, dtype in (
        (8192, 8192, 8192, torch.bfloat16), (8192, 8192, 8192, torch.float32), (1024, 1024, 1024, torch.bfloat16),
        (512, 512, 512, torch.bfloat16), (16, 4096, 4096, torch.bfloat16),
    ):  # fmt: skip
        left = candidates(M, N, K, dtype)
        counts = ", ".join(f"{len(found)} {name}" for name, found in left.items())
        print(f"{M} x {N} x {K} {str(dtype).removeprefix('torch.')}: {counts}")
        names = [brief(c) for c in left["timed"]]
        for first in range(0, len(names), 3):
            print("   ", ", ".join(names[first : first + 3]))
    print("## key")
    empty = lambda *shape: torch.empty(shape, device="meta")
    first = bucket(empty(4096, 4096), empty(4096, 4096))
    for name, x, y in (
        ("M = 4000", empty(4000, 4096), empty(4096, 4096)),
        ("M = 4097", empty(4097, 4096), empty(4096, 4096)),
        ("N = 4001", empty(4096, 4096), empty(4096, 4001)),
        ("N = 4088", empty(4096, 4096), empty(4096, 4088)),
        ("b transposed", empty(4096, 4096), empty(4096, 4096).T),
    ):
        print(f"{name}:", "the tuning of 4096 x 4096 x 4096" if bucket(x, y) == first else "a tuning of its own")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
