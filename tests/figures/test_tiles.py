# SPDX-License-Identifier: Apache-2.0
"""The picture of a matrix product says of each element what the program did with it, as the accesses do."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from figures.accesses.reading import Tensor
from figures.tiles import tiles
from figures.tiles.matrix import Matrix
from recorder.project import RecorderError
from recorder.recording import Access, Launch, Recording
from tests.toy import made

A, B, C = ("a_ptr", (3, 5), (5, 1)), ("b_ptr", (5, 4), (1, 5)), ("c_ptr", (3, 4), (4, 1))


def access(tensor, op, pid, first, sides, *, mask=True) -> Access:
    """A tile that begins at ``first``; without ``mask`` every lane is on."""
    name, (rows, columns), (outer, inner) = tensor
    places = [(first[0] + i, first[1] + j) for i, j in itertools.product(range(sides[0]), range(sides[1]))]
    offsets = [r * outer + c * inner for r, c in places]
    on = [not mask or (r < rows and c < columns) for r, c in places]
    return Access(pid=(pid, 0, 0), op=op, tensor=name, shape=list(sides), offsets=offsets, mask=on)


def recorded(*accesses, drop=()) -> Recording:
    """The toy, launched once on three matrices, or on fewer."""
    arguments = {
        name: {"dtype": "float32", "shape": list(shape), "strides": list(strides)}
        for name, shape, strides in (A, B, C)
        if name not in drop
    }
    launch = Launch(kernel="k", file="k.py", grid=(4, 1, 1), arguments=arguments, accesses=[*accesses] or None)
    return replace(made("cpu"), launches={"k[0]": launch}, launched={"k": 1})


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
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.S)[1:]
    return [re.findall(r"<t[hd][^>]*>(?:<span>)?(.*?)(?:</span>)?</t[hd]>", row) for row in rows]


def test_every_tile_with_its_lanes():
    assert lanes(tiles(program_one(), program=1)) == [
        ["load <code>a</code>", "0", "0, 1", "0–3", "8 loaded"],
        ["load <code>a</code>", "1", "0, 1", "4–7", "2 loaded, 6 masked off"],
        ["load <code>b</code>", "0", "0–3", "2, 3", "8 loaded"],
        ["load <code>b</code>", "1", "4–7", "2, 3", "2 loaded, 6 masked off"],
        ["store <code>c</code>", "", "0, 1", "2, 3", "4 stored"],
    ]


def test_strays_and_what_lies_outside():
    rows = lanes(tiles(program_one(mask=False), program=1))
    # Row 0 of a goes on into row 1, row 1 into row 2; column 2 of b, which is stored by columns, into column 3.
    assert rows[1][-1] == "2 loaded, 6 loaded, but another element"
    assert rows[3][-1] == "2 loaded, 3 loaded, but another element, 3 out of bounds"


def test_a_square_for_each_element_and_lane():
    root = drawn(tiles(program_one(), program=1))
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
    matrix = Matrix("a", Tensor("a_ptr", "float32", [2, 2], [2, 1]))
    wrapped = [2 * (r % 2) + c for r in range(4) for c in range(2)]
    matrix.add(Access(pid=(0, 0, 0), op="load", tensor="a_ptr", shape=[4, 2], offsets=wrapped, mask=[True] * 8))
    assert matrix.tile_rows() == [("load", "0", "0–3", "0, 1", "4 loaded, 4 loaded, but another element")]


def test_a_square_beyond_the_matrix_stays_there_when_it_is_touched_again():
    matrix = Matrix("a", Tensor("a_ptr", "float32", [2, 2], [2, 1]))
    beyond = Access(pid=(0, 0, 0), op="load", tensor="a_ptr", shape=[1, 4], offsets=[0, 1, 2, 3], mask=[True] * 4)
    matrix.add(beyond)
    matrix.add(beyond)
    assert [row[-1] for row in matrix.tile_rows()] == ["2 loaded, 2 loaded, but another element"] * 2


@pytest.mark.parametrize(
    "made, options, fragment",
    [
        (program_one(), {"launch": "k[1]"}, "there is no launch k[1]"),
        (program_one(), {"program": 4}, "its launch has 4"),
        (recorded(access(A, "load", 0, (0, 0), (1, 1)), drop=("b_ptr",)), {}, "no matrix 'b_ptr'"),
        (recorded(), {}, "were not written down"),
        (recorded(access(A, "load", 0, (0, 0), (64, 64))), {}, "is not legible"),
    ],
)
def test_says_what_it_cannot_draw(made, options, fragment):
    with pytest.raises(RecorderError, match=re.escape(fragment)):
        tiles(made, **options)
