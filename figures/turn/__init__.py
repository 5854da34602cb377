# SPDX-License-Identifier: Apache-2.0
"""`<turn-explorer>`: one iteration of a product's loop on an H200 and on a B200: where the numbers are, and who waits.

It takes what ``below/blackwell`` printed: an outline of the compiled kernel for each GPU, and numbers. Five moments of
an iteration are drawn; each names an operation of the outline that it stands for, and the picture is refused without
it. The script shows another moment, or the B200 with ``warp_specialize``.
"""

import re
from typing import NamedTuple

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

MOMENTS = ("load", "arrival", "product", "the product before", "result")


class Moment(NamedTuple):
    """What happens: the operation of the outline, the parts of the picture at work, those that wait, a sentence."""

    operation: str
    works: str
    waits: str
    said: str


LOADED, PRODUCT = "wait_barrier loaded", "tc_gen5_mma multiplied"
CASES = {
    "H200": (
        Moment("async_tma_copy_global_to_local a loaded", "warps memory tma shared", "",
               "One thread of the four warps asks TMA for a tile of a and one of b."),
        Moment(LOADED, "shared", "warps", "All four warps wait until a tile of each has arrived."),
        Moment("warp_group_dot 128x128xf32, #mma", "warps shared unit sums", "",
               "All 128 threads issue wgmma. It reads both tiles and adds to the threads’ registers."),
        Moment("warp_group_dot_wait pendings = 1", "unit sums", "warps",
               "All wait until no more than one product is in flight. Then a pair of tiles is free."),
        Moment("async_tma_copy_local_to_global c", "warps sums", "",
               "The sums are in registers already. The warps round them and store them."),
    ),
    "B200": (
        Moment("async_tma_copy_global_to_local a loaded", "warps memory tma shared", "",
               "One thread of the four warps asks TMA for a tile of a and one of b."),
        Moment(LOADED, "shared", "warps", "All four warps wait until a tile of each has arrived."),
        Moment(PRODUCT, "warps shared unit sums", "",
               "One thread issues tcgen05.mma. It reads both tiles and adds to Tensor Memory."),
        Moment("wait_barrier multiplied", "unit sums", "warps",
               "All wait for the mbarrier of the product before. Then its tiles are free."),
        Moment("tmem_load 128x128xf32, #linear", "warps sums registers", "",
               "Only now do the sums come into registers. The warps round them and store them."),
    ),
    "B200, warp_specialize": (
        Moment("async_tma_copy_global_to_local a loaded", "loader memory tma shared", "warps",
               "One thread of the warps that only load asks TMA for both tiles."),
        Moment(LOADED, "shared", "issuer warps", "Only the warp that multiplies waits until they have arrived."),
        Moment(PRODUCT, "issuer shared unit sums", "warps",
               "One of its threads issues tcgen05.mma, and the warp goes on to the next tiles."),
        Moment("wait_barrier multiplied", "unit sums", "loader warps",
               "The loading warps wait for the mbarrier of a product. Then its tiles are free."),
        Moment("tmem_load 128x128xf32, #linear", "warps sums registers", "",
               "The four warps have waited for the last product. They load the sums, round and store them."),
    ),
}  # fmt: skip


class Panel(NamedTuple):
    """A GPU in one case, and its numbers."""

    name: str
    moments: tuple[Moment, ...]
    instruction: str
    registers: int  # of a thread
    columns: int  # of Tensor Memory
    warps: dict[str, str]  # part of the picture by its label
    buffers: int


def panel(recording: Recording, name: str) -> Panel:
    """Read a case. Raise ``RecorderError`` unless its outline has what the moments stand for."""
    sections, numbers = printed.sections(recording.output), printed.numbers(recording.output)
    lines = [line.strip() for line in sections.get(name, "").splitlines()]
    if missing := [each.operation for each in CASES[name] if each.operation not in lines]:
        raise RecorderError(f"the outline of {name} has no line {missing[0]!r}, which a moment stands for")
    instruction = re.search(rf"^{re.escape(name)}, multiplied by: (.+)$", recording.output, re.M)[1]
    buffers = re.search(r"^local_alloc (\d+)x128x64xbf16$", sections[name], re.M)[1]
    warps = {"warps 0–3": "warps"}
    if parts := re.findall(r"^partition\d, (\d) warps?$", sections[name], re.M):
        words = {"1": "one", "2": "two"}
        warps |= {f"{words[parts[0]]} multiplies": "issuer", f"{words[parts[1]]} load": "loader"}
    found = [numbers[f"{name}, {what}"] for what in ("registers of a thread", "columns of Tensor Memory")]
    return Panel(name, CASES[name], instruction, *found, warps, int(buffers))


@figure(of="output", foot="What is drawn was read from compiled code; how long each moment takes is not known here")
def turn(recording: Recording, *, moment=2, id="turn") -> Markup:
    """``moment``: the one that is shown at first, from 0."""
    panels = [panel(recording, name) for name in CASES]
    return render(
        "turn/template.html", id=id, panels=panels, moment=moment, moments=MOMENTS, last=len(MOMENTS) - 1,
        hidden=panels[-1].name, switch={"no": "off", "yes": "on"},
    )  # fmt: skip
