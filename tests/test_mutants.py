# SPDX-License-Identifier: Apache-2.0
"""Faults are planted where they should be, tests that are too weak are reported, and ours catch a few faults."""

import ast
import os
import random
import re
import shutil
from pathlib import Path
from unittest import mock

import pytest
import torch

from tests.mutants import Explanations, files, one_of_each_first, snippet_name, verdict, with_verdicts
from tests.planting import few_mutants, host_mutants, hosts, kernels, mutants
from tests.processes import run_python

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted(path.name for path in (ROOT / "snippets").iterdir() if any(path.rglob("*.py")))

KERNEL = """
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, stride_m, stride_n, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
{}
"""

# A line of a kernel, the fault, and what it makes of the line; all of them, where it is a list.
FAULTS = [
    ("x = tl.load(x_ptr, mask=m > 0, other=0.0)", "mask dropped", "x = tl.load(x_ptr)"),
    ("x = tl.load(x_ptr, m > 0)", "mask dropped", "x = tl.load(x_ptr)"),
    ("tl.store(x_ptr, 1, m > 0)", "mask dropped", "tl.store(x_ptr, 1)"),
    ("x = tl.load(x_ptr, mask=m > 0, other=0)", "other", "x = tl.load(x_ptr, mask=m > 0, other=1)"),
    ("x = tl.load(x_ptr, mask=m > 0, other=0)", "other dropped", 'x = tl.load(x_ptr, mask=m > 0, other=float("nan"))'),
    ("x = tl.maximum(m, n, propagate_nan=tl.PropagateNan.ALL)", "NaN dropped", "x = tl.maximum(m, n)"),
    ("x = tl.sum(m, keep_dims=True)", "flag", "x = tl.sum(m, keep_dims=False)"),
    ("x = tl.range(m, flatten=True)", "flag", []),  # about speed
    ('x = tl.dot(m, n, input_precision="ieee")', "precision", 'x = tl.dot(m, n, input_precision="tf32")'),
    ("x = 0.044715 * m", "digit", "x = 0.0447194715 * m"),
    ("x = 2.0 * m", "digit", []),
    ("x = 4 < n", "comparison", "x = 4 <= n"),
    ("x = 4 < n", "bound one short", "x = 4 < n - 1"),
    ("x = 4 == n", "comparison", "x = 4 != n"),
    ("x = x_ptr + 2 * stride_m", "neighbor", ["x = y_ptr + 2 * stride_m", "x = x_ptr + 2 * stride_n"]),
    ("x = 2 * BLOCK_M", "neighbor", ["x = 2 * BLOCK_N"]),
    ("x = (2 * BLOCK_M) < n", "another size", ["x = (2 * n) < n"]),
    ("x = (m + n) * BLOCK_M < n", "arithmetic", ["x = (m - n) * BLOCK_M < n", "x = ((m + n) + BLOCK_M) < n"]),
    ("x = (m + n)[:, None]", "axis", ["x = (m + n)[None, :]"]),
    ("x = (m or n) and 2", "and, or", ["x = (m and n) and 2", "x = (m or n) or 2"]),
    ("x = tl.program_id(axis=0)", "axis", ["x = tl.program_id(axis=1)"]),
    ("x = tl.program_id(1)", "axis", ["x = tl.program_id(axis=0)"]),
    ("x = m[:, None] * n", "axis", ["x = m[None, :] * n"]),
    ("x = tl.sum(m, axis=1)", "axis", ["x = tl.sum(m, axis=0)"]),
    ("x = tl.sum(m, axis=1)", "another function", ["x = tl.max(m, axis=1)"]),
    ("m += n", "not accumulated", ["m = n"]),
    ("m += n", "statement deleted", ["pass"]),
    ("tl.store(x_ptr, 1)", "statement deleted", ["pass"]),
    ("x = (4 < n) & (3 < m)", "arithmetic", ["x = (4 < n) | (3 < m)"]),
    ("x = (4 < n) & (3 < m)", "half of a mask", ["x = 4 < n", "x = 3 < m"]),
    ("x = m.to(tl.int64) * 2", "cast dropped", ["x = m * 2"]),
    ("x = 2 * (m - n)", "arithmetic", ["x = 2 + (m - n)", "x = 2 * (m + n)"]),
    ("x = m - 2 * n", "arithmetic", ["x = m + 2 * n", "x = m - (2 + n)"]),
    ("x = n // 4", "constant", ["x = n // 5", "x = n // 3"]),
    ("x = tl.cdiv(n, 4)", "cdiv rounds down", ["x = (n) // (4)"]),
    ("x = tl.arange(0, 4)", "one off", ["x = tl.arange(0, 4) + 1", "x = tl.arange(0, 4) - 1"]),
    ("x = tl.where(m > 0, m, n)", "branches swapped", ["x = tl.where(m > 0, n, m)"]),
    ("x = m if m > 0 else n", "condition", ["x = m if not (m > 0) else n"]),
    ("x = -m", "sign dropped", ["x = m"]),
    ("x = 'é' + m * n", "arithmetic", ["x = 'é' - m * n", "x = 'é' + (m + n)"]),  # columns are counted in bytes
]


@pytest.mark.parametrize("line, fault, expected", FAULTS)
def test_plants(line, fault, expected):
    planted = [m.diff for m in mutants(KERNEL.format(f"    {line}")) if m.fault == fault]
    lines = [(f"- {line}", f"+ {changed}") for changed in ([expected] if isinstance(expected, str) else expected)]
    assert sorted(planted) == sorted(lines)


HOST = """
import functools, torch, triton

KEPT = {{}}

def host(a, b, m, n, plan, other=0, *, input_precision="ieee"):
{}
    kernel[(1,)](a, m)

def kept(m): return m
"""

# As above, of a host function. Two lines are one statement and what stands below it.
HOST_FAULTS = [
    ("if a not in KEPT or len(KEPT[a]) < m: pass", "operand dropped",
     ["if len(KEPT[a]) < m: pass", "if a not in KEPT: pass"]),
    ("if a not in KEPT or len(KEPT[a]) < m: pass", "comparison",
     ["if (a in KEPT) or len(KEPT[a]) < m: pass", "if a not in KEPT or (len(KEPT[a]) <= m): pass"]),
    ("x = (m or n) and a and b", "operand dropped",
     ["x = a and b", "x = (m or n) and b", "x = (m or n) and a", "x = (n) and a and b", "x = (m) and a and b"]),
    ("if m < n: raise ValueError(f'{m + 1}')", "raise deleted", ["if m < n: pass"]),
    ("if m < n: raise ValueError(f'{m + 1}')", "constant", []),
    ("if m < n: pass", "condition", ["if not (m < n): pass"]),
    ("if m == n: pass", "condition", []),  # the same as another comparison
    ("if 1 < m <= 4: pass", "comparison", ["if 1 <= m <= 4: pass", "if 1 < m < 4: pass"]),
    ("if not m: pass", "not dropped", ["if m: pass"]),
    ("x = torch.empty(m, dtype=a.dtype, device=a.device)", "dtype dropped", ["x = torch.empty(m, device=a.device)"]),
    ("x = torch.zeros(max(m, 4))", "another function", ["x = torch.ones(max(m, 4))", "x = torch.zeros(min(m, 4))"]),
    ("x = 2 * m", "arithmetic", ["x = 2 + m"]),
    ("x = 2 * m", "constant", ["x = 3 * m", "x = 1 * m"]),
    ("x = 2**m", "constant", []),
    ("x = m in (1, 2)", "constant", []),
    ("x = -(-m // 4)", "rounds down", ["x = (m // 4)"]),
    ("x = triton.cdiv(m, 4)", "rounds down", ["x = (m) // (4)"]),
    ("x = plan.block_m + plan.block_n", "neighbor",
     ["x = plan.block_n + plan.block_n", "x = plan.block_m + plan.block_m"]),
    ("x = a.dtype", "neighbor", []),  # b's is the same
    ("kernel[(m,)](a, b, *m, n=n, num_warps=4)", "arguments swapped",
     ["kernel[(m,)](b, a, *m, n=n, num_warps=4)", "kernel[(m,)](a, *m, b, n=n, num_warps=4)"]),
    ("kernel[(m,)](a, num_warps=4)", "constant", []),
    ("kept(a, b)", "arguments swapped", ["kept(b, a)"]),
    ("print_nothing(a, b)", "arguments swapped", []),
    ("kernel[(m,)](a, PRECISION=\"ieee\")", "precision", ["kernel[(m,)](a, PRECISION=\"tf32\")"]),
    ("kept(a)", "statement deleted", ["pass"]),
    ("KEPT[a] = b", "statement deleted", ["pass"]),
]  # fmt: skip


@pytest.mark.parametrize("line, fault, expected", HOST_FAULTS)
def test_plants_in_hosts(line, fault, expected):
    found = host_mutants(HOST.format(f"    {line}"))
    planted = [mutant.diff for mutant in found if mutant.fault == fault and mutant.diff[0] == f"- {line}"]
    assert sorted(planted) == sorted((f"- {line}", f"+ {changed}") for changed in expected)
    assert all(mutant.host for mutant in found)


def test_plants_in_the_default_of_a_precision():
    faults = {mutant.fault: mutant.source for mutant in host_mutants(HOST.format("    pass")) if mutant.line == 6}
    assert list(faults) == ["precision"] and 'input_precision="tf32"' in faults["precision"]


def test_an_accumulator_that_is_not_reset():
    body = "    for i in range(m):\n        acc = 0\n        for j in range(n):\n            acc += j"
    (mutant,) = [m for m in mutants(KERNEL.format(body)) if m.fault == "not reset"]
    changed = "    acc = 0\n    for i in range(m):\n        pass\n        for j in range(n):"
    assert changed in mutant.source


def test_nothing_else_changes():
    source = (ROOT / "snippets/programs/vector_add.py").read_text("utf-8")
    planted = mutants(source)
    assert len({mutant.source for mutant in planted}) == len(planted) > 20 and source not in planted
    for mutant in planted:
        assert len(mutant.source.splitlines()) == len(source.splitlines())
        assert sum(a != b for a, b in zip(mutant.source.splitlines(), source.splitlines(), strict=True)) == 1


def test_the_lesson_shows_one_of_its_own_mutants():
    shown = re.search(r"```diff\n(.+\n)(.+\n)```", (ROOT / "docs/en/tools/testing.md").read_text("utf-8"))
    planted = mutants((ROOT / "snippets/tools/testing.py").read_text("utf-8"))
    assert tuple(line.strip() for line in shown.groups()) in {mutant.diff for mutant in planted}


def test_finds_kernels_however_they_are_decorated():
    source = """
@triton.jit
def a(): pass
@triton.autotune(configs=[], key=[])
@triton.jit
def b(): pass
@triton.jit(debug=True)
def c(): pass
@triton.jit
def wrong_bug(): pass
def host(): pass
"""
    assert [kernel.name for kernel in kernels(ast.parse(source))] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="in inner: move it to the top level"):
        kernels(ast.parse("def f():\n    @triton.jit\n    def inner(): pass"))


def test_finds_what_launches_and_what_it_calls():
    source = """
@triton.jit
def kernel(): pass
def host(x): return kernel[(kept(x),)](x)
@functools.cache
def kept(x): return rest(x)
def rest(x): return 1
def by_another(some_kernel, x): some_kernel[(1,)](x)
class Launch:
    def begin(self, x): self.kernel[(1,)](x)
    def end(self): pass
def by_method(launch, x): launch.begin(x)
def by_no_launch(launch): launch.end()
def unused(x): return rest(x)
@triton.testing.perf_report(1)
def bench(): kernel[(1,)](1)
def measure_it(): kernel[(1,)](1)
def timed(): triton.testing.do_bench(lambda: kernel[(1,)](1))
def demonstration(): kernel[(1,)](torch.ones(1, device="cuda"))
def main(): kernel[(1,)](1)
def wrong_bug(): kernel[(1,)](1)
"""
    assert [host.name for host in hosts(ast.parse(source))] == ["host", "kept", "rest", "by_another", "by_method"]


def test_a_fast_run_takes_two_unexplained_kinds_in_the_largest_kernel():
    kinds = "axis", "comparison", "arithmetic", "constant"
    source = KERNEL.format("    x = 4 < n\n    y = 5 < n\n    z = n + 6") + "\n@triton.jit\ndef a(n):\n    x = n - 1\n"
    chosen = lambda explained: [(m.kernel, m.diff[1]) for m in few_mutants(source, kinds, explained)]
    assert chosen(lambda mutant: False) == [("kernel", "+ x = 4 <= n"), ("kernel", "+ z = n - 6")]
    assert chosen(lambda mutant: "x" in mutant.diff[1]) == [("kernel", "+ y = 5 <= n"), ("kernel", "+ z = n - 6")]
    assert chosen(lambda mutant: mutant.kernel == "kernel") == [("a", "+ x = n + 1"), ("a", "+ x = n - 2")]
    assert not chosen(lambda mutant: True)


def test_verdicts_are_written_into_the_table():
    entry = '[[mutant]]\nsnippet = "a"\nkernel = "k"\ndiff = ["- x", "+ y"]\ngpu = true\nwhy = "because"\n'
    table = "\n".join(["# what it is\n", EXPLAINED.format('["- a", "+ b"]'), entry, entry.replace("- x", "- z")])
    said = with_verdicts(table, {("a", "k", ("- x", "+ y")): "caught"})
    assert said == table.replace('"+ y"]\ngpu = true\n', '"+ y"]\ngpu = true\nverdict = "caught"\n', 1)
    again = with_verdicts(said, {("a", "k", ("- x", "+ y")): "survived"})
    assert again == said.replace('"caught"', '"survived"') and with_verdicts(said, {}) == said


def test_the_verdict_of_several():
    assert verdict(["caught by test_a"]) == "caught by test_a" and verdict(["survived"] * 2) == "survived"
    assert verdict(["caught by test_a", "survived", "too slow"]) == "2 of 3 caught"
    assert verdict(["run by no test"]) == "run by no test"


# The command, on a small project of its own

SNIPPET = """
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

@triton.jit
def unused(x_ptr):
    tl.store(x_ptr, 1)

@triton.jit
def wrong_bug(x_ptr):
    tl.store(x_ptr, 1)

KEPT = {}

def doubled(x):
    check(x)
    if "out" not in KEPT or len(KEPT["out"]) < len(x):
        KEPT["out"] = torch.empty(len(x))
    programs = triton.cdiv(len(x), 4)
    double[(programs,)](x, KEPT["out"], len(x), BLOCK=4)
    return KEPT["out"][: len(x)]

def check(x):
    if x.ndim != 1:
        raise ValueError("give it one dimension")
"""

MADE = """
import torch, triton, triton.language as tl

ROWS = {}

@triton.jit
def fill(x_ptr, value):
    tl.store(x_ptr, value)

def enter(name, run):
    ROWS[name] = run

def made(value):
    def run():
        x = torch.zeros(1)
        fill[(1,)](x, value + 1)
        return x.item()
    return run

enter("one", made(0))
for value in (1, 2):
    enter(str(value), made(value))
"""

COMBINED = """
import torch, triton, triton.language as tl

@triton.jit
def add(a, b):
    return a + b

@triton.jit
def total(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, add))
"""

WEAK = """
import torch
from snippets.chapter import lesson
from snippets.chapter.lesson import double, doubled  # imported by name, and still the mutated ones

def test_a_round_size():
    x, out = torch.arange(1.0, 9.0), torch.zeros(8)
    double[(2,)](x, out, 8, BLOCK=4)
    assert torch.equal(out, 2 * x)

def test_host():
    assert torch.equal(doubled(torch.arange(1.0, 9.0)), 2 * torch.arange(1.0, 9.0))
"""

STRONG = """
def test_larger_than_what_is_kept():
    import pytest
    lesson.KEPT.clear()
    doubled(torch.ones(3))
    kept = lesson.KEPT["out"]
    assert doubled(torch.zeros(3)).data_ptr() == kept.data_ptr() and len(kept) == 3
    assert torch.equal(doubled(torch.ones(70)), torch.full((70,), 2.0))
    with pytest.raises(ValueError):
        doubled(torch.ones(2, 2))

def test_a_ragged_size():
    from guards import Guarded, check_each_once, recorded_accesses
    zones = {"before": 16, "after": 16}
    x = Guarded.around(torch.arange(1.0, 8.0), **zones, fill=0xFF)
    out = Guarded((7,), torch.float32, "cpu", **zones, fill=0x5A)
    with recorded_accesses() as accesses:
        double[(2,)](x.tensor, out.tensor, 7, BLOCK=4)
    out.check("out")
    assert torch.equal(out.tensor, 2 * x.tensor)
    check_each_once(accesses, "load", x=x.tensor)
    x = torch.zeros(1)
    lesson.unused[(1,)](x)
    assert x.item() == 1
"""

LAB = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl

@triton.jit
def look(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)

look[(1,)](torch.zeros(3), 3, BLOCK=4)
"""


HELPERS = ("limits", "mutants", "planting", "quick")


@pytest.fixture
def project(tmp_path):
    """A project with one snippet, and what it takes to test it; returns a function that runs the command in it."""
    for folder in ("snippets/chapter/labs", "tests/snippets/chapter"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("pyproject.toml", "conftest.py", *(f"tests/{name}.py" for name in HELPERS)):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "snippets/chapter/lesson.py").write_text(SNIPPET)

    def command(tests, *arguments, explained=""):
        (tmp_path / "tests/snippets/chapter/test_lesson.py").write_text(tests)
        (tmp_path / "tests/snippets/test_contract.py").touch()
        (tmp_path / "tests/mutants_explained.toml").write_text(explained)
        path = os.pathsep.join([str(tmp_path), str(ROOT / "tests/snippets"), str(ROOT)])
        return run_python("-m", "tests.mutants", *arguments, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})

    command.root = tmp_path
    return command


EXPLAINED = '[[mutant]]\nsnippet = "chapter/lesson"\nkernel = "double"\nwhy = "because"\ndiff = {}\n'


def test_weak_tests_leave_survivors_and_the_command_names_them(project):
    (project.root / "snippets/chapter/labs/sound.py").write_text(LAB)
    (project.root / "snippets/chapter/labs/unsteady.py").write_text(LAB + "\nprint(os.getpid())")
    whole_kernel = '[[mutant]]\nsnippet = "chapter/lesson"\nkernel = "unused"\nwhy = "nobody runs it"\n'
    one = EXPLAINED.format('["- mask = offsets < n", "+ mask = offsets <= n"]')
    done = project(WEAK, explained=one + whole_kernel)
    said = done.stdout
    assert done.returncode == 1, done.stderr
    assert "chapter/lesson, double: " in said and "LESS THAN 95%" in said
    assert "survived: line 7, bound one short\n" not in said, "a test that catches it was not run"
    survivor = (
        "survived: line 7, comparison\n    - mask = offsets < n\n    + mask = offsets <= n\n    explained: because\n"
    )
    assert survivor in said
    assert re.search(r"chapter/lesson, unused: 0 of (\d) faults caught, \1 explained\n", said)
    assert "wrong_bug" not in said
    operand = 'if "out" not in KEPT or len(KEPT["out"]) < len(x):\n    + if "out" not in KEPT:\n'
    assert "chapter/lesson, doubled: " in said and f", operand dropped\n    - {operand}" in said
    assert re.search(r"chapter/lesson, check: 3 of (\d) faults caught", said)
    assert re.search(r"chapter/lesson, host functions: .* LESS THAN \d\d%", said)
    lab = re.search(r"chapter/labs/sound, look: (\d+) of (\d+) faults caught\n", said)
    assert lab and lab[1] == lab[2]
    assert "chapter/labs/unsteady: it prints something else each time" in said


def test_strong_tests_leave_none(project):
    line = "programs = triton.cdiv(len(x), {})"  # more programs than it takes do nothing
    one = EXPLAINED.replace("double", "doubled").format(f'["- {line.format(4)}", "+ {line.format(3)}"]')
    done = project(WEAK + STRONG, explained=one)
    assert done.returncode == 0 and done.stdout.count("survived: ") == 1, done.stdout + done.stderr
    assert "chapter/lesson, double: " in done.stdout and "chapter/lesson, unused: " in done.stdout
    assert "chapter/lesson, doubled: " in done.stdout and "chapter/lesson, host functions: " in done.stdout


def test_only_kernels_or_only_hosts(project):
    of = lambda *arguments: set(re.findall(r"^chapter/lesson:\d+ (\w+)", project("", *arguments).stdout, re.M))
    assert of("--list", "--kernels") == {"double", "unused"} and of("--list", "--host") == {"doubled", "check"}


def test_what_a_function_made_at_import_is_faulty_too(project):
    (project.root / "snippets/chapter/lesson.py").write_text(MADE)
    rows = "def test_rows():\n    assert lesson.ROWS['1']() + lesson.ROWS['one']() == 3"
    done = project(f"from snippets.chapter import lesson\n{rows}", "--host")
    survivors = re.findall(r"^    \+ (.*)", done.stdout, re.M)
    assert survivors == ["x = torch.ones(1)", "fill[(2,)](x, value + 1)"], done.stdout + done.stderr


def test_what_a_reduction_combines_by_is_tried(project):
    (project.root / "snippets/chapter/lesson.py").write_text(COMBINED)
    run = "lesson.total[(1,)](torch.arange(1.0, 5.0), out := torch.zeros(1), BLOCK=4)"
    test = f"def test_total():\n    {run}\n    assert out == 10\n"
    done = project(f"import torch\nfrom snippets.chapter import lesson\n\n{test}", "--kernels", "--of", "add")
    found = re.search(r"chapter/lesson, add: (\d+) of (\d+) faults caught\n", done.stdout)
    assert found and found[1] == found[2], done.stdout + done.stderr


def test_leaves_to_a_gpu_what_the_table_says(project):
    of_gpu = EXPLAINED.format('["- x = tl.load(x_ptr)", "+ x = tl.load(y_ptr)"]') + "gpu = true\n"
    mask = '["- mask = offsets < n", "+ mask = offsets <= n"]'
    listed = project("", "--gpu", "--list", explained=of_gpu + EXPLAINED.format(mask) + "gpu = true\n").stdout
    assert re.findall(r"^    ([-+].*)", listed, re.M) == ["- mask = offsets < n", "+ mask = offsets <= n"]
    with_no_gpu = project(WEAK, "--gpu", explained=EXPLAINED.format(mask) + "gpu = true\n")
    if not torch.cuda.is_available():
        assert with_no_gpu.returncode == 1 and "-m gpu needs a GPU" in with_no_gpu.stdout


def test_a_gpu_gives_its_verdict(project):
    conftest = project.root / "conftest.py"
    pretend = "import torch\ntorch.cuda.is_available = lambda: True\n"
    conftest.write_text(pretend + conftest.read_text("utf-8"), "utf-8")
    on_gpu = "\nimport pytest\n@pytest.mark.gpu\ndef test_vectors():\n    lesson.check(torch.ones(3))\n"
    of_host = EXPLAINED.replace("double", "check") + "gpu = true\n"
    caught = of_host.format('["- if x.ndim != 1:", "+ if x.ndim != 2:"]')
    survives = of_host.format("""['- raise ValueError("give it one dimension")', '+ pass']""")
    done = project(WEAK + on_gpu, "--gpu", explained=caught + survives)
    assert done.returncode == 1 and "1 of 2 entries caught on no GPU" in done.stdout, done.stdout + done.stderr
    table = (project.root / "tests/mutants_explained.toml").read_text("utf-8")
    told = ['verdict = "caught by test_vectors on no GPU"\n', 'verdict = "survived on no GPU"\n']
    assert table == "".join(entry + verdict for entry, verdict in zip((caught, survives), told, strict=True))


def test_what_a_gpu_did_not_see_explains_nothing(tmp_path):
    (mutant, *_) = mutants(KERNEL.format("    x = 4 < n"))
    for said, explains in (("", "not yet tried"), ('verdict = "caught"', "caught"), ('verdict = "survived"', "")):
        table = tmp_path / "explained.toml"
        table.write_text(f'[[mutant]]\nsnippet = "s"\nkernel = "kernel"\ngpu = true\n{said}\nwhy = "because"\n')
        explained = Explanations(table)
        key = explained.of("s", mutant)
        assert explained.left_to_gpu("s", mutant) == ("s", "kernel", ()) and bool(key) == bool(explains)
        assert not key or explains in explained[key]


def test_an_explanation_must_be_needed(project):
    caught = EXPLAINED.format('["- mask = offsets < n", "+ mask = offsets <= n"]')
    done = project(WEAK + STRONG, explained=caught + EXPLAINED.format('["- no such line", "+ pass"]'))
    assert done.returncode == 1 and "LESS THAN" not in done.stdout
    assert "explains what does not survive:\n    - mask = offsets < n" in done.stdout
    assert "explains what does not survive:\n    - no such line" in done.stdout


def test_tests_that_fail_anyway_catch_nothing(project):
    (project.root / "snippets/chapter/untested.py").write_text(SNIPPET)
    (project.root / "snippets/chapter/uncollected.py").write_text(SNIPPET)
    (project.root / "tests/snippets/chapter/test_uncollected.py").write_text("import no_such_module")
    done = project(WEAK + "\ndef test_wrong():\n    assert double is None\n")
    assert done.returncode == 1 and "faults caught" not in done.stdout
    assert "chapter/lesson: its tests fail without any fault: " in done.stdout and "::test_wrong" in done.stdout
    assert "chapter/untested: there is no tests/snippets/chapter/test_untested.py" in done.stdout
    assert "chapter/uncollected: its tests cannot be collected" in done.stdout and "no_such_module" in done.stdout


def test_of_a_test_of_many_cases_one_runs_first():
    many, one, examples = (mock.NonCallableMock([]) for _ in range(3))
    examples.hypothesis = True
    items = [mock.Mock(obj=of) for of in [examples, *[many] * 12, one]]
    first = one_of_each_first(items)
    assert first == [items[1], items[13], *items[2:13], items[0]]


def test_what_becomes_of_a_child():
    call = (
        "import os; from tests.mutants import in_child\n"
        "works = [lambda: None, lambda: any(iter(int, 1)), lambda: 1 / 0, lambda: os.kill(os.getpid(), 11)]\n"
        "print(*(in_child(work, 1) for work in works), sep=',')"
    )
    done = run_python("-c", call, cwd=ROOT, env=dict(os.environ))
    assert done.stdout == "survived,too slow,caught,caught\n"


# Ours


@pytest.mark.long
@pytest.mark.parametrize("chapter", CHAPTERS)  # so that pytest's own workers share them out
def test_a_few_faults_in_our_snippets_are_caught(chapter):
    """In three files of a chapter, drawn once: .github/workflows/weekly.yml tries all faults of all files."""
    inside = [path for path in files([]) if path.is_relative_to(ROOT / "snippets" / chapter)]
    chosen = [path for path in inside if kernels(ast.parse(path.read_text("utf-8")))]
    if not chosen:
        return  # none of it has a kernel
    drawn = random.Random(chapter).sample(chosen, min(3, len(chosen)))
    command = ["-m", "tests.mutants", *map(snippet_name, drawn), "--fast", "--jobs", "1"]
    done = run_python(*command, cwd=ROOT, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
