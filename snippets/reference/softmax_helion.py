# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in Helion, which writes a Triton kernel and tries out its settings.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16.
Needs ``pip install helion``, and a GPU to run. Source: Helion, https://helionlang.com.
"""

import helion
import helion.language as hl
import torch
from torch import Tensor


# --8<-- [start:kernel]
@helion.kernel()
def softmax(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for row in hl.tile(x.size(0)):
        values = x[row, :].float()
        numerator = torch.exp(values - values.amax(1, keepdim=True))
        out[row, :] = numerator / numerator.sum(1, keepdim=True)
    return out
# --8<-- [end:kernel]
