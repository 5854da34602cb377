# SPDX-License-Identifier: Apache-2.0
"""Fill in the gap: a causal convolution. Each channel has a weight of its own for each of the last few inputs.

y[c, t] = weight[c, 0] · x[c, t - (width - 1)] + … + weight[c, width - 1] · x[c, t]. The last weight is that of the step
itself, and no result may see a later one. The inputs before step 0 are in `initial`, the oldest first: a text goes on
where it stopped.

Take the weights 1, 10, 100 and the inputs 7, 8, with 5, 6 in `initial`: the results are 5 + 60 + 700 and
6 + 70 + 800.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_kernel(x_ptr, weight_ptr, initial_ptr, y_ptr, steps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.program_id(axis=0)
    step = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    x_ptr += channel * steps
    weight_ptr += channel * WIDTH
    initial_ptr += channel * (WIDTH - 1)
    y = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(WIDTH):
        # gap 1: add to y what tap k sees
        at = step - (WIDTH - 1) + k
        x = tl.load(x_ptr + at, mask=(at >= 0) & (at < steps), other=0.0)
        before = (at < 0) & (step < steps)
        x += tl.load(initial_ptr + at + WIDTH - 1, mask=before, other=0.0)
        y += tl.load(weight_ptr + k) * x
        # end of gap 1
    tl.store(y_ptr + channel * steps + step, y, mask=step < steps)


def causal_conv(x: torch.Tensor, weight: torch.Tensor, initial: torch.Tensor) -> torch.Tensor:
    """Return the convolution, (channels, steps), like x; all float32 and contiguous.

    weight is (channels, width), and initial, the inputs before the first step, is (channels, width - 1).
    """
    if not all(each.is_contiguous() for each in (x, weight, initial)):
        raise ValueError("it takes contiguous tensors")
    channels, steps = x.shape
    y = torch.empty_like(x)
    if y.numel():
        block = 16
        grid = channels, triton.cdiv(steps, block)
        causal_kernel[grid](x, weight, initial, y, steps, WIDTH=weight.shape[1], BLOCK=block)
    return y
