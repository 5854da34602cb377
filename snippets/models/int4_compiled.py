# SPDX-License-Identifier: Apache-2.0
"""How many machine instructions unpacking takes: the loop of ``int4.py``, compiled for an H100 or H200 without a GPU.

Compiles the kernel for few rows of bfloat16 and groups of 128, with numbers unpacked in pairs and one by one, and
counts the instructions of its loop: all of them, and those that convert a whole number to floating point, I2F. A turn
of the loop takes ``BLOCK_N`` × 128 numbers, which the threads of its warps share evenly.

Units: instructions of a thread, by its numbers.
Source: ``triton.compile``; NVIDIA's ``nvdisasm``, which comes with Triton.

Run it with ``python int4_compiled.py``.
"""

import os
import re
import subprocess
import sys

import triton
from triton import knobs
from triton.compiler import ASTSource

from snippets.matmul.fused_compiled import HOPPER, said
from snippets.models.int4 import TILES, int4_kernel


# --8<-- [start:compile]
def compiled(rows: int, bits: int, pairs: bool):
    """Compile for a product of up to so many rows, whose addresses and strides are multiples of 16."""
    if not isinstance(int4_kernel, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    rows, block_n, warps, stages, _ = TILES[rows]
    constants = {"BITS": bits, "GROUP": 128, "PAIRS": pairs, "SPLIT": True, "ROWS": rows, "BLOCK_N": block_n}
    constants |= {"BLOCK": 128, "row_tiles": 1}
    types = {"x_ptr": "*bf16", "words_ptr": "*i16", "scales_ptr": "*i32", "y_ptr": "*bf16"}
    types |= {"partial_ptr": "*fp32", "count_ptr": "*i32"} | dict.fromkeys(constants, "constexpr")
    names = int4_kernel.arg_names
    signature = {name: types.get(name, "i32") for name in names}
    aligned = [i for i, name in enumerate(names) if signature[name][0] == "*" or name in ("N", "stride_x")]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    kernel = ASTSource(int4_kernel, signature, constants, attributes)
    return triton.compile(kernel, target=HOPPER, options={"num_warps": warps, "num_stages": stages})
# --8<-- [end:compile]


# --8<-- [start:loop]
def longest_loop(sass: str) -> list[str]:
    """Return the names of the instructions of the longest loop.

    >>> longest_loop('''.L_x_1:
    ... /*0010*/ I2F R24, R2 ;
    ... /*0020*/ @!P0 BRA `(.L_x_1) ;''')
    ['I2F', 'BRA']
    """
    labels, names, found = {}, [], []
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(names)
        elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z]\w*)(.*)", line):
            names.append(match[1])
            target = re.search(r"`\((\.L_x_\d+)\)", match[2]) if match[1] == "BRA" else None
            if target and target[1] in labels:
                found = max(found, names[labels[target[1]] :], key=len)
    return found
# --8<-- [end:loop]


def main():
    if not isinstance(int4_kernel, triton.JITFunction):  # the interpreter compiles nothing: begin again without it
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        again = [sys.executable, os.path.abspath(__file__)]
        sys.stdout.write(subprocess.run(again, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
        return
    _, block_n, warps, *_ = TILES[8]
    numbers = block_n * 128 / (32 * warps)
    for name, bits, pairs in (("one by one", 4, False), ("in pairs", 4, True), ("8 bits in pairs", 8, True)):
        loop = longest_loop(said(knobs.nvidia.nvdisasm, "--print-code", compiled(8, bits, pairs)))
        print(f"## {name}, of a thread, per number")
        print(f"instructions, {name}: {len(loop) / numbers:.2f}")
        print(f"conversions, {name}: {loop.count('I2F') / numbers:.2f}")


if __name__ == "__main__":
    main()
