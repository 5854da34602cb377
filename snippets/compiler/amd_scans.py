# SPDX-License-Identifier: Apache-2.0
"""What sums, scans and sorts of a block become on AMD's GPUs, by the compiler's word: it takes none of them.

Each is of a block of 1,024 float32 in 4 warps, and compiled for an MI300X, for an MI350X and, beside them, for an
H200. Lanes need the numbers of other lanes. Counted is how they get them: within a warp by instructions that move
numbers between its lanes, between warps through shared memory, with a barrier.

Units: instructions in the machine code, in PTX for the H200; bytes of shared memory of a program.
Source: the names of instructions are those of AMD's documents on CDNA 3 and CDNA 4.

Run it with ``python amd_scans.py``.
"""

import re

import triton
import triton.language as tl

from snippets.compiler.other_gpus import GPUS, Launch, compiled

BLOCK, WARPS = 1024, 4


# --8<-- [start:kernels]
@triton.jit
def farther(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@triton.jit
def in_turn(gain, state, next_gain, next_state):
    return gain * next_gain, state * next_gain + next_state


@triton.jit
def block_kernel(x_ptr, out_ptr, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if WHAT == "tl.sum":
        tl.store(out_ptr, tl.sum(x, axis=0))
    elif WHAT == "tl.reduce":
        tl.store(out_ptr, tl.reduce(x, 0, farther))
    elif WHAT == "tl.argmax":
        tl.store(out_ptr, tl.argmax(x, axis=0))
    elif WHAT == "tl.cumsum":
        tl.store(out_ptr + i, tl.cumsum(x, axis=0))
    elif WHAT == "tl.associative_scan":
        _, state = tl.associative_scan((x, x), 0, in_turn)
        tl.store(out_ptr + i, state)
    elif WHAT == "tl.sort":
        tl.store(out_ptr + i, tl.sort(x))
# --8<-- [end:kernels]


OPERATIONS = ("tl.sum", "tl.reduce", "tl.argmax", "tl.cumsum", "tl.associative_scan", "tl.sort")
WAYS = {
    "DPP": r"v_\w+_dpp",
    "ds_bpermute": r"ds_bpermute_b32",
    "permlane": r"v_permlane\w+",
    "shfl": r"shfl\.sync\.\w+",
    "shared": r"ds_(?:read|write)2?_b\d+|(?:ld|st)\.shared\S*",
    "barriers": r"s_barrier|bar(?:rier)?\.sync",
}


OF_AMD, OF_NVIDIA = ("DPP", "ds_bpermute", "permlane"), ("shfl",)
OF_ALL = ("shared", "barriers")


# --8<-- [start:count]
def moves(code: str) -> dict[str, int]:
    """Count the instructions by which lanes get numbers of others.

    >>> moves("  v_add_f32_dpp v1, v1, v1 row_shr:8\\n  ds_bpermute_b32 v2, v3, v1\\n  s_barrier\\n")
    {'DPP': 1, 'ds_bpermute': 1, 'permlane': 0, 'shfl': 0, 'shared': 0, 'barriers': 1}
    """
    begin = r"^\s*(?:@!?%\w+ )?"  # in PTX, a line may begin with a condition
    return {name: len(re.findall(rf"{begin}(?:{way})\b", code, re.MULTILINE)) for name, way in WAYS.items()}
# --8<-- [end:count]


def moved(gpu: str, operation: str) -> dict[str, int]:
    """Compile an operation for one of ``GPUS``, and count; the bytes of shared memory are ``bytes``."""
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    launch = Launch(block_kernel, types, {"WHAT": operation, "BLOCK": BLOCK}, {"num_warps": WARPS})
    made = compiled(GPUS[gpu], launch)
    return moves(made.asm["ptx" if "ptx" in made.asm else "amdgcn"]) | {"bytes": made.metadata.shared}


def main():
    numbers = []
    for gpu in ("MI300X", "MI350X", "H200"):
        ways = *(OF_AMD if GPUS[gpu].target.backend == "hip" else OF_NVIDIA), *OF_ALL, "bytes"
        width = {way: max(8, len(way) + 2) for way in ways}
        print(f"## {gpu}, warps of {GPUS[gpu].target.warp_size}")
        print(f"{'':<19}" + "".join(f"{way:>{width[way]}}" for way in ways))
        for operation in OPERATIONS:
            found = moved(gpu, operation)
            print(f"{operation:<19}" + "".join(f"{found[way]:>{width[way]},}" for way in ways), flush=True)
            numbers += [f"{gpu}, {operation}, {way}: {found[way]}" for way in ways]
    print("## as numbers", *numbers, sep="\n")


if __name__ == "__main__":
    main()
