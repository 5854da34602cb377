# SPDX-License-Identifier: Apache-2.0
"""The recordings that a page means by ``gpu``: first of the GPU that the pages were written for, then of others."""

import re
from collections import Counter

from recorder import recording
from recorder.project import Snippet, interpreted
from recorder.recording import Recording

WRITTEN_FOR = "h200"  # what a sentence relies on is asked of this GPU; on another it may be otherwise, and says so


def devices(snippet: Snippet, asked: str) -> list[str]:
    """Return the devices that ``asked`` stands for, beginning with the one that is shown first."""
    recorded = recording.devices(snippet) if asked == "gpu" else []
    gpus = [device for device in recorded if not interpreted(device)]
    return sorted(gpus, key=order) or [asked]


def order(device: str) -> tuple:
    """Return a key to sort devices by: the one that the pages were written for comes first."""
    return device != WRITTEN_FOR, device


def binds(asked: str, device: str) -> bool:
    """Return whether a sentence that asks for this must hold on the device for the build to succeed."""
    return asked != "gpu" or device == WRITTEN_FOR


def short(recorded: Recording) -> str:
    """Return the name that people use for a GPU: ``H200``."""
    return recorded.provenance.device.removeprefix("NVIDIA ").removeprefix("AMD ")


def brief(names: dict[str, str]) -> dict[str, str]:
    """Return the names without memory and form factor, where that leaves no two alike, as labels of a switch.

    >>> brief({"h200": "H200", "h100-80gb-hbm3": "H100 80GB HBM3"})
    {'h200': 'H200', 'h100-80gb-hbm3': 'H100'}
    >>> brief({"a100-sxm4-40gb": "A100-SXM4-40GB", "a100-sxm4-80gb": "A100-SXM4-80GB"})
    {'a100-sxm4-40gb': 'A100-SXM4-40GB', 'a100-sxm4-80gb': 'A100-SXM4-80GB'}
    """
    form = re.compile(r"([ -](\d+GB|HBM\w*|PCIe|SXM\d*))+$", re.I)
    cut = {device: form.sub("", name) for device, name in names.items()}
    alike = Counter(cut.values())
    return {device: cut[device] if alike[cut[device]] == 1 else name for device, name in names.items()}
