# SPDX-License-Identifier: Apache-2.0
"""Does Triton work here? Prints what is installed and runs a small kernel; each fault comes with its fix.

``python install.py`` needs nothing but Python to start: a missing torch or Triton is one of the faults. It compares the
Triton that is installed with the one that this torch asks for, then runs a kernel in a process of its own, on the GPU
or, where torch sees none, in Triton's interpreter, and compares its result. Exit status: 1 if something is wrong.

The kernel doubles n = 100 float32 numbers, 16 at a time in one program: out[i] = 2 x[i].
"""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from types import SimpleNamespace

try:
    import triton
    import triton.language as tl

    broken = None
except Exception as error:  # main() says so, and the kernel below is never run
    broken = f"`import triton` fails: {type(error).__name__}: {error}"
    triton = tl = SimpleNamespace(jit=lambda kernel: kernel, constexpr=None)

# Each of these packages brings a module called `triton`, and overwrites that of the others.
PACKAGES = ("triton", "triton-rocm", "pytorch-triton-rocm", "pytorch-triton", "triton-xpu", "triton-windows")
N = 100


# --8<-- [start:kernel]
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, 2 * x, mask=offsets < n)
# --8<-- [end:kernel]


def run_kernel(device: str) -> int:
    """Double 0, 1, … 99 on ``device`` (float32), and count the results that are right.

    >>> run_kernel("cpu")  # with TRITON_INTERPRET=1
    100
    """
    import torch

    x = torch.arange(N, dtype=torch.float32, device=device)
    out = torch.full_like(x, -1)
    double_kernel[(1,)](x, out, N, BLOCK=16)
    return int((out == x + x).sum())


def look() -> dict:
    """Return what is installed here, and what the kernel did. Whatever is missing is None."""
    found = {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "interpret": os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y"),
        "compiler": os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc"),
        "driver": _driver(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "numpy": _version("numpy"),
        **dict.fromkeys(("torch", "built_for", "asks_for", "refusal")),
        **dict.fromkeys(("gpu", "capability", "triton", "broken", "kernel")),
    }
    try:
        import torch
    except Exception as error:
        found["refusal"] = f"{type(error).__name__}: {error}" if importlib.util.find_spec("torch") else None
    else:
        found["torch"] = torch.__version__.split("+")[0]
        cuda, rocm = torch.version.cuda, torch.version.hip
        found["built_for"] = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else None
        found["asks_for"] = wanted(importlib.metadata.requires("torch") or [])
        with warnings.catch_warnings(record=True) as warned:  # torch warns of an old driver
            warnings.simplefilter("always")
            usable = torch.cuda.is_available()
        if usable:
            properties = torch.cuda.get_device_properties(0)
            found["gpu"] = properties.name
            found["capability"] = None if rocm else (properties.major, properties.minor)
        elif warned:
            found["refusal"] = str(warned[0].message).split("\n")[0]
    if hasattr(triton, "__version__"):
        found["triton"] = triton.__version__
    elif spec := importlib.util.find_spec("triton"):
        folder = next(iter(spec.submodule_search_locations or ()), None) if spec.origin is None else None
        found["broken"] = f"`import triton` finds the folder {folder}, which is not Triton" if folder else broken
    if found["torch"] and found["triton"]:
        found["kernel"] = _kernel_in_its_own_process(found["gpu"] is not None, found["interpret"])
    return found


def wanted(requirements: list[str]) -> str | None:
    """Return the requirement of a Triton among those of torch, as pip takes it, where it is one for Linux.

    >>> wanted(["sympy", 'triton (==3.2.0) ; platform_system == "Linux"'])
    'triton==3.2.0'
    """
    for requirement in requirements:
        match = re.match(rf"({'|'.join(PACKAGES)})(?![\w-])\s*\(?([=~<>!][^;)]*)?", requirement)
        if match and "extra ==" not in requirement:
            return match[1] + (match[2] or "").strip()
    return None


def satisfies(version: str, requirement: str) -> bool:
    """Return whether a version is what ``==`` or ``~=`` in a requirement asks for; other conditions are not judged.

    >>> satisfies("3.8.1", "triton~=3.8.0"), satisfies("3.9.0", "triton~=3.8.0"), satisfies("3.7.1", "triton==3.6.0")
    (True, False, False)
    """
    match = re.search(r"(==|~=)\s*([\d.]+)", requirement)
    if not match:
        return True
    have, asked = ([int(part) for part in re.findall(r"\d+", text.split("+")[0])] for text in (version, match[2]))
    return have == asked if match[1] == "==" else have[: len(asked) - 1] == asked[:-1] and have >= asked


def faults(found: dict) -> list[tuple[str, str]]:
    """Return what is wrong, each with its fix; empty if all is well."""
    wrong = []
    pip = "python -m pip install"
    linux, windows = found["system"] == "Linux", found["system"] == "Windows"
    packages = " ".join(found["packages"])
    if not found["torch"]:
        wrong.append((found["refusal"] or "torch is not installed", f"{pip} torch"))
    elif not found["gpu"] and found["driver"]:
        if found["visible"] is not None:
            what = f"CUDA_VISIBLE_DEVICES is {found['visible']!r}, and torch sees no GPU"
            wrong.append((what, "unset CUDA_VISIBLE_DEVICES"))
        elif not found["built_for"]:
            mend = "choose your system on https://pytorch.org/get-started/locally and add --force-reinstall"
            wrong.append((f"there is a GPU driver, {found['driver']}, but this torch is built for the CPU only", mend))
        else:
            mend = "a newer driver, or a torch that is built for an older CUDA"
            wrong.append((found["refusal"] or f"torch does not see the GPU of the driver, {found['driver']}", mend))
    if not found["triton"]:
        if found["broken"] and "the folder" in found["broken"]:
            wrong.append((found["broken"], "rename that folder, or start Python elsewhere"))
        elif found["broken"]:
            wrong.append((found["broken"], f'{pip} --force-reinstall --no-deps "{found["asks_for"] or "triton"}"'))
        elif linux:
            wrong.append(("Triton is not installed", f'{pip} "{found["asks_for"] or "triton"}"'))
        elif windows:
            wrong.append(("PyPI has no Triton for Windows", f"{pip} triton-windows, or work in WSL"))
        else:
            wrong.append((f"PyPI has no Triton for {found['system']}", "a container with Linux, or Colab"))
    else:
        asked, version = found["asks_for"], found["triton"]
        right = f'{pip} --force-reinstall --no-deps "{asked or "triton"}"'
        if len(found["packages"]) > 1:
            first = f"python -m pip uninstall --yes {packages}, then "
            wrong.append((f"{packages} are installed, and each overwrites the other", first + right))
        elif packages and next(iter(found["packages"].values())).split("+")[0] != version.split("+")[0]:
            stale = f"{packages} {found['packages'][packages]} is installed, but Python finds Triton {version}"
            wrong.append((stale, right))
        elif asked and linux and not satisfies(version, asked):
            wrong.append((f"torch {found['torch']} asks for {asked}; Triton {version} is installed", right))
    compiled = found["gpu"] and not found["interpret"]
    if compiled and linux and not found["compiler"]:
        wrong.append(("Triton needs a C compiler, to prepare launches", "apt install gcc python3-dev"))
    if not compiled and not found["numpy"]:
        wrong.append(("the interpreter needs NumPy", f"{pip} numpy"))
    if found["kernel"] not in (None, N):
        numpy, ours = ([int(part) for part in (found[name] or "0").split(".")[:2]] for name in ("numpy", "triton"))
        old = not compiled and numpy >= [2, 4] and ours < [3, 7]
        look_up = "look the message up under https://github.com/triton-lang/triton/issues"
        wrong.append((f"the kernel: {found['kernel']}", f'{pip} "numpy<2.4"' if old else look_up))
    return wrong


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _driver() -> str | None:
    """Return the driver of a GPU, whether or not torch can use it."""
    if shutil.which("nvidia-smi"):
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60)
        if done.returncode == 0 and done.stdout.strip():
            return "NVIDIA " + done.stdout.split()[0]
    return "AMD amdgpu" if os.path.exists("/dev/kfd") else None


def _kernel_in_its_own_process(gpu: bool, interpret: bool) -> int | str:
    """Return how many results were right, or an error. A crash ends that process, not this one."""
    device = "cuda" if gpu and not interpret else "cpu"
    with tempfile.TemporaryDirectory() as cache:  # so that it is really compiled
        environment = os.environ | {"TRITON_INTERPRET": "0" if device == "cuda" else "1", "TRITON_CACHE_DIR": cache}
        call = [sys.executable, os.path.abspath(__file__), device]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode == 0:
        return int(done.stdout.split()[-1])
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def report(found: dict) -> list[str]:
    """Return the lines that a person reads."""
    gpu, interpret = found["gpu"], found["interpret"]
    where = "compiled, on the GPU" if gpu and not interpret else "in the interpreter, on the CPU"
    if gpu and found["capability"]:
        gpu += ", compute capability {}.{}".format(*found["capability"])
    right = f"{found['kernel']} of {N} results right, {where}" if isinstance(found["kernel"], int) else "did not run"
    asks = found["asks_for"] or "no Triton"
    torch = f"{found['torch']}, built for {found['built_for'] or 'the CPU only'}; it asks for {asks}"
    torch = torch if found["torch"] else "none"
    others = [f" ({name} {version})" for name, version in found["packages"].items() if name != "triton"]
    lines = [
        f"System   {found['system']} {found['machine']}, Python {found['python']}",
        f"torch    {torch}",
        f"Triton   {found['triton'] or 'none'}{''.join(others)}",
        f"NumPy    {found['numpy'] or 'none'}",
        f"Driver   {found['driver'] or 'none'}",
        f"GPU      {gpu or 'none that torch can use'}",
        f"Kernel   {right}",
        "",
    ]
    wrong = faults(found)
    for what, mend in wrong:
        lines += [f"WRONG    {what}", f"  mend   {mend}"]
    if not wrong:
        lines.append("All is well.")
    if found["capability"] and found["capability"] < (8, 0):
        lines.append("Triton supports compute capability 8.0 and newer; here tl.dot does without tensor cores.")
    if gpu and interpret:
        lines.append("TRITON_INTERPRET is set: kernels run on the CPU, slowly. Unset it to use the GPU.")
    elif not found["gpu"] and found["kernel"] == N:
        lines.append("Start what launches a kernel like this: TRITON_INTERPRET=1 python your_script.py")
    return lines


def main() -> int:
    if sys.argv[1:] in (["cpu"], ["cuda"]):
        print(run_kernel(sys.argv[1]))
        return 0
    found = look()
    print("\n".join(report(found)))
    return int(bool(faults(found)))


if __name__ == "__main__":
    status = main()
    if status:
        sys.exit(status)
