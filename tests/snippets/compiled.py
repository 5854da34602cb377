# SPDX-License-Identifier: Apache-2.0
"""Compile what host functions of a snippet launch for an H200, without one, and return the machine code."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from guards import environment

from tests.processes import run_code

ROOT = Path(__file__).resolve().parents[2]
SHARED = 232_448  # bytes of shared memory that a program may use on an H200
PROGRAM = """
import json
from unittest import mock
import torch, triton
from triton.runtime import driver
from recorder.compile import TARGETS, CompileOnly, _disassemble
from snippets.CHAPTER import NAME as module

driver.set_active(CompileOnly(TARGETS["sm_90"]))
launches = []

def getitem(kernel, grid):
    def launch(*arguments, **options):
        compiled = kernel.warmup(*arguments, grid=(1,), **options)
        sass, usage = _disassemble(compiled.asm["cubin"])
        options = {name: value if isinstance(value, int) else str(value) for name, value in options.items()}
        launches.append({
            "kernel": kernel.__name__, "options": options, "shared": compiled.metadata.shared, "sass": sass,
            "ttir": compiled.asm["ttir"], "ptx": compiled.asm["ptx"],
            "registers": usage["registers"], "spills": usage["spills"],
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
    """A launch of a kernel, compiled for an H200.

    Attributes:
        kernel: Its name.
        options: What the launch was given by name.
        registers: Those of a thread.
        spills: Bytes of a thread that found no room in registers.
        shared: Bytes of shared memory of a program.
    """

    kernel: str
    options: dict
    ttir: str
    ptx: str
    sass: str
    registers: int
    spills: int
    shared: int

    def widths(self, instruction: str) -> set[int]:
        """Return the widths, in bits, that the uses of an instruction name, such as LDG; 32 bits are not named."""
        return set(map(int, re.findall(instruction + r"[.A-Z]*\.(\d+) ", self.sass)))

    def widest(self, *instructions: str) -> int:
        """Return the bits that the widest use of these instructions moves."""
        return max((width for each in instructions for width in self.widths(each)), default=32)


def compiled(snippet: str, code: str) -> list[Compiled]:
    """Return what a piece of code launches. It finds torch, triton, mock and the snippet, as ``module``."""
    chapter, name = snippet.split("/")
    program = PROGRAM.replace("CHAPTER", chapter).replace("NAME", name).replace("CODE", code)
    done = run_code(program, env=environment("cuda", PYTHONPATH=str(ROOT)), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [Compiled(**launch) for launch in json.loads(done.stdout.splitlines()[-1])]
