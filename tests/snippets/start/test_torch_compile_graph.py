# SPDX-License-Identifier: Apache-2.0
"""The graph holds what the model calls; every operation ends in one kernel; the matmul is left to a library."""

import ast
from pathlib import Path

import pytest
import torch
from guards import environment

from recorder.printed import numbers, sections
from snippets.start import torch_compile_graph as snippet
from snippets.start import torch_compile_lifted
from tests.processes import run_code, run_script

ROOT = Path(snippet.__file__).parents[2]


@pytest.fixture(scope="module")
def printed():
    done = run_script(Path(snippet.__file__), env=environment("cuda", PYTHONPATH=str(ROOT)))
    assert done.returncode == 0, done.stderr
    return sections(done.stdout)


def test_graph_has_the_models_calls_in_order(printed):
    called = [line.partition(" = ")[2].partition("(")[0] for line in printed["graph"].splitlines()]
    assert called == ["linear", "square", "mean", "add", "rsqrt", "mul", "mul", "relu"]
    assert numbers(printed["numbers"])["operations in the graph"] == len(called)


def test_all_but_the_product_share_one_kernel(printed):
    product, rest = (line.removeprefix("one kernel: ").split() for line in printed["fused"].splitlines())
    assert product[-1] == "mm" and rest == ["pow_1", "mean", "add", "rsqrt", "mul", "mul_1", "relu"]
    counted = numbers(printed["numbers"])
    assert counted["nodes before they are fused"] > counted["kernels"] == 2
    assert counted["of them in Triton"] == printed["kernel"].count("@triton.jit") == 1


def test_the_library_is_called_first_and_the_kernel_works_on_its_result(printed):
    product, kernel = printed["calls"].splitlines()
    assert product.startswith("extern_kernels.mm(") and kernel.startswith("triton_per_fused")
    assert "tl.dot" not in printed["kernel"] and "tl.sum" in printed["kernel"]


def test_what_was_lifted_is_what_was_written_but_for_one_line(printed):
    source = Path(torch_compile_lifted.__file__).read_text("utf-8")
    lifted = source.partition("[start:lifted]\n")[2].partition("# --8<--")[0].strip().splitlines()
    written = printed["kernel"].strip().splitlines()
    assert lifted[1] == written[1].replace(written[1].split("(")[0], "def lifted_kernel")
    changed = [(a, b) for a, b in zip(written[2:], lifted[2:], strict=True) if a != b]
    assert [(a.strip(), b.partition("#")[0].strip()) for a, b in changed] == [
        ("tmp10 = libdevice.rsqrt(tmp9)", "tmp10 = tl.rsqrt(tmp9)")
    ]


def test_another_model_and_twice():
    """A second model is compiled anew; two chains that do not meet are two kernels, whose text is Python."""
    probe = """
import ast
from torch import nn
from snippets.start.torch_compile_graph import *

class Two(nn.Module):
    def forward(self, x, y):
        return torch.sin(x) + 1, y.sum(dim=0)

for _ in range(2):
    seen = stages(Two(), torch.zeros(300), torch.zeros(40, 50))
    print(len(seen.graph), seen.fused, len(kernels(seen.code)))
    ast.parse("\\n".join(kernels(seen.code).values()))
"""
    done = run_code(probe, env=environment("cuda"), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 [['sin', 'add'], ['sum_1']] 2\n" * 2


def test_a_line_names_parameters_as_the_model_does():
    graph = torch.fx.symbolic_trace(snippet.Layer(2, 3)).graph
    lines = [snippet.line(node) for node in snippet.calls(graph) if node.op == "call_function"]
    assert all(ast.parse(line) for line in lines)
    assert snippet.spell("l_self_modules_linear_parameters_weight_") == "linear.weight"
    assert snippet.spell("l_self_parameters_weight_") == "self.weight" and snippet.spell("l_x_") == "x"
