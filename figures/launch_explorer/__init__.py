# SPDX-License-Identifier: Apache-2.0
"""`<launch-explorer>`: which program touches which element, for any sizes, in one dimension or two."""

from markupsafe import Markup

from figures.accesses import picture
from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

# By dimensions: what a slider is called on the page, what it sets, its value unless given, its largest value.
LENGTHS = {
    "1": [("n", "n", 10, 64), ("BLOCK_SIZE", "block", 4, 32)],
    "2": [
        ("rows", "rows", 6, 12), ("columns", "columns", 10, 12),
        ("BLOCK_ROWS", "blockRows", 4, 8), ("BLOCK_COLUMNS", "blockColumns", 4, 8),
    ],
}  # fmt: skip


@figure(of="launches", foot=EXPLORER)
def explorer(recording: Recording, *, launch=0, id="launch", switch=False):
    """It begins as a recorded launch over one dimension. ``switch``: whether it leads to two and back."""
    seen = recording.traced(launch)
    blocks = [value for name, value in seen.arguments.items() if name in seen.constexprs]
    if "n" not in seen.arguments or not blocks:
        raise RecorderError(f"launch {launch} has no length `n` or no constant, the block's, for an explorer to vary")
    return form(picture(seen), id=id, switch=switch, n=seen.arguments["n"], block=blocks[0])


def form(picture: Markup, *, id="launch", switch=False, dimensions="1", **values: int) -> Markup:
    """The explorer around the static picture of its first state; ``values`` as in ``LENGTHS``."""
    fields = [
        {"dimension": dimension, "label": label, "name": name, "value": values.get(name, value), "most": most,
         "ends": _ends(name, most)}
        for dimension, lengths in LENGTHS.items()
        for label, name, value, most in lengths
    ]  # fmt: skip
    told = {"id": id, "switch": switch, "dimensions": dimensions, "fields": fields}
    return render("launch_explorer/template.html", picture=picture, **told)


def _ends(name: str, most: int) -> dict[str, int]:
    """Those of a slider; a block's moves from one power of two to the next."""
    return {"min": 0, "max": most.bit_length() - 1} if name.startswith("block") else {"min": 1, "max": most}
