# SPDX-License-Identifier: Apache-2.0
"""Under `-m gpu`, doctests and the fences of pages run, too, with their tensors on the GPU, here a made-up one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GPU = """\
import torch
from tests import compiled
torch.cuda.is_available = lambda: True
compiled.DEVICE = "meta"  # a device that every torch has
"""
DOCTESTS = {
    "on_the_gpu": ">>> str(torch.ones(1).device), str(torch.ones(1, device=\"cpu\").device)\n    ('meta', 'meta')",
    "printed": ">>> print(\"tensor([1.], device='cuda:0', dtype=x)\")\n    tensor([1.], dtype=x)",
    "compiled": ">>> os.environ.get('TRITON_' 'INTERPRET')",
    "wrong": ">>> 1\n    2",
    "recorded": ">>> recorded_accesses = 0",
    "in_order": ">>> 1  # the interpreter runs one after the other\n    1",
    "drawn": ">>> _ = torch.Generator()",
    "race_bug": ">>> 1\n    1",
}
PAGE = """\
```python
import os, torch
assert str(torch.ones(1).device) == str(torch.ones(1, device="cpu").device) == "meta"
assert "TRITON_" "INTERPRET" not in os.environ
```

```python
assert False
```

```python
from elsewhere import recorded_accesses
```
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What pytest says under `-m gpu` of a module with these doctests and of this page."""
    folder = tmp_path_factory.mktemp("gpu")
    functions = [f'def {name}():\n    r"""\n    {text}\n    """\n' for name, text in DOCTESTS.items()]
    (folder / "doctests.py").write_text("import os\nimport torch\n\n\n" + "\n\n".join(functions))
    (folder / "page.md").write_text(PAGE)
    (folder / "made_up_gpu.py").write_text(GPU)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules\n")
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "TRITON_INTERPRET": "1"}
    plugins = ["-p", "made_up_gpu", "-p", "conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-rA", *plugins, "doctests.py", "page.md"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout


def test_they_run_on_the_gpu(said):
    for name in ("on_the_gpu", "printed", "compiled"):
        assert f"PASSED doctests.py::doctests.{name}" in said, said
    assert "PASSED page.md::[CodeFence#1]" in said, said


def test_they_can_fail(said):
    assert "FAILED doctests.py::doctests.wrong" in said and "FAILED page.md::[CodeFence#2]" in said, said


def test_what_needs_the_interpreter_stays_out(said):
    assert "2 failed, 4 passed, 5 deselected" in said, said
