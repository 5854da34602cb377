# SPDX-License-Identifier: Apache-2.0
"""Show what ``num_warps`` and ``num_stages`` change in compiled code: registers, spills, shared memory, loads ahead.

Compiles the kernel of ``autotuned.py`` for an H100 or H200 (sm_90), which needs no GPU, and counts. The arguments are
as in a product of 4096 x 4096 x 4096 in bfloat16: all multiples of 16, and the matrices row after row.

Units: registers and spilled values of 4 bytes are a thread's, bytes of shared memory a program's; instructions are
counted as they stand in the PTX, so one in a loop counts once.
Source: ``triton.compile``; NVIDIA's ``cuobjdump``, which comes with Triton.

Run it with ``python autotuned_compiled.py``.
"""

import re
import subprocess
import tempfile
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snippets.matmul.autotuned import brief, config, matmul_kernel

TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


class Code(NamedTuple):
    """The result of compiling one config."""

    registers: int
    spilled: int
    shared: int
    copies: int  # cp.async
    products: int  # wgmma.mma_async


# --8<-- [start:compile]
def compile_for(c: triton.Config, dtype: torch.dtype = torch.bfloat16, capability: int = 90) -> Code:
    """Compile ``matmul_kernel`` with this config for a compute capability, such as 90 for 9.0, and count.

    Raises:
        ValueError: Kernels run in Triton's interpreter, which compiles nothing.
    """
    if not isinstance(matmul_kernel, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    pointers, ones = ("a_ptr", "b_ptr", "c_ptr"), ("stride_ak", "stride_bn", "stride_cn")
    constants = {"K_EVEN": True, "PRECISION": "tf32", "INDEX": tl.int32, **c.kwargs, **dict.fromkeys(ones, 1)}
    names = matmul_kernel.arg_names
    signature = {n: "constexpr" if n in constants else f"*{TYPES[dtype]}" if n in pointers else "i32" for n in names}
    sixteens = [(i,) for i, name in enumerate(names) if name not in constants and name != "bucket"]
    source = ASTSource(matmul_kernel, signature, constants, attrs={i: [["tt.divisibility", 16]] for i in sixteens})
    options = {"num_warps": c.num_warps, "num_stages": c.num_stages}
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, spilled = usage(made.asm["cubin"])
    ptx = made.asm["ptx"]
    return Code(registers, spilled, made.metadata.shared, ptx.count("cp.async.cg"), ptx.count("wgmma.mma_async"))


def usage(cubin: bytes) -> tuple[int, int]:
    """Return the registers of a thread, and the values of 4 bytes that it spills."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        said = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    number = lambda name: int(re.search(rf"\b{name}:(\d+)", said)[1])
    return number("REG"), (number("STACK") + number("LOCAL")) // 4
# --8<-- [end:compile]


# --8<-- [start:main]
def main():
    found = {}
    for title, tried in (
        ("num_stages", [config(128, 256, 64, warps=8, stages=s) for s in range(1, 6)]),
        ("num_warps", [config(128, 256, 64, warps=w, stages=3) for w in (4, 8, 16)]),
        ("smaller", [config(128, 128, 64, warps=w, stages=3) for w in (4, 8)]),
        ("two warps", [config(64, 64, 64, warps=w, stages=3) for w in (2, 4)]),
    ):
        print(f"## {title}")
        print(f"{'config':20} registers  spilled  shared (bytes)  cp.async  wgmma")
        for c in tried:
            found[brief(c)] = code = compile_for(c)
            counts = f"{code.registers:9} {code.spilled:8} {code.shared:15,} {code.copies:9} {code.products:6}"
            print(f"{brief(c):20} {counts}")
    print("## one number a line")
    for name, code in found.items():
        for what, number in code._asdict().items():
            print(f"{name} {what}: {number}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
