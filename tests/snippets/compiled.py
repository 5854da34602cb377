# SPDX-License-Identifier: Apache-2.0
"""Compile what host functions of a snippet launch for an H200, or another GPU of NVIDIA's, without one."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from guards import environment

from recorder.compile import _disassemble
from tests.processes import run_code

ROOT = Path(__file__).resolve().parents[2]
SHARED = 232_448  # bytes of shared memory that a program may use on an H200
PROGRAM = """
import json
from unittest import mock
import torch, triton
from triton.runtime import driver
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import expand_signature
from recorder.compile import CompileOnly
from snippets.CHAPTER import NAME as module

driver.set_active(CompileOnly(GPUTarget("cuda", CAPABILITY, 32)))
launches = []

def getitem(kernel, grid):
    def launch(*arguments, **options):
        compiled = kernel.warmup(*arguments, grid=(1,), **options)
        # Before 3.8 a launcher, which only a GPU has built, refuses descriptors in tuples.
        if [int(part) for part in triton.__version__.split(".")[:2]] < [3, 8]:
            expand_signature(compiled.src.signature.values(), compiled.metadata.tensordesc_meta)
        options = {name: value if isinstance(value, int) else str(value) for name, value in options.items()}
        launches.append({
            "kernel": kernel.__name__, "options": options, "shared": compiled.metadata.shared,
            **{stage: compiled.asm[stage] for stage in ("ttir", "ttgir", "ptx")}, "cubin": compiled.asm["cubin"].hex(),
        })
    return launch

if hasattr(module, "check_arguments"):  # which would refuse tensors that are not on a GPU
    module.check_arguments = lambda *arguments, **options: None
triton.JITFunction.__getitem__ = getitem
CODE
print(json.dumps(launches))
"""


@dataclass(frozen=True)
class Compiled:
    """A launch of a kernel, compiled for a GPU.

    Attributes:
        kernel: Its name.
        options: What the launch was given by name.
        shared: Bytes of shared memory of a program.
        cubin: The machine code, in hexadecimal.
    """

    kernel: str
    options: dict
    shared: int
    ttir: str
    ttgir: str
    ptx: str
    cubin: str

    @cached_property
    def _disassembled(self) -> tuple[str, dict]:
        return _disassemble(bytes.fromhex(self.cubin))

    @property
    def sass(self) -> str:
        """Return the machine code as text."""
        return self._disassembled[0]

    @property
    def registers(self) -> int:
        """Return the registers of a thread."""
        return self._disassembled[1]["registers"]

    @property
    def spills(self) -> int:
        """Return how many values of 4 bytes of a thread found no room in registers."""
        return self._disassembled[1]["spills"]

    def widths(self, instruction: str) -> set[int]:
        """Return the widths, in bits, that the uses of an instruction name, such as LDG; 32 bits are not named."""
        return set(map(int, re.findall(instruction + r"[.A-Z]*\.(\d+) ", self.sass)))

    def widest(self, *instructions: str) -> int:
        """Return the bits that the widest use of these instructions moves."""
        return max((width for each in instructions for width in self.widths(each)), default=32)


def compiled(snippet: str, code: str, capability: int = 90) -> list[Compiled]:
    """Return the launches of a piece of code, which finds torch, triton, mock and the snippet, as ``module``.

    Args:
        capability: The GPU's compute capability without its point, such as 90 for an H200.
    """
    chapter, name = snippet.split("/")
    values = {"CHAPTER": chapter, "NAME": name, "CAPABILITY": str(capability), "CODE": code}
    program = re.sub("|".join(values), lambda found: values[found[0]], PROGRAM)
    done = run_code(program, env=environment("cuda", PYTHONPATH=str(ROOT)), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [Compiled(**launch) for launch in json.loads(done.stdout.splitlines()[-1])]
