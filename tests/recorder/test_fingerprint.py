# SPDX-License-Identifier: Apache-2.0
"""Tell changes of a snippet that count from those that do not, and find its lines again after one."""

import msgspec
import pytest

from recorder import fingerprint, source
from recorder import project as places
from recorder.project import RecorderError
from tests.toy import made

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
    """It may be a name, a module's attribute, passed on by another file, or used by a function."""
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
    """It matters even if nothing else of the file is reached, and through a file between."""
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


# What a fingerprint could miss: each is a snippet, a file that it may import, and a change of either

USES = "from snippets.programs.other import f\nprint(f())\n"
F = "def f():\n    return X\n"
SEEN = {
    # docstrings that are read
    "doc of the file": ('"""One."""\nprint(__doc__)\n', "", "One", "Two"),
    "doc for argparse": (
        '"""One."""\nimport argparse\nargparse.ArgumentParser(description=__doc__)\n',
        "",
        "One",
        "Two",
    ),
    "doc of a function": ('def g():\n    """One."""\nprint(g.__doc__)\n', "", "One", "Two"),
    "doc by getdoc": ('import inspect\ndef g():\n    """One."""\nprint(inspect.getdoc(g))\n', "", "One", "Two"),
    "doc by getattr": ('def g():\n    """One."""\nprint(getattr(g, "__doc__"))\n', "", "One", "Two"),
    "doc by help": ('class G:\n    def m(self):\n        """One."""\nhelp(G)\n', "", "One", "Two"),
    "doc of an imported function": (
        "from snippets.programs.other import f\nprint(f.__doc__)\n",
        'def f():\n    """One."""\n',
        "One",
        "Two",
    ),
    "doc read elsewhere": (
        'from snippets.programs.other import tell\ndef g():\n    """One."""\ntell(g)\n',
        "def tell(g):\n    print(g.__doc__)\n",
        "One",
        "Two",
    ),
    "doc of an imported file": (
        "from snippets.programs import other\nprint(other.__doc__)\n",
        '"""One."""\n',
        "One",
        "Two",
    ),
    "doc that is tested": ('import doctest\ndef g():\n    """>>> 1"""\ndoctest.testmod()\n', "", ">>> 1", ">>> 2"),
    "doc of a benchmark": (
        'import triton\n@triton.testing.perf_report(B)\ndef g(n):\n    """One."""\n',
        "",
        "One",
        "Two",
    ),
    "doc of a benchmark by a call": (
        'import triton\ndef g(n):\n    """One."""\nmark = triton.testing.perf_report(B)(g)\n',
        "",
        "One",
        "Two",
    ),
    # source text, and where it stands
    "source of a function": (
        "import inspect\ndef g():\n    pass  # one\nprint(inspect.getsource(g))\n",
        "",
        "# one",
        "# two",
    ),
    "source of an imported one": (
        "import inspect\nfrom snippets.programs.other import f\nprint(inspect.getsource(f))\n",
        "def f():\n    pass  # one\n",
        "# one",
        "# two",
    ),
    "the file itself": ("# one\nprint(open(__file__).read())\n", "", "# one", "# two"),
    "the file itself by a helper": (
        "from snippets.programs.other import f\n# one\nf(__file__)\n",
        "from pathlib import Path\ndef f(p):\n    return Path(p).read_text()\n",
        "# one",
        "# two",
    ),
    "a command that prints it": ('import subprocess\n# one\nsubprocess.run(["cat", __file__])\n', "", "# one", "# two"),
    "a line in a traceback": (
        "import traceback\n# one\ndef g():\n    traceback.print_stack()\ng()\n",
        "",
        "# one\n",
        "",
    ),
    "the line of a function": ("# one\ndef g():\n    pass\nprint(g.__code__.co_firstlineno)\n", "", "# one\n", ""),
    "the line of a frame": ("import sys\n# one\nprint(sys._getframe().f_lineno)\n", "", "# one\n", ""),
    # what an imported file runs
    "two statements swapped": (
        USES,
        f"L = []\nL.append(1)\nL.append(2)\nX = tuple(L)\n{F}",
        "L.append(1)\nL.append(2)",
        "L.append(2)\nL.append(1)",
    ),
    "a statement doubled": (
        USES,
        f"L = []\nL.append(1)\nX = tuple(L)\n{F}",
        "L.append(1)\n",
        "L.append(1)\nL.append(1)\n",
    ),
    "an assignment before and after": (USES, f"X = 1\nX = 2\n{F}", "X = 1\nX = 2", "X = 2\nX = 1"),
    "what is read before and after a change": (
        USES,
        f"L = [1]\nX = len(L)\nL.append(2)\n{F}",
        "X = len(L)\nL.append(2)",
        "L.append(2)\nX = len(L)",
    ),
    "a definition of the same name": (USES, "def f():\n    return 1\ndef f():\n    return 2\n", "return 1", "return 3"),
    "definitions of one name, swapped": (
        "def g():\n    return 1\ndef g():\n    return 2\nprint(g())\n",
        "",
        "1\ndef g():\n    return 2",
        "2\ndef g():\n    return 1",
    ),
    "a registration by a decorator": (
        USES,
        f"X = {{}}\ndef add(g):\n    X[g.__name__] = g\n    return g\n@add\ndef a():\n    return 1\n{F}",
        "return 1",
        "return 2",
    ),
    "the order of registrations": (
        "X = []\n@X.append\ndef a():\n    return 1\n@X.append\ndef b():\n    return 2\nprint(X[0]())\n",
        "",
        "a():\n    return 1\n@X.append\ndef b():\n    return 2",
        "b():\n    return 2\n@X.append\ndef a():\n    return 1",
    ),
    "a class decorator": (USES, f"X = []\n@X.append\nclass A:\n    n = 1\n{F}", "n = 1", "n = 2"),
    "a subclass that its base counts": (
        USES,
        f"X = []\nclass B:\n    def __init_subclass__(cls):\n        X.append(cls)\nclass A(B):\n    n = 1\n{F}",
        "n = 1",
        "n = 2",
    ),
    "a metaclass": (
        USES,
        "X = []\nclass M(type):\n    def __init__(cls, *a):\n        X.append(cls)\n"
        f"class A(metaclass=M):\n    n = 1\n{F}",
        "n = 1",
        "n = 2",
    ),
    "subclasses by the language": (
        USES,
        "class B:\n    pass\nclass A(B):\n    n = 1\ndef f():\n    return B.__subclasses__()\n",
        "n = 1",
        "n = 2",
    ),
    "a default that acts": (USES, f"X = []\ndef a(n=X.append(1)):\n    pass\n{F}", "append(1)", "append(2)"),
    "an annotation that acts": (USES, f"X = []\ndef a(n: X.append(1)):\n    pass\n{F}", "append(1)", "append(2)"),
    "an assignment that acts": (USES, f"X = []\n_ = X.append(1)\n{F}", "append(1)", "append(2)"),
    "a loop": (USES, f"X = 0\nfor i in range(3):\n    X += i\n{F}", "range(3)", "range(4)"),
    "an attribute that is set": (USES, f"class X:\n    pass\nsetattr(X, 'n', 1)\n{F}", "'n', 1", "'n', 2"),
    "another file's attribute": (
        "from snippets.programs import other, third\nprint(third.g())\n",
        "from snippets.programs import third\nthird.LIMIT = 1\n",
        "LIMIT = 1",
        "LIMIT = 2",
    ),
    "a library's attribute": (USES, "import torch\ntorch.relu = 1\nX = 1\n" + F, "relu = 1", "relu = 2"),
    "an import that acts": (USES, f"import torchvision\nX = 1\n{F}", "import torchvision\n", ""),
    "what runs unless it is main": (
        USES,
        f"X = [0]\nif __name__ != '__main__':\n    X[0] = 1\n{F}",
        "X[0] = 1",
        "X[0] = 2",
    ),
    "what runs else": (
        USES,
        f"X = [0]\nif __name__ == '__main__':\n    pass\nelse:\n    X[0] = 1\n{F}",
        "X[0] = 1",
        "X[0] = 2",
    ),
    "annotations that stay text": (
        USES,
        f"from __future__ import annotations\nX = 1\n{F}",
        "from __future__ import annotations\n",
        "",
    ),
    # names that are worked out
    "globals": (USES, "A = 1\ndef f():\n    return globals()['A']\n", "A = 1", "A = 2"),
    "vars": (USES, "A = 1\ndef f():\n    return eval('A')\n", "A = 1", "A = 2"),
    "the order of globals": (
        "def a():\n    pass\ndef b():\n    pass\nprint(list(globals()))\n",
        "",
        "def a():\n    pass\ndef b()",
        "def b():\n    pass\ndef a()",
    ),
    "the globals of a function": (
        "from snippets.programs.other import f\nprint(f.__globals__['A'])\n",
        "A = 1\ndef f():\n    pass\n",
        "A = 1",
        "A = 2",
    ),
    "a module's __getattr__": (
        "from snippets.programs import other\nprint(other.any)\n",
        "def __getattr__(name):\n    return 1\n",
        "return 1",
        "return 2",
    ),
    "a name brought by __getattr__": (
        "from snippets.programs.other import any_\nprint(any_)\n",
        "def __getattr__(name):\n    return 1\n",
        "return 1",
        "return 2",
    ),
    "a module's __dict__": (
        "from snippets.programs import other\nprint(other.__dict__)\n",
        "A = 1\n",
        "A = 1",
        "A = 2",
    ),
    "sys.modules": (
        "import sys\nfrom snippets.programs.other import f\nprint(sys.modules[f.__module__].A)\n",
        "A = 1\ndef f():\n    pass\n",
        "A = 1",
        "A = 2",
    ),
    # which of two
    "an import that depends": (
        "try:\n    from snippets.programs.other import LIMIT\nexcept ImportError:\n    "
        "from snippets.programs.third import LIMIT\nprint(LIMIT)\n",
        "LIMIT = 1\n",
        "LIMIT = 1",
        "LIMIT = 2",
    ),
    "which constant belongs to whom": (
        "from snippets.programs.third import g\nfrom snippets.programs.other import f\nprint(f(), g())\n",
        "LIMIT = 1\ndef f():\n    return LIMIT\n",
        "LIMIT = 1",
        "LIMIT = 0",
    ),
    # files
    "a file that a string names": (
        "import runpy, subprocess, sys\nsubprocess.run([sys.executable, 'snippets/programs/other.py'])\n",
        "print(1)\n",
        "print(1)",
        "print(2)",
    ),
    "code in a string": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'from snippets.programs import other'])\n",
        "print(1)\n",
        "print(1)",
        "print(2)",
    ),
    "a module that a string names": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'snippets.programs.other'])\n",
        "print(1)\n",
        "print(1)",
        "print(2)",
    ),
    "a patch by name": (
        "from unittest import mock\nfrom snippets.programs.third import g\n"
        "with mock.patch('snippets.programs.third.g', 'snippets.programs.other.f'):\n    g()\n",
        "def f():\n    return 1\n",
        "return 1",
        "return 2",
    ),
    "a name in two parts": (
        "import subprocess, sys\nname = 'other'\nsubprocess.run([sys.executable, '-m', f'snippets.programs.{name}'])\n",
        "print(1)\n",
        "print(1)",
        "print(2)",
    ),
}


def seen(project, main, second):
    other(project, second)
    other(project, "LIMIT = 0\n\n\ndef g():\n    return LIMIT\n", "third")
    return of(project, main, "h200")


@pytest.mark.parametrize(("main", "second", "old", "new"), SEEN.values(), ids=SEEN)
def test_a_change_that_shows_in_what_runs_is_seen(project, main, second, old, new):
    assert (old in main) + (old in second) == 1
    assert seen(project, main, second) != seen(project, main.replace(old, new), second.replace(old, new))


def test_which_file_a_definition_is_in_matters_where_another_has_one_of_its_name(project):
    """Swapping two constants leaves the same set of definitions."""
    other(project, "X = 1\ndef f():\n    return X\n")
    other(project, "X = 2\ndef g():\n    return X\n", "third")
    uses = "from snippets.programs.other import f\nfrom snippets.programs.third import g\nprint(f(), g())\n"
    first = of(project, uses)
    other(project, "X = 2\ndef f():\n    return X\n")
    other(project, "X = 1\ndef g():\n    return X\n", "third")
    assert of(project, uses) != first


def test_line_numbers_matter_where_a_recording_shows_them(project):
    """A comment above a kernel moves the line that a message of the GPU names."""
    it = project.snippet("it", "# one\ndef kernel():\n    assert False\n")
    say = lambda output: msgspec.structs.replace(made("h200"), output=output, compiled=[])
    messages = [
        "it.py:3: Assertion failed",
        'File "it.py", line 3, in kernel',
        "at line 3",
        "CompilationError: at 2:4:",
    ]
    before = [fingerprint.of(it, "h200", say(message)) for message in ["right", *messages]]
    it = project.snippet("it", "# one\n# more\ndef kernel():\n    assert False\n")
    after = [fingerprint.of(it, "h200", say(message)) for message in ["right", *messages]]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, False, False, False]


def test_a_file_that_code_reads_by_name_matters(project):
    text = "print(open('docs/en/a.csv').read())\n"
    project.write("docs/en/a.csv", "one = 1\n")
    first = of(project, text, "h200")
    project.write("docs/en/a.csv", "one = 2\n")
    assert of(project, text, "h200") != first


@pytest.mark.parametrize("room", ["recorder", "figures", "render", "practice", "tests"])
def test_a_snippet_imports_nothing_of_ours_but_snippets(project, room):
    project.write(f"{room}/part.py", "")
    with pytest.raises(RecorderError, match=f"it.py:1: {room} is of ours, {room}/"):
        of(project, f"from {room} import part\n")


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
    "from importlib import import_module as load": "what it loads by name",
    "import importlib\nload = importlib.import_module": "what it loads by name",
    "import importlib\ngetattr(importlib, 'import_module')('snippets.programs.other')": "what it loads by name",
    "import pkgutil": "what it loads by name",
    "import importlib\nimportlib.reload(importlib)": "what it loads by name",
    "from importlib.machinery import SourceFileLoader": "what it loads by name",
    "import sys\nsys.path.insert(0, 'programs')": "a change of sys.path",
    "import sys as s\ns.path += ['programs']": "a change of sys.path",
    "from sys import path": "a change of sys.path",
    "import site\nsite.addsitedir('programs')": "what it loads by name",
    "import other": "other is of ours, snippets/programs/other.py",
    "from other import f": "other is of ours, snippets/programs/other.py",
    "exec('import other')": "other is of ours, snippets/programs/other.py",
    "exec('from ' + __name__ + ' import f')": "what it loads by name",
    "from tests import other": "tests is of ours",
    "from pathlib import Path\nhere = Path(__file__).parent": "the files that it looks for beside its own",
    "import os\nopen(os.path.join(os.path.dirname(__file__), 'other.py'))": "the files that it looks for beside",
    "name = 'f'\nopen(f'snippets/{name}')": "what it loads by name",
    "import glob\nglob.glob('snippets/**')": "what it loads by name",
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


def test_the_pin_of_a_package_matters_where_it_is_imported(project):
    """The import may be in a function, the pin in a file that requirements.txt names; pip calls `PIL` otherwise."""
    texts = [SOURCE, "def f():\n    from numba import cuda\nf()\n", "import PIL.Image\n"]
    project.write("requirements.txt", "-r others.txt\nnumba==0.68.1\n")
    project.write("others.txt", "pillow==13.0.0 ; python_version > '3'\n")
    first = [of(project, text) for text in texts]
    project.write("requirements.txt", "-r others.txt\nnumba==0.68.2\n")
    assert [of(project, text) != old for text, old in zip(texts, first, strict=True)] == [False, True, False]
    project.write("others.txt", "pillow==13.0.1 ; python_version > '3'\n")
    assert of(project, texts[2]) != first[2]


@pytest.mark.parametrize(
    "settings, touched",
    [
        ("compiled = true", True),
        ("stages = [{launch = 'toy_kernel[0]'}]", True),
        ("launches = ['toy_kernel[0]']", False),
        ("compiles_only = true", True),
        ('compiles_only = true\ntriton = ["3.8.0"]', False),  # it compares versions
    ],
)
def test_the_compiler_matters_to_what_it_compiles_only(project, monkeypatch, settings, touched):
    it = project.snippet("it", SOURCE, f"[it]\n{settings}\n")
    devices = ("cpu", "cpu-triton-3.8.0", "h200")
    before = [fingerprint.of(it, device) for device in devices]
    for module in (fingerprint, places):
        monkeypatch.setattr(module, "COMPILER", "9.9.9")
    changed = [fingerprint.of(it, device) != old for device, old in zip(devices, before, strict=True)]
    assert changed == [touched, False, False]


def test_the_spelling_is_the_same_on_every_python(project):
    """``ast.dump`` differs among versions of Python; this text shows one that spells trees differently."""
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
    places = source.places(it, "kernel")
    assert all(source.line_of(it, "kernel", place) == line for line, place in places.items())
    # Written out: the parts of an f-string, which Python's versions place apart, have no number.
    assert places == {1: 0, 2: 2, 3: 3, 6: 4, 5: 9, 4: 14, 7: 17}
