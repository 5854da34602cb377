# SPDX-License-Identifier: Apache-2.0
"""A recording for a page. A stale one is refused; under ``mkdocs serve`` it is shown as such, or as a preview."""

from functools import lru_cache

from recorder import fingerprint, recording, runner
from recorder.project import RecorderError, Snippet, how_to_record, nearest, relative
from recorder.recording import Recording
from render.page import Page, serving

PREVIEW_TIME_LIMIT = 600  # seconds, against hanging
Notice = tuple[str, str] | None  # a kind (stale, missing, preview), and what to tell the reader


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
