# SPDX-License-Identifier: Apache-2.0
"""What torch.compile takes is read from its code, and compared with cuBLAS; no shape is left to eager torch."""

import pytest
import torch

from snippets.matmul import matmul_max_autotune as module
from snippets.tools.benchmarking import Timing

CODE = """
from torch._inductor.select_algorithm import extern_kernels
triton_red_fused_mm_0 = async_compile.triton('triton_red_fused_mm_0', '''
def triton_red_fused_mm_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
''', device_str='cuda')
triton_tem_fused_mm_t_1 = async_compile.triton('triton_tem_fused_mm_t_1', '''
        triton_tem_fused_mm_t_1.run(arg1_1, arg0_1, buf0, 512, 1, 1, stream=stream0)
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        extern_kernels.mm(arg0_1, arg1_1, out=buf1)
"""


def test_kernels_by_name():
    assert module.called_in(CODE) == ["extern_kernels.mm", "triton_red_fused_mm_0", "triton_tem_fused_mm_t_1"]


def test_shapes_are_as_many_as_are_compiled():
    """Of one function; with more, torch.compile would raise."""
    assert set(module.TUNED) <= set(module.NAMED) and len(module.TUNED) == len(set(module.TUNED)) == 8
    assert torch._dynamo.config.recompile_limit >= len(module.TUNED)


def test_table(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "kernels", lambda shape: seen.append(shape))

    def compared(sides, make, rounds, steady):
        seen.append((list(sides), rounds, steady))
        return {"ours": Timing((0.002, 0.001, 0.004)), "cublas": Timing((0.001,)), "tuned": Timing((0.003,))}

    monkeypatch.setattr(module, "compare_in_rotation", compared)
    module.measure.cache_clear()
    benchmark = module.max_autotune.benchmarks
    for shape in benchmark.x_vals:
        row = {line: module.max_autotune.fn(shape, line) for line in benchmark.line_vals}
        assert row["ours"] == pytest.approx((2, 1, 4)) and row["tuned"] == pytest.approx((3, 3, 3))
        assert row["cublas"] == pytest.approx((1, 1, 1)) and row["share"] == pytest.approx(1.5)
    module.measure.cache_clear()
    sides = ["ours", "cublas", "tuned"]
    assert seen[::2] == module.TUNED, "each is compiled, and then measured once"
    assert seen[1::2] == [(sides, 4, shape == "4096 × 4096 × 4096") for shape in module.TUNED]


def test_prints_what_was_taken(monkeypatch, capsys):
    monkeypatch.setattr(module, "kernels", lambda shape: ["extern_kernels.mm", "triton_poi_0"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    module.main()
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "## taken" and lines == [f"{shape}: extern_kernels.mm, triton_poi_0" for shape in module.TUNED]


def test_says_that_it_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no GPU found"):
        module.main()


@pytest.mark.gpu
def test_measures():
    shape = "1024 × 1024 × 1024"
    module.kernels.cache_clear()
    torch._dynamo.reset()
    assert module.kernels(shape)
    found = module.measure(shape)
    assert set(found) == {"ours", "cublas", "tuned"} and all(0 < timing.median < 1 for timing in found.values())
