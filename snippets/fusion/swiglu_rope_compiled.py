# SPDX-License-Identifier: Apache-2.0
"""Show what torch.compile makes of SwiGLU and of RoPE: how many kernels, and what they read and write.

As ``torch_compile_graph.py`` does it, Inductor writes Triton for tensors on the CPU, which is printed and cannot run
there. On a CPU it would write each half of a ``torch.cat`` by a kernel of its own. ``force_pointwise_cat`` has it
write what it writes on a GPU, where it is one.

Shapes: SwiGLU of ``(64, 2048)``, halves of 1024; RoPE of ``q`` ``(16, 8, 128)`` and ``k`` ``(16, 2, 128)``. bfloat16.
Source: the formula of RoPE is that of the models in Hugging Face's transformers.

Run it with ``python swiglu_rope_compiled.py``.
"""

import re

import torch
from torch import nn
from torch._inductor import config

from snippets.start.torch_compile_graph import kernels, stages


# --8<-- [start:swiglu]
class SwiGLU(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        return nn.functional.silu(gate) * up


# --8<-- [end:swiglu]


# --8<-- [start:rope]
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class RoPE(nn.Module):
    def forward(self, q, k, cos, sin):
        cos, sin = cos[:, None], sin[:, None]  # for all heads of a token
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


# --8<-- [end:rope]


def written(module: nn.Module, *shapes: tuple[int, ...]) -> list[str]:
    """Return the kernels that torch.compile writes for inputs of these shapes."""
    with config.patch(force_pointwise_cat=True):
        found = stages(module, *(torch.randn(shape, dtype=torch.bfloat16) for shape in shapes))
    return list(kernels(found.code).values())


def count(kernel: str, what: str) -> int:
    """Return how many lines load from pointers, or store to pointers, that are named so.

    >>> count("tmp0 = tl.load(in_ptr0 + (x0))", "load(in_ptr0")
    1
    """
    return len(re.findall(re.escape(f"tl.{what}"), kernel))


def main():
    found = {
        "SwiGLU": written(SwiGLU(), (64, 2048)),
        "RoPE": written(RoPE(), (16, 8, 128), (16, 2, 128), (16, 128), (16, 128)),
    }
    for name, texts in found.items():
        print(f"## {name}")
        print(texts[0])
    print("## numbers")
    for name, texts in found.items():
        print(f"{name}, kernels: {len(texts)}")
        print(f"{name}, loads of the input in one: {count(texts[0], 'load(in_ptr0')}")
        print(f"{name}, stores in one: {count(texts[0], 'store(')}")


if __name__ == "__main__":
    main()
