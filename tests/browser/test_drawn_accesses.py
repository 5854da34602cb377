# SPDX-License-Identifier: Apache-2.0
"""Kernels that Hypothesis draws, which load, change and store memory: the same memory, and the same accesses.

Strides, offsets, masks, grids and sizes are drawn; so are stray lanes, which both find and neither makes. Of what is
not allowed, ``browser.recorded`` tells the coach the same as its own ``record``.
"""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

import browser
from browser import MEMORY
from tests import modeled
from tests.modeled import ROOT

sys.path.append(str(ROOT / "practice"))  # behind the checkout, where `practice` is this package and not practice.py
from coach.arena import Arena
from coach.case import Case
from coach.record import Recorder

from browser.recorded import Run

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, sums_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    part = tl.program_id(axis=1)
    offsets = part * BLOCK + tl.arange(0, BLOCK){shift}
    mask = {mask}
    x = tl.load(x_ptr + row * stride_row + offsets * stride_column{loaded})
    {change}
    tl.store(out_ptr + row * columns + offsets, x{stored})
    {atomic}
"""
CHANGES = ["x = x + 1", "x = -x", "x = tl.where(offsets % 2 == 0, x, 0)", "x = tl.cumsum(x, axis=0)",
           "x = tl.flip(x, 0)",
           "x += tl.load(x_ptr)", "x = (x * 3) // 2 if False else x * 3"]  # fmt: skip
ATOMICS = [
    "tl.atomic_add(sums_ptr + row, tl.sum(x, axis=0))", "tl.atomic_max(sums_ptr + offsets % 4, x, mask=mask)",
    "tl.atomic_min(sums_ptr + row % 3, tl.min(x, axis=0))", "tl.atomic_add(sums_ptr + offsets % 2, x, mask=mask)",
    "tl.atomic_xchg(sums_ptr + offsets % 4, x, mask=mask)", "tl.atomic_cas(sums_ptr, x * 0, x) if False else None",
    "tl.store(sums_ptr + row, tl.atomic_add(sums_ptr + 7, 1))",
]  # fmt: skip


@st.composite
def kernels(draw):
    masked = draw(st.booleans())
    text = KERNEL.format(
        shift=draw(st.sampled_from(["", "", "", " - 1", " + 1"])),
        mask=draw(
            st.sampled_from(["offsets < columns"] * 3 + ["offsets <= columns", "(offsets < columns) & (offsets > 1)"])
        ),
        loaded=draw(st.sampled_from([", mask=mask", ", mask=mask, other=0", ", mask=mask, other=-5"]))
        if masked
        else "",
        change=draw(st.sampled_from(CHANGES)),
        stored=draw(st.sampled_from([", mask=mask"] * 4 + [""])),
        atomic=draw(st.sampled_from(ATOMICS)),
    )
    rows, columns, block = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.sampled_from([1, 2, 4, 8]))
    return text, rows, columns, block


def numbers(rows, columns, dtype, layout):
    x = (torch.arange(rows * columns).view(rows, columns) * 7 % 23 - 9).to(dtype)
    if layout == "turned":
        return x.T.contiguous().T
    if layout == "apart":
        wide = torch.zeros(rows, 2 * columns + 1, dtype=dtype)
        wide[:, : 2 * columns : 2] = x
        return wide[:, : 2 * columns : 2]
    return x


def told(trouble):
    return trouble.kind, trouble.access.line, trouble.access.program, trouble.lane, trouble.other


TURNED = "x += tl.load(out_ptr + BLOCK - 1 - tl.arange(0, BLOCK))"  # what another lane has stored, or will store
PLAIN = {"shift": "", "mask": "offsets < columns", "loaded": "", "stored": "", "atomic": ATOMICS[0]}


def unordered(change):
    return example((KERNEL.format(change=change, **PLAIN), 1, 4, 4), torch.float32, "plain", 0)


@unordered(TURNED)
@unordered(f"tl.store(out_ptr + offsets, x)\n    {TURNED}")
@unordered(f"tl.store(out_ptr + offsets, x)\n    tl.debug_barrier()\n    {TURNED}")
@unordered(f"{TURNED}\n    tl.debug_barrier()")
@unordered(f"{TURNED}\n    x += tl.load(out_ptr + offsets)")
@given(kernels(), st.sampled_from([torch.float32, torch.int32, torch.int64, torch.float64]),
       st.sampled_from(["plain", "turned", "apart"]), st.sampled_from([0, 0xFF]))  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_drawn_kernel_touches_the_same_memory(tmp_path_factory, kernel, dtype, layout, fill):
    text, rows, columns, block = kernel
    assume(not (dtype.is_floating_point and "xchg" in text))  # which the interpreter does not have
    assume(not (block == 1 and "flip" in text))  # which raises an error in Triton's own code
    path = tmp_path_factory.getbasetemp() / "accesses.py"
    path.write_text(text)
    grid = rows, -(-columns // block)
    x, out, sums = (
        numbers(rows, columns, dtype, layout),
        torch.zeros(rows, columns, dtype=dtype),
        torch.zeros(8, dtype=dtype),
    )
    sizes = rows, columns, *x.stride()

    arena = Arena(fill)
    names = ("x_ptr", "out_ptr", "sums_ptr")
    theirs = [arena.place(t, name, given=True) for name, t in zip(names, (x, out, sums), strict=True)]
    recorder = Recorder(arena, str(path), writes=names[1:])
    with recorder:
        modeled.in_triton(path).kernel[grid](*theirs, *sizes, BLOCK=block)
    wanted = [
        ((*a.pid, 0, 0)[:3], a.op, a.line, recorder.launches[0].names[id(a.region)], [*map(int, a.offsets)],
         [*map(bool, a.mask)], [lane for lane in a.on() if not a.inside[lane]])
        for a in recorder.launches[0].accesses
    ]  # fmt: skip

    browser.reset(fill=fill, strict=False, record=True)
    with browser.installed():
        ours = [modeled.modeled(t) for t in (x, out, sums)]
        browser.load(text, str(path))["kernel"][grid](*ours, *sizes, BLOCK=block)
    (launch,) = MEMORY.launches
    got = [
        (a.program, a.op, a.line, a.name, a.offsets, a.mask or [True] * len(a.offsets), a.outside)
        for a in launch.accesses
    ]
    two = dtype.is_floating_point and re.search("atomic_(max|min)", text)  # Triton makes two of it, one for each sign
    if not two:
        spec = SimpleNamespace(writes=names[1:], last=())
        run = Run(spec, Case({}), str(path), dict(zip(names, ours, strict=True)), None)
        run.take([launch])
        assert [told(t) for t in run.troubles] == [told(t) for t in recorder.troubles], text
        for mine, other in zip(run.regions, arena.regions, strict=True):
            assert (mine.reads(), mine.missed()) == (other.reads(), other.missed()), text
    if dtype.is_floating_point:
        got, wanted = ([access for access in accesses if access[1] != "atomic"] for accesses in (got, wanted))
    assert got == wanted, text
    for mine, other in zip(ours, theirs, strict=True):
        assert modeled.same(mine.values(), other.flatten().tolist()), (
            f"{text}\n{mine.values()} {other.flatten().tolist()}"
        )


@pytest.fixture(autouse=True)
def as_before():
    yield
    browser.reset()
