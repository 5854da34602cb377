# SPDX-License-Identifier: Apache-2.0
"""A note's file runs where nothing else of this project is: that is how people copy it.

What lessons offer is run so by tests/site/test_downloads.py.
"""

import shutil
from pathlib import Path

import pytest
from guards import environment

from tests.processes import run_python

FOLDER = Path(__file__).parents[3] / "snippets/matmul"
# An editable install of this project is found by an import hook, and perhaps by a path.
WITHOUT = """
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in getattr(finder, "__module__", "")]
sys.path[:] = ["", *(path for path in sys.path if "site-packages" in path or "/lib/python" in path or ".zip" in path)]
sys.path_importer_cache.clear()
from importlib.util import find_spec
assert find_spec("snippets") is None, find_spec("snippets")
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("name", ["fp8", "split_k"])
def test_runs_alone(name, tmp_path):
    shutil.copy(FOLDER / f"{name}.py", tmp_path)
    env = {name: value for name, value in environment("cpu").items() if name != "PYTHONPATH"}
    done = run_python("-c", WITHOUT, tmp_path / f"{name}.py", env=env, cwd=tmp_path)
    assert done.returncode == 0 and "##" in done.stdout, done.stderr
