# SPDX-License-Identifier: Apache-2.0
"""`<packed-words>`: eight numbers of 4 bits in a register of 32, and the instructions that take out two at a time.

It takes the printed lines of two words and of their four parts. Shift, mask and subtraction are done again here, and
the picture is refused if they don't give what was printed. The script only shows another step.
"""

import re
from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

MASK = 0x000F000F
WORD = re.compile(r"^word \d: ([0-9a-f]{4}), numbers (.+)$", re.M)
PART = re.compile(r"^part \d: ([0-9a-f]{8}), ([0-9a-f]{8}), (-?\d+) (-?\d+)$", re.M)
STEPS = ("shift", "mask", "multiply")  # of each part


class Part(NamedTuple):
    """What is in the register, in hexadecimal, and the two numbers, that of the higher word first."""

    by: int  # bits of the shift
    shifted: str
    mask: int
    masked: str
    read: tuple[str, str]  # as numbers of bfloat16
    up: str  # what these are multiplied by
    numbers: tuple[str, str]


@figure(of="output")
def packed_words(recording: Recording, *, section=..., id="register"):
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    text = sections[section]
    words, parts = WORD.findall(text), PART.findall(text)
    zero = re.search(r"^zero (\d+)$", text, re.M)
    if len(words) != 2 or len(parts) != 4 or not zero:
        raise RecorderError(f"section {section!r} must have two words, a zero and four parts")
    register, less = int(words[1][0] + words[0][0], 16), int(zero[1])
    found = [part_of(register, number, less) for number in range(4)]
    for number, (part, (shifted, masked, low, high)) in enumerate(zip(found, parts, strict=True)):
        if (part.shifted, part.masked, *part.numbers) != (shifted, masked, signed(int(high)), signed(int(low))):
            raise RecorderError(f"part {number} of {register:08x} is {part}, not {shifted}, {masked}, {low} {high}")
    return render(
        "packed_words/template.html",
        id=id,
        cells=[cell for _, numbers in reversed(words) for cell in reversed(cells_of(numbers))],
        register=f"{register:08x}",
        parts=found,
        bits=bits,
        zero=less,
        steps=[(number, step) for number in range(4) for step in STEPS],
    )


def cells_of(numbers: str) -> list[tuple[str, str]]:
    """Return index and value of a word's numbers.

    >>> cells_of("0: 9, 32: 3")
    [('0', '9'), ('32', '3')]
    """
    return [tuple(each.split(": ")) for each in numbers.split(", ")]


def part_of(register: int, number: int, zero: int) -> Part:
    """Take two numbers out of a register.

    >>> part_of(0xE1857C39, 1, 8)[:5]
    (0, 'e1857c39', 240, '00800030', ('8 × 16 × 2⁻¹³³', '3 × 16 × 2⁻¹³³'))
    >>> part_of(0xE1857C39, 1, 8)[5:]
    ('2¹²³', ('0', '−5'))
    """
    by, up = 8 * (number // 2), 4 * (number % 2)
    masked = register >> by & MASK << up
    numbers = [masked >> 16 + up, (masked & 0xFFFF) >> up]
    read = tuple(f"{q} × {'16 × ' if up else ''}2⁻¹³³" for q in numbers)
    shown = tuple(signed(q - zero) for q in numbers)
    return Part(by, f"{register >> by:08x}", 15 << up, f"{masked:08x}", read, ("2¹²³" if up else "2¹²⁷"), shown)


def signed(number: int) -> str:
    return str(number).replace("-", "−")


def bits(digit: str) -> str:
    """Return the four bits of a hexadecimal digit.

    >>> bits("c")
    '1100'
    """
    return f"{int(digit, 16):04b}"
