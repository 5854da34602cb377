# SPDX-License-Identifier: Apache-2.0
"""Solutions that cheat fail, and are told why; code that ends, hangs or crashes its process ends in a message."""

import subprocess
import sys

import pytest
from coach import check as checks
from coach.exercise import PRACTICE, exercises, find

from tests.limits import GROWING, HANGS, gone, wait_for

SCALE = find("scale", exercises())
LAUNCH = """\
    y = torch.empty_like(x)
    n = x.numel()
    block = 1024
    scale_kernel[(triton.cdiv(n, block),)](x, y, a, n, BLOCK=block)
    return y
"""
LINE = SCALE.solution[: SCALE.solution.index(LAUNCH)].count("\n") + 1
CHEATS = {
    "torch computes": ("    return x * a\n", "torch computed something: `mul`, on line {line}:"),
    "torch, and a launch for show": (LAUNCH.replace("return y", "return torch.mul(x, a)"), "torch computed something"),
    "the kernel is given torch's result": (
        LAUNCH.replace("](x, y, a,", "](x * a, y, 1.0,"),
        "torch computed something",
    ),
    "the reference": (
        "    import sys\n    sys.path.insert(0, 'exercises')\n    from coach.exercise import exercises, find\n"
        "    return find('scale', exercises()).spec().reference(x, a)\n",
        "torch computed something: `mul`",
    ),
    "NumPy computes": ("    return torch.from_numpy(x.numpy() * a)\n", "launched no kernel"),
    "NumPy, and a launch for show": (
        LAUNCH.replace("return y", "return torch.from_numpy(x.numpy() * torch.tensor(a).numpy())"),
        "No kernel stored the result",
    ),
    "NumPy changes it afterwards": (
        LAUNCH.replace("x, y, a, n", "x, y, 1.0, n").replace("return y", "y.numpy()[:] = x.numpy() * a\n    return y"),
        "Something other than a kernel changed the result",
    ),
}
CACHE = """\
    global kept
    kept = globals().get("kept") or {{}}
    if {key} in kept:
        return kept[{key}]
""" + LAUNCH.replace("    return y", "    kept[{key}] = y\n    return y")
CHEATS["skips a seed"] = (
    CACHE.format(key="n").replace("    if n in", "    n = len(x)\n    if n in"),
    "keep results of earlier",
)


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_fails_and_is_told_why(cheat, check):
    text, message = CHEATS[cheat]
    verdict = check(SCALE, SCALE.solution.replace(LAUNCH, text))
    assert verdict.finding, "it passes"
    assert message.format(line=LINE) in " ".join(verdict.finding.text().split())
    assert verdict.finding.stage == "seed"


@pytest.mark.parametrize(
    ("code", "stage", "message"),
    [
        ("    while True: pass\n", "compiles", "was stopped after 3 seconds. Is there a loop that never ends?"),
        ("    import os; os._exit(3)\n", "compiles", "ended the whole process: exit status 3"),
        ("    exit()\n", "compiles", "Your file ends the process"),
        ("    import os; os.kill(os.getpid(), 11)\n", "compiles", "a read or write of memory that is not there"),
        ("    import ctypes; ctypes.string_at(0)\n", "compiles", "a read or write of memory that is not there"),
        ("    raise KeyError('q')\n", "compiles", "Your code raised KeyError: 'q', on line {line}:"),
        ("    return [x]\n", "shape", "scale returned a list, and should be a tensor."),
        (LAUNCH.replace("like(x)", "like(x[:1])"), "shape", "the shape (1,); it should be (10,)"),
        (LAUNCH.replace("like(x)", "like(x, dtype=torch.float64)"), "shape", "the dtype torch.float64; it should be"),
    ],
)
def test_the_process_of_the_code_may_die(code, stage, message, check):
    verdict = check(SCALE, SCALE.solution.replace(LAUNCH, code), limit=3 if "while" in code else HANGS)
    assert message.format(line=LINE) in " ".join(verdict.finding.text().split())
    assert verdict.finding.stage == stage


def test_code_that_was_stopped_runs_no_more(check, tmp_path):
    note = f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n    while True: pass\n"
    for limit in GROWING:  # until it runs before it is up
        check(SCALE, SCALE.solution.replace(LAUNCH, note), limit=limit)
        if (tmp_path / "pid").exists():
            break
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_the_code_prints_is_shown_and_cut(check):
    verdict = check(SCALE, SCALE.solution.replace(LAUNCH, '    print("seen", x.numel())\n' + LAUNCH))
    assert verdict.finding is None
    assert verdict.printed.startswith("seen 10\n") and verdict.printed.endswith("lines more")


ENDLESS = {
    "print": 'while True: print("x" * 1000)',
    "a line without an end": 'while True: print("x" * 1000, end="")',
    "stderr": 'import sys\nwhile True: sys.stderr.write("x" * 1000)',
    "the descriptor": "import os\nwhile True: os.write(1, b'x' * 100_000)",
    "another process": 'import subprocess\nsubprocess.run(["yes"])',
}


@pytest.mark.parametrize("code", ENDLESS)
def test_what_the_code_prints_is_bounded_however_it_prints(code, check, monkeypatch):
    written = []
    monkeypatch.setattr(checks, "_cut", lambda message, cut=checks._cut: written.append(len(message)) or cut(message))
    for limit in GROWING:  # until it prints before it is up
        verdict = check(SCALE, ENDLESS[code] + "\n" + SCALE.solution, limit=limit)
        assert f"was stopped after {limit} seconds" in verdict.finding.message
        if written[-1] > checks.KEPT:
            break
    assert written[-1] == checks.KEPT + 1 and len(verdict.printed) < 8000
    assert verdict.printed.endswith("only the beginning was kept")


def test_an_endless_loop_ends_with_a_coach_that_is_killed(tmp_path):
    path, told = tmp_path / "scale.py", tmp_path / "pid"
    path.write_text(f"import os\nopen({str(told)!r}, 'w').write(str(os.getpid()))\nwhile True: pass\n{SCALE.solution}")
    code = f"""
from pathlib import Path
from coach.check import Coach
from coach.exercise import exercises, find
with Coach() as coach:
    coach.check(find("scale", exercises()), Path({str(path)!r}), limit={HANGS}, tasks=("compile",))
"""
    coach = subprocess.Popen([sys.executable, "-c", code], cwd=PRACTICE)
    pid = wait_for(lambda: told.exists() and told.read_text())
    coach.kill()
    coach.wait()
    assert gone(int(pid))


def test_without_a_fork_printing_is_bounded_too(tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_text("import os\ndel os.fork\nfrom coach import child\nchild.main()\n")
    monkeypatch.setattr(checks, "CHILD", (sys.executable, str(child)))
    path = tmp_path / "scale.py"
    with checks.Coach() as coach:
        path.write_text("import os\nfor _ in range(999): print('x' * 99); os.write(2, b'y')\n" + SCALE.solution)
        loud = coach.check(SCALE, path, tasks=("compile",))
        path.write_text("print('once')\n" + SCALE.solution)
        quiet = coach.check(SCALE, path, tasks=("compile",))
    assert (loud.finding, quiet.finding, quiet.printed) == (None, None, "once")
    assert loud.printed.endswith("only the beginning was kept")


def test_a_file_that_begins_with_a_mark_of_its_order_of_bytes_is_read(coach, tmp_path):
    path = tmp_path / "scale.py"
    for text, message in {SCALE.solution: "", SCALE.skeleton: "Gap 1 is still empty", "x = (": "on line 1"}.items():
        path.write_text(text, "utf-8-sig")
        finding = coach.check(SCALE, path).finding
        assert message in finding.message if message else finding is None


@pytest.mark.parametrize("code", ["x_ptr[offsets]", "x[0]", "triton.cdiv(n, BLOCK)"])
def test_tritons_question_for_its_decorator_is_left_out_where_it_misleads(code, check):
    line = "    x = tl.load(x_ptr + offsets, mask=mask)\n"
    assert line in SCALE.solution
    verdict = check(SCALE, SCALE.solution.replace(line, f"{line}    x = {code}\n"))
    assert "Did you forget" not in verdict.finding.text() and verdict.finding.guess, verdict.finding.text()


THROUGH_MEMORY = (
    LAUNCH.replace("](x, y, a", "](x, y, torch.empty_like(x), a"),
    "def scale_kernel(x_ptr, y_ptr, there_ptr, a, n, BLOCK: tl.constexpr):",
    """    there = n - 1 - offsets  # one program stores its block from the end, another lane loads it
    lowest = tl.maximum(n - (pid + 1) * BLOCK, 0)
    tl.store(there_ptr + there, x, mask=mask){barrier}
    again = lowest + tl.arange(0, BLOCK)
    x = tl.load(there_ptr + again, mask=again < n - pid * BLOCK)
    tl.store(y_ptr + n - 1 - again, a * x, mask=again < n - pid * BLOCK)
""",
)


@pytest.mark.parametrize("barrier", ["", "\n    tl.debug_barrier()"])
def test_what_another_lane_stored_is_read_behind_a_barrier_only(barrier, check):
    launch, head, body = THROUGH_MEMORY
    store = "    tl.store(y_ptr + offsets, a * x, mask=mask)\n"
    text = SCALE.solution.replace(LAUNCH, launch).replace(store, body.format(barrier=barrier))
    text = text.replace("def scale_kernel(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):", head)
    finding = check(SCALE, text, tasks=("interpret",)).finding
    assert barrier or (finding.stage, "no barrier in between" in finding.message) == ("bounds", True)
    assert not barrier or finding is None, finding.text()


@pytest.mark.parametrize("barrier", ["", "\n    tl.debug_barrier()"])
def test_what_another_lane_loads_is_stored_behind_a_barrier_only(barrier, check):
    store = "    tl.store(y_ptr + offsets, a * x, mask=mask)\n"
    mirrored = f"""    last = tl.minimum((pid + 1) * BLOCK, n) - 1
    zeros = tl.load(y_ptr + pid * BLOCK + last - offsets, mask=mask){barrier}
    tl.store(y_ptr + offsets, a * x + zeros, mask=mask)
"""
    text = SCALE.solution.replace(store, mirrored).replace("torch.empty_like(x)", "torch.zeros_like(x)")
    finding = check(SCALE, text, tasks=("interpret",)).finding
    between = "reads earlier, with no barrier in between"
    assert barrier or (finding.stage, between in finding.message) == ("bounds", True)
    assert not barrier or finding is None, finding.text()


@pytest.mark.parametrize("made", ["torch.empty(x.shape).to(x.device)", "torch.empty(x.shape, device=x.device)"])
def test_a_tensor_that_comes_to_the_device_is_right(made, check):
    assert check(SCALE, SCALE.solution.replace("torch.empty_like(x)", made)).finding is None


def test_what_is_right_for_a_few_programs_is_not_right(check):
    for most in (4, 7):
        text = SCALE.solution.replace("a * x", f"tl.where(pid < {most}, a, 1.0) * x")
        finding = check(SCALE, text, tasks=("interpret",)).finding
        assert (finding.stage, "n = 8193" in finding.case) == ("seed", True)


def test_a_grid_that_cannot_be_launched_is_found_before_a_run(check):
    for grid, message in {"8": "has no len()", "(n / 2,)": "'float' object", "((1, 2),)": "not 'tuple'"}.items():
        verdict = check(SCALE, SCALE.solution.replace("(triton.cdiv(n, block),)", grid))
        assert verdict.finding.stage == "compiles" and message in " ".join(verdict.finding.text().split())
    right = SCALE.solution.replace("(triton.cdiv(n, block),)", 'lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)')
    assert check(SCALE, right).finding is None


def test_a_program_for_each_element_ends_at_the_first_size(check):
    matmul = find("matmul", exercises())
    programs = [line for line in matmul.solution.splitlines() if line.strip().startswith("programs = ")]
    text = matmul.solution.replace(programs[0], "    programs = M * N\n    print(M, N, K)")
    verdict = check(matmul, text)
    assert (verdict.finding.stage, verdict.passed) == ("speed", ["compiles", "shape"])
    assert verdict.printed == "7 6 24"


def test_what_a_launch_imports_is_there_before_a_check_begins(check):
    verdict = check(SCALE, 'import sys\nprint("triton.experimental.gluon" in sys.modules)\n' + SCALE.solution)
    assert verdict.finding is None and verdict.printed == "True"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def scale(:\n", "is not valid Python on line 1"),
        (
            "import no_such_module\n",
            "Your file raised ModuleNotFoundError: No module named 'no_such_module', on line 1:",
        ),
        ("def scal(x, a): pass\n", "There is no function scale(x, a) in your file."),
        ("def scale(a, x): pass\n", "scale takes (a, x); it should take (x, a)."),
    ],
)
def test_a_file_that_cannot_be_used(text, message, check):
    verdict = check(SCALE, text)
    assert verdict.finding.stage == "compiles" and verdict.passed == []
    assert message in " ".join(verdict.finding.text().split())
