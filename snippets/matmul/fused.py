# SPDX-License-Identifier: Apache-2.0
"""A linear layer in one kernel: the product, then bias and activation before the tile is stored.

``out = activation(x @ weight.T + bias)``. Until it is stored, a tile of the result stands in registers, in float32.
What is done to it there costs no traffic and no rounding; in a kernel of its own, the activation would read all of the
result again and write it again. The product is that of ``persistent.py``: a program or two for each multiprocessor,
tiles fetched and stored by the TMA, one loop over all steps of all tiles.

Shapes, as in ``torch.nn.functional.linear``: ``x`` is (..., K), ``weight`` is (N, K), ``bias`` is (N,), the result is
(..., N). FLOPs: 2 * M * N * K, M being the number of rows of ``x``. Bytes saved against two kernels: one write and one
read of the result, 2 * M * N elements.

The activation is a constexpr, a name. So the kernel is compiled for each activation, with no choice left to make at
run time, and the host can refuse a name that it does not know. (A ``@triton.jit`` function works as a constexpr, too:
use one where others shall bring activations of their own.)

Sources: ``torch.nn.functional`` (``linear``, ``relu``, ``gelu``, ``silu``) defines the results; Triton's tutorial
*Persistent matmul* has the loop. The polynomial in ``tail`` was fitted for this file.

Run it on a GPU with ``python fused.py``, or without one in Triton's interpreter with ``TRITON_INTERPRET=1``.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:tail]
@triton.jit
def tail(x):
    """Return a normal distribution's share beyond x, for x from 0 to 20.

    It is 2 to a polynomial; up to 4.5, the relative error is 3e-6.
    """
    p = 9.1918980e-6 + x * -5.8392946e-7
    p = -5.9228967e-4 + x * (-2.3049869e-5 + x * p)
    p = -5.3065901e-2 + x * (7.7604569e-3 + x * p)
    p = -1.1511339 + x * (-0.45898791 + x * p)
    return tl.exp2(x * p - 1)
# --8<-- [end:tail]


# --8<-- [start:activate]
@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        # NaN stays NaN, as in torch.
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    # X * (1 + erf(x / sqrt(2))) / 2: a relu, less the tail of a normal
    # distribution.
    elif ACTIVATION == "gelu":
        size = tl.minimum(tl.abs(x), 20.0)
        x = tl.maximum(
            x, 0.0, propagate_nan=tl.PropagateNan.ALL
        ) - size * tail(size)
    # exp(y) is exp2(y * log2(e)), and a GPU has an instruction for exp2:
    # the factor is put into the constants.
    # 0.5 * (1 + tanh(y)) is 1 / (1 + exp(-2 * y)); 2 * sqrt(2 / pi) *
    # log2(e).
    elif ACTIVATION == "gelu_tanh":
        x = x / (
            1 + tl.exp2(-2.302208198144325 * (x + 0.044715 * x * x * x))
        )
    elif ACTIVATION == "silu":
        x = x / (1 + tl.exp2(-1.4426950408889634 * x))
    return x
# --8<-- [end:activate]


# --8<-- [start:kernel]
@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return row and column of a tile, by the grouped order: GROUP_M tiles down, then the next column."""
    per_group = GROUP_M * tiles_n
    first_m = tile // per_group * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    within = tile % per_group
    return first_m + within % height, within // height


@triton.jit
def finish(
    acc, bias, out, m, n, M, N,
    ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr,
    DESCRIBED: tl.constexpr,
):  # fmt: skip
    """Add the bias to a tile of sums, apply the activation, and store it, in PARTS parts, one after the other."""
    if PARTS > 1:
        HALF: tl.constexpr = BLOCK_N // 2
        left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, HALF)), (0, 2, 1)))
        finish(left, bias, out, m, n, M, N, ACTIVATION, BLOCK_M, HALF, PARTS // 2, DESCRIBED)
        finish(right, bias, out, m, n + HALF, M, N, ACTIVATION, BLOCK_M, HALF, PARTS // 2, DESCRIBED)
    else:
        # --8<-- [start:finish]
        columns = n + tl.arange(0, BLOCK_N)
        if bias is not None:
            acc += tl.load(bias + columns, mask=columns < N)[None, :]
        acc = activate(acc, ACTIVATION)
        # The only rounding after float32, to the dtype of out.
        if DESCRIBED:
            out.store([m, n], acc.to(out.dtype))
        else:
            rows = m + tl.arange(0, BLOCK_M)
            mask = (rows[:, None] < M) & (columns[None, :] < N)
            tl.store(
                out + rows[:, None].to(tl.int64) * N + columns[None, :],
                acc,
                mask=mask,
            )
        # --8<-- [end:finish]


@triton.jit
def linear_kernel(
    x, weight, bias, out, M, N, K,
    ACTIVATION: tl.constexpr, DESCRIBED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, PARTS: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    done = pid - programs
    for tile in tl.range(pid, tiles_m * tiles_n, programs, flatten=True):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(x.load([m, k]), weight.load([n, k]).T, acc, input_precision="ieee")
        done += programs  # counted again, as in persistent.py: the loads may be at the next tile by now
        pid_m, pid_n = position(done, tiles_m, tiles_n, GROUP_M)
        finish(
            acc, bias, out, pid_m * BLOCK_M, pid_n * BLOCK_N, M, N, ACTIVATION, BLOCK_M, BLOCK_N, PARTS, DESCRIBED
        )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """How to cut a layer into tiles and schedule them."""

    block_m: int  # rows of a tile of the result
    block_n: int  # columns of a tile of the result
    block_k: int  # columns of x and weight loaded in one step
    num_warps: int
    # Buffers for a step's tiles. Loads run num_stages - 1 steps ahead.
    num_stages: int
    # Parts in which a tile is activated and stored. More parts need fewer
    # registers and less shared memory.
    parts: int = 1
    # Programs per multiprocessor. While one stores its tile, another can
    # multiply.
    per_sm: int = 1
    # Tiles down before the next column of tiles, for reuse in L2.
    group_m: int = 8


PAIR = Config(128, 128, 64, num_warps=4, num_stages=3, parts=2, per_sm=2)
LARGE = Config(128, 256, 64, num_warps=8, num_stages=4, parts=4)
SINGLE = Config(128, 128, 64, num_warps=8, num_stages=5)
LOW = Config(64, 64, 128, num_warps=4, num_stages=3, per_sm=2, group_m=1)
FLOAT32 = Config(64, 64, 16, num_warps=4, num_stages=3, per_sm=2)


def choose_config(
    M: int, N: int, K: int, itemsize: int, multiprocessors: int
) -> Config:
    """Return the config for a layer.

    >>> choose_config(8192, 8192, 256, itemsize=2, multiprocessors=132) == PAIR
    True
    """
    if itemsize == 4:
        return FLOAT32
    tiles = -(-M // 128) * -(-N // 128)
    # A lower tile loads fewer rows that don't exist.
    if M <= 64 or 2 * tiles <= multiprocessors:
        return LOW._replace(
            block_m=16 if M <= 16 else 32 if M <= 32 else 64
        )
    if tiles <= multiprocessors:
        return SINGLE
    return PAIR if K < 2048 else LARGE
# --8<-- [end:config]


# --8<-- [start:host]
def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None
) -> torch.Tensor:
    """Return ``activation(x @ weight.T + bias)``, computed in float32 and rounded once.

    Args:
        x: ``(..., K)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``.
        weight: ``(N, K)``, of the dtype and on the device of ``x``. Any strides will do for both; they are copied first
            unless their rows are contiguous and begin at multiples of 16 bytes.
        bias: ``(N,)``, likewise; or ``None``.
        activation: ``None`` or one of ``ACTIVATIONS``; ``"gelu"`` is the exact one, without tanh.

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
        return out  # nothing to launch
    M = out.numel() // N
    if M > LONGEST:
        raise ValueError(f"x has {M} rows, more than 2**30; split it")
    given = x, weight
    chosen = choose_config(M, N, K, x.itemsize, multiprocessors(x.device)), x.device
    config = FEWER.get(chosen, chosen[0])
    block_m, block_n, block_k = config[:3]
    tiles = -(-M // block_m) * -(-N // block_n)
    if tiles >= 2**31 - 2**16:  # they are counted in 32 bits, and one round beyond the last
        raise ValueError(f"a result of {M} x {N} takes too many tiles; split x or weight")
    x = x.reshape(M, K)
    if K == 0:  # a descriptor describes no empty tensor, and a sum of one zero is a sum of nothing
        x, weight = x.new_zeros(M, 1), weight.new_zeros(N, 1)
    described = N * out.itemsize % 16 == 0  # otherwise its rows do not begin where the TMA can write
    target = TensorDescriptor(out, [M, N], [N, 1], [block_m, block_n // config.parts]) if described else out
    at_once = config.per_sm * multiprocessors(out.device)
    rounds = -(-tiles // at_once)
    try:
        with torch.cuda.device_of(out):
            linear_kernel[(-(-tiles // rounds),)](
                described_rows(x, [block_m, block_k]), described_rows(weight, [block_n, block_k]),
                None if bias is None else bias.contiguous(), target, M, N, max(K, 1),
                ACTIVATION=activation, DESCRIBED=described, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
                PARTS=config.parts, GROUP_M=config.group_m, num_warps=config.num_warps, num_stages=config.num_stages,
            )  # fmt: skip
    except triton.OutOfResources as error:  # only the compiler knows how much shared memory it takes on this GPU
        if config.num_stages == 1:
            raise ValueError(f"{config} does not fit on {out.device}: {error}") from None
        FEWER[chosen] = config._replace(num_stages=config.num_stages - 1)
        return linear(*given, bias, activation)
    return out


def described_rows(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """Describe a matrix to the TMA, or a copy: its rows must be contiguous and begin at multiples of 16 bytes."""
    stride, step = x.stride()
    if step != 1 or x.shape[1] > stride or stride >= 2**36 or (stride * x.itemsize | x.data_ptr()) % 16:
        width = -(-x.shape[1] * x.itemsize // 16) * 16 // x.itemsize
        x = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)[:, : x.shape[1]].copy_(x)
    return TensorDescriptor.from_tensor(x, block)
# --8<-- [end:host]


FEWER = {}  # by config and device: the same with fewer stages, where a GPU has no room for all


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has; in the interpreter, made up, as many as an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def check_arguments(x, weight, bias, activation) -> None:
    """Raise ``ValueError`` for arguments that :func:`linear` would get wrong, or can't serve at all."""
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
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


# --8<-- [start:pair]
def in_torch(activation: str | None):
    """Return the function of torch's that ``activation`` names."""
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
        print(
            f"{activation}:",
            [
                round(y, 4)
                for y in linear(x, weight, bias, activation)[0].tolist()
            ],
        )
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

    print("## far out")
    # --8<-- [start:far]
    x = torch.tensor([[-1.0], [-3.0], [-5.0]], device=device)
    ways = {
        "by the tail": linear(x, torch.ones_like(x[:1]), None, "gelu"),
        "by 1 + erf": 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
        "exact": x.double() * torch.special.erfc(-x.double() * 0.5**0.5) / 2,
    }
    for way, results in ways.items():
        for at, result in zip(x.flatten().tolist(), results.flatten().tolist(), strict=True):
            print(f"gelu({at:g}), {way}: {result:.5g}")
    # --8<-- [end:far]

    print("## bytes")
    for M, N, K in ((4, 6, 2), (4096, 16384, 128), (4096, 16384, 4096)):
        moved = bytes_of(M, N, K, 2)
        print(f"{M}×{N}×{K}, saved: {1 - moved['one kernel'] / moved['two kernels']:.1%}")


if __name__ == "__main__":
    main()
