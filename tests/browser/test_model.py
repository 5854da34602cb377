# SPDX-License-Identifier: Apache-2.0
"""What a page asks of the model: messages, the log, memory's fill, the order of programs, speed, unchanged texts."""

import random
import subprocess
import sys

import pytest

import browser
from browser import MEMORY, SETTINGS, OutOfBounds
from tests.limits import HANGS, paced
from tests.modeled import ROOT

ADD = (ROOT / "practice/exercises/add/solution.py").read_text("utf-8")
HEAD = "import torch\nimport triton\nimport triton.language as tl\n"


@pytest.fixture
def model():
    """The model, installed and anew; a function that loads a text."""
    browser.reset()
    with browser.installed():
        yield lambda text, name="page.py": browser.load(HEAD + text if "import torch" not in text else text, name)
    browser.reset()
    SETTINGS.seed = None


def test_a_stray_lane_is_named(model):
    names = model(ADD.replace("mask = offsets < n", "mask = offsets <= n"), "add.py")
    import torch

    x = torch.arange(300).float()
    with pytest.raises(Exception) as caught:
        names["add"](x, x)
    error = caught.value.__cause__
    assert type(caught.value).__name__ == "InterpreterError"
    assert isinstance(error, OutOfBounds)
    assert str(error) == ("program 1 reads x_ptr at offset 300, and its last element is at 299. It is lane 44, and its "
                          "mask is on (line 20).")  # fmt: skip
    assert (error.access.program, error.lane, error.offset) == ((1, 0, 0), 44, 300)


def test_stray_lanes_can_be_noted_instead_and_then_touch_nothing(model):
    browser.reset(fill=browser.POISON, strict=False)
    names = model(ADD.replace("mask = offsets < n", "mask = offsets < n + 2"), "add.py")
    import torch

    x = torch.arange(10).float()
    assert names["add"](x, x).tolist() == [2.0 * i for i in range(10)]
    assert [(t.access.op, t.access.name, t.access.outside) for t in MEMORY.troubles] == [
        ("load", "x_ptr", [10, 11]), ("load", "y_ptr", [10, 11]), ("store", "z_ptr", [10, 11]),
    ]  # fmt: skip


def test_the_log_says_who_touched_what_in_which_line(model):
    browser.reset(record=True)
    names = model(ADD.replace("256", "4"), "add.py")
    import torch

    names["add"](torch.ones(6), torch.ones(6))
    (launch,) = MEMORY.launches
    assert (launch.kernel, launch.grid, launch.line) == ("add_kernel", (2, 1, 1), 35)
    assert launch.before["x_ptr"] == [1.0] * 6
    assert [(a.program[0], a.op, a.name, a.line) for a in launch.accesses] == [
        (pid, op, name, line) for pid in (0, 1)
        for op, name, line in (("load", "x_ptr", 20), ("load", "y_ptr", 21), ("store", "z_ptr", 22))
    ]  # fmt: skip
    load, store = launch.accesses[3], launch.accesses[5]
    assert (load.offsets, load.mask, load.outside, load.shape) == ([4, 5, 6, 7], [True, True, False, False], [], (4,))
    assert (load.values[:2], store.values[:2]) == ([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize(("fill", "shown"), [(0, "tensor([0., 0.])"), (browser.POISON, "tensor([nan, nan])")])
def test_fresh_memory_is_filled(model, fill, shown):
    browser.reset(fill=fill)
    import torch

    assert repr(torch.empty(2)) == shown


def test_programs_run_in_order_or_in_a_random_one(model):
    names = model("@triton.jit\ndef kernel(p):\n    seen.append(int(tl.program_id(0)) * 10 + int(tl.program_id(1)))\n")
    import torch

    names["seen"] = seen = []
    names["kernel"][(3, 2)](torch.zeros(1))
    assert seen == [0, 1, 10, 11, 20, 21]
    SETTINGS.seed = 1
    names["kernel"][(3, 2)](torch.zeros(1))
    assert seen[6:] != seen[:6] and sorted(seen[6:]) == seen[:6]


LAUNCHES = [
    ("kernel[(1,)](x)", TypeError, "missing 1 required positional argument: 'n'"),
    ("kernel[(1,)](x, 1, wrong=2)", KeyError, "Keyword argument wrong was specified but unrecognised"),
    ("kernel[(1,)](x, 1, 2, 3)", TypeError, "takes 2 positional arguments but 4 were given"),
    ("kernel(x, 1)", RuntimeError, "Cannot call @triton.jit'd outside of the scope of a kernel"),
    ("kernel[(1, 1, 1, 1)](x, 1)", AssertionError, "grid must have at most 3 dimensions"),
]
BODIES = [
    ("tl.arange(0, 6)", "arange's range must be a power of 2"),
    ("tl.arange(0, n)", "arange's arguments must be of type tl.constexpr"),
    ("tl.zeros((3,), tl.float32)", "Shape element 0 must be a power of 2"),
    ("tl.arange(0, 4) + tl.arange(0, 8)", "Cannot make_shape_compatible: incompatible dimensions at index 0: 4 and 8"),
    ("x + 1.0", "invalid operands of type pointer<fp32> and triton.language.float32"),
    ("tl.load(n)", "Unsupported ptr type triton.language.int32 in `tl.load`"),
    ("tl.load(x, other=0)", "`other` cannot be provided without `mask`"),
    ("tl.exp(n)", "Expected dtype ['fp32', 'fp64'] but got int32"),
    ("tl.program_id(3)", "program_id axis must be 0, 1, or 2 but got 3"),
    ("tl.arange(0, 4)[0]", "unsupported tensor index: 0"),
    ("n.to(tl.uint32) + (-1)", "unsigned tensor and a negative scalar"),
    ("tl.static_assert(1 == 2, 'never')", "never"),
]


@pytest.mark.parametrize(("call", "error", "message"), LAUNCHES)
def test_a_wrong_launch_is_refused_in_tritons_words(model, call, error, message):
    names = model("@triton.jit\ndef kernel(x, n):\n    tl.store(x, n)\n")
    import torch

    with pytest.raises(error, match=message.replace("(", r"\(")):
        eval(call, names | {"x": torch.zeros(1)})


@pytest.mark.parametrize(("code", "message"), BODIES)
def test_a_wrong_kernel_is_refused_in_tritons_words(model, code, message):
    names = model(f"@triton.jit\ndef kernel(x, n):\n    y = {code}\n")
    import torch

    with pytest.raises(Exception) as caught:
        names["kernel"][(1,)](torch.zeros(1), 6)
    assert message in str(caught.value.__cause__)


def test_a_tuner_takes_its_configs(model):
    names = model("@triton.autotune([triton.Config({'B': 2}), triton.Config({'B': 4})], key=['n'])\n@triton.jit\n"
                  "def kernel(x, n, B: tl.constexpr):\n    tl.store(x + tl.arange(0, B), B)\n")  # fmt: skip
    import torch

    taken = []
    for SETTINGS.configs in ("first", "in turn", "in turn"):
        x = torch.zeros(4)
        names["kernel"][lambda meta: (1,)](x, 4)
        taken.append(x.tolist())
    SETTINGS.configs = "first"
    assert taken == [[2, 2, 0, 0], [4, 4, 4, 4], [2, 2, 0, 0]]


def test_an_unchanged_text_runs_alone_in_any_python():
    """As in the browser, where torch, Triton and NumPy are not: by exec, with the text known to nobody else."""
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    code += "import browser; browser.install()\n"
    code += f"text = {(ROOT / 'snippets/start/first_kernel.py').read_text('utf-8')!r}\n"
    code += (
        "exec(compile(text, 'first_kernel.py', 'exec'), {'__name__': '__main__'}); assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
                          capture_output=True, text=True, timeout=HANGS)  # fmt: skip
    assert (done.stdout, done.stderr) == ("[0, 101, 202, 303, 404, 505, 606, 707, 808, 909]\n", "")


@pytest.mark.speed
@pytest.mark.parametrize(("what", "limit"), [("add", 0.15), ("dot", 0.1)])
def test_it_is_quick_enough_to_wait_for(model, what, limit):
    if what == "add":
        function, size = model(ADD, "add.py")["add"], 100_000
    else:
        text = ("@triton.jit\ndef kernel(a, b, c):\n    i = tl.arange(0, 64)\n"
                               "    at = i[:, None] * 64 + i[None, :]\n"
                               "    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), None, 'ieee'))\n"
                               "def product(a, b):\n    kernel[(1,)](a, b, torch.empty(64, 64))\n")  # fmt: skip
        function, size = model(text)["product"], 4096
    import torch

    x = torch.tensor([random.random() for _ in range(size)])
    with paced() as pace:
        function(x, x)
    assert pace.seconds < limit, f"{pace.seconds:.3f} s"


PRINTED = [
    "torch.tensor([11.0, 22, 33])", "torch.tensor([1.5, -2.25, 1000])", "torch.arange(6).reshape(2, 3)",
    "torch.zeros(0)",
    "torch.tensor([True, False])", "torch.tensor(3.0)", "torch.tensor([1e-6, 1.0])", "torch.tensor([[1.0], [2.5]])",
    "torch.tensor([1, 2], dtype=torch.int8)", "torch.tensor([1.0]).half()", "torch.tensor([float('nan'), 1.0])",
    "torch.tensor([float('inf'), -1.5])", "torch.arange(30)", "torch.zeros(2, 2, 2)", "torch.tensor([1e10, 1.0])",
    "torch.ones(2, 3).shape", "torch.float32", "torch.zeros(2, 0)", "torch.tensor([-0.0, 1e9])", "torch.arange(40.0)",
    "torch.tensor([1], dtype=torch.bfloat16)", "torch.ones(3).T.stride()", "torch.tensor([123456.0, 0.5])",
]  # fmt: skip


@pytest.mark.parametrize("code", PRINTED)
def test_tensors_are_printed_as_torch_prints_them(code):
    import torch

    wanted = repr(eval(code, {"torch": torch}))
    with browser.installed():
        import torch as ours

        assert repr(eval(code, {"torch": ours})) == wanted


def test_a_text_may_change_under_the_same_name(model):
    import torch

    text = "@triton.jit\ndef kernel(out):\n    two = {number}\n    tl.store(out, two)\n"
    for number in (2.0, 3.0):
        out = torch.empty(1)
        model(text.format(number=number))["kernel"][(1,)](out)
        assert out.item() == number


def test_a_script_that_has_run_is_not_the_main_module_afterward():
    """A process that this one starts by multiprocessing would look for its file."""
    before = sys.modules["__main__"]
    with browser.installed():
        browser.load("x = 1", "exercise.py", "__main__")
    assert sys.modules["__main__"] is before
