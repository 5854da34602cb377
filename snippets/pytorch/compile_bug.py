# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with kernels under torch.compile and in CUDA graphs: each case on purpose. Do not copy from here.

Run it on a GPU with ``python compile_bug.py``.
"""

import re

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op, triton_op, wrap_triton

from snippets.pytorch.compile import plain


# --8<-- [start:fill]
@triton.jit
def fill_kernel(x_ptr, value, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, value, mask=i < n)


@custom_op("course::fill_undeclared", mutates_args=())
def fill_undeclared(x: Tensor, value: float) -> None:
    fill_kernel[(1,)](x, value, x.numel(), BLOCK=16)


@custom_op("course::fill", mutates_args={"x"})
def fill(x: Tensor, value: float) -> None:
    fill_kernel[(1,)](x, value, x.numel(), BLOCK=16)
# --8<-- [end:fill]


@triton_op("course::fill_named_undeclared", mutates_args=())
def fill_named_undeclared(x: Tensor, value: float) -> None:
    wrap_triton(fill_kernel)[(1,)](x, value, x.numel(), BLOCK=16)


def fill_plainly(x: Tensor, value: float) -> None:
    fill_kernel[(1,)](x, value, x.numel(), BLOCK=16)


@fill_undeclared.register_fake
def _(x, value):
    return None


@fill.register_fake
def _(x, value):
    return None


# --8<-- [start:sum_of_filled]
def sum_of_filled(fill):
    def function(x):
        filled = x + 0
        fill(filled, 7.0)
        return filled.sum()

    return function
# --8<-- [end:sum_of_filled]


# --8<-- [start:no_fake]
@custom_op("course::no_fake", mutates_args=())
def no_fake(x: Tensor, weight: Tensor) -> Tensor:
    return plain(x, weight)
# --8<-- [end:no_fake]


# --8<-- [start:aliased]
@custom_op("course::aliased", mutates_args=())
def aliased(x: Tensor) -> Tensor:
    return x
# --8<-- [end:aliased]


@triton_op("course::aliased_named", mutates_args=())
def aliased_named(x: Tensor) -> Tensor:
    return x


# --8<-- [start:tuned]
CONFIGS = [triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def tuned_kernel(x_ptr, value, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, value, mask=i < n)


def tuned(x: Tensor) -> None:
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    tuned_kernel[grid](x, 1.0, x.numel())
# --8<-- [end:tuned]


# --8<-- [start:hooked]
def zero(arguments):
    arguments["x_ptr"].zero_()


@triton.autotune([triton.Config({"BLOCK": 256}, pre_hook=zero)], key=["n"])
@triton.jit
def hooked_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i, 1.0, mask=i < n)
# --8<-- [end:hooked]


# --8<-- [start:cleared]
@triton.autotune(CONFIGS, key=["n"], reset_to_zero=["x_ptr"])
@triton.jit
def cleared_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i, 1.0, mask=i < n)


@triton.autotune(CONFIGS, key=["n"], restore_value=["x_ptr"])
@triton.jit
def restored_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i, 1.0, mask=i < n)
# --8<-- [end:cleared]


def hooked(x: Tensor) -> Tensor:
    hooked_kernel[(1,)](x, x.numel())
    return x + 0


def cleared(x: Tensor) -> Tensor:
    cleared_kernel[(1,)](x, x.numel())
    return x + 0


def restored(x: Tensor) -> Tensor:
    restored_kernel[(1,)](x, x.numel())
    return x + 0


def capture(call, *inputs) -> str:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(*inputs)
    return "captured"


WHY = re.compile(
    r"There was no fake impl[^.]*\.|The output of this custom operator .* other returns\.|pre_hook and post_hook.*"
    r"|operation .* captur\w+"
)


def outcome(call) -> str:
    """Return the result of a call, or the kind of its error and the sentence in it that says why."""
    try:
        return str(call())
    except Exception as error:
        return told(error)


def told(error: BaseException) -> str:
    found = WHY.search(str(error))
    return f"{type(error).__name__}: {found[0] if found else str(error).strip().splitlines()[0]}"


def errors(call) -> tuple[str, str]:
    """Return of a call's traceback the first error, and the last, which came while the first was handled."""
    try:
        call()
    except Exception as last:
        first = last
        while first.__context__:
            first = first.__context__
        return told(first), told(last)
    return "none", "none"


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile runs Triton only on one")
    x = torch.zeros(10, device="cuda")
    rows, weight = torch.ones(4, 8, device="cuda"), torch.ones(8, device="cuda")
    compiled = lambda function: torch.compile(function, fullgraph=True)
    cases = {
        "no fake, eager": lambda: tuple(no_fake(rows, weight).shape),
        "no fake, compiled": lambda: tuple(compiled(no_fake)(rows, weight).shape),
        "mutation not declared, eager": lambda: sum_of_filled(fill_undeclared)(x).item(),
        "mutation not declared, compiled": lambda: compiled(sum_of_filled(fill_undeclared))(x).item(),
        "mutation declared, compiled": lambda: compiled(sum_of_filled(fill))(x).item(),
        "mutation not declared, triton_op, compiled": lambda: compiled(sum_of_filled(fill_named_undeclared))(x).item(),
        "mutation by a plain launch, compiled": lambda: compiled(sum_of_filled(fill_plainly))(x).item(),
        "the result is an input": lambda: aliased(x),
        "the result is an input, triton_op": lambda: aliased_named(x).sum().item(),
        "the result is an input, triton_op, compiled": lambda: compiled(lambda x: aliased_named(x) + 1)(x)[0].item(),
        "a hook, compiled": lambda: compiled(hooked)(x).tolist(),
        "reset_to_zero, compiled, a 1 added to 0": lambda: compiled(cleared)(torch.zeros_like(x))[0].item(),
        "restore_value, compiled, a 1 added to 5": lambda: compiled(restored)(torch.full_like(x, 5))[0].item(),
        "tuned before the capture": lambda: (tuned(x), capture(tuned, x))[1],
    }
    for name, call in cases.items():
        torch._dynamo.reset()
        print(f"{name}: {outcome(call)}")
    x = torch.zeros(20, device="cuda")  # a key that is new to the tuner
    for name, said in zip(("first", "last"), errors(lambda: capture(tuned, x)), strict=True):
        print(f"tuned within the capture, the {name} error: {said}")
    random = lambda: torch.rand(1, device="cuda").item() < 1
    print(f"after it, the same call outside of a capture: {outcome(lambda: tuned(x) or 'tuned')}")
    print(f"after it, torch.rand: {outcome(random)}")
    print(f"after it, captured once more: {outcome(lambda: capture(tuned, x))}")
    print(f"after that, torch.rand: {outcome(random)}")


if __name__ == "__main__":
    main()
