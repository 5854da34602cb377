# SPDX-License-Identifier: Apache-2.0
"""Kernels compile for each GPU as the table says."""

from recorder import recording
from recorder.project import Snippet
from snippets.start import install_gpus


def test_table():
    rows = recording.load(Snippet("start/install_gpus"), "cpu").output.splitlines()[1:]
    assert len(rows) == len(install_gpus.GPUS) and all("yes" in row for row in rows)
    said = {row[:13].strip(): row[22:].split("  ") for row in rows}
    cells = {gpu: [cell.strip() for cell in row if cell.strip()] for gpu, row in said.items()}
    assert cells["T4"] == cells["V100"] == ["yes", "one by one", "plain loads", "refused"]
    assert cells["A100"] == ["yes", "mma.sync", "plain loads", "refused"]
    assert cells["H100, H200"] == ["yes", "wgmma.mma_async", "cp.async.bulk.tensor", "yes"]
    assert cells["B300"] == cells["B200"] == ["yes", "tcgen05.mma", "cp.async.bulk.tensor", "yes"]
    assert cells["MI300X"] == cells["MI350X"] == ["yes", "v_mfma", "plain loads", "yes"]
    assert cells["gfx1250"][1:3] == ["v_wmma", "tensor_load_to_lds"]
    assert cells["RX 9070 XT"][1:3] == ["v_wmma", "plain loads"]
