# SPDX-License-Identifier: Apache-2.0
"""How long tests wait and how they guard speed: a machine with other work may be slow, and is never red.

A limit by the clock guards against hanging and nothing else, so it is far above what anything takes. Speed is counted
in seconds of a processor, against a fixed piece of work that is timed in the same run; such tests are marked ``speed``.
"""

import contextlib
import os
import statistics
import threading
import time
from pathlib import Path
from types import SimpleNamespace

HANGS = 1800  # seconds after which what has not ended hangs: ten times what the longest takes on an idle machine
IN_BROWSER = 240  # seconds for one step in a browser, which takes one at most
GROWING = (2, 20, 200)  # limits to try in turn on what never ends, where a part of it must have run before
USUAL = 0.0105  # seconds that the work of `slowness` takes on the processor for which budgets of speed were set


def wait_for(what, seconds: float = HANGS):
    """Return what ``what()`` returns once it is true, or when the time is up."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def gone(pid: int) -> bool:
    """Return whether a process ends. One that nobody has asked for its status yet has ended."""

    def ended():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    return wait_for(ended)


def slowness() -> float:
    """Return how many times as long as the usual processor this one takes for the same Python, here and now."""
    begin = time.thread_time()
    words = {}
    for number in range(40_000):
        word = f"{number * 7919 % 10_007:x}"
        words[word] = words.get(word, 0) + len(word)
    return (time.thread_time() - begin) / USUAL


@contextlib.contextmanager
def paced():
    """Yield an object whose ``seconds``, at the end, are those that the usual processor would have taken, or fewer.

    They are seconds of a processor: of this thread and of processes that it waited for. What the machine's other work
    costs them, in caches and shared cores, it costs a fixed piece of work as well, timed before, meanwhile and after.
    """
    pace, stop = SimpleNamespace(seconds=None), threading.Event()
    samples = [slowness()]
    sampler = threading.Thread(target=lambda: [samples.append(slowness()) for _ in iter(lambda: stop.wait(0.5), True)])
    sampler.start()
    before, children = time.thread_time(), os.times()
    try:
        yield pace
        now = os.times()
        took = time.thread_time() - before
        took += now.children_user + now.children_system - children.children_user - children.children_system
    finally:
        stop.set()
        sampler.join()
    pace.seconds = took / max(1, statistics.median([*samples, slowness()]))  # who is faster may keep the rest


@contextlib.contextmanager
def at_most(seconds: float):
    """Fail if what stands inside takes the usual processor longer."""
    with paced() as pace:
        yield
    assert pace.seconds <= seconds
