# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make in a package with a kernel, each made on purpose in the one in ``template/``.

Each is a copy of the package in which one thing is changed, or a few lines that use it; what comes of it is printed.
Run it in the top folder of a checkout, with ``python -m snippets.pytorch.package_bug``. It needs no GPU.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from pathlib import Path

from snippets.pytorch.package import CALL, WIDTH, Machine, call_on, copy_package, counted, install

OPS, KERNELS, PROJECT = "src/rownorm/ops.py", "src/rownorm/kernels.py", "pyproject.toml"

# --8<-- [start:top]
# By a line of ops.py: what somebody writes instead.
AT_THE_TOP = {
    "import torch\n": "import torch\nfrom rownorm import kernels\n",
}
# --8<-- [end:top]
# --8<-- [start:importable]
BY_IMPORT = {
    'if os.environ.get("TRITON_INTERPRET") == "1":':
    'if importlib.util.find_spec("triton"):',
    "import os\n": "import importlib.util\nimport os\n",
}  # fmt: skip
# --8<-- [end:importable]
# --8<-- [start:packages]
LISTED = {
    '[tool.setuptools.packages.find]\nwhere = ["src"]':
    '[tool.setuptools]\npackages = ["rownorm"]\npackage-dir = {"" = "src"}',
}  # fmt: skip
# --8<-- [end:packages]
# --8<-- [start:pinned]
PINNED = {
    'dependencies = ["torch>=2.4"]':
    'dependencies = ["torch>=2.4", "triton==3.9.0"]',
}  # fmt: skip
# What PyPI has beside it, here as empty packages: a torch, and the Tritons.
ON_PYPI = {
    "torch-2.13.0": 'triton==3.7.1; platform_system == "Linux"',
    "triton-3.7.1": "",
    "triton-3.9.0": "",
}
# --8<-- [end:pinned]
# --8<-- [start:strides]
ANY_STRIDES = {"x, weight = x.contiguous(), weight.contiguous()": "pass"}
# --8<-- [end:strides]
# --8<-- [start:triton_op]
OPENED = """
import torch
from torch import Tensor
from torch.library import triton_op, wrap_triton
from rownorm.kernels import rms_norm_kernel

@triton_op("course::open_norm", mutates_args=())
def open_norm(x: Tensor, weight: Tensor) -> Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    wrap_triton(rms_norm_kernel)[(rows,)](
        x, weight, out, columns, 1e-6, BLOCK=8
    )
    return out
"""
# --8<-- [end:triton_op]
# As in torch 2.5, which has custom_op and not yet these two.
OLDER_TORCH = """
import torch.library
del torch.library.triton_op, torch.library.wrap_triton
"""
# --8<-- [start:guarded]
GUARDED = """
try:
    from torch.library import triton_op, wrap_triton  # torch 2.6
except ImportError:
    from torch.library import custom_op as triton_op  # torch 2.4

    def wrap_triton(kernel):
        return kernel
"""
# --8<-- [end:guarded]
IMPORTED = "from torch.library import triton_op, wrap_triton\n"


class Older(Machine):
    """A machine with a torch that has no ``triton_op``, on which an operator by ``triton_op`` is called."""

    def command(self) -> str:
        return f"{OLDER_TORCH}{self.opened()}\ndevice, norm = 'cpu', open_norm\n{CALL}\nprint('result: as PyTorch\\'s')"

    def opened(self) -> str:
        return OPENED


class OlderGuarded(Older):
    """The same machine, with an operator that falls back on ``custom_op``."""

    def opened(self) -> str:
        return OPENED.replace(IMPORTED, GUARDED)


class Opened(Machine):
    """A machine on which an operator by ``triton_op`` is called, eagerly and compiled."""

    def command(self) -> str:
        eager = f"device, norm = 'cpu', open_norm\n{CALL}\nprint('eager: as PyTorch\\'s')"
        return f"{OPENED}\n{eager}\nnorm = torch.compile(open_norm, fullgraph=True, backend='aot_eager')\n{CALL}"


def changed(package: Path, file: str, changes: dict[str, str]) -> None:
    """Replace text in a file. Raise ``ValueError`` for what it does not hold once."""
    path = package / file
    text = path.read_text("utf-8")
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ValueError(f"{file} holds {old!r} {text.count(old)} times")
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


def outcome(machine: Machine, installed: Path, folder: Path) -> str:
    """Return what comes of a call: its result, or the error that ended it, without the name of a temporary folder."""
    try:
        said = call_on(machine, installed, folder).removesuffix("\n")
        return re.sub(r" \(/.+?\)", "", said.rpartition("result: ")[2])
    except RuntimeError as error:
        said = str(error)
        inner = re.findall(r"got (RuntimeError)\(\"(.+?)\. If ", said)  # as torch.compile passes it on
        named = inner or re.findall(r"(?m)^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", said)
        return re.sub(r" \(\S+\.py\)", "", ": ".join(named[-1]))


def say(name: str, machine: Machine, file: str = "", changes: dict[str, str] | None = None, moves: bool = False):
    """Print what comes of a changed package on a machine. ``moves``: the kernels go into a folder of their own."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        package, installed = copy_package(folder), folder / "installed"
        if file:
            changed(package, file, changes or {})
        if moves:
            kernels = package / "src/rownorm/kernels"
            kernels.mkdir()
            (package / "src/rownorm/kernels.py").rename(kernels / "__init__.py")
        print(f"## {name}")
        if moves:
            wheel = install(package, installed)
            with zipfile.ZipFile(wheel) as archive:
                held = [each for each in archive.namelist() if ".dist-info" not in each]
            print("the wheel holds:", ", ".join(held))
        else:
            installed = package / "src"
        print(textwrap.fill(outcome(machine, installed, folder / "here"), WIDTH, subsequent_indent="  "), flush=True)


def pinned() -> None:
    """Print what pip says of the package when it asks for another Triton than torch does. It needs no network."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        package = copy_package(folder)
        changed(package, PROJECT, PINNED)
        for name, needs in ON_PYPI.items():
            about = f"Metadata-Version: 2.1\nName: {name.replace('-', chr(10) + 'Version: ')}\n"
            with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
                archive.writestr(f"{name}.dist-info/METADATA", about + (f"Requires-Dist: {needs}\n" if needs else ""))
                archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
                archive.writestr(f"{name}.dist-info/RECORD", "")
        pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", f"--find-links={folder}"]
        call = [*pip, "--ignore-installed", f"--target={folder / 'installed'}", package]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        done = subprocess.run(call, env=kept | {"PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True)
    print("## a Triton of its own")
    said = re.sub(rf" \((?:from )?\S*{re.escape(temporary)}\S*\)", "", done.stdout + done.stderr)
    for line in re.findall(r"(?m)^(?:ERROR: Cannot .+|The conflict is caused by:|    \S.+ depends on .+)$", said):
        print(textwrap.fill(line, WIDTH, subsequent_indent="  "), flush=True)


def failing() -> None:
    """Print the names of the package's tests that fail when the kernel gets tensors of any strides."""
    with tempfile.TemporaryDirectory() as temporary:
        package = copy_package(Path(temporary))
        changed(package, KERNELS, ANY_STRIDES)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_rms_norm.py"]
        environment = os.environ | {"PYTHONPATH": str(package / "src"), "TRITON_INTERPRET": "1"}
        done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True)
    print("## tests that fail without .contiguous()")
    for name in dict.fromkeys(re.findall(r"(?m)^FAILED .+?::(\w+(?:\[.+?\])?)", done.stdout)):
        print(name)
    for word, number in counted(done.stdout.splitlines()[-1]).items():
        print(f"{word}: {number}")


def main():
    say("Triton imported at the top", Machine(triton=False), OPS, AT_THE_TOP)
    say("the kernel wherever Triton can be imported", Machine(), OPS, BY_IMPORT)
    say("packages listed by hand", Machine(interpret=True), PROJECT, LISTED, moves=True)
    say("triton_op, compiled in the interpreter", Opened(interpret=True))
    say("triton_op, with an older torch", Older(interpret=True))
    say("triton_op or custom_op, with an older torch", OlderGuarded(interpret=True))
    pinned()
    failing()


if __name__ == "__main__":
    main()
