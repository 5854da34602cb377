# SPDX-License-Identifier: Apache-2.0
"""A GPU that is newer than ptxas, and the two programs of that name which Triton brings. It needs no GPU.

Triton's compiler ends with PTX, and NVIDIA's ``ptxas`` makes machine code of it. A ptxas that is older than the GPU
doesn't know its name. Compiled here for five generations: as Triton does it, and with its older ptxas for all of them,
which is what an older wheel has.

Run it with ``python ptxas_bug.py``.
Source: Triton, ``backends/nvidia/compiler.py``; the error was reported in
https://github.com/triton-lang/triton/issues/8539.
"""

import contextlib
import io
import os
import re
import subprocess
import textwrap

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

WIDTH = 72  # of what is printed
GPUS = {
    "A100": 80,
    "H100 and H200": 90,
    "B200": 100,
    "RTX 50": 120,
    "DGX Spark": 121,
}


@triton.jit
def fill_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)


# --8<-- [start:compile]
def compiled_for(capability: int) -> str:
    """Compile for a GPU that needn't be here, and say what came of it."""
    source = ASTSource(
        fill_kernel,
        signature={"out_ptr": "*fp32", "BLOCK": "constexpr"},
        constexprs={(1,): 128},
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # all of the PTX
            triton.compile(source, target=GPUTarget("cuda", capability, 32))
    except Exception as error:
        return str(error)
    return "compiled"
# --8<-- [end:compile]


def release(ptxas: str) -> str:
    said = subprocess.check_output([ptxas, "--version"], text=True)
    return re.search(r"release ([\d.]+)", said)[1]


def said_by_ptxas(outcome: str) -> str:
    """Return the line in which ptxas says what is wrong, of all that Triton says about it."""
    fatal = re.search(r"(?m)^.*ptxas fatal.*$", outcome)
    return re.sub(r"\s+", " ", fatal[0]).strip() if fatal else outcome


def main():
    knobs.compilation.always_compile = True
    older, newer = knobs.nvidia.ptxas.path, knobs.nvidia.ptxas_blackwell.path
    for name, program in {"as Triton does it": newer, "by the older ptxas": older}.items():
        print(f"## {name}")
        print(f"ptxas: of CUDA {release(older)} up to the H200, of {release(program)} after it")
        os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = program
        said = {f"{gpu}, sm_{number}": said_by_ptxas(compiled_for(number)) for gpu, number in GPUS.items()}
        for gpu, outcome in said.items():
            print(textwrap.fill(f"{gpu}: {outcome}", WIDTH, subsequent_indent="  "))
        print(f"compiled {name}: {list(said.values()).count('compiled')}")


if __name__ == "__main__":
    main()
