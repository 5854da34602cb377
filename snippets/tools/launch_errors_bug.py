# SPDX-License-Identifier: Apache-2.0
"""Make everything that fails before a kernel runs fail on purpose. Do not copy from here.

Each attempt is printed, and what came of it: the first line of its error, or ``accepted``.
Run it with ``python launch_errors_bug.py``, on an NVIDIA GPU.
"""

import contextlib
import os
import tempfile
from unittest import mock

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

NOBODY = 65534  # a user who owns nothing
MOST = 2**16 - 1  # programs along axis 1 or 2


@triton.jit
def fill_bug(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)


@triton.jit
def tile_bug(x_descriptor, out_ptr):
    tl.store(out_ptr + tl.arange(0, 16), x_descriptor.load([0]))


def said(action) -> str:
    """Return the first line of an action's error, or ``accepted``."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return "accepted"


@contextlib.contextmanager
def unwritable():
    """Yield a folder that Triton may not write to, as its cache.

    Whoever runs this as root becomes somebody else meanwhile.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            with mock.patch.dict(os.environ, TRITON_CACHE_DIR=f"{folder}/cache"):
                yield folder
        finally:
            if root:
                os.seteuid(0)


# --8<-- [start:attempts]
def attempts(x):
    """Return what is written, and an action that does it. ``x``: float32, at least 16 elements, on a GPU."""
    kernel, n = fill_bug, x.numel()
    yield "kernel[(1, 65535)](x, n, BLOCK_SIZE=16)", lambda: kernel[1, MOST](x, n, BLOCK_SIZE=16)
    yield "kernel[(1, 65536)](x, n, BLOCK_SIZE=16)", lambda: kernel[1, MOST + 1](x, n, BLOCK_SIZE=16)
    yield "kernel[(65536, 32768)](x, n, BLOCK_SIZE=16)", lambda: kernel[2**16, 2**15](x, n, BLOCK_SIZE=16)
    yield "kernel[(2**30,)](x, n, BLOCK_SIZE=16, num_ctas=2)", lambda: kernel[2**30,](x, n, BLOCK_SIZE=16, num_ctas=2)
    yield "kernel[(1,)](x, n, BLOCK_SIZE=16, num_ctas=32)", lambda: kernel[1,](x, n, BLOCK_SIZE=16, num_ctas=32)
    large = TensorDescriptor(x, [2**33], [1], [16])  # it claims more than x has
    yield "a descriptor of 2**33 elements along an axis", lambda: tile_bug[1,](large, x)
    yield "kernel[(1,)](x, n)", lambda: kernel[1,](x, n)
    yield "kernel[(1,)](x, n, block_size=16)", lambda: kernel[1,](x, n, block_size=16)
    yield "kernel[(1,)](x, n, BLOCK_SIZE=16, block=4)", lambda: kernel[1,](x, n, BLOCK_SIZE=16, block=4)
    configs = [triton.Config({"BLOCK_SIZE": 16})]
    yield 'triton.autotune(configs, key=["size"])(kernel)', lambda: triton.autotune(configs, key=["size"])(kernel)
# --8<-- [end:attempts]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; these errors take one")
    x = torch.zeros(16, device="cuda")
    for name, action in attempts(x):
        x.zero_()
        came = said(action)
        print(name)
        print("   ", came if came != "accepted" or x.any() else "accepted, but no program ran")
    with unwritable() as folder:
        print("a cache that may not be written")
        print("   ", said(lambda: fill_bug[1,](x, 16, BLOCK_SIZE=32)).replace(folder, "/home/you/.triton"))


if __name__ == "__main__":
    main()
