# SPDX-License-Identifier: Apache-2.0
"""Dropout with a gradient, alone or with the sum that follows it: no mask is stored, only a seed of 8 bytes.

With 16 random bits for each element, a whole number from 0 to 65,535, and p rounded to a multiple of 1 / 65,536::

    dropout:      out = x / (1 - p)  where bits >= 65,536 p,  else 0
    add_dropout:  out = dropout(x) + residual

The bits depend on the seed and on the element's index alone, not on strides, blocks or the GPU: Philox, a function of
both, gives them. So the backward computes the same mask again, and is dropout of the incoming gradient, by the same
seed.

- :func:`dropout`, :func:`add_dropout`: the functions to call; they have gradients, of any order, and work under
  ``torch.compile``
- :func:`draw_seed`: a seed from torch's generator, without waiting for the GPU

``dropout_plain.py`` is the same in its shortest form; here, a run of Philox serves eight elements.

Shapes: ``x``, ``residual`` and the result are equal in shape, any number of dimensions.
Traffic, in elements for each of the result: forward 1 read and 1 written, with the sum 2 and 1; backward 1 and 1.
Loads are 16 bytes wide if 16 divides the number of elements; otherwise an element each.
Source: Nitish Srivastava and others, *Dropout: A Simple Way to Prevent Neural Networks from Overfitting*, 2014; John
Salmon and others, *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011: Philox.

Run it on a GPU with ``python dropout.py``, or with ``TRITON_INTERPRET=1 python dropout.py`` in the interpreter.
"""

from numbers import Integral, Real

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BLOCK_SIZE = 2048  # elements of a program
A_THREAD = 16  # elements of a thread: 2 loads of 16 bytes in 16 bits, 4 in 32


# --8<-- [start:bits]
@triton.jit
def random_bits(seed, start, BLOCK_SIZE: tl.constexpr):
    """Return 16 random bits for each element from ``start`` on.

    ``start`` and ``BLOCK_SIZE`` are multiples of 8.
    """
    eighth = start // 8 + tl.arange(0, BLOCK_SIZE // 8)
    a, b, c, d = tl.randint4x(seed, eighth)
    words = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    return tl.interleave(words & 0xFFFF, words >> 16 & 0xFFFF)
# --8<-- [end:bits]


# --8<-- [start:add_kernel]
@triton.jit
def add_dropout_kernel(
    x_ptr, residual_ptr, out_ptr, seed_ptr, n, threshold, scale,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    lane = tl.arange(0, BLOCK_SIZE)
    mask = lane < n - start
    x = tl.load(x_ptr + start + lane, mask=mask).to(COMPUTE)
    bits = random_bits(tl.load(seed_ptr), start, BLOCK_SIZE)
    out = tl.where(bits >= threshold, x * scale, 0)
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + start + lane, mask=mask)
        out += residual.to(COMPUTE)
    tl.store(out_ptr + start + lane, out, mask=mask)
# --8<-- [end:add_kernel]


# --8<-- [start:forward]
def forward(
    x: torch.Tensor, residual: torch.Tensor | None, seed: torch.Tensor, p: float,
    block_size: int = BLOCK_SIZE,
) -> torch.Tensor:  # fmt: skip
    check_arguments(x, residual, seed, p)
    out, n = torch.empty(x.shape, dtype=x.dtype, device=x.device), x.numel()
    if n:
        residual = None if residual is None else without_gaps(residual)
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            add_dropout_kernel[(triton.cdiv(n, block_size),)](
                without_gaps(x), residual, out, seed, n, *threshold_and_scale(p),
                COMPUTE=tl.float64 if x.dtype == torch.float64 else tl.float32,
                BLOCK_SIZE=block_size, num_warps=warps_of(block_size),
            )  # fmt: skip
    return out
# --8<-- [end:forward]


def without_gaps(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` as the kernels read it, element after element in memory; copied if it lies otherwise."""
    return x.resolve_neg().contiguous()


# --8<-- [start:threshold]
def threshold_and_scale(p: float) -> tuple[int, float]:
    """Return how many of the 65,536 values of 16 bits drop an element, and
    the factor for an element that is kept.

    The factor follows what is dropped, so that the mean stays exact.
    """
    threshold = round(p * 65536)
    return threshold, scale_of(threshold / 65536)


def scale_of(p: float) -> float:
    """Return the factor for what is kept. Where nothing is kept, any finite
    number will do.
    """
    return 1 / (1 - p) if p < 1 else 0.0
# --8<-- [end:threshold]


def warps_of(block_size: int) -> int:
    return min(max(block_size // (32 * A_THREAD), 1), 16)


# --8<-- [start:seed]
def draw_seed(device: torch.device) -> torch.Tensor:
    """Draw a seed from torch's generator, an int64 of shape () in the GPU's
    own memory.

    ``torch.manual_seed`` makes it reproducible. The host doesn't wait.
    """
    return torch.randint(2**63 - 1, (), device=device)
# --8<-- [end:seed]


# --8<-- [start:function]
class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(x, residual, seed, p):
        return forward(x, residual, seed, p)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, seed, ctx.p = inputs
        ctx.save_for_backward(seed)

    @staticmethod
    def backward(ctx, grad):
        (seed,) = ctx.saved_tensors
        needs_x, needs_residual, *_ = ctx.needs_input_grad
        grad_x = Dropout.apply(grad, None, seed, ctx.p) if needs_x else None
        return grad_x, grad if needs_residual else None, None, None
# --8<-- [end:function]


# The same for torch.compile, which looks into no custom op


@torch.library.custom_op("triton_by_example::dropout", mutates_args=())
def dropout_op(x: torch.Tensor, residual: torch.Tensor | None, seed: torch.Tensor, p: float) -> torch.Tensor:
    return forward(x, residual, seed, p)


dropout_op.register_fake(lambda x, *_: x.new_empty(x.shape))


def dropout_op_backward(ctx, grad):
    (seed,) = ctx.saved_tensors
    needs_x, needs_residual, *_ = ctx.needs_input_grad
    grad_x = dropout_op(grad, None, seed, ctx.p) if needs_x else None
    return grad_x, grad if needs_residual else None, None, None


dropout_op.register_autograd(dropout_op_backward, setup_context=Dropout.setup_context)


# --8<-- [start:host]
def dropout(x: torch.Tensor, p: float = 0.5, *, seed: torch.Tensor | int | None = None) -> torch.Tensor:
    """Return ``x / (1 - p)`` with a random share ``p`` of the elements set to 0, as in training.

    Args:
        x: On a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, of any shape. A tensor whose elements do not
            lie in order without gaps is copied.
        p: The probability with which an element is dropped, from 0 to 1. It is rounded to a multiple of 1 / 65,536.
        seed: Decides, with an element's index in order, whether it is kept. A tensor of one int64 on the device of
            ``x``, which must not change before the backward pass; or a number. None draws one (:func:`draw_seed`), by a
            small kernel of its own. In a CUDA graph a number stays what it was; what is drawn is drawn in each replay.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64, by a
        scale in float32. The seed is all that is kept for the backward. Equal seeds give equal bits. The kernel may
        still be running when it is returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> x = torch.ones(8, requires_grad=True)
    >>> out = dropout(x, 0.5, seed=3)
    >>> out.detach()
    tensor([0., 2., 0., 0., 2., 2., 0., 2.])
    >>> out.sum().backward()
    >>> x.grad
    tensor([0., 2., 0., 0., 2., 2., 0., 2.])
    """
    return apply(x, None, p, seed)


def add_dropout(
    x: torch.Tensor, residual: torch.Tensor, p: float = 0.5, *, seed: torch.Tensor | int | None = None
) -> torch.Tensor:  # fmt: skip
    """Return ``dropout(x, p) + residual``, by one kernel, rounded once.

    ``residual`` is of the shape, dtype and device of ``x``; all else is as in :func:`dropout`.

    >>> add_dropout(torch.ones(8), torch.arange(8.0), 0.5, seed=3)
    tensor([0., 3., 2., 3., 6., 7., 6., 9.])
    """
    return apply(x, residual, p, seed)


def apply(x: torch.Tensor, residual: torch.Tensor | None, p: float, seed: torch.Tensor | int | None) -> torch.Tensor:
    if not isinstance(p, Real):  # to read a tensor, the host might have to wait
        raise ValueError(f"p must be a number of Python or NumPy; got {p!r}")
    call = dropout_op if torch.compiler.is_compiling() else Dropout.apply
    return call(x, residual, as_seed(seed, x), float(p))


def as_seed(seed: torch.Tensor | int | None, x: torch.Tensor) -> torch.Tensor:
    if seed is None:
        return draw_seed(x.device)
    if isinstance(seed, torch.Tensor):
        return seed
    if not isinstance(seed, Integral):
        raise ValueError(f"seed must be a whole number, or a tensor of one int64; got {seed!r}")
    if not -(2**63) <= int(seed) < 2**63:
        raise ValueError(f"seed must be from -2**63 to 2**63 - 1, for it is an int64; got {seed}")
    return torch.full((), int(seed), dtype=torch.int64, device=x.device)
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(x: torch.Tensor, residual: torch.Tensor | None, seed: torch.Tensor, p: float) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    if not 0 <= p <= 1:
        raise ValueError(f"p must be from 0 to 1, the probability with which an element is dropped; got {p}")
    for name, tensor in {"x": x, "residual": x if residual is None else residual}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.shape != x.shape or tensor.dtype != x.dtype or tensor.device != x.device:
            raise ValueError(
                f"x and {name} must have the same shape, dtype and device; got {tuple(x.shape)} {x.dtype} on {x.device}"
                f" and {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
            )
    if seed.numel() != 1 or seed.dtype != torch.int64 or seed.device != x.device:
        raise ValueError(
            f"seed must be one int64 on the device of x, {x.device}; got {tuple(seed.shape)} {seed.dtype}"
            f" on {seed.device}"
        )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(add_dropout_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


def main():
    device = "cuda" if isinstance(add_dropout_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## seed")
    torch.manual_seed(0)
    x = torch.ones(1000, device=device, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        out = dropout(x)
    print(f"bytes kept for the backward: {sum(t.nbytes for t in saved)}")
    print("the backward drops the same:", torch.equal(torch.autograd.grad(out.sum(), x)[0], out))
    print("the next call drops the same:", torch.equal(dropout(x), out))
    torch.manual_seed(0)
    print("after torch.manual_seed again, the same:", torch.equal(dropout(x), out))


if __name__ == "__main__":
    main()
