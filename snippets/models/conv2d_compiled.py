# SPDX-License-Identifier: Apache-2.0
"""What becomes of the convolution of ``conv2d.py`` on an H100 or H200, by the compiler's word: it takes no GPU.

A 3 × 3 convolution as ResNets have it, 32 pictures of 28 × 28 pixels from 128 channels to 128, is compiled for each
dtype, with the channels of a pixel next to each other and with a plane for each channel. Of each are printed registers
and spilled values of a thread, bytes of shared memory of a program, the instruction that multiplies, and how wide the
loads of the loop are. Nothing is run, so this says nothing about its speed.

Source: ``triton.compile``; NVIDIA's ``cuobjdump``, which comes with Triton.

Run it with ``python conv2d_compiled.py``.
"""

import re

import torch
import triton
from triton.compiler import ASTSource

from snippets.compiler.other_gpus import GPUS, read
from snippets.models.conv2d import blocks_of, conv2d_kernel, options_of

TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
LAYOUTS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
PICTURES, CHANNELS, SIDE, FILTER = 32, 128, 28, 3
COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (0x\w+|\d+)")  # its bytes


# --8<-- [start:compile]
def compiled(dtype: torch.dtype, layout: torch.memory_format):
    """Compile what ``conv2d`` would launch for tensors in a layout: strides of 1 as constants, and so on."""
    given = lambda *shape: torch.empty(shape, device="meta").to(memory_format=layout)
    x = given(PICTURES, CHANNELS, SIDE, SIDE)
    weight = given(CHANNELS, CHANNELS, FILTER, FILTER)
    sizes = PICTURES, CHANNELS, SIDE, SIDE, CHANNELS, SIDE, SIDE, 1, 1  # N, C, H, W, F, P, Q, stride, padding
    names = conv2d_kernel.arg_names
    numbers = dict(zip(names[3:-5], (*sizes, *x.stride(), *weight.stride(), *x.stride()), strict=True))
    blocks = blocks_of(dtype, PICTURES * SIDE * SIDE, CHANNELS, CHANNELS)
    constants = dict(zip(names[-5:], (FILTER, FILTER, *blocks), strict=True))
    constants |= {name: 1 for name, number in numbers.items() if number == 1}
    signature = dict.fromkeys(names[:3], f"*{TYPES[dtype]}") | dict.fromkeys(numbers, "i32")
    signature |= dict.fromkeys(constants, "constexpr")
    aligned = [i for i, name in enumerate(names) if i < 3 or numbers.get(name, 1) % 16 == 0]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    source = ASTSource(conv2d_kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUS["H200"].target, options=options_of(*blocks[:2]))
# --8<-- [end:compile]


def copies(ptx: str) -> str:
    """Say how many bytes one copy to shared memory has, or that a load goes by registers instead, for each width found.

    >>> copies("cp.async.cg.shared.global [%r1], [%rd2], 0x10, 0x10;")
    '16 bytes'
    >>> copies("ld.global.b16 { %rs1 }, [ %rd1 + 0 ];")
    '2 bytes, by registers'
    """
    found = {f"{int(size, 0)} bytes" for size in COPY.findall(ptx)}
    for vector, bits in re.findall(r"ld\.global\.(?:v(\d)\.)?b(\d+)", ptx):
        found.add(f"{int(vector or 1) * int(bits) // 8} bytes, by registers")
    return " and ".join(sorted(found))


def main():
    numbers = []
    print(f"## {FILTER} × {FILTER}, {PICTURES} × {CHANNELS} × {SIDE} × {SIDE}, {CHANNELS} filters")
    print(f"{'memory format':<15}{'dtype':<9}{'registers':>9}{'spills':>8}{'shared':>8}  {'product':<10}  a load")
    for layout, memory in LAYOUTS.items():
        for dtype in TYPES:
            made = compiled(dtype, memory)
            name, code = str(dtype).removeprefix("torch."), read(made)
            row = f"{layout:<15}{name:<9}{code.registers:>9}{code.spills:>8}{code.shared:>8,}  {code.product:<10}"
            print(f"{row}  {copies(made.asm['ptx'])}", flush=True)
            for what in ("registers", "spills", "shared"):
                numbers.append(f"{layout}, {name}, {what}: {getattr(code, what)}")
    print("## as numbers", *numbers, sep="\n")


if __name__ == "__main__":
    main()
