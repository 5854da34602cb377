# SPDX-License-Identifier: Apache-2.0
"""What a page says of beginners' mistakes: Triton's words, the line, and what to do instead."""

import json

import pytest

from tests.modeled import in_browser

HEAD = "import math\nimport torch\nimport triton\nimport triton.language as tl\n\n"
KERNEL = """
{before}

@triton.jit
def kernel({given}):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    {code}
    tl.store(out_ptr + offs, x)


x, out = torch.arange(8.0), torch.zeros(8)
{launch}
"""
LINE = 13  # of the code
LAUNCH = "kernel[(1,)](x, out, 5, BLOCK=8)"
IN_KERNELS = [
    ("tl.laod(x_ptr)", "module 'triton.language' has no attribute 'laod'. Did you mean: 'load'?"),
    ("tl.aranje(0, 8)", "Did you mean: 'arange'?"),
    ("x.to(tl.flaot16)", "Did you mean: 'float16'?"),
    ("y = tl.where(x > 0, x, -inf)", "name 'inf' is not defined", 'as in `-float("inf")`'),
    ("y = tl.num_programs()", "missing", "`tl.num_programs(axis=0)`"),
    ("tl.mean(x)", "no attribute 'mean'\n`tl` has no `mean`. It is `tl.sum` divided by"),
    ("tl.load(x_ptr + offs, msk=offs < n)", "unexpected keyword argument 'msk'. Did you mean: 'mask'?"),
    ("y = x + offset", "name 'offset' is not defined. Did you mean: 'offs'?"),
    ("x_ptr[offs]", "unsupported tensor index: <[8], int32> of pointer<fp32>\n", "tl.load(x_ptr + offsets, mask=mask)"),
    ("x_ptr[0]", "unsupported tensor index: 0 of pointer<fp32>\n", "tl.load(x_ptr + offsets"),
    ("x_ptr[0] = 1.0", "__setitem__ is not supported in triton\n", "`x_ptr` is an address."),
    ("x[0]", "unsupported tensor index: 0\n", "can't pick an element"),
    ("x[offs]", "unsupported tensor index: <[8], int32>\n", "can't pick an element"),
    ("x_ptr.shape[0]", "list index out of range", "pass the tensor's sizes"),
    ("for v in x: pass", "cannot be iterated over\n", "all lanes of a block at once"),
    ("for i in range(n): y = x[i]", "unsupported tensor index: 0"),
    ("for i in range(n / 2): pass", "bounds and step must all be ints, are (int32, fp32, int32)\n", "`//`"),
    ("for i in range(offs): pass", "For upper bound must be a scalar, got <[8], int32>"),
    ("torch.add(x, x)", "Unsupported function referenced: torch.add\n", "use the functions of `tl`"),
    ("torch.zeros(8)", "Unsupported function referenced: torch.zeros\n", "use the functions of `tl`"),
    ("math.exp(x)", "must be a string or a real number, not 'tensor'\n", "`tl.exp`, not `math.exp`"),
    ("np.exp(x)", "name 'np' is not defined\n", "use the functions of `tl`: `tl.exp`, not `np.exp`."),
    ("x.to(torch.float16)", "'torch.dtype' object has no attribute", "not `torch.float32`"),
    ("float(x)", "float() argument must be a string or a real number, not 'tensor'\n", "`x.to(tl.float32)`"),
    ("int(x)", "int() argument must be a string", "`x.to(tl.float32)`"),
    ("len(x)", "object of type 'tensor' has no len()\n", "such as `n`"),
    ("sum(x)", "sum is not defined\n", "`tl.sum(x, axis=0)`"),
    ("abs(x)", "abs is not defined\n", "`tl.abs(x)`"),
    ("max(x)", "requires at least 2 values\n", "`tl.max(x, axis=0)`"),
    ("if x > 0: x = x + 1", "Boolean value of Tensor with more than one value is ambiguous\n", "`tl.where`"),
    ("y = x if x > 0 else 0.0", "ambiguous\n", "`tl.where`"),
    ("y = 0 < x < 3", "simultaneous multiple comparison is not supported\n", "`(0 <= x) & (x < n)`"),
    ("while n > 0: break", "unsupported AST node type: Break\n", "no `break`"),
    ("f = lambda v: v", "unsupported AST node type: Lambda\n", "a part of Python"),
    ("import math", "unsupported AST node type: Import\n", "at the top of the file"),
    ("y = [tl.load(x_ptr + i) for i in range(4)]", "only tuple comprehensions are supported\n"),
    ("y = z = x", "Multiple assignments are not supported\n", "one name a line"),
    ("y = x ** 2", "** or pow()", "multiply it by itself"),
    ("y = x @ x", "'MatMult'", "tl.dot"),
    ("helper(x)", "Unsupported function referenced: <function helper>\n", "`@triton.jit`"),
    ("x * FACTOR", "Cannot access global variable FACTOR from within @jit'ed function", "so pass it"),
    ("triton.cdiv(n, 4)", "`triton.cdiv` is `tl.cdiv`"),
    ("tl.load(n)", "Unsupported ptr type triton.language.int32 in `tl.load`\n", "a pointer plus offsets?"),
    ("tl.load(x)", "Unsupported ptr type <[8], fp32> in `tl.load`\n", "a pointer plus offsets?"),
    ("tl.load(x_ptr, offs)", "Mask argument cannot be block type", "Did you add the offsets"),
    ("tl.store(x, out_ptr + offs)", "Unsupported ptr type <[8], fp32> in `tl.store`\n", "pointer comes first"),
    ("tl.store(out_ptr + offs, x_ptr + offs)", "cannot cast", "Is there a `tl.load` around it?"),
    ("tl.store(out_ptr + offs)", "missing 1 required positional argument: 'value'\n", "`tl.store(pointer, value"),
    ("tl.store(out_ptr + offs, x, mask=x)", "Mask must have boolean scalar type\n", "`offsets < n`"),
    ("tl.store(out_ptr + offs, tl.arange(0, 4))", "at index 0: 8 and 4\n", "8 elements and 4 elements"),
    ("tl.load(x_ptr + offs, mask=tl.arange(0, 4) < 2)", "at index 0: 8 and 4\n", "8 elements and 4 elements"),
    ("tl.store(out_ptr + offs[:, None], x[None, :])", "shape [8, 8] but got [8, 1]\n", "both axes"),
    ("x + tl.arange(0, 4)", "at index 0: 8 and 4\n", "8 elements and 4 elements: is a `[:, None]`"),
    ("tl.load(x_ptr + offs / 2)", "invalid operands of type pointer<fp32>", "divide them by `//`"),
    ("x_ptr + out_ptr", "cannot add pointers together\n", "`tl.load` around it"),
    ("tl.dot(x, x)", "must have equal ranks >= 2\n", "tl.sum(a * b)"),
    ("tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((32, 16), tl.float32))", "equal reduction dimensions\n"),
    ("tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float16))", "same dtype. Got fp32 and fp16\n"),
    ("tl.exp(offs)", "Expected dtype ['fp32', 'fp64'] but got int32\n", "`x.to(tl.float32)`"),
    ("tl.max(x, n)", "axis [5] out of bounds", "`tl.maximum(a, b)`"),
    ("tl.zeros((n,), tl.float32)", "got `constexpr[<class 'triton.language.core.tensor'>]\n",
     "and `n` is known only at the launch. The constant of kernel is BLOCK."),
    ("tl.zeros((8,))", "missing 1 required positional argument: 'dtype'\n", "a shape and a dtype"),
    ("tl.program_id()", "missing 1 required positional argument: 'axis'\n", "axis=0"),
    ("tl.where(x > 0, x)", "missing 1 required positional argument: 'y'\n", "a value for each case"),
    ("tl.device_print(x)", "is not string\n", "a text"),
    ("x = tl.max(x, x)", "out of bounds for shape", "`tl.maximum(a, b)`"),
    ("kernel(x_ptr, out_ptr, n, BLOCK)", "RecursionError", "cannot call itself"),
    ("if n > 9: y = x\n    x = y", "cannot access local variable 'y'", "Line 14 sets `y` in an `if`"),
    ("t = 0.0\n    for i in range(3): t += x", "Loop-carried variable t has initial type fp32 but is re-assigned to "
     "<[8], fp32> in loop!", "`t` begins as one number, and becomes a block of 8."),
    ("t = tl.zeros((8,), tl.float16)\n    for i in range(3): t += x", "<[8], fp16> but is re-assigned to <[8], fp32>"),
]  # fmt: skip


def said(text: str) -> tuple[str, str]:
    """Return what a page says of a text, and the line that it shows."""
    with in_browser():
        from browser import page

        error = json.loads(page.run(text))["error"]
    parts = error.split("\n")
    return "\n".join(part for part in parts if not part.startswith("    ")), next(
        (part.strip() for part in parts if part.startswith("    ")), ""
    )


def of_kernel(code="pass", launch=LAUNCH, given="x_ptr, out_ptr, n, BLOCK: tl.constexpr", before=""):
    return HEAD + KERNEL.format(code=code, launch=launch, given=given, before=before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("code", "wanted"), [(code, wanted) for code, *wanted in IN_KERNELS],
                         ids=[code for code, *_ in IN_KERNELS])  # fmt: skip
def test_a_mistake_in_a_kernel_is_named_with_its_line(code, wanted):
    error, line = said(of_kernel(code, before="FACTOR = 2.0\ndef helper(v): return v"))
    for part in wanted:
        assert part in error + "\n"
    number = int(line.split(":")[0])
    assert number in range(LINE, LINE + code.count("\n") + 2) or code.startswith("kernel(")


LAUNCHES = [
    ("kernel[(1,)](x, out, x.numel, BLOCK=8)", "failed to specialize argument of type: method\n", "`x.numel()`"),
    ("kernel[(1,)](x, out, x.stride[0], BLOCK=8)", "'method' object is not subscriptable", "`x.stride(0)`"),
    ("n = x.shape\nkernel[(n + 7,)](x, out, 5, BLOCK=8)", "concatenate tuple", "`n = x.numel()`"),
    ("kernel(x, out, 5, BLOCK=8)", "outside of the scope of a kernel\n", "kernel[(programs,)](…)"),
    ("kernel[1](x, out, 5, BLOCK=8)", "object of type 'int' has no len()\n", "a tuple of numbers"),
    ("kernel[8 / 4](x, out, 5, BLOCK=8)", "object of type 'float' has no len()\n", "a tuple of numbers"),
    ("kernel[lambda meta: 2](x, out, 5, BLOCK=8)", "object of type 'int' has no len()\n", "a tuple of numbers"),
    ("kernel[(8 / 4,)](x, out, 5, BLOCK=8)", "'float' object cannot be interpreted as an integer\n", "triton.cdiv"),
    ("kernel[(1,)]([1.0], out, 5, BLOCK=8)", "failed to specialize argument of type: list\n", "`torch.tensor(…)`"),
    ("kernel[(1,)](x, out, '5', BLOCK=8)", "failed to specialize argument of type: str"),
    ("kernel[(1,)](x, out, 5, BLOCK=6)", "arange's range must be a power of 2\n", "next_power_of_2"),
    ("kernel[(1,)](x, out, 5, BLOCK=8.0)", "of type tl.constexpr, and whole numbers"),
    ("kernel[(1,)](x, out, 5)", "missing 1 required positional argument: 'BLOCK'\n", "Where is BLOCK?"),
    ("n = 5\nkernel[(1,)](n, x, out, BLOCK=8)", "ptr type",
     "passes `n` as x_ptr, `x` as out_ptr and `out` as n."),
    ("kernel[(1,)](x, out, 5, 8, 9)", "takes 4 positional arguments but 5 were given\n", "more arguments"),
    ("kernel[(1,)](x, out, 5, 8, BLOCK=8)", "multiple values for argument 'BLOCK'\n", "by position and by name"),
    ("kernel[(1,)](x, out, 5, BLOK=8)", "BLOK was specified but unrecognised. Did you mean: 'BLOCK'?"),
    ("kernel[(1,)](x, out, 5, BLOCK=8, num_wraps=8)", "unrecognised. Did you mean: 'num_warps'?"),
    ("kernel[(1,)](x, out, 5, BLOCK=8, num_warps=64)", "64 are 2048 threads"),
    ("tl.cdiv(5, 4)", "outside of the scope of a kernel: tl.cdiv\n", "it is `triton.cdiv`"),
    ("tl.arange(0, 4)", "outside of the scope of a kernel: tl.arange\n", "only inside a kernel"),
    ("torch.zeroes(3)", "module 'torch' has no attribute 'zeroes'. Did you mean: 'zeros'?"),
    ("torch.nn.functional.gleu(x)", "Did you mean: 'gelu'?"),
    ("triton.cdvi(3, 4)", "module 'triton' has no attribute 'cdvi'. Did you mean: 'cdiv'?"),
    ("x.resahpe(2, 4)", "'Tensor' object has no attribute 'resahpe'. Did you mean: 'reshape'?"),
    ("torch.einsum('i', x)", "torch.einsum is not modeled in the browser"),
    ("torch.asin(x)", "torch.asin is not modeled in the browser"),
    ("torch.gelu(x)", "module 'torch' has no attribute 'gelu'"),
    ("x.trace()", "torch.Tensor.trace is not modeled in the browser"),
    ("x.cuda()", "not compiled with CUDA enabled\n", "`device=x.device`"),
    ("def f(n): return f(n)\nf(0)", "RecursionError", "calls itself"),
    ("def f(a):\n    if a: y = 1\n    return y\nf(0)", "local variable 'y'", "Line 19 sets `y` in an `if`"),
    ("x = = 3", "invalid syntax, on line 18:"),
    ("for i in range(3):\nprint(i)", "expected an indented block"),
]  # fmt: skip


@pytest.mark.parametrize(("launch", "wanted"), [(launch, wanted) for launch, *wanted in LAUNCHES],
                         ids=[launch for launch, *_ in LAUNCHES])  # fmt: skip
def test_a_mistake_outside_of_kernels_is_named(launch, wanted):
    error, _ = said(of_kernel(launch=launch))
    for part in wanted:
        assert part in error + "\n"


def test_a_text_that_python_cannot_read_is_named_with_its_line():
    error, line = said("import torch\ndef f():\nprint(1)")
    assert error == "IndentationError: expected an indented block after function definition on line 2, on line 3:"
    assert line == "print(1)"


def test_a_block_without_constexpr_is_asked_for_it():
    error, _ = said(of_kernel(given="x_ptr, out_ptr, n, BLOCK"))
    assert "must be of type tl.constexpr\n" in error and "marked `tl.constexpr`?" in error


WARNED = [
    ("mask = (offs < n) and (x > 1)", "Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please "
     "use '&' or '|' instead"),
    ("mask = (offs < n) or (x > 1)", "please use '&' or '|' instead"),
    ("x = max(x, 0.0)", "builtin max on non-scalar tensor values is deprecated, use tl.maximum instead"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "wanted"), WARNED)
def test_what_the_compiler_warns_of_is_said_in_its_line(code, wanted, capsys):
    assert said(of_kernel(code))[0] == ""
    printed = capsys.readouterr().out
    assert printed.startswith(f"Line {LINE}: ") and wanted in printed


def test_a_kernel_that_gives_an_argument_another_value_is_told_that_no_tensor_changes(capsys):
    text = of_kernel("out_ptr = x * 2").replace("    tl.store(out_ptr + offs, x)\n", "")
    assert said(text)[0] == ""
    assert "no tensor changes: to write to it, use tl.store(out_ptr + offsets" in capsys.readouterr().out


BRANCHES = """
    if tl.program_id(0) == 0:
        t = 0
    else:
        t = 1.0
"""


def test_a_name_has_one_type_whichever_branch_is_taken():
    error, _ = said(of_kernel(BRANCHES.strip(), launch="kernel[(2,)](x, out, 5, BLOCK=8)"))
    assert "Mismatched type for t between then block (int32) and else block (fp32)" in error


REUSED = """
    for i in range(3):
        t = tl.sum(x)
    for i in range(3):
        t = x
    for i in tl.static_range(2):
        t = offs * 1.0
"""


def test_a_name_that_only_a_loop_has_may_begin_anew_in_another_one():
    assert said(of_kernel(REUSED.strip()))[0] == ""


def test_what_torch_has_and_the_model_has_not_is_never_called_misspelt():
    import torch
    import triton

    for real, name in ((torch, "torch"), (torch.nn.functional, "torch.nn.functional"), (triton, "triton")):
        names = [each for each in dir(real) if not each.startswith("_")]
        with in_browser():
            import importlib

            model = importlib.import_module(name)
            for each in names:
                if each not in vars(model):
                    with pytest.raises(NotImplementedError, match="not modeled"):
                        getattr(model, each)
    names = [each for each in dir(torch.Tensor) if not each.startswith("_")]
    with in_browser():
        import torch as model

        x = model.zeros(1)
        for each in names:
            if not hasattr(model.Tensor, each) and not hasattr(x, each):
                with pytest.raises(NotImplementedError, match="not modeled"):
                    getattr(x, each)
