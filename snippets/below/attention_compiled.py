# SPDX-License-Identifier: Apache-2.0
"""What attention in Gluon is compiled to for an H200, without one: in which order products, exponentials and waits are.

Counted in SASS, the machine code, from top to bottom: ``HGMMA``, which is wgmma, ``MUFU.EX2``, an exponential for each
thread of a warp, and ``WARPGROUP.DEPBAR``, which waits until no more than so many products are in flight.

Run it with ``python attention_compiled.py``; it needs no GPU.
"""

import os
import re
import subprocess
import sys
from itertools import groupby

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from snippets.below import attention
from snippets.below.attention_bug import landing_kernel

KERNELS = {
    "one after another": attention.waiting_kernel,
    "in flight": attention.flying_kernel,
    "landed first": landing_kernel,
}
EVENT = re.compile(r"\b(?:(HGMMA)\.|(MUFU\.EX2)\b|WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d))")


# --8<-- [start:compile]
def sass(kernel) -> str:
    """Compile a kernel for heads of 128 columns, and return its machine code."""
    memory = torch.empty(attention.BLOCK * 128 + 8, dtype=torch.bfloat16)
    memory = memory[-memory.data_ptr() % 16 // 2 :][: attention.BLOCK * 128]
    x = memory.view(1, 1, attention.BLOCK, 128)
    described = attention.describe(x, x, x, x, rows=attention.BLOCK, keys=attention.KEYS)
    types = {name: each.__mangle__() for name, each in zip(("q", "k", "v", "out"), described, strict=True)}
    constants = {"FACTOR": 0.1275, "CAUSAL": False, "BUFFERS": attention.BUFFERS}
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
    source = GluonASTSource(kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm["sass"]
# --8<-- [end:compile]


def order(code: str) -> list[str]:
    """Return what happens, in order, as often as it follows itself.

    >>> order("HGMMA.64x128x16 R24 ; HGMMA.64x128x16 R24 ; WARPGROUP.DEPBAR.LE gsb0, 0x1 ; MUFU.EX2 R1 ;")
    ['2 wgmma', 'wait 1', '1 exp2']
    """
    names = {"HGMMA": "wgmma", "MUFU.EX2": "exp2"}
    found = [names.get(match[match.lastindex], f"wait {match[3]}") for match in EVENT.finditer(code)]
    runs = [(name, len(list(run))) for name, run in groupby(found)]
    return [name if name.startswith("wait") else f"{number} {name}" for name, number in runs]


def step_of(found: list[str]) -> list[str]:
    """Return what happens in the loop: without what stands before and behind it, if both products are issued at once.

    >>> step_of(["8 wgmma", "wait 0", "16 wgmma", "wait 1", "6 exp2", "wait 0", "60 exp2", "8 wgmma", "wait 0"])
    ['16 wgmma', 'wait 1', '6 exp2', 'wait 0', '60 exp2']
    """
    return found[found.index("16 wgmma") : -2] if "16 wgmma" in found else found


def exponentials(found: list[str]) -> int:
    """
    >>> exponentials(["16 wgmma", "6 exp2", "wait 0", "60 exp2"])
    66
    """
    return sum(int(each.split()[0]) for each in found if each.endswith("exp2"))


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.attention_compiled"], env=without, check=True)
        return
    steps = {name: step_of(order(sass(kernel))) for name, kernel in KERNELS.items()}
    print("## a step")
    for name, step in steps.items():
        print(f"{name}: {', '.join(step)}")
    print("## counted")
    landed = steps["landed first"]
    print(f"exponentials: {exponentials(landed)}")
    print(f"after the wait for the values: {exponentials(landed[landed.index('wait 0') :])}")


if __name__ == "__main__":
    main()
