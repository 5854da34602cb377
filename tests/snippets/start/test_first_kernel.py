# SPDX-License-Identifier: Apache-2.0
"""The script of the home page: it adds, touches nothing beyond its tensors, and runs as it is shown."""

import re
import textwrap
from pathlib import Path

import pytest
import torch
import triton
from guards import Guarded, check_each_once, environment, load_file, mutate, recorded_accesses

from snippets.start import first_kernel
from tests.processes import run_script

SOURCE = Path(first_kernel.__file__)
ROOT = SOURCE.parents[2]
SUMS = [101 * i for i in range(10)]


def check(module, n, block):
    x, y, out = (
        Guarded.around(tensor, before=64, after=64, fill=0xFF) for tensor in (*torch.rand(2, n), torch.zeros(n))
    )
    with recorded_accesses() as accesses:
        grid = (triton.cdiv(n, block),)
        module.add_kernel[grid](x.tensor, y.tensor, out.tensor, n, BLOCK_SIZE=block)
    x.check("x"), y.check("y"), out.check("the result")
    assert torch.equal(out.tensor, x.tensor + y.tensor)
    check_each_once(accesses, "load", x=x.tensor, y=y.tensor)
    check_each_once(accesses, "store", out=out.tensor)


@pytest.mark.parametrize("n, block", [(1, 4), (4, 4), (10, 4), (12, 4), (13, 8)])
def test_adds_each_element_once(n, block):
    check(first_kernel, n, block)


@pytest.mark.parametrize(
    "old, new",
    [
        ("offsets < n", "offsets < n + 1"),
        ("offsets < n", "offsets < n - 1"),
        ("pid * BLOCK_SIZE", "pid * n"),
        ("x_ptr + offsets, mask=mask", "x_ptr + offsets"),
        ("x + y, mask=mask", "x + y"),
        ("x + y, mask", "x - y, mask"),
    ],
)
def test_a_fault_is_found(old, new, tmp_path):
    broken = load_file(mutate(SOURCE, tmp_path / "broken.py", old, new))
    with pytest.raises(AssertionError):
        for n in (4, 10):
            check(broken, n, 4)


def section(name):
    """A section of the snippet, as pages show it."""
    found = re.search(rf"# --8<-- \[start:{name}\]\n(.*?)\n *# --8<-- \[end:{name}\]", SOURCE.read_text("utf-8"), re.S)
    return textwrap.dedent(found[1])


@pytest.mark.parametrize("page", ["index", "programs/vector-add"])
def test_runs_as_a_page_shows_it(page, tmp_path):
    """The fence puts two sections together; someone who copies it gets a script that runs."""
    text = (ROOT / "docs" / "en" / f"{page}.md").read_text("utf-8")
    fence = next(f for f in re.findall(r"```python\n(.*?)```", text, re.S) if "start/first_kernel.py" in f)
    shown = re.sub(r'--8<-- "start/first_kernel.py:(\w+)"', lambda match: section(match[1]), fence)
    assert shown.startswith("import torch") and "--8<--" not in shown and shown.count("\n") < 30
    script = tmp_path / "first.py"
    script.write_text(shown, "utf-8")
    done = run_script(script, env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(SUMS)
