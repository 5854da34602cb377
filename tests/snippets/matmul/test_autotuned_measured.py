# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of auto-tuning: listed, what they compare differs in one thing, and on a GPU they run."""

from unittest import mock

import pytest
import torch
import triton
import triton.language as tl

from snippets.matmul import autotuned, autotuned_measured, grouped
from snippets.matmul.autotuned import matmul

MARKS = [value for value in vars(autotuned_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    autotuned_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_untuned_is_what_grouped_takes():
    """So that only masks differ: both kernels are launched with the same constants."""
    a, b = torch.empty(2, 256, 256, dtype=torch.bfloat16)
    constants = {}
    for module, options in ((autotuned, {"config": autotuned_measured.UNTUNED}), (grouped, {})):
        with mock.patch.object(module, "matmul_kernel") as kernel, mock.patch.object(module, "check_arguments"):
            kernel.__class__ = triton.JITFunction
            module.matmul(a, b, **options)
        constants[module] = kernel.__getitem__.return_value.call_args.kwargs
    expected = constants[grouped] | {"K_EVEN": True, "PRECISION": "ieee", "INDEX": tl.int32}
    given = {name: value for name, value in constants[autotuned].items() if name in expected}
    assert given == expected and set(constants[autotuned]) - set(expected) <= {"num_ctas", "maxnreg"}


def test_masks(monkeypatch):
    def rates(sides, make, flops):
        keywords = {name: getattr(run, "keywords", {}) for name, run in sides.items()}
        untuned = {name: found == {"config": autotuned_measured.UNTUNED} for name, found in keywords.items()}
        return {name: (1.0, float(flops), float(found)) for name, found in untuned.items()}

    monkeypatch.setattr(autotuned_measured, "rates", rates)
    monkeypatch.setattr(autotuned_measured, "prepare", mock.Mock())
    monkeypatch.setattr(torch, "randn", lambda *shape, device, dtype: torch.empty(shape, dtype=dtype, device="meta"))
    autotuned_measured.measure_masks.cache_clear()
    found = {side: autotuned_measured.masks.fn(64, side) for side in autotuned_measured.masks.benchmarks.line_vals}
    autotuned_measured.measure_masks.cache_clear()
    assert found == {side: (1.0, 2.0 * 64**3, float(side == "same")) for side in ("grouped", "same", "tuned", "cublas")}


@pytest.mark.gpu
def test_benchmark_runs():
    best, worst = (autotuned_measured.pruning.fn("512³", which) for which in ("best", "worst"))
    assert best >= worst > 0
    assert all(rate > 0 for rate in autotuned_measured.masks.fn(512, "same"))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1024, 200])
def test_fewer_masks_compute_the_same(n):
    a, b = torch.randn(2, n, n, device="cuda").bfloat16()
    torch.testing.assert_close(matmul(a, b, config=autotuned_measured.UNTUNED), grouped.matmul(a, b))
