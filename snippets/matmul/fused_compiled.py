# SPDX-License-Identifier: Apache-2.0
"""Show what an epilogue is in compiled code: instructions for a number by activation, registers by parts of a tile.

Compiles kernels of ``fused.py`` for an H100 or H200 (sm_90), which needs no GPU, and counts.

Units: machine instructions for each number that is bent; of these, those of the special function unit, of which a
multiprocessor starts 16 a cycle, and of all kinds together at most 128. Registers and spilled values of 4 bytes are a
thread's, bytes of shared memory a program's; how many programs fit is on an H100 or H200.
Source: ``triton.compile``; NVIDIA's ``nvdisasm`` and ``cuobjdump``, which come with Triton.

Run it with ``python fused_compiled.py``.
"""

import re
import subprocess
import tempfile
from typing import NamedTuple

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snippets.gpu.schedule_occupancy import programs_by_limit
from snippets.matmul.fused import ACTIVATIONS, PAIR, Config, activate, linear_kernel

HOPPER = GPUTarget("cuda", 90, 32)


# --8<-- [start:bend]
@triton.jit
def activate_plainly(x, ACTIVATION: tl.constexpr):
    """Apply an activation as ``activate`` does, but written as the formulas are usually given."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))  # 1 / sqrt(2)
    elif ACTIVATION == "gelu_tanh":  # (1 + tanh(y)) / 2 is sigmoid(2 * y)
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 2 * sqrt(2 / pi)
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def bend_kernel(x_ptr, out_ptr, ACTIVATION: tl.constexpr, PLAINLY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, activate_plainly(x, ACTIVATION) if PLAINLY else activate(x, ACTIVATION))


def instructions(activation: str | None, plainly: bool = False) -> tuple[float, float]:
    """Return instructions for a number, and those of them that the special function unit runs.

    Two blocks, of 4 and of 32 numbers a thread, with the activation and without: what is left of the differences.
    """
    counts = {}
    for name in (None, activation):
        for numbers in (4, 32):
            constants = {"ACTIVATION": name, "PLAINLY": plainly, "BLOCK": 128 * numbers}
            made = compiled(bend_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32"}, constants, num_warps=4)
            sass = said(knobs.nvidia.nvdisasm, "--print-code", made)
            code = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z]\w*)", sass)
            counts[name, numbers] = len(code) - code.count("NOP"), code.count("MUFU")  # NOP: to fill up the last line
    more = lambda name, kind: (counts[name, 32][kind] - counts[name, 4][kind]) / 28
    return more(activation, 0) - more(None, 0), more(activation, 1)
# --8<-- [end:bend]


# --8<-- [start:parts]
class Code(NamedTuple):
    """The result of compiling one config."""

    registers: int
    spilled: int
    shared: int


def in_parts(config: Config, activation: str) -> Code:
    """Compile ``linear_kernel`` in bfloat16, with a bias, and count."""
    tile = lambda *block: f"tensordesc<bf16{list(block)}>"
    constants = {
        "ACTIVATION": activation, "DESCRIBED": True, "BLOCK_M": config.block_m, "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k, "PARTS": config.parts, "GROUP_M": config.group_m,
    }  # fmt: skip
    types = {
        "x": tile(config.block_m, config.block_k), "weight": tile(config.block_n, config.block_k), "bias": "*bf16",
        "out": tile(config.block_m, config.block_n // config.parts), "M": "i32", "N": "i32", "K": "i32",
    }  # fmt: skip
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    made = compiled(linear_kernel, types, constants, **options)
    usage = said(knobs.nvidia.cuobjdump, "--dump-resource-usage", made)
    number = lambda name: int(re.search(rf"\b{name}:(\d+)", usage)[1])
    return Code(number("REG"), (number("STACK") + number("LOCAL")) // 4, made.metadata.shared)
# --8<-- [end:parts]


def compiled(kernel, types: dict, constants: dict, **options):
    """Compile a kernel whose pointers and numbers are multiples of 16."""
    if not isinstance(kernel, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    names = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    sixteens = [(i,) for i, name in enumerate(names) if types.get(name, "t")[0] in "*i"]
    source = ASTSource(kernel, signature, constants, attrs={i: [["tt.divisibility", 16]] for i in sixteens})
    return triton.compile(source, target=HOPPER, options=options)


def said(tool, option: str, made) -> str:
    """Return what one of NVIDIA's tools says about a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        return subprocess.run([tool.path, option, file.name], capture_output=True, text=True, check=True).stdout


# --8<-- [start:main]
def main():
    print("## instructions for a number")
    for activation in ACTIVATIONS:
        for label, plainly in (("", False), (" plainly", True)):
            all_, special = instructions(activation, plainly)
            print(f"{activation}{label}, instructions: {all_:.0f}")
            print(f"{activation}{label}, special: {special:.0f}")
    print("## a tile in parts")
    for parts in (1, 2, 4):
        code = in_parts(PAIR._replace(parts=parts), "gelu")
        limits = programs_by_limit(num_warps=PAIR.num_warps, registers=code.registers, shared=code.shared)
        for what, number in (code._asdict() | {"fit": min(limits.values())}).items():
            print(f"parts {parts}, {what}: {number}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
