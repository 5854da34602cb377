# SPDX-License-Identifier: Apache-2.0
"""Show what torch.compile makes of a small model: the graph, which of its operations share a kernel, and that kernel.

``stages`` asks torch.compile's own hooks at three points of its way. It needs no GPU: Inductor, the compiler behind
torch.compile, is told to write Triton for tensors on the CPU, too. Such a kernel is printed, and cannot run there.

Shapes: ``x`` ``(32, 64)``, the result ``(32, 256)``, float32.
Source: PyTorch's ``torch._inductor.config``; its hooks have no promise of staying as they are.

Run it with ``python torch_compile_graph.py``. The same by PyTorch's own means, in more words:
``TORCH_LOGS=graph_code,post_grad_graphs,ir_post_fusion,output_code``.
"""

import contextlib
import re
from typing import NamedTuple
from unittest import mock

import torch
import triton
from torch import nn
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx
from torch._inductor.graph import GraphLowering
from triton.backends.compiler import GPUTarget


# --8<-- [start:model]
class Layer(nn.Module):
    """A linear layer, RMSNorm, relu."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.weight = nn.Parameter(torch.ones(outputs))

    def forward(self, x):
        h = self.linear(x)
        scale = torch.rsqrt(h.square().mean(dim=1, keepdim=True) + 1e-6)
        return torch.relu(h * scale * self.weight)
# --8<-- [end:model]


class Stages(NamedTuple):
    """The stages of a model on its way, as they were seen."""

    graph: list[str]  # a line of Python for each operation that was called
    before: list[list[str]]  # the operations of each node, before nodes are fused
    fused: list[list[str]]  # and after: each of these becomes one kernel
    code: str  # what Inductor wrote, a Python file


class _Written(BaseException):
    """All is written, and compiling it for a CPU would fail. (Inductor takes an ``Exception`` for its own failure.)"""


class NoGPU:
    """Stands in for the driver of a GPU that is not there: Inductor puts its name into what it writes."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


# --8<-- [start:stages]
def stages(model: nn.Module, *inputs: torch.Tensor) -> Stages:
    """Compile ``model`` as far as to the text of its kernels. It is not run, and ``inputs`` stay on the CPU."""
    graph, order, nodes, code = [], [], [], []

    def read(module, tensors):
        graph.extend(map(line, calls(module.graph)))
        return compile_fx(module, tensors)

    def lowered(operations):  # into fewer kinds: square became pow
        order.extend(node.name for node in calls(operations))

    def scheduled(found):
        used = [{origin.name for part in node.get_nodes() for origin in part.node.origins} for node in found]
        nodes.append([[name for name in order if name in names] for names in used])
        return found

    def written(text):
        code.append(text)
        raise _Written

    triton.runtime.driver.set_active(NoGPU())
    torch.compiler.reset()
    with (
        config.patch(
            cpu_backend="triton", fx_graph_cache=False, post_grad_custom_post_pass=lowered,
            _pre_fusion_custom_pass=scheduled, _post_fusion_custom_pass=scheduled,
        ),
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(written)),
        torch.no_grad(),
        contextlib.suppress(_Written),
    ):  # fmt: skip
        torch.compile(model, backend=read, dynamic=False)(*inputs)
    return Stages(graph, *nodes, *code)
# --8<-- [end:stages]


def calls(graph) -> list:
    """Return the nodes of a graph that call something; the others are inputs and outputs."""
    return [node for node in graph.nodes if node.op.startswith("call")]


def line(node) -> str:
    """Return a node of the graph as a line of Python.

    >>> graph = torch.fx.symbolic_trace(torch.nn.Linear(2, 2)).graph
    >>> line(calls(graph)[0])
    'linear = linear(input_1, weight, bias)'
    """
    function = node.target if isinstance(node.target, str) else node.target.__name__
    given = [*map(spell, node.args), *(f"{name}={spell(value)}" for name, value in node.kwargs.items())]
    return f"{node.name} = {function}({', '.join(given)})"


def spell(value) -> str:
    """Spell an argument, in which ``l_self_modules_linear_parameters_weight_`` is ``linear.weight``."""
    name = re.sub(r"^l_|self_|modules_|_$", "", str(value))
    return name.replace("_parameters_", ".").replace("parameters_", "self.")


def kernels(code: str) -> dict[str, str]:
    """Return the Triton kernels in what Inductor wrote, by name.

    >>> kernels("…\\n@triton.jit\\ndef one(x):\\n    tl.store(x, 1)\\n''', device_str='cpu')\\n")
    {'one': '@triton.jit\\ndef one(x):\\n    tl.store(x, 1)'}
    """
    found = re.findall(r"^(@triton\.jit\ndef (\w+)\(.*?)\n'''", code, re.M | re.S)
    return {name: text for text, name in found}


# --8<-- [start:main]
def main():
    torch.manual_seed(0)
    seen = stages(Layer(64, 256), torch.randn(32, 64))
    print("## graph", *seen.graph, sep="\n")
    print("## fused")
    for operations in seen.fused:
        print("one kernel:", *operations)
    print("## kernel", *kernels(seen.code).values(), sep="\n")
    print("## calls")
    print(*re.findall(r"^ +((?:extern_kernels|triton_\w+)\.\w+\(.*)", seen.code, re.M), sep="\n")
    print("## numbers")
    print(f"operations in the graph: {len(seen.graph)}")
    print(f"nodes before they are fused: {len(seen.before)}")
    print(f"kernels: {len(seen.fused)}")
    print(f"of them in Triton: {len(kernels(seen.code))}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
