# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices with persistent programs, ``c = a @ b``, and let the TMA fetch their tiles.

Three things change compared with the grouped kernel. Each tile is fetched with a single instruction to the Tensor
Memory Accelerator (TMA), which computes addresses and checks bounds by itself. There is one program per multiprocessor
instead of one per tile, and it computes one tile after another. And the two loops, over tiles and along K, become one
loop, so the first loads of the next tile are under way while the last tile is still being computed and stored. On
Hopper and later GPUs, a product can also begin before the previous kernel has ended.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K.
Sources: Triton's tutorial *Persistent matmul*; NVIDIA's documentation of tensor maps, for what a descriptor can hold.

Run it on a GPU with ``python persistent.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python persistent.py``.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PRECISIONS = ("tf32", "tf32x3", "ieee")


# --8<-- [start:position]
@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return a tile's row and column in the grouped order: GROUP_M tiles down, then the next column."""
    tiles_per_group = GROUP_M * tiles_n
    first_m = tile // tiles_per_group * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    in_group = tile % tiles_per_group
    return first_m + in_group % group_m, in_group // group_m
# --8<-- [end:position]


# --8<-- [start:store]
@triton.jit
def store_tile(
    c, m, n, M, N, tile,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SUBTILES: tl.constexpr,
):  # fmt: skip
    """Store a tile in SUBTILES parts, or through pointers if that is 0."""
    if SUBTILES > 1:
        HALF: tl.constexpr = BLOCK_N // 2
        halves = tl.permute(tl.reshape(tile, (BLOCK_M, 2, HALF)), (0, 2, 1))
        left, right = tl.split(halves)
        store_tile(c, m, n, M, N, left, BLOCK_M, HALF, SUBTILES // 2)
        store_tile(
            c, m, n + HALF, M, N, right, BLOCK_M, HALF, SUBTILES // 2
        )
    elif SUBTILES == 1:
        c.store([m, n], tile.to(c.dtype))
    else:
        rows = (m + tl.arange(0, BLOCK_M))[:, None]
        columns = (n + tl.arange(0, BLOCK_N))[None, :]
        offsets = rows.to(tl.int64) * N + columns
        mask = (rows < M) & (columns < N)
        tl.store(c + offsets, tile.to(c.dtype.element_ty), mask=mask)
# --8<-- [end:store]


# --8<-- [start:kernel]
# --8<-- [start:signature]
@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SUBTILES: tl.constexpr,
    FLATTEN: tl.constexpr, A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr, PRECISION: tl.constexpr,
    EARLY: tl.constexpr,
):
    # --8<-- [end:signature]
    # --8<-- [start:early]
    # This program may have begun while the previous kernel was still running.
    if EARLY:
        gdc_wait()  # until everything the previous kernel wrote can be read
        # Once every program has called this, the next kernel may begin.
        gdc_launch_dependents()
    # --8<-- [end:early]
    # --8<-- [start:count]
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    # --8<-- [end:count]
    # --8<-- [start:loop]
    stored = pid - programs
    for tile in tl.range(pid, tiles_m * tiles_n, programs, flatten=FLATTEN):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a_tile = a.load([k, m]).T if A_TRANSPOSED else a.load([m, k])
            b_tile = b.load([n, k]).T if B_TRANSPOSED else b.load([k, n])
            accumulator = tl.dot(
                a_tile, b_tile, accumulator, input_precision=PRECISION
            )
        # Compute m and n again, because the loads may already be at the next
        # tile. On Hopper the compiler could keep them; on Blackwell it can't,
        # according to Triton's tutorial.
        stored += programs
        pid_m, pid_n = position(stored, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        store_tile(c, m, n, M, N, accumulator, BLOCK_M, BLOCK_N, SUBTILES)
    # --8<-- [end:loop]
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """How to cut a product into tiles and schedule them."""

    # Rows of a tile of c. Below 64, Hopper's fast matrix instruction
    # (wgmma) isn't used.
    block_m: int
    block_n: int  # columns of a tile of c
    block_k: int  # columns of a loaded in one step
    # 4 warps can hold 128 x 128 sums in registers, 8 warps 128 x 256.
    num_warps: int
    # Buffers for the tiles of a and b. Loads run num_stages - 1 steps
    # ahead.
    num_stages: int
    # Tiles down before the next column of tiles, for reuse in L2.
    group_m: int = 8
    # Parts in which a tile is stored. More parts need less shared memory.
    # 0 stores through pointers.
    subtiles: int = 1
    # Programs per multiprocessor. 0 launches one per tile.
    per_sm: int = 1
    # Whether one loop goes over tiles and steps, so that the next tile's
    # loads begin before the store.
    flatten: bool = True
    # Whether to begin before the previous kernel has ended, if the GPU
    # can (programmatic dependent launch).
    early: bool = True


LARGE = Config(128, 256, 64, num_warps=8, num_stages=3, subtiles=2)
MEDIUM = Config(
    128, 128, 64,
    num_warps=4, num_stages=3, group_m=4, subtiles=4, per_sm=0,
    flatten=False,
)
SMALL = Config(
    64, 128, 128, num_warps=4, num_stages=4, per_sm=0, flatten=False
)
TINY = Config(
    64, 32, 256,
    num_warps=4, num_stages=3, group_m=4, per_sm=0, flatten=False,
)
# For dtypes of 16 bits. With 32, half the block_k fills the same memory.
HALF = (LARGE, MEDIUM, SMALL, TINY)
TF32 = (
    LARGE._replace(block_k=32, num_stages=4, subtiles=8),
    MEDIUM._replace(block_k=32), SMALL._replace(block_k=64),
    TINY._replace(block_k=128),
)
# For float32 in full precision, which the matrix units can't multiply.
FLOAT32 = Config(128, 128, 32, num_warps=8, num_stages=4, subtiles=2)


@functools.lru_cache(maxsize=4096)
def configuration(
    M: int, N: int, itemsize: int, multiprocessors: int,
    input_precision: str = "ieee",
) -> Config:
    """Return the config with the largest tiles that still keep most
    multiprocessors busy.

    The larger a tile, the fewer bytes each multiplication needs, but a
    multiprocessor without a tile computes nothing. We found these configs
    by timing many on an H200. Where programs compute several tiles each,
    beginning early gained nothing, so it is switched off.

    >>> configuration(4096, 4096, itemsize=2, multiprocessors=132).block_n
    256
    >>> configuration(512, 512, itemsize=2, multiprocessors=132).block_n
    32
    """
    if itemsize == 4 and input_precision != "tf32":
        return FLOAT32
    *larger, smallest = TF32 if itemsize == 4 else HALF
    config = next(
        (
            config
            for config in larger
            if tiles_of(M, N, config) >= 0.9 * multiprocessors
        ),
        smallest,
    )
    several = (
        config.per_sm
        and tiles_of(M, N, config) > config.per_sm * multiprocessors
    )
    # With rows of c that aren't multiples of 16 bytes, a tile is stored
    # through pointers, and passes through shared memory as a whole. In one
    # flat loop the next tile's loads are already there, and for float32
    # there isn't room for both.
    if itemsize == 4 and N % 4:
        config = config._replace(flatten=False)
    return config._replace(early=not several)
# --8<-- [end:config]


def tiles_of(M: int, N: int, config: Config) -> int:
    """Return the number of tiles in a product.

    (``triton.cdiv`` would cost microseconds on the host in Triton 3.7.)
    """
    return -(-M // config.block_m) * -(-N // config.block_n)


# --8<-- [start:described]
def described(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return a matrix that a descriptor can describe, and whether it is the transpose of ``x``.

    That is ``x`` itself if possible, or else its transpose, or else a copy of one of them. Its rows are contiguous, and
    begin at multiples of 16 bytes. A copy moves each element twice, which costs little next to a product, while
    unaligned loads would slow down the product itself.

    >>> x = torch.zeros(8, 16, dtype=torch.float16)
    >>> [(view.stride(), transposed) for view, transposed in (described(x), described(x.t()), described(x[:, 1:]))]
    [((16, 1), False), ((16, 1), True), ((16, 1), False)]
    """
    for transposed in (False, True):
        view = x.t() if transposed else x
        stride, step = view.stride()
        aligned = stride * x.itemsize % 16 == 0 and x.data_ptr() % 16 == 0
        if step == 1 and aligned and view.shape[1] <= stride < 2**36:  # rows of the TMA are under 2**40 bytes apart
            return view, transposed
    transposed = x.stride(0) <= x.stride(1)
    rows = x.t() if transposed else x
    width = triton.cdiv(rows.shape[1] * x.itemsize, 16) * 16 // x.itemsize
    copy = torch.empty((rows.shape[0], width), dtype=x.dtype, device=x.device)[:, : rows.shape[1]]
    return copy.copy_(rows), transposed
# --8<-- [end:described]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    config: Config | None = None,
    programs: int | None = None,
    input_precision: str = "ieee",
) -> torch.Tensor:
    """Return ``a @ b``, computed by :func:`matmul_kernel`.

    Args:
        a: ``(M, K)`` on a GPU (in the interpreter, on the CPU), with one of ``DTYPES`` and any strides.
        b: ``(K, N)``, otherwise like ``a``.
        config: How to cut and schedule the product. By default, :func:`configuration` chooses one for its size, with
            fewer stages on a GPU with less shared memory.
        programs: How many programs to launch at most. By default, the config decides. Fewer are launched if they need
            no more rounds: 128 programs compute 512 tiles in 4 rounds, and 132 would need 4 as well.
        input_precision: For float32, ``"ieee"``, or the faster ``"tf32"`` or ``"tf32x3"``, as in ``tl.dot``.

    Returns:
        A new contiguous tensor ``(M, N)`` of the dtype of ``a``; sums are in float32. The kernel may still be running.
        ``a`` or ``b`` is copied first if neither it nor its transpose has contiguous rows that begin at multiples of
        16 bytes.

    Raises:
        ValueError: If an argument is something the kernel can't serve, or if the config needs more shared memory than
            the GPU has. Only the compiler can tell that, so the error comes from the first launch. A default config
            that doesn't fit is tried again with one stage less; it raises the error only if one stage doesn't fit.

    >>> matmul(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [10.0]]))
    tensor([[21.],
            [43.]])
    """
    check_arguments(a, b, input_precision)
    if programs is not None and not (isinstance(programs, int) and programs > 0):
        raise ValueError(f"programs must be a whole number from 1; got {programs!r}")
    M, K, N = *a.shape, b.shape[1]
    given, chosen = (a, b), None
    if config is None:
        chosen = configuration(M, N, a.itemsize, multiprocessors(a.device), input_precision), a.device
        config = FEWER.get(chosen, chosen[0])
    else:
        check_config(config)
    tiles = tiles_of(M, N, config)
    if tiles >= 2**31 - 2**16 or config.group_m * -(-N // config.block_n) >= 2**31:  # both are counted in 32 bits
        raise ValueError(
            f"{M} x {N} elements are too many tiles of {config.block_m} x {config.block_n}, or group_m is too large"
        )
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if out.numel() == 0:
        return out  # there is nothing to launch
    if K == 0:
        return out.zero_()  # an empty sum; a descriptor can't describe an empty tensor
    # --8<-- [start:launch]
    (a, a_transposed), (b, b_transposed) = described(a), described(b)
    block_m, block_n, block_k = config[:3]
    subtiles = config.subtiles if N * out.itemsize % 16 == 0 else 0
    # --8<-- [start:descriptors]
    a_block = [block_k, block_m] if a_transposed else [block_m, block_k]
    b_block = [block_n, block_k] if b_transposed else [block_k, block_n]
    arguments = [
        TensorDescriptor.from_tensor(a, a_block),
        TensorDescriptor.from_tensor(b, b_block),
        out,
    ]
    # --8<-- [end:descriptors]
    if subtiles:
        arguments[2] = TensorDescriptor.from_tensor(
            out, [block_m, block_n // subtiles]
        )
    rounds = -(
        -tiles
        // (
            programs or config.per_sm * multiprocessors(out.device) or tiles
        )
    )
    early = config.early and can_begin_early(out.device)
    try:
        with torch.cuda.device_of(out):
            # --8<-- [start:call]
            # No more programs than these rounds need.
            matmul_kernel[(-(-tiles // rounds),)](
                *arguments,
                M,
                N,
                K,
                BLOCK_M=block_m,
                BLOCK_N=block_n,
                BLOCK_K=block_k,
                GROUP_M=config.group_m,
                SUBTILES=subtiles,
                FLATTEN=config.flatten,
                A_TRANSPOSED=a_transposed,
                B_TRANSPOSED=b_transposed,
                PRECISION=input_precision,
                EARLY=early,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
                **({"launch_pdl": True} if early else {}),
            )
            # --8<-- [end:call]
    # Only the compiler knows how much shared memory the kernel needs.
    except triton.OutOfResources as error:
        if chosen is None or config.num_stages == 1:
            raise ValueError(
                f"{config} does not fit on {out.device}: {error}"
            ) from None
        FEWER[chosen] = config._replace(num_stages=config.num_stages - 1)
        return matmul(
            *given, programs=programs, input_precision=input_precision
        )
    # --8<-- [end:launch]
    return out
# --8<-- [end:host]


FEWER = {}  # (config, device) to the same config with fewer stages, for a GPU without room for all of them


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has. The interpreter pretends to be an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


@functools.cache
def can_begin_early(device: torch.device) -> bool:
    """Return whether a kernel may begin before the previous one has ended, as on NVIDIA GPUs since Hopper."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)


def check_arguments(a: torch.Tensor, b: torch.Tensor, input_precision: str) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or max(*a.shape, *b.shape) >= 2**30:
        raise ValueError(
            f"a and b must be (M, K) and (K, N), each below 2**30; got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if a.dtype != b.dtype or a.dtype not in DTYPES:
        raise ValueError(f"a and b must be of one dtype of {', '.join(map(str, DTYPES))}; got {a.dtype} and {b.dtype}")
    if a.device != b.device or a.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a and b must be on one GPU; got {a.device} and {b.device}")
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if a.device.type == "cpu" and not interpreted:
        raise ValueError("a is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if a.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")
    for name, x in (("a", a), ("b", b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")
    if input_precision not in PRECISIONS:
        raise ValueError(f"input_precision must be one of {', '.join(PRECISIONS)}; got {input_precision!r}")
    if input_precision == "tf32x3" and torch.version.hip is not None:
        raise ValueError("Triton has no tf32x3 on AMD's GPUs; use ieee there")


def check_config(config: Config) -> None:
    """Raise ``ValueError`` for a config that gives no correct kernel."""
    power = lambda size, low, high: isinstance(size, int) and low <= size <= high and size & (size - 1) == 0
    if not all(power(size, 16, 256) for size in config[:3]):
        raise ValueError(f"block_m, block_n and block_k must be powers of two from 16 to 256; got {config[:3]}")
    if config.group_m < 1 or config.per_sm < 0 or config.num_stages < 1 or not power(config.num_warps, 1, 32):
        raise ValueError(f"group_m and num_stages must be at least 1, num_warps a power of two up to 32; got {config}")
    if config.subtiles and not power(config.subtiles, 1, config.block_n // 16):
        raise ValueError(f"subtiles must be 0 or a power of two, parts of 16 columns or more; got {config}")


# --8<-- [start:owners]
@triton.jit
def owners_kernel(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Store which program computes each tile in the loop of :func:`matmul_kernel`."""
    pid = tl.program_id(axis=0)
    for tile in tl.range(pid, tiles_m * tiles_n, tl.num_programs(axis=0)):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        tl.store(out_ptr + pid_m * tiles_n + pid_n, pid)
# --8<-- [end:owners]


def owners(tiles_m: int, tiles_n: int, programs: int, group_m: int, device: str) -> list[list[int]]:
    """Return the number of the program that computes each tile, row by row."""
    out = torch.full((tiles_m, tiles_n), -1, dtype=torch.int32, device=device)
    with torch.cuda.device_of(out):
        owners_kernel[(programs,)](out, tiles_m, tiles_n, GROUP_M=group_m)
    return out.tolist()


def whole_numbers(rows: int, columns: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return a matrix of small whole numbers, so that products of these sizes are exact even in float16."""
    random = torch.Generator().manual_seed(rows * columns)
    return torch.randint(-2, 3, (rows, columns), generator=random).to(device, dtype)


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## who takes which tile")
    for row in owners(4, 5, programs=6, group_m=2, device=device):
        print(*row)

    print("## a small product")
    # --8<-- [start:toy]
    a, b = whole_numbers(48, 8, torch.float32, device), whole_numbers(8, 32, torch.float32, device)
    toy = Config(16, 16, 16, num_warps=4, num_stages=2, group_m=2)
    print("exact:", torch.equal(matmul(a, b, config=toy, programs=2), a @ b))
    # --8<-- [end:toy]

    print("## what a descriptor can describe")
    x = torch.zeros(64, 100, dtype=torch.float16, device=device)
    y = torch.zeros(64, 104, dtype=torch.float16, device=device)
    views = {"y": y, "y.t()": y.t(), "y[:, 8:]": y[:, 8:], "y[:, 1:]": y[:, 1:], "y[:, ::2]": y[:, ::2], "x": x}
    for label, view in views.items():
        found, transposed = described(view)
        copied = found.untyped_storage().data_ptr() != view.untyped_storage().data_ptr()
        way = ("copied" if copied else "as it is") + ", transposed" * transposed
        print(f"{label}, strides {view.stride()}: {way}; rows {found.stride(0) * 2} bytes apart")

    print("## compiled")
    a, b = whole_numbers(256, 256, torch.float16, device), whole_numbers(256, 256, torch.float16, device)
    expected = a.float() @ b.float()
    small = Config(64, 64, 64, num_warps=4, num_stages=1, per_sm=0, flatten=False)
    configs = {f"{stages} stages": small._replace(num_stages=stages) for stages in range(1, 5)}
    configs["one loop over tiles and steps"] = small._replace(num_stages=4, flatten=True)
    configs["large"] = LARGE._replace(subtiles=1)
    for label, config in configs.items():
        exact = torch.equal(matmul(a, b, config=config).float(), expected)
        print(f"{label}, tiles of {config.block_m} x {config.block_n} x {config.block_k}, exact: {exact}")


if __name__ == "__main__":
    main()
