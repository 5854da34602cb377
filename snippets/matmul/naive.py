# SPDX-License-Identifier: Apache-2.0
"""A matrix product by tiles: one program computes one tile of ``c = a @ b``, walking along K, right on every size.

``c[m, n] = Σₖ a[m, k] · b[k, n]``. A program loads a tile of ``a`` and one of ``b``, multiplies them, adds the result
to an accumulator in float32, and goes on to the next tiles along K. Masks along M, N and K keep it inside.

Shapes: ``a (M, K)``, ``b (K, N)``, ``c (M, N)``; any sizes from 0, any strides; float16, bfloat16 or float32.
Traffic, counted in elements: each of ``a`` is loaded once for every column of tiles, each of ``b`` once for every row
of tiles, and each of ``c`` is stored once. Arithmetic: 2·M·N·K operations.
Source: ``torch.matmul`` defines the result; ``tl.dot`` is in Triton's documentation.

This is the first rung of a ladder: clear and correct. The lessons after it make it faster.

How fast it is: ``naive_measured.py``.

Run it on a GPU with ``python naive.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LONGEST = 2**30  # of a dimension, so that an index beyond its end still fits in 32 bits


# --8<-- [start:helpers]
@triton.jit
def my_tile(N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    return pid // tiles_n * BLOCK_M, pid % tiles_n * BLOCK_N


@triton.jit
def place(
    ptr, row, column, ROWS, COLUMNS, stride_row, stride_column,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    begin = tl.cast(row, tl.int64) * stride_row
    begin += tl.cast(column, tl.int64) * stride_column
    down, right = (
        tl.arange(0, HEIGHT)[:, None],
        tl.arange(0, WIDTH)[None, :],
    )
    inside = (down < ROWS - row) & (right < COLUMNS - column)
    return ptr + begin + (down * stride_row + right * stride_column), inside
# --8<-- [end:helpers]


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:begin]
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # --8<-- [end:begin]
    # --8<-- [start:loop]
    for k in range(0, K, BLOCK_K):
        a_ptrs, a_inside = place(
            a_ptr, m, k, M, K, stride_am, stride_ak, BLOCK_M, BLOCK_K
        )  # fmt: skip
        b_ptrs, b_inside = place(
            b_ptr, k, n, K, N, stride_bk, stride_bn, BLOCK_K, BLOCK_N
        )  # fmt: skip
        a = tl.load(a_ptrs, mask=a_inside, other=0)
        b = tl.load(b_ptrs, mask=b_inside, other=0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    # --8<-- [end:loop]
    # --8<-- [start:end]
    c_ptrs, c_inside = place(
        c_ptr, m, n, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N
    )  # fmt: skip
    tl.store(c_ptrs, accumulator, mask=c_inside)  # rounded to c's dtype
    # --8<-- [end:end]
# --8<-- [end:kernel]


# --8<-- [start:host]
def matmul(a: torch.Tensor, b: torch.Tensor, *, tile: tuple[int, int, int] | None = None) -> torch.Tensor:
    """Return ``a @ b``.

    Args:
        a: ``(M, K)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, of any strides.
        b: ``(K, N)`` of the dtype and on the device of ``a``, of any strides.
        tile: ``(BLOCK_M, BLOCK_N, BLOCK_K)``, powers of two, the last at least 16. A program computes
            ``BLOCK_M × BLOCK_N`` elements of the result, in steps of ``BLOCK_K``. Default: :func:`default_tile`.

    Returns:
        A new, contiguous tensor ``(M, N)`` of the dtype of ``a``; zeros where K is 0. Sums are kept in float32, and
        float32 is multiplied as float32, not as TF32. The kernel may still be running when it is returned.

    Raises:
        ValueError: ``a``, ``b`` or ``tile`` is something that the kernel cannot serve.

    >>> matmul(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[4.0], [5.0], [6.0]]))
    tensor([[32.]])
    """
    check_arguments(a, b)
    (M, K), N = a.shape, b.shape[1]
    BLOCK_M, BLOCK_N, BLOCK_K = tile = check_tile(default_tile(a.dtype, K) if tile is None else tile)
    # --8<-- [start:grid]
    programs = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    # --8<-- [end:grid]
    if programs >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"a result of {M} × {N} by the tile {tile} takes {programs} programs; 2**31 - 1 is the limit")
    # --8<-- [start:result]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    # --8<-- [end:result]
    for name, x, sides in (("a", a, (BLOCK_M, BLOCK_K)), ("b", b, (BLOCK_K, BLOCK_N)), ("c", c, (BLOCK_M, BLOCK_N))):
        check_span(name, x.shape, x.stride(), sides)
    if programs:
        # --8<-- [start:launch]
        options = {
            "num_warps": 8 if BLOCK_M * BLOCK_N >= 128 * 128 else 4,
            "num_stages": 3,
        }
        with torch.cuda.device_of(a):
            matmul_kernel[(programs,)](
                a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, **options,
            )  # fmt: skip
        # --8<-- [end:launch]
    return c


def default_tile(dtype: torch.dtype, K: int) -> tuple[int, int, int]:
    """Return a tile for the matrix units or, for float32, one for the units that multiply float32 as it is.

    >>> default_tile(torch.bfloat16, 4096), default_tile(torch.bfloat16, 20)
    ((128, 128, 64), (128, 128, 32))
    """
    if dtype == torch.float32:
        return 64, 64, 16
    return 128, 128, 16 if K <= 16 else 32 if K <= 32 else 64
# --8<-- [end:host]


def check_tile(tile) -> tuple[int, int, int]:
    """Return ``tile``, or raise ``ValueError`` if no kernel can be compiled for it."""
    sides = tuple(tile)
    if len(sides) != 3 or not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in sides):
        raise ValueError(f"tile must be three powers of two, BLOCK_M, BLOCK_N and BLOCK_K; got {tile!r}")
    m, n, k = sides
    if k < 16 or m * n > 2**14 or (m + n) * k > 2**14:
        raise ValueError(
            "BLOCK_K must be at least 16, and BLOCK_M · BLOCK_N and (BLOCK_M + BLOCK_N) · BLOCK_K at most 2**14, for "
            f"accumulator and tiles to fit in a multiprocessor (with float32, in one of an A100 or H200); got {tile!r}"
        )
    return sides


def check_span(name: str, shape, strides, sides) -> None:
    """Raise ``ValueError`` if the elements of one tile lie too far apart for offsets of 32 bits.

    >>> check_span("a", (2**20, 2**20), (2**20, 1), (128, 64))  # 2**40 elements, but those of a tile are close
    """
    span = sum((min(side, size) - 1) * stride for side, size, stride in zip(sides, shape, strides, strict=True))
    if span >= 2**31:
        raise ValueError(
            f"{name} has strides {tuple(strides)}: in a tile of {sides[0]} × {sides[1]}, elements would lie {span} "
            f"apart; 2**31 - 1 is the limit. Take a smaller tile, or of a and b contiguous copies"
        )


def check_arguments(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that :func:`matmul` would compute wrongly or not at all."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a must be (M, K) and b (K, N); got {tuple(a.shape)} and {tuple(b.shape)}")
    if b.dtype != a.dtype or b.device != a.device:
        raise ValueError(f"a is {a.dtype} on {a.device} and b {b.dtype} on {b.device}; they must be alike")
    if a.dtype not in DTYPES:
        raise ValueError(f"dtype {a.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if a.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and a.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    if max(*a.shape, *b.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**30; got {tuple(a.shape)} and {tuple(b.shape)}")
    for name, tensor in (("a", a), ("b", b)):
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.is_neg():  # the kernel would read memory in which the sign is not yet applied
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


# --8<-- [start:numbers]
@triton.jit
def tile_numbers_kernel(out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    out_ptrs, inside = place(out_ptr, m, n, M, N, N, 1, BLOCK_M, BLOCK_N)
    tl.store(out_ptrs, tl.program_id(axis=0), mask=inside)
# --8<-- [end:numbers]


def tile_numbers(M: int, N: int, BLOCK_M: int, BLOCK_N: int, device: str) -> torch.Tensor:
    """Return for each element of an M × N result the number of the program that computes it.

    >>> tile_numbers(2, 6, 1, 4, "cpu").tolist()
    [[0, 0, 0, 0, 1, 1], [2, 2, 2, 2, 3, 3]]
    """
    out = torch.empty((M, N), dtype=torch.int32, device=device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    with torch.cuda.device_of(out):
        tile_numbers_kernel[grid](out, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return out


# --8<-- [start:error]
def error(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """Return ‖c − ab‖ / ‖ab‖, the product ``ab`` computed in float64.

    >>> a = torch.eye(2)
    >>> error(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), a, a)  # 1 of √2
    0.7071067811865475
    """
    exact = a.double() @ b.double()
    return ((c.double() - exact).norm() / exact.norm()).item()
# --8<-- [end:error]


# --8<-- [start:short]
def short_step(device):
    """Try a step of 8 along K, which :func:`matmul` refuses, and say what comes of it."""
    a, b, c = (torch.ones(shape, device=device) for shape in ((16, 8), (8, 16), (16, 16)))
    block = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 8}
    try:
        matmul_kernel[(1,)](a, b, c, 16, 16, 8, *a.stride(), *b.stride(), *c.stride(), **block)
    except triton.CompilationError as error:
        return str(error).splitlines()[-1]
    return f"computed, {'right' if c.eq(8).all() else 'wrong'}"
# --8<-- [end:short]


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## toy")
    # --8<-- [start:toy]
    a = torch.arange(1.0, 13.0, device=device).view(3, 4)
    b = torch.arange(1.0, 21.0, device=device).view(4, 5)
    c = matmul(a, b, tile=(16, 16, 16))
    # --8<-- [end:toy]
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        print(f"{name} =", *matrix.int().tolist(), sep="\n    ")
    products = [f"{x:.0f}·{y:.0f}" for x, y in zip(a[1].tolist(), b[:, 2].tolist(), strict=True)]
    print(f"row 1 of a, column 2 of b: {' + '.join(products)} = {c[1, 2].item():.0f}")

    print("## programs")
    for row in tile_numbers(7, 10, 4, 4, device).tolist():
        print(*row)

    print("## steps")
    # --8<-- [start:steps]
    torch.manual_seed(0)
    a = torch.randint(-4, 5, (7, 40)).float().to(device)
    b = torch.randint(-4, 5, (40, 10)).float().to(device)
    c = matmul(a, b, tile=(4, 4, 16))
    # --8<-- [end:steps]
    for end in (16, 32, 40):
        part = matmul(a[:, :end], b[:end], tile=(4, 4, 16))
        print(f"k from 0 to {end - 1}: c[2, 5] =", int(part[2, 5].item()))
    print("all of c:", "equal to torch" if torch.equal(c, a @ b) else "NOT equal to torch")

    print("## accumulator")
    ones = torch.ones(1, 4096, dtype=torch.float16, device=device)
    total = torch.zeros(1, dtype=torch.float16)
    for _ in range(4096):
        total += 1
    print("4096 ones, added up in float16:", int(total.item()))
    print("4096 ones, by matmul:", int(matmul(ones, ones.t()).item()))

    print("## odd sizes")
    a = torch.randint(-2, 3, (130, 77)).to(device, torch.float16)
    b = torch.randint(-2, 3, (77, 141)).to(device, torch.float16)
    equal = torch.equal(matmul(a, b).float(), a.float() @ b.float())
    print("130 × 77 @ 77 × 141:", "equal to torch" if equal else "NOT equal to torch")

    print("## a step of 8")
    print(short_step(device))

    print("## error")
    for dtype in DTYPES:
        if device == "cpu" and dtype == torch.bfloat16:
            continue  # the interpreter cannot
        a, b = torch.randn(2, 256, 256).to(device, dtype)
        print(f"{str(dtype).removeprefix('torch.')}: {error(matmul(a, b), a, b):.1e}")


if __name__ == "__main__":
    main()
