# SPDX-License-Identifier: Apache-2.0
"""Ask a GPU's hardware counters about each kernel that a script launches: bytes from memory, hits in the cache, time.

``counters`` is what to copy. It runs the script under Nsight Compute's command line ``ncu``, which comes with the CUDA
toolkit, and returns a dictionary for each launch. A script that sets something up first marks what it asks about::

    with torch.cuda.profiler.profile():
        add(x, y)

Units: those that ``ncu`` calls base units, bytes and nanoseconds; percent for ratios.
Source: NVIDIA's documentation of Nsight Compute's command line, https://docs.nvidia.com/nsight-compute/NsightComputeCli/

Run it with ``python counters.py``: it needs no GPU, for it reads a made-up report.
"""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence


# --8<-- [start:counters]
def counters(
    metrics: Sequence[str], script: str, *arguments: str, marked: bool = True, cache: str = "none"
) -> list[dict]:
    """Run ``python script arguments…`` under ``ncu``. Return ``{"kernel": name, metric: value, …}`` for each launch.

    Args:
        metrics: Names of counters, such as ``dram__bytes_read.sum``; ``ncu --query-metrics`` lists them.
        script: A Python file.
        arguments: What it finds in ``sys.argv``.
        marked: Count only what the script launches under ``torch.cuda.profiler.profile()``.
        cache: ``"all"`` empties the GPU's caches before each launch, ``"none"`` leaves them as they are.

    Raises:
        RuntimeError: There is no ``ncu``, it may not read the counters, the script failed or launched nothing.
    """
    if shutil.which("ncu") is None:
        raise RuntimeError("ncu was not found; it comes with NVIDIA's CUDA toolkit, as Nsight Compute")
    options = ["--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
    # Else ncu holds the clock down, to compare kernels on unequal GPUs; we want what users get.
    options += ["--clock-control", "none", "--cache-control", cache]
    options += ["--profile-from-start", "off"] if marked else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = ["ncu", *options, sys.executable, script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    launches = parse(done.stdout, metrics)
    if done.returncode or not launches:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return launches


def parse(report: str, metrics: Sequence[str]) -> list[dict]:
    """Read what ``ncu --csv --page raw`` printed, among other lines: names, units, then a row for each launch.

    >>> parse('==PROF== Done\\n"ID","Kernel Name","a.sum"\\n"","","byte"\\n"0","add_kernel","1,024"\\n', ["a.sum"])
    [{'kernel': 'add_kernel', 'a.sum': 1024.0}]
    """
    rows = csv.DictReader(line for line in report.splitlines() if line.startswith('"'))
    return [
        {"kernel": row["Kernel Name"], **{metric: float(row[metric].replace(",", "")) for metric in metrics}}
        for row in rows
        if row["ID"]  # the row of units has none
    ]
# --8<-- [end:counters]


REPORT = '''\
==PROF== Connected to process 4711
==PROF== Profiling "add_kernel" - 0: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","byte","byte"
"0","4711","add_kernel","8,000,256","3,912,448"
'''


def main():
    for launch in parse(REPORT, ["dram__bytes_read.sum", "dram__bytes_write.sum"]):
        for name, value in launch.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
