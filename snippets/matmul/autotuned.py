# SPDX-License-Identifier: Apache-2.0
"""Auto-tuning: a grouped matrix product that tries several tile shapes, and keeps the fastest for shapes of a kind.

``c = a @ b``. ``matmul_kernel`` takes tile shape, order and pipeline as compile-time arguments. ``tuned_kernel`` is the
same kernel inside :func:`triton.autotune`: for each new key it leaves out the configs that cannot work
(:func:`fits`), ranks the others by an estimate (:func:`estimate`), times the best few, and remembers the winner.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K.
Source: ``triton/runtime/autotuner.py``; the kernel is Triton's matrix multiplication tutorial's, with our own masks.

Run it on a GPU with ``python autotuned.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter: it cannot tune.
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
    bucket,  # the kernel has no use for it: it is the key of the tuning
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

    # Beyond the end, rows and columns begin again at the tile's first: what
    # they yield is not stored, and no load needs a mask for them.
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    rows, columns = (
        (tl.arange(0, BLOCK_M) % (M - m)).to(INDEX),
        (tl.arange(0, BLOCK_N) % (N - n)).to(INDEX),
    )
    k = tl.arange(0, BLOCK_K).to(INDEX)
    # One offset in 64 bits leads to the tile; those within it are INDEX, 32
    # bits where they suffice.
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
    # Large products. The larger a tile, the fewer bytes for each FLOP: (m +
    # n) / (m * n). These are the largest whose sums, 128 registers a
    # thread, leave room for the rest.
    config(128, 256, 64, warps=8, stages=3),
    config(256, 128, 64, warps=8, stages=3),  # the same for tall results
    # Loads run further ahead, for 48 KiB more.
    config(128, 256, 64, warps=8, stages=4),
    # Half of that tile, in half the warps: two programs fit on a
    # multiprocessor, and one computes while the other stores. Or one
    # program of more warps.
    config(128, 128, 64, warps=4, stages=3),
    config(128, 128, 64, warps=8, stages=4),
    # float32 takes twice the bytes. In steps of half the length they fit.
    config(128, 256, 32, warps=8, stages=4),
    config(128, 128, 32, warps=4, stages=4),
    # Medium products: 1024 x 1024 is only 32 tiles of 128 x 256, for 132
    # multiprocessors.
    config(64, 256, 64, warps=4, stages=4),
    config(64, 128, 64, warps=4, stages=4),
    config(128, 64, 64, warps=4, stages=4),
    # Small products: few steps along K, so load everything at once and wait
    # once.
    config(64, 64, 128, warps=4, stages=4),
    config(64, 32, 128, warps=4, stages=5),
    # A step small enough for float32.
    config(64, 64, 64, warps=4, stages=5),
    # A handful of rows: most of a tile of 64 rows would be empty. (Below 64
    # there is no wgmma, but here bytes decide.)
    config(16, 64, 128, warps=4, stages=4),
    config(32, 64, 128, warps=4, stages=4),
    config(16, 32, 256, warps=4, stages=3),
    # float32 in full precision, which no matrix unit takes: each
    # multiplication is an instruction. So short steps.
    config(128, 128, 16, warps=8, stages=3),
]
# --8<-- [end:configs]
K_MULTIPLE = math.lcm(*(c.kwargs["BLOCK_K"] for c in CONFIGS))
INTERPRETED = config(32, 32, 32, warps=4, stages=1)  # what the interpreter uses: it has no time to measure


# --8<-- [start:key]
def bucket(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return a number that products share if one tuning should do for all
    of them.

    What counts: sizes, up to the next power of two; the layouts of a, b and
    c; the kind of GPU, by the number of its multiprocessors. Dtypes are
    missing: the tuner adds them to every key.

    >>> x, y = torch.empty(4000, 512), torch.empty(4096, 512)
    >>> bucket(x, x.T) == bucket(y, x.T)
    True
    >>> bucket(x, x.T) == bucket(x, torch.empty(512, 4000))
    False
    """
    (M, K), N = a.shape, b.shape[1]
    number = limits_of(a.device).multiprocessors
    for size in (M, N, K):
        # No tile is smaller.
        number = number * 32 + (max(size, 16) - 1).bit_length()
    return (number * 36 + layout(a) * 6 + layout(b)) * 2 + (N % 16 == 0)


def layout(x: torch.Tensor) -> int:
    """Return whether rows have no gaps, or columns; and whether Triton
    compiles wide loads.

    For this it must know that lines are aligned: it compiles another kernel
    where sizes and strides are multiples of 16 elements and the first
    begins at one of 16 bytes.
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
    """Return how many bytes a program may share, and the multiprocessors."""

    shared: int = 232_448  # these are an H200's
    multiprocessors: int = 132


def shared_bytes(
    size: int, BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, num_stages: int
):
    """Return the bytes of shared memory for the tiles of a and b on their
    way, elements having ``size`` bytes.

    (Without wgmma, as for tiles of less than 64 rows, it is one stage
    less.)

    >>> shared_bytes(2, 128, 256, 64, 3)
    147456
    """
    return num_stages * (BLOCK_M + BLOCK_N) * BLOCK_K * size


def fits(configs, arguments, limits=None, **more):
    """Leave out what cannot work; the tuner's ``early_config_prune``."""
    given = {**arguments, **more}
    limits = limits or limits_of(given["a_ptr"].device)
    size, kept, shared = given["a_ptr"].element_size(), [], {}
    for c in configs:
        m, n, k = (
            c.kwargs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")
        )
        shared[c] = shared_bytes(size, m, n, k, c.num_stages)
        # A register each; a thread has 255 at most.
        sums = m * n / (32 * c.num_warps)
        fits_in = shared[c] <= limits.shared and sums <= 128
        # Is half of the tile outside of the result? Is a step thousands of
        # instructions?
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
    """Return whether a product needs more precision than matrix units have."""
    return a.dtype == torch.float32 and precision == "ieee"


@functools.cache
def limits_of(device: torch.device) -> Limits:
    """Return the limits of a GPU, or on a CPU those of an H200."""
    if device.type != "cuda":
        return Limits()
    properties = torch.cuda.get_device_properties(device)
    # More than a program gets unasked, where the GPU has it; torch names no such limit on AMD's GPUs.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return Limits(shared, properties.multi_processor_count)


# --8<-- [start:estimate]
# Of a multiprocessor, in a nanosecond:
FLOPS = 11_000  # divided by the bytes of an element
FLOPS_BY_HAND = 500  # in float32, without its matrix units
BYTES = 80  # from L2
# Nanoseconds:
LATENCY = 800  # from a request to its bytes, with many on the way
TURN = 40  # that a step takes besides: its warps wait for each other


def estimate(
    a_ptr, M, N, K, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, num_stages,
    limits=None, **_,
):
    """Return the nanoseconds it may take; the tuner's ``perf_model``."""
    limits, size = limits or limits_of(a_ptr.device), a_ptr.element_size()
    flops = FLOPS_BY_HAND if by_hand(a_ptr, PRECISION) else FLOPS / size
    arithmetic = 2 * BLOCK_M * BLOCK_N * BLOCK_K / flops
    loads = (BLOCK_M + BLOCK_N) * BLOCK_K * size / BYTES
    # Programs on one multiprocessor share both, but they wait at the same
    # time.
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
    # On disk, beside the compiled code, for the next process.
    cache_results=True,
)(matmul_kernel)
# It keeps the arguments of a call in itself, so one thread may use it at a
# time.
tuning = threading.Lock()
# --8<-- [end:tuned]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor, b: torch.Tensor, *, config: triton.Config | None = None, input_precision: str = "ieee"
) -> torch.Tensor:
    """Return ``a @ b``, added up in float32. The first product of a kind takes seconds: it compiles and times.

    To time, it waits for the GPU, which a CUDA graph that is being captured does not allow: so multiply once before.

    Args:
        a: ``(M, K)``, float16, bfloat16 or float32, any strides; on a GPU, or in the interpreter on the CPU.
        b: ``(K, N)`` of the dtype and on the device of ``a``, any strides.
        config: One config to use instead of tuning; the interpreter has ``INTERPRETED`` if there is none.
        input_precision: For float32, ``"ieee"``, or the faster ``"tf32"`` or ``"tf32x3"``, as in ``tl.dot``.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

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
    """Return the dtype for offsets within a tile, whose sides are 256 at most."""
    return tl.int64 if any(255 * sum(x.stride()) >= 2**31 for x in matrices) else tl.int32


def arguments(a, b, c):
    """Return what the kernel is given, apart from its constants."""
    return a, b, c, a.shape[0], b.shape[1], a.shape[1], *a.stride(), *b.stride(), *c.stride(), bucket(a, b)
# --8<-- [end:host]


# --8<-- [start:prepare]
def prepare(
    a: torch.Tensor, b: torch.Tensor, *,
    input_precision: str = "ieee", threads: int | None = None,
) -> None:  # fmt: skip
    """Compile all configs that tuning would time, side by side. On a GPU
    only.

    Afterwards ``matmul(a, b)`` has only to time them.

    Raises:
        ValueError: An argument is something that the kernel cannot serve,
            or kernels run in the interpreter.
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
    """Raise ``ValueError`` for what the kernel would compute wrongly or not at all."""
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
        if x.is_neg():  # the kernel would read memory in which the sign is not yet applied
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
    """Raise ``ValueError`` for a config of which no right kernel for this result can be made."""
    power = lambda size, low, high: isinstance(size, int) and low <= size <= high and size & (size - 1) == 0
    m, n, k, group = (config.kwargs.get(name) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"))
    if not all(power(side, 16, 256) for side in (m, n, k)):
        raise ValueError(f"BLOCK_M, BLOCK_N and BLOCK_K must be powers of two from 16 to 256; got {config}")
    if not isinstance(group, int) or min(group, config.num_stages) < 1 or not power(config.num_warps, 1, 32):
        raise ValueError(f"GROUP_M and num_stages must be at least 1, num_warps a power of two up to 32; got {config}")
    if max(-(-M // m), group) * -(-N // n) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"the result would be too large, or GROUP_M is: {M} x {N}, {config}")


def candidates(M: int, N: int, K: int, dtype: torch.dtype = torch.bfloat16, precision: str = "tf32") -> dict:
    """Return which configs an H200 leaves: ``{"all": …, "fit": …, "timed": …}``, the last in the order of the estimate.
    """
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
