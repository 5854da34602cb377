# SPDX-License-Identifier: Apache-2.0
"""Let Helion search for the settings of its softmax, and say how long that took, what it chose and what it gained.

The search is Helion's quick one, ``PatternSearch``: it tries settings at random, then changes the best of them, one
setting at a time, for one round. (The one that Helion takes by default needs scikit-learn.) Then the kernel runs with
the settings that it found, with those that Helion takes without a search, with those of ``which_language.py``, and
beside Triton's softmax and a copy, all on the same operands in rotation (``benchmarking_cold.py``).

Shapes: ``x`` and the result are ``(ROWS, COLUMNS)``, bfloat16, normally distributed. Units: microseconds.
Source: Helion, https://helionlang.com.
Run it on a GPU with ``python helion_search.py``, after ``pip install helion``.
"""

import csv
import os
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from snippets.fusion.long_softmax_measured import check_alike
from snippets.reference import softmax_triton
from snippets.reference.which_language import COLUMNS, ROWS
from snippets.tools.benchmarking_cold import compare_in_rotation

SECONDS = 20  # for the search, which looks at the clock after each round, and then keeps the best that it has


def random() -> list[Tensor]:
    return [torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)]


def import_helion():
    """Import Helion, which wants of a newer torch than 2.11 the name of an error of Intel's GPUs."""
    from torch._inductor.runtime import triton_compat

    if not hasattr(triton_compat, "IntelGPUError"):
        triton_compat.IntelGPUError = type("IntelGPUError", (Exception,), {})
    import helion

    return helion


# --8<-- [start:search]
def search(kernel, x: Tensor, log: Path):
    """Return the settings that Helion finds within SECONDS."""
    os.environ["HELION_AUTOTUNER"] = "PatternSearch"
    helion = import_helion()
    tuned = helion.kernel(
        kernel.fn,
        autotune_effort="quick",
        autotune_budget_seconds=SECONDS,
        autotune_max_generations=1,
        autotune_log=str(log),
        autotune_progress_bar=False,
        static_shapes=True,
    )
    return tuned.bind((x,)).autotune((x,))
# --8<-- [end:search]


def tried(log: Path) -> tuple[int, int]:
    """Return how many settings a search tried, and how many of them ran."""
    with log.with_suffix(".csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["status"] not in ("filtered", "deduplicated")]
    return tuple(len({row["config_id"] for row in some}) for some in (rows, [row for row in rows if row["perf_ms"]]))


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; a search times kernels on one")
    helion = import_helion()
    from snippets.reference.softmax_helion import softmax

    torch.manual_seed(0)
    with_settings = lambda config: helion.kernel(softmax.fn, config=config, static_shapes=True)
    first = softmax.bind((random()[0],)).config_spec.default_config()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        found = search(softmax, random()[0], Path(name, "search"))
        seconds = time.perf_counter() - begin
        settings, ran = tried(Path(name, "search"))
    print(f"search, seconds: {seconds:.0f}")
    print(f"settings tried: {settings}")
    print(f"settings that ran: {ran}")
    sides = {
        "without a search": with_settings(first),
        "one row, 8 warps": with_settings(helion.Config(block_sizes=[1], num_warps=8)),
        "after the search": with_settings(found),
        "Triton": softmax_triton.softmax,
    }
    check_alike(sides, random(), "Triton")
    for name, timing in compare_in_rotation(sides | {"copy": torch.clone}, random, rounds=5).items():
        print(f"{name}, microseconds: {1000 * timing.median:.1f}")
    for name, config in (("without a search", first), ("after the search", found)):
        print(f"## settings {name}")
        for key, value in sorted(dict(config).items()):
            print(f"{key} = {value}")
    print(f"package: helion {version('helion')}")


if __name__ == "__main__":
    main()
