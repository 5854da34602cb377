# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in TileLang, which writes CUDA C++.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16, of one size for each compiled kernel.
Needs ``pip install tilelang``, and a GPU and CUDA's ``nvcc`` to run. Source: TileLang, https://tilelang.com.
"""

import tilelang
import tilelang.language as T

THREADS = 256


# --8<-- [start:kernel]
def softmax_of(rows, columns, dtype="bfloat16"):
    @T.prim_func
    def softmax_kernel(
        x: T.Tensor((rows, columns), dtype),
        out: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=THREADS) as row:
            share = T.alloc_fragment((1, columns), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0], share)
            T.reduce_max(share, largest, dim=1)
            for i, j in T.Parallel(1, columns):
                share[i, j] = T.exp(share[i, j] - largest[i])
            T.reduce_sum(share, total, dim=1)
            for i, j in T.Parallel(1, columns):
                share[i, j] /= total[i]
            T.copy(share, out[row, 0])

    return softmax_kernel


def softmax(rows, columns):
    return tilelang.compile(softmax_of(rows, columns), out_idx=-1)
# --8<-- [end:kernel]
