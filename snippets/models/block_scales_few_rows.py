# SPDX-License-Identifier: Apache-2.0
"""The product of ``block_scales.py`` for a few rows, as when a model writes: as fast as its weight is read.

With 16 rows, ``block_scales.py`` has too few programs to keep the memory busy, and each walks along all of K. Here

- several programs share a tile, each with a stretch of K. The last one to finish adds up all of their sums, in the
  order of K, so that every run gives the same bits (``snippets/matmul/few_rows.py``);
- the product is computed transposed, ``yᵀ = w xᵀ``. The matrix units multiply at least 64 rows at once, but can do with
  8 columns, so the many rows of ``w`` become the rows.

Shapes, scales, and what it computes: as in ``block_scales.py``, with up to 64 rows. Bytes: roughly those of ``w``.
Source: the lesson *A few rows* for the split; DeepSeek-V3's technical report, 2024, section 3.3, for the scales.

Run it on a GPU with ``python block_scales_few_rows.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.matmul.few_rows import counters
from snippets.matmul.fp8 import by_rows
from snippets.models import block_scales
from snippets.models.block_scales import BLOCK, E4M3, dequantize, multiprocessors

MOST_ROWS = 64


# --8<-- [start:kernel]
@triton.jit
def block_scaled_few_rows_kernel(
    x, w, y_ptr, partial_ptr, count_ptr, x_scales_ptr, w_scales_ptr,
    M, N, K, stride_xm, stride_xk, stride_wn, stride_wk, parts,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT: tl.constexpr,
    AHEAD: tl.constexpr,
):  # fmt: skip
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    steps = tl.cdiv(K, 128)
    begin, end = part * steps // parts, (part + 1) * steps // parts
    n = tile * BLOCK_N
    rows, columns = tl.arange(0, ROWS), n + tl.arange(0, BLOCK_N)
    # --8<-- [start:loop]
    x_scales_ptrs = (
        x_scales_ptr
        + rows.to(tl.int64) * stride_xm
        + begin.to(tl.int64) * stride_xk
    )
    w_scale_ptr = (
        w_scales_ptr
        + (n // 128).to(tl.int64) * stride_wn
        + begin.to(tl.int64) * stride_wk
    )
    acc = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    for step in tl.range(begin, end, num_stages=AHEAD):
        x_scale = tl.load(x_scales_ptrs, mask=rows < M)
        w_scale = tl.load(w_scale_ptr)
        k = step * 128
        # The weight comes first: its rows are many.
        product = tl.dot(w.load([n, k]), x.load([0, k]).T)
        acc += product * (x_scale * w_scale)[None, :]
        x_scales_ptrs += stride_xk
        w_scale_ptr += stride_wk
    # --8<-- [end:loop]
    # --8<-- [start:finish]
    far = rows[None, :].to(tl.int64) * N
    y_ptrs = y_ptr + far + columns[:, None]
    mask = (columns[:, None] < N) & (rows[None, :] < M)
    if not SPLIT:
        tl.store(y_ptrs, acc, mask=mask)
    else:
        piece = tile.to(tl.int64) * parts * BLOCK_N * ROWS
        inside = (columns - n)[:, None] + rows[None, :] * BLOCK_N
        pieces = partial_ptr + piece + inside
        tl.store(pieces + part * BLOCK_N * ROWS, acc)
        # All threads store before one of them counts.
        tl.debug_barrier()
        before = tl.atomic_add(
            count_ptr + tile, 1, sem="acq_rel", scope="gpu"
        )
        if before == parts - 1:  # the others have stored theirs
            acc = tl.load(pieces, cache_modifier=".cg")
            for other in range(1, parts):
                acc += tl.load(
                    pieces + other * BLOCK_N * ROWS, cache_modifier=".cg"
                )
            tl.store(y_ptrs, acc, mask=mask)
            tl.store(count_ptr + tile, 0)  # for the next launch
    # --8<-- [end:finish]
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """A tile of the result, and among how many programs it is divided."""

    rows: int
    block_n: int  # 128 at most: one square of the weight
    parts: int
    num_warps: int
    num_stages: int


def choose_config(M: int, N: int, K: int, multiprocessors: int) -> Config:
    """Return two programs for each multiprocessor, or fewer with more to do.

    We timed a few dozen configurations on an H200: a program should have
    16 steps along K, or 4 if multiprocessors would have none.
    """
    rows = max(16, triton.next_power_of_2(M))
    tiles, steps = triton.cdiv(N, 64), triton.cdiv(K, BLOCK)
    two = min(2 * multiprocessors // tiles, steps // 16)
    one = min(multiprocessors // tiles, steps // 4)
    return Config(rows, 64, max(one, two, 1), 4, 6)
# --8<-- [end:config]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def block_scaled_few_rows(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor,
    w_scales: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Return ``x @ w.T`` of 8-bit numbers with scales, as ``block_scales.block_scaled_matmul`` does, for a few rows.

    Args:
        x: ``(M, K)`` of float8_e4m3fn, with at most 64 rows.
        w, x_scales, w_scales, out_dtype: As there, on a GPU, or in the interpreter on the CPU.

    Returns:
        ``(M, N)``, contiguous; the same bits in every run. K = 0 gives zeros. The kernel may still be running.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> x, w = torch.tensor([[1.0, 2.0]]).to(E4M3), torch.tensor([[3.0, 4.0]]).to(E4M3)
    >>> block_scaled_few_rows(x, w, torch.tensor([[0.5]]), torch.tensor([[10.0]]), torch.float32)
    tensor([[55.]])
    """
    block_scales.check_arguments(x, w, x_scales, w_scales, out_dtype)
    if len(x) > MOST_ROWS:
        raise ValueError(f"x has {len(x)} rows; for more than {MOST_ROWS} there is block_scales.block_scaled_matmul")
    return product(x, w, x_scales, w_scales, out_dtype)


def product(x, w, x_scales, w_scales, out_dtype, *, config: Config | None = None) -> torch.Tensor:
    """Do as :func:`block_scaled_few_rows`; ``config`` chooses how."""
    (M, K), N = x.shape, len(w)
    y = torch.empty(M, N, dtype=out_dtype, device=x.device)
    if M * N * K == 0:
        return y.zero_()
    rows, block_n, parts, num_warps, num_stages = config or choose_config(M, N, K, multiprocessors(x.device))
    tiles = triton.cdiv(N, block_n)
    described = lambda t, block: TensorDescriptor(
        t, list(t.shape), [t.stride(0), 1], block
    )  # fmt: skip
    partial = count = y  # placeholders that nobody reads or writes
    with torch.cuda.device_of(x):
        if parts > 1:
            partial = torch.empty(
                tiles * parts * block_n * rows, dtype=torch.float32, device=x.device
            )  # fmt: skip
            count = counters(x.device, tiles)
        block_scaled_few_rows_kernel[(tiles, parts)](
            described(by_rows(x), [rows, BLOCK]),
            described(by_rows(w), [block_n, BLOCK]),
            y, partial, count, x_scales, w_scales, M, N, K,
            *x_scales.stride(), *w_scales.stride(), parts,
            ROWS=rows, BLOCK_N=block_n, SPLIT=parts > 1, AHEAD=num_stages,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
    return y
# --8<-- [end:host]


def main():
    device = "cuda" if isinstance(block_scaled_few_rows_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    for M, N, K in ((1, 200, 1500), (16, 300, 700)):
        groups, squares = triton.cdiv(K, BLOCK), triton.cdiv(N, BLOCK)
        whole = lambda rows, K=K: torch.randint(-4, 5, (rows, K)).float().to(E4M3).to(device)
        powers = lambda *shape: 2.0 ** torch.randint(-2, 3, shape).to(device)
        x, w, x_scales, w_scales = whole(M), whole(N), powers(M, groups), powers(squares, groups)
        exact = dequantize(x, x_scales) @ dequantize(w, w_scales).t()
        equal = torch.equal(block_scaled_few_rows(x, w, x_scales, w_scales, torch.float32).double(), exact)
        parts = choose_config(M, N, K, multiprocessors(x.device)).parts
        print(f"{M} x {K} by {N} x {K}, in {parts} parts:", "equal to float64" if equal else "NOT equal to float64")


if __name__ == "__main__":
    main()
