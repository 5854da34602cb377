# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841  torch.compile gives names that it does not use
"""A kernel that torch.compile wrote, taken out of its output to run alone, and then made into one's own.

- ``lifted_kernel``: the text that ``torch_compile_graph.py`` prints, but for one line and the name
- ``rms_norm_silu_kernel``: the same steps for rows of any length, with names, and with silu in place of relu

``out = relu(h / sqrt(mean(h²) + 1e-6) * weight)`` for each row.

Shapes: ``h`` and the result ``(rows, columns)``, ``weight`` ``(columns,)``, float32.
Source: torch.compile's output for ``Layer``.

Run it with ``TRITON_INTERPRET=1 python torch_compile_lifted.py``, or on a GPU with ``python torch_compile_lifted.py``.
"""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers


# --8<-- [start:lifted]
@triton.jit
def lifted_kernel(in_out_ptr0, in_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 32
    r0_numel = 256
    R0_BLOCK: tl.constexpr = 256
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_out_ptr0 + (r0_1 + 256*x0), xmask, eviction_policy='evict_first', other=0.0)
    tmp12 = tl.load(in_ptr0 + (r0_1), None, eviction_policy='evict_last')
    tmp1 = tmp0 * tmp0
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, 0)
    tmp5 = tl.sum(tmp4, 1)[:, None].to(tl.float32)
    tmp6 = tl.full([1, 1], 256.0, tl.float32)
    tmp7 = (tmp5 / tmp6)
    tmp8 = tl.full([1, 1], 1e-06, tl.float32)
    tmp9 = tmp7 + tmp8
    tmp10 = tl.rsqrt(tmp9)  # it said libdevice.rsqrt, which the interpreter lacks
    tmp11 = tmp0 * tmp10
    tmp13 = tmp11 * tmp12
    tmp14 = tl.full([1, 1], 0, tl.int32)
    tmp15 = triton_helpers.maximum(tmp14, tmp13)
    tl.store(in_out_ptr0 + (r0_1 + 256*x0), tmp15, xmask)
# --8<-- [end:lifted]


# --8<-- [start:own]
@triton.jit
def rms_norm_silu_kernel(
    h_ptr, weight_ptr, out_ptr, rows, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    mask = (row < rows) & (column < columns)
    h = tl.load(h_ptr + row * columns + column, mask, other=0.0)
    weight = tl.load(weight_ptr + column, column < columns)
    scale = tl.rsqrt(tl.sum(h * h, 1)[:, None] / columns + 1e-6)
    x = h * scale * weight
    out = x * tl.sigmoid(x)  # was a relu
    tl.store(out_ptr + row * columns + column, out, mask)
# --8<-- [end:own]


# --8<-- [start:host]
def lifted(h: torch.Tensor, weight: torch.Tensor, *, rows: int = 8) -> torch.Tensor:
    """Launch the kernel as torch.compile does. It writes over ``h``, which is ``(32, 256)`` and nothing else.

    >>> lifted(torch.full((32, 256), 3.0), torch.ones(256)).mean().round().item()
    1.0
    """
    check(h, weight)
    if h.shape != (32, 256):
        raise ValueError(f"the kernel was compiled for 32 rows of 256 columns; got {tuple(h.shape)}")
    with torch.cuda.device_of(h):
        lifted_kernel[(triton.cdiv(32, rows),)](h, weight, 32, 256, XBLOCK=rows)
    return h


def rms_norm_silu(h: torch.Tensor, weight: torch.Tensor, *, rows: int = 8) -> torch.Tensor:
    """Return ``silu(h / sqrt(mean(h²) + 1e-6) * weight)`` for each row, for up to 2**14 columns.

    ``rows`` is how many of them a program takes, a power of two. Raises ``ValueError`` for what the kernel cannot
    serve.

    >>> rms_norm_silu(torch.full((3, 5), 2.0), torch.zeros(5)).abs().max().item()
    0.0
    """
    check(h, weight)
    if h.shape[1] > 2**14:
        raise ValueError(f"h has {h.shape[1]} columns; at most 2**14 fit into a program")
    out = torch.empty_like(h)
    if out.numel():
        with torch.cuda.device_of(h):
            rms_norm_silu_kernel[(triton.cdiv(len(h), rows),)](
                h, weight, out, *h.shape, ROWS=rows, COLUMNS=triton.next_power_of_2(h.shape[1])
            )
    return out
# --8<-- [end:host]


def check(h: torch.Tensor, weight: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if h.ndim != 2 or weight.shape != h.shape[1:] or h.device != weight.device:
        raise ValueError(
            "h must be (rows, columns) and weight (columns,), on one device; got "
            f"{tuple(h.shape)} on {h.device} and {tuple(weight.shape)} on {weight.device}"
        )
    for name, tensor in (("h", h), ("weight", weight)):
        if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.is_neg():
            raise ValueError(f"{name} must be float32 and contiguous; got {tensor.dtype}, strides {tensor.stride()}")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which these kernels do not compute; use torch.no_grad()")
    if h.device.type == "cpu" and isinstance(rms_norm_silu_kernel, triton.JITFunction):
        raise ValueError("h is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")


def in_torch(h, weight, activation):
    """Compute the same in PyTorch, in float64."""
    h = h.double()
    return activation(h * torch.rsqrt(h.square().mean(dim=1, keepdim=True) + 1e-6) * weight.double())


def main():
    device = "cuda" if isinstance(rms_norm_silu_kernel, triton.JITFunction) else "cpu"
    torch.manual_seed(0)
    h, weight = torch.randn(32, 256).to(device), torch.rand(256).to(device)
    agrees = lambda got, expected: torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-6)
    print("lifted, 32 x 256, as in torch:", agrees(lifted(h.clone(), weight), in_torch(h, weight, torch.relu)))
    for rows, columns in (32, 256), (5, 100):
        h, weight = h[:rows, :columns].contiguous(), weight[:columns].contiguous()
        expected = in_torch(h, weight, torch.nn.functional.silu)
        print(f"rms_norm_silu, {rows} x {columns}, as in torch:", agrees(rms_norm_silu(h, weight), expected))
    try:
        lifted(h, weight)
    except ValueError as error:
        print(f"lifted, 5 x 100: {error}")


if __name__ == "__main__":
    main()
