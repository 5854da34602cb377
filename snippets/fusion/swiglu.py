# SPDX-License-Identifier: Apache-2.0
"""SwiGLU and GEGLU, ``activation(gate) * up``, with gradients; of two tensors, or of the two halves of one.

All three activations let a part ``p`` of their input pass, between 0 and 1::

    activation(x) = x * p(x)       silu:                 p = sigmoid(x)
                                   gelu:                 p = (1 + erf(x / sqrt(2))) / 2
                                   gelu, tanh approx.:   p = sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3))

    out = gate * p * up
    grad_gate = grad * up * (p + gate * slope)       slope = dp / dgate
    grad_up = grad * gate * p

The backward computes ``p`` again, from the ``gate`` that it needs anyway, so the forward stores nothing but its result.

``snippets/library/swiglu.py`` is the file to copy into a model: other activations, interleaved columns, a bias, a
limit, ``torch.compile`` and more.

Traffic, in elements for each of the result: forward 2 read and 1 written, backward 3 read and 2 written.
Each element is computed by itself, so equal inputs give equal bits.
Source: Noam Shazeer, *GLU Variants Improve Transformer*, 2020; Dan Hendrycks and Kevin Gimpel, *Gaussian Error Linear
Units*, 2016.

Run it on a GPU with ``python swiglu.py``, or with ``TRITON_INTERPRET=1 python swiglu.py`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ACTIVATIONS = ("silu", "gelu", "gelu_tanh")
BLOCK_SIZE = 1024  # elements of a program
PER_WARP = 256  # of them: 8 a thread, which are 16 bytes in 16 bits


# --8<-- [start:part]
@triton.jit
def passes(x, ACTIVATION: tl.constexpr):
    """Return what share of ``x`` passes, and the slope of that share."""
    if ACTIVATION == "silu":
        p = tl.sigmoid(x)
        slope = p * (1 - p)
    elif ACTIVATION == "gelu":
        p = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)  # sqrt(1/2)
        slope = 0.3989422804014327 * tl.exp(-0.5 * x * x)  # sqrt(1/2/pi)
    else:
        p = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        slope = 1.5957691216057308 * (1 + 0.134145 * x * x) * p * (1 - p)
    return p, slope
# --8<-- [end:part]


# --8<-- [start:kernel]
@triton.jit
def tile(
    rows, columns, blocks,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return which rows and columns this program takes, and a mask."""
    program = tl.program_id(axis=0)
    first_row = (program // blocks).to(tl.int64) * BLOCK_ROWS
    first_column = (program % blocks).to(tl.int64) * BLOCK_COLUMNS
    row = first_row + tl.arange(0, BLOCK_ROWS)[:, None]
    column = first_column + tl.arange(0, BLOCK_COLUMNS)[None, :]
    return row, column, (row < rows) & (column < columns)


@triton.jit
def glu_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
    columns,
    blocks,
    gate_stride,
    up_stride,
    ACTIVATION: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Compute a tile of ``activation(gate) * up``.

    Parameters:
        gate_ptr: ``(rows, columns)``, rows ``gate_stride`` apart; so is up.
        out_ptr: ``(rows, columns)``, contiguous.
        blocks: How many tiles a row has.
        ACTIVATION: One of ``ACTIVATIONS``.
        COMPUTE: The dtype to compute in.
        BLOCK_ROWS: Of a tile, a power of two; so is ``BLOCK_COLUMNS``.
    """
    row, column, mask = tile(
        rows, columns, blocks, BLOCK_ROWS, BLOCK_COLUMNS
    )  # fmt: skip
    gate = tl.load(gate_ptr + row * gate_stride + column, mask=mask)
    up = tl.load(up_ptr + row * up_stride + column, mask=mask)
    gate, up = gate.to(COMPUTE), up.to(COMPUTE)
    p, _ = passes(gate, ACTIVATION)
    tl.store(out_ptr + row * columns + column, gate * p * up, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def glu_backward_kernel(
    grad_ptr,
    gate_ptr,
    up_ptr,
    grad_gate_ptr,
    grad_up_ptr,
    rows,
    columns,
    blocks,
    grad_stride,
    gate_stride,
    up_stride,
    out_stride,
    ACTIVATION: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Compute a tile of both gradients.

    Parameters, beside those of the forward:
        grad_ptr: ``(rows, columns)``, rows ``grad_stride`` apart.
        grad_gate_ptr: ``(rows, columns)``, rows ``out_stride`` apart; so is
            the gradient of up.
    """
    row, column, mask = tile(
        rows, columns, blocks, BLOCK_ROWS, BLOCK_COLUMNS
    )  # fmt: skip
    grad = tl.load(grad_ptr + row * grad_stride + column, mask=mask)
    gate = tl.load(gate_ptr + row * gate_stride + column, mask=mask)
    up = tl.load(up_ptr + row * up_stride + column, mask=mask)
    # --8<-- [start:gradients]
    grad, gate, up = grad.to(COMPUTE), gate.to(COMPUTE), up.to(COMPUTE)
    p, slope = passes(gate, ACTIVATION)
    offsets = row * out_stride + column
    grad_gate = grad * up * (p + gate * slope)
    tl.store(grad_gate_ptr + offsets, grad_gate, mask=mask)
    tl.store(grad_up_ptr + offsets, grad * gate * p, mask=mask)
    # --8<-- [end:gradients]
# --8<-- [end:backward_kernel]


# --8<-- [start:launches]
def forward(
    gate: torch.Tensor, up: torch.Tensor | None, activation: str, block_size: int = BLOCK_SIZE
) -> torch.Tensor:  # fmt: skip
    """Return ``activation(gate) * up``; without ``up``, of the halves of ``gate``."""
    gate, up = both(gate, up)
    check_arguments(activation=activation, gate=gate, up=up)
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if out.numel():
        launch(glu_kernel, [gate, up], [out], activation, block_size)
    return out


def backward(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor | None, activation: str, block_size: int = BLOCK_SIZE
) -> list[torch.Tensor]:
    """Return the gradients of ``gate`` and ``up``; without ``up``, that of ``gate``, whose halves are written in place.
    """
    like_gate = {"size": gate.shape, "dtype": gate.dtype, "device": gate.device}
    grads = [torch.empty(**like_gate) for _ in range(1 if up is None else 2)]
    gate, up = both(gate, up)
    check_arguments(activation=activation, gate=gate, up=up, grad=grad)
    if grad.numel():
        outs = both(*grads) if len(grads) == 2 else both(grads[0], None)
        launch(glu_backward_kernel, [grad, gate, up], outs, activation, block_size)
    return grads
# --8<-- [end:launches]


# --8<-- [start:layout]
def both(gate: torch.Tensor, up: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tensors, or the halves of one: views of it, so nothing is copied."""
    if up is not None:
        return gate, up
    if gate.layout != torch.strided:
        raise ValueError(f"gate is {gate.layout}; pass gate.to_dense()")
    if not gate.ndim or gate.shape[-1] % 2:
        raise ValueError(f"one tensor must have two halves, (..., 2 * columns); got the shape {tuple(gate.shape)}")
    columns = gate.shape[-1] // 2
    return gate[..., :columns], gate[..., columns:]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


def launch(kernel, given, outs, activation: str, block_size: int) -> None:
    """Start a program of ``kernel`` for each ``block_size`` elements, of several rows where they are short."""
    given = [as_rows(each) for each in given]
    rows, columns = given[0].shape
    strides = [each.stride(0) for each in given] + [outs[0].stride(-2) if outs[0].ndim > 1 else columns]
    if all(stride == columns for stride in strides):  # without gaps: one row of all elements
        rows, columns = 1, rows * columns
        strides = [columns] * len(strides)
    block_columns = min(block_size, triton.next_power_of_2(columns))
    block_rows = min(block_size // block_columns, triton.next_power_of_2(rows))
    blocks = triton.cdiv(columns, block_columns)
    programs = triton.cdiv(rows, block_rows) * blocks
    if programs > 2**31 - 1:  # CUDA's limit along one axis
        raise ValueError(f"{rows} rows of {columns} columns are too many for one launch; split them")
    with torch.cuda.device_of(given[0]):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(programs,)](
            *given,
            *outs,
            rows,
            columns,
            blocks,
            *(strides if len(outs) == 2 else strides[:-1]),
            ACTIVATION=activation,
            COMPUTE=tl.float64 if given[0].dtype == torch.float64 else tl.float32,
            BLOCK_ROWS=block_rows,
            BLOCK_COLUMNS=block_columns,
            num_warps=max(1, block_rows * block_columns // PER_WARP),
        )
# --8<-- [end:layout]


# --8<-- [start:function]
class GLU(torch.autograd.Function):
    @staticmethod
    def forward(gate, up, activation):
        return forward(gate, up, activation)

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up, ctx.activation = inputs
        ctx.save_for_backward(gate, up)

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "swiglu and geglu have no gradient of their gradient, so they refuse create_graph=True, and"
                " torch.func.grad and vjp, which always ask for it; use torch.autograd.grad"
            )
        grads = backward(grad, *ctx.saved_tensors, ctx.activation)
        return *grads, *[None] * (3 - len(grads))
# --8<-- [end:function]


# --8<-- [start:host]
def swiglu(gate: torch.Tensor, up: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``silu(gate) * up``, rounded once; it has gradients for both tensors.

    Args:
        gate: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied, in the
            forward and again in the backward, unless the elements of a row are neighbors in memory, and the rows lie
            evenly apart. Without ``up``: ``(..., 2 * columns)``, the gate in the first half of each row, up in the
            second. Nothing is copied for that, and the gradient is one tensor, too.
        up: Of the shape, dtype and device of ``gate``; likewise.

    Returns:
        A new contiguous tensor ``(..., columns)``, computed in float32, or in float64 for float64. So are the
        gradients, which are contiguous, too, and deterministic. ``gate`` and ``up`` are kept for the backward pass. The
        kernel may still be running when it is returned.

    Raises:
        ValueError: If ``gate`` or ``up`` is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> swiglu(torch.tensor([2.0, 0.0, -2.0]), torch.tensor([3.0, 3.0, 3.0]))
    tensor([ 5.2848,  0.0000, -0.7152])
    >>> halves = torch.tensor([2.0, 0.0, 3.0, 5.0], requires_grad=True)
    >>> swiglu(halves).sum().backward()
    >>> halves.grad
    tensor([3.2724, 2.5000, 1.7616, 0.0000])
    """
    return glu(gate, up, "silu")


def geglu(gate: torch.Tensor, up: torch.Tensor | None = None, *, approximate: str = "none") -> torch.Tensor:
    """Return ``gelu(gate, approximate) * up``; ``approximate`` is ``"none"`` or ``"tanh"``, as for torch's ``gelu``.

    All else is as in :func:`swiglu`.

    >>> geglu(torch.tensor([2.0, 0.0, -2.0]), torch.tensor([3.0, 3.0, 3.0]))
    tensor([ 5.8635,  0.0000, -0.1365])
    >>> geglu(torch.tensor([2.0]), torch.tensor([3.0]), approximate="tanh")
    tensor([5.8638])
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate must be "none" or "tanh"; got {approximate!r}')
    return glu(gate, up, "gelu" if approximate == "none" else "gelu_tanh")


def glu(gate: torch.Tensor, up: torch.Tensor | None, activation: str) -> torch.Tensor:
    return GLU.apply(gate, up, activation)
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(*, activation: str, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    gate = tensors["gate"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    if not gate.ndim:
        raise ValueError("gate must have a dimension or more, the last being the columns; got a single number")
    for name, tensor in tensors.items():
        if tensor.shape != gate.shape or tensor.dtype != gate.dtype or tensor.device != gate.device:
            raise ValueError(
                f"gate and {name} must have the same shape, dtype and device; got {tuple(gate.shape)} {gate.dtype} on"
                f" {gate.device} and {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
            )
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
    if gate.dtype not in DTYPES:
        raise ValueError(f"dtype {gate.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(glu_kernel, triton.JITFunction)
    if gate.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"gate is on {gate.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if gate.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:in_torch]
def in_torch(gate: torch.Tensor, up: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    F = torch.nn.functional
    if activation == "silu":
        return F.silu(gate) * up
    return F.gelu(gate, approximate="tanh" if activation == "gelu_tanh" else "none") * up


def halves_in_torch(x: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    return in_torch(*x.chunk(2, dim=-1), activation)
# --8<-- [end:in_torch]


def shown(values: torch.Tensor, digits: int = 4) -> str:
    return " ".join(f"{value:{digits + 4}.{digits}f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(glu_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## halves")
    x = torch.tensor([[2.0, 0.0, -2.0, 3.0, 3.0, 3.0], [1.0, -1.0, 4.0, 10.0, 10.0, 10.0]], device=device)
    out = forward(x, None, "silu", block_size=4)
    for i in range(2):
        print(f"row {i}, gate | up:", shown(x[i, :3], 1), "|", shown(x[i, 3:], 1))
        print(f"row {i}, out:      ", shown(out[i]))

    print("## their gradient")
    [grad_x] = backward(torch.ones_like(out), x, None, "silu", block_size=4)
    for i in range(2):
        print(f"row {i}:", shown(grad_x[i, :3]), "|", shown(grad_x[i, 3:]))


if __name__ == "__main__":
    main()
