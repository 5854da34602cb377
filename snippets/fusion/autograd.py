# SPDX-License-Identifier: Apache-2.0
"""``silu(x) * y`` with a gradient, element by element: one kernel forward, one kernel backward.

With ``s = sigmoid(x)``, the forward kernel computes ``out = x * s * y``. The backward kernel is given ``grad``, the
gradient of the loss for ``out``, and computes the gradients for ``x`` and ``y``::

    grad_x = grad * y * s * (1 + x * (1 - s))
    grad_y = grad * x * s

It computes ``s`` again, from the ``x`` that it needs anyway, so the forward kernel stores nothing but its result.

- :func:`silu_mul`: the function to call; it has a gradient, and works under ``torch.compile``
- :class:`SwiGLU`: the feed-forward block of Llama and its like, by it

Shapes: ``x``, ``y`` and the result are equal in shape, any number of dimensions.
Traffic, in elements for each of the result: forward 2 read and 1 written, backward 3 read and 2 written.
Source: Noam Shazeer, *GLU Variants Improve Transformer*, 2020; ``torch.nn.functional.silu`` defines the activation.

Run it on a GPU with ``python autograd.py``, or with ``TRITON_INTERPRET=1 python autograd.py`` in the interpreter.
"""

import math

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BLOCK_SIZE = 1024


# --8<-- [start:forward_kernel]
@triton.jit
def silu_mul_kernel(
    x_ptr, y_ptr, out_ptr, n,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(COMPUTE)
    y = tl.load(y_ptr + offsets, mask=mask).to(COMPUTE)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x) * y, mask=mask)
# --8<-- [end:forward_kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def silu_mul_backward_kernel(
    grad_ptr, x_ptr, y_ptr, grad_x_ptr, grad_y_ptr, n,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    grad = tl.load(grad_ptr + offsets, mask=mask).to(COMPUTE)
    x = tl.load(x_ptr + offsets, mask=mask).to(COMPUTE)
    y = tl.load(y_ptr + offsets, mask=mask).to(COMPUTE)
    s = tl.sigmoid(x)
    tl.store(
        grad_x_ptr + offsets, grad * y * s * (1 + x * (1 - s)), mask=mask
    )
    tl.store(grad_y_ptr + offsets, grad * x * s, mask=mask)
# --8<-- [end:backward_kernel]


# --8<-- [start:launches]
def forward(
    x: torch.Tensor, y: torch.Tensor, block_size=BLOCK_SIZE
) -> torch.Tensor:
    check_arguments(x=x, y=y)
    x, y = without_gaps(x, y)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    launch(silu_mul_kernel, x, y, out, block_size=block_size)
    return out


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    block_size=BLOCK_SIZE,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_arguments(x=x, y=y, grad=grad)
    grad, x, y = without_gaps(grad, x, y)
    like_x = {"size": x.shape, "dtype": x.dtype, "device": x.device}
    grad_x, grad_y = torch.empty(**like_x), torch.empty(**like_x)
    tensors = grad, x, y, grad_x, grad_y
    launch(silu_mul_backward_kernel, *tensors, block_size=block_size)
    return grad_x, grad_y
# --8<-- [end:launches]


# --8<-- [start:launch]
def without_gaps(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors as the kernels read them, element after element in memory; others are copied."""
    return [tensor.resolve_neg().contiguous() for tensor in tensors]


def launch(kernel, *tensors: torch.Tensor, block_size: int = BLOCK_SIZE) -> None:
    """Start a program of ``kernel`` for each ``block_size`` elements."""
    like, *_ = tensors
    n = like.numel()
    if not n:
        return  # nothing to launch
    compute = tl.float64 if like.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(like):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(triton.cdiv(n, block_size),)](*tensors, n, COMPUTE=compute, BLOCK_SIZE=block_size)
# --8<-- [end:launch]


# --8<-- [start:function]
class SiluMul(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return forward(x, y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "silu_mul has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and"
                " vjp, which always ask for it; use torch.autograd.grad"
            )
        return backward(grad, *ctx.saved_tensors)
# --8<-- [end:function]


# --8<-- [start:op]
@torch.library.custom_op("triton_by_example::silu_mul", mutates_args=())
def silu_mul_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return forward(x, y)


@torch.library.custom_op(
    "triton_by_example::silu_mul_backward", mutates_args=()
)
def silu_mul_backward_op(
    grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return backward(grad, x, y)


@silu_mul_op.register_fake
def _(x, y):
    return x.new_empty(x.shape)


@silu_mul_backward_op.register_fake
def _(grad, x, y):
    return x.new_empty(x.shape), x.new_empty(x.shape)


silu_mul_op.register_autograd(
    lambda ctx, grad: silu_mul_backward_op(grad, *ctx.saved_tensors),
    setup_context=SiluMul.setup_context,
)
# --8<-- [end:op]


# --8<-- [start:host]
def silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return ``torch.nn.functional.silu(x) * y``, rounded once; it has a gradient for ``x`` and for ``y``.

    Args:
        x: On a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, of any shape. A tensor whose elements do not
            lie in order without gaps is copied, once in each pass.
        y: Of the shape, dtype and device of ``x``; likewise.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64. So are
        the gradients, which are contiguous, too. ``x`` and ``y`` are kept for the backward. The kernel may still be
        running when it is returned.

    Raises:
        ValueError: If ``x`` or ``y`` is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x, y = torch.tensor([2.0, 0.0], requires_grad=True), torch.tensor([3.0, 5.0], requires_grad=True)
    >>> silu_mul(x, y).sum().backward()
    >>> x.grad, y.grad
    (tensor([3.2724, 2.5000]), tensor([1.7616, 0.0000]))
    """
    if torch.compiler.is_compiling():
        return silu_mul_op(x, y)
    return SiluMul.apply(x, y)
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    x = tensors["x"]
    for name, tensor in tensors.items():
        if tensor.shape != x.shape or tensor.dtype != x.dtype or tensor.device != x.device:
            raise ValueError(
                f"x and {name} must have the same shape, dtype and device; got {tuple(x.shape)} {x.dtype} on {x.device}"
                f" and {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
            )
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(silu_mul_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:module]
class SwiGLU(torch.nn.Module):
    """``down(silu(gate(x)) * up(x))``, of ``x`` ``(..., width)``."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(silu_mul(self.gate(x), self.up(x)))
# --8<-- [end:module]


def in_torch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x) * y


# --8<-- [start:by_hand]
def by_hand(x: float, y: float, grad: float) -> dict[str, float]:
    """Return each step for one element, forward and then backward."""
    s = 1 / (1 + math.exp(-x))
    silu = x * s
    slope_of_s = s * (1 - s)
    slope_of_silu = s + x * slope_of_s
    return {
        "sigmoid(x)": s,
        "silu(x)": silu,
        "out": silu * y,
        "slope of sigmoid at x": slope_of_s,
        "slope of silu at x": slope_of_silu,
        "grad_x": grad * y * slope_of_silu,
        "grad_y": grad * silu,
    }
# --8<-- [end:by_hand]


# --8<-- [start:difference]
def slope_by_difference(step: float, dtype: torch.dtype) -> float:
    """Return the slope of ``out`` along ``x`` at x = 2, y = 3, from two results, each the best that ``dtype`` can hold.
    """
    low, high = (torch.tensor(2.0 + way * step, dtype=dtype).item() for way in (-1, 1))
    below, above = (torch.tensor(by_hand(x, 3.0, 1.0)["out"], dtype=dtype) for x in (low, high))
    return (above - below).item() / (2 * step)
# --8<-- [end:difference]


def as_torch(function, inputs: list[torch.Tensor], grad: torch.Tensor, reference=in_torch, tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of torch."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs, grad)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:7.4f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(silu_mul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## six elements")
    x = torch.tensor([2.0, 1.0, 0.0, -1.0, -2.0, -3.0], device=device)
    y = torch.full_like(x, 3.0)
    grad = torch.ones_like(x)
    out = forward(x, y, block_size=4)
    grad_x, grad_y = backward(grad, x, y, block_size=4)
    for name, values in {"x": x, "y": y, "out": out, "grad_x": grad_x, "grad_y": grad_y}.items():
        print(f"{name:6}", shown(values))

    print("## by hand")
    for name, value in by_hand(2.0, 3.0, 1.0).items():
        print(f"{name}: {value:.4f}")

    print("## differences")
    for step in (1e-2, 1e-4, 1e-6):
        for dtype in (torch.float32, torch.float64):
            print(f"step {step:g}, {dtype}: {slope_by_difference(step, dtype):.4f}")

    print("## gradients")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    x, y = torch.randn(3, 5, **options), torch.randn(3, 5, **options)
    print("gradcheck:", torch.autograd.gradcheck(silu_mul, (x, y)))
    # --8<-- [end:gradcheck]
    for shape, dtype, tolerance in (((64, 781), torch.float32, 1e-5), ((8, 4096), torch.float16, 4e-3)):
        x, y, grad = torch.randn(3, *shape).to(device, dtype)
        inputs = [x.requires_grad_(), y.requires_grad_()]
        same = as_torch(silu_mul, inputs, grad, tolerance=tolerance)
        print(f"{' x '.join(map(str, shape))}, {dtype}, as torch: {same}")

    module = SwiGLU(64, 160).to(device)
    x = torch.randn(5, 64, device=device, requires_grad=True)
    inputs, grad = [x, *module.parameters()], torch.randn_like(x)
    reference = lambda x, *_: module.down(in_torch(module.gate(x), module.up(x)))
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    compiled = torch.compile(module, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    for name, function in {"module": module, "compiled": compiled}.items():
        same = as_torch(lambda x, *_, function=function: function(x), inputs, grad, reference, tolerance=1e-4)
        print(f"{name}: result, and gradients of x and {len(inputs) - 1} weights, as torch: {same}")


if __name__ == "__main__":
    main()
