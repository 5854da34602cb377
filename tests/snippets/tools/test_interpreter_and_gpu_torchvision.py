# SPDX-License-Identifier: Apache-2.0
"""Each case is run in a process of its own, and says what went wrong; torchvision is stood in for where it is not."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from guards import environment

from snippets.tools import interpreter_and_gpu_torchvision as snippet
from tests.processes import run_script


def gray(picture):
    red, green, blue = picture.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).to(picture.dtype).unsqueeze(-3)


def use(monkeypatch, *, gray=gray, kept=(0, 2), decode=lambda x: x):
    functional = SimpleNamespace(rgb_to_grayscale=gray)
    modules = {
        "torchvision": SimpleNamespace(__path__=[]),
        "torchvision.io": SimpleNamespace(encode_png=lambda x: x, decode_png=decode),
        "torchvision.ops": SimpleNamespace(nms=lambda *_: torch.tensor(kept)),
        "torchvision.transforms": SimpleNamespace(functional=functional, v2=SimpleNamespace(functional=functional)),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("order", ["import first", "kernel first"])
def test_what_is_right_is_said_to_be(monkeypatch, capsys, device, order):
    use(monkeypatch)
    snippet.one_case(order, device)
    assert capsys.readouterr().out.splitlines() == [
        "functional: right", "v2: right", "nms: right", "PNG, there and back: right",
    ]  # fmt: skip


def test_what_is_wrong_is_said_to_be(monkeypatch, capsys, device):
    use(monkeypatch, gray=lambda x: gray(x) + 2, kept=(0, 1, 2), decode=lambda x: x + 1)
    snippet.one_case("kernel first", device)
    functional, v2, nms, png = capsys.readouterr().out.splitlines()
    assert functional.startswith("functional: differs by ") and v2.startswith("v2: differs by ")
    assert (nms, png) == ("nms: [0, 1, 2]", "PNG, there and back: differs")


def test_an_error_is_a_line(monkeypatch, tmp_path):
    failing = tmp_path / "failing.py"
    said = "' '.join([*sys.argv[1:], os.environ['TRITON_INTERPRET']])"
    failing.write_text(f"import os, sys\nprint('begun')\nraise SystemExit({said})")
    monkeypatch.setattr(snippet, "__file__", str(failing))
    assert snippet.found("1", "kernel first") == ["begun", "error: kernel first cpu 1"]
    assert snippet.found("0", "import first") == ["begun", "error: import first cuda 0"]


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_all_cases(capsys):
    pytest.importorskip("torchvision", exc_type=ImportError)
    snippet.main()
    assert capsys.readouterr().out.count(": right") == 4 * len(snippet.CASES)
