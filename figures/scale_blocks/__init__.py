# SPDX-License-Identifier: Apache-2.0
"""`<scale-blocks>`: an element of x and one of w, all that share their scales, and where those scales lie.

It takes printed lines of how many scales there are: for the tensor, for a row, for a block, for a group. The matrices
are drawn small, with 8 in place of 128 and 2 in place of 32; the picture is refused if the arithmetic that it draws by
doesn't give, for the printed sizes, the printed shapes.
"""

import re

from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

SCHEMES = {"tensor": "a tensor", "row": "a row", "block": "1 × 128, 128 × 128", "group": "groups of 32"}
SHARED = {"tensor": (0, 0, 0), "row": (1, 1, 0), "block": (1, 128, 128), "group": (1, 1, 32)}  # 0: all
SMALL = {128: 8, 32: 2}  # as drawn
X_ROWS, W_ROWS, K = 8, 16, 16
FIRST = {"m": 3, "n": 10, "k": 5}
SAID = {
    "tensor": "One scale for all of x and one for all of w. Both multiply the finished sum.",
    "row": "Both scales are the same all along K, so they multiply the finished sum.",
    "block": "Along K, the scales change after 128 numbers. Each sum of 128 products is multiplied by both scales, "
    "and only then joins the whole sum.",
    "group": "Along K, the scales change after 32 numbers. The matrix units of newer GPUs multiply by them.",
}


@figure(of="output", foot=EXPLORER)
def scale_blocks(recording: Recording, *, section=..., id="scales"):
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    text = sections[section]
    sizes = re.search(r"^x: (\d+) x (\d+), w: (\d+) x (\d+)$", text, re.M)
    found = {name: tuple(map(int, shape)) for name, *shape in re.findall(
        r"^(\w+): (\d+) x (\d+), (\d+) x (\d+)$", text, re.M)}  # fmt: skip
    found.pop("x", None)
    if not sizes or list(found) != list(SCHEMES):
        raise RecorderError(f"section {section!r} must have the sizes of x and w, and a line for each of {SCHEMES}")
    m, k, n, _ = map(int, sizes.groups())
    for name, (x_tall, w_tall, wide) in SHARED.items():
        expected = cdiv(m, x_tall or m), cdiv(k, wide or k), cdiv(n, w_tall or n), cdiv(k, wide or k)
        if found[name] != expected:
            raise RecorderError(f"a scale for each {name} gives {expected}, not {found[name]}")
    schemes = {
        name: {
            "x": region(X_ROWS, x_tall, wide, FIRST["m"]),
            "w": region(W_ROWS, SMALL.get(w_tall, w_tall), wide, FIRST["n"]),
            "count": f"{shape(*found[name][:2])} scales for x of {shape(m, k)}, "
            f"{shape(*found[name][2:])} for w of {shape(n, k)}.",
        }
        for name, (x_tall, w_tall, wide) in SHARED.items()
    }
    return render(
        "scale_blocks/template.html", id=id, schemes=schemes, names=SCHEMES, chosen="block", first=FIRST,
        rows={"x": X_ROWS, "w": W_ROWS}, k=K, said=SAID, axis={"x": "m", "w": "n"},
    )  # fmt: skip


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def shape(rows: int, columns: int) -> str:
    """
    >>> shape(4096, 56), shape(1, 1)
    ('4,096 × 56', '1 × 1')
    """
    return f"{rows:,} × {columns:,}"


def region(rows: int, tall: int, wide: int, row: int) -> dict[str, int]:
    """Return how tall and wide the part is that shares a scale, as drawn; and of the chosen element, the scale's place.

    >>> region(16, 8, 128, 10)
    {'tall': 8, 'wide': 8, 'row': 1, 'column': 0}
    """
    tall, wide = tall or rows, SMALL.get(wide, K)
    return {"tall": tall, "wide": wide, "row": row // tall, "column": FIRST["k"] // wide}
