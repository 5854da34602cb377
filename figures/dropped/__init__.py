# SPDX-License-Identifier: Apache-2.0
"""`<dropped-twice>`: what dropout drops forward and backward, and the seed that is all that it keeps in between.

It takes the six numbers of a run. ``seed`` is the run's; the random numbers of other seeds, by which a reader may spoil
the backward, are computed by Philox: the picture is refused if that gives other numbers than the run printed.
"""

from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LOW = 0xFFFFFFFF
FOOT = "A run recorded on {date}, Triton {triton}; other seeds use the same function, Philox"


class Element(NamedTuple):
    """One element; its texts are as printed."""

    x: str
    u: str
    out: str
    grad: str
    grad_x: str

    @property
    def kept(self) -> bool:
        return self.out != "0"


@figure(of="output", foot=FOOT)
def dropped(recording: Recording, *, section=..., seed=..., p=0.5, other=(28, 29), mask=(8192, 4096), id="dropped"):
    """``other``: seeds to try in the backward; ``mask``: rows and columns of a tensor of real size."""
    texts = printed.sections(recording.output)
    if section not in texts:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, texts)}")
    lines = dict(line.split(":") for line in texts[section].splitlines() if line.strip())
    if missing := [name for name in Element._fields if name not in lines]:
        raise RecorderError(f"section {section!r} has no line {missing[0]!r}")
    elements = [Element(*each) for each in zip(*(lines[name].split() for name in Element._fields), strict=True)]
    n = len(elements)
    if [f"{each:.2f}" for each in uniform(seed, n)] != [each.u for each in elements]:
        raise RecorderError(f"by the seed {seed} the random numbers are not those of section {section!r}")
    if any(each.kept != (uniform(seed, n)[i] >= p) for i, each in enumerate(elements)):
        raise RecorderError(f"with p = {p} other elements are kept than the run kept")
    return render(
        "dropped/template.html",
        id=id,
        elements=elements,
        seed=seed,
        p=p,
        names={seed: f"{seed}, the same"} | {each: str(each) for each in other},
        data={each: {"data-u": " ".join(f"{u:.4f}" for u in uniform(each, n))} for each in (seed, *other)},
        mask=mask,
        scale=1 / (1 - p),
    )


def uniform(seed: int, n: int) -> list[float]:
    """Return what ``tl.rand(seed, offsets)`` gives for the first ``n`` offsets."""
    numbers = (philox(seed, offset)[0] for offset in range(n))
    return [(each if each < 2**31 else LOW - each) * 4.6566127342e-10 for each in numbers]


def philox(seed: int, counter: int) -> tuple[int, int, int, int]:
    """Philox4x32-10, as its authors publish it.

    >>> [f"{each:08x}" for each in philox(0, 0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter & LOW, counter >> 32, 0, 0
    k0, k1 = seed & LOW, seed >> 32 & LOW
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & LOW, (a >> 32) ^ c3 ^ k1, a & LOW
        k0, k1 = (k0 + 0x9E3779B9) & LOW, (k1 + 0xBB67AE85) & LOW
    return c0, c1, c2, c3
