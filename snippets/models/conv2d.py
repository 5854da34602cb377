# SPDX-License-Identifier: Apache-2.0
"""A 2-D convolution as a matrix product whose left side is gathered while it is loaded ("implicit GEMM").

``out[n, f, p, q] = Σ x[n, c, p · stride + r - padding, q · stride + s - padding] · weight[f, c, r, s]``, over the
channels c and over the taps (r, s) of the filter. What lies outside of the picture counts as 0.

One program computes ``BLOCK_P`` positions, of one picture or several, for ``BLOCK_F`` filters. For each tap it
multiplies two tiles, the pixels that this tap touches by the weights of this tap, and adds up in float32. A matrix of
all windows, nine times as large as the picture for a filter of 3 × 3, is never stored. The taps take turns within a
block of channels, so that one tap finds in the cache what the tap before it has read.

Shapes: ``x`` (N, C, H, W), ``weight`` (F, C, R, S), ``out`` (N, F, P, Q), where P is
``(H + 2 · padding - R) // stride + 1`` and Q the same of W and S. Any strides; float16, bfloat16 or float32.
Arithmetic: 2·N·F·P·Q·C·R·S operations.
Source: ``torch.nn.functional.conv2d`` defines the result; Chetlur et al., *cuDNN: Efficient Primitives for Deep
Learning*, 2014, describes how to do it without the matrix of windows.

Run it on a GPU with ``python conv2d.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter. Its speed was not
measured; what the compiler makes of it: ``conv2d_compiled.py``.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LARGEST = 2**30  # elements between the first and the last of a picture, so that its offsets fit in 32 bits


# --8<-- [start:kernel]
@triton.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    N, C, H, W, F, P, Q, stride, padding,
    x_stride_n, x_stride_c, x_stride_h, x_stride_w,
    weight_stride_f, weight_stride_c, weight_stride_r, weight_stride_s,
    out_stride_n, out_stride_f, out_stride_p, out_stride_q,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    # A row of the product for each position of each picture
    row = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    n = row // (P * Q)
    position = (row - n * P * Q).to(tl.int32)
    p, q = position // Q, position % Q
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    c = tl.arange(0, BLOCK_C)
    # What each position has under the filter's first tap
    h, w = p * stride - padding, q * stride - padding
    first = n * x_stride_n + h * x_stride_h + w * x_stride_w
    x_ptrs = x_ptr + first[:, None] + (c * x_stride_c)[None, :]
    weight_ptrs = (
        weight_ptr + (c * weight_stride_c)[:, None]
        + (f * weight_stride_f)[None, :]
    )  # fmt: skip
    acc = tl.zeros((BLOCK_P, BLOCK_F), tl.float32)

    for step in range(R * S * tl.cdiv(C, BLOCK_C)):
        r, s = step % (R * S) // S, step % S
        begin = step // (R * S) * BLOCK_C
        inside = (n < N) & (h + r >= 0) & (h + r < H)
        inside = inside & (w + s >= 0) & (w + s < W)
        pixels = tl.load(
            x_ptrs
            + (r * x_stride_h + s * x_stride_w + begin * x_stride_c),
            mask=inside[:, None] & (c < C - begin)[None, :], other=0,
        )  # fmt: skip
        weights = tl.load(
            weight_ptrs + (
                r * weight_stride_r + s * weight_stride_s
                + begin * weight_stride_c
            ),
            mask=(c < C - begin)[:, None] & (f < F)[None, :], other=0,
        )  # fmt: skip
        acc = tl.dot(pixels, weights, acc, input_precision="ieee")

    tl.store(
        (out_ptr + n * out_stride_n + p * out_stride_p + q * out_stride_q)[
            :, None
        ] + (f * out_stride_f)[None, :],
        acc, mask=(n < N)[:, None] & (f < F)[None, :],
    )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:host]
def conv2d(x: torch.Tensor, weight: torch.Tensor, *, stride: int = 1, padding: int = 0) -> torch.Tensor:
    """Return ``torch.nn.functional.conv2d(x, weight, stride=stride, padding=padding)``.

    Args:
        x: ``(N, C, H, W)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, of any strides. In
            ``torch.channels_last`` the channels of a pixel are neighbors, and are loaded together.
        weight: ``(F, C, R, S)`` of the dtype and on the device of ``x``, of any strides.
        stride: Pixels from one position of the filter to the next, at least 1.
        padding: Zeros around the picture on each side, at least 0.

    Returns:
        A new tensor ``(N, F, P, Q)`` of the dtype of ``x``, in ``torch.channels_last`` if ``x`` is. Sums are kept in
        float32, and float32 is multiplied as float32, not as TF32. The kernel may still be running when it is returned.

    Raises:
        ValueError: ``x``, ``weight``, ``stride`` or ``padding`` is something that the kernel cannot serve.

    >>> conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1)[0, 0].tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    check_arguments(x, weight, stride, padding)
    (N, C, H, W), (F, _, R, S) = x.shape, weight.shape
    P, Q = ((size + 2 * padding - side) // stride + 1 for size, side in ((H, R), (W, S)))
    layout = torch.channels_last if x.stride(1) == 1 else torch.contiguous_format
    out = torch.empty((N, F, P, Q), dtype=x.dtype, device=x.device, memory_format=layout)
    check_spans(x=x, weight=weight, out=out)
    block_p, block_f, block_c = blocks_of(x.dtype, N * P * Q, F, C)
    grid = triton.cdiv(N * P * Q, block_p), triton.cdiv(F, block_f)
    if grid[0] >= 2**31 or grid[1] >= 2**16:  # CUDA's limits along these axes
        raise ValueError(f"{N} pictures of {P} × {Q} positions and {F} filters are too many for one launch; split them")
    if out.numel():
        with torch.cuda.device_of(x):
            conv2d_kernel[grid](
                x, weight, out, N, C, H, W, F, P, Q, stride, padding, *x.stride(), *weight.stride(), *out.stride(),
                R=R, S=S, BLOCK_P=block_p, BLOCK_F=block_f, BLOCK_C=block_c, **options_of(block_p, block_f),
            )  # fmt: skip
    return out


def blocks_of(dtype: torch.dtype, positions: int, filters: int, channels: int) -> tuple[int, int, int]:
    """Return ``BLOCK_P``, ``BLOCK_F`` and ``BLOCK_C``: large ones where they leave enough programs.

    >>> blocks_of(torch.float16, 32 * 56 * 56, 64, 64), blocks_of(torch.float32, 7 * 7, 512, 3)
    ((128, 64, 64), (64, 64, 16))
    """
    programs = lambda p, f: triton.cdiv(positions, p) * triton.cdiv(filters, f)
    if dtype == torch.float32:
        most = 64, 64, 16
    elif filters >= 256 and programs(128, 256) >= 264:  # two for each multiprocessor of a large GPU
        most = 128, 256, 64
    else:
        most = 128 if programs(128, 128) > 66 else 64, 128, 64
    sizes = zip(most, (positions, filters, channels), strict=True)
    return tuple(min(largest, max(16, triton.next_power_of_2(size))) for largest, size in sizes)


def options_of(block_p: int, block_f: int) -> dict[str, int]:
    """Return the options of a launch for these blocks."""
    return {"num_warps": 8 if block_p * block_f >= 128 * 128 else 4, "num_stages": 4 if block_p == 64 else 3}
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, weight: torch.Tensor, stride: int, padding: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`conv2d` would compute wrongly or not at all."""
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[1]:
        raise ValueError(
            f"x must be (N, C, H, W) and weight (F, C, R, S); got {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    for name, value, least in (("stride", stride, 1), ("padding", padding, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**15:
            raise ValueError(f"{name} must be a whole number from {least} to 32,767; got {value!r}")
    (H, W), (R, S) = x.shape[2:], weight.shape[2:]
    if not 1 <= R <= H + 2 * padding or not 1 <= S <= W + 2 * padding:
        raise ValueError(f"a filter of {R} × {S} does not fit into {H} × {W} pixels with a padding of {padding}")
    if weight.dtype != x.dtype or weight.device != x.device:
        raise ValueError(
            f"x is {x.dtype} on {x.device} and weight {weight.dtype} on {weight.device}; they must be alike"
        )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(conv2d_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.is_neg():  # the kernel would read memory in which the sign is not yet applied
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


def check_spans(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` if the elements of one picture, or of all weights, lie too far apart."""
    for name, tensor in tensors.items():
        one = tensor if name == "weight" else tensor[:1]
        span = sum((size - 1) * stride for size, stride in zip(one.shape, one.stride(), strict=True))
        if span >= LARGEST or max(one.shape) >= LARGEST:
            raise ValueError(
                f"{name} of {tuple(tensor.shape)} with strides {tensor.stride()} is too large; of a picture, and of "
                f"the weight, first and last element must be less than 2**30 apart"
            )


def main():
    device = "cuda" if isinstance(conv2d_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## by hand")
    picture = torch.arange(1.0, 17.0, device=device).view(1, 1, 4, 4)
    ones = torch.ones(1, 1, 3, 3, device=device)
    print("picture:", *picture[0, 0].int().tolist(), sep="\n    ")
    for stride in (1, 2):
        print(f"sums of 3 × 3, padding 1, stride {stride}:", end="\n    ")
        print(*conv2d(picture, ones, stride=stride, padding=1)[0, 0].int().tolist(), sep="\n    ")

    print("## beside torch")
    torch.manual_seed(0)
    dtypes = [dtype for dtype in DTYPES if device == "cuda" or dtype != torch.bfloat16]  # the interpreter cannot
    # --8<-- [start:cases]
    cases = [  # x, filters, side, stride, padding
        ((2, 64, 14, 14), 64, 3, 1, 1),
        ((3, 37, 9, 11), 70, 3, 2, 1),
        ((1, 3, 33, 29), 20, 7, 2, 3),
        ((2, 130, 7, 7), 33, 1, 1, 0),
    ]
    # --8<-- [end:cases]
    for shape, filters, side, stride, padding in cases:
        x = torch.randint(-4, 5, shape).to(device)
        weight = torch.randint(-4, 5, (filters, shape[1], side, side)).to(device)
        wanted = torch.nn.functional.conv2d(x.double(), weight.double(), stride=stride, padding=padding)
        equal = []
        for dtype in dtypes:
            for layout in (torch.contiguous_format, torch.channels_last):
                given = [t.to(dtype).contiguous(memory_format=layout) for t in (x, weight)]
                equal.append(torch.equal(conv2d(*given, stride=stride, padding=padding), wanted.to(dtype)))
        name = f"{' × '.join(map(str, shape))}, {filters} filters of {side} × {side}, stride {stride}"
        print(f"{name}: {'equal to torch' if all(equal) else 'NOT equal to torch'}")


if __name__ == "__main__":
    main()
