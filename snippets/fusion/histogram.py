# SPDX-License-Identifier: Apache-2.0
"""Count how often each integer occurs: ``tl.histogram`` inside a program, then an atomic add for each bin.

``out[b]`` is the number of elements of ``x`` that are ``b``, for ``b`` from 0 to ``bins - 1``; all others are left out.

- ``each_kernel``: the first step, an atomic add for each element. All programs wait for the same few addresses
- ``histogram_kernel``: a program counts its elements on the chip, and adds one number for each bin
- :func:`histogram`: the function to call; it works under ``torch.compile``

Integers add up to the same in any order, so the result is deterministic though the programs come in any order. Counts
have no gradient.

Shapes: ``x`` of any; the result ``(bins,)``. Traffic, in elements: each of ``x`` is read once; each program adds at
most ``bins`` numbers.
Source: Jason Sanders and Edward Kandrot, *CUDA by Example*, 2010, chapter 9, has the same two steps.

Run it on a GPU with ``python histogram.py``, or with ``TRITON_INTERPRET=1 python histogram.py`` in the interpreter.
"""

import functools
import operator

import torch
import triton
import triton.language as tl

DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MOST_BINS = 2048  # more counters do not fit into a program's registers (on sm_90)
PROGRAMS = 4  # for each multiprocessor


# --8<-- [start:each]
@triton.jit
def each_kernel(x_ptr, out_ptr, n, bins, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    counts = (i < n) & (x >= 0) & (x < bins)
    one = tl.full((BLOCK,), 1, tl.int64)
    tl.atomic_add(out_ptr + x, one, mask=counts, sem="relaxed")


# --8<-- [end:each]


# --8<-- [start:kernel]
@triton.jit
def histogram_kernel(
    x_ptr, out_ptr, n, blocks, bins,
    BINS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    lane = tl.arange(0, BLOCK)
    found = tl.zeros((BINS,), tl.int32)
    programs = tl.num_programs(axis=0)
    for block in tl.range(pid, blocks, programs, num_stages=STAGES):
        start = tl.cast(block, tl.int64) * BLOCK
        here = lane < n - start
        x = tl.load(x_ptr + start + lane, mask=here, other=0)
        counts = here & (x >= 0) & (x < bins)
        found += tl.histogram(x.to(tl.int32), BINS, mask=counts)
    bin = tl.arange(0, BINS)
    mask = (bin < bins) & (found > 0)
    tl.atomic_add(
        out_ptr + bin, found.to(tl.int64), mask=mask, sem="relaxed"
    )  # fmt: skip


# --8<-- [end:kernel]


# --8<-- [start:forward]
def histogram_forward(
    x: torch.Tensor, bins: int, block: int = 8192, programs: int | None = None
) -> torch.Tensor:  # fmt: skip
    check_arguments(x, bins)
    out = torch.zeros(bins, dtype=torch.int64, device=x.device)
    n = x.numel()
    if n and bins:
        blocks = triton.cdiv(n, block)
        programs = min(programs or PROGRAMS * multiprocessors(x.device), blocks)
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            histogram_kernel[(programs,)](
                x.contiguous(), out, n, blocks, bins,
                BINS=max(triton.next_power_of_2(bins), 32), BLOCK=block, STAGES=2, num_warps=8,
            )  # fmt: skip
    return out


# --8<-- [end:forward]


def each_forward(x: torch.Tensor, bins: int, block: int = 1024) -> torch.Tensor:
    """Count by the first step, for comparison."""
    check_arguments(x, bins)
    out = torch.zeros(bins, dtype=torch.int64, device=x.device)
    if x.numel() and bins:
        with torch.cuda.device_of(x):
            each_kernel[(triton.cdiv(x.numel(), block),)](x.contiguous(), out, x.numel(), bins, BLOCK=block)
    return out


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


@torch.library.custom_op("triton_by_example::histogram", mutates_args=())
def histogram_op(x: torch.Tensor, bins: int) -> torch.Tensor:
    return histogram_forward(x, bins)


histogram_op.register_fake(lambda x, bins: x.new_empty((bins,), dtype=torch.int64))


def as_int(name: str, value) -> int:
    """Return a whole number of Python or NumPy, or of a tensor on the CPU, as Python's ``int``."""
    if isinstance(value, int):
        return value
    try:
        if getattr(value, "is_cuda", False):  # to read it, the host would wait for the GPU
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not on a GPU; got {value!r}") from None


# --8<-- [start:host]
def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    """Return how many elements of ``x`` are 0, 1, …, ``bins - 1``.

    As ``torch.bincount``, but elements outside are left out, any shape will do, and the host does not wait.

    Args:
        x: Of any shape, on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied unless it is
            contiguous.
        bins: From 0 to ``MOST_BINS``.

    Returns:
        A new int64 tensor ``(bins,)``, deterministic. The kernel may still be running when it is returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> histogram(torch.tensor([[2, 0, 2], [7, 2, -1]]), 4)
    tensor([1, 0, 3, 0])
    """
    bins = as_int("bins", bins)
    return histogram_op(x, bins) if torch.compiler.is_compiling() else histogram_forward(x, bins)


# --8<-- [end:host]


def check_arguments(x: torch.Tensor, bins: int) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if not 0 <= bins <= MOST_BINS:
        raise ValueError(f"bins must be from 0 to {MOST_BINS}, which a program counts in registers; got {bins}")
    if x.numel() > 2**40:
        raise ValueError(f"{x.numel()} elements are too many; at most 2**40 are served")
    interpreted = not isinstance(histogram_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")


def main():
    device = "cuda" if isinstance(histogram_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## two programs")
    x = torch.tensor([3, 1, 3, 3, 0, 3, 1, 9], device=device)
    print("x:", *x.tolist())
    print("all:", *histogram_forward(x, 4, block=4, programs=2).tolist())
    for program in range(2):
        print(f"of program {program}:", *histogram_forward(x[4 * program :][:4], 4, block=4).tolist())

    print("## atomic adds")
    x = torch.randint(256, (100, 1000), device=device)
    one, other = histogram_forward(x, 256, block=4096, programs=8), each_forward(x, 256)
    print("both as torch.bincount:", torch.equal(one, x.flatten().bincount()) and torch.equal(other, one))
    print(f"an atomic add for each element: {x.numel()}")
    print(f"for each bin of 8 programs, at most: {8 * 256}")

    print("## orders")
    counts = torch.tensor([1, 10**8, -(10**8)])  # as integers, then as floats
    for dtype in (torch.int32, torch.float32):
        forth, back = (sum_in_order(values) for values in (counts.to(dtype), counts.flip(0).to(dtype)))
        print(f"{dtype}, first to last: {forth:g}, last to first: {back:g}")


def sum_in_order(values: torch.Tensor) -> float:
    total = torch.zeros_like(values[0])
    for value in values:
        total += value
    return total.item()


if __name__ == "__main__":
    main()
