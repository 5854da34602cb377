# SPDX-License-Identifier: Apache-2.0
"""Remember tries, passes and hints in ``mine/progress.json``, written whole or not at all.

Two terminals may change it at once, such as a ``serve`` and a ``hint``: a change reads the file anew, under a lock.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

PATIENCE_S = 10  # for another's change, which takes milliseconds


@dataclass
class Record:
    tries: int = 0  # that failed, of a text that is not the skeleton's
    hints: int = 0
    passed: bool = False
    passed_at: int = 0  # the check that first found it right, counted from 1; 0: not known


def without_number(name: str) -> str:
    """Return an exercise's name without the lesson's number that older versions put before it: ``01_scale``."""
    return re.sub(r"^\d\d_", "", name)


class Progress:
    """Read and change the file. ``warn`` is called where it cannot be read, with the name under which it is kept."""

    def __init__(self, path: Path, warn: Callable[[str], None] = print):
        self.path, self.warn = path, warn
        self.records: dict[str, Record] = self._read()

    def of(self, name: str) -> Record:
        """Return a record to look at, as it was last read; ``changing`` gives one to change."""
        return self.records.get(name, Record())

    @contextmanager
    def changing(self, name: str) -> Iterator[Record]:
        """Give the record of an exercise, as others have left it, and save what becomes of it."""
        self.path.parent.mkdir(exist_ok=True)
        with _locked(self.path.with_suffix(".lock")):
            self.records = self._read()
            yield self.records.setdefault(name, Record())
            self._write()

    def forget(self, name: str):
        with self.changing(name):
            del self.records[name]

    def _read(self) -> dict[str, Record]:
        try:
            saved = json.loads(self.path.read_text("utf-8"))
            return {without_number(name): Record(**entry) for name, entry in saved["exercises"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            number, kept = 1, self.path.with_suffix(".broken.json")
            while kept.exists():
                number += 1
                kept = self.path.with_suffix(f".broken{number}.json")
            os.replace(self.path, kept)
            self.warn(f"{self.path.name} could not be read. It is kept as {kept.name}, and your progress begins anew.")
            return {}

    def _write(self):
        entries = {name: asdict(record) for name, record in sorted(self.records.items())}
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"version": 1, "exercises": entries}, indent=1) + "\n", "utf-8")
        os.replace(beside, self.path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however that ends. Raise TimeoutError where another keeps it."""
    with path.open("a+b") as file:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if fcntl:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                else:
                    file.seek(0)
                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > end:
                    message = f"{path} is locked by another practice.py: is one stopped? End it and try again."
                    raise TimeoutError(None, message) from None
                time.sleep(0.01)
        try:
            yield
        finally:
            if not fcntl:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)  # closing a file gives flock's back
