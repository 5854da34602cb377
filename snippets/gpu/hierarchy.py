# SPDX-License-Identifier: Apache-2.0
"""Threads, warps, programs, the whole GPU: how many there are, and how numbers come together.

``total`` adds up a tensor. Its kernel mentions no thread and no warp, but the result has to cross every level: a thread
adds what it holds, a warp adds across its threads, a program across its warps, and the programs meet in memory.

- :func:`figures`: what one NVIDIA GPU holds, by name, asked of CUDA's driver
- :func:`total`: the sum of a one-dimensional tensor, by one atomic addition for each program
- :func:`whereabouts`: the multiprocessor, warp and lane of every thread of a launch

Traffic of ``total``: each element is read once; one number is written for each program.
Source: the names of the figures are those of ``cuDeviceGetAttribute`` in CUDA's driver API.

Run it on an NVIDIA GPU with ``python hierarchy.py``, or without one in Triton's interpreter, which has no threads, no
warps and no figures, with ``TRITON_INTERPRET=1 python hierarchy.py``.
"""

import ctypes

import torch
import triton
import triton.language as tl

# --8<-- [start:attributes]
ATTRIBUTES = {  # the numbers that cuDeviceGetAttribute takes, from cuda.h
    "multiprocessors": 16,
    "threads in a warp": 10,
    "threads in a thread block, at most": 1,
    "threads on a multiprocessor, at most": 39,
    "thread blocks on a multiprocessor, at most": 106,
    "registers on a multiprocessor": 82,
    "registers for a thread block, at most": 12,
    "bytes of shared memory on a multiprocessor": 81,
    "bytes of shared memory for a thread block, at most": 97,
    "bytes of shared memory for a thread block by default": 8,
    "bytes of shared memory reserved for each thread block": 111,
    "bytes of L2 cache": 38,
    "clusters (1: yes)": 120,
}
# --8<-- [end:attributes]


# --8<-- [start:figures]
def figures(device: int = 0) -> dict[str, int]:
    """Return what GPU number ``device`` has, by the names in
    ``ATTRIBUTES``.

    Raises:
        ValueError: If there is no NVIDIA GPU with this number.
    """
    if not torch.cuda.is_available() or torch.version.hip:
        raise ValueError(
            "no NVIDIA GPU found: these figures are read from one"
        )
    if not 0 <= device < torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise ValueError(
            f"device must be between 0 and {last}; got {device}"
        )
    torch.cuda.init()
    windows = hasattr(ctypes, "WinDLL")
    driver = ctypes.CDLL("nvcuda.dll" if windows else "libcuda.so.1")
    found, value, handle = {}, ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(handle), device)
    for name, number in ATTRIBUTES.items():
        error = driver.cuDeviceGetAttribute(
            ctypes.byref(value), number, handle
        )
        if error:
            raise ValueError(f"no word on the {name}: CUresult {error}")
        found[name] = value.value
    return found
# --8<-- [end:figures]


# --8<-- [start:others]
TORCH = {  # the same figures among torch.cuda.get_device_properties
    "multiprocessors": "multi_processor_count",
    "threads in a warp": "warp_size",
    "threads in a thread block, at most": "max_threads_per_block",
    "threads on a multiprocessor, at most": "max_threads_per_multi_processor",
    "registers on a multiprocessor": "regs_per_multiprocessor",
    "bytes of shared memory on a multiprocessor": "shared_memory_per_multiprocessor",
    "bytes of shared memory for a thread block, at most": "shared_memory_per_block_optin",
    "bytes of shared memory for a thread block by default": "shared_memory_per_block",
    "bytes of L2 cache": "L2_cache_size",
}
TRITON = {  # and among what triton.runtime.driver.active.utils.get_device_properties returns
    "multiprocessors": "multiprocessor_count",
    "threads in a warp": "warpSize",
    "registers for a thread block, at most": "max_num_regs",
    "bytes of shared memory for a thread block, at most": "max_shared_mem",
}
# --8<-- [end:others]


def told_by(device: int = 0) -> dict[str, dict[str, int | None]]:
    """Return each figure as torch, Triton and the driver tell it, or None where one of them does not."""
    by_driver = figures(device)
    by_torch = torch.cuda.get_device_properties(device)
    by_triton = triton.runtime.driver.active.utils.get_device_properties(device)
    return {
        name: {
            "torch": getattr(by_torch, TORCH.get(name, ""), None),
            "triton": by_triton.get(TRITON.get(name)),
            "driver": by_driver[name],
        }
        for name in ATTRIBUTES
    }


# --8<-- [start:total]
@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    first = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = first + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    in_program = tl.sum(x.to(out_ptr.dtype.element_ty))  # threads, warps
    tl.atomic_add(out_ptr, in_program, sem="relaxed")  # programs
# --8<-- [end:total]


# --8<-- [start:host]
def total(x: torch.Tensor, *, block_size: int = 1024, num_warps: int = 4) -> torch.Tensor:
    """Return the sum of ``x``, contiguous, of one dimension, in a tensor without dimensions.

    Integers of 8 to 32 bits give an int64, exactly; a float32 gives a float32, whose last bits depend on the order in
    which programs happen to add. ``block_size`` and ``num_warps`` are powers of two, up to 2**16 and 32.
    Raises ``ValueError`` for anything else.

    >>> total(torch.tensor([1, 2, 3, 4, 5], dtype=torch.int32), block_size=4)
    tensor(15)
    """
    if x.dtype not in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.float32):
        raise ValueError(f"x must be of float32, or integers of at most 32 bits; got {x.dtype}")
    if x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"x must be contiguous, with one dimension; got shape {tuple(x.shape)}, strides {x.stride()}")
    if x.device.type != ("cuda" if isinstance(total_kernel, triton.JITFunction) else "cpu"):
        raise ValueError(f"x is on {x.device}; move it to a GPU, or set TRITON_INTERPRET=1 for the CPU")
    if x.is_neg():
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")
    for name, value, most in (("block_size", block_size, 2**16), ("num_warps", num_warps, 32)):
        if not isinstance(value, int) or not 1 <= value <= most or value & (value - 1):
            raise ValueError(f"{name} must be a power of two, at most {most}; got {value}")
    if triton.cdiv(x.numel(), block_size) >= 2**31:
        raise ValueError(f"{x.numel()} elements are too many for blocks of {block_size}; use larger ones")
    out = torch.zeros((), dtype=torch.float32 if x.dtype == torch.float32 else torch.int64, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), block_size),)
        with torch.cuda.device_of(x):
            total_kernel[grid](x, out, x.numel(), BLOCK_SIZE=block_size, num_warps=num_warps)
    return out
# --8<-- [end:host]


# --8<-- [start:whereabouts]
@triton.jit
def whereabouts_kernel(
    thread_ptr, sm_ptr, warp_ptr, lane_ptr, THREADS: tl.constexpr
):
    # One element per thread. $1, the element, is unused: it asks the thread.
    offsets = tl.program_id(axis=0) * THREADS + tl.arange(0, THREADS)
    thread = tl.inline_asm_elementwise(
        "mov.u32 $0, %tid.x;", "=r,r", [offsets],
        tl.int32, is_pure=False, pack=1,
    )
    sm = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r,r", [offsets],
        tl.int32, is_pure=False, pack=1,
    )
    lane = tl.inline_asm_elementwise(
        "mov.u32 $0, %laneid;", "=r,r", [offsets],
        tl.int32, is_pure=False, pack=1,
    )
    tl.store(thread_ptr + offsets, thread)
    tl.store(sm_ptr + offsets, sm)
    tl.store(warp_ptr + offsets, thread // 32)
    tl.store(lane_ptr + offsets, lane)
# --8<-- [end:whereabouts]


def whereabouts(programs: int, *, num_warps: int = 4, num_ctas: int = 1) -> dict[str, torch.Tensor]:
    """Return what each thread of a launch found out: tensors ``(programs, 32 * num_warps * num_ctas)``, by name.

    ``thread``: its number in its thread block; ``sm``: its multiprocessor; ``warp`` and ``lane``: its warp in the
    thread block, and its place in the warp. ``num_ctas``: how many thread blocks make a program, from Hopper on.
    NVIDIA GPUs only. Raises ``ValueError`` for anything else.
    """
    for name, value, most in (("num_warps", num_warps, 32), ("num_ctas", num_ctas, 8)):
        if not isinstance(value, int) or not 1 <= value <= most or value & (value - 1):
            raise ValueError(f"{name} must be a power of two, at most {most}; got {value}")
    threads = 32 * num_warps * num_ctas
    if not isinstance(programs, int) or not 1 <= programs <= 2**31 // threads - 1:
        raise ValueError(f"programs must be between 1 and {2**31 // threads - 1}; got {programs}")
    on_gpu = isinstance(whereabouts_kernel, triton.JITFunction)
    if on_gpu and (not torch.cuda.is_available() or torch.version.hip):
        raise ValueError("no NVIDIA GPU found; the kernel asks for %smid and %laneid, which are PTX")
    found = torch.empty(4, programs, threads, dtype=torch.int32, device="cuda" if on_gpu else "cpu")
    whereabouts_kernel[(programs,)](*found, THREADS=threads, num_warps=num_warps, num_ctas=num_ctas)
    return dict(zip(("thread", "sm", "warp", "lane"), found, strict=True))


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(total_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## One sum at three sizes")
    x = torch.arange(1, 1025, dtype=torch.int32, device=device)
    print("32 elements, a program of one warp:", total(x[:32], block_size=32, num_warps=1).item())
    print("128 elements, a program of four warps:", total(x[:128], block_size=128, num_warps=4).item())
    print("1024 elements, eight such programs:", total(x, block_size=128, num_warps=4).item())
    if device == "cpu":
        return

    print("## No promised order")
    torch.manual_seed(0)
    x = torch.rand(2**24, device=device)
    runs = 100
    print("launches of the float32 sum:", runs)
    print("different results:", len({total(x).item() for _ in range(runs)}))
    whole = torch.randint(-1000, 1000, (2**24,), dtype=torch.int32, device=device)
    print("different results with integers:", len({total(whole).item() for _ in range(runs)}))

    print("## Who is where")
    seen = whereabouts(1000, num_warps=4)
    first = {name: values[0].cpu() for name, values in seen.items()}
    print("threads of program 0:", first["thread"].unique().numel())
    print("warps of program 0:", first["warp"].unique().numel())
    print("places in a warp:", first["lane"].unique().numel())
    split = (seen["sm"] != seen["sm"][:, :1]).any(1)
    print("programs whose threads were not all on one multiprocessor:", int(split.sum()))
    print("multiprocessors that ran any of 1,000 programs:", seen["sm"].unique().numel())
    if torch.cuda.get_device_capability() >= (9, 0):
        sm = whereabouts(1000, num_warps=4, num_ctas=2)["sm"]
        found = {row.unique().numel() for row in sm}
        print("multiprocessors of a program with num_ctas=2, fewest:", min(found))
        print("multiprocessors of a program with num_ctas=2, most:", max(found))
        try:
            total_kernel[(1,)](x, torch.zeros_like(x[0]), 1024, BLOCK_SIZE=1024, num_ctas=2)
            print("a sum across such a program is compiled")
        except Exception as error:
            print("a sum across such a program:", type(error).__name__, error)

    print("## Figures")
    for name, value in figures().items():
        print(f"{name}: {value}")
    print("## Who tells")
    print(f"{'':53} {'torch':>8} {'triton':>8} {'driver':>8}")
    for name, told in told_by().items():
        print(f"{name:53}", *(f"{'-' if value is None else value:>8}" for value in told.values()))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
