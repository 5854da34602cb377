# SPDX-License-Identifier: Apache-2.0
"""8-bit products against torch's: every benchmark runs."""

import contextlib
import re
from unittest import mock

import pytest
import torch
from compiled import compiled
from covering import covering
from guards import check_each_once, recorded_accesses

from snippets.matmul import fp8_measured as measured
from snippets.matmul.fp8 import Config, quantize

OBLONG = Config((64, 32, 128), 2, 4, 2, group=2), Config((64, 128, 128), 2, 4, 2)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["tensorwise", "rowwise", "ways", "option", "sums", "signs"]


@covering(
    size=[(128, 128, 400), (300, 144, 176), (16, 700, 304)],
    config=[*measured.OPTION.values(), *OBLONG],
    parts=[2, 4],
)
def test_option_is_the_product(device, size, config, parts):
    M, N, K = size
    torch.manual_seed(0)
    a, scale_a = quantize(torch.randn(M, K))
    b, scale_b = quantize(torch.randn(N, K).T)
    exact = (a.double() * scale_a) @ (b.double() * scale_b)
    a, by_columns, scale_a, scale_b = (x.to(device) for x in (a, b.T, scale_a, scale_b))
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        c = measured.with_option(a, by_columns.T, scale_a, scale_b, torch.float32, config._replace(parts=parts))
    if accesses is not None:
        check_each_once(accesses, "store", c=c)
    assert measured.relative_error(c.cpu(), exact) < (1e-6 if device == "cpu" else 5e-3)


@pytest.mark.parametrize("multiprocessors, programs", [(100, 5 * 9), (3, 3 * 4)])
def test_programs_for_each_tile_or_as_many_as_fit(multiprocessors, programs):
    config = Config((64, 32, 128), 2, 4, 2, per_sm=4)
    (a, scale), (b, _) = quantize(torch.ones(300, 128)), quantize(torch.ones(272, 128).T)
    with (
        mock.patch.object(measured, "multiprocessors", lambda device: multiprocessors),
        mock.patch.object(measured, "option_kernel") as kernel,
    ):
        c = measured.with_option(a, b, scale, scale, torch.float16, config)
    assert kernel.__getitem__.call_args == mock.call((programs,)) and c.dtype == torch.float16


OPTIONS = """
from triton.tools.tensor_descriptor import TensorDescriptor
n, scale = 8192, torch.empty(())
for config in module.OPTION.values():
    block_m, block_n, block_k = config.block
    for dtype in (torch.bfloat16, torch.float32):
        parts, eight = dtype.itemsize, torch.float8_e4m3fn
        described = lambda dtype, block: TensorDescriptor(torch.empty(256, dtype=dtype), [n, n], [n, 1], block)
        module.option_kernel[(132,)](
            described(eight, [block_m, block_k]), described(eight, [block_n, block_k]),
            described(dtype, [block_m, block_n // parts]), scale, scale, n, n, n,
            FLATTEN=config.flatten, PARTS=parts, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
            GROUP_M=config.group, num_warps=config.num_warps, num_stages=config.num_stages,
        )
"""


def test_option_adds_outside_of_the_matrix_units():
    """Compiled for Hopper: once for each element and step, as Triton's own test counts. It fits, and nothing spills."""
    configs = [config for config in measured.OPTION.values() for _ in ("bfloat16", "float32")]
    for config, launch in zip(configs, compiled("matmul/fp8_measured", OPTIONS), strict=True):
        block_m, block_n, _ = config.block
        assert len(re.findall(r"add(?:\.rn)?\.f32", launch.ptx)) == block_m * block_n // (32 * config.num_warps)
        assert launch.spills == 0 and launch.shared * config.per_sm <= 233472 - 1024 * config.per_sm
        assert (launch.registers + 7) // 8 * 8 * 32 * config.num_warps * config.per_sm <= 65536, launch.registers


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9), reason="no matrix units for float8"
)
@pytest.mark.parametrize("mark", [measured.tensorwise, measured.rowwise, measured.ways, measured.option])
def test_benchmarks_run(mark):
    assert all(value > 0 for side in mark.benchmarks.line_vals for value in mark.fn(1024, side))


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="Hopper's matrix units are meant"
)
def test_fast_sums_lose_what_ours_keep():
    error = {side: measured.sums.fn(2**15, side, 256, 256) for side in measured.sums.benchmarks.line_vals}
    assert max(error["ours"], error["option"]) < 2e-3 and error["ours_fast"] > 0.1, error
    both = {side: measured.signs.fn(2**15, side, 256, 256) for side in measured.signs.benchmarks.line_vals}
    assert max(both["ours"], both["option"]) < 5e-3 and both["ours_fast"] < error["ours_fast"], both
