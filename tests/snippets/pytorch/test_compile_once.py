# SPDX-License-Identifier: Apache-2.0
"""How often a kernel is compiled: by the ways to pass a length, and by what is found on disk."""

import contextlib
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.pytorch import compile_once as snippet
from tests.processes import run_python

GPU = pytest.mark.gpu
VERSIONS = {"n, a number": 3, "n, not specialized": 1, "N, a tl.constexpr": 100}


@pytest.mark.parametrize("name", ["add_one_kernel", "add_one_any_kernel", "add_one_constant_kernel"])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_one_is_added(device, name, n):
    x, out = (Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF) for _ in range(2))
    x.tensor.copy_(torch.randn(n))
    with contextlib.nullcontext() if torch.cuda.is_available() else recorded_accesses() as accesses:
        getattr(snippet, name)[(3,)](x.tensor, out.tensor, n, BLOCK=16)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor + 1)


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
