# SPDX-License-Identifier: Apache-2.0
"""What has been tried, passed and hinted at: ``mine/progress.json``, written whole or not at all."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Record:
    tries: int = 0  # that failed, of a text that is not the skeleton's
    hints: int = 0
    passed: bool = False
    passed_at: int = 0  # the check that first found it right, counted from 1; 0: not known


class Progress:
    def __init__(self, path: Path):
        self.path, self.records, self.warning = path, {}, ""
        try:
            found = json.loads(path.read_text("utf-8"))
            self.records = {name: Record(**entry) for name, entry in found["exercises"].items()}
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError, AttributeError):
            kept = path.with_suffix(".broken.json")
            os.replace(path, kept)
            self.warning = f"{path.name} could not be read. It is kept as {kept.name}, and your progress begins anew."

    def of(self, name: str) -> Record:
        return self.records.setdefault(name, Record())

    def save(self):
        entries = {name: asdict(record) for name, record in sorted(self.records.items())}
        self.path.parent.mkdir(exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"version": 1, "exercises": entries}, indent=1) + "\n", "utf-8")
        os.replace(beside, self.path)
