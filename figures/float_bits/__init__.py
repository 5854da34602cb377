# SPDX-License-Identifier: Apache-2.0
"""`<float-bits>`: the 32 bits of a float32, and what is left of the number when the last ones are cut off.

It takes printed lines of a name, the sign, exponent and fraction in bits, and the number in decimal: ``whole`` names
that of the float32, ``cut`` that of the same number without its last 13 bits. The rest is computed from the bits, here
and in ``script.js``; the picture is refused if its cut is not the one that was printed.
"""

import struct
from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

FRACTION, TF32 = 23, 13  # bits of a float32's fraction, and those of them that the matrix units ignore
FORMATS = {0: "float32", 13: "TF32", 16: "bfloat16"}  # by the bits that they lack


class Cut(NamedTuple):
    """What is left when so many bits are cut off."""

    bits: str
    value: float
    right: str  # the digits that are still those of the whole number
    wrong: str
    name: str  # of the format that keeps as many bits, if there is one


@figure(of="output")
def float_bits(recording: Recording, *, section=..., whole="float32", cut="cut to TF32", id="bits"):
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    lines = dict(_read(line) for line in sections[section].splitlines() if line.strip())
    for name in (whole, cut):
        if name not in lines:
            raise RecorderError(f"section {section!r} has no line {name!r}")
    bits, digits = lines[whole]
    first = cut_off(bits, TF32)
    if (first.bits, f"{first.value:.10f}") != lines[cut]:
        raise RecorderError(f"without its last {TF32} bits the number is {first.value}, not {lines[cut][1]}")
    return render(
        "float_bits/template.html", id=id, bits=bits, digits=digits, first=first, lost=TF32, fraction=FRACTION,
        about=about(bits, TF32), formats=FORMATS,
    )  # fmt: skip


def _read(line: str) -> tuple[str, tuple[str, str]]:
    """Return the name of a printed line, its bits without spaces, and its decimal digits."""
    *name, sign, exponent, kept, rest, digits = line.split()
    return " ".join(name), (sign + exponent + kept + rest, digits)


def value_of(bits: str) -> float:
    """
    >>> value_of("0" + "10000000" + "1001001000" + "0" * 13)
    3.140625
    """
    return struct.unpack(">f", int(bits, 2).to_bytes(4))[0]


def cut_off(bits: str, lost: int) -> Cut:
    """Return what is left of a number whose last bits are cut off."""
    left = bits[: 32 - lost] + "0" * lost
    whole, value = f"{value_of(bits):.7f}", f"{value_of(left):.7f}"
    same = next((i for i, (a, b) in enumerate(zip(whole, value, strict=True)) if a != b), len(value))
    return Cut(left, value_of(left), value[:same], value[same:], FORMATS.get(lost, ""))


def about(bits: str, lost: int) -> str:
    kept = cut_off(bits, lost)
    name = f", as in {kept.name}" if kept.name else ""
    return f"{FRACTION - lost} of {FRACTION} bits of the fraction are kept{name}: {kept.value:.7f}."
