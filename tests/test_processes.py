# SPDX-License-Identifier: Apache-2.0
"""What is forked is as a new Python: it has the Triton of its environment, and nothing of this project."""

import json
import os

import pytest

from tests.processes import PRELOADED, run_code, run_python

pytest.importorskip("triton")
KERNEL = """
import json, sys
had = sorted(sys.modules)
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, tl.sum(tl.arange(0, 4), 0))

hashed = triton.runtime.cache.triton_key.cache_info().currsize
print(json.dumps([had, type(kernel).__name__, type(tl.sum).__name__, hashed]))
"""


@pytest.mark.parametrize("kind", PRELOADED)
def test_what_is_imported_already(kind, tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if kind == "site":
        (tmp_path / "code.py").write_text(KERNEL)
        done = run_python("-m", "code", env=env, cwd=tmp_path)
    else:
        done = run_code(KERNEL, env=env | {"TRITON_INTERPRET": "1"} if kind == "interpreted" else env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    had, *found = json.loads(done.stdout)
    assert not {*PRELOADED[kind]} - {*had}, "renamed, or never asked for"
    function = "InterpretedFunction" if kind == "interpreted" else "JITFunction"
    assert found == [function, function, kind == "compiled"]
    ours = {name for name in had if name.split(".")[0] in ("snippets", "recorder", "figures", "render", "practice")}
    assert not ours


def test_output_and_exit_status(tmp_path):
    code = "import sys; print(len(sys.argv), __name__); print(__file__, file=sys.stderr); sys.exit({})"
    for status, shown in (("3", 3), ("None", 0), ("'why'", 1)):
        done = run_code(code.format(status), env=dict(os.environ), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (shown, "1 __main__\n")
        assert "code.py" in done.stderr and ("why" in done.stderr) == (shown == 1)
