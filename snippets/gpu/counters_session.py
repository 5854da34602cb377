# SPDX-License-Identifier: Apache-2.0
"""A session with Nsight Compute: what its command line ``ncu`` prints of one launch of vector add.

Run it with ``python counters_session.py`` on an NVIDIA GPU, with ``ncu`` on the ``PATH``. It runs itself under ``ncu``
twice: with three counters by name, and with whole sections, which ``ncu --list-sections`` lists. What is printed is
what ``ncu`` says of the launch, without the lines about processes and the comments ("INF", "OPT") below the tables.

Source: NVIDIA's documentation of Nsight Compute's command line, https://docs.nvidia.com/nsight-compute/NsightComputeCli/
"""

import os
import re
import shutil
import subprocess
import sys

import torch

from snippets.programs.vector_add import add

N = 2**26
COMMANDS = {
    "by name": [
        "--metrics", "dram__bytes_read.sum,dram__bytes_write.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    ],
    "by section": ["--section", "SpeedOfLight", "--section", "Occupancy"],
}  # fmt: skip
ROWS = [
    "dram__bytes_read.sum", "dram__bytes_write.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "DRAM Throughput", "L2 Cache Throughput", "Compute (SM) Throughput",
    "Block Limit Barriers", "Block Limit SM", "Block Limit Registers", "Block Limit Shared Mem", "Block Limit Warps",
    "Theoretical Active Warps per SM", "Theoretical Occupancy", "Achieved Occupancy",
]  # fmt: skip
ALWAYS = ["--profile-from-start", "off", "--cache-control", "all", "--clock-control", "none"]


# --8<-- [start:marked]
def marked_add():
    """Run what ``ncu`` watches: the second launch."""
    x, y = torch.rand(2, N, device="cuda")
    add(x, y)  # compiles, and is not counted
    torch.cuda.synchronize()
    with torch.cuda.profiler.profile():
        add(x, y)
        torch.cuda.synchronize()
# --8<-- [end:marked]


def tables(printed: str) -> list[str]:
    """Return the lines of what ``ncu`` printed that are about the launch.

    >>> tables("==PROF== Connected\\n[4711] python3@127.0.0.1\\n  add (64, 1, 1)\\n    Time  us  9\\n    INF  Good\\n")
    ['  add (64, 1, 1)', '    Time  us  9']
    """
    kept = []
    for block in re.split(r"\n\s*\n", printed):
        if re.match(r"\s*(INF|OPT|WRN)\b", block):
            continue
        lines = [line.rstrip() for line in block.splitlines()]
        kept += [
            line for line in lines if line.strip() and not re.match(r"==|\[\d+\]|\s*(INF|OPT|WRN)\b", line)
        ]
    return kept


def value_of(name: str, lines: list[str]) -> float:
    """Return the number in the last column of a table's row. Raise ``KeyError`` if there is no such row."""
    for line in lines:
        if found := re.match(rf"\s*{re.escape(name)}\s.*?([\d.,]+)$", line):
            return float(found[1].replace(",", ""))
    raise KeyError(f"ncu printed no {name}")


def session(options: list[str]) -> list[str]:
    """Return what ``ncu`` says of the marked launch. Raise ``RuntimeError`` if there is no ``ncu``, or it fails."""
    if shutil.which("ncu") is None:
        raise RuntimeError("ncu was not found; it comes with NVIDIA's CUDA toolkit, as Nsight Compute")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = ["ncu", *ALWAYS, *options, sys.executable, __file__, "run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ncu failed with status {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    return tables(done.stdout)


def main():
    if sys.argv[1:] == ["run"]:
        return marked_add()
    read = []
    for name, options in COMMANDS.items():
        print(f"## {name}")
        try:
            lines = session(options)
        except RuntimeError as error:
            raise SystemExit(error) from error
        print(*lines, sep="\n")
        read += lines
    print("## read")
    for row in ROWS:
        print(f"{row}: {value_of(row, read)}")


if __name__ == "__main__":
    main()
