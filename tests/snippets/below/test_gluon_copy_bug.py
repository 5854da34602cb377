# SPDX-License-Identifier: Apache-2.0
"""The compiler refuses layouts that don't fit; one that is too large it takes, and loads twice."""

from pathlib import Path

from guards import environment

from snippets.below import gluon_copy_bug
from tests.processes import run_code


def test_what_the_compiler_says():
    code = "from snippets.below.gluon_copy_bug import main\nmain()"
    done = run_code(code, env=environment("cpu"), cwd=Path(gluon_copy_bug.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    mixed, warps, larger = done.stdout.split("\n## ")
    assert "Layout mismatch" in mixed and "size_per_thread=[1]" in mixed and "\nvs " in mixed
    assert "Layout has 4 warps per CTA, but the context requires 8 warps per CTA." in warps
    assert larger.rstrip().endswith("loads 2 x 16 bytes for each thread")
