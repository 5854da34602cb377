# SPDX-License-Identifier: Apache-2.0
"""What people ask about kernels in PyTorch: one put into a model that exists, DDP's warning about strides, and, on a
GPU, questions to the driver under ``torch.compile`` and ``torch.export`` in both of its ways.

Each attempt is printed, and what came of it. The kernel is the RMS norm of ``compile.py``.
Run it with ``TRITON_INTERPRET=1 python asked_in_pytorch.py``; without the variable, on a GPU, it has more to say.
"""

import tempfile
import textwrap
import warnings

import torch
import torch.distributed as dist
import triton
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from snippets.pytorch.compile import WAYS, closed, rms_norm_kernel

WIDTH = 72  # of what is printed
DEVICE = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"


# --8<-- [start:replace]
class KernelNorm(nn.Module):
    """The model's own norm, by our kernel."""

    def __init__(self, norm: nn.RMSNorm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.eps or 1e-6

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        return closed(rows, self.weight, self.eps).view_as(x)


def use_kernel(model: nn.Module) -> int:
    """Replace every RMS norm of a model; return how many."""
    replaced = 0
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.RMSNorm):
                setattr(parent, name, KernelNorm(child))
                replaced += 1
    return replaced
# --8<-- [end:replace]


class Block(nn.Module):
    def __init__(self, columns: int = 64):
        super().__init__()
        self.first, self.second = nn.RMSNorm(columns, eps=1e-6), nn.RMSNorm(columns, eps=1e-6)
        self.up, self.down = nn.Linear(columns, 2 * columns), nn.Linear(2 * columns, columns)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(x + self.down(self.up(self.first(x)).relu()))


# --8<-- [start:turned]
class Turned(torch.autograd.Function):
    """A product whose backward returns a gradient as it came out: turned."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, (x.t() @ grad).t()
# --8<-- [end:turned]


class Layer(nn.Module):
    def __init__(self, product):
        super().__init__()
        self.product, self.weight = product, nn.Parameter(torch.randn(6, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.product.apply(x, self.weight)


def warned_by_ddp(model: nn.Module, x: Tensor, change=lambda model: None) -> str:
    """Return what DDP warns of in a step of one process, or ``no warning``; ``change`` comes after DDP's wrapping."""
    wrapped = DistributedDataParallel(model.to(DEVICE))
    change(wrapped)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrapped(x.to(DEVICE)).sum().backward()
    said = [str(each.message).splitlines()[0] for each in caught]
    return next((each for each in said if "strides" in each), "no warning")


def asks_the_driver(x: Tensor) -> Tensor:
    arch = triton.runtime.driver.active.get_current_target().arch
    return 2 * x if arch >= 90 else x


def asks_torch(x: Tensor) -> Tensor:
    return 2 * x if torch.cuda.get_device_capability(x.device) >= (9, 0) else x


def outcome(action) -> str:
    """Return ``works``, or the first line of the error that says something."""
    try:
        action()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    return "works"


class Model(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm, self.weight = norm, nn.Parameter(torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(2 * x, self.weight).relu()


def said(what: str, came: str) -> None:
    print(textwrap.fill(f"{what}: {came}", WIDTH, subsequent_indent="  "))


def main():
    torch.manual_seed(0)
    print("## a model that exists")
    model = nn.Sequential(Block(), Block()).to(DEVICE)
    x = torch.randn(3, 5, 64, device=DEVICE)
    before = model(x)
    print(f"norms replaced: {use_kernel(model)}")
    same = torch.allclose(model(x), before, atol=1e-5)
    print("the model's result:", "as before" if same else "another")
    print("## DDP")
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        said("a gradient that is turned", warned_by_ddp(Layer(Turned), torch.randn(5, 4)))
        channels_last = lambda model: model.to(memory_format=torch.channels_last)
        image = torch.randn(2, 3, 8, 8)
        said("channels_last after DDP", warned_by_ddp(nn.Conv2d(3, 6, 3), image, channels_last))
        first = channels_last(nn.Conv2d(3, 6, 3))
        said("channels_last before DDP", warned_by_ddp(first, image))
        dist.destroy_process_group()
    if DEVICE == "cuda":
        print("## torch.compile(fullgraph=True)")
        for name, function in (("asks Triton's driver", asks_the_driver), ("asks torch", asks_torch)):
            compiled = torch.compile(function, fullgraph=True)
            said(name, outcome(lambda compiled=compiled: compiled(x)))
        print("## torch.export")
        rows = x.view(15, 64)
        for name, norm in WAYS.items():
            for strict in (True, False):
                module = Model(norm).to(DEVICE).eval()
                with torch.no_grad():
                    export = lambda module=module, strict=strict: torch.export.export(module, (rows,), strict=strict)
                    said(f"{name}, strict={strict}", outcome(export))


if __name__ == "__main__":
    main()
