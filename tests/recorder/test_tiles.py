# SPDX-License-Identifier: Apache-2.0
"""The picture of a matrix product says of each element what the program did with it, as the accesses do."""

import itertools
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from recorder import views
from recorder.project import RecorderError
from recorder.tiles import Matrix, said, tiles

A, B, C = ("a_ptr", (3, 5), (5, 1)), ("b_ptr", (5, 4), (1, 5)), ("c_ptr", (3, 4), (4, 1))


def access(tensor, op, pid, first, sides, *, mask=True):
    """A tile that begins at ``first``; without ``mask`` every lane is on."""
    name, (rows, columns), (outer, inner) = tensor
    places = [(first[0] + i, first[1] + j) for i, j in itertools.product(range(sides[0]), range(sides[1]))]
    return {
        "pid": [pid, 0, 0],
        "op": op,
        "tensor": name,
        "shape": list(sides),
        "offsets": [r * outer + c * inner for r, c in places],
        "mask": [not mask or (r < rows and c < columns) for r, c in places],
    }


def recorded(*accesses, drop=()):
    arguments = {name: {"shape": list(shape), "strides": list(strides)} for name, shape, strides in (A, B, C)}
    launch = {"kernel": "k", "grid": [4, 1, 1], "accesses": list(accesses)}
    return {"launches": [launch | {"arguments": {k: v for k, v in arguments.items() if k not in drop}}]}


def program_one(**options):
    """Program 1 of tiles of 2 × 2, in steps of 4 along K: columns 2 and 3 of c, and two steps, the second ragged."""
    loads = [
        access(t, "load", 1, first, sides, **options)
        for step in (0, 4)
        for t, first, sides in ((A, (0, step), (2, 4)), (B, (step, 2), (4, 2)))
    ]
    return recorded(access(A, "load", 0, (2, 0), (1, 1)), *loads, access(C, "store", 1, (0, 2), (2, 2)))


def drawn(html):
    return ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


def lanes(html):
    """By access, as the table has it: step, rows, columns and lanes."""
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)][1:]


def test_every_tile_with_its_lanes():
    assert lanes(tiles(None, program_one(), program=1)) == [
        ["load <code>a</code>", "0", "0, 1", "0–3", "8 loaded"],
        ["load <code>a</code>", "1", "0, 1", "4–7", "2 loaded, 6 masked off"],
        ["load <code>b</code>", "0", "0–3", "2, 3", "8 loaded"],
        ["load <code>b</code>", "1", "4–7", "2, 3", "2 loaded, 6 masked off"],
        ["store <code>c</code>", "", "0, 1", "2, 3", "4 stored"],
    ]


def test_strays_and_what_lies_outside():
    rows = lanes(tiles(None, program_one(mask=False), program=1))
    # Row 0 of a goes on into row 1, row 1 into row 2; column 2 of b, which is stored by columns, into column 3.
    assert rows[1][-1] == "2 loaded, 6 loaded, but another element"
    assert rows[3][-1] == "2 loaded, 3 loaded, but another element, 3 out of bounds"


def test_a_square_for_each_element_and_lane():
    root = drawn(tiles(None, program_one(), program=1))
    squares = "".join(path.get("d") for path in root.findall(".//{*}path")).count("z")
    of_a, of_b, of_c, explained = 2 * 8 + 5, 5 * 2 + 8 * 2, 3 * 4, 4
    assert squares == of_a + of_b + of_c + explained
    frames = root.findall(".//{*}rect")
    assert len(frames) == 5
    texts = [text.text for text in root.findall(".//{*}text")]
    assert texts[0] == "program 1" and texts.count("0") == texts.count("1") == 2
    assert {"a: 3 × 5", "b: 5 × 4", "c: 3 × 4", "not touched by this program"} <= set(texts)
    assert "out of bounds" not in texts
    assert "Step 1: load of a, rows 0, 1, columns 4–7: 2 loaded, 6 masked off." in root.find("{*}desc").text


def test_wrapped_indices_are_other_elements():
    matrix = Matrix("a", 2, 2, dict.fromkeys(itertools.product(range(2), range(2)), "untouched"))
    wrapped = [2 * (r % 2) + c for r in range(4) for c in range(2)]
    matrix.add({"op": "load", "shape": [4, 2], "offsets": wrapped, "mask": [True] * 8}, [2, 1])
    assert said([matrix]) == [(0, "a", "load", "0–3", "0, 1", {"loaded": 4, "stray": 4})]


@pytest.mark.parametrize(
    "made, options, fragment",
    [
        (program_one(), {"launch": 1}, "there is no launch 1"),
        (program_one(), {"program": 4}, "launch 0 has 4"),
        (recorded(access(A, "load", 0, (0, 0), (1, 1)), drop=("b_ptr",)), {}, "no matrix 'b_ptr'"),
        ({"launches": [{"accesses": None}]}, {}, "were not written down"),
        (recorded(access(A, "load", 0, (0, 0), (64, 64))), {}, "is not legible"),
    ],
)
def test_says_what_it_cannot_draw(made, options, fragment):
    with pytest.raises(RecorderError, match=re.escape(fragment)):
        tiles(None, made, **options)


def test_is_a_view():
    assert views.VIEWS["tiles"] is tiles


def test_an_error_without_the_marks_of_sections():
    code = {"error": "at 2:\n    # --8<-- [start:x]\n    y = z\n", "stages": {}}
    made = {"launches": [{}], "compiled": [{"launches": [0], "targets": {"sm_90": code}}]}
    assert views.error(SimpleNamespace(), made) == (
        '<pre class="output" tabindex="0"><code>at 2:\n    y = z</code></pre>'
    )
