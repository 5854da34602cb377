# SPDX-License-Identifier: Apache-2.0
"""The package in ``template/``, as a reader has it: its wheel, its tests, and what serves a call on which machine.

The folder holds a whole package, ``rownorm``: RMS norm of rows, ``out = x / sqrt(mean(x²) + eps) * weight``. This
copies it, builds its wheel, installs that into an empty folder, and runs the package's tests against it. Then it calls
``rownorm.rms_norm`` in a new process for each kind of machine that can be had here, and prints which functions of the
package ran, in their order. Where a kind has no Triton, Python finds all installed packages but that.

Run it in the top folder of a checkout, with ``python snippets/pytorch/package.py``; on a GPU it has more to say.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import torch

FILES = (
    "template/.github/workflows/test.yml",
    "template/LICENSE",
    "template/README.md",
    "template/pyproject.toml",
    "template/src/rownorm/__init__.py",
    "template/src/rownorm/kernels.py",
    "template/src/rownorm/ops.py",
    "template/tests/conftest.py",
    "template/tests/test_rms_norm.py",
    "template/tests/test_without.py",
)
WIDTH = 72  # of what is printed


# --8<-- [start:call]
CALL = """
x = torch.linspace(-1, 1, 15, device=device).view(3, 5)
weight = torch.linspace(1, 2, 5, device=device)
out = norm(x, weight)
wanted = torch.nn.functional.rms_norm(x, (5,), weight, 1e-6)
torch.testing.assert_close(out, wanted)
"""
# --8<-- [end:call]

WATCHED = """
import sys, torch

ran = []

def watch(frame, event, argument):
    folder, _, file = frame.f_code.co_filename.rpartition("/")
    if event == "call" and folder.endswith("rownorm") and "<" not in frame.f_code.co_name:
        ran.append(f"{file} {frame.f_code.co_name}")

def shown(action):
    ran.clear()
    sys.setprofile(watch)
    try:
        action()
        return "as PyTorch's"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        sys.setprofile(None)
        files = [name.partition(".")[2] or "__init__" for name in sys.modules if name.partition(".")[0] == "rownorm"]
        print("imported:", ", ".join(f"{file}.py" for file in sorted(files)))
        print("ran:", ", ".join(dict.fromkeys(ran)))
"""


class Machine(NamedTuple):
    """A kind of machine, and how the package is called there."""

    device: str = "cpu"
    interpret: bool = False  # TRITON_INTERPRET=1
    triton: bool = True  # whether it is installed
    compiled: str = ""  # the backend of torch.compile

    def given(self) -> str:
        """Say what is given there."""
        parts = [f"x on {'the CPU' if self.device == 'cpu' else 'a GPU'}"]
        parts += ["TRITON_INTERPRET=1"] if self.interpret else []
        parts += [] if self.triton else ["no Triton"]
        return ", ".join(parts + ([f"torch.compile by {self.compiled}"] if self.compiled else []))

    def command(self) -> str:
        """Return the Python code that imports the package, calls it, and prints what ran and what came of it."""
        if self.compiled:  # show the call after the one that compiles
            norm = f"norm = torch.compile(rownorm.rms_norm, fullgraph=True, backend={self.compiled!r})\n{CALL}"
        else:
            norm = "norm = rownorm.rms_norm"
        use = f"import rownorm\ndevice = {self.device!r}\n{norm}\n"
        return f"{WATCHED}\n{use}\nprint('result:', shown(lambda: exec({CALL!r}, globals())))"


MACHINES = {
    "laptop, no GPU": Machine(),
    "macOS or Windows": Machine(triton=False),
    "CI, interpreter": Machine(interpret=True),
    "CI, torch.compile": Machine(interpret=True, compiled="aot_eager"),
    "interpreter, no Triton": Machine(interpret=True, triton=False),
}
WITH_A_GPU = {
    "GPU server": Machine("cuda"),
    "GPU, torch.compile": Machine("cuda", compiled="inductor"),
    "GPU, no Triton": Machine("cuda", triton=False),
}


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a command in this environment without ``TRITON_INTERPRET``, and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(command, cwd=cwd, env=kept | environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_package(folder: Path) -> Path:
    """Copy the files of ``template/`` into a folder, and return the package's own there."""
    for file in FILES:
        copied = folder / file
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkout() / file, copied)
    return folder / "template"


def checkout() -> Path:
    """Return the checkout that this is run in, which holds the package."""
    places = [Path.cwd(), *(Path(place) for place in sys.path)]
    found = [place for place in places if all((place / file).is_file() for file in FILES)]
    if not found:
        raise SystemExit("the package is not here; run this in the top folder of a checkout")
    return found[0]


# --8<-- [start:wheel]
def install(package: Path, folder: Path) -> Path:
    """Build the package's wheel, install it into a folder, and return the wheel."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-index"]
    run(*pip, "wheel", *alone, "--no-build-isolation", package, cwd=folder.parent)
    wheel = next(folder.parent.glob("*.whl"))
    run(*pip, "install", *alone, "--target", folder, wheel)
    return wheel
# --8<-- [end:wheel]


def installed_without(name: str, folder: Path) -> list[str]:
    """Make folders of links to all installed packages but one."""
    copies = []
    for number, place in enumerate(path for path in sys.path if path.endswith("-packages")):
        copy = folder / f"{name}-{number}"
        copy.mkdir(parents=True)
        for entry in Path(place).iterdir():
            if entry.name.split("-")[0] != name:
                (copy / entry.name).symlink_to(entry)
        copies.append(str(copy))
    return copies


def call_on(machine: Machine, installed: Path, folder: Path) -> str:
    """Return what calling the installed package prints on a machine."""
    folder.mkdir()
    packages, alone = [str(installed)], []
    if not machine.triton:
        packages, alone = packages + installed_without("triton", folder), ["-S"]
    environment = {"PYTHONPATH": os.pathsep.join(packages)}
    if machine.interpret:
        environment["TRITON_INTERPRET"] = "1"
    return run(sys.executable, *alone, "-c", machine.command(), cwd=folder, **environment)


def tested(package: Path, installed: Path, **environment: str) -> dict[str, int]:
    """Run the package's tests against what is installed; return how many passed and so on."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return counted(run(*command, cwd=package, PYTHONPATH=str(installed), **environment))


def counted(said: str) -> dict[str, int]:
    """Read pytest's last line.

    >>> counted("26 passed, 1 skipped in 12.57s")
    {'passed': 26, 'skipped': 1}
    """
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", said)}


def functions_of(file: str) -> list[str]:
    tree = ast.parse((checkout() / file).read_text("utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package, installed = copy_package(folder), folder / "installed"
        print("## files")
        print("\n".join(file.removeprefix("template/") for file in FILES))
        print("## functions")
        for file in ("template/src/rownorm/ops.py", "template/src/rownorm/kernels.py"):
            print(f"{Path(file).name}:", ", ".join(functions_of(file)))
        print("## wheel")
        wheel = install(package, installed)
        print(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            print("\n".join(f"  {each}" for each in names if ".dist-info" not in each))
            metadata = archive.read(next(each for each in names if each.endswith("METADATA"))).decode()
        print("\n".join(line for line in metadata.splitlines() if line.startswith("Requires-")))
        machines = MACHINES | (WITH_A_GPU if torch.cuda.is_available() else {})
        with ThreadPoolExecutor() as pool:  # at once, as each begins by importing torch
            interpreted = pool.submit(tested, package, installed, TRITON_INTERPRET="1")
            compiled = torch.cuda.is_available() and pool.submit(tested, package, installed)
            folders = [folder / str(number) for number in range(len(machines))]
            said = list(pool.map(call_on, machines.values(), repeat(installed), folders))
            print("## tests, in the interpreter")
            for word, number in interpreted.result().items():
                print(f"tests {word}: {number}")
            if compiled:
                print("## tests, compiled")
                for word, number in compiled.result().items():
                    print(f"compiled tests {word}: {number}")
        for (kind, machine), lines in zip(machines.items(), said, strict=True):
            print(f"## {kind}\ngiven: {machine.given()}")
            for line in lines.splitlines():
                print(textwrap.fill(line, WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main()
