# SPDX-License-Identifier: Apache-2.0
"""Without a GPU a search says so; with one, and Helion, its result is PyTorch's."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.reference import helion_search as snippet
from tests.processes import run_script


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so():
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr
