# SPDX-License-Identifier: Apache-2.0
"""Turns a fence ``predict`` into Markdown: a question, which a reader answers before the page does.

With choices, the right one marked by an ``x``; what stands below ``then`` is shown afterwards::

    ```predict
    ask: A hundred numbers, blocks of 32. How many programs start?
    choices:
      - three
      - [x] four
      - one hundred
    then: Three would leave four numbers over.
    ```

With a number, which is a claim; ``within`` is how far off is close, a share (10 % without it) or a number::

    ```predict
    ask: The bytes are doubled. How many times as long does it take?
    answer: {{ gpu: doubled["memory"].bytes; .1f; > 1.7 }}
    unit: times as long
    within: 10%
    then: Memory is the limit, so …
    ```

``ask``, the choices and ``then`` are Markdown and may hold claims; a line that is indented continues the one above.
Without JavaScript the answer waits in a ``<details>``; ``theme/assets/predict.js`` makes it a thing to play with.
"""

import re

from recorder.project import RecorderError, nearest
from render.fences import Fence

KEYS = ("ask", "choices", "answer", "unit", "within", "then")
KEY = re.compile(r"(?P<key>\w+):(?:\s+(?P<text>.*)|$)")
CHOICE = re.compile(r"\s*-\s+(?P<right>\[x\]\s+)?(?P<text>.*)")
CLAIM = re.compile(r"\{\{.*\}\}")
WITHIN = re.compile(r"\d+(\.\d+)?%?")


def markdown_of(fence: Fence) -> list[str]:
    """Return a fence as lines of Markdown. Raise ``RecorderError`` where it asks nothing, or has not one answer."""
    if fence.indent:
        raise RecorderError("a fence `predict` stands at the margin")
    parts = _parts(fence.source.splitlines())
    for key in ("ask", "then"):
        if not "".join(parts.get(key, ())).strip():
            raise RecorderError(f"a fence `predict` needs `{key}:`")
    if ("choices" in parts) == ("answer" in parts):
        raise RecorderError("a fence `predict` has either `choices:` or `answer:`")
    data, answers, right = _choices(parts) if "choices" in parts else _number(parts)
    return [
        f'<div class="predict"{data} markdown="1">',
        '<div class="predict__ask" markdown="1">',
        "",
        *parts["ask"],
        "",
        *answers,
        "",
        "</div>",
        '<details class="predict__then" markdown="1">',
        "<summary>Show me</summary>",
        "",
        *right,
        "",
        *parts["then"],
        "",
        "</details>",
        "</div>",
    ]


def _parts(lines: list[str]) -> dict[str, list[str]]:
    parts, key = {}, None
    for line in lines:
        if match := KEY.fullmatch(line):
            key = match["key"]
            if key not in KEYS:
                raise RecorderError(f"a fence `predict` has no {key!r}{nearest(key, KEYS)}")
            if key in parts:
                raise RecorderError(f"{key!r} is given twice")
            parts[key] = [match["text"] or ""]
        elif key is None or (line.strip() and not line[0].isspace() and not (key == "choices" and line[0] == "-")):
            raise RecorderError(f"a fence `predict` holds `key: text`, and indented lines that go on, not {line!r}")
        else:
            parts[key].append(line if key == "choices" else line.strip())
    return parts


def _choices(parts: dict[str, list[str]]) -> tuple[str, list[str], list[str]]:
    choices = []
    for line in filter(str.strip, parts["choices"]):
        if match := CHOICE.fullmatch(line):
            choices.append((bool(match["right"]), match["text"].strip()))
        elif choices:
            choices[-1] = (choices[-1][0], f"{choices[-1][1]} {line.strip()}")
    marked = [number for number, (right, _) in enumerate(choices) if right]
    if len(choices) < 2 or len(marked) != 1:
        raise RecorderError("`choices:` are at least two lines `- text`, one of them `- [x] text`, which is right")
    if wrong := [key for key in ("unit", "within") if key in parts]:
        raise RecorderError(f"{wrong[0]!r} belongs to a number, not to choices")
    told = re.sub(r"[.!]$", "", choices[marked[0]][1])
    return (
        f' data-right="{marked[0]}"',
        [f"{number}. {text}" for number, (_, text) in enumerate(choices, 1)],
        [f"**{told}.**", "{ .predict__is }"],
    )


def _number(parts: dict[str, list[str]]) -> tuple[str, list[str], list[str]]:
    answer, unit, within = (" ".join(parts.get(key, [""])).strip() for key in ("answer", "unit", "within"))
    if not CLAIM.fullmatch(answer):
        raise RecorderError(f"`answer:` is a claim such as {{{{ gpu: EXPRESSION; FORMAT }}}}, not {answer!r}")
    if not WITHIN.fullmatch(within or "10%"):
        raise RecorderError(f"`within:` is a share such as 10% or a number, not {within!r}")
    if re.search(r'[<>"&]', unit):
        raise RecorderError(f"`unit:` is a word or two, not {unit!r}")
    data = f' data-within="{within or "10%"}"' + (f' data-unit="{unit}"' if unit else "")
    told = answer if unit in ("", "%") else f"{answer} {unit}"
    return data, [], [f"**{told}**", "{ .predict__is }"]
