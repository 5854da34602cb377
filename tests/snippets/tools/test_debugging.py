# SPDX-License-Identifier: Apache-2.0
"""The debugging helpers: conditions mean what they say, nothing slips through, and compiled they cost nothing."""

import ast
import operator
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from guards import Guarded, check_each_once, check_same_bits, environment, recorded_accesses
from hypothesis import example, given
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from snippets.tools import debugging
from snippets.tools.debugging import (
    assert_all,
    breakpoint_if,
    check_tensors_gpu_ready,
    copy_kernel,
    matches,
    print_if,
    program_is,
)
from snippets.tools.debugging_breakpoint import typed
from tests.processes import run_script

SOURCE = Path(debugging.__file__)
ROOT = SOURCE.parents[2]


# Kernels with the helpers in them


@triton.jit
def helped(out_ptr, n, WHERE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    print_if(WHERE, "offsets", offsets)
    if program_is(WHERE):
        print("here")
    tl.store(out_ptr + offsets, offsets, mask=offsets < n)


@triton.jit
def in_three_axes(x_ptr, WHERE: tl.constexpr):
    print_if(WHERE)


@triton.jit
def inner(x_ptr, n, WHERE: tl.constexpr):
    seven = n + 0
    breakpoint_if(WHERE)
    seven += 1
    return seven


@triton.jit
def stopping(x_ptr, n, WHERE: tl.constexpr):
    value = inner(x_ptr, n, WHERE)
    tl.store(x_ptr, value)


@triton.jit
def asserting(x_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = tl.arange(0, ROWS)[:, None] * 100 + offsets[None, :]
    assert_all(block < n, "too high")
    assert_all(tl.program_id(0) < 50, "a scalar")
    assert_all(True, "a constant")


# Copying


def check_copy(device, n, block, start=0):
    x = Guarded.around(torch.randn(n, device=device), before=16 + start, after=2 * block + 1, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=16 + start, after=2 * block + 1, fill=0x5A)
    grid = (triton.cdiv(n, block),)
    if device == "cpu":
        with recorded_accesses() as accesses:
            copy_kernel[grid](x.tensor, out.tensor, n, BLOCK=block)
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    else:
        copy_kernel[grid](x.tensor, out.tensor, n, BLOCK=block)
    x.check("x"), out.check("out")
    check_same_bits(out.tensor, x.tensor)


@pytest.mark.parametrize("n, block", [(1, 4), (4, 4), (5, 4), (10, 4), (100, 16)])
def test_copies(device, n, block):
    check_copy(device, n, block)
    check_copy(device, n, block, start=1)


def test_copy_shows_and_checks_its_offsets(capsys):
    x = torch.zeros(12)
    copy_kernel[(3,)](x, x, 9, BLOCK=4)
    assert capsys.readouterr().out.splitlines() == [
        "pid (1, 0, 0): offsets [4 5 6 7] mask [ True  True  True  True]",
        "pid (2, 0, 0): offsets [ 8  9 10 11] mask [ True False False False]",
    ]


def test_copy_refuses_offsets_that_wrapped_around(monkeypatch):
    from triton.runtime.interpreter import interpreter_builder as builder

    def far(x, y, z):
        builder.grid_idx = (-1, y, z)  # stands for a product of 2**31 and more

    monkeypatch.setattr(builder, "set_grid_idx", far)
    with pytest.raises(Exception, match=r"negative offset: pid \(-1, 0, 0\), 4 of 4 lanes"):
        copy_kernel[(1,)](torch.zeros(4), torch.zeros(4), 0, BLOCK=4)


# Conditions


SIGNS = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
part = st.tuples(st.sampled_from([*SIGNS]), st.integers(0, 4))


@example(">=2", [(">=", 2)])
@example(">1,=0", [(">", 1), ("=", 0)])
@example("=0", [("=", 0)])
@given(text=st.none(), parts=st.lists(st.one_of(st.sampled_from(["", "*"]), part), min_size=1, max_size=3))
def test_conditions(text, parts):
    text = text or ",".join(part if isinstance(part, str) else f"{part[0]}{part[1]}" for part in parts)
    pids = [(i, j, k) for i in range(6) for j in range(6) for k in (0, 3, 5)]
    for pid in pids:
        asked = [(p, i) for p, i in zip(parts, pid, strict=False) if not isinstance(p, str)]
        expected = all(SIGNS[sign](i, number) for (sign, number), i in asked)
        assert matches(text, pid) is expected, (text, pid)


@pytest.mark.parametrize("text", [" = 0 ", "=0 , ", " >= 2,*", "=0,,"])
def test_blanks_do_not_matter(text):
    assert matches(text, (0, 7, 7)) == (">" not in text)
    assert matches(text, (2, 7, 7)) == (">" in text)


@pytest.mark.parametrize(
    "text",
    ["0", "=", "=>2", "=-1", "=a", ">1;=0", "=1.5", "2=", "<>1", "!1", "= =1", "**", ">=", "=0,x", "x,=0", "=1 2"],
)
def test_bad_conditions_are_refused(text):
    with pytest.raises(ValueError, match="is no condition such as =0, !=0") as error:
        matches(text, (5, 5, 5))  # also where an earlier part has decided already
    assert repr(text) in str(error.value)


def test_more_conditions_than_axes_are_refused():
    with pytest.raises(ValueError, match="'=0,=0,=0,=0' has 4 parts, one for each axis; there are only 3 axes"):
        matches("=0,=0,=0,=0", (0, 0, 0))
    with pytest.raises(ValueError, match=r"has 2 parts, .* only 1 axes"):
        matches("=0,=0", (0,))


def test_a_bad_condition_in_a_kernel_is_refused():
    with pytest.raises(Exception, match="'>=' in '>=' is no condition"):
        in_three_axes[(1,)](torch.zeros(1), WHERE=">=")


def test_outside_of_a_launch():
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        print_if("=0", "here")


# In the interpreter


@pytest.mark.parametrize("where, programs", [("=1", [1]), (">=1", [1, 2]), ("*", [0, 1, 2]), ("=9", []), (">0,=1", [])])
def test_print_if(capsys, where, programs):
    out = torch.full((12,), -1)
    helped[(3,)](out, 12, WHERE=where, BLOCK=4)
    assert out.tolist() == list(range(12))
    lines = capsys.readouterr().out.splitlines()
    shown = [f"pid ({p}, 0, 0): offsets {torch.arange(4 * p, 4 * p + 4).numpy()}" for p in programs]
    assert lines == [line for pair in zip(shown, ["here"] * len(shown), strict=True) for line in pair]


def test_all_axes(capsys):
    in_three_axes[(3, 4, 2)](torch.zeros(1), WHERE=">0,<=1,=1")
    expected = [(i, j, 1) for i in (1, 2) for j in (0, 1)]
    assert capsys.readouterr().out.splitlines() == [f"pid {pid}:" for pid in expected]


def test_breakpoint_stops_in_the_kernel_that_asks(capsys):
    x = torch.zeros(1, dtype=torch.int32)
    with typed("p seven", "p WHERE", "n", "p seven", "c"):
        stopping[(3,)](x, 7, WHERE="=1")
    printed = capsys.readouterr().out
    stops = [line.rpartition(")")[0].rpartition(")")[2] for line in printed.splitlines() if line.startswith("> ")]
    assert stops == ["inner("] * 2, "it stops once, in the kernel itself, and after one step"
    assert "-> seven += 1" in printed and x.item() == 8
    answers = [line for line in printed.splitlines() if not line.startswith((">", "->", "(Pdb)"))]
    assert answers == ["array([7], dtype=int32)", "'=1'", "array([8], dtype=int32)"]


def test_breakpoint_elsewhere_does_not_stop():
    x = torch.zeros(1, dtype=torch.int32)
    with typed():  # pdb would find the end of the file and quit
        stopping[(3,)](x, 7, WHERE=">2")
    assert x.item() == 8


def test_assert_all_names_program_and_lanes(capsys):
    asserting[(2,)](None, 108, ROWS=2, BLOCK=4)
    with pytest.raises(Exception, match=r"too high: pid \(1, 0, 0\), 2 of 8 lanes, first lane 1, 2"):
        asserting[(2,)](None, 106, ROWS=2, BLOCK=4)
    with pytest.raises(Exception, match=r"a scalar: pid \(50, 0, 0\), 1 of 1 lanes, first lane 0"):
        asserting[(60,)](None, 10**6, ROWS=1, BLOCK=1)


# Tensors


REFUSED = {
    "transposed": (lambda x: [x.t()], ["tensor 0, of shape (3, 2)", "strides are (1, 3)", "x.contiguous()"]),
    "every second": (lambda x: [x, x.flatten()[::2]], ["tensor 1, of shape (3,)", "(2,)"]),
    "expanded": (lambda x: [x[:1, :1].expand(2, 3)], ["strides are (0, 0)"]),
    "elsewhere": (lambda x: [x, torch.empty(2, 3, device="meta")], ["tensor 1", "is on meta", "x.cuda()"]),
    "negated": (lambda x: [torch._neg_view(x)], ["negated or conjugated", "resolve_neg()"]),
    "conjugated": (lambda x: [(x * 1j).conj()], ["negated or conjugated", "resolve_conj()"]),
    "no tensor": (lambda x: [x, [1, 2]], ["argument 1 is no tensor but a list"]),
}


@pytest.mark.parametrize("tensors, fragments", REFUSED.values(), ids=REFUSED)
def test_refuses(device, tensors, fragments):
    with pytest.raises(ValueError) as error:
        check_tensors_gpu_ready(*tensors(torch.ones(2, 3, device=device)))
    for fragment in fragments:
        assert fragment in str(error.value)


def test_accepts(device):
    x = torch.ones(2, 3, device=device)
    check_tensors_gpu_ready()
    check_tensors_gpu_ready(x, x[1:], x.flatten()[2:], x.new_empty(0, 5), x.new_ones(()), x.t().contiguous())


def test_refuses_two_devices():
    with FakeTensorMode():  # tensors without memory, on devices that need not be there
        first, second = torch.empty(2, device="cuda:0"), torch.empty(2, device="cuda:1")
    check_tensors_gpu_ready(second, second)
    for tensors in ((first, second), (first, first, torch.ones(2))):
        with pytest.raises(ValueError, match=r"tensor [12], .* is on (cuda:1|cpu), and tensor 0 on cuda:0"):
            check_tensors_gpu_ready(*tensors)


@pytest.mark.gpu
def test_refuses_the_cpu_and_two_devices_when_compiled():
    on_gpu, on_cpu = torch.ones(3, device="cuda"), torch.ones(3)
    with pytest.raises(ValueError, match=r"tensor 1, .* is on cpu; move it to a GPU"):
        check_tensors_gpu_ready(on_gpu, on_cpu)
    with pytest.raises(ValueError, match=r"tensor 0, .* is on cpu; move it to a GPU"):
        check_tensors_gpu_ready(on_cpu)
    if torch.cuda.device_count() > 1:
        with pytest.raises(ValueError, match=r"tensor 1, .* is on cuda:1, and tensor 0 on cuda:0"):
            check_tensors_gpu_ready(on_gpu, torch.ones(3, device="cuda:1"))


# Compiled: in a process without TRITON_INTERPRET, which needs no GPU to compile


COMPILED = """
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from snippets.tools import debugging
from snippets.tools.debugging import assert_all, breakpoint_if, check_tensors_gpu_ready, print_if, program_is

@triton.jit
def with_helpers(x_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    print_if("=0", "x", x, n); breakpoint_if(">=1")
    if program_is("=0"):
        breakpoint()
    assert_all(x > 0, "positive"); tl.store(x_ptr + lanes, x + 1, mask=lanes < n)

@triton.jit
def without_help(x_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    x = tl.load(x_ptr + lanes, mask=lanes < n)


    
    
    tl.store(x_ptr + lanes, x + 1, mask=lanes < n)

@triton.jit
def with_text(x_ptr, n, B: tl.constexpr):
    print(f"{tl.program_id(0)}")

def ptx(kernel, **options):
    source = triton.compiler.ASTSource(kernel, {"x_ptr": "*fp32", "n": "i32", "B": "constexpr"}, {"B": 64})
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    return [line.replace("with_helpers", "without_help") for line in code.splitlines() if line.startswith("\\t")
            and ".loc" not in line and ".b8" not in line and ".b32" not in line]

plain, helped = ptx(without_help), ptx(with_helpers)
print("same code:", plain == helped, len(plain))
asserts = lambda code: any("__assertfail" in line for line in code)
print("asserts:", asserts(ptx(with_helpers, debug=True)), asserts(helped))
try:
    check_tensors_gpu_ready(torch.ones(3))
except ValueError as error:
    print(error)
try:
    ptx(with_text)
except Exception as error:
    print(str(error).splitlines()[-1])
"""


def test_compiled_they_vanish_but_for_assertions_under_debug(tmp_path):
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    done = run_script(script, env=environment("cuda", PYTHONPATH=str(ROOT), TRITON_CACHE_DIR=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    same, asserts, refusal, text = done.stdout.splitlines()
    assert same.startswith("same code: True") and int(same.split()[-1]) > 20
    assert asserts == "asserts: True False"
    assert refusal == "tensor 0, of shape (3,), is on cpu; move it to a GPU, as in x.cuda()"
    assert text.startswith("Cannot evaluate f-string containing non-constexpr")


@pytest.mark.gpu
def test_compiled_they_print_nothing(capfd):
    out = torch.full((12,), -1, device="cuda")
    helped[(3,)](out, 12, WHERE="*", BLOCK=4)
    assert out.tolist() == list(range(12))
    assert capfd.readouterr().out == ""


# The file as a script


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device), cwd=SOURCE.parent)
    assert done.returncode == 0, done.stderr
    assert ("pid (1, 0, 0): offsets" in done.stdout) == (device == "cpu")
    assert f"copied: {[float(i) for i in range(10)]}" in done.stdout
    chosen = dict(line.split(" on a grid of 4 × 2: ") for line in done.stdout.splitlines() if "on a grid" in line)
    assert chosen["'>1,=0'"] == "(2, 0) (3, 0)" and chosen["'=0'"] == "(0, 0) (0, 1)"
    assert sum(line.startswith("refused: ") for line in done.stdout.splitlines()) == 4


def test_imports_nothing_but_torch_and_triton():
    tree = ast.parse(SOURCE.read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"torch", "triton"}
