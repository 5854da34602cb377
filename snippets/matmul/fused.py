# SPDX-License-Identifier: Apache-2.0
"""A linear layer in one kernel: the product, then bias and activation before the tile is stored.

``out = activation(x @ weight.T + bias)``. Until it is stored, a tile of the result stands in registers, in float32.
What is done to it there costs no traffic and no rounding; in a kernel of its own, the activation would read all of the
result again and write it again.

Shapes, as in ``torch.nn.functional.linear``: ``x`` is (..., K), ``weight`` is (N, K), ``bias`` is (N,), the result is
(..., N). FLOPs: 2 * M * N * K, M being the number of rows of ``x``. Bytes saved against two kernels: one write and one
read of the result, 2 * M * N elements.

The activation is a constexpr, a name. So the kernel is compiled for each activation, with no choice left to make at
run time, and the host can refuse a name that it does not know. (A ``@triton.jit`` function works as a constexpr, too:
use one where others shall bring activations of their own.)

Sources: ``torch.nn.functional`` (``linear``, ``relu``, ``gelu``, ``silu``) defines the results; the order of tiles is
that of Triton's tutorial on matrix multiplication.

Run it on a GPU with ``python fused.py``, or without one in Triton's interpreter with ``TRITON_INTERPRET=1``.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:activate]
@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)  # NaN stays NaN, as in torch
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))  # 1 / sqrt(2)
    elif ACTIVATION == "gelu_tanh":  # 0.5 * (1 + tanh(y)) is sigmoid(2 * y)
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 2 * sqrt(2 / pi)
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    return x
# --8<-- [end:activate]


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
def linear_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, stride_xm, stride_xk, stride_wn, stride_wk, stride_bias,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = position(tl.program_id(axis=0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    x_ptrs = x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk
    w_ptrs = w_ptr + n[None, :] * stride_wn + k[:, None] * stride_wk
    step = tl.full((), BLOCK_K, tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += step * stride_xk
        w_ptrs += step * stride_wk
    # --8<-- [start:epilogue]
    if HAS_BIAS:
        acc += tl.load(bias_ptr + n * stride_bias, mask=n < N)[None, :]
    acc = activate(acc, ACTIVATION)
    # The store rounds to the dtype of out: the only rounding after float32.
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
    # --8<-- [end:epilogue]
# --8<-- [end:kernel]


# --8<-- [start:host]
def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None
) -> torch.Tensor:
    """Return ``activation(x @ weight.T + bias)``, computed in float32 and rounded once.

    Args:
        x: ``(..., K)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. Any strides; leading dimensions
            that no single stride can walk are copied first, as ``reshape`` does.
        weight: ``(N, K)``, of the dtype and on the device of ``x``, of any strides.
        bias: ``(N,)``, likewise; or ``None``.
        activation: ``None`` or one of ``ACTIVATIONS``; ``"gelu"`` is the exact one, by the error function.

    Returns:
        A new, contiguous tensor ``(..., N)`` of the dtype of ``x``. Float32 is multiplied as float32, not as TF32.
        The kernel may still be running when it is returned.

    Raises:
        ValueError: The arguments are not as above.

    >>> x, weight, bias = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 1.0], [1.0, 2.0]]), torch.tensor([0.5, 1.0])
    >>> linear(x, weight, bias), linear(x, weight, bias, "relu")
    (tensor([[ 1.5000, -2.0000]]), tensor([[1.5000, 0.0000]]))
    """
    check_arguments(x, weight, bias, activation)
    (N, K), leading = weight.shape, x.shape[:-1]
    out = torch.empty((*leading, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out  # no program to start
    M = out.numel() // N
    rows = x.reshape(M, K)
    if M > LONGEST:
        raise ValueError(f"x has {M} rows, more than 2**30; split it")
    block = choose_block(M, x.dtype)
    tiles_n = triton.cdiv(N, block["BLOCK_N"])
    grid = (triton.cdiv(M, block["BLOCK_M"]) * tiles_n,)
    if max(grid[0], block["GROUP_M"] * tiles_n) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"a result of {M} x {N} takes too many tiles; split x or weight")
    with torch.cuda.device_of(x):
        linear_kernel[grid](
            rows, weight, bias, out, M, N, K, *rows.stride(), *weight.stride(), 0 if bias is None else bias.stride(0),
            HAS_BIAS=bias is not None, ACTIVATION=activation, **block,
        )  # fmt: skip
    return out


def choose_block(M: int, dtype: torch.dtype) -> dict:
    """Return the sides of a tile and the options of the launch: for matrix units, or for float32 without them."""
    if dtype == torch.float32:
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}
    if M <= 64:  # a lower tile wastes less on rows that do not exist
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "GROUP_M": 1, "num_warps": 4, "num_stages": 4}
    return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
# --8<-- [end:host]


def check_arguments(x, weight, bias, activation) -> None:
    """Raise ``ValueError`` for arguments that :func:`linear` would compute wrongly or not at all."""
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"x must be (..., K) and weight (N, K); got {tuple(x.shape)} and {tuple(weight.shape)}")
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ValueError(f"bias must be (N,), here ({weight.shape[0]},); got {tuple(bias.shape)}")
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"activation must be None or one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    given = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    for name, tensor in given.items():
        if tensor.dtype != x.dtype or tensor.device != x.device:
            raise ValueError(f"x is {x.dtype} on {x.device} and {name} {tensor.dtype} on {tensor.device}; not alike")
    interpreted = not isinstance(linear_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    if max(*x.shape, *weight.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**30; got {tuple(x.shape)} and {tuple(weight.shape)}")
    for name, tensor in given.items():
        if tensor.is_neg():  # the kernel would read memory in which the sign is not yet applied
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


# --8<-- [start:pair]
def in_torch(activation: str | None):
    """The function of torch's that ``activation`` names."""
    functions = {
        None: lambda x: x,
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "silu": torch.nn.functional.silu,
    }
    return functions[activation]
# --8<-- [end:pair]


# --8<-- [start:saved]
def bytes_of(M: int, N: int, K: int, itemsize: int) -> dict[str, int]:
    """Return the bytes that have to go between memory and chip, by hand: with the activation in a kernel of its own,
    and fused. Each element of ``x``, ``weight`` and the result counts once a kernel.

    >>> bytes_of(4, 6, 2, 2)
    {'two kernels': 184, 'one kernel': 88}
    """
    product = (M * K + N * K + M * N) * itemsize
    return {"two kernels": product + 2 * M * N * itemsize, "one kernel": product}
# --8<-- [end:saved]


def main():
    device = "cuda" if isinstance(linear_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## toy")
    # --8<-- [start:toy]
    x = torch.tensor([[1.0, -2.0]], device=device)
    weight = torch.tensor([[3.0, 1.0], [1.0, 2.0], [0.0, -1.0]], device=device)
    bias = torch.tensor([0.5, 1.0, -4.0], device=device)
    for activation in (None, *ACTIVATIONS):
        print(f"{activation}:", [round(y, 4) for y in linear(x, weight, bias, activation)[0].tolist()])
    # --8<-- [end:toy]

    print("## rounding")
    # Multiples of 1/64, so that the sums are exact in float32: what is left is the rounding to float16.
    torch.manual_seed(0)
    M, N, K = 64, 64, 128
    x, weight = (torch.randint(-64, 65, shape).div(64).half().to(device) for shape in ((M, K), (N, K)))
    sums = torch.nn.functional.linear(x.double(), weight.double())
    for activation in ACTIVATIONS:
        exact = in_torch(activation)(sums)
        fused = linear(x, weight, None, activation)
        unfused = in_torch(activation)(linear(x, weight).float()).half()  # the product is rounded on its way
        errors = [((y.double() - exact).norm() / exact.norm()).item() for y in (fused, unfused)]
        print(f"{activation}, fused: {errors[0]:.2e}")
        print(f"{activation}, unfused: {errors[1]:.2e}")

    print("## bytes")
    for M, N, K in ((4, 6, 2), (4096, 16384, 128), (4096, 16384, 4096)):
        moved = bytes_of(M, N, K, 2)
        print(f"{M}×{N}×{K}, saved: {1 - moved['one kernel'] / moved['two kernels']:.1%}")


if __name__ == "__main__":
    main()
