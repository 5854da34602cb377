# SPDX-License-Identifier: Apache-2.0
"""Write it from nothing. Flip a matrix, so that each row runs backward.

[[1, 2, 3], [4, 5, 6]] becomes [[3, 2, 1], [6, 5, 4]]: with n columns, out[i, j] = x[i, n - 1 - j]. Write one kernel, in
which a program takes a tile, and its launch. x may have any strides, and any number of rows and columns, even none. The
result is contiguous.
"""

import torch
import triton
import triton.language as tl


# gap 1: the kernel. Each program flips one tile


# end of gap 1


def flip(x: torch.Tensor) -> torch.Tensor:
    """Return x with the columns in reverse, for a matrix of any strides; the result is contiguous."""
    # gap 2: allocate the result, launch the kernel, return the result
    ...
    # end of gap 2
