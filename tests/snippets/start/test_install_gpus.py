# SPDX-License-Identifier: Apache-2.0
"""Kernels compile for each GPU as the table says."""

from pathlib import Path

from guards import environment

from snippets.start import install_gpus
from tests.processes import run_script

SOURCE = Path(install_gpus.__file__)


def test_table():
    """With TRITON_INTERPRET=1 the script starts another process, for compiling takes one without it."""
    done = run_script(SOURCE, env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[1:]
    assert len(rows) == len(install_gpus.GPUS) and all("yes" in row for row in rows)
    said = {row[:13].strip(): row[22:].split("  ") for row in rows}
    cells = {gpu: [cell.strip() for cell in row if cell.strip()] for gpu, row in said.items()}
    assert cells["T4"] == cells["V100"] == ["yes", "one by one", "refused"]
    assert cells["A100"] == ["yes", "mma.sync", "refused"]
    assert cells["H100, H200"][1] in ("mma.sync", "wgmma.mma_async") and cells["MI300X"] == ["yes", "v_mfma", "yes"]
    assert cells["RX 7900 XTX"][1] == "v_wmma"
