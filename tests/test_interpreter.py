# SPDX-License-Identifier: Apache-2.0
"""Without the work that tests spare it, Triton's interpreter computes the same."""

import json
import os
from pathlib import Path

from tests.processes import run_code

ROOT = Path(__file__).resolve().parent.parent
SEEN = """
import json
from unittest import mock
import torch, triton, triton.language as tl
from triton.runtime import interpreter
from tests.interpreter import spare_work

@triton.jit
def scaled(x, BLOCK: tl.constexpr):
    width: tl.constexpr = x.dtype.primitive_bitwidth + x.type.numel
    return x * x.numel + width + tl.sum(tl.zeros((BLOCK, x.shape[0]), tl.float32) + x[None, :], 0)

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x * x + x - 7)  # which wraps around
    tl.store(out_ptr + 2 * BLOCK + at, scaled(x.to(tl.float16), 2).to(tl.float16))
    tl.store(out_ptr + BLOCK + at, tl.max(x, 0) - tl.cumsum(x.to(tl.float32), 0).to(tl.float16))

def computed(dtype):
    x, out = torch.arange(16).mul(17).to(dtype), torch.zeros(48, dtype=dtype)
    kernel[(1,)](x, out, BLOCK=16)
    return out.tolist()

def replaced():
    launch, call = interpreter._patch_lang(kernel.fn), interpreter._patch_lang(tl.sum.fn)
    changes = [*launch._changes, *call._changes]
    call.restore()
    launch.restore()
    return sorted(f"{changed.__name__}.{name}" for changed, name, _ in changes)

@triton.jit
def shaped(SIZE: tl.constexpr):
    tl.zeros((SIZE,), tl.float32)

def refused(size):
    try:
        shaped[(1,)](SIZE=size)
    except Exception as error:
        return repr(error)

def np_dtype(of):
    try:
        return str(interpreter._get_np_dtype(of))
    except KeyError:
        return "none"

def seen():
    found = [replaced()]  # before a kernel leaves some of it as it is
    with mock.patch.object(tl, "abs", len):
        found.append(replaced())
    values = [str(computed(dtype)) for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.float32)]
    dtypes = [value for value in vars(tl).values() if isinstance(value, tl.dtype)]
    dtypes += [tl.pointer_type(tl.int8)]
    dtypes += [tl.block_type(dtype, [4]) for dtype in dtypes]
    values += [refused(size) for size in (8, 8.0, 3, 2**21)]
    return [*found, values, [np_dtype(dtype) for dtype in dtypes]]
%s
print(json.dumps(seen()))
"""


def test_it_computes_and_replaces_the_same():
    seen = []
    for before in ("", "spare_work()"):
        done = run_code(SEEN % before, env=os.environ | {"TRITON_INTERPRET": "1"}, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        seen.append(json.loads(done.stdout))
    assert seen[0] == seen[1]
    replaced, but_one, values, dtypes = seen[0]
    assert {"triton.language.load", "triton.language.core.load", "tensor.__add__"} <= set(replaced)
    assert but_one == [name for name in replaced if name != "triton.language.abs"] != replaced
    assert len(set(values)) == 9 and len(set(dtypes)) > 10
