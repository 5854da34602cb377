# SPDX-License-Identifier: Apache-2.0
"""Compile this course's kernels for other GPUs, which takes none of them, and show what becomes of each.

Of each kernel, as its host function launches it: registers, spills, the bytes of shared memory beside those that the
GPU has, how tiles come to shared memory, and the instruction that multiplies them. That a kernel compiles and fits
does not say that it runs, or how fast.

Units: registers of a thread; spilled values of 4 bytes of a thread; bytes of shared memory of a program.
Source: the sizes of shared memory are those that CUDA's programming guide and ROCm's table of GPUs give; the rest is
the compiler's.

Run it with ``python other_gpus.py``. For a GPU of your own, add it to ``GPUS``.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snippets.matmul import fp8, naive, persistent
from snippets.programs import softmax, vector_add

KIB = 1024


# --8<-- [start:gpus]
class GPU(NamedTuple):
    target: GPUTarget  # what the compiler calls this kind of GPU
    shared: int  # bytes of shared memory that one program may use


GPUS = {
    "H200": GPU(GPUTarget("cuda", 90, 32), 227 * KIB),  # and H100
    "A100": GPU(GPUTarget("cuda", 80, 32), 163 * KIB),
    "RTX 4090": GPU(GPUTarget("cuda", 89, 32), 99 * KIB),
    "T4": GPU(GPUTarget("cuda", 75, 32), 64 * KIB),
    "B200": GPU(GPUTarget("cuda", 100, 32), 227 * KIB),
    "RTX 5090": GPU(GPUTarget("cuda", 120, 32), 99 * KIB),
    "MI300X": GPU(GPUTarget("hip", "gfx942", 64), 64 * KIB),
    "MI350X": GPU(GPUTarget("hip", "gfx950", 64), 160 * KIB),
}
# --8<-- [end:gpus]

MATRIX_UNITS = r"wgmma|tcgen05\.mma|mma\.sync|v_mfma|v_wmma"  # "tensor cores", as NVIDIA calls them
LARGE_TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
NO_PRODUCT = (vector_add.add_kernel, softmax.softmax_kernel)


class Launch(NamedTuple):
    """A kernel, and what the compiler is told of a launch: types by name, constants by name, options."""

    kernel: triton.JITFunction
    types: dict[str, str]
    constants: dict[str, object]
    options: dict[str, int]


class Code(NamedTuple):
    """The result of compiling a launch."""

    registers: int
    spills: int
    shared: int
    product: str  # the instruction that multiplies matrices, or "one by one", or "" where there is no product
    tiles: str  # by what they come to shared memory: "TMA", "cp.async" or "registers"; "" where there is no product
    buffers: int  # for the tiles of so many steps


# --8<-- [start:launches]
def by_pointers(tile: dict[str, int], num_warps: int, num_stages: int) -> Launch:
    """Return the launch of ``matmul`` of ``naive.py`` in float16, its matrices contiguous."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16")
    types |= dict.fromkeys(("M", "N", "K", "stride_am", "stride_bk", "stride_cm"), "i32")
    constants = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1) | tile
    return Launch(naive.matmul_kernel, types, constants, {"num_warps": num_warps, "num_stages": num_stages})


def by_descriptors(config: persistent.Config) -> Launch:
    """Return the launch of ``matmul`` of ``persistent.py`` in float16."""
    m, n, k = config[:3]
    types = {"a": f"tensordesc<fp16{[m, k]}>", "b": f"tensordesc<fp16{[k, n]}>"}
    types |= {"c": f"tensordesc<fp16{[m, n // config.subtiles]}>", "M": "i32", "N": "i32", "K": "i32"}
    constants = {
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": config.group_m, "SUBTILES": config.subtiles,
        "FLATTEN": config.flatten, "A_TRANSPOSED": False, "B_TRANSPOSED": False, "PRECISION": "ieee", "EARLY": False,
    }  # fmt: skip
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return Launch(persistent.matmul_kernel, types, constants, options)


def of_8_bits(config: fp8.Config) -> Launch:
    """Return the launch of ``scaled_matmul`` of ``fp8.py`` with a result in float16 and sums in float32."""
    m, n, k = config.block
    types = {"a_desc": f"tensordesc<fp8e4nv{[m // 2, k]}>", "b_desc": f"tensordesc<fp8e4nv{[n, k]}>"}
    types |= {"c_desc": f"tensordesc<fp16{[m // 2, n // config.parts]}>"}
    types |= dict.fromkeys(("scale_a_ptr", "scale_b_ptr"), "*fp32") | dict.fromkeys(("M", "N", "K"), "i32")
    constants = {
        "stride_scale_a": 1, "stride_scale_b": 1, "FAST": False, "FLATTEN": config.flatten, "PARTS": config.parts,
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": config.group,
    }  # fmt: skip
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return Launch(fp8.scaled_matmul_kernel, types, constants, options)


def launches() -> Iterator[tuple[str, Launch]]:
    """Yield each kernel with its own defaults for large inputs on an H200, all sizes being multiples of 16."""
    floats = lambda *names: dict.fromkeys(names, "*fp32")
    yield "vector add", Launch(
        vector_add.add_kernel, floats("x_ptr", "y_ptr", "out_ptr") | {"n": "i32"},
        {"BLOCK_SIZE": 1024}, {"num_warps": 8},
    )  # fmt: skip
    yield "softmax of 4,096 columns", Launch(
        softmax.softmax_kernel, floats("x_ptr", "out_ptr") | {"columns": "i32", "stride_row": "i32"},
        {"BLOCK_SIZE": 4096}, {"num_warps": 16},
    )  # fmt: skip
    yield "matrix product by pointers", by_pointers(LARGE_TILE | {"BLOCK_N": 128}, num_warps=8, num_stages=3)
    yield "matrix product by descriptors", by_descriptors(persistent.LARGE)
    yield "matrix product of 8 bits", of_8_bits(fp8.choose_config(8192, 8192, torch.float16, False, 132))
# --8<-- [end:launches]


# --8<-- [start:compile]
def compiled(gpu: GPU, launch: Launch):
    """Compile a launch for a GPU that need not be there. Raises what the compiler raises if it refuses."""
    names = launch.kernel.arg_names
    signature = {name: launch.types.get(name, "constexpr") for name in names}
    # As a launch would tell it: addresses and sizes are multiples of 16.
    sixteens = [(i,) for i, name in enumerate(names) if launch.types.get(name, "-")[0] in "*i"]
    attributes = {i: [["tt.divisibility", 16]] for i in sixteens}
    source = ASTSource(launch.kernel, signature, launch.constants, attributes)
    return triton.compile(source, target=gpu.target, options=launch.options)


def compile_for(gpu: GPU, launch: Launch) -> Code:
    """Compile a launch, and read what the compiler made of it."""
    return read(compiled(gpu, launch))
# --8<-- [end:compile]


# --8<-- [start:read]
def read(compiled) -> Code:
    """Read registers, spills and layouts from compiled code."""
    text = compiled.asm["ptx" if "ptx" in compiled.asm else "amdgcn"]
    if "ptx" in compiled.asm:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled.asm["cubin"])
            file.flush()
            command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
            usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        number = lambda name: int(re.search(rf"\b{name}:(\d+)", usage)[1])
        registers, spills = number("REG"), (number("STACK") + number("LOCAL")) // 4
    else:
        number = lambda name: int(re.search(rf"\.{name}:\s+(\d+)", text)[1])
        registers, spills = number("vgpr_count"), number("vgpr_spill_count")
    if "tt.dot" not in compiled.asm["ttir"]:
        return Code(registers, spills, compiled.metadata.shared, "", "", 0)
    unit = re.search(MATRIX_UNITS, text)
    tiles = "TMA" if "cp.async.bulk.tensor" in text else "cp.async" if "cp.async.c" in text else "registers"
    # A buffer for each of several steps is one allocation, whose first size is their number.
    several = re.findall(r"ttg\.local_alloc : \(\) -> !ttg\.memdesc<(\d+)x\d+x\d+x", compiled.asm["ttgir"])
    buffers = max(map(int, several), default=1)
    return Code(registers, spills, compiled.metadata.shared, unit[0] if unit else "one by one", tiles, buffers)
# --8<-- [end:read]


def attempt(gpu: GPU, launch: Launch) -> Code | str:
    """Return what a launch compiles to; if the compiler refuses it, its reason."""
    try:
        return compile_for(gpu, launch)
    except triton.CompilationError as error:
        return re.sub(r'.*Error\("(.+?)(\. .*)?"\)', r"\1", str(error).splitlines()[-1])


def row(name: str, gpu: GPU, made: Code | str) -> str:
    """Return a line of a table."""
    if isinstance(made, str):
        return f"{name:<8}  refused: {made}"
    tiles = f"{made.buffers} buffer{'s'[: made.buffers != 1]}, {made.tiles}" if made.product else ""
    room = f"{made.shared:,} of {gpu.shared:,}" + ("" if made.shared <= gpu.shared else ": too much")
    return f"{name:<8}{made.registers:>10}{made.spills:>8,}  {room:<17}  {tiles:<20}  {made.product}".rstrip()


STAGES = (2, 3, 4, 5)


def stages_that_fit(gpu: GPU) -> tuple[list[int], int]:
    """Return the bytes of shared memory by ``num_stages``, and the largest of ``STAGES`` that fits."""
    sizes = [compile_for(gpu, by_pointers(LARGE_TILE, 8, stages)).shared for stages in STAGES]
    return sizes, max(stages for stages, size in zip(STAGES, sizes, strict=True) if size <= gpu.shared)


# --8<-- [start:main]
def main():
    numbers = []
    for title, launch in launches():
        print(f"## {title}")
        heads = f"{'GPU':<8}{'registers':>10}{'spills':>8}  {'shared memory':<17}"
        print((heads + (f"  {'tiles':<20}  product" if launch.kernel not in NO_PRODUCT else "")).rstrip())
        for name, gpu in GPUS.items():
            made = attempt(gpu, launch)
            print(row(name, gpu, made), flush=True)
            if isinstance(made, Code):
                numbers += [f"{title}, {name}, {what}: {getattr(made, what)}" for what in ("registers", "spills")]
    print("## num_stages")
    print(f"{'GPU':<9}" + "".join(f"{stages:>10}" for stages in STAGES) + f"{'limit':>12}")
    for name, gpu in GPUS.items():
        if name == "T4":
            continue  # without matrix units such a tile does not fit into registers, and takes minutes to compile
        sizes, most = stages_that_fit(gpu)
        numbers.append(f"num_stages that fit, {name}: {most}")
        print(f"{name:<9}" + "".join(f"{size:>10,}" for size in sizes) + f"{gpu.shared:>12,}", flush=True)
    print("## as numbers", *numbers, sep="\n")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
