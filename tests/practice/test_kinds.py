# SPDX-License-Identifier: Apache-2.0
"""Other kinds of exercises need no code of the engine: a spec, a solution, and faults that it has to catch."""

import textwrap

import pytest
from coach.exercise import Exercise

HEAD = """\
import torch
import triton
import triton.language as tl
"""
CARD = 'title="t", kind="gap", lesson="programs/masks.md", goal="g", hints=("a?", "b", "c"),'

MATMUL = """\
@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, K, B):
        k = start + tl.arange(0, B)
        a = tl.load(a_ptr + m[:, None] * sam + k[None, :] * sak, (m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * sbk + n[None, :] * sbn, (k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), (m[:, None] < M) & (n[None, :] < N))

def matmul(a, b):
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    M, N, K = *c.shape, a.shape[1]
    kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, *a.stride(), *b.stride(), B=16)
    return c
"""
MATMUL_SPEC = """\
    function="matmul", signature=("a", "b"),
    inputs=lambda size, rng: {"a": torch.randn(size["m"], size["k"], generator=rng).half(),
                              "b": torch.randn(size["k"], size["n"], generator=rng).half()},
    reference=lambda a, b: (a.double() @ b.double()).half(),
    sizes=({"m": 5, "n": 7, "k": 300},), awkward=("m", "n"), blocks={"m": 16, "n": 16},
    layouts=("transposed",), rtol=2e-3, atol=2e-3, most_launches=1,
"""
BACKWARD = """\
@triton.jit
def kernel(x_ptr, g_ptr, out_ptr, n, step, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + at, at < n)
    g = tl.load(g_ptr + at * step, at < n)
    tl.store(out_ptr + at, 2 * x * g, at < n)

@triton.jit
def forward_kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, x * x, at < n)

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        forward_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), B=16)
        return out

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 16),)](x, g, out, x.numel(), g.stride(0), B=16)
        return out

def square(x):
    return Square.apply(x)
"""
BACKWARD_SPEC = """\
    function="square", signature=("x",),
    inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng)},
    reference=lambda x: x * x, sizes=({"n": 10},), awkward=("n",), layouts=(), gradients=("x",), rtol=1e-6,
"""
DROPOUT = """\
@triton.jit
def kernel(x_ptr, out_ptr, n, p, seed, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + at, at < n)
    keep = tl.rand(seed, at) >= p
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), at < n)

def dropout(x, p, seed):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), p, seed, B=64)
    return out
"""
DROPOUT_SPEC = """\
    function="dropout", signature=("x", "p", "seed"), reference=None, result_like="x",
    inputs=lambda size, rng: {"x": 1 + torch.rand(size["n"], generator=rng), "p": 0.5, "seed": 7},
    sizes=({"n": 300},), awkward=("n",), layouts=(), properties=(scaled, same_seed, other_seed),
"""
DROPOUT_CHECKS = """\
def scaled(result, inputs, again):
    kept = result != 0
    if not torch.allclose(result[kept], 2 * inputs["x"][kept]):
        return "What is kept is not divided by 1 - p."

def same_seed(result, inputs, again):
    if not torch.equal(result, again()):
        return "The same seed drops other elements."

def other_seed(result, inputs, again):
    if result.numel() > 60 and torch.equal(result, again(seed=8)):
        return "Another seed drops the same elements."
"""
TWICE = """\
@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, at < n, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + at, x / total, at < n)

def normalize(x):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, x.numel(), B=64)
    return out
"""
TWICE_SPEC = """\
    function="normalize", signature=("x",), reference=lambda x: x / x.sum(),
    inputs=lambda size, rng: {"x": 1 + torch.rand(size["n"], generator=rng)},
    sizes=({"n": 10}, {"n": 63}), layouts=(), rtol=1e-5, most_reads={"x": 1}, most_launches=1,
"""
HISTOGRAM = """\
@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + at, at < n, other=0)
    tl.atomic_add(out_ptr + x, 1, mask=at < n)

def histogram(x):
    out = torch.zeros(4, dtype=torch.int32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 8),)](x, out, x.numel(), B=8)
    return out
"""
HISTOGRAM_SPEC = """\
    function="histogram", signature=("x",), reference=lambda x: torch.bincount(x, minlength=4).int(),
    inputs=lambda size, rng: {"x": torch.randint(4, (size["n"],), generator=rng, dtype=torch.int32)},
    sizes=({"n": 20},), awkward=("n",), blocks={"n": 8}, layouts=(), covers=False,
"""
LARGEST = """\
@triton.jit
def kernel(x_ptr, out_ptr, columns, stride, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    x = tl.load(x_ptr + row * stride + at, at < columns, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))

def largest(x):
    out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), B=8)
    return out
"""
LARGEST_SPEC = """\
    function="largest", signature=("x",), reference=lambda x: x.amax(1),
    inputs=lambda size, rng: {"x": torch.randn(size["rows"], 5, generator=rng).to(torch.float16) - 9},
    sizes=({"rows": 3},), awkward=("rows",), blocks={"rows": 2}, layouts=("rows_apart",),
    mistaken={"Can a lane that is off win?": lambda x: x.amax(1).clamp(min=0)},
"""
KINDS = {
    "largest": (LARGEST, LARGEST_SPEC, ""),
    "matmul": (MATMUL, MATMUL_SPEC, ""),
    "backward": (BACKWARD, BACKWARD_SPEC, ""),
    "dropout": (DROPOUT, DROPOUT_SPEC, DROPOUT_CHECKS),
    "faster": (TWICE, TWICE_SPEC, ""),
    "histogram": (HISTOGRAM, HISTOGRAM_SPEC, ""),
}
RACE = "x * x, at < n)", "x * x, at < n)\n    x = tl.load(out_ptr + at + 16, at + 16 < n)"
READS_LATER = "x * x, at < n)", "x * x, at < n)\n    x = tl.load(out_ptr + at - 16, (at >= 16) & (at < n))"
HALF = "acc += tl.dot(a, b)", "acc = (acc + tl.dot(a, b)).to(tl.float16).to(tl.float32)"
FAULTS = [
    ("largest", (', other=-float("inf")', ""), "values", "Can a lane that is off win?"),
    ("largest", ("at < columns", "at <= columns"), "bounds", "Does your mask say `<=`"),
    ("matmul", HALF, "values", "It looks as if the sum is kept in tl.float16"),
    ("matmul", ("*b.stride()", "b.shape[1], 1"), "strides", "a stride is missing"),
    ("matmul", (", other=0.0)\n        b", ")\n        b"), "nan", "loads without `other`"),
    ("matmul", ("        acc +=", "        acc ="), "values", "should be"),
    ("backward", ("at * step", "at"), "bounds", "which is between its elements"),
    ("backward", ("2 * x * g", "x * g"), "values", "Grad of x[0] is"),
    ("backward", ("Square.apply(x)", "Square.apply(x.detach())"), "shape", "Does it come from `YourFunction.apply`?"),
    ("backward", ("        return out\n\ndef", "        return 2 * x * g\n\ndef"), "seed", "torch computed something"),
    ("backward", RACE, "bounds", "A GPU runs programs in any order"),
    ("backward", READS_LATER, "bounds", "Program 1 reads out_ptr[0]; program 0 touches it, too."),
    ("dropout", ("x / (1 - p)", "x"), "values", "not divided by 1 - p"),
    ("dropout", ("rand(seed", "rand(3"), "values", "Another seed drops the same elements."),
    ("dropout", ("    tl.store", "    x = tl.load(x_ptr + at)\n    tl.store"), "bounds", "has no mask"),
    ("faster", ("    tl.store", "    x = tl.load(x_ptr + at, at < n)\n    tl.store"), "speed", "x 2 times"),
    ("faster", ("    return", "    kernel[(1,)](x, out, x.numel(), B=64)\n    return"), "speed", "launches 2 kernels"),
    ("histogram", ("torch.zeros", "torch.empty"), "nan", "Does the result begin as zeros?"),
    ("histogram", ("tl.atomic_add(out_ptr + x, 1, mask", "tl.store(out_ptr + x, 1, mask"), "bounds", "already written"),
    ("histogram", (", mask=at < n)", ")"), "values", "should be"),
    ("histogram", ("out_ptr + x", "out_ptr + x + 1"), "bounds", "changes out_ptr at offset 4"),
]  # fmt: skip


@pytest.fixture
def toy(tmp_path):
    def make(kind):
        code, spec, functions = KINDS[kind]
        folder = tmp_path / f"00_{kind}"
        folder.mkdir()
        (folder / "solution.py").write_text(HEAD + "# gap 1: all\n# end of gap 1\n")
        (folder / "wrong.toml").write_text("[skeleton]\n")
        spec = textwrap.indent(textwrap.dedent(spec), "    ")
        head = "import torch\nfrom coach.spec import Spec\n\n"
        (folder / "spec.py").write_text(f"{head}{functions}\nSPEC = Spec(\n    {CARD}\n{spec})\n")
        return Exercise(folder), HEAD + "\n" + code

    return make


def test_a_lane_that_is_off_reaches_a_maximum(toy, check):
    exercise, text = toy("largest")
    path = exercise.folder / "spec.py"
    path.write_text(path.read_text().replace(" - 9", ".abs()"))
    verdict = check(exercise, text.replace(', other=-float("inf")', ""))
    assert verdict.finding and verdict.finding.stage == "nan"
    assert "loads without `other`" in verdict.finding.text()


def test_what_all_programs_read_may_be_the_same(toy, check):
    """In a row of tiles each program reads the same tiles of a: their numbers are not forgotten."""
    exercise, text = toy("matmul")
    path = exercise.folder / "spec.py"
    path.write_text(path.read_text().replace('"n": 7', '"n": 40'))
    verdict = check(exercise, text.replace(" & (k[None, :] < K)", ""))
    assert verdict.finding and verdict.finding.stage == "bounds"
    message = " ".join(verdict.finding.text().split())
    assert "Does the mask compare the columns" in message and "the program's number" not in message


def test_only_a_sum_of_floats_depends_on_the_order(toy, check):
    exercise, text = toy("histogram")
    path = exercise.folder / "spec.py"
    path.write_text(path.read_text().replace("covers=False", 'covers=False, ordered="Let one program do it."'))
    assert check(exercise, text).finding is None  # of whole numbers it is the same
    path.write_text(path.read_text().replace("minlength=4).int()", "minlength=4).float()"))
    verdict = check(exercise, text.replace("dtype=torch.int32", "dtype=torch.float32").replace("x, 1,", "x, 1.0,"))
    message = " ".join(verdict.finding.text().split())
    assert verdict.finding.stage == "values" and "lanes of program 0 add to out_ptr[" in message
    assert message.endswith("Let one program do it.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_one_passes(kind, toy, check):
    exercise, text = toy(kind)
    verdict = check(exercise, text)
    assert verdict.finding is None, verdict.finding.text()


@pytest.mark.parametrize(
    ("kind", "fault", "stage", "message"), FAULTS, ids=[f"{k}-{message[:24]}" for k, _, _, message in FAULTS]
)
def test_a_fault_is_found(kind, fault, stage, message, toy, check):
    exercise, text = toy(kind)
    assert fault[0] in text
    verdict = check(exercise, text.replace(*fault))
    assert verdict.finding, "it passes"
    shown = verdict.finding.text()
    assert (verdict.finding.stage, message in " ".join(shown.split())) == (stage, True), shown
    assert max(map(len, shown.splitlines())) <= 80
