# SPDX-License-Identifier: Apache-2.0
"""Draw a launch as text: a row a program, a character a lane; and elements, each with the program that stored it."""

from .finding import WIDTH
from .launch import Access, Launch

ON, OFF, WRONG, MISSED, OUTSIDE = "■", "·", "✗", "○", "!"
LEGEND = {
    ON: "on", OFF: "off", WRONG: "on, wrong here", MISSED: "off, but this element is never stored",
    OUTSIDE: "on, not in bounds",
}  # fmt: skip
ASCII = str.maketrans(
    {ON: "#", OFF: ".", WRONG: "X", MISSED: "o", "…": "~", "×": "x", "⋮": ":", "–": "-", "✓": "v", "─": "-"}
)
ROWS = 8  # programs at most
OWNERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def states(access: Access, wrong: set[int], missed: set[int]) -> list[str]:
    """Return the state of each lane; ``wrong`` and ``missed`` are offsets."""
    signs = []
    for offset, on, inside in zip(access.offsets, access.mask, access.inside, strict=True):
        if on:
            signs.append(OUTSIDE if not inside else WRONG if offset in wrong else ON)
        else:
            signs.append(MISSED if offset in missed else OFF)
    return signs


def picture(launch: Launch, chosen: dict[int, Access], focus: Access, lane: int, wrong=(), missed=()) -> dict:
    """Return a launch as data: one access of each program, and the lane in focus."""
    wrong, missed = set(wrong), set(missed)
    return {
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "op": focus.op,
        "tensor": name_of(focus),
        "line": focus.line,
        "shape": list(focus.shape),
        "focus": [focus.program, lane],
        "programs": [
            {"program": p, "pid": list(launch.pid(p)), "lanes": "".join(states(chosen[p], wrong, missed)),
             "offsets": list(chosen[p].offsets)}
            for p in _near(focus.program, launch.programs) if p in chosen
        ],
    }  # fmt: skip


def name_of(access: Access) -> str:
    """Return the kernel's name for the tensor, such as ``out_ptr``; else the host function's."""
    return access.launch.names.get(id(access.region), access.region.name)


def _near(program: int, programs: int) -> list[int]:
    """Return the first two programs, those around one, and the last."""
    if programs <= ROWS:
        return list(range(programs))
    return sorted({0, 1, program - 1, program, program + 1, programs - 1} & set(range(programs)))


def text(drawn: dict) -> list[str]:
    """Return the lines of a picture, at most 80 characters wide."""
    programs = drawn["programs"]
    label = max(len(_label(p["pid"])) for p in programs)
    sides = [_range(p["offsets"]) for p in programs]
    room = WIDTH - 2 - label - 2 - 2 - max(map(len, sides))
    row = drawn["shape"][-1] if len(drawn["shape"]) > 1 else 0
    count = len(programs[0]["lanes"])
    lanes = _window(count, drawn["focus"][1], room - 2, row)
    what = {"load": "read", "store": "written", "atomic": "changed atomically"}[drawn["op"]]
    many = f"lanes {lanes[0]}–{lanes[-1]} of {count}" if count > 1 else "their one lane"
    lines = [f"{drawn['tensor']}, {what} on line {drawn['line']}: programs × {many}"]
    previous, used = -1, set()
    for entry, side in zip(programs, sides, strict=True):
        if entry["program"] > previous + 1:
            lines.append("  ⋮")
        previous = entry["program"]
        shown = [entry["lanes"][lane] for lane in lanes if lane < len(entry["lanes"])]
        used |= set(shown)
        cells = "".join(
            (" " if row and i and lane % row == 0 else "") + state
            for i, (lane, state) in enumerate(zip(lanes, shown, strict=False))
        )
        cells = ("…" if lanes[0] else "") + cells + ("…" if lanes[-1] < count - 1 else "")
        lines.append(f"  {_label(entry['pid']):{label}}  {cells}  {side}")
    return [*lines, "  " + "   ".join(f"{sign} {LEGEND[sign]}" for sign in LEGEND if sign in used)]


def _label(pid: list[int]) -> str:
    return f"program {pid[0] if len(pid) == 1 else tuple(pid)}"


def _range(offsets: list[int]) -> str:
    return f"offsets {min(offsets)}–{max(offsets)}" if len(offsets) > 1 else f"offset {offsets[0]}"


def _window(count: int, focus: int, room: int, row: int) -> list[int]:
    """Return as many lanes as there is room for, around one; rows of a tile are a space apart."""
    fits = room if not row else room * row // (row + 1)
    if count <= fits:
        return list(range(count))
    first = min(max(0, focus - fits // 2), count - fits)
    return list(range(first, first + fits))


def owners(access: Access, focus: int) -> list[str]:
    """Return the elements around one, each with the program that stored it; of a small launch only."""
    region, launch = access.region, access.launch
    if launch.programs > len(OWNERS) or not region.span:
        return []
    sign = lambda offset: "_" if region.storer(offset) < 0 else OWNERS[region.storer(offset)]
    at = [offset for offset in range(region.span) if region.element(offset) >= 0]
    here = at.index(focus) if focus in at else 0
    first = max(0, min(here - 28, len(at) - 56))
    shown = at[first : first + 56]
    cells = "".join(sign(offset) for offset in shown)
    ends = ("…" if first else "") + cells + ("…" if first + 56 < len(at) else "")
    return ["", "elements, each with the program that stored it (_ none):", f"  {ends}"]
