# SPDX-License-Identifier: Apache-2.0
"""Compile a kernel for a GPU that need not be there; see registers, spills, shared memory, widths of loads, layouts.

Copy the file, and put your own kernel in place of ``center_kernel``. With a GPU, ``look`` and ``save`` also take what a
launch returns. It needs no CUDA toolkit: Triton's wheel brings assembler and disassembler.
"""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget


# --8<-- [start:kernel]
@triton.jit
def center_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    at = tl.program_id(axis=0).to(tl.int64) * columns + column
    x = tl.load(x_ptr + at, mask=mask, other=0)
    tl.store(out_ptr + at, x - tl.sum(x) / columns, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:compile]
def compile_for(
    target: str, kernel: triton.JITFunction, *arguments, **options
):  # fmt: skip
    """Compile ``kernel`` for ``target``; return what a launch would return.

    A ``target`` is a name such as ``"sm_90"``. For a tensor, its dtype will
    do; it then counts as one whose address is a multiple of 16 bytes.
    ``options`` are constexprs, ``num_warps`` and so on, by name. After this
    call the process can launch no kernel.

    Raises ``ValueError`` if the interpreter is on, ``kernel`` is no kernel,
    or ``target`` no GPU of NVIDIA's.
    """
    if not isinstance(kernel, triton.JITFunction):
        raise ValueError(
            f"{kernel} is no compiled kernel: unset TRITON_INTERPRET; "
            "of an autotuned one, pass kernel.fn"
        )  # fmt: skip
    if not re.fullmatch(r"sm_\d+", target):
        raise ValueError(
            f"{target!r} is no target; it takes one of NVIDIA's, "
            "such as sm_80, sm_90 or sm_100"
        )  # fmt: skip
    # 32 threads to a warp
    gpu = GPUTarget("cuda", int(target.removeprefix("sm_")), 32)
    # what a GPU's driver would say
    here, stream = lambda: 0, lambda device=None: 0
    driver = SimpleNamespace(
        get_current_target=lambda: gpu,
        get_current_device=here,
        get_current_stream=stream,
    )
    triton.runtime.driver.set_active(driver)
    kernel.device_caches.clear()  # its keys do not name the target
    return kernel.warmup(*arguments, grid=(1,), **options)
# --8<-- [end:compile]


def look(compiled) -> str:
    """Say what the compiled kernel needs of a GPU, and how many loads and stores of which width a thread makes."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(compiled.asm["cubin"])
        usage = subprocess.check_output([knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name], text=True)
    number = lambda name: int(re.search(rf"\b{name}:(\d+)", usage)[1])
    ptx = compiled.asm["ptx"]
    said = {
        "threads": 32 * compiled.metadata.num_warps,
        "registers": number("REG"),
        "spills": (number("STACK") + number("LOCAL")) // 4,  # in values of 4 bytes, as Triton counts them
        "bytes of shared memory": compiled.metadata.shared,
        "loads": counted(accesses(ptx, "ld")),
        "stores": counted(accesses(ptx, "st")),
        "copies to shared memory": counted(accesses(ptx, "cp.async")),
        "atomics": len(re.findall(r"\b(?:atom|red)\.\S*global", ptx)),
        "copies by TMA": ptx.count("cp.async.bulk.tensor"),
    }
    layouts = re.findall(r"^#\w+ = #ttg\..*", compiled.asm["ttgir"], re.M)
    return "\n".join([*(f"{name}: {value}" for name, value in said.items()), *layouts])


def accesses(ptx: str, operation: str) -> list[int]:
    if operation == "cp.async":
        return [int(size, 0) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global.*?\], (\w+)", ptx)]
    found = re.findall(rf"\b{operation}\.(?:volatile\.)?global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", ptx)
    return [int(values or 1) * int(bits) // 8 for values, bits in found]


def counted(sizes) -> str:
    return " + ".join(f"{n} × {size} bytes" for size, n in sorted(Counter(sizes).items(), reverse=True)) or "none"


def save(compiled, folder: str | Path) -> None:
    """Write each stage into ``folder``: ``center_kernel.ttir``, ``….ttgir``, ``….llir``, ``….ptx`` and ``….sass``."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for stage in ("ttir", "ttgir", "llir", "ptx", "sass"):
        Path(folder, f"{compiled.metadata.name}.{stage}").write_text(compiled.asm[stage], "utf-8")


def main():
    for columns, BLOCK, num_warps in (4096, 4096, 4), (4095, 4096, 4), (16384, 16384, 1):
        print(f"## {columns} columns, num_warps={num_warps}")
        # --8<-- [start:use]
        x = out = torch.float32  # in place of a tensor: its dtype
        compiled = compile_for("sm_90", center_kernel, x, out, columns,
                               BLOCK=BLOCK, num_warps=num_warps)  # fmt: skip
        print(look(compiled))
        # --8<-- [end:use]
    print("## files")
    with tempfile.TemporaryDirectory() as folder:
        save(compiled, folder)
        print(*sorted(path.name for path in Path(folder).iterdir()), sep="\n")


if __name__ == "__main__":
    main()
