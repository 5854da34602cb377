# SPDX-License-Identifier: Apache-2.0
"""Machine code is launched by the driver as its description says; what was changed since is refused; the table."""

import json
from hashlib import sha256

import pytest
import torch

from snippets.reference import which_language as compilers
from snippets.reference import which_language_measured as measured
from snippets.tools.benchmarking import Timing


def test_code_that_its_compiler_did_not_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "COMPILED", tmp_path)
    (tmp_path / "Triton.cubin").write_bytes(b"code")
    (tmp_path / "Triton.json").write_text(json.dumps({"sha256": sha256(b"other").hexdigest()}))
    with pytest.raises(RuntimeError, match=r"Triton.cubin is not what its compiler wrote"):
        measured.load("Triton")


def test_the_table(monkeypatch):
    times = {"Triton": Timing((0.02, 0.04, 0.03)), "copy": Timing((0.015,) * 3)}
    monkeypatch.setattr(measured, "measure", lambda: times)
    assert measured.languages.fn("Triton", "microseconds") == (30, 20, 40)
    assert measured.languages.fn("Triton", "share") == 0.5
    rows = measured.languages.benchmarks.x_vals
    assert rows == [*compilers.COMPILERS, "torch.compile", "PyTorch", "copy"]


@pytest.mark.gpu
def test_the_driver_launches_what_triton_compiled(tmp_path, monkeypatch):
    for module in (compilers, measured):
        monkeypatch.setattr(module, "COMPILED", tmp_path)
    compilers.compile_one("Triton")
    x = torch.randn(37, compilers.COLUMNS, device="cuda", dtype=torch.bfloat16)
    run = measured.load("Triton")
    torch.testing.assert_close(run(x), x.softmax(1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(x)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(out, x.softmax(1))
