# SPDX-License-Identifier: Apache-2.0
"""What the copies of ``gluon_copy.py`` are compiled to for an H200, without one: the width of loads by layout.

Counted are the instructions of one program, in PTX. A load of ``v4.b32`` is four times 32 bits: 16 bytes for each
thread.

Run it with ``python gluon_copy_compiled.py``; it needs no GPU.
"""

import os
import re
import subprocess
import sys
from collections import Counter

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from snippets.below.gluon_copy import BLOCK, LAYOUTS, TILE, copy_in_gluon, copy_in_triton, row, tiles_kernel

H200 = GPUTarget("cuda", 90, 32)
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "int8": "i8"}
BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}


# --8<-- [start:compile]
def compiled(kernel, types: dict[str, str], num_warps: int = 4, **constants):
    """Compile a kernel for an H200, as a launch with aligned tensors and sizes would; return what comes of it."""
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    aligned = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in types}
    source = (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, constants, aligned)
    return triton.compile(source, target=H200, options={"num_warps": num_warps})
# --8<-- [end:compile]


def copied(dtype: str, per_thread: int):
    """Compile the copy of elements in a row."""
    pointer = f"*{DTYPES[dtype]}"
    types = {"x_ptr": pointer, "out_ptr": pointer, "n": "i32"}
    return compiled(copy_in_gluon, types, BLOCK=BLOCK, LAYOUT=row(per_thread))


def tiled(load: str, store: str, transposed: bool):
    """Compile the copy in tiles, of float32: into rows, or into a matrix whose columns lie one after another."""
    strides = {"x_stride_n": 1, "out_stride_m" if transposed else "out_stride_n": 1}
    types = {name: "*fp32" if name.endswith("ptr") else "i32" for name in tiles_kernel.arg_names[:8]}
    types = {name: kind for name, kind in types.items() if name not in strides}
    return compiled(tiles_kernel, types, TILE=TILE, LOAD=LAYOUTS[load], STORE=LAYOUTS[store], **strides)


def width(kind: str) -> int:
    """Return the bytes of a load or store of such a type.

    >>> width("v4.b32"), width("b16")
    (16, 2)
    """
    *vector, scalar = kind.split(".")
    return (int(vector[0][1:]) if vector else 1) * BYTES[scalar]


def accesses(ptx: str, of: str) -> Counter:
    """Count the loads, or stores, of PTX, by their bytes; ``of`` is "ld.global" and the like.

    >>> accesses("@p ld.global.v4.b32 {…}; ld.global.v4.b32 {…}; ld.global.b32 {…};", "ld.global")
    Counter({16: 2, 4: 1})
    """
    return Counter(map(width, re.findall(rf"\b{re.escape(of)}\.((?:v\d\.)?b\d+)", ptx)))


def said(counted: Counter) -> str:
    """Say it in words.

    >>> said(Counter({16: 8}))
    '8 x 16 bytes'
    """
    return ", ".join(f"{count} x {size} byte{'s' * (size > 1)}" for size, count in counted.items()) or "none"


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.gluon_copy_compiled"], env=without, check=True)
        return
    print("## loads of a thread")
    for dtype in DTYPES:
        for per_thread in (1, 2, 4, 8, 16):
            loads = accesses(copied(dtype, per_thread).asm["ptx"], "ld.global")
            print(f"{dtype}, {per_thread} for each thread: {said(loads)}")
    print("## what Triton chooses")
    for dtype, name in DTYPES.items():
        types = {"x_ptr": f"*{name}", "out_ptr": f"*{name}", "n": "i32"}
        code = compiled(copy_in_triton, types, BLOCK=BLOCK).asm
        layout = re.search(r"#ttg\.blocked<\{(.+?)\}>", code["ttgir"])[1]
        print(f"{dtype}: {layout}; loads: {said(accesses(code['ptx'], 'ld.global'))}")
    print("## tiles")
    for transposed in (False, True):
        for load in LAYOUTS:
            for store in LAYOUTS:
                code = tiled(load, store, transposed)
                counts = {of: said(accesses(code.asm["ptx"], of)) for of in
                          ("ld.global", "st.shared", "ld.shared", "st.global")}  # fmt: skip
                print(
                    f"{'transposed' if transposed else 'as it is'}, {load} to {store}: loads {counts['ld.global']}, "
                    f"stores {counts['st.global']}; into shared memory {counts['st.shared']}, out of it "
                    f"{counts['ld.shared']}, barriers {code.asm['ptx'].count('bar.sync')}"
                )


if __name__ == "__main__":
    main()
