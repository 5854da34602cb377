# SPDX-License-Identifier: Apache-2.0
"""Without the work that tests spare it, Triton's interpreter computes the same."""

import json
import os
from pathlib import Path

from tests.processes import run_code

ROOT = Path(__file__).resolve().parent.parent
SEEN = """
import hashlib, json, operator
from unittest import mock
import numpy as np, torch, triton, triton.language as tl
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

def operands():
    dtypes = tl.int1, tl.int8, tl.uint8, tl.int32, tl.int64, tl.float16, tl.bfloat16, tl.float64, tl.float8e5
    rows = [tl.arange(0, 4).to(tl.float32).to(dtype) for dtype in dtypes]
    blocks = [of for row in rows for of in (row, row[:, None], row[None, :], tl.sum(row.to(tl.float32)).to(row.dtype))]
    pointer = tl.pointer_type(tl.float32)
    address = tl.tensor(interpreter.TensorHandle(np.array([64], np.uint64), pointer), pointer)
    others = [address, address + rows[3], tl.constexpr(2), tl.arange(0, 8), tl.arange(0, 8)[:, None]]
    return [*blocks, *others, True, 3, -1, 2**40, 2.5]

def result(work, *given):
    try:
        found = work(*given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(found, tl.tensor):  # of two constants
        return repr(found)
    handle = found.handle
    return f"{found.type} {found.shape} {found.numel} {handle.dtype} {handle.data.dtype} {handle.data.tolist()}"

def operated():
    names = "add sub mul truediv floordiv mod and_ or_ lshift rshift lt eq".split()
    works = [getattr(operator, name) for name in names]
    works += [lambda a, b: tl.where(a < b, a, b), lambda a, b: a.to(b.type), lambda a, b: tl.maximum(a, b)]
    scope = interpreter._patch_lang(kernel.fn)
    given, found = operands(), []
    for work in works:
        results = [result(work, a, b) for a in given for b in given]
        found.append([len(set(results)), hashlib.sha256(repr(results).encode()).hexdigest()])
    scope.restore()
    return found

def handle(dtype):
    try:
        return str(interpreter.TensorHandle(np.zeros(1), dtype))
    except ValueError as error:
        return str(error)

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
    values += [handle(dtype) for dtype in (tl.float32, tl.float64, tl.pointer_type(tl.int8))]
    return [*found, values, [np_dtype(dtype) for dtype in dtypes], operated()]
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
    replaced, but_one, values, dtypes, operated = seen[0]
    assert {"triton.language.load", "triton.language.core.load", "tensor.__add__"} <= set(replaced)
    assert but_one == [name for name in replaced if name != "triton.language.abs"] != replaced
    assert len(set(values)) == 12 and len(set(dtypes)) > 10
    assert len({digest for _, digest in operated}) == 15 and min(results for results, _ in operated) > 20, operated
