# SPDX-License-Identifier: Apache-2.0
"""What ``tl.dot_scaled`` becomes: ``scaled_dot.py``, compiled for Hopper and Blackwell without a GPU.

Compiles its kernel for each format, and counts in PTX the instructions of the matrix units in a step along K. Where
these take the scales themselves, their name says so: ``block_scale``.

Source: ``triton.compile``; ``wgmma`` and ``tcgen05.mma`` in NVIDIA's PTX ISA.

Run it with ``python scaled_dot_compiled.py``.
"""

import os
import re
import subprocess
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snippets.models.scaled_dot import GROUP, scaled_dot_kernel

TARGETS = {"sm_90": "Hopper", "sm_100": "Blackwell"}
MATRIX = re.compile(r"^\s*(?:@\S+ )?(wgmma\.mma_async|tcgen05\.mma)([.\w:]*)", re.M)


# --8<-- [start:compile]
def compiled(format: str, target: str) -> str:
    """Return the PTX for a tile of 128 × 128 and steps of 128, whose addresses and strides are multiples of 16."""
    if not isinstance(scaled_dot_kernel, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    packed = 1 if format == "mxfp8" else 2
    constants = {"FORMAT": "e4m3" if packed == 1 else "e2m1", "PACKED": packed, "GROUP": GROUP[format]}
    constants |= {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}
    numbers, scales = "*fp8e4nv" if packed == 1 else "*u8", "*fp8e4nv" if format == "nvfp4" else "*u8"
    types = {"x_ptr": numbers, "w_ptr": numbers, "y_ptr": "*bf16", "x_scales_ptr": scales, "w_scales_ptr": scales}
    types |= {"whole_x_ptr": "*fp32", "whole_w_ptr": "*fp32"} | dict.fromkeys(constants, "constexpr")
    names = scaled_dot_kernel.arg_names
    signature = {name: types.get(name, "i32") for name in names}
    attributes = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name not in constants}
    source = ASTSource(scaled_dot_kernel, signature, constants, attributes)
    options = {"num_warps": 4, "num_stages": 3}
    return triton.compile(source, target=GPUTarget("cuda", int(target[3:]), 32), options=options).asm["ptx"]
# --8<-- [end:compile]


def instructions(ptx: str) -> list[str]:
    """Return the instructions of the matrix units, with what their names say.

    >>> instructions("  @p tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%r1], d;")
    ['tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32']
    """
    return ["".join(found) for found in MATRIX.findall(ptx)]


def main():
    if not isinstance(scaled_dot_kernel, triton.JITFunction):  # interpreted, it compiles nothing: begin again
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        again = [sys.executable, os.path.abspath(__file__)]
        sys.stdout.write(subprocess.run(again, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
        return
    for target, name in TARGETS.items():
        print(f"## {name}")
        for format in GROUP:
            ptx = compiled(format, target)
            found = instructions(ptx)
            (kind,) = set(found)
            print(f"{format}: {len(found)} {kind}")


if __name__ == "__main__":
    main()
