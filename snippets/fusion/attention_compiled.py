# SPDX-License-Identifier: Apache-2.0
"""In which order compiled attention multiplies, waits and takes exponentials: its main loop in machine instructions.

Compiles the forward of ``attention.py``, by descriptors, without a mask, with its tiles for bfloat16, for an H100 or
H200 (sm_90), which needs no GPU. From the loop over tiles of keys it keeps three kinds of instructions:

- HGMMA starts a matmul on the matrix units, and does not wait for it;
- WARPGROUP.DEPBAR waits until at most so many groups of matmuls are under way;
- MUFU.EX2 is ``exp2``: one number for each thread of a warp.

In the end it asks what else was possible: tiles by pointers, and no limit of registers.

Units: instructions of a warp; registers of a thread, bytes of shared memory of a program.
Source: ``triton.compile``; NVIDIA's ``nvdisasm`` and ``cuobjdump``, which come with Triton.

Run it with ``python attention_compiled.py``.
"""

import itertools
import re

import torch
import triton
from triton import knobs
from triton.compiler import ASTSource

from snippets.fusion.attention import attention_kernel, default_tile
from snippets.gpu.schedule_occupancy import programs_by_limit
from snippets.matmul.fused_compiled import HOPPER, said

KEPT = "HGMMA", "WARPGROUP.DEPBAR", "MUFU.EX2"


# --8<-- [start:compile]
def compiled(head_dim: int, described: bool = True, limited: bool = True):
    """Compile the forward for lengths of any size, and strides and addresses that are multiples of 16.

    ``described``: by descriptors, else by pointers; ``limited``: keep the tile's limit of registers, if it has one.
    """
    if not isinstance(attention_kernel, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    tile = default_tile(torch.bfloat16, head_dim, described)
    options = {name: tile.pop(name) for name in list(tile) if not name.startswith("BLOCK")}
    if not limited:
        del options["maxnreg"]
    flags = {"SCALE": head_dim**-0.5, "CAUSAL": False, "DESCRIBED": described}
    constants = flags | {"HEAD_DIM": head_dim} | tile
    source = lambda rows: f"tensordesc<bf16[1, 1, {rows}, {head_dim}]>" if described else "*bf16"
    keys = source(tile["BLOCK_K"])
    types = {"q_source": source(tile["BLOCK_Q"]), "k_source": keys, "v_source": keys}
    types |= {"out_ptr": "*bf16", "lse_ptr": "*fp32"} | dict.fromkeys(constants, "constexpr")
    types |= dict.fromkeys(("q_strides", "k_strides", "v_strides", "out_strides"), ("i32",) * 3)
    names = attention_kernel.arg_names
    signature = {name: types.get(name, "i32") for name in names}  # i32: lengths, which it does not specialize on
    sixteens = [(i,) for i, name in enumerate(names) if signature[name][0] == "*"]
    sixteens += [(i, axis) for i, name in enumerate(names) if name.endswith("_strides") for axis in range(3)]
    kernel = ASTSource(attention_kernel, signature, constants, {place: [["tt.divisibility", 16]] for place in sixteens})
    return triton.compile(kernel, target=HOPPER, options=options)
# --8<-- [end:compile]


# --8<-- [start:loop]
def main_loop(sass: str) -> list[str]:
    """Return the instructions of ``KEPT`` in the first loop that multiplies, with what DEPBAR waits for.

    >>> main_loop('''.L_x_1:
    ... /*0010*/ HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], !UPT ;
    ... /*0020*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
    ... /*0030*/ @!P0 BRA `(.L_x_1) ;''')
    ['HGMMA.64x64x16.F32.BF16', 'WARPGROUP.DEPBAR.LE gsb0, 0x0']
    """
    labels, lines = {}, []
    for line in sass.splitlines():
        if found := re.match(r"\s*(\.L_x_\d+):", line):
            labels[found[1]] = len(lines)
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z].*?)\s*;", line):
            lines.append(found[1])
            target = re.match(r"BRA\S* `\((\.L_x_\d+)\)", found[1])
            body = lines[labels[target[1]] :] if target and target[1] in labels else []
            if kept := [each for each in body if each.startswith(KEPT)]:
                return [each if "DEPBAR" in each else each.split()[0] for each in kept]
    raise ValueError("there is no loop that multiplies")
# --8<-- [end:loop]


def registers(made) -> int:
    """Return the registers of a thread of a compiled kernel."""
    return int(re.search(r"\bREG:(\d+)", said(knobs.nvidia.cuobjdump, "--dump-resource-usage", made))[1])


# --8<-- [start:main]
def main():
    for head_dim in (64, 128):
        made = compiled(head_dim)
        print(f"## a step of the main loop, head_dim {head_dim}")
        loop = main_loop(said(knobs.nvidia.nvdisasm, "--print-code", made))
        for instruction, group in itertools.groupby(loop):
            print(f"{len(list(group))} x {instruction}")
        used = registers(made)
        room = programs_by_limit(num_warps=made.metadata.num_warps, registers=used, shared=made.metadata.shared)
        print(f"## what it takes, head_dim {head_dim}")
        for kind, name in zip(KEPT, ("matmuls", "waits", "exponentials"), strict=True):
            print(f"{name} in a step, {head_dim}: {sum(each.startswith(kind) for each in loop)}")
        print(f"registers, {head_dim}: {used}")
        print(f"shared, {head_dim}: {made.metadata.shared}")
        print(f"programs on a multiprocessor, {head_dim}: {min(room.values())}")
    print("## registers otherwise")
    for head_dim in (64, 128):
        made = compiled(head_dim, described=False)
        print(f"warps by pointers, {head_dim}: {made.metadata.num_warps}")
        print(f"registers by pointers, {head_dim}: {registers(made)}")
    print(f"registers by descriptors without a limit, 64: {registers(compiled(64, limited=False))}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
