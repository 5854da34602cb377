# SPDX-License-Identifier: Apache-2.0
"""Layouts that don't fit, on purpose, and what the compiler says to them; it needs no GPU.

Run it with ``python gluon_copy_bug.py``.
"""

import os
import re
import subprocess
import sys
import tempfile

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from snippets.below.gluon_copy import BLOCK, copy_in_gluon, row
from snippets.below.gluon_copy_compiled import accesses, compiled, said

TYPES = {"x_ptr": "*fp32", "out_ptr": "*fp32"}


# --8<-- [start:mixed]
@gluon.jit
def mixed_bug(x_ptr, out_ptr, LOAD: gl.constexpr, STORE: gl.constexpr):
    x = gl.load(x_ptr + gl.arange(0, 1024, layout=LOAD))
    gl.store(out_ptr + gl.arange(0, 1024, layout=STORE), x)
# --8<-- [end:mixed]


def refusal(kernel, types: dict[str, str], num_warps: int = 4, **constants) -> str:
    """Return what the compiler says to a kernel that it refuses, of which it writes some to stderr by itself."""
    stderr = os.dup(2)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            compiled(kernel, types, num_warps, **constants)
        except Exception as error:
            file.seek(0)
            found = re.search(r"^(Layout .+)$", f"{error}\n{file.read()}", re.M)
            return re.sub(r", cga_layout=\[\]", "", found[1]) if found else str(error)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return "compiled"


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.gluon_copy_bug"], env=without, check=True)
        return
    print("## two layouts")
    print(refusal(mixed_bug, TYPES, LOAD=row(4), STORE=row(1)).replace(" vs ", "\nvs "))
    print("## more warps than the layout has")
    print(refusal(copy_in_gluon, TYPES | {"n": "i32"}, 8, BLOCK=BLOCK, LAYOUT=row(4)))
    print("## a layout larger than the block")
    code = compiled(copy_in_gluon, TYPES | {"n": "i32"}, BLOCK=512, LAYOUT=row(8)).asm["ptx"]
    print(f"512 elements, 8 for each of 128 threads: loads {said(accesses(code, 'ld.global'))} for each thread")


if __name__ == "__main__":
    main()
