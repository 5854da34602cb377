# SPDX-License-Identifier: Apache-2.0
"""Compile one softmax, written in seven languages, for an H200 without one, and say what came of each.

Each language is a package that knows nothing of the others, and most bring a compiler of their own. So each is
installed into a folder of its own, in the versions of ``PACKAGES``, and runs in a process of its own. What it compiled
stays in a folder ``compiled`` beside them: machine code, and how to launch it, which ``which_language_measured.py``
times on a GPU. The variable ``LANGUAGES`` names the folder of all these, ``.cache/languages`` if it isn't set.

Shapes: ``x`` and the result are ``(ROWS, COLUMNS)``, bfloat16.
Run it with ``python which_language.py``, with Triton 3.9, Linux and g++; pip fetches about 400 MB.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROWS, COLUMNS = 8192, 4096
FOLDER = Path(os.environ.get("LANGUAGES", ".cache/languages")).resolve()
COMPILED = FOLDER / "compiled"
CUDA = ("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-cccl==13.0.85",
        "nvidia-cuda-runtime==13.0.96")  # fmt: skip
PACKAGES = {
    "Triton": (),  # the installed one
    "Gluon": (),  # comes with Triton
    "Helion": ("helion==1.5.1", "filecheck==1.0.6", "rich==15.0.0", "markdown-it-py==4.3.0", "mdurl==0.1.2",
               "scikit-learn==1.9.1", "scipy==1.17.1", "joblib==1.6.0", "threadpoolctl==3.8.0",
               "narwhals==2.29.0"),
    "TileLang": ("tilelang==0.1.15", "apache-tvm-ffi==0.1.12", "torch-c-dlpack-ext==0.1.5", "cloudpickle==3.1.3",
                 "ml-dtypes==0.6.0", "tqdm==4.70.1", "z3-solver==4.15.4.0"),
    "cuTile": ("cuda-tile==1.7.0", "nvidia-cuda-tileiras==13.4.92", "nvidia-cuda-nvcc==13.4.92",
               "nvidia-nvvm==13.4.92"),
    "CuTe DSL": ("nvidia-cutlass-dsl==4.8.1", "nvidia-cutlass-dsl-libs-base==4.8.1",
                 "nvidia-cutlass-dsl-libs-core==4.8.1", "nvidia-cutlass-dsl-libs-cu12==4.8.1", "cuda-bindings==13.5.0",
                 "cuda-pathfinder==1.9.1", "protobuf==7.36.2"),
    "CUDA C++": CUDA,
}  # fmt: skip
MODULES = {
    "Triton": "snippets.reference.softmax_triton",
    "Gluon": "snippets.reference.softmax_gluon",
    "Helion": "snippets.reference.softmax_helion",
    "TileLang": "snippets.reference.softmax_tilelang",
    "cuTile": "snippets.reference.softmax_cutile",
    "CuTe DSL": "snippets.reference.softmax_cute",
    "CUDA C++": "snippets.reference.softmax_cuda",
}


class Launch(NamedTuple):
    """How to launch what was compiled: an argument is a tensor's name, or a number of 32 bits."""

    kernel: str
    threads: int
    shared: int  # bytes, of which the code does not know by itself
    arguments: list[str | int]


Steps = Generator[None, None, tuple[bytes, Launch]]  # imports, then compiles; returns machine code


def of_triton(compiled, *numbers: int) -> tuple[bytes, Launch]:
    """Return what Triton compiled. Its last two arguments are memory of its own, which these kernels don't need."""
    meta = compiled.metadata
    arguments = ["x", "out", *numbers, "nothing", "nothing"]
    return compiled.asm["cubin"], Launch(meta.name, 32 * meta.num_warps, meta.shared, arguments)


def compile_triton() -> Steps:
    from snippets.below.gluon_copy_compiled import compiled
    from snippets.reference.softmax_triton import softmax_kernel

    yield
    types = {"x_ptr": "*bf16", "out_ptr": "*bf16", "columns": "i32"}
    made = compiled(softmax_kernel, types, num_warps=8, BLOCK=COLUMNS)
    return of_triton(made, COLUMNS)


def compile_gluon() -> Steps:
    from snippets.below.gluon_copy_compiled import compiled
    from snippets.reference.softmax_gluon import LAYOUT, WARPS, softmax_kernel

    yield
    types = {"x_ptr": "*bf16", "out_ptr": "*bf16", "columns": "i32"}
    made = compiled(softmax_kernel, types, num_warps=WARPS, BLOCK=COLUMNS, LAYOUT=LAYOUT)
    return of_triton(made, COLUMNS)


def compile_helion() -> Steps:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from snippets.below.gluon_copy_compiled import compiled

    torch.cuda.get_device_capability = lambda *_: (9, 0)  # Helion asks for a GPU
    import helion

    from snippets.reference.softmax_helion import softmax

    yield
    with FakeTensorMode():
        x = torch.empty(ROWS, COLUMNS, dtype=torch.bfloat16, device="cuda")
        code = softmax.bind((x,)).to_triton_code(helion.Config(block_sizes=[1], num_warps=8))
    (COMPILED / "helion_wrote.py").write_text(code)  # @triton.jit wants its source in a file
    import helion_wrote

    kernel = helion_wrote._helion_softmax
    sizes = {name: COLUMNS for name in kernel.arg_names if name not in ("x", "out")}
    return of_triton(compiled(kernel, {"x": "*bf16", "out": "*bf16"}, num_warps=8, **sizes))


def nvcc(source: str, folder: Path, *options: str) -> bytes:
    """Compile CUDA C++ by the ``nvcc`` that pip brought, for an H200."""
    with tempfile.TemporaryDirectory() as name:
        file, cubin = Path(name, "kernel.cu"), Path(name, "kernel.cubin")
        file.write_text(source)
        command = [folder / "nvidia/cu13/bin/nvcc", "-cubin", "-arch=sm_90a", "-std=c++17", "-O3", "-w", *options]
        subprocess.run([*command, "-o", cubin, file], check=True)
        return cubin.read_bytes()


def compile_tilelang() -> Steps:
    import tilelang
    from tilelang.engine import lower
    from tvm.target import Target

    from snippets.reference.softmax_tilelang import THREADS, softmax_of

    yield
    target = Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        made = lower(softmax_of(ROWS, COLUMNS), target=target, enable_device_compile=False)
    source, inside = made.kernel_source, Path(tilelang.__file__).parent
    includes = [f"-I{inside / 'src'}", f"-I{inside / '3rdparty/cutlass/include'}", "-DENABLE_BF16"]
    order = re.findall(r"__restrict__ (\w+)", re.search(r"__global__ void .*?;", source)[0])
    (COMPILED / "TileLang.cu").write_text(source)
    cubin = nvcc(source, FOLDER / "CUDA C++", *includes)
    return cubin, Launch(kernels_of(cubin)[0], THREADS, 1024, order)


def compile_cute() -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP_CUBIN": "1", "CUTE_DSL_DUMP_DIR": folder}
        import cutlass
        import cutlass.cute as cute

        from snippets.reference.softmax_cute import THREADS, softmax

        yield
        fake = cute.runtime.make_fake_compact_tensor
        matrix = lambda: fake(cutlass.BFloat16, (ROWS, COLUMNS), stride_order=(1, 0), assumed_align=16)
        cute.compile(softmax, matrix(), matrix())
        cubin = next(Path(folder).glob("*.cubin")).read_bytes()
    return cubin, Launch(kernels_of(cubin)[0], THREADS, 1024, ["x", "out"])


def compile_cutile() -> Steps:
    import io

    import cuda.tile as ct
    from cuda.tile import compilation as of

    from snippets.reference.softmax_cutile import softmax_kernel

    yield
    array = of.ArrayConstraint(
        dtype=ct.bfloat16, ndim=2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[],
        may_alias_internally=False, stride_constant=(None, 1), stride_divisible_by=(8, 1), shape_divisible_by=(1, 8),
        base_addr_divisible_by=16,
    )  # fmt: skip
    convention = of.CallingConvention.cutile_python_v1()
    given = of.KernelSignature([array, array, of.ConstantConstraint(COLUMNS)], calling_convention=convention)
    made = io.BytesIO()
    of.export_kernel(softmax_kernel, [given], made, gpu_code="sm_90", output_format="cubin")
    matrix = [ROWS, COLUMNS, COLUMNS, 1]  # its shape and its strides
    cubin = made.getvalue()
    return cubin, Launch(kernels_of(cubin)[0], threads_of(cubin), 0, ["x", *matrix, "out", *matrix])


def compile_cuda() -> Steps:
    from snippets.reference.softmax_cuda import SOURCE, THREADS

    yield
    sizes = [f"-DTHREADS={THREADS}", f"-DWARPS={THREADS // 32}", f"-DCOLUMNS={COLUMNS}"]
    return nvcc(SOURCE, FOLDER / "CUDA C++", *sizes), Launch("softmax_kernel", THREADS, 0, ["x", "out"])


COMPILERS = {
    "Triton": compile_triton,
    "Gluon": compile_gluon,
    "Helion": compile_helion,
    "TileLang": compile_tilelang,
    "cuTile": compile_cutile,
    "CuTe DSL": compile_cute,
    "CUDA C++": compile_cuda,
}


def tool(name: str, *arguments: str) -> str:
    """Return what one of the tools printed that Triton brings."""
    import triton

    path = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout


def looked_at(cubin: bytes, name: str, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return tool(name, *options, file.name)


def kernels_of(cubin: bytes) -> list[str]:
    return re.findall(r"Function (\S+):", looked_at(cubin, "cuobjdump", "--dump-resource-usage"))


def threads_of(cubin: bytes) -> int:
    """Return how many threads the code was compiled for, as it says itself."""
    said = looked_at(cubin, "cuobjdump", "-elf")
    return int(re.search(r"EIATTR_REQNTID\s+Format:\s+\w+\s+Value:\s+(0x[0-9a-f]+)", said)[1], 16)


INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P[T\d]+ )?([A-Z][A-Z0-9_.]*)", re.MULTILINE)


def read(cubin: bytes) -> dict[str, int | str]:
    """Return what machine code says of itself: registers, instructions, exact divisions, and how it loads and stores.

    A division that is rounded as IEEE 754 wants it begins with ``FCHK``; without, it is a product with a reciprocal.
    """
    used = dict(re.findall(r"(REG|STACK|SHARED):(\d+)", looked_at(cubin, "cuobjdump", "--dump-resource-usage")))
    code = [each for each in INSTRUCTION.findall(looked_at(cubin, "nvdisasm", "-c")) if each != "NOP"]
    return {
        "registers": int(used["REG"]),
        "instructions": len(code),
        "exact divisions": sum(each == "FCHK" for each in code),
        "barriers": sum("BAR.SYNC" in each for each in code),
        "loads": counted(each for each in code if each.startswith(("LDG", "UTMALDG"))),
        "stores": counted(each for each in code if each.startswith(("STG", "UTMASTG"))),
    }


def counted(names: Iterable[str]) -> str:
    """
    >>> counted(["STG.E.128", "STG.E.128"])
    '2 STG.E.128'
    """
    return ", ".join(f"{count} {name}" for name, count in sorted(Counter(names).items()))


def lines_of(module: str) -> int:
    """Return the lines that one writes: a section of a module, without blank lines and comments."""
    text = Path(find_spec(module).origin).read_text("utf-8")
    section = re.search(r"\[start:kernel\]\n(.*?)^\S* --8<-- \[end:kernel\]", text, re.DOTALL | re.MULTILINE)[1]
    return sum(bool(line.strip()) and not line.strip().startswith(("#", "//")) for line in section.splitlines())


def seconds_used() -> float:
    """Return the seconds that processors worked for this process and those that it started and that ended."""
    return sum(os.times()[:4])


def compile_one(name: str) -> None:
    """Compile in this process, and leave machine code, how to launch it, and the seconds of a processor it took."""
    steps = COMPILERS[name]()
    next(steps)
    begin = seconds_used()
    try:
        next(steps)
    except StopIteration as done:
        cubin, launch = done.value
    made = {"launch": launch._asdict(), "seconds": seconds_used() - begin, "sha256": sha256(cubin).hexdigest()}
    made["digest"] = sha256(looked_at(cubin, "nvdisasm", "-c").encode()).hexdigest()[:12]
    (COMPILED / f"{name}.cubin").write_bytes(cubin)
    (COMPILED / f"{name}.json").write_text(json.dumps(made))


def install(name: str) -> Path:
    """Fetch what a language needs, unless it is here, and return its folder."""
    folder = FOLDER / name
    if PACKAGES[name] and not folder.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*pip, str(folder), *PACKAGES[name]], check=True, stdout=subprocess.DEVNULL)
    return folder


def main():
    if len(sys.argv) > 1:
        return compile_one(sys.argv[1])
    COMPILED.mkdir(parents=True, exist_ok=True)
    install("CUDA C++")  # which TileLang needs, too
    print(f"rows: {ROWS}\ncolumns: {COLUMNS}")
    for name in COMPILERS:
        kept = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
        packages = [str(COMPILED), str(install(name)), str(FOLDER / name / "nvidia_cutlass_dsl/dsl_packages")]
        path = os.pathsep.join([*packages, *filter(None, sys.path)])
        with tempfile.TemporaryDirectory() as cache:
            caches = {"TRITON_CACHE_DIR": cache, "TILELANG_CACHE_DIR": cache, "CUDA_TILE_CACHE_DIR": cache}
            subprocess.run(
                [sys.executable, __file__, name], env=kept | caches | {"PYTHONPATH": path}, check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
        cubin = (COMPILED / f"{name}.cubin").read_bytes()
        made = json.loads((COMPILED / f"{name}.json").read_text())
        used = PACKAGES[name][0] if PACKAGES[name] else f"triton=={version('triton')}"
        print(f"## {name}\n{name}, package: {used.replace('==', ' ')}")
        print(f"{name}, lines: {lines_of(MODULES[name])}")
        print(f"{name}, processor seconds: {made['seconds']:.1f}")
        print(f"{name}, threads: {made['launch']['threads']}")
        for what, value in read(cubin).items():
            print(f"{name}, {what}: {value}")
        print(f"{name}, digest: {made['digest']}", flush=True)


if __name__ == "__main__":
    main()
