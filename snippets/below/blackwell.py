# SPDX-License-Identifier: Apache-2.0
"""One matrix product, compiled for Hopper and for Blackwell: where its numbers live, and who waits for whom.

The kernel is plain Triton: tiles by tensor descriptors, one ``tl.dot`` in a loop; on request, the sums are touched in
every iteration, as attention does it. It is compiled for an H200 (sm_90) and a B200 (sm_100), which needs no GPU. What
is printed is read from TritonGPU IR, from PTX and from the machine code.

- :func:`outline`: what happens in which order, and what each wait waits for. In the IR an mbarrier has no name; here it
  is called after what has happened when it rings: "loaded", "multiplied" (a step), "finished" (all), "read" (the sums)
- :func:`facts`: registers, Tensor Memory, who issues a product

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N), of bfloat16. Units: registers of a thread, bytes, columns of
Tensor Memory, which has 128 rows and 512 columns of 32 bits in each multiprocessor.
Source: ``tcgen05`` and ``wgmma`` in NVIDIA's PTX ISA.

Run it with ``python blackwell.py``; it needs no GPU, and compiles only.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import triton
import triton.language as tl

from snippets.compiler.other_gpus import GPUS, Launch, by_descriptors, compiled, read
from snippets.matmul.persistent import LARGE

TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
WIDE = TILE | {"BLOCK_N": 256}


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, SPECIALIZE: tl.constexpr, TOUCH: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, warp_specialize=SPECIALIZE):
        sums = tl.dot(a.load([m, k]), b.load([k, n]), sums)
        if TOUCH:
            sums = tl.maximum(sums, 0.0)
    c.store([m, n], sums.to(c.dtype))
# --8<-- [end:kernel]


# --8<-- [start:launch]
def launch(
    specialize: bool, tile: dict[str, int] = TILE, num_warps: int = 4, touch: bool = False
) -> Launch:  # fmt: skip
    """Return a launch of the kernel for bfloat16, three stages; ``touch`` the sums in every iteration, or not."""
    m, n, k = tile.values()
    shapes = {"a": [m, k], "b": [k, n], "c": [m, n]}
    types = {name: f"tensordesc<bf16{shape}>" for name, shape in shapes.items()}
    constants = tile | {"SPECIALIZE": specialize, "TOUCH": touch}
    options = {"num_warps": num_warps, "num_stages": 3}
    return Launch(matmul_kernel, types | {"K": "i32"}, constants, options)
# --8<-- [end:launch]


CASES = {
    "H200": ("H200", launch(False)),
    "B200": ("B200", launch(False)),
    "B200, warp_specialize": ("B200", launch(True)),
}
# The operations that an outline shows, and what is said of each besides its name: parts of its line.
SHOWN = {
    "local_alloc": r"memdesc<([\dx]+x(?:bf16|i64))", "tmem_alloc": r"memdesc<([\dx]+xf32)",
    "barrier_expect": r"%\S+, (\d+)", "wait_barrier": None, "arrive_barrier": None,
    "async_tma_copy_global_to_local": r"%([a-z])\w*\[", "async_tma_copy_local_to_global": r"%([a-z])\w*\[",
    "warp_group_dot": r"-> tensor<(\S+, #mma)>", "warp_group_dot_wait": r"(pendings = \d+)",
    "tc_gen5_mma": None, "tc_gen5_commit": None, "tmem_store": None, "tmem_load": r"-> tensor<(\S+, #\w+)>",
    "async_tma_store_wait": None,
}  # fmt: skip
OPERATION = re.compile(r"^(?:(%[\w-]+)(?::\d+)? = )?ttn?g\.(\w+)\b(.*)")


Names = dict[str, str]


# --8<-- [start:walk]
def walk(ttgir: str) -> Iterator[tuple[int, str, Names]]:
    """Yield each line, how deep it is in loops and partitions, and by the name of a value what it is a part of."""
    names, outer, depth, passed = {}, {}, 0, []
    for line in ttgir.splitlines():
        line = re.sub(r" loc\(.*?\)(?=[,) ]|$)", "", line).strip()
        depth -= line.startswith("}")
        if match := re.match(r"(%\S+) = ttg\.memdesc_index (%\S+?)\[", line):
            names[match[1]] = names.get(match[2], match[2])
        elif match := re.match(r"(?:(%[\w-]+):?\d* = )?scf\.for .*?iter_args\((.+?)\)", line):
            for number, (inner, first) in enumerate(re.findall(r"(%[\w-]+) = (%[\w-]+)", match[2])):
                names[inner] = names[f"{match[1]}#{number}"] = names.get(first, first)
        elif match := re.search(r"\bttg\.warp_specialize\((.*?)\)", line):
            outer, passed = dict(names), re.findall(r"%[\w-]+", match[1])
        elif match := re.match(r"partition\d+\((.*)", line):
            # Names are those of a partition alone; its arguments stand for what was passed.
            arguments = zip(re.findall(r"(%[\w-]+):", match[1]), passed, strict=True)
            names = {name: outer.get(value, value) for name, value in arguments}
        elif passed and line.startswith("} : ("):
            names, passed = outer, []
        yield depth - 2, line, names
        depth += line.endswith("{")
# --8<-- [end:walk]


def meanings(ttgir: str) -> Names:
    """Return, by an allocation of mbarriers, what is over when one of them is passed."""
    found = {}
    for _, line, names in walk(ttgir):
        for operation, meaning in (
            (r"arrive_barrier (%[\w-]+)", "read"), (r"tc_gen5_commit (%[\w-]+)", "finished"),
            (r"tc_gen5_mma .*, (%[\w-]+)\[%true\w*\]", "multiplied"), (r"barrier_expect (%[\w-]+)", "loaded"),
        ):  # fmt: skip
            if match := re.search(operation, line):
                found[names.get(match[1], match[1])] = meaning
    return found


# --8<-- [start:outline]
def outline(ttgir: str) -> list[str]:
    """Return the operations that move numbers, multiply or wait, indented by loops and partitions."""
    shown, meaning = [], meanings(ttgir)
    for depth, line, names in walk(ttgir):
        space = "  " * depth
        if match := re.match(r"(default|partition\d+)\b(?:.*num_warps\((\d+)\))?", line):
            shown.append(f"{space}{match[1]}" + (f", {match[2]} warp{'s'[: match[2] != '1']}" if match[2] else ""))
        elif "scf.for" in line:
            shown.append(f"{space}for")
        elif "scf.if" in line:
            shown.append(f"{space}if")
        elif (match := OPERATION.match(line)) and match[2] in SHOWN:
            result, name, rest = match.groups()
            said = re.findall(SHOWN[name], rest)[:1] if SHOWN[name] else []
            parts = (names.get(value, value) for value in [result, *re.findall(r"%[\w-]+(?:#\d+)?", rest)])
            bars = dict.fromkeys(meaning[part] for part in parts if part in meaning)
            shown.append(f"{space}{name} {' '.join([*said, *bars])}".rstrip())
    return shown
# --8<-- [end:outline]


# --8<-- [start:facts]
def facts(made) -> dict[str, object]:
    """Return what the machine code needs, and who issues a product in it."""
    code, ptx = read(made), made.asm["ptx"]
    of_one = re.search(r"@%p\d+ tcgen05\.mma", ptx)  # under a condition that is true in one thread, `elect.sync`
    return {
        "registers of a thread": code.registers,
        "registers that spill": code.spills,
        "columns of Tensor Memory": made.metadata.tmem_size,
        "bytes of shared memory": code.shared,
        "warps": int(re.search(r"\.reqntid (\d+)", ptx)[1]) // 32,
        "threads that issue a product": 1 if of_one else 32 * made.metadata.num_warps,
        "multiplied by": code.product,
    }
# --8<-- [end:facts]


def attempt(gpu: str, each: Launch) -> str:
    """Return what the compiler says to a launch that it refuses, which it writes to stderr by itself; or its code."""
    stderr = os.dup(2)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            return compiled(GPUS[gpu], each).asm["ptx"]
        except RuntimeError as error:
            file.seek(0)
            found = re.search(r"error: (.+)", file.read())
            return f"{error}; {found[1]}" if found else str(error)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def instructions(ptx: str) -> list[str]:
    """Return the instructions of PTX, without what says where they come from."""
    return [line.strip() for line in ptx.splitlines() if re.match(r"\t(?:@!?%p\d+ )?[a-z]", line)]


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.blackwell"], env=without, check=True)
        return
    made = {name: compiled(GPUS[gpu], each) for name, (gpu, each) in CASES.items()}
    for name, code in made.items():
        print(f"## {name}")
        print("\n".join(outline(code.asm["ttgir"])))
    for gpu, specialize in (("H200", False), ("B200", True)):
        lines = outline(compiled(GPUS[gpu], launch(specialize, touch=True)).asm["ttgir"])
        print(f"## sums that are touched, {gpu}")
        print("\n".join(line for line in lines if line.startswith((" ", "for", "default", "partition"))))
    print("## numbers")
    for name, code in made.items():
        for what, value in facts(code).items():
            print(f"{name}, {what}: {value}")
    print("## a tile of 128 x 256 on four warps")
    for gpu in ("H200", "B200"):
        code = facts(compiled(GPUS[gpu], launch(False, WIDE)))
        for what in ("registers of a thread", "registers that spill", "columns of Tensor Memory"):
            print(f"{gpu}, wide, {what}: {code[what]}")
    print("## the persistent product")
    code = compiled(GPUS["B200"], by_descriptors(LARGE))
    print(f"columns of Tensor Memory: {code.metadata.tmem_size}")
    print(*(line.strip() for line in outline(code.asm["ttgir"]) if "tmem_alloc" in line))
    print("## warp_specialize on an H200")
    print(f"4 warps: {attempt('H200', launch(True))}")
    with_it, without = (instructions(attempt("H200", launch(flag, WIDE, 8))) for flag in (True, False))
    print(f"8 warps: the same instructions as without it: {with_it == without}, {len(without)} of them")


if __name__ == "__main__":
    main()
