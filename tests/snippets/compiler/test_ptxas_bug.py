# SPDX-License-Identifier: Apache-2.0
"""A ptxas that knows a GPU compiles for it, and an older one says that it does not."""

from pathlib import Path

from guards import environment

from snippets.compiler import ptxas_bug as snippet
from tests.processes import run_python


def test_what_either_ptxas_says():
    said = run_python(Path(snippet.__file__), env=environment("gpu")).stdout
    newer, older = said.split("## by the older ptxas")
    assert "compiled as Triton does it: 5" in newer and "compiled by the older ptxas: 4" in older
    assert "Value 'sm_121a' is not defined for" in older and ".target" not in said, "and not all of the PTX"
