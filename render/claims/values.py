# SPDX-License-Identifier: Apache-2.0
"""Names for values of a page, from its fence ``values``::

    ```values
    square = gpu of matmul/split_k: sharing["1536 × 1536 × 1536"]
    gain = square.chosen / square.alone - 1
    ```

Its sentences then say ``{{ gain; .0%; > 0.1 and above(square.chosen, square.alone) }}``. A line is a name and what a
claim has before its first semicolon; an indented line continues the one above. Where it reads no recording by itself,
as that of ``gain``, it is of the devices that the names in it are of. A reader who switches to another GPU sees the
values there.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recorder.project import RecorderError, Snippet, interpreted
from render import recordings
from render.claims import expressions, tracked
from render.claims.expressions import Claim
from render.fences import Fence
from render.page import Page

NAMED = re.compile(r"(?P<name>\w+)\s*=(?!=)\s*(?P<claim>.+)", re.S)


@dataclass(frozen=True)
class Source:
    """A recording that a claim reads: of a snippet, on a device, or on ``gpu``, which is any of them."""

    device: str
    snippet: Snippet

    def on(self, device: str) -> str:
        """Return the device to read from while the page shows ``device``, which is the first where that is no GPU."""
        if self.device != "gpu":
            return self.device
        return recordings.devices(self.snippet, "gpu")[0] if interpreted(device) else device


class WrongValue(RecorderError):
    """A name that has no value. ``line``: the number of its first line."""

    def __init__(self, name: str, error, line: int):
        super().__init__(f"{name}: {error}")
        self.line = line


@dataclass
class Values:
    page: Page
    given: dict[str, Claim] = field(default_factory=dict)  # by name
    lines: dict[str, int] = field(default_factory=dict)  # the number of the first line of each
    used: set[str] = field(default_factory=set)
    known: dict[tuple[str, str], object] = field(default_factory=dict)  # values by name and device

    def take(self, lines: list[str], fences: list[Fence]) -> list[str]:
        """Take the names from the lines of the page. Return as many lines, those of the fence empty."""
        left, asked = list(lines), [fence for fence in fences if fence.info == "values"]
        for fence in asked:
            left[fence.line : fence.end] = [""] * (fence.end - fence.line)
            if fence is not asked[0] or fence.indent:
                self.page.fault("a page has one fence `values`, at the margin", fence.line)
            for number, text in _definitions(fence).items():
                try:
                    self._define(text, number)
                except RecorderError as error:
                    self.page.fault(error, number)
        return left

    def _define(self, text: str, line: int) -> None:
        match = NAMED.fullmatch(text)
        if not match or not match["name"].isidentifier():
            raise RecorderError(f"{text!r} is no line such as `name = gpu: EXPRESSION`")
        name, claim = match["name"], expressions.read(match["claim"])
        if name in self.given:
            raise RecorderError(f"{name!r} is named twice")
        if name in expressions.FUNCTIONS or name == "value":
            raise RecorderError(f"{name!r} has a meaning of its own in claims; take another name")
        if claim.form or claim.condition:
            raise RecorderError(f"{name!r}: format and condition stand in the sentence, behind the name")
        self.given[name], self.lines[name] = claim, line

    def reached(self, *parts: str) -> Iterator[str]:
        """Yield the names in some expressions, and those that they are made of."""
        seen, ahead = set(), list(parts)
        while ahead:
            names = expressions.mentioned(ahead.pop(0)) & self.given.keys() - seen
            seen |= names
            ahead += (self.given[name].expression for name in sorted(names))
            yield from sorted(names)

    def sources(self, claim: Claim) -> list[Source]:
        """Return the recordings that the value of a claim is read from. Those of GPUs come first."""
        every = [claim, *(self.given[name] for name in self.reached(claim.expression))]
        sources = [Source(each.device, self.page.snippet(each.of)) for each in every if each.device]
        if not sources:
            such = "no claim such as {{ cpu: EXPRESSION; FORMAT; CONDITION }}"
            raise RecorderError(f"{claim.expression!r} is {such}, nor has it a name from the page's fence `values`")
        return sorted(dict.fromkeys(sources), key=lambda source: source.device != "gpu")

    def text(self, claim: Claim) -> str:
        """Return all expressions that a claim is made of."""
        inner = [self.given[name].expression for name in self.reached(claim.expression)]
        return "; ".join([claim.expression, claim.condition, *inner])

    def check_used(self) -> None:
        """Have the page refuse names that none of its claims uses."""
        for name in self.given.keys() - self.used:
            self.page.fault(f"no claim uses {name!r}; remove the line", self.lines[name])

    def on(self, device: str) -> "OnDevice":
        """Return the values by name, while the page shows a device."""
        return OnDevice(self, device)

    def value(self, name: str, device: str):
        """Return what a name stands for on a device. Raise ``WrongValue``."""
        claim = self.given[name]
        if name in self.reached(claim.expression):
            raise WrongValue(name, "it is made of itself", self.lines[name])
        try:
            recorded = None
            if claim.device:
                source = Source(claim.device, self.page.snippet(claim.of))
                recorded = recordings.fetch(self.page, source.snippet, source.on(device))[0]
            value = expressions.evaluate(claim.expression, recorded, self.on(device))
            if not tracked.of_recording(value):
                raise RecorderError("it is typed by hand: no recording would change it")
            return value
        except WrongValue:
            raise
        except RecorderError as error:
            raise WrongValue(name, error, self.lines[name]) from error


class OnDevice(Mapping):
    """The values of a page on one device, each worked out when it is first asked for."""

    def __init__(self, page_values: Values, device: str):
        self._values, self._device = page_values, device

    def __getitem__(self, name: str):
        key, known = (name, self._device), self._values.known
        if key not in known:
            known[key] = self._values.value(*key)
        return known[key]

    def __contains__(self, name) -> bool:
        return name in self._values.given

    def __iter__(self):
        return iter(self._values.given)

    def __len__(self):
        return len(self._values.given)


def _definitions(fence: Fence) -> dict[int, str]:
    """Return the definitions in a fence by their first lines. An indented line continues the one above."""
    definitions = {}
    for number, line in enumerate(fence.body, fence.line + 1):
        if line[:1].isspace() and definitions:
            definitions[max(definitions)] += f" {line.strip()}"
        elif line.strip():
            definitions[number] = line.strip()
    return definitions
