# SPDX-License-Identifier: Apache-2.0
"""`<launch-explorer>`: which program touches which element, and what each line of the kernel is for one lane."""

import ast
import re
from dataclasses import dataclass

from figures.accesses import picture
from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import Launch, Recording
from recorder.source import tree_of

LONGEST = 15  # of n: of a row of 16 squares, one at least lies past the end
BLOCKS = [1, 2, 4, 8, 16]
# The lines that the explorer can work out: what they do, how they are written, and what is left of them for one lane.
# Its script fills in what stands in braces.
LINES = [
    ("pid", r"pid = tl\.program_id\((axis=)?0\)", "{pid}"),
    ("offsets", r"offsets = (pid|tl\.program_id\((axis=)?0\)) \* BLOCK \+ tl\.arange\(0, BLOCK\)",
     "{pid} * {block} + {lane}"),
    ("mask", r"mask = offsets < n", "{offset} < {n}"),
    ("load", r"(\w+ = )?tl\.load\((?P<tensor>\w+)_ptr \+ offsets(?P<mask>, mask=.+)\)", "{tensor}[{offset}]"),
    ("store", r"tl\.store\((?P<tensor>\w+)_ptr \+ offsets, .+(?P<mask>, mask=.+)\)", "{tensor}[{offset}]"),
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of the kernel."""

    kind: str  # what it does, as in LINES
    code: tuple[str, str, str]  # before the mask that it is given, the mask, after it
    tensor: str  # which it loads from or stores to
    shown: str


@dataclass(frozen=True)
class Length:
    """What a launch is for tensors of another length.

    >>> str(Length(10, 4)), str(Length(1_000_000, 4))
    ('3 programs, 2 lanes off', '250,000 programs, no lane off')
    >>> Length(10, 4).without_mask, Length(1_000_000, 4).without_mask
    ('3 programs, 2 out of bounds', '250,000 programs, none out of bounds')
    """

    n: int
    block: int

    @property
    def programs(self) -> int:
        return -(-self.n // self.block)

    @property
    def shown(self) -> list[int | None]:
        """Return the programs that there is room to draw; ``None``: those between."""
        if self.programs * self.block <= 32:  # there is room for so many
            return list(range(self.programs))
        return [0, 1, 2, None, self.programs - 2, self.programs - 1]

    @property
    def idle(self) -> int:
        return self.programs * self.block - self.n

    @property
    def without_mask(self) -> str:
        return f"{self._programs}, {self.idle or 'none'} out of bounds"

    @property
    def _programs(self) -> str:
        return f"{self.programs:,} program{'s' * (self.programs != 1)}"

    def __str__(self) -> str:
        return f"{self._programs}, {self.idle or 'no'} lane{'s' * (self.idle > 1)} off"


@figure(of="launches", foot=EXPLORER)
def explorer(recording: Recording, *, launch=None, lengths=(), id="launch"):
    """Draw the explorer. It begins as a recorded launch over one dimension, at a lane in the middle.

    ``lengths``: others, which stand below it with their programs; those in its reach can be chosen.
    """
    seen = recording.traced(launch)
    blocks = [name for name in seen.arguments if name in seen.constexprs]
    if "n" not in seen.arguments or not blocks:
        raise RecorderError("the launch has no length `n` or no constant, the block's, for an explorer to vary")
    n, block = seen.arguments["n"], seen.arguments[blocks[0]]
    if n > LONGEST or block not in BLOCKS:
        raise RecorderError(f"the explorer has n up to {LONGEST} and blocks of {BLOCKS}, not {n} and {block}")
    return render(
        "launch_explorer/template.html",
        picture=picture(seen), id=id, kernel=seen.kernel, lines=read(seen, blocks[0]),
        n=n, longest=LONGEST, element=min(block + block // 2, n - 1),
        block=block, blocks={size: size for size in BLOCKS}, lengths=[Length(each, block) for each in lengths],
    )  # fmt: skip


def read(seen: Launch, block: str) -> list[Line]:
    """Return the lines of a launch's kernel. Raise ``RecorderError`` for one that the explorer cannot work out."""
    path = ROOT / seen.file
    text = read_text(path)
    (kernel,) = (node for node in ast.walk(tree_of(path)) if getattr(node, "name", None) == seen.kernel)
    return [_line(ast.get_source_segment(text, statement), block, seen.file) for statement in kernel.body]


def _line(code: str, block: str, file: str) -> Line:
    for kind, pattern, shown in LINES:
        if match := re.fullmatch(pattern.replace("BLOCK", block), code):
            parts = match.groupdict()
            start, end = match.span("mask") if "mask" in parts else (len(code), len(code))
            return Line(kind, (code[:start], code[start:end], code[end:]), parts.get("tensor", ""), shown)
    raise RecorderError(f"{file}: the explorer cannot work out `{code}` for one lane")
