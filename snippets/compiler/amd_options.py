# SPDX-License-Identifier: Apache-2.0
"""What the options of a launch do on an AMD GPU, by the compiler's word: it takes none of them to compile for one.

A matrix product in float16 is compiled for an MI300X with one option changed at a time: ``num_stages``, ``num_warps``,
and two that only AMD's backend has, ``matrix_instr_nonkdim`` and ``waves_per_eu``. An AMD GPU calls a warp a *wave*; it
has 64 threads.

Units: registers of a thread; spilled values of 4 bytes of a thread; waves that a quarter of a multiprocessor can hold,
by registers alone; bytes of shared memory of a program; threads of a program.
Source: Triton, ``backends/amd/compiler.py``; the rest is the compiler's.

Run it with ``python amd_options.py``.
"""

import re
from typing import NamedTuple

from snippets.compiler.other_gpus import GPUS, LARGE_TILE, by_pointers, compiled

MI300X = GPUS["MI300X"]
TILE = LARGE_TILE | {"BLOCK_N": 128}
WAVE = 64  # threads

# --8<-- [start:options]
OPTIONS = {
    "num_stages": (1, 2, 3),
    "num_warps": (4, 8, 16, 32),
    "matrix_instr_nonkdim": (0, 16, 32),
    "waves_per_eu": (0, 2, 4, 8),
}
DEFAULTS = {"num_warps": 8, "num_stages": 2}
# --8<-- [end:options]


class Made(NamedTuple):
    """What the compiler made of the product."""

    product: str  # the instruction that multiplies
    registers: int
    spills: int
    waves: int
    shared: int
    threads: int  # that a program asks for

    @classmethod
    def by(cls, **options: int) -> "Made":
        """Compile the product with some options."""
        options = DEFAULTS | options
        launch = by_pointers(TILE, options["num_warps"], options["num_stages"])
        code = compiled(MI300X, launch._replace(options=options))
        text = code.asm["amdgcn"]
        number = lambda name: int(re.search(rf"{name}:\s+(\d+)", text)[1])
        return cls(
            re.search(r"v_mfma_\w+", text)[0],
            number(r"\.vgpr_count"),
            number(r"\.vgpr_spill_count"),
            number("; Occupancy"),
            code.metadata.shared,
            options["num_warps"] * WAVE,
        )


def main():
    numbers = []
    for option, values in OPTIONS.items():
        print(f"## {option}")
        heads = ("registers", "spills", "waves", "shared", "threads")
        print(f"{'':>3} {'product':<23}" + "".join(f"{head:>10}" for head in heads))
        for value in values:
            made = Made.by(**{option: value})
            print(f"{value:>3} {made.product:<23}" + "".join(f"{each:>10,}" for each in made[1:]), flush=True)
            numbers += [f"{option} {value}, {name}: {number}" for name, number in zip(heads, made[1:], strict=True)]
    print("## as numbers", *numbers, sep="\n")


if __name__ == "__main__":
    main()
