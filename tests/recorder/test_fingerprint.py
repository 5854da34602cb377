# SPDX-License-Identifier: Apache-2.0
"""What counts as a change of a snippet, and what does not; and where its lines stand after one."""

import pytest

from recorder import fingerprint, source
from recorder.project import RecorderError

SOURCE = '''\
"""What it is."""
import torch


def double(x):
    """Twice x."""
    # as a sum
    return x + x


print(double(1))
'''


def of(project, text, device="cpu"):
    return fingerprint.of(project.snippet("it", text), device)


def other(project, text, name="other"):
    project.write(f"snippets/programs/{name}.py", text)


@pytest.mark.parametrize(
    "old, new",
    [
        ("# as a sum", "# as another sum, in a longer comment"),
        ("    # as a sum\n", ""),
        ('"""What it is."""', '"""What it was,\n\nin a paragraph more."""'),
        ('    """Twice x."""\n', ""),
        ("x + x", "(x\n            + x)"),
        ("import torch", "import torch  # noqa"),
    ],
)
def test_what_only_people_read_does_not_matter(project, old, new):
    assert old in SOURCE
    assert of(project, SOURCE) == of(project, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    "old, new",
    [
        ("x + x", "x - x"),
        ("x + x", "x + y"),
        ("double(1)", "double(1.0)"),
        ("double(1)", "double(True)"),
        ("double(1)", "double(None)"),
        ("double(1)", "double('1')"),
        ("def double(x):", "def double(x, y=None):"),
        ("def double(x):", "@torch.no_grad()\ndef double(x):"),
        ("print(double(1))", "print(double(1)); print('''a string that is no docstring''')"),
        ("import torch", "import torch as t"),
        ("print(double(1))", "print(2)\nprint(double(1))"),
    ],
)
def test_every_change_of_the_code_matters(project, old, new):
    assert old in SOURCE
    assert of(project, SOURCE) != of(project, SOURCE.replace(old, new))


def test_the_order_of_what_runs_matters(project):
    assert of(project, "a = 1\na = 2\n") != of(project, "a = 2\na = 1\n")


# What other files of ours have a part in


def test_a_definition_is_followed_wherever_it_is_imported_from(project):
    """Through a name, a module's attribute, another file that only passes it on, and a function that uses it."""
    other(project, "from snippets.programs.third import g\n\n\ndef f():\n    return g()\n")
    ways = ["from snippets.programs.other import f\nf()\n", "from snippets.programs import other\nother.f()\n"]
    ways += ["from snippets.programs.other import g\ng()\n", "import snippets.programs.other as o\nprint(o.f)\n"]
    ways += ["def h():\n    from snippets.programs.other import f as k\n    return k()\n"]
    other(project, "def g():\n    return 1\n", "third")
    first = [of(project, way) for way in ways]
    other(project, "def g():\n    # a comment\n    return 1\n", "third")
    assert [of(project, way) for way in ways] == first
    other(project, "def g():\n    return 2\n", "third")
    assert not set(first) & {of(project, way) for way in ways}


@pytest.mark.parametrize("used", ["LIMIT = 2\n", "from math import tau as LIMIT\n", "class LIMIT:\n    x = 2\n"])
def test_what_a_definition_uses_in_its_file_matters(project, used):
    uses = "def f():\n    return LIMIT\n"
    other(project, f"LIMIT = 1\n{uses}")
    first = of(project, "from snippets.programs.other import f\nf()\n")
    other(project, f"{used}{uses}")
    assert of(project, "from snippets.programs.other import f\nf()\n") != first


def test_what_is_not_reached_does_not_matter(project):
    text = "from snippets.programs.other import f\nf()\n"
    other(project, "def f():\n    return 1\n")
    first = of(project, text)
    other(project, "import torch\nX = 2\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return X\n\n\n"
                   'if __name__ == "__main__":\n    g()\n')  # fmt: skip
    assert of(project, text) == first


def test_what_an_import_runs_matters(project):
    """Also where nothing else of the file is reached, and through a file between."""
    text = "from snippets.programs.other import f\nf()\n"
    other(project, "def g():\n    return 1\n", "third")
    other(project, "from snippets.programs.third import g\n\n\ndef f():\n    return 1\n\n\ndef h():\n    g()\n")
    first = of(project, text)
    other(project, "def g():\n    return 2\n", "third")
    assert of(project, text) == first
    other(project, "def g():\n    return 2\n\n\nprint('imported')\n", "third")
    assert of(project, text) != first


def test_moving_a_definition_changes_nothing(project):
    f = "def f(x):\n    return g(x) + 1\n\n\n"
    g = "def g(x):\n    return 2 * x\n\n\n"
    whole = of(project, f"{f}{g}print(f(1))\n")
    assert of(project, f"{g}{f}print(f(1))\n") == whole
    other(project, g)
    assert of(project, f"from snippets.programs.other import g\n\n\n{f}print(f(1))\n") == whole
    other(project, "", "third")
    other(project, f"from snippets.programs.third import g\n\n\n{f}")
    other(project, g, "third")
    assert of(project, "from snippets.programs.other import f\n\nprint(f(1))\n") == whole


def test_snippets_that_import_each_other(project):
    other(project, "from snippets.programs.it import g\n\n\ndef f():\n    return g()\n")
    it = project.snippet("it", "from snippets.programs.other import f\n\n\ndef g():\n    return f\n\n\ng()\n")
    assert fingerprint.of(it) and [path.name for path in source.imports(it.path)] == ["it.py", "other.py"]


REFUSED = {
    "from . import other": "a relative import is not followed",
    "from .other import f": "a relative import is not followed",
    "from snippets.programs.other import *": "name what it uses",
    "import snippets.programs.other": "name what it uses",
    "from snippets.programs import othre": "there is no file of ours for snippets.programs.othre",
    "import importlib\nimportlib.import_module('snippets.programs.other')": "what it loads by name",
    "import importlib\nname = 'x'\nimportlib.import_module(name)": "what it loads by name",
    "__import__('snippets.programs.other')": "what it loads by name",
    "import runpy\nrunpy.run_path('snippets/programs/other.py')": "what it loads by name",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_cannot_be_followed_is_refused(project, text, why):
    other(project, "def f():\n    return 1\n")
    line = text.count("\n") + 1
    with pytest.raises(RecorderError, match=f"^snippets/programs/it.py:{line}: {why}"):
        of(project, f"{text}\n")


def test_what_is_not_ours_is_not_followed(project):
    assert of(project, "from math import *\nimport numpy.linalg\n__import__('importlib').import_module('torch')\n")


def test_pins_matter_to_the_interpreter_only(project):
    cpu, gpu = of(project, SOURCE), of(project, SOURCE, "h200")
    assert cpu != gpu
    project.write("requirements.txt", "torch==2.14.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\nruff==1\n")
    assert of(project, SOURCE) != cpu
    assert of(project, SOURCE, "h200") == gpu
    project.write("requirements.txt", "ruff==2\ntorch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\n")
    assert of(project, SOURCE) == cpu


@pytest.mark.parametrize("settings", ["compiled = true", "stages = [{launch = 0}]", "launches = [0]"])
def test_the_compiler_matters_to_what_it_compiles_only(project, monkeypatch, settings):
    it = project.snippet("it", SOURCE, f"[it]\n{settings}\n")
    devices = ("cpu", "cpu-triton-3.8.0", "h200")
    before = [fingerprint.of(it, device) for device in devices]
    monkeypatch.setattr(fingerprint, "COMPILER", "9.9.9")
    changed = [fingerprint.of(it, device) != old for device, old in zip(devices, before, strict=True)]
    assert changed == [settings != "launches = [0]", False, False]


def test_the_spelling_is_the_same_on_every_python(project):
    """Written out here, so that a Python that spells trees in another way shows (``ast.dump`` differs among them)."""
    text = "def f(x, *, y=None):\n    '''Doc.'''\n    return x[0], f'{y!r}'\n"
    assert source.spell(source.syntax_tree(text)) == (
        "Module(body=[FunctionDef(name='f', args=arguments(args=[arg(arg='x')], kwonlyargs=[arg(arg='y')], "
        "kw_defaults=[Constant()]), body=[Return(value=Tuple(elts=[Subscript(value=Name(id='x', ctx=Load()), "
        "slice=Constant(value=0), ctx=Load()), JoinedStr(values=[FormattedValue(value=Name(id='y', ctx=Load()), "
        "conversion=114)])], ctx=Load()))])])"
    )


# Where a line stands


def test_a_place_is_found_again_wherever_comments_move_it(project):
    it = project.snippet("it", SOURCE).path
    line = SOURCE.splitlines().index("    return x + x") + 1
    place = source.places(it, "double")[line]
    moved = SOURCE.replace("What it is.", "What it is,\n\nat length.").replace("    # as a sum\n", "#\n" * 3)
    project.snippet("it", moved)
    assert source.line_of(it, "double", place) == moved.splitlines().index("    return x + x") + 1
    assert source.line_of(it, "double", None) == 0


def test_a_place_of_another_function_names_it(project):
    it = project.snippet("it", "def helper(x):\n    return x\n\n\ndef kernel(x):\n    return helper(x)\n").path
    assert source.places(it, "kernel")[2].startswith("helper.") and isinstance(source.places(it, "kernel")[6], int)
    assert source.line_of(it, "kernel", source.places(it, "kernel")[2]) == 2
    assert source.line_of(it, "kernel", "helper.999") == source.line_of(it, "kernel", "gone.0") == 0


def test_the_lines_of_a_function(project):
    it = project.snippet("it", "import triton\n\n\n@triton.jit\ndef kernel(x):\n    return (\n        x\n    )\n").path
    assert source.lines_of(it, "kernel") == range(4, 9)
    with pytest.raises(RecorderError, match=r"no function 'kernal'.*kernel"):
        source.lines_of(it, "kernal")


def test_every_line_of_code_has_a_place_that_is_that_line(project):
    text = "def kernel(x, y):\n    a = f'{x:.2f}'\n    if (x\n    > y):\n        return a\n    return x[\n    0]\n"
    it = project.snippet("it", text).path
    found = source.places(it, "kernel")
    assert all(source.line_of(it, "kernel", place) == line for line, place in found.items())
    # Written out: the parts of an f-string, which Python's versions place apart, have no number.
    assert found == {1: 0, 2: 2, 3: 3, 6: 4, 5: 9, 4: 14, 7: 17}
