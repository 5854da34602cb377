# SPDX-License-Identifier: Apache-2.0
"""The forms of explorers, which stand on the page and work only with a script, and `<launch-explorer>` as a whole.

``theme/assets/explorer.js`` reads what these parts hold: the names of the fields, `data-plays` and `data-step`.
"""

from html import escape

OUTPUTS = '<output class="explorer__summary"></output><output class="explorer__detail"></output>'
# Of <launch-explorer>: what a slider is called on the page, what it sets, its value unless given, its largest value.
LENGTHS = {
    "1": [("n", "n", 10, 64), ("BLOCK_SIZE", "block", 4, 32)],
    "2": [
        ("rows", "rows", 6, 12), ("columns", "columns", 10, 12),
        ("BLOCK_ROWS", "blockRows", 4, 8), ("BLOCK_COLUMNS", "blockColumns", 4, 8),
    ],
}  # fmt: skip


def radios(name: str, title: str, options: dict[str, str], chosen: str) -> str:
    """A row of buttons of which one is pressed; `options` maps values to what their buttons say."""
    labels = (
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if value == chosen else ""}>'
        f"<span>{escape(label)}</span></label>"
        for value, label in options.items()
    )
    return f'<fieldset class="explorer__switch"><legend>{title}</legend>{"".join(labels)}</fieldset>'


def steps(back: str, on: str, *, plays: str, pace: int) -> str:
    """Buttons that lead the field named `plays` a step back or on, or to its end with `pace` milliseconds a step."""
    return (
        f'<div class="explorer__steps"><button type="button" data-step="-1">{back}</button>'
        f'<button type="button" data-step="1">{on}</button>'
        f'<button type="button" data-plays="{plays}" data-pace="{pace}">Play</button></div>'
    )


def launch_explorer(picture: str, *, id: str = "launch", switch: bool = False, dimensions: str = "1", **values) -> str:
    """`<launch-explorer>` around the static picture of its first state; `values` as in `LENGTHS`."""
    lengths = "".join(
        _length(label, name, values.get(name, value), most, dimension)
        for dimension, fields in LENGTHS.items()
        for label, name, value, most in fields
    )
    if switch:
        top = radios("dimensions", "Dimensions", {"1": "1-D", "2": "2-D"}, dimensions)
    else:
        top = f'<input type="hidden" name="dimensions" value="{dimensions}">'
    return (
        f'<launch-explorer id="{escape(id)}">{picture}<form class="explorer" autocomplete="off" hidden>{top}'
        f'<div class="explorer__fields">{lengths}</div>'
        '<div class="explorer__lanes" role="listbox" aria-label="Lanes, by program"></div>'
        '<input type="range" class="explorer__moment" name="program" min="0" value="0" aria-label="Program">'
        f"{steps('Previous program', 'Next program', plays='program', pace=700)}{OUTPUTS}</form></launch-explorer>"
    )


def _length(label: str, name: str, value: int, most: int, dimension: str) -> str:
    """A slider, and what it sets as a number; that of a block moves from one power of two to the next."""
    ends = f'min="0" max="{most.bit_length() - 1}"' if name.startswith("block") else f'min="1" max="{most}"'
    return (
        f'<div class="explorer__field" data-dimensions="{dimension}"><code aria-hidden="true">{label}</code>'
        f'<input type="range" aria-label="{label}" {ends}>'
        f'<input type="number" name="{name}" aria-label="{label}, as a number" min="1" max="{most}" value="{value}">'
        "</div>"
    )
