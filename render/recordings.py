# SPDX-License-Identifier: Apache-2.0
"""The recordings that a page shows: of which GPUs, first the one that pages were written for, and a fresh one of each.

A stale recording is refused; under ``mkdocs serve`` it is shown as such, or as a preview.
"""

import re
from collections import Counter
from functools import lru_cache

from recorder import fingerprint, recording, runner
from recorder.project import RecorderError, Snippet, how_to_record, interpreted, nearest, relative
from recorder.recording import Recording
from render.page import Page, serving

PREVIEW_TIME_LIMIT = 600  # seconds, against hanging
Notice = tuple[str, str] | None  # a kind (stale, missing, preview), and what to tell the reader
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


def gpu_name(recorded: Recording) -> str:
    """Return the name that people use for a GPU: ``H200``."""
    return recorded.provenance.device.removeprefix("NVIDIA ").removeprefix("AMD ")


def labels(names: dict[str, str]) -> dict[str, str]:
    """Return the names without memory and form factor, where that leaves no two alike, as labels of a switch.

    >>> labels({"h200": "H200", "h100-80gb-hbm3": "H100 80GB HBM3"})
    {'h200': 'H200', 'h100-80gb-hbm3': 'H100'}
    >>> labels({"a100-sxm4-40gb": "A100-SXM4-40GB", "a100-sxm4-80gb": "A100-SXM4-80GB"})
    {'a100-sxm4-40gb': 'A100-SXM4-40GB', 'a100-sxm4-80gb': 'A100-SXM4-80GB'}
    """
    form = re.compile(r"([ -](\d+GB|HBM\w*|PCIe|SXM\d*))+$", re.I)
    cut = {device: form.sub("", name) for device, name in names.items()}
    alike = Counter(cut.values())
    return {device: cut[device] if alike[cut[device]] == 1 else name for device, name in names.items()}


@lru_cache(maxsize=16)
def _preview(snippet: Snippet, code: str) -> Recording | str:
    """Return what a changed snippet does on this machine, never written down; or why it could not be run."""
    devices = runner.machine_devices()
    if not devices:
        return "torch and Triton are not installed here, so it was not run again"
    devices = [device for device in devices if snippet.runs_on(device)]
    if not devices:
        return "it needs a GPU, so it was not run again"
    print(f"Running {relative(snippet.path)}, which has changed, for a preview")
    try:
        return runner.record(snippet, devices[-1], time_limit=PREVIEW_TIME_LIMIT, only_output=True)
    except RecorderError as error:
        return f"it fails: {str(error).splitlines()[-1]}"


def fetch(page: Page, snippet: Snippet, device: str, live: bool = False) -> tuple[Recording | None, Notice]:
    """Return the recording of a snippet on a device, or None if it was never recorded, and a notice to show above it.

    ``live`` asks for a preview in its place, if the code has changed and can be run here. Raises ``RecorderError`` for
    whatever is wrong with the recording, unless a contributor looks at a draft.
    """
    known = recording.devices(snippet)
    if known and device not in known:
        raise RecorderError(
            f"{snippet.name} has no recording on {device!r}{nearest(device, known)}; "
            f"or make one with: {how_to_record(snippet.name, device)}"
        )
    faults = page.problems(snippet)
    if known:
        prefix = relative(recording.path_of(snippet, device)).removesuffix("json")
        faults = [problem for problem in faults if problem.path.startswith(prefix)]
    if faults and not serving():
        raise RecorderError("; ".join(map(str, faults)))
    recorded = recording.load(snippet, device) if known else None
    if not faults:
        return recorded, None
    problem = faults[0]
    message = f"{problem.fault.capitalize()}: {problem.why}"
    if problem.fault in ("missing", "stale") and live:
        new = _preview(snippet, fingerprint.of(snippet))
        if isinstance(new, Recording):
            return new, ("preview", f"Preview from this machine: {problem.why}.")
        return recorded, (problem.fault, f"{message}; {new}.")
    return recorded, ("stale" if known else "missing", f"{message}.")
