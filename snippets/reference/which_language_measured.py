# SPDX-License-Identifier: Apache-2.0
"""Time one softmax in seven languages, PyTorch's own and that of ``torch.compile``, beside a copy.

The seven were compiled by ``which_language.py``, on a machine without a GPU, to machine code for an H200. Here CUDA's
driver loads and launches that, the same way for all of them, so no language's launcher is in the reading.

Each side runs on the same operands in rotation, all calls in one CUDA graph (``benchmarking_cold.py``).
Shapes: ``x`` ``(ROWS, COLUMNS)``, bfloat16, normally distributed. Units: milliseconds.
Run it on an H200 with ``python which_language_measured.py``, where the variable ``LANGUAGES`` names the folder of what
``which_language.py`` compiled, if that isn't ``.cache/languages``.
"""

import ctypes
import functools
import json
from collections.abc import Callable
from hashlib import sha256

import torch
import triton
from torch import Tensor

from snippets.fusion.long_softmax_measured import check_alike
from snippets.reference.which_language import COLUMNS, COMPILED, COMPILERS, ROWS
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:launch]
def driver(name: str, *arguments) -> None:
    """Call a function of CUDA's driver. Raise ``RuntimeError`` with its number if it fails."""
    if failed := getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments):
        raise RuntimeError(f"{name} failed with {failed}")


def load(name: str) -> Callable[[Tensor], Tensor]:
    """Return a function that launches what a language was compiled to."""
    cubin = (COMPILED / f"{name}.cubin").read_bytes()
    made = json.loads((COMPILED / f"{name}.json").read_text())
    if sha256(cubin).hexdigest() != made["sha256"]:
        raise RuntimeError(f"{name}.cubin is not what its compiler wrote")
    launch = made["launch"]
    torch.cuda.synchronize()  # a context for this thread
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuModuleLoadData", ctypes.byref(module), cubin)
    driver("cuModuleGetFunction", ctypes.byref(function), module, launch["kernel"].encode())

    def run(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        pointers = {"x": x.data_ptr(), "out": out.data_ptr(), "nothing": 0}
        given = [
            ctypes.c_void_p(pointers[each]) if isinstance(each, str) else ctypes.c_int32(each)
            for each in launch["arguments"]
        ]
        places = (ctypes.c_void_p * len(given))(*(ctypes.addressof(each) for each in given))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        sizes = (len(x), 1, 1, launch["threads"], 1, 1, launch["shared"])
        driver("cuLaunchKernel", function, *sizes, stream, places, None)
        return out

    return run
# --8<-- [end:launch]


# --8<-- [start:torch]
@torch.compile(dynamic=False)
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)
# --8<-- [end:torch]


def random() -> list[Tensor]:
    return [torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)]


@functools.cache
def sides() -> dict[str, Callable[[Tensor], Tensor]]:
    in_torch = functools.partial(torch.softmax, dim=1)
    return {name: load(name) for name in COMPILERS} | {"torch.compile": softmax, "PyTorch": in_torch}


@functools.cache
def measure() -> dict[str, Timing]:
    torch.manual_seed(0)
    check_alike(sides(), random(), "PyTorch")
    return compare_in_rotation(sides() | {"copy": torch.clone}, random, rounds=5)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="languages", x_names=["language"], x_vals=[*COMPILERS, "torch.compile", "PyTorch", "copy"],
        line_arg="what", line_vals=["microseconds", "share"], line_names=["microseconds", "share of a copy"],
        xlabel="language", ylabel="µs", args={},
    )
)  # fmt: skip
def languages(language, what):
    """Microseconds: median, fastest and slowest of 5 rounds; and the share of a copy's speed."""
    timing, copy = measure()[language], measure()["copy"]
    if what == "share":
        return copy.median / timing.median
    return 1000 * timing.median, 1000 * min(timing.rounds), 1000 * max(timing.rounds)


def main():
    """Print how far each is from what float64 has, and which machine code it was."""
    torch.manual_seed(0)
    x = random()[0]
    exact = x.double().softmax(1)
    for name, run in sides().items():
        error = ((run(x).double() - exact).abs() / exact).max().item()
        print(f"{name}, largest relative error: {error:.5f}")
    for name in COMPILERS:
        print(f"{name}, digest: {json.loads((COMPILED / f'{name}.json').read_text())['digest']}")


if __name__ == "__main__":
    main()
