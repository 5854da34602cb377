# SPDX-License-Identifier: Apache-2.0
"""Run again what needs no GPU, or everything on this machine's GPU, and compare with the recordings.

Each difference is printed at once, and yielded, so that a caller who is stopped can still sum up.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import msgspec

from recorder import lab, recording, runner, timing
from recorder.project import Lab, RecorderError, Snippet, interpreted, labs, recorded, snippets
from recorder.recording import Recording

SHOWN = 100  # characters of a line that differs
AT_ONCE = max(1, min(8, (os.cpu_count() or 2) // 2))  # snippets that only print: most of their time is Python's start


def replay(progress) -> Iterator[str]:
    """Yield what comes out differently now: of every snippet and exercise without a GPU, and of every lab."""
    for job in jobs():
        yield from again(job, progress)


def jobs() -> list[Snippet | Lab]:
    """Return what runs without a GPU, so that it can be compared with what was recorded."""
    replayed = [each for each in recorded() if "cpu" in recording.devices(each) and each.settings.replay]
    return [*replayed, *labs()]


def again(job: Snippet | Lab, progress) -> list[str]:
    """Run a snippet, an exercise or a lab without a GPU, and return what comes out differently from its recording."""
    progress.step(f"{job.name} on cpu, again")
    try:
        if isinstance(job, Lab):
            changed = _lab_differences(job)
        else:
            changed = differences(recording.load(job, "cpu"), runner.record(job, "cpu", progress=progress))
    except RecorderError as error:
        changed = [str(error)]
    return _print_result(progress, [f"{job.name}: {part}" for part in changed])


def _print_result(progress, changed: list[str]) -> list[str]:
    """Print the differences of a job as the result of its run, and return them."""
    progress.done("\n    ".join(["NOT as recorded:", *changed]) if changed else "as recorded")
    return changed


def _lab_differences(script: Lab) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / "again.ipynb"
        lab.build(script, new, timeout=runner.TIME_LIMIT)
        old, new = (lab.cells(path) for path in (script.notebook, new))
    return [] if old == new else [_first_difference(old, new, "cells")]


def replay_on_gpu(gpu: str, seconds: float, seed: int, progress, say: Callable[[str], None]) -> Iterator[str]:
    """Yield how the output of each snippet differs on this machine's GPU, and which numbers of a sample are wrong.

    Output is compared with that of this GPU, or of another one where this one has none; what was measured only with
    this GPU's.

    Args:
        seconds: Time for measuring a sample again.
        seed: Chooses that sample.
        say: Gets lines to read about what was measured.
    """
    chosen = [s for s in snippets() if "gpu" in s.settings.devices and s.settings.replay]
    here = [recording.load(snippet, gpu) for snippet in chosen if gpu in recording.devices(snippet)]
    timed = timing.sample(here, seconds, seed)
    others, measured, differ = [snippet for snippet in chosen if snippet.name not in timed], [], []
    if timed:
        say(f"Measured again, by --seed {seed}: {', '.join(sorted(timed))}")
    for snippet in (s for s in chosen if s.name in timed):  # alone, for others would take the GPU's time from it
        progress.step(f"{snippet.name} on {gpu}, again, with what it measures")
        new, changed = _attempt(snippet, gpu, only_output=False, progress=progress)
        yield from _print_result(progress, changed)
        if new:
            measured.append((recording.load(snippet, _on(snippet, gpu)), new))
    for snippet, changed in _print_at_once(others, gpu):
        progress.step(f"{snippet.name} on {gpu}, again")
        progress.done("once more, alone" if changed else "as recorded")
        differ += [snippet] if changed else []
    for snippet in differ:  # it may be that it wants the GPU, or its memory, for itself
        progress.step(f"{snippet.name} on {gpu}, again, alone")
        _, changed = _attempt(snippet, gpu, only_output=True, progress=progress)
        yield from _print_result(progress, changed)
    lines, wrong = timing.report(measured)
    for line in lines or [f"Nothing that was measured on {gpu} was measured again."]:
        say(line)
    yield from wrong


def _attempt(snippet: Snippet, gpu: str, *, only_output: bool, progress) -> tuple[Recording | None, list[str]]:
    """Run a snippet on this machine's GPU again: its recording, if it ran, and what it prints otherwise now."""
    try:
        new = runner.record(snippet, gpu, only_output=only_output, progress=progress)
    except RecorderError as error:
        return None, [f"{snippet.name}: {error}"]
    on = _on(snippet, gpu)
    old = recording.load(snippet, on)
    if old.output == new.output or snippet.settings.differs or snippet.settings.differs_on_gpus:
        return new, []
    return new, [f"{snippet.name}: {_first_difference(old.output, new.output, 'output')} (on {on}, on {gpu})"]


def _print_at_once(chosen: list[Snippet], gpu: str) -> Iterator[tuple[Snippet, list[str]]]:
    """Yield how the output of each snippet differs, in the order given; several run at a time."""
    stopped = Event()

    def look(_):  # each run looks in here several times a second; this ends it
        if stopped.is_set():
            raise RecorderError("stopped")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(_attempt, snippet, gpu, only_output=True, progress=look) for snippet in chosen]
        try:
            for snippet, run in zip(chosen, runs, strict=True):
                yield snippet, run.result()[1]
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _on(snippet: Snippet, gpu: str) -> str:
    """Return the device whose recording to compare a run on this GPU with: the GPU's own, or another one."""
    devices = recording.devices(snippet)
    return gpu if gpu in devices else next(device for device in devices if not interpreted(device))


def differences(old: Recording, new: Recording) -> list[str]:
    """Return where two recordings of a snippet first differ, a line for each part; ignore versions and dates."""
    parts = ["launched", "launches", "pictures", "coached"]
    if not Snippet(old.snippet).settings.differs:
        parts.insert(0, "output")
    if old.provenance.compiler == new.provenance.compiler:
        parts.append("compiled")  # another Triton may well compile to other code
    before, now = _comparable(old), _comparable(new)
    return [_first_difference(before[part], now[part], part) for part in parts if before[part] != now[part]]


def _comparable(made: Recording) -> dict:
    """Return a recording as plain values; digests stand for the text of compiled code, which numbers its registers."""
    plain = msgspec.to_builtins(msgspec.structs.replace(made, compiled=[]))
    plain = {"launched": {}, "launches": {}, "pictures": {}, "coached": None, **plain}
    plain["compiled"] = [
        {**msgspec.to_builtins(entry), "targets": {
            target: msgspec.to_builtins(msgspec.structs.replace(code, stages={})) | {"shown": sorted(code.stages)}
            for target, code in entry.targets.items()
        }}
        for entry in made.compiled
    ]  # fmt: skip
    return plain


def _first_difference(old, new, at: str) -> str:
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        lines, now = (dict(enumerate(text.split("\n"), 1)) for text in (old, new))
        return _first_difference(lines, now, f"{at} line ")
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{at}{'' if at.endswith(' ') else '.'}{key}")
    old, new = str(old), str(new)
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    begin = max(0, same - 50) if same >= SHOWN else 0  # else two long lines would look alike
    was, now = (f"{'…' * bool(begin)}{text[begin : begin + SHOWN]}" for text in (old, new))
    return f"{at} was {was!r}, is {now!r}"
