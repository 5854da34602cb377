# SPDX-License-Identifier: Apache-2.0
"""The coach reads a file before it says something about a name, a line or a dtype."""

import ast
import textwrap

import pytest
from coach import mistakes, source
from coach.exercise import exercises

FILE = """\
import torch, triton
import triton.language as tl

@triton.jit
def helper(x):
    return x + 1

@triton.jit
def kernel(x_ptr, out_ptr, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    # gap 1: the work
    offsets = tl.arange(0, BLOCK)
    if n > 3:
        late = 1
    rows = offests + late + place(offsets) + zeros((4,), tl.int32)
    mask = (offsets < n) and (offsets > 0)
    x = tl.load(x_ptr + offsets, mask=mask)
    total = tl.zeros((4,), DTYPE)
    for step in range(3):
        total += x.to(tl.float16)
    # end of gap 1
    tl.store(out_ptr + offsets, share, mask=offsets < n)

def host(x):
    out = torch.empty_like(x)
    grid = x.numel() / BLOCK
    kernel[(grid,)](x, result, 4, DTYPE=tl.float16, BLOCK=4)
    return cdiv(out, tl.cdiv(4, 2))
"""
NAMES = {
    "offests": "`offests` is neither a parameter of kernel nor set in it. Is it `offsets`?",
    "late": "Line 13 sets `late` in an `if` or a loop, after which it is unknown: set it before, too.",
    "place": "`place` is defined nowhere in this file.",
    "zeros": "Is it `tl.zeros`?",
    "share": "Line 21, after the gap, uses `share`, so the gap must set it.",
    "BLOCK": "",  # of the kernel, where it is a parameter
    "result": "`result` is not set in host; it has x, out, grid. Is it a name from the lesson?",
    "cdiv": "Is it `triton.cdiv`?",
}


@pytest.fixture
def file(tmp_path):
    def write(text=FILE):
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.mark.parametrize("name", [name for name, message in NAMES.items() if message])
def test_a_name_that_is_not_defined(name, file):
    assert source.about_name(file(), name).startswith(NAMES[name])


def test_a_parameter_has_no_value_outside_of_its_kernel(file):
    line = FILE.splitlines().index("    grid = x.numel() / BLOCK") + 1
    assert source.about_name(file(), "BLOCK", line).startswith("Outside the kernel, its parameters have no value.")


def test_a_module_that_is_not_imported(file):
    text = "import triton\ndef host(n):\n    return math.ceil(n / 2)\n"
    assert source.about_name(file(text), "math", 3) == "`math` is not imported in this file."


def test_a_name_that_is_set_later(file):
    text = "import triton\n@triton.jit\ndef kernel(x_ptr):\n    y = x + 1\n    x = 2\n"
    assert source.about_name(file(text), "x") == "Line 4 uses `x`, but line 5, after it, is the first to set it."


def test_a_name_that_begins_with_nothing(file):
    text = "import triton\n@triton.jit\ndef kernel(n):\n    for i in range(n):\n        total = total + i\n"
    message = "Line 5 uses `total`, which no line before it sets. Which value does it have before the loop?"
    assert source.about_name(file(text), "total") == message
    text = "import triton\n@triton.jit\ndef kernel(n):\n    mask = mask & 1\n"
    assert source.about_name(file(text), "mask").startswith("Line 4 uses `mask`, which no line before it sets.")


def test_a_return_is_a_fault_in_what_is_launched_only():
    assert source.returns_a_value(FILE) == ""  # helper is called, not launched
    returns = FILE.replace("    # end of gap 1\n", "    # end of gap 1\n    return total\n")
    assert source.returns_a_value(returns).startswith(
        "Line 21: a kernel returns nothing; it stores. Remove this line: "
    )
    assert source.returns_a_value(FILE.replace("    late = 1", "    return")) == ""
    assert source.returns_a_value("no python") == ""


def test_what_a_loop_adds_up(file):
    path, line = file(), FILE.splitlines().index("        total += x.to(tl.float16)") + 1
    for passed, dtype in (("fp16", "float16"), ("fp32", "float32"), (None, "")):
        assert source.sums(path, "kernel", {"DTYPE": passed}) == [("total", dtype, "DTYPE", 17, line)]
    path = file(FILE.replace("total += x.to(tl.float16)", "total = (total + x).to(tl.float16)"))
    assert source.sums(path, "kernel", {})[0][-1] == 0  # the sum is rounded, not what is added
    assert source.narrow(path, "kernel", {}, "float16") and not source.narrow(path, "kernel", {}, "bfloat16")
    assert source.begins_as(path, "total") == "`total` begins as DTYPE, for which line 26 passes tl.float16"


def test_a_mask_of_python(file):
    assert source.joined_masks(file(), 16) == ("and", 15)
    assert source.joined_masks(file(), 21) is None
    assert source.names_in_mask(file(), 21) == {"offsets", "n"}


def test_two_stores(file):
    assert source.two_stores(file(), 12, 21).endswith(
        "Line 21, after the gap, is the exercise's own store, so leave yours out."
    )
    assert source.two_stores(file(), 12, 13).endswith("Which of the two should store it?")


def test_the_host_function(file):
    path = file()
    assert source.divides(path, 26) and not source.divides(path, 11)
    assert source.grid_of(path, 26) == "grid" and source.grid_of(path, 25) == ""
    assert source.tl_outside(path, 27) == "cdiv" and source.tl_outside(path, 11) == ""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("tl.max(a, tl.max(x))", "`tl.max` reduces one block; the larger of two is `tl.maximum(a, b)`."),
        ("tl.max(x, 0)", ""),
        ("x_ptr[i]", "`x_ptr` is an address."),
        ("x[i]", ""),
    ],
)
def test_a_node_of_a_kernel(code, message, file):
    assert mistakes.about_error("no", file(), 0, ast.parse(code).body[0].value).startswith(message or "")
    assert bool(mistakes.about_error("no", file(), 0, ast.parse(code).body[0].value)) == bool(message)


def test_a_loop_that_changes_the_shape_or_the_dtype():
    message = "Loop-carried variable a has initial type {} but is re-assigned to {} in loop!"
    shapes = {
        ("fp32", "<['8'], fp32>"): "`a` begins as one number, and becomes a block of 8. ",
        ("<['8'], fp32>", "fp32"): "`a` begins as a block of 8, and becomes one number. ",
        ("<['8'], fp16>", "<['8'], fp32>"): "A block keeps its dtype through a loop",
        ("int32", "fp32"): "A block keeps its dtype through a loop",
    }
    for (before, after), tip in shapes.items():
        assert mistakes.about_error(message.format(before, after)).startswith(tip)


LAUNCH = """\
import torch, triton
import triton.language as tl

def plain(x):
    return x

@triton.jit
def kernel(x_ptr, y_ptr, n, stride_row, stride_column, stride_y, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride_row
    at = tl.arange(0, BLOCK)
    places = x_ptr + at
    for start in range(0, n, BLOCK):
        x = tl.load(places + start, mask=at < n - start)
        tl.store(y_ptr + at * stride_y, x)

def host(x: torch.Tensor):
    rows, n = x.shape
    y = torch.empty_like(x[0])
    strides = *x.stride(), y.stride(0)
    kernel[(rows,)](ARGUMENTS)
"""
LINE = LAUNCH.splitlines().index("    kernel[(rows,)](ARGUMENTS)") + 1


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ("x, y, n, *strides, BLOCK=4", {"stride_row": 0, "stride_column": 1}),
        ("x, y, n, *x.stride(), y.stride(0), BLOCK=4", {"stride_row": 0, "stride_column": 1}),
        ("x, y, n, x.stride(1), x.stride(-2), 1, BLOCK=4", {"stride_row": 1, "stride_column": -2}),
        ("x, y, n, x.stride(0), x.stride(-n), 1, BLOCK=4", {"stride_row": 0}),
        ("x, y, n, stride_row=x.stride(0), stride_column=1, stride_y=1, BLOCK=4", {"stride_row": 0}),
        ("x, *y.stride(), *x.stride(), BLOCK=4", {}),  # how many y has is not known
    ],
)
def test_which_parameters_get_strides_of_a_tensor(arguments, passed, file):
    assert source.strides_passed(file(LAUNCH.replace("ARGUMENTS", arguments)), LINE, "x", {"x": 2}) == passed


def test_what_an_access_uses(file):
    path = file(LAUNCH)
    used = source.used_by(path, 13)
    assert {"x_ptr", "at", "places", "start", "n", "stride_row", "BLOCK"} <= used
    assert "stride_column" not in used and "stride_y" not in used
    assert "stride_y" in source.used_by(path, 14)
    assert source.used_by(path, 9) is None  # neither a load nor a store


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        ("x, y, n, strides, BLOCK=4", "stride_y", "`strides` is a tuple and counts as one argument: `*strid"),
        ("x, y, n, x.stride(), BLOCK=4", "stride_y", "`x.stride()` is a tuple and counts as one argument"),
        ("x, y, n, 5, 1, BLOCK=4", "stride_y", "Line 21 passes 5 arguments by position, and BLOCK by name. Where is "),
        ("x, n, 5, 1, 1, BLOCK=4", "stride_y", "`n`, a number, is passed as y_ptr."),
        ("x, x.stride(0), 5, 1, 1, BLOCK=4", "stride_y", "`x.stride(0)`, a stride, is passed as y_ptr."),
        ("x, y, *x.stride(), 1, BLOCK=4", "stride_y", "kernel takes x_ptr, y_ptr, n, stride_row"),
        ("y, n, x, 5, 1, BLOCK=4", "stride_y", "`n`, a number, is passed as y_ptr."),
        ("y, x, x, 5, 1, BLOCK=4", "stride_y", "`x`, a tensor, is passed as n."),
        ("x, y, n, x.stride(0), 1, 1", "BLOCK", "passes 6 arguments by position. Where is BLOCK?"),
        ("x, y, n, 5, 1, BLOCK=4", "other", "Does the launch pass every argument of the kernel, in its order?"),
    ],
)
def test_a_launch_with_too_few_arguments(arguments, missing, message, file):
    path = file("\n" + LAUNCH.replace("ARGUMENTS", arguments))
    error = f"TypeError: dynamic_func() missing 1 required positional argument: '{missing}'"
    tip = mistakes.about_error(f"{error} {error}", path, LINE + 1)
    assert message in tip and "tuner" not in tip


def test_a_tuner_is_spoken_of_where_there_is_one(file):
    text = LAUNCH.replace("ARGUMENTS", "x, y, n, *strides").replace("@triton", "@triton.autotune([], [])\n@triton")
    error = "missing 1 required positional argument: 'BLOCK'"
    assert mistakes.about_error(error, file(text), LINE + 1).endswith("Or do all of the tuner's configs set the rest?")


def test_a_number_that_a_dictionary_holds(file):
    dictionaries = {
        '{"BLOCK": 4}': 'Here it is `tile["BLOCK"]`.',
        '{"BLOCK": 4} if rows else {"BLOCK": 8}': 'Here it is `tile["BLOCK"]`.',
        '{"BLOCK": 4} if rows else {}': "Which number does the launch pass for this one",
        "{**of_another}": "Which number does the launch pass for this one",
    }
    for written, message in dictionaries.items():
        text = LAUNCH.replace("    kernel[(rows,)](ARGUMENTS)", f"    tile = {written}\n    rows = BLOCK")
        assert message in source.about_name(file(text), "BLOCK", LINE + 1)


def test_the_shape_of_a_block(file):
    text = LAUNCH.replace("    at = tl", "    total = tl.zeros((n, rows, BLOCK), tl.float32)\n    at = tl")
    path, node = file(text), ast.parse("tl.zeros((n, rows, BLOCK), tl.float32)").body[0].value
    assert mistakes.about_error("Shape element 0 must have type `constexpr[int]`", path, 0, node) == (
        "A block's shape is made of constants, and `n` is known only at the launch. The constant of kernel is BLOCK."
    )
    message = mistakes.about_error("'int' object is not iterable", path, 0, node)
    assert "`tl.zeros((…, …), dtype=tl.float32)`" in message and message.endswith("The constant of kernel is BLOCK.")
    other = ast.parse("list(n)").body[0].value
    assert "shape" not in mistakes.about_error("'int' object is not iterable", path, 0, other)
    assert mistakes.about_error("Shape element 0 must have type `constexpr`") == "A block's shape is made of constants."


def test_two_branches_of_an_if():
    message = "Mismatched type for y between then block ({}) and else block ({})"
    same = "if not, but both must have the same"
    for kinds, tip in {
        ("int32", "fp32"): f"`y` is int32 if the condition holds and float32 {same} dtype. A",
        ("fp16", "fp32"): f"`y` is float16 if the condition holds and float32 {same} dtype.",
        ("<['8'], fp32>", "fp32"): f"`y` is a block of 8 if the condition holds and one number {same} shape.",
        ("<['8'], int64>", "<['8'], fp32>"): f"`y` is int64 if the condition holds and float32 {same} dtype.",
    }.items():
        explained = mistakes.about_error(message.format(*kinds))
        assert explained.startswith(tip) and explained.endswith("`0`.") == ("int" in "".join(kinds))


def test_two_shapes():
    tip = "Two blocks have different shapes, 4 elements and 4 × 16: is a `[:, None]` or `[None, :]` missing?"
    assert mistakes.about_error("operands could not be broadcast together with shapes (4,) (4,16)") == tip
    assert mistakes.about_error("Cannot make_shape_compatible: incompatible dimensions\nshapes [4] and [4, 16]") == tip
    without = "Two blocks have different shapes: is a `[:, None]` or `[None, :]` missing?"
    assert mistakes.about_error("Cannot make_shape_compatible: incompatible dimensions at index 0: 4 and 16") == without


def test_what_triton_does_not_have():
    message = "AttributeError(\"module 'triton.language' has no attribute '{}'\")"
    assert mistakes.about_error(message.format("relu")) == "`tl` has no `relu`. It is `tl.maximum(x, 0.0)`."
    assert mistakes.about_error(message.format("frobnicate")).startswith("`tl` has no such function.")


def test_a_function_of_the_file_that_is_no_kernel(file):
    message = "RuntimeError: Unsupported function referenced: <function {} at 0x7f>"
    path = file(LAUNCH)
    tip = "A kernel calls `plain`, which therefore needs `@triton.jit`, too."
    assert mistakes.about_error(message.format("plain"), path) == tip
    assert "use the functions of `tl`" in mistakes.about_error(message.format("other"), path)


def test_no_file_no_sentence(tmp_path):
    path = str(tmp_path / "gone.py")
    assert source.read(path) is None
    assert source.about_name(path, "x") == source.grid_of(path, 1) == source.begins_as(path, "x") == ""
    assert source.two_stores(path, 1, 2) == "Line 1 has already stored it. Which of the two should store it?"


def test_arguments_in_each_others_places_are_known_by_their_names(file):
    text = FILE.replace("kernel[(grid,)](x, result, 4", "n = 4\n    kernel[(grid,)](n, x, out")
    line = text[: text.index("kernel[(grid,)]")].count("\n") + 1
    passed = [("x_ptr", "n"), ("out_ptr", "x"), ("n", "out")]
    assert source.exchanged(file(text), line) == source.exchanged(file(text), 16) == (line, passed)
    assert source.exchanged(file(text.replace("(n, x, out", "(x, out, n")), line) == (0, [])
    assert source.exchanged(file(text.replace("(n, x, out", "(*x, x, out")), line) == (0, [])


@pytest.mark.parametrize("exercise", exercises(), ids=lambda each: each.name)
def test_a_solution_passes_each_argument_in_its_place(exercise):
    path = str(exercise.folder / "solution.py")
    assert {source.exchanged(path, line)[0] for line in range(1, 1 + exercise.solution.count("\n"))} == {0}
