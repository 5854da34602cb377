# SPDX-License-Identifier: Apache-2.0
"""What counts as a change of a snippet, and what does not."""

import ast
import hashlib

import pytest

from recorder import fingerprint

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
    return fingerprint.of(project.snippet("it", text).path, device)


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
    assert fingerprint.same_code(SOURCE, SOURCE.replace(old, new))


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
    ],
)
def test_every_change_of_the_code_matters(project, old, new):
    assert old in SOURCE
    assert of(project, SOURCE) != of(project, SOURCE.replace(old, new))
    assert not fingerprint.same_code(SOURCE, SOURCE.replace(old, new))


IMPORTS = ["from snippets.programs.other import f", "import snippets.programs.other"]
IMPORTS += ["from snippets.programs import other"]


@pytest.mark.parametrize("line", IMPORTS)
def test_an_imported_snippet_matters(project, line):
    project.write("snippets/programs/other.py", "from snippets.programs.third import g\n\n\ndef f():\n    return g()\n")
    project.write("snippets/programs/third.py", "def g():\n    return 1\n")
    first = of(project, f"{line}\n")
    project.write("snippets/programs/third.py", "def g():\n    # a comment\n    return 1\n")
    assert of(project, f"{line}\n") == first
    project.write("snippets/programs/third.py", "def g():\n    return 2\n")
    assert of(project, f"{line}\n") != first


def test_snippets_that_import_each_other(project):
    project.write("snippets/programs/other.py", "import snippets.programs.it\n")
    path = project.snippet("it", "import snippets.programs.other\n").path
    assert [p.name for p in fingerprint.local_modules(path)] == ["it.py", "other.py"]


def test_pins_matter_to_the_interpreter_only(project):
    cpu, gpu = of(project, SOURCE), of(project, SOURCE, "h200")
    assert cpu != gpu
    project.write("requirements.txt", "torch==2.14.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\nruff==1\n")
    assert of(project, SOURCE) != cpu
    assert of(project, SOURCE, "h200") == gpu
    project.write("requirements.txt", "ruff==2\ntorch==2.13.0\ntriton==3.7.1; sys_platform == 'linux'\nnumpy==2.4.6\n")
    assert of(project, SOURCE) == cpu


def test_the_spelling_is_the_same_on_every_python(project):
    """Written out here, so that a Python that spells trees in another way shows (``ast.dump`` differs among them)."""
    source = "def f(x, *, y=None):\n    '''Doc.'''\n    return x[0], f'{y!r}'\n"
    spelled = fingerprint._spell(fingerprint.syntax_tree(source))
    assert spelled == (
        "Module(body=[FunctionDef(name='f', args=arguments(args=[arg(arg='x')], kwonlyargs=[arg(arg='y')], "
        "kw_defaults=[Constant()]), body=[Return(value=Tuple(elts=[Subscript(value=Name(id='x', ctx=Load()), "
        "slice=Constant(value=0), ctx=Load()), JoinedStr(values=[FormattedValue(value=Name(id='y', ctx=Load()), "
        "conversion=114)])], ctx=Load()))])])"
    )
    expected = hashlib.sha256(f"snippets/programs/it.py: {fingerprint._spell(ast.parse('x = 1'))}".encode()).hexdigest()
    assert of(project, "x = 1  # one\n", "h200") == expected
    assert expected == "f818454638e9548282a1afc5d161247177341eb53e78c0044ebfde5b315b0e8f"


def test_lines_that_moved():
    new = SOURCE.replace('"""What it is."""', '"""What it is,\n\nat length."""').replace("    # as a sum\n", "")
    moved = fingerprint.line_map(SOURCE, new)
    old_lines, new_lines = SOURCE.splitlines(), new.splitlines()
    assert {old: old_lines[old - 1] for old in moved} == {old: new_lines[new - 1] for old, new in moved.items()}
    assert {2: 4, 5: 7, 8: 9, 11: 12}.items() <= moved.items()


def test_lines_of_other_code_are_refused():
    with pytest.raises(ValueError):
        fingerprint.line_map("x = 1\n", "x = 1\ny = 2\n")
