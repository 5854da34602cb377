# SPDX-License-Identifier: Apache-2.0
"""One turn of a matrix product's loop on AMD's GPUs, by the compiler's word: it takes none of them to compile for one.

A product in float16, with two stages, is compiled for an MI300X and an MI350X. Printed are the operations of its loop,
from TritonGPU IR, how its tiles lie in shared memory, and how many instructions of each kind the machine code has.

Units: instructions in the machine code, loop and rest together; bytes of shared memory of a program.
Source: the names of instructions are those of AMD's documents on CDNA 3 and CDNA 4.

Run it with ``python amd_loop.py``.
"""

import re
from collections import Counter

from snippets.compiler.other_gpus import GPUS, LARGE_TILE, by_pointers, compiled

TILE = LARGE_TILE | {"BLOCK_N": 128}
OPERATIONS = r"load|dot|local_load|local_store|async_copy_global_to_local|async_wait|in_thread_transpose"
KINDS = r"v_mfma_\w+|global_load_\w+|ds_read\w*|ds_write\w*|s_barrier"


# --8<-- [start:loop]
def turn(ttgir: str) -> list[str]:
    """Return the operations of the first loop, each with the tile that it is for: a, b, or none.

    >>> turn("%1 = scf.for %k = …\\n %a_3 = tt.load %p\\n %s_4 = tt.dot %x\\n ttg.local_store %a_3, %m\\n scf.yield")
    ['load a', 'dot', 'local_store a']
    """
    (loop,) = re.findall(r"scf\.for\b(.*?)scf\.yield", ttgir, re.S)[:1]
    found = re.findall(rf"(?:%(\w+) = )?\b(?:tt|ttg|amdg)\.({OPERATIONS})\b(?: %(\w+))?", loop)
    tile = lambda *names: next((f" {name[0]}" for name in names if re.match(r"[ab]_?\d*$", name)), "")
    of_both = ("dot", "async_wait")
    # A store has no result: it is called by what it stores.
    return [name if name in of_both else name + tile(result, operand) for result, name, operand in found]
# --8<-- [end:loop]


def layouts(ttgir: str) -> list[str]:
    """Return how tiles lie in shared memory, as the compiler writes it, without the bits of a padded layout."""
    found = re.findall(r"^#shared\d* = #ttg\.(\w+<.+>)$", ttgir, re.M)
    return [re.sub(r"\{offset = .*(?=\}>)", "{…", layout) for layout in found]


def instructions(amdgcn: str) -> Counter:
    """Count the instructions that multiply, load, go through shared memory or wait for others."""
    return Counter(re.findall(rf"^\s+({KINDS})\b", amdgcn, re.M))


def main():
    for name in ("MI300X", "MI350X"):
        made = compiled(GPUS[name], by_pointers(TILE, num_warps=8, num_stages=2))
        print(f"## {name}")
        print("\n".join(turn(made.asm["ttgir"])))
        print(f"## {name}, layouts")
        print("\n".join(layouts(made.asm["ttgir"])))
        print(f"## {name}, instructions")
        for each, count in sorted(instructions(made.asm["amdgcn"]).items()):
            print(f"{name}, {each}: {count}")
        print(f"{name}, shared memory: {made.metadata.shared:,} bytes")


if __name__ == "__main__":
    main()
