# SPDX-License-Identifier: Apache-2.0
"""How often a kernel is compiled: by the ways to pass a length, and by what is found on disk."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.pytorch import compile_once as snippet
from tests.processes import run_python

GPU = pytest.mark.gpu
VERSIONS = {"n, a number": 3, "n, not specialized": 1, "N, a tl.constexpr": 100}


def test_without_a_gpu_it_compiles_ahead_and_says_that_it_launches_none(tmp_path):
    ahead = run_python(Path(snippet.__file__), "ahead", env=environment("gpu") | {"TRITON_CACHE_DIR": str(tmp_path)})
    assert ahead.stdout == "compiled for sm_90\n"
    assert {"cubin", "ptx"} <= {file.suffix[1:] for file in tmp_path.rglob("add_one_kernel.*")}
    if not torch.cuda.is_available():
        done = run_python(Path(snippet.__file__), env=environment("gpu"))
        assert done.returncode and "no GPU found" in done.stderr


@GPU
@pytest.mark.parametrize("name", VERSIONS)
def test_versions_after_a_hundred_lengths(name):
    assert snippet.versions(snippet.WAYS[name]) == VERSIONS[name]


@GPU
def test_a_new_process_looks_on_disk(tmp_path):
    cache = tmp_path / "cache"
    assert snippet.start("first", cache) == "compiled"
    assert snippet.start("first", cache) == "found on disk"
    assert snippet.start("first", cache, snippet.moved(tmp_path, "")) == "found on disk"
    assert snippet.start("first", cache, snippet.moved(tmp_path, "# a line\n")) == "compiled"
    assert snippet.start("ahead", tmp_path / "ahead", CUDA_VISIBLE_DEVICES="") == "compiled for sm_90"
    assert snippet.start("first", tmp_path / "ahead") == "found on disk"
    assert "No such file or directory: '/proc/cache'" in snippet.start("first", Path("/proc/cache"))
