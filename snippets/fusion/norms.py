# SPDX-License-Identifier: Apache-2.0
"""RMS norm of each row, with its gradients.

With ``n`` columns, ``x_hat`` being the normalized row, and ``g = grad * weight``::

    x_hat = x * rrms                 rrms = 1 / sqrt(sum(x**2) / n + eps)
    out = x_hat * weight
    grad_x = rrms * (g - x_hat * mean(g * x_hat))
    grad_weight = sum over the rows of grad * x_hat

A program takes a whole row. Forward, it stores one number for the backward. Backward, a fixed number of programs shares
the rows; each adds up its own for ``grad_weight``, and ``sum_partials_kernel`` adds those sums, always in one order, so
equal inputs give equal bits.

``snippets/library/norms.py`` is the file to copy into a model: layer norm, sums with a residual, longer rows and more.

Traffic, in elements for each of ``x``: forward 1 read and 1 written, backward 2 read and 1 written.
Source: Biao Zhang and Rico Sennrich, *Root Mean Square Layer Normalization*, 2019. The page derives the gradients.

Run it on a GPU with ``python norms.py``, or with ``TRITON_INTERPRET=1 python norms.py`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_COLUMNS = 2**14  # the backward of a longer row does not fit into a program's registers (on sm_90)


# --8<-- [start:kernel]
@triton.jit
def rms_norm_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    rrms_ptr,
    columns,
    x_stride,
    EPS: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Normalize one row.

    Parameters:
        x_ptr: ``(rows, columns)``, rows ``x_stride`` apart.
        weight_ptr: ``(columns,)``.
        out_ptr: Like ``x``, contiguous.
        rrms_ptr: ``(rows,)``, 1 divided by the root of the mean square.
        COMPUTE: The dtype to compute in.
        BLOCK_SIZE: A power of two, no less than the columns.
    """
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0)
    x = x.to(COMPUTE)
    weight = tl.load(weight_ptr + column, mask=mask).to(COMPUTE)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / columns + EPS)
    out = x * rrms * weight
    tl.store(out_ptr + row * columns + column, out, mask=mask)
    tl.store(rrms_ptr + row, rrms)
# --8<-- [end:kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def rms_norm_backward_kernel(
    grad_ptr,
    x_ptr,
    weight_ptr,
    rrms_ptr,
    grad_x_ptr,
    partial_ptr,
    rows,
    columns,
    grad_stride,
    x_stride,
    COMPUTE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute the gradients of every ``programs``-th row, and add up
    what they give to the gradient of the weight.

    Parameters, beside those of the forward:
        grad_ptr: Like ``x``, rows ``grad_stride`` apart.
        grad_x_ptr: Like ``x``, contiguous.
        partial_ptr: ``(programs, columns)``, the sums.
        STAGES: How many rows are in flight: the one that is computed,
            and those that are loaded ahead.
    """
    program = tl.program_id(axis=0)
    programs = tl.num_programs(axis=0)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    # 0, because lanes that are off take part in sums, and 0 * NaN is NaN
    weight = tl.load(weight_ptr + column, mask=mask, other=0).to(COMPUTE)
    partial = tl.zeros((BLOCK_SIZE,), COMPUTE)
    for row in tl.range(program, rows, programs, num_stages=STAGES):
        # not row.to(): in the interpreter, row is a number of Python
        row = tl.cast(row, tl.int64)
        grad_row = grad_ptr + row * grad_stride
        grad = tl.load(grad_row + column, mask=mask, other=0).to(COMPUTE)
        x_row = x_ptr + row * x_stride
        x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
        rrms = tl.load(rrms_ptr + row)
        x_hat = x * rrms
        partial += grad * x_hat
        g = grad * weight
        along = tl.sum(g * x_hat, axis=0) / columns
        grad_x = rrms * (g - x_hat * along)
        tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)
    sums = partial_ptr + program.to(tl.int64) * columns + column
    tl.store(sums, partial, mask=mask)
# --8<-- [end:backward_kernel]


# --8<-- [start:sum_kernel]
@triton.jit
def sum_partials_kernel(
    partial_ptr,
    out_ptr,
    partials,
    columns,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Add up the rows of ``partial``, always in the same order."""
    first_column = tl.program_id(axis=0) * BLOCK_COLUMNS
    column = first_column + tl.arange(0, BLOCK_COLUMNS)
    total = tl.zeros((BLOCK_COLUMNS,), COMPUTE)
    for first in range(0, partials, BLOCK_ROWS):
        row = first + tl.arange(0, BLOCK_ROWS)
        mask = (row < partials)[:, None] & (column < columns)
        offsets = row[:, None] * columns + column
        tile = tl.load(partial_ptr + offsets, mask=mask, other=0)
        total += tl.sum(tile, axis=0)
    tl.store(out_ptr + column, total, mask=column < columns)
# --8<-- [end:sum_kernel]


def rms_norm_forward(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result, and ``rrms`` of each row."""
    check_arguments(x, weight)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rrms = torch.empty(x.shape[:-1], dtype=wide(x.dtype), device=x.device)
    if x.numel():
        # --8<-- [start:launch]
        rows = as_rows(x)
        # Triton launches on the current device, which need not be that of x
        with torch.cuda.device_of(x):
            rms_norm_kernel[(len(rows),)](
                rows,
                contiguous(weight),
                out,
                rrms,
                rows.shape[1],
                rows.stride(0),
                EPS=eps,
                **settings(rows, most_warps=16),
            )
        # --8<-- [end:launch]
    return out, rrms


def rms_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rrms: torch.Tensor, programs: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradient of ``x``, and what each program has added up for that of ``weight``. Trust the arguments."""
    rows, grad_rows = as_rows(x), as_rows(grad)
    programs = min(len(rows), programs or programs_for(x.shape[-1]))
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    partial = torch.empty((programs, x.shape[-1]), dtype=rrms.dtype, device=x.device)
    if x.numel():
        options = settings(rows, most_warps=32)
        stages = 3 if options["BLOCK_SIZE"] * rows.element_size() <= 2**14 else 1  # as far as there is shared memory
        with torch.cuda.device_of(x):
            rms_norm_backward_kernel[(programs,)](
                grad_rows,
                rows,
                contiguous(weight),
                rrms,
                grad_x,
                partial,
                len(rows),
                rows.shape[1],
                grad_rows.stride(0),
                rows.stride(0),
                **options,
                STAGES=stages,
            )
    return grad_x, partial


def sum_partials(partial: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the sum of the rows, in an order that only their number decides."""
    partials, columns = partial.shape
    out = torch.empty(columns, dtype=dtype, device=partial.device)
    if columns:  # without rows, the kernel stores zeros
        with torch.cuda.device_of(partial):
            sum_partials_kernel[(triton.cdiv(columns, 32),)](
                partial, out, partials, columns, COMPUTE=computed_in(partial), BLOCK_ROWS=64, BLOCK_COLUMNS=32
            )
    return out


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    # torch may keep a minus sign beside the data, as for the imaginary part of a conjugate; resolve_neg applies it
    x = x.resolve_neg().reshape(x.shape[:-1].numel(), x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


def contiguous(x: torch.Tensor) -> torch.Tensor:
    return x.resolve_neg().contiguous()


def programs_for(columns: int) -> int:
    """Return how many programs of a backward share the rows.

    It is the same on every GPU, for another number adds up in another order.
    """
    return min(max(2**20 // triton.next_power_of_2(max(columns, 1)), 128), 512)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def settings(rows: torch.Tensor, most_warps: int) -> dict:
    """Return the options to compile with. A warp has 512 elements of the row, or more in the longest rows."""
    # --8<-- [start:settings]
    block = triton.next_power_of_2(rows.shape[1])
    return {
        "COMPUTE": computed_in(rows),
        "BLOCK_SIZE": block,
        "num_warps": min(max(block // 512, 1), most_warps),
    }
    # --8<-- [end:settings]


def no_second_gradient() -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            "rms_norm has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


# --8<-- [start:function]
class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps):
        return rms_norm_forward(x, weight, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        _, rrms = output
        ctx.save_for_backward(x, weight, rrms)
        ctx.mark_non_differentiable(rrms)

    @staticmethod
    def backward(ctx, grad, _):
        no_second_gradient()
        _, weight, _ = ctx.saved_tensors
        grad_x, partial = rms_norm_backward(grad, *ctx.saved_tensors)
        return grad_x, sum_partials(partial, weight.dtype), None
# --8<-- [end:function]


# --8<-- [start:host]
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` for each row; it has gradients for both tensors.

    Args:
        x: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, with at most
            ``MOST_COLUMNS`` columns. It is copied, in the forward and again in the backward, unless the elements of a
            row are neighbors in memory, and the rows lie evenly apart.
        weight: ``(columns,)``, of the dtype of ``x`` or float32.
        eps: Added to the mean of the squares. Each new value compiles another forward kernel.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64. So are
        the gradients, which have the dtypes of ``x`` and ``weight``; they are deterministic. The kernel may still be
        running when it is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0]], requires_grad=True)
    >>> out = rms_norm(x, torch.ones(5), eps=0.0)
    >>> out.detach()
    tensor([[0.2000, 0.4000, 0.4000, 0.8000, 2.0000]])
    >>> out[0, 4].backward()
    >>> x.grad
    tensor([[-0.0160, -0.0320, -0.0320, -0.0640,  0.0400]])
    """
    out, _ = RMSNorm.apply(x, weight, float(eps))
    return out
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(x: torch.Tensor, weight: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    if not x.ndim:
        raise ValueError("x must have a dimension or more, the last being the columns; got a single number")
    if weight is None:
        raise ValueError("weight is None; pass torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)")
    for name, tensor in {"x": x, "weight": weight}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != x.device:
            raise ValueError(f"x is on {x.device} and {name} on {tensor.device}; move them to one device")
    columns = x.shape[-1]
    if weight.shape != (columns,) or weight.dtype not in (x.dtype, torch.float32):
        raise ValueError(
            f"weight must have the shape ({columns},), a number for each column of x, and the dtype of x or float32;"
            f" got {tuple(weight.shape)} {weight.dtype} for x {tuple(x.shape)} {x.dtype}"
        )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"a row has {columns} columns, at most {MOST_COLUMNS} are served: one program holds a whole row in its"
            " registers; snippets/library/norms.py serves longer ones"
        )
    if x.shape[:-1].numel() > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{x.shape[:-1].numel()} rows are too many for one launch; split x")
    interpreted = not isinstance(rms_norm_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and torch.bfloat16 in (x.dtype, weight.dtype):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:toy]
def toy(device):
    """Return three rows of five, a weight, and a gradient that comes back."""
    x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0], [10.0, 20.0, 20.0, 40.0, 100.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    weight = torch.tensor([1.0, 1.0, 1.0, 2.0, 0.5])
    grad = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    return [each.to(device) for each in (x, weight, grad)]
# --8<-- [end:toy]


def shown(values: torch.Tensor, digits=3) -> str:
    rounded = [round(value, digits) + 0.0 for value in values.flatten().tolist()]  # + 0.0: no "-0.000"
    return " ".join(f"{value:{digits + 4}.{digits}f}" for value in rounded)


def main():
    device = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## RMS norm")
    x, weight, grad = toy(device)
    out, rrms = rms_norm_forward(x, weight, 0.0)
    for i in range(3):
        print(f"row {i}, x:  ", shown(x[i], 1))
        print(f"row {i}, out:", shown(out[i], 1), f"  rms: {1 / rrms[i].item():.0f}")

    print("## its backward")
    grad_x, partial = rms_norm_backward(grad, x, weight, rrms, programs=2)
    for i in range(3):
        print(f"row {i}, grad:  ", shown(grad[i], 4))
        print(f"row {i}, grad_x:", shown(grad_x[i], 4))
    for program in range(2):
        print(f"sum of program {program}:", shown(partial[program], 0))
    print("grad_weight:     ", shown(sum_partials(partial, weight.dtype), 0))


if __name__ == "__main__":
    main()
