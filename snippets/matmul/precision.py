# SPDX-License-Identifier: Apache-2.0
"""What a matrix product is computed in: ``input_precision`` for float32, and the dtype that sums are kept in.

``c = a @ b``. Matrix units do not multiply float32. ``tf32`` cuts each number to 10 bits of fraction and multiplies
that. ``tf32x3`` splits each number in two parts, large and small, and adds three products of parts. ``ieee`` does
without matrix units and multiplies float32 as it is.

- :func:`matmul`: the product, with these choices
- :func:`cut_to_tf32`, :func:`round_to_tf32`, :func:`by_parts`: the same on paper, in torch, on any device
- :func:`relative_error`: against float64

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K, whatever the units do inside.
Sources: ``tl.dot`` in Triton's documentation; the split is that of Ootomo and Yokota, *Recovering single precision
accuracy from Tensor Cores* (2022).

Run it on a GPU with ``python precision.py``, or in Triton's interpreter with ``TRITON_INTERPRET=1``, which multiplies
float32 as float32 whatever ``input_precision`` says.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PRECISIONS = ("tf32", "tf32x3", "ieee")
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:kernel]
@triton.jit
def position(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile, by the grouped order: GROUP_M tiles down, then the next column."""
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    within = pid % per_group
    return first_m + within % height, within // height


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    INPUT_PRECISION: tl.constexpr, SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = position(tl.program_id(axis=0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    step = tl.full((), BLOCK_K, tl.int64)
    # --8<-- [start:loop]
    acc = tl.zeros((BLOCK_M, BLOCK_N), SUMS)
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0)
        b = tl.load(b_ptrs, mask=inside[:, None] & (n[None, :] < N), other=0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION, out_dtype=SUMS)
        a_ptrs += step * stride_ak
        b_ptrs += step * stride_bk
    # --8<-- [end:loop]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
# --8<-- [end:kernel]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor, b: torch.Tensor, *, input_precision: str = "tf32", sums: torch.dtype = torch.float32,
    out_dtype: torch.dtype | None = None, block: dict | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return ``a @ b``.

    Args:
        a: ``(M, K)`` on a GPU (in the interpreter: on the CPU), with one of ``DTYPES`` and any strides.
        b: ``(K, N)`` of the dtype and on the device of ``a``, with any strides. On Hopper, float32 is fastest where
            columns of ``b`` have no gaps, as in ``weight.T``.
        input_precision: How float32 is multiplied, one of ``PRECISIONS``. It changes nothing for 16-bit inputs.
        sums: The dtype in which products are added up: float32, or float16 where ``a`` is float16.
        out_dtype: One of ``DTYPES``; by default that of ``a``.
        block: Sides of a tile and options of the launch; by default those of :func:`choose_block`, with fewer stages
            where a GPU has less shared memory.

    Returns:
        A new, contiguous tensor ``(M, N)``, rounded once from ``sums``. K = 0 gives zeros. The kernel may still be
        running when it is returned.

    Raises:
        ValueError: The arguments are not as above.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    out_dtype = out_dtype or a.dtype
    check_arguments(a, b, input_precision, sums, out_dtype)
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=out_dtype, device=a.device)
    if c.numel() == 0:
        return c
    chosen = None
    if block is None:
        chosen = a.dtype, input_precision, a.device
        block = FEWER.get(chosen) or choose_block(a.dtype, input_precision)
    else:
        check_block(block)
    tiles_n = triton.cdiv(N, block["BLOCK_N"])
    grid = (triton.cdiv(M, block["BLOCK_M"]) * tiles_n,)
    if max(grid[0], block["GROUP_M"] * tiles_n) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"a result of {M} x {N} takes too many tiles; split it")
    try:
        with torch.cuda.device_of(a):
            matmul_kernel[grid](
                a, b, c, M, N, K, *a.stride(), *b.stride(),
                INPUT_PRECISION=input_precision, SUMS=tl.float16 if sums == torch.float16 else tl.float32, **block,
            )  # fmt: skip
    except triton.OutOfResources as error:  # the default blocks were found on an H200; others have less shared memory
        if chosen is None or block["num_stages"] == 1:
            raise ValueError(f"{block} does not fit on {a.device}: {error}") from None
        FEWER[chosen] = block | {"num_stages": block["num_stages"] - 1}
        return matmul(a, b, input_precision=input_precision, sums=sums, out_dtype=out_dtype)
    return c


FEWER = {}  # by dtype, precision and device: a block with fewer stages, where a GPU has no room for all


def choose_block(dtype: torch.dtype, input_precision: str) -> dict:
    """Return the sides of a tile and the options of the launch. What is split or multiplied in registers needs more."""
    if dtype != torch.float32:
        return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    if input_precision == "tf32":
        return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    if input_precision == "tf32x3":
        return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 16, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
# --8<-- [end:host]


def check_block(block: dict) -> None:
    """Raise ``ValueError`` for a block of which no right kernel can be made."""
    power = lambda size, low, high: isinstance(size, int) and low <= size <= high and size & (size - 1) == 0
    if not all(power(block.get(side), 16, 256) for side in ("BLOCK_M", "BLOCK_N", "BLOCK_K")):
        raise ValueError(f"BLOCK_M, BLOCK_N and BLOCK_K must be powers of two from 16 to 256; got {block}")
    group, stages = block.get("GROUP_M"), block.get("num_stages", 1)
    if not isinstance(group, int) or min(group, stages) < 1 or not power(block.get("num_warps", 4), 1, 32):
        raise ValueError(f"GROUP_M and num_stages must be at least 1, num_warps a power of two up to 32; got {block}")


def check_arguments(a, b, input_precision, sums, out_dtype) -> None:
    """Raise ``ValueError`` for arguments that :func:`matmul` would get wrong, or can't serve at all."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N); got {tuple(a.shape)} and {tuple(b.shape)}")
    if b.dtype != a.dtype or b.device != a.device:
        raise ValueError(f"a is {a.dtype} on {a.device} and b {b.dtype} on {b.device}; they must be alike")
    if a.dtype not in DTYPES or out_dtype not in DTYPES:
        raise ValueError(f"dtypes are {', '.join(map(str, DTYPES))}; got {a.dtype}, and {out_dtype} for the result")
    if input_precision not in PRECISIONS:
        raise ValueError(f"input_precision must be one of {', '.join(PRECISIONS)}; got {input_precision!r}")
    if input_precision == "tf32x3" and torch.version.hip is not None:
        raise ValueError("Triton has no tf32x3 on AMD's GPUs; use ieee there")
    if sums != torch.float32 and not sums == a.dtype == torch.float16:
        raise ValueError(f"sums must be torch.float32, or torch.float16 for float16; got {sums} for {a.dtype}")
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if a.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and torch.bfloat16 in (a.dtype, out_dtype):
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    if max(*a.shape, *b.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**30; got {tuple(a.shape)} and {tuple(b.shape)}")
    for name, x in (("a", a), ("b", b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")


# --8<-- [start:paper]
def cut_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers with the last 13 of their 23 bits of fraction
    set to zero: what Hopper multiplies.

    Infinities and NaN stay as they are. Raises ``ValueError`` if ``x`` is
    not float32.

    >>> cut_to_tf32(torch.tensor([3.14159274]))
    tensor([3.1406])
    """
    return first_bits(x)


def round_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Return the nearest numbers with 10 bits of fraction, halfway away
    from zero: PTX's ``cvt.rna.tf32``.

    >>> round_to_tf32(torch.tensor([1.0, 1.0 + 2**-11, 1.0 + 2**-12])).tolist()
    [1.0, 1.0009765625, 1.0]
    """
    return first_bits(x, plus=2**12)


def first_bits(x: torch.Tensor, plus: int = 0) -> torch.Tensor:
    """Add ``plus`` to the bits of finite float32; clear the last 13."""
    if x.dtype != torch.float32:
        raise ValueError(f"x must be float32; got {x.dtype}")
    bits = (x.view(torch.int32) + plus) & -(2**13)
    return torch.where(x.isfinite(), bits.view(torch.float32), x)


def by_parts(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b`` as ``tf32x3`` computes it, as three products of TF32
    parts, but with sums in float64.

    For finite float32 numbers only, because infinity minus itself is NaN.

    >>> by_parts(torch.tensor([[3.0]]), torch.tensor([[3.14159274]])).item()
    9.424777507781982
    """
    large_a, large_b = round_to_tf32(a), round_to_tf32(b)
    small_a, small_b = (
        cut_to_tf32(x - large).double()
        for x, large in ((a, large_a), (b, large_b))
    )
    large_a, large_b = large_a.double(), large_b.double()
    # The product of two small parts is too small to matter.
    return large_a @ large_b + large_a @ small_b + small_a @ large_b
# --8<-- [end:paper]


# --8<-- [start:error]
def relative_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """``||result - exact|| / ||exact||``, by the root of the sum of squares.

    >>> relative_error(torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0]))
    0.2
    """
    exact = exact.double()
    return ((result.double() - exact).norm() / exact.norm()).item()
# --8<-- [end:error]


# --8<-- [start:settings]
SETTINGS = ("nothing", "allow_tf32=True", "allow_tf32=False", 'input_precision="ieee"')


@triton.jit
def setting_kernel(a_ptr, b_ptr, c_ptr, SETTING: tl.constexpr):
    """One product of 64 x 16 and 16 x 16, b by columns, with a setting of ``tl.dot`` that is old, new or absent."""
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :]
    a = tl.load(a_ptr + m * 16 + tl.arange(0, 16)[None, :])
    b = tl.load(b_ptr + n * 16 + tl.arange(0, 16)[:, None])
    if SETTING == "nothing":
        c = tl.dot(a, b)
    elif SETTING == "allow_tf32=True":
        c = tl.dot(a, b, allow_tf32=True)
    elif SETTING == "allow_tf32=False":
        c = tl.dot(a, b, allow_tf32=False)
    else:
        c = tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m * 16 + n, c)
# --8<-- [end:settings]


# Small tiles, so that the compiled code of main() is short enough to read.
SMALL = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## on paper")
    # --8<-- [start:toy]
    pi = torch.tensor([3.14159274])
    large = cut_to_tf32(pi)
    small = cut_to_tf32(pi - large)
    parts = {
        "float32": pi, "cut to TF32": large, "what that lost": pi - large, "cut as well": small, "both": large + small
    }  # fmt: skip
    for name, x in parts.items():
        bits = f"{x.view(torch.int32).item():032b}"
        print(f"{name:14}  {bits[0]} {bits[1:9]} {bits[9:19]} {bits[19:]}  {x.item():.10f}")
    # --8<-- [end:toy]

    torch.manual_seed(0)
    a, weight = torch.randn(64, 1024), torch.randn(64, 1024)
    b = weight.T
    exact = a.double() @ b.double()
    print("## errors on paper")
    rounded, cut = (to_tf32(a).double() @ to_tf32(b).double() for to_tf32 in (round_to_tf32, cut_to_tf32))
    print(f"inputs rounded to TF32: {relative_error(rounded, exact):.1e}")
    print(f"inputs cut to TF32: {relative_error(cut, exact):.1e}")
    # All that is cut off makes numbers smaller, so part of the error is the same in all results: one factor.
    factor = (cut * exact).sum() / cut.square().sum()
    print(f"the same, times {factor:.5f}: {relative_error(cut * factor, exact):.1e}")
    print(f"three products of parts: {relative_error(by_parts(a, b), exact):.1e}")

    print("## errors")
    a, b, exact = a.to(device), b.to(device), exact.to(device)
    for precision in PRECISIONS:  # launches 0, 1, 2
        c = matmul(a, b, input_precision=precision, block=SMALL)
        print(f"{precision}: {relative_error(c, exact):.1e}")

    print("## float16")
    a16, b16 = a.half(), b.half()
    exact16 = a16.double() @ b16.double()
    for name, sums in (("float32", torch.float32), ("float16", torch.float16)):  # launches 3, 4
        c = matmul(a16, b16, sums=sums, out_dtype=torch.float32, block=SMALL)
        print(f"sums in {name}, against the product of the float16 numbers: {relative_error(c, exact16):.1e}")
        print(f"sums in {name}, against the original numbers: {relative_error(c, exact):.1e}")

    print("## settings")
    a, b = a[:, :16].contiguous(), weight[:16, :16].contiguous().to(device)
    exact = a.double() @ b.double().T
    for setting in SETTINGS:  # launches 5 to 8
        c = torch.empty(64, 16, device=device)
        setting_kernel[(1,)](a, b, c, SETTING=setting)
        print(f"{setting}: {relative_error(c, exact):.1e}")


if __name__ == "__main__":
    main()
