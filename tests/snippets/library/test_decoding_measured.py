# SPDX-License-Identifier: Apache-2.0
"""Attention for inference, measured: each case agrees with torch, and the share is that of the bytes it has to read."""

import math

import pytest
import torch

from snippets.library import decoding_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_names_the_benchmarks(capsys):
    measured.main()
    assert [line.partition(".")[0] for line in capsys.readouterr().out.splitlines()] == ["times", "shares"]


@pytest.fixture
def small(monkeypatch):
    """Few and short sequences in float32, which the interpreter serves, and each side run once instead of timed."""
    randn, randperm = torch.randn, torch.randperm
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: randn(*shape))
    monkeypatch.setattr(measured.torch, "randperm", lambda count, **_: randperm(count))
    shrunk = {
        name: case._replace(
            batch=2, keys=64, queries=min(case.queries, 4), page_size=min(case.page_size, 16),
            cached=torch.float32 if case.cached == torch.bfloat16 else case.cached,
        )
        for name, case in measured.CASES.items()
    }  # fmt: skip
    monkeypatch.setattr(measured, "CASES", shrunk)

    def run_once(sides, given, rounds):
        found = [side(*given()) for side in sides.values()]
        assert len({each.shape for each in found}) == 1
        return {name: Timing([ms]) for name, ms in zip(sides, (2.0, 3.0), strict=False)}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    monkeypatch.setattr(measured, "measure_copy", lambda moved: Timing([float(moved)]))
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("name", measured.CASES)
def test_each_case(small, name):
    has_torch = measured.CASES[name].torch is not None
    assert measured.times.fn(name, "ours") == (2000.0,) * 3
    assert measured.shares.fn(name, "of_torch") == 1.5 if has_torch else math.isnan(measured.times.fn(name, "torch"))
    assert measured.shares.fn(name, "of_copy") == measured.bytes_read(name) / 2


def test_bytes_of_a_window_and_of_a_latent():
    assert measured.bytes_read("window of 4,096") == 16 * 8 * 4096 * 256 * 2
    assert measured.bytes_read("cache in fp8") == 16 * 8 * 8192 * 256
    assert measured.bytes_read("MLA, 16 heads") == 64 * 4096 * 576 * 2


def test_torch_sees_as_far_as_ours_with_several_queries(small):
    given = measured.operands(measured.CASES["4 queries each"])
    ours = measured.decode_attention(*given[:3], causal=True)
    assert torch.allclose(ours, measured.by_torch_causal(*given[:3]), atol=1e-5)


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "decode_attention", lambda q, *_, **__: q * 1.1)
    with pytest.raises(RuntimeError, match="ours is off by"):
        measured.measure("16 sequences")
