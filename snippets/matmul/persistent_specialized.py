# SPDX-License-Identifier: Apache-2.0
"""Warp specialization: some warps of a program only load, others only multiply. Tried on Hopper, with what it demands.

The kernel is that of ``persistent.py`` with two differences: ``warp_specialize=True`` in the loop over tiles, and
descriptors that the kernel makes by itself, because the compiler halves the tiles that a descriptor describes, which
it cannot do for one that the host has made.

Triton 3.6 takes it on Hopper with 4 warps and without ``flatten`` only, and **some configs compute wrong results**:
:func:`main` tries them. So this is an experiment, and nothing to build on.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N), all row after row. FLOPs: 2 * M * N * K.
Source: Triton's tutorial *Persistent matmul*.

Run it on a Hopper GPU with ``python persistent_specialized.py``.
"""

import contextvars
import functools

import torch
import triton
import triton.language as tl


@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return row and column of a tile, by the grouped order: GROUP_M tiles down, then the next column."""
    tiles_per_group = GROUP_M * tiles_n
    first_m = tile // tiles_per_group * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    in_group = tile % tiles_per_group
    return first_m + in_group % group_m, in_group // group_m


# --8<-- [start:kernel]
@triton.jit
def specialized_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    stored = pid - programs
    for tile in tl.range(
        pid, tiles_m * tiles_n, programs, warp_specialize=WARP_SPECIALIZE
    ):  # fmt: skip
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            accumulator = tl.dot(
                a.load([m, k]), b.load([k, n]), accumulator
            )  # fmt: skip
        # Computed again: storing warps don't know where the loads are.
        stored += programs
        pid_m, pid_n = position(stored, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        rows = (m + tl.arange(0, BLOCK_M))[:, None]
        columns = (n + tl.arange(0, BLOCK_N))[None, :]
        mask = (rows < M) & (columns < N)
        tl.store(
            c_ptr + rows.to(tl.int64) * N + columns,
            accumulator.to(c_ptr.dtype.element_ty),
            mask=mask,
        )
# --8<-- [end:kernel]


def specialized(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    block: tuple[int, int, int] = (128, 256, 64),
    num_stages: int = 4,
    num_warps: int = 4,
    warp_specialize: bool = True,
) -> torch.Tensor:
    """Return ``a @ b`` as the kernel computes it, which on Hopper may be wrong: an experiment.

    Args:
        a: ``(M, K)``, bfloat16 or float16, on a GPU (in the interpreter: float16, on the CPU); contiguous, its rows
            multiples of 16 bytes.
        b: ``(K, N)``, as ``a``.
        block: Rows and columns of a tile of the result, and columns of ``a`` that a step loads.
        num_stages: Buffers for the tiles of a step.
        num_warps: Warps of a program. With 4, and specialized, the compiler adds 8; with 8 it does not specialize.
        warp_specialize: Let some warps only load.

    Raises:
        ValueError: The arguments are not as above.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or 0 in (*a.shape, *b.shape):
        raise ValueError(f"a and b must be (M, K) and (K, N), not empty; got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in (torch.bfloat16, torch.float16) or a.device != b.device:
        raise ValueError(f"a and b must be alike, of 16 bits; got {a.dtype}, {a.device}, {b.dtype}, {b.device}")
    for name, x in (("a", a), ("b", b)):
        if not x.is_contiguous() or x.shape[1] % 8 or x.data_ptr() % 16:
            raise ValueError(f"{name} must be contiguous, with rows of 16 n bytes; got {tuple(x.shape)}, {x.stride()}")
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    tiles = -(-M // block[0]) * -(-N // block[1])
    here = torch.cuda.get_device_properties(a.device).multi_processor_count if a.is_cuda else 132
    with torch.cuda.device_of(a):
        launch = functools.partial(
            specialized_kernel[(-(-tiles // -(-tiles // here)),)],
            a, b, out, M, N, K, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], GROUP_M=8,
            WARP_SPECIALIZE=warp_specialize, num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
        contextvars.copy_context().run(with_memory, launch)  # so that an allocator of the caller's stays set
    return out


# --8<-- [start:allocator]
def with_memory(launch) -> None:
    """Launch a kernel that writes its descriptors to memory, which Triton asks us for."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=device))
    launch()
# --8<-- [end:allocator]


BLOCKS = {"128x256x64": (128, 256, 64), "256x128x64": (256, 128, 64), "128x128x64": (128, 128, 64)}


@functools.lru_cache(maxsize=1)
def measure(side):
    from snippets.matmul.persistent import matmul
    from snippets.matmul.persistent_measured import random_pair  # here, so that the rest can be copied alone
    from snippets.tools.benchmarking_cold import rates

    return rates(
        {
            "specialized": specialized,
            "off": functools.partial(specialized, warp_specialize=False),  # so 4 warps hold all sums, and spill some
            "off_8": functools.partial(specialized, warp_specialize=False, num_warps=8),
            "persistent": matmul,
            "cublas": torch.matmul,
        },
        lambda: random_pair(side),
        2 * side**3,
    )


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="warps",
        x_names=["side"],
        x_vals=[2048, 4096, 8192, 16384],
        x_log=True,
        xlabel="M = N = K (bfloat16)",
        ylabel="TFLOP/s",
        line_arg="provider",
        line_vals=["specialized", "off", "off_8", "persistent", "cublas"],
        line_names=[
            "four warps load", "the same kernel, flag off", "flag off, 8 warps", "persistent.py", "cuBLAS",
        ],
        args={},
    )
)  # fmt: skip
def warps(side, provider):
    """Rates with warp specialization, of the same kernel without, of the persistent kernel, and of torch's product."""
    return measure(side)[provider]


@functools.lru_cache(maxsize=1)
def measure_descriptors(side):
    """Return microseconds of the GPU, by one tile and one schedule, which is right for a small product."""
    from snippets.matmul.persistent import TINY, matmul
    from snippets.matmul.persistent_measured import random_pair
    from snippets.tools.benchmarking_cold import compare_in_rotation

    config = TINY._replace(early=False, subtiles=0)
    inside = dict(block=config[:3], num_stages=config.num_stages, warp_specialize=False)
    sides = {"host": functools.partial(matmul, config=config), "inside": functools.partial(specialized, **inside)}
    found = compare_in_rotation(sides, lambda: random_pair(side), rounds=6)
    return {name: timing.median * 1e3 for name, timing in found.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="descriptors",
        x_names=["side"],
        x_vals=[256, 512],
        xlabel="M = N = K (bfloat16)",
        ylabel="µs",
        line_arg="provider",
        line_vals=["host", "inside"],
        line_names=["descriptors made on the host", "made in the kernel"],
        args={},
    )
)
def descriptors(side, provider):
    """Microseconds of a product in tiles of 64 x 32, by who makes the descriptors."""
    return measure_descriptors(side)[provider]


def main():
    if not isinstance(specialized_kernel, triton.JITFunction) or not torch.cuda.is_available():
        raise SystemExit("no GPU found, or TRITON_INTERPRET is set; this experiment needs a Hopper GPU")
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-2, 3, (1024, 1024), generator=random).to("cuda", torch.bfloat16) for _ in range(2))
    expected = (a.float() @ b.float()).bfloat16()
    for warp_specialize in (True, False):
        for name, block in BLOCKS.items():
            found = []
            for stages in range(2, 7):
                try:
                    out = specialized(a, b, block=block, num_stages=stages, warp_specialize=warp_specialize)
                    found.append("right" if torch.equal(out, expected) else "WRONG")
                except triton.runtime.errors.OutOfResources:
                    found.append("no room")
            print(f"{name}, {'specialized' if warp_specialize else 'not'}, 2 to 6 stages: {', '.join(found)}")


if __name__ == "__main__":
    main()
