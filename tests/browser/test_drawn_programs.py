# SPDX-License-Identifier: Apache-2.0
"""Programs that Hypothesis draws: each line gives the same dtype, shape and bits in the model as in Triton."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from browser import compiler
from tests import modeled

DTYPES = ["int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64"]  # fmt: skip
INPUTS = {
    "a": torch.float32, "b": torch.float32, "c": torch.int32, "d": torch.int32, "e": torch.float16, "f": torch.int8,
    "g": torch.int64, "h": torch.uint8, "i": torch.bool, "j": torch.float64,
}  # fmt: skip
HEAD = """
import triton
import triton.language as tl

@triton.jit
def kernel({names}):
    row, column = tl.arange(0, 4), tl.arange(0, 8)
"""
LINE = """    try:
        v{i} = {code}
        probe({i}, v{i})
    except Exception as error:
        v{i} = v0
        probe({i}, "raises")
"""
BINARY = ["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^"]
NUMBERS = ["0", "1", "2", "-1", "-3", "7", "100", "300", "70000", "2**31", "2**33", "0.0", "0.5", "-1.5", "3.0e38",
           "1e-40", "True", "False"]  # fmt: skip
EXACT = """
tl.where({x} > {y}, {x}, {y})
tl.where({x} != 0, {x}, {n})
tl.maximum({x}, {y}, propagate_nan=tl.PropagateNan.ALL)
tl.minimum({x}, {y}, propagate_nan=tl.PropagateNan.ALL)
{x}.to(tl.{t})
{x}.to(tl.{t})
-{x}
~({x}.to(tl.int32))
tl.abs({x})
tl.trans({x})
{x}[None, :]
{x}[:, None]
tl.reshape({x}, ({k}, -1 + {k} + 1 - {k} + 8))
tl.ravel({x})
tl.sum({x}.to(tl.float64), axis={o})
tl.sum({x}.to(tl.int8), axis={o})
tl.sum({x}.to(tl.float32))
tl.sum({x}.to(tl.float16), axis={o})
tl.max({x}, axis={o})
tl.min({x}, axis={o})
tl.argmax({x}, axis={o})
tl.argmin({x}, axis={o})
tl.max({x}, axis={o}, return_indices=True)[1]
tl.sum({x}.to(tl.float32), axis={o}, keep_dims=True)
tl.xor_sum({x}, axis={p})
tl.cumsum({x}, axis={o})
tl.cumsum({x}, axis={p}, reverse=True)
tl.cumprod({x}, axis={o})
tl.flip({x}, {o})
tl.sort(tl.where({x} == {x}, {x}, 0))
tl.sort(tl.where({x} == {x}, {x}, 0), descending=True)
tl.join({x}, -{x})
tl.split(tl.join({x}, -{x}))[1]
tl.interleave({x}, -{x})
tl.cat({x}, -{x}, can_reorder=True)
tl.broadcast_to({x}, (4, 8))
tl.expand_dims({x}, {o})
tl.permute({x}, (1, 0))
tl.full((4, 8), {w}, tl.{t})
tl.full((8,), {n}, tl.float32)
tl.zeros((8,), tl.{t})
tl.zeros_like({x})
tl.histogram({x}.to(tl.int32) & 7, 8)
tl.gather({x}, ({y} & 3).to(tl.int32), 0)
tl.cdiv({x}, {n})
{x} << ({y} & 7)
{x} >> ({y} & 7)
tl.fma({x}, {y}, {y})
tl.floor({x})
tl.ceil({x})
tl.sqrt({x})
tl.umulhi({x}.to(tl.uint32), {y}.to(tl.uint32))
tl.umulhi({x}.to(tl.uint64), {y}.to(tl.uint64))
tl.rand(7, {x} & 255)
tl.randint({x} & 255, {y} & 255)
tl.topk(tl.where({x} == {x}, {x}, 0), 4)
tl.fdiv({x}, {y})
tl.clamp({x}, -1.0, 1.0)
tl.swizzle2d({x}.to(tl.int32) & 7, {y}.to(tl.int32) & 7, 8, 8, 2)[0]
{x}.to(tl.{t}, bitcast=True)
tl.squeeze({x}, 0)
tl.div_rn({x}, {y})
tl.sqrt_rn({x})
tl.unsqueeze({x}, 0)
""".strip().split("\n")
INEXACT = """
tl.exp({x})
tl.exp2({x})
tl.log({x})
tl.log2({x})
tl.sin({x})
tl.cos({x})
tl.rsqrt({x})
tl.sigmoid({x})
tl.erf({x})
tl.softmax({x}, {o})
tl.dot({x}, tl.trans({y}), input_precision='ieee')
tl.randn(3, column)
""".strip().split("\n")


@st.composite
def programs(draw):
    """Return a kernel's text, and which of its lines may differ in their last bits."""
    names = draw(st.permutations(list(INPUTS)))[:4]
    lines, inexact = [], set()
    starts = [f"tl.load({name} + {draw(st.sampled_from(['column', 'row[:, None] * 8 + column[None, :]', '3']))})"
              for name in names]  # fmt: skip
    starts += [draw(st.sampled_from(NUMBERS))]
    pool = []
    for i in range(len(starts) + 10):
        if i < len(starts):
            code = starts[i]
        else:
            x, y = (f"v{draw(st.sampled_from(pool))}" for _ in "xy")
            number = draw(st.sampled_from(NUMBERS))
            kind = draw(st.integers(0, 9))
            if kind < 3:
                right = draw(st.sampled_from([y, f"({number})"]))
                left, right = draw(st.permutations([x, right]))
                code = f"{left} {draw(st.sampled_from(BINARY))} {right}"
            else:
                form = draw(st.sampled_from(EXACT if kind < 9 else INEXACT))
                axis, size = draw(st.integers(-1, 1)), draw(st.sampled_from([1, 2, 4]))
                whole = draw(st.sampled_from([number for number in NUMBERS if "." not in number and "e" not in number]))
                of = draw(st.sampled_from(DTYPES))
                code = form.format(x=x, y=y, n=number, t=of, o=axis, p=abs(axis), k=size, w=whole)
                if "{o}" in form or "{p}" in form:  # the interpreter takes a scalar as a block of one element
                    code = f"({code}) if len({x}.shape) else None"
                if form in INEXACT:
                    inexact.add(i)
        if i not in inexact:
            pool.append(i)
        lines.append(LINE.format(i=i, code=code))
    return HEAD.format(names=", ".join(INPUTS)) + "".join(lines), inexact


def numbers(seed: int) -> list:
    """Return the inputs: numbers small and large, of both signs, with equal ones among them."""
    source, out = torch.Generator().manual_seed(seed), []
    for dtype in INPUTS.values():
        whole = torch.randint(-9, 10, (32,), generator=source)
        if dtype.is_floating_point:
            scale = torch.tensor([1.0, 0.25, 1.1, 300.0])[torch.randint(0, 4, (32,), generator=source)]
            out.append((whole * scale).to(dtype))
        else:
            large = torch.randint(0, 8, (32,), generator=source) == 0
            high = torch.iinfo(dtype).max if dtype != torch.bool else 1
            out.append(torch.where(large, high - whole.abs(), whole if dtype != torch.uint8 else whole.abs()).to(dtype))
    return out


@given(programs(), st.integers(0, 99))
def test_each_line_of_a_drawn_program_is_the_same(tmp_path_factory, program, seed):
    text, inexact = program
    path = tmp_path_factory.getbasetemp() / "drawn.py"
    triton, model = modeled.both(path, text, numbers(seed))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("v") and "= v0" not in line]
    for key, value in triton.items():
        near = {"rtol": 3e-6, "atol": 1e-6} if key in inexact else {}
        assert modeled.same(value, model[key], **near), f"{lines}\n{key}: {value}\nmodel: {model[key]}"


@pytest.fixture(autouse=True)
def with_try(monkeypatch):
    """Have each line in a `try`, which the interpreter takes and the compiler does not."""
    monkeypatch.setattr(compiler, "NODES", compiler.NODES | {"Try"})
    monkeypatch.setattr(compiler, "BUILTINS", compiler.BUILTINS | {"Exception"})


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """The interpreter warns of overflow, as NumPy does."""
