# SPDX-License-Identifier: Apache-2.0
"""Ways to make a column of a block: ``x[:, None]``, and what texts take instead where the interpreter refuses it.

Each kernel stores ``10 * row + column`` for four rows and eight columns; its column comes about in another way.

Run it with ``TRITON_INTERPRET=1 python interpreter_and_gpu_columns.py``, which also compiles each kernel for a GPU of
compute capability 9.0; or on a GPU with ``python interpreter_and_gpu_columns.py``.
Source: Triton's issue 3625; Triton's language reference.
"""

import json
import os
import subprocess
import sys

import torch
import triton
import triton.language as tl

from snippets.tools.interpreter_and_gpu import compile_only, complaint, interpreted, judge


# --8<-- [start:kernels]
@triton.jit
def none_kernel(out_ptr):
    rows = tl.arange(0, 4)[:, None]
    columns = tl.arange(0, 8)[None, :]
    tl.store(out_ptr + rows * 8 + columns, 10 * rows + columns)


@triton.jit
def expand_dims_kernel(out_ptr):
    rows = tl.expand_dims(tl.arange(0, 4), 1)
    columns = tl.expand_dims(tl.arange(0, 8), 0)
    tl.store(out_ptr + rows * 8 + columns, 10 * rows + columns)


@triton.jit
def method_kernel(out_ptr):
    rows = tl.arange(0, 4).expand_dims(1)
    columns = tl.arange(0, 8).expand_dims(0)
    tl.store(out_ptr + rows * 8 + columns, 10 * rows + columns)


@triton.jit
def reshape_kernel(out_ptr):
    rows = tl.reshape(tl.arange(0, 4), (4, 1))
    columns = tl.reshape(tl.arange(0, 8), (1, 8))
    tl.store(out_ptr + rows * 8 + columns, 10 * rows + columns)
# --8<-- [end:kernels]


WAYS = {
    "`x[:, None]`": none_kernel,
    "`tl.expand_dims(x, 1)`": expand_dims_kernel,
    "`x.expand_dims(1)`": method_kernel,
    "`tl.reshape(x, (4, 1))`": reshape_kernel,
}


def verdicts(device: str, compiling: bool = False) -> dict[str, str]:
    """Return what is said of each way; an exception is a verdict too."""
    found = {}
    for way, kernel in WAYS.items():
        out = torch.zeros(4, 8, dtype=torch.int32, device=device)
        try:
            kernel[(1,)](out)
            expected = 10 * torch.arange(4)[:, None] + torch.arange(8)
            found[way] = "yes" if compiling else judge(out, expected)
        except Exception as error:
            found[way] = f"{'refused' if compiling else 'error'}: {complaint(error)}"
    return found


def main():
    if sys.argv[1:] == ["compile"]:
        with compile_only():
            return print(json.dumps(verdicts("cpu", compiling=True)))
    said = {"ran": verdicts("cpu" if interpreted() else "cuda")}
    if interpreted():
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        done = subprocess.check_output([sys.executable, __file__, "compile"], env=environment, text=True)
        said["compiles for sm_90"] = json.loads(done)
    print("## Ways to a column")
    for way in WAYS:
        print(f"  {way}")
        for what, found in said.items():
            print(f"    {what}: {found[way]}")
    print("## Counts")
    print(f"  ways: {len(WAYS)}")
    print(f"  right: {sum(verdict == 'right' for verdict in said['ran'].values())}")


if __name__ == "__main__":
    main()
