# SPDX-License-Identifier: Apache-2.0
"""Read the data sheets of GPUs, for figures and for claims: ``data_sheets.toml``, a table for each GPU."""

import tomllib
from functools import cache
from pathlib import Path

from recorder.project import RecorderError, nearest


@cache
def data_sheets() -> dict[str, dict]:
    """Return the rows of the file by GPU: ``copy`` in GB/s, units of arithmetic in TFLOP/s, and the source."""
    return tomllib.loads(Path(__file__).with_name("data_sheets.toml").read_text("utf-8"))


def promised(device: str, ceiling: str) -> float:
    """Return what the data sheet says of a GPU: ``copy`` in GB/s, other ceilings in TFLOP/s.

    ``device``: the GPU's name in recordings, after its maker. Raise ``RecorderError`` for an unknown GPU or ceiling.
    """
    rows = {row["device"]: row for row in data_sheets().values() if "device" in row}
    if ceiling not in rows.get(device, {}):
        known = rows.get(device, rows)
        raise RecorderError(f"figures/data_sheets.toml has no {ceiling!r} of {device!r}{nearest(device, known)}")
    return rows[device][ceiling]
