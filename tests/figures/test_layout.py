# SPDX-License-Identifier: Apache-2.0
"""A drawn layout says which thread holds which element, as Triton's own compiler does."""

import re
import xml.etree.ElementTree as ET
from math import prod

import pytest
from markupsafe import escape
from msgspec.structs import replace

from figures.layout import layout, picture
from figures.layout.blocked import Layout, parse
from recorder.project import RecorderError
from recorder.recording import Line
from tests.toy import compiled, made

SVG = "{http://www.w3.org/2000/svg}"
LINE = "#{0} = #ttg.blocked<{{sizePerThread = {1}, threadsPerWarp = {2}, warpsPerCTA = {3}, order = {4}}}>\n"
FLAT = LINE.format("blocked", [4], [32], [8], [0])
LOAD = '    %x = tt.load %p, %m : tensor<1024x!tt.ptr<f32>, #blocked> loc("x")\n'

# One-dimensional and two-dimensional; larger, as large as and smaller than the threads; rows and columns first; AMD.
LAYOUTS = [
    Layout((1024,), (4,), (32,), (8,), (0,)),
    Layout((1024,), (4,), (32,), (1,), (0,)),
    Layout((1024,), (4,), (64,), (4,), (0,)),
    Layout((64,), (1,), (32,), (4,), (0,)),
    Layout((16,), (1,), (32,), (4,), (0,)),
    Layout((2,), (4,), (32,), (2,), (0,)),
    Layout((16, 32), (1, 4), (8, 4), (2, 2), (1, 0)),
    Layout((32, 16), (4, 1), (4, 8), (2, 2), (0, 1)),
    Layout((64, 64), (2, 2), (4, 8), (4, 1), (1, 0)),
    Layout((8, 8), (1, 1), (16, 4), (1, 4), (1, 0)),
]


def drawn(parsed: Layout, **options):
    """The boxes of a picture: the threads named in each, and the shade."""
    root = ET.fromstring(picture(parsed, "id", **options))
    root = root.find(f"{SVG}svg[@class='layout-wide']") or root
    boxes = [rect for rect in root.iter(f"{SVG}rect")]
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    return list(zip(names, boxes, strict=True))


def test_reads_the_layout_of_the_first_access():
    other = LINE.format("blocked1", [1], [32], [8], [0])
    parsed = parse(FLAT + other + LOAD)
    assert parsed == Layout((1024,), (4,), (32,), (8,), (0,)) and f"#blocked = {parsed}\n" == FLAT
    loads = LOAD.replace("#blocked", "#blocked1").replace("1024", "256") + LOAD
    assert parse(FLAT + other + loads).per_thread == (1,) and parse(FLAT + other + loads, "blocked").per_thread == (4,)


def test_reads_the_shape_of_the_whole_block():
    two = LINE.format("blocked", [1, 4], [4, 8], [4, 1], [1, 0])
    lines = "%a = tensor<16x1xi32, #blocked>, tensor<32xf16>\n", "tt.store tensor<16x64x!tt.ptr<f16>, #blocked>"
    assert parse(two + "".join(lines)) == Layout((16, 64), (1, 4), (4, 8), (4, 1), (1, 0))


def test_reads_amd():
    text = LINE.format("blocked", [4], [64], [4], [0])
    text += "%x = amdg.buffer_load %p[%o], %m {contiguity = 4 : i32} : tensor<2048xf32, #blocked>"
    assert parse(text) == Layout((2048,), (4,), (64,), (4,), (0,))


@pytest.mark.parametrize("text, name, message", [
    ("module {}", None, "no blocked layout"),
    (FLAT + LOAD, "blocked1", "no blocked layout 'blocked1'.*blocked"),
    (FLAT, None, "no tensor has the layout"),
    (FLAT.replace("order", "CGALayout = [[1]], order") + LOAD, None, "cannot draw CGALayout"),
    (LINE.format("blocked", [1] * 3, [32, 1, 1], [1] * 3, [2, 1, 0]) + "tensor<8x8x8xf32, #blocked>", None, "3 axes"),
])  # fmt: skip
def test_refuses(text, name, message):
    with pytest.raises(RecorderError, match=message):
        parse(text, name)


@pytest.mark.parametrize("given", LAYOUTS, ids=str)
def test_every_thread_holds_what_triton_says(given):
    language = pytest.importorskip("triton.experimental.gluon.language")
    views = pytest.importorskip("triton._C.libtriton.gluon_ir")
    theirs = language.BlockedLayout(*map(list, (given.per_thread, given.threads, given.warps, given.order)))
    view = views.get_layout_view(theirs, list(given.shape), False)
    cells = [re.findall(r"T(\d+):\d+", cell) for cell in re.split(r"[,\]]", view) if "T" in cell]
    holders = given.holders()
    assert len(holders) == len(cells) == prod(given.shape)
    ours = [sorted(holders[element]) for element in sorted(holders)]
    assert ours == [sorted({int(thread) for thread in cell}) for cell in cells]


@pytest.mark.parametrize("given", LAYOUTS, ids=str)
def test_a_picture_has_every_element_once(given):
    root = ET.fromstring(picture(given, "id"))
    root = root.find(f"{SVG}svg[@class='layout-wide']") or root
    rest = [t.text for t in root.iter(f"{SVG}text") if "not drawn" in t.text]
    boxes = drawn(given)
    side = prod(min(a, b) for a, b in zip(given.per_thread, given.shape, strict=True))
    assert rest or len(boxes) * side == prod(given.shape)
    assert len({(box.get("x"), box.get("y")) for _, box in boxes}) == len(boxes)


@pytest.mark.parametrize("given", [one for one in LAYOUTS if len(one.shape) == 1], ids=str)
def test_all_of_a_row_fits_a_phone(given):
    root = ET.fromstring(picture(given, "id")).find(f"{SVG}svg[@class='layout-phone']")
    assert float(root.get("viewBox").split()[2]) <= 344
    assert [box.get("fill-opacity") for box in root.iter(f"{SVG}rect")] == [
        box.get("fill-opacity") for _, box in drawn(given)
    ]


def test_boxes_name_their_threads():
    names = [name for name, _ in drawn(LAYOUTS[0])]
    assert names == [str(thread) for thread in range(256)]
    assert [name for name, _ in drawn(LAYOUTS[1])] == [str(thread) for _ in range(8) for thread in range(32)]
    assert [name for name, _ in drawn(LAYOUTS[3])] == [f"{thread}, {thread + 64}" for thread in range(64)]
    assert drawn(LAYOUTS[4])[3][0] == "3 … (8×)"
    assert [name for name, _ in drawn(LAYOUTS[6])][:9] == ["0", "1", "2", "3", "32", "33", "34", "35", "4"]


def test_shades_tell_warps_apart():
    shades = [box.get("fill-opacity") for _, box in drawn(LAYOUTS[0])]
    assert len({shades[32 * warp] for warp in range(4)}) == 4
    assert all(len(set(shades[32 * warp : 32 * warp + 32])) == 1 for warp in range(8))


def test_one_thread_is_outlined():
    bold = [name for name, box in drawn(LAYOUTS[1], thread=1) if box.get("stroke-width") == "2"]
    assert bold == ["1"] * 8
    assert not [name for name, box in drawn(LAYOUTS[1]) if box.get("stroke-width") == "2"]


def recorded(*lines: str):
    """The toy, with these lines as the TritonGPU IR of its launch 0."""
    first = compiled()[0]
    code = replace(first.targets["sm_90"], stages={"ttgir": [Line(line, None) for line in lines]})
    return replace(made("cpu"), compiled=[replace(first, targets={"sm_90": code})])


def test_words():
    assert LAYOUTS[0].sentence() == "1,024 elements, 8 warps of 32 threads, 4 elements in each thread"
    held = "1 element in each thread, each element in 2 threads"
    assert LAYOUTS[3].sentence() == f"64 elements, 4 warps of 32 threads, {held}"
    assert "16 × 32 elements" in LAYOUTS[6].sentence()
    described = lambda given: ET.fromstring(picture(given, "id")).find(f"{SVG}desc").text
    assert described(LAYOUTS[1]) == "Warp 0, threads 0–31: elements 0–1023."
    assert "Warp 1, threads 32–63: rows 0–7, columns 16–31." in described(LAYOUTS[6])


def test_the_figure():
    shown = layout(recorded(FLAT.strip(), LOAD.strip("\n")), thread=1)
    assert f"<code>{escape(str(LAYOUTS[0]))}</code>" in shown
    assert shown.count('class="layout-') - 1 == shown.count('stroke-width="2"') == 2, "a phone has its own"
    table = shown.partition("As a table")[2]
    assert re.findall('<th scope="row">(.*?)</th>', table) == [str(warp) for warp in range(8)]
    assert "<span>32–63</span></td>" in table and "<span>thread 32: elements 128–131</span></td>" in table


def test_says_what_it_cannot_draw():
    made_up = recorded(FLAT.strip(), LOAD)
    with pytest.raises(RecorderError, match="no thread 256"):
        layout(made_up, thread=256)
    with pytest.raises(RecorderError, match="no target"):
        layout(made_up, target="sm_99")
    with pytest.raises(RecorderError, match="no blocked layout 'blocked7'"):
        layout(made_up, name="blocked7")


def test_a_row_that_is_too_long():
    with pytest.raises(RecorderError, match="too many to draw"):
        picture(Layout((4, 4096), (1, 1), (1, 32), (4, 1), (1, 0)), "id")
