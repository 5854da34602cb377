# SPDX-License-Identifier: Apache-2.0
"""Assertions in a kernel, each false on purpose: which of them notice, interpreted and compiled.

The kernels claim that all of ``offsets`` are below ``n``; in the last program two are not. A failing assertion ends
the CUDA context of its process, so on a GPU each runs in a process of its own: ``python debugging_assert_bug.py NAME``.

Run it on a GPU with ``python debugging_assert_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import os
import re
import subprocess
import sys

import torch
import triton
import triton.language as tl

from snippets.tools.debugging import assert_all


# --8<-- [start:kernels]
@triton.jit
def device_assert_bug(n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(offsets < n, "offset past the end")


@triton.jit
def python_assert_bug(n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    assert offsets < n, "offset past the end"


@triton.jit
def assert_all_bug(n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    assert_all(offsets < n, "offset past the end")
# --8<-- [end:kernels]


KERNELS = {"tl.device_assert": device_assert_bug, "assert": python_assert_bug, "assert_all": assert_all_bug}
COMPILED = isinstance(device_assert_bug, triton.JITFunction)


# --8<-- [start:launch]
def launch(name: str) -> None:
    """Launch a kernel, say what became of it, then try to use the GPU again."""
    device = "cuda" if COMPILED else "cpu"
    before = torch.zeros(4, device=device)
    for what, action in (
        ("launch", lambda: KERNELS[name][(3,)](10, BLOCK=4)),
        ("wait for it", torch.cuda.synchronize if COMPILED else lambda: None),
        ("add 1 to a tensor made before", lambda: before + 1),
    ):
        try:
            action()
            print(f"{what}: passed")
        except Exception as error:
            print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
# --8<-- [end:launch]


def shortened(printed: str, shown: int = 2) -> list[str]:
    """Lines of a failed assertion, one for each thread that noticed, in one order: the first ``shown`` and a count."""
    lines = [line.strip() for line in printed.splitlines() if "Assertion `" in line]
    lines.sort(key=lambda line: [int(number) for number in re.findall(r"\d+", line)])
    lines = [re.sub(r"^\S*[/\\]", "", line) for line in lines]
    return lines[:shown] + ([f"… {len(lines) - shown} more such lines"] if len(lines) > shown else [])


def child(name: str, debug: bool, time_limit: float = 120) -> str:
    """What a process prints that launches one kernel, with or without ``TRITON_DEBUG=1``."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_DEBUG"}
    done = subprocess.run(
        [sys.executable, __file__, name],
        env=environment | ({"TRITON_DEBUG": "1"} if debug else {}),
        capture_output=True,
        text=True,
        timeout=time_limit,
    )
    if not done.stdout:
        raise RuntimeError(f"the process for {name} came to nothing:\n{done.stderr}")
    return "\n".join([*shortened(done.stderr), *done.stdout.splitlines()])


def main():
    if COMPILED and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## tl.device_assert, without TRITON_DEBUG")
    print(child("tl.device_assert", debug=False))
    for name in KERNELS:
        print(f"## {name}, TRITON_DEBUG=1")
        print(child(name, debug=True))


if __name__ == "__main__":
    launch(sys.argv[1]) if sys.argv[1:] and sys.argv[1] in KERNELS else main()
