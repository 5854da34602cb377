# SPDX-License-Identifier: Apache-2.0
"""What padding does to 16 bytes: a row that begins at no multiple of 16, and what becomes of it; on purpose.

Each case runs in a process of its own: an address that is not aligned ends what a process can do with its GPU, and the
question that the compiler cannot answer ends the process.

Run it on a GPU with ``python shared_memory_bug.py``, or one case with ``python shared_memory_bug.py transpose 1``.
"""

import os
import re
import subprocess
import sys

import torch

from snippets.below.shared_memory import COLUMNS, TILE, padded, transpose_kernel
from snippets.below.shared_memory_compiled import asked, gl

# --8<-- [start:wide]
# Four neighbors for each thread: 16 bytes, stored at once.
WIDE = gl.BlockedLayout([1, 4], [4, 8], [4, 1], order=[1, 0])
# --8<-- [end:wide]


# --8<-- [start:run]
def wide_bug(words: int) -> str:
    """Transpose a tile, its rows padded by so many words, and say what became of it."""
    x = torch.randn(TILE, TILE, device="cuda")
    out = torch.zeros_like(x)
    transpose_kernel[(1,)](
        x, out, TILE, TILE, *x.stride(), TILE=TILE,
        ROWS=WIDE, COLUMNS=COLUMNS, SHARED=padded(words), num_warps=4,
    )  # fmt: skip
    torch.cuda.synchronize()
    return "ends, right" if torch.equal(out, x.t()) else "ends, wrong"
# --8<-- [end:run]


def apart(*case: str) -> str:
    """Run a case in a process of its own, and say what became of it."""
    command = [sys.executable, "-m", "snippets.below.shared_memory_bug", *case]
    done = subprocess.run(command, capture_output=True, text=True)
    failed = re.search(r"(?:CUDA error|Triton Error \[CUDA\]|LLVM ERROR): .+", done.stderr)
    return done.stdout.strip() or (failed[0] if failed else done.stderr.strip().splitlines()[-1])


def main():
    if sys.argv[1:2] == ["transpose"]:
        print(wide_bug(int(sys.argv[2])), flush=True)
        os._exit(0)
    if sys.argv[1:2] == ["count"]:
        print(asked(padded(int(sys.argv[2])), COLUMNS))
        return
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; Gluon runs on a GPU only")
    print("## 16 bytes at a time")
    for words in (1, 4):
        print(f"padded by {words}: {apart('transpose', str(words))}")
    print("## bank_conflicts of a padded layout")
    print(apart("count", "1"))


if __name__ == "__main__":
    main()
