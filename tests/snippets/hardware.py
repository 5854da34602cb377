# SPDX-License-Identifier: Apache-2.0
"""Made-up hardware, for kernels that ask a GPU by inline assembly, which Triton's interpreter does not know."""

import triton.language as tl


class Hardware:
    """Stands in for a GPU's registers in the interpreter: a clock that moves at each look, and multiprocessor 7."""

    def __init__(self, step=10):
        self.now, self.step = 100_000, step

    def __call__(self, text, constraints, args, dtype, is_pure, pack):
        assert (args, is_pure, pack) == ([], False, 1)
        if text == "mov.u64 $0, %globaltimer;":
            assert (constraints, dtype) == ("=l", tl.int64)
            self.now += self.step
            return tl.full([], self.now, dtype)
        assert (text, constraints, dtype) == ("mov.u32 $0, %smid;", "=r", tl.int32)
        return tl.full([], 7, dtype)
