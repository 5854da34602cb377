# SPDX-License-Identifier: Apache-2.0
"""The kernel and its launch. Only what needs the kernel imports this."""

# --8<-- [start:kernel]
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    columns,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    x = x.to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=mask).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / columns + eps)
    out = x * scale * weight
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:launch]
def launch(x, weight, eps):
    """Return the RMS norm of ``x``, ``(..., columns)``."""
    x, weight = x.contiguous(), weight.contiguous()
    out = torch.empty_like(x)
    columns = x.shape[-1]
    if rows := x.numel() // columns:
        block = triton.next_power_of_2(columns)
        # Triton launches on the current GPU, so make it that of x.
        with torch.cuda.device_of(x):
            rms_norm_kernel[(rows,)](
                x, weight, out, columns, eps, BLOCK=block,
                num_warps=min(max(block // 256, 1), 16),
            )  # fmt: skip
    return out
# --8<-- [end:launch]
