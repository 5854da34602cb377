# SPDX-License-Identifier: Apache-2.0
"""Describe the first fault of a check: what is wrong, where, a picture, and perhaps why."""

import textwrap
from dataclasses import asdict, dataclass, field

WIDTH = 80
STAGES = {
    "compiles": "compiles and launches",
    "shape": "shape and dtype",
    "bounds": "reads and writes in bounds",
    "values": "values at awkward sizes",
    "strides": "other strides",
    "nan": "memory filled with NaN",
    "seed": "another seed, and the kernel did the work",
    "speed": "fast enough",
}


class Fault(Exception):
    """End the checks, with a finding."""

    def __init__(self, finding: "Finding"):
        super().__init__(finding.message)
        self.finding = finding


@dataclass
class Finding:
    message: str  # what is wrong, in a sentence or two
    case: str = ""  # at which size, strides, seed
    details: list[str] = field(default_factory=list)  # a sentence each
    picture: list[str] = field(default_factory=list)  # lines of text
    launch: dict | None = None  # the same as data, for the site's picture
    guess: str = ""
    stage: str = ""

    def text(self) -> str:
        blocks = [_wrap(f"With {self.case}:\n{self.message}" if self.case else self.message)]
        blocks += ["\n".join(_wrap(detail) for detail in self.details)] if self.details else []
        blocks += ["\n".join(self.picture)] if self.picture else []
        blocks += [_wrap(self.guess)] if self.guess else []
        return "\n\n".join(blocks)

    def as_dict(self) -> dict:
        return asdict(self)


def _wrap(text: str) -> str:
    """Wrap text to lines of at most WIDTH characters; a line that begins with a space, such as code, is not wrapped."""
    lines = []
    for line in text.splitlines():
        whole = not line or line.startswith(" ")
        lines += (
            [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"]
            if whole
            else textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        )
    return "\n".join(lines)
