# SPDX-License-Identifier: Apache-2.0
"""A tuned kernel that adds into its result, as an operator of its own: what has to be cleared, and who tunes.

``total`` adds up the n elements of a tensor, ``out = Σ x[i]``: each program adds the sum of its block to one number by
``tl.atomic_add``. That number has to be zero before, in every run of the kernel, and the tuner runs it many times.
Three ways, each behind a ``custom_op``, called as it is and under ``torch.compile``. In an operator of its own, the
tuner at work is Triton's in both cases, so every length has its own winner. On a GPU it goes by the clock.

Shapes: ``x`` (n,), the result (), float32.
Source: ``triton/runtime/autotuner.py``; the question, https://github.com/pytorch/pytorch/issues/139059.

Run it with ``TRITON_INTERPRET=1 python tuned_op.py``, or without the variable on a machine with a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op


# --8<-- [start:kernel]
@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))
# --8<-- [end:kernel]


DEVICE = "cuda" if isinstance(total_kernel, triton.JITFunction) else "cpu"
BACKEND = "aot_eager" if DEVICE == "cpu" else "inductor"  # torch.compile writes Triton only for a GPU
BLOCKS = (16, 1024)
LONG = 1000 if DEVICE == "cpu" else 2**22


# --8<-- [start:lanes]
class Lanes:
    """A timer that has no clock: a launch takes the lanes that it starts, and a hundred more for each program.

    On the CPU there is no time worth measuring, and this one is the same in every run.
    """

    def __init__(self):
        self.took = 0

    def grid(self, n: int):
        def grid(meta):
            programs = triton.cdiv(n, meta["BLOCK"])
            self.took = programs * (meta["BLOCK"] + 100)
            return (programs,)

        return grid

    def __call__(self, call, quantiles) -> list[int]:
        call()
        return [self.took for _ in quantiles]
# --8<-- [end:lanes]


lanes = Lanes()


# --8<-- [start:hook]
def clear(arguments: dict) -> None:
    arguments["out_ptr"].zero_()
# --8<-- [end:hook]


def tuned(pre_hook=None, **options):
    configs = [triton.Config({"BLOCK": block}, pre_hook=pre_hook) for block in BLOCKS]
    timer = lanes if DEVICE == "cpu" else None  # None: by the clock, as often as fits into some milliseconds
    return triton.autotune(configs, key=["n"], do_bench=timer, **options)(total_kernel)


# --8<-- [start:ways]
# How the kernel is tuned, and what makes the tensor that it adds to.
WAYS = {
    "torch.zeros alone": (tuned(), torch.zeros),
    "and reset_to_zero": (tuned(reset_to_zero=["out_ptr"]), torch.zeros),
    "a pre_hook": (tuned(pre_hook=clear), torch.empty),
}
# --8<-- [end:ways]


# --8<-- [start:op]
def launch(x: Tensor, way: str) -> Tensor:
    kernel, make = WAYS[way]
    out = make((), dtype=x.dtype, device=x.device)
    kernel[lanes.grid(len(x))](x, out, len(x))
    return out


total = custom_op("course::total", launch, mutates_args=())


@total.register_fake
def _(x, way):
    return x.new_empty(())
# --8<-- [end:op]


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    for way, (kernel, _) in WAYS.items():
        print(f"## {way}")
        compiled = torch.compile(total, fullgraph=True, backend=BACKEND)
        for name, function in {"eager": total, "compiled": compiled}.items():
            kernel.cache.clear()  # as in a new process
            sums = [function(torch.ones(n, device=DEVICE), way).item() for n in (10, 10, LONG)]
            print(f"{name}, 10 ones: {sums[0]:,.0f}, again: {sums[1]:,.0f}; {LONG:,} ones: {sums[2]:,.0f}")


if __name__ == "__main__":
    main()
