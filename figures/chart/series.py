# SPDX-License-Identifier: Apache-2.0
"""Which color and which marker a line has: a kernel keeps them through all charts of the course."""

from collections.abc import Iterable

from recorder.project import RecorderError

MARKERS = (  # each about 7 pixels wide; as many as there are colors
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",  # a disk
    "M-3-3h6v6h-6z",  # a square
    "M0-4l4 4-4 4-4-4z",  # a diamond
    "M0-4l4 7h-8z",  # a triangle
    "M0 4l4-7h-8z",  # a triangle on its tip
    "M-1.5-4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",  # a plus sign
    "M-4-2l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",  # a cross
    "M-4 0l2-3.5h4l2 3.5-2 3.5h-4z",  # a hexagon
)
FIXED = {  # of lines by their keys: what readers would otherwise use comes first, then what most charts call ours
    **dict.fromkeys(("torch", "cublas", "cudnn", "eager", "torch_float32"), 0),
    **dict.fromkeys(("ours", "triton", "fused", "persistent", "chosen", "one", "tf32"), 1),
    **dict.fromkeys(("two", "autotuned", "graph", "compiled", "compile"), 2),
    **dict.fromkeys(("cublaslt", "flash", "other"), 3),
}


def numbers(keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each line's color and marker; one that has no fixed number takes the first that is free,
    and the first of all, which is what others are compared with, only where there is no other.

    >>> numbers(["torch", "naive", "triton"]), numbers(["copy", "read"])
    ({'torch': 0, 'naive': 2, 'triton': 1}, {'copy': 1, 'read': 2})
    """
    keys = list(keys)
    if len(keys) > len(MARKERS):
        raise RecorderError(f"a chart has {len(MARKERS)} colors, and this one {len(keys)} lines; show a table")
    chosen: dict[str, int] = {}
    for key in keys:
        if key in FIXED and FIXED[key] not in chosen.values():
            chosen[key] = FIXED[key]
    for key in keys:
        if key not in chosen:
            free = (number % len(MARKERS) for number in range(1, len(MARKERS) + 1))
            chosen[key] = next(number for number in free if number not in chosen.values())
    return {key: chosen[key] for key in keys}


def our_line(found: dict[str, int]) -> str | None:
    """Return the key of the line that a chart is about: ours, where it stands beside what readers would otherwise use.

    >>> our_line(numbers(["torch", "naive"])), our_line(numbers(["torch", "two", "fused"])), our_line({"read": 1})
    ('naive', 'fused', None)
    """
    key = next((key for key, number in found.items() if number == 1), None)
    return key if 0 in found.values() and (key in FIXED or len(found) == 2) else None
