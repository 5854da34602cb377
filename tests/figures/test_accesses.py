# SPDX-License-Identifier: Apache-2.0
"""The picture and the table of a launch say what its recorded accesses say."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from figures.accesses import accesses, picture
from recorder.project import RecorderError
from recorder.recording import Access, Launch
from tests.figures.explorer_support import page_with
from tests.toy import made

LANES = {"shape": [2], "offsets": [0, 1], "mask": [True, True]}
SVG = "{http://www.w3.org/2000/svg}"


def launch(kernel, grid, accesses, shape, strides, **numbers) -> Launch:
    """A launch on tensors of one shape."""
    tensor = {"dtype": "float32", "shape": shape, "strides": strides, "alignment": 16}
    tensors = dict.fromkeys((access.tensor for access in accesses), tensor)
    return Launch(kernel=kernel, file="toy.py", grid=grid, arguments=tensors | numbers, accesses=accesses)


def vector_add(n=10, block=4, *, masked=True, step=None, same=()) -> Launch:
    """``step``: elements from one program to the next, or a block; ``same``: tensors whose first block all touch."""
    programs = -(-n // block)
    accesses = []
    for pid in range(programs):
        for op, tensor in (("load", "x_ptr"), ("load", "y_ptr"), ("store", "out_ptr")):
            first = 0 if tensor in same else pid * (block if step is None else step)
            offsets = [first + lane for lane in range(block)]
            mask = [offset < n if masked else True for offset in offsets]
            lanes = {"shape": [block], "offsets": offsets, "mask": mask}
            accesses.append(Access(pid=(pid, 0, 0), op=op, tensor=tensor, **lanes))
    return launch("add_kernel", (programs, 1, 1), accesses, [n], [1], n=n, BLOCK_SIZE=block)


def matrix_copy(rows=3, columns=5, block=2) -> Launch:
    accesses = []
    grid = (-(-rows // block), -(-columns // block), 1)
    for x, y in itertools.product(range(grid[0]), range(grid[1])):
        places = [(x * block + r, y * block + c) for r in range(block) for c in range(block)]
        offsets, mask = [r * columns + c for r, c in places], [r < rows and c < columns for r, c in places]
        for op, tensor in (("load", "x_ptr"), ("store", "out_ptr")):
            lanes = {"shape": [block, block], "offsets": offsets, "mask": mask}
            accesses.append(Access(pid=(x, y, 0), op=op, tensor=tensor, **lanes))
    return launch("copy_kernel", grid, accesses, [rows, columns], [columns, 1])


def table(launch) -> dict[str, str]:
    """The rows of a launch's table, without tags, by program."""
    html = accesses(replace(made("cpu"), launches={"add_kernel[0]": launch})).partition("<table")[2]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", html, re.S)
    return {pid: " ".join(re.sub("<[^>]+>", " ", row).split()) for pid, row in rows}


def squares(svg):
    """Everything drawn as a square: (text, color, kind, radius)."""
    shapes = []
    parts = list(ET.fromstring(svg))
    for rect, text in itertools.pairwise(parts):
        if rect.tag != f"{SVG}rect":
            continue
        if rect.get("fill").startswith("url"):
            kind = "hatched"
        else:
            kind = {"none": "outlined", "currentColor": "filled"}[rect.get("fill")]
        shapes.append((text.text, rect.get("color"), kind, "lane" if rect.get("rx") == "9" else "element"))
    return shapes


def words(svg):
    return [" ".join("".join(text.itertext()).split()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def drawn(launch, **options):
    svg = picture(launch, **options)
    return squares(svg), words(svg)


def described(launch):
    return ET.fromstring(picture(launch)).find(f"{SVG}desc").text


def test_lanes_and_elements_have_the_color_of_their_program():
    shapes, labels = drawn(vector_add())
    lanes = [square for square in shapes if square[3] == "lane"]
    color = lambda offset: f"var(--pid-{offset // 4})"
    assert lanes == [(str(o), color(o), "filled" if o < 10 else "hatched", "lane") for o in range(12)]
    elements = [square for square in shapes if square[3] == "element"]
    loaded = [(str(o), color(o), "outlined", "element") for o in range(10)]
    stored = [(str(o), color(o), "filled", "element") for o in range(10)]
    assert elements == loaded + loaded + stored
    for label in ("program 0", "program 1", "program 2 lanes 2, 3 masked off", "x_ptr 10 elements of float32, loaded",
                  "out_ptr 10 elements of float32, stored", "the tensors end here", "pid 2"):  # fmt: skip
        assert label in labels
    assert "out of bounds" not in " ".join(labels)


def test_a_lane_stands_above_the_element_that_it_touches():
    rects = ET.fromstring(picture(vector_add())).findall(f"{SVG}rect")
    x = [float(rect.get("x")) for rect in rects]
    assert x[:10] == x[12:22] == x[22:32] == x[32:42]
    assert x[10] == x[9] + x[1] - x[0], "a masked lane stands beyond the end"


def test_lanes_that_touch_one_element_stand_below_each_other():
    lanes = {"shape": [4], "offsets": [3, 1, 4, 1], "mask": [True] * 4}
    gather = launch("gather", (1, 1, 1), [Access(pid=(0, 0, 0), op="load", tensor="table_ptr", **lanes)], [8], [1])
    rects = ET.fromstring(picture(gather)).findall(f"{SVG}rect")[:4]
    (x, y), (same, below) = ((float(rects[lane].get("x")), float(rects[lane].get("y"))) for lane in (1, 3))
    assert same == x
    assert below - y >= float(rects[1].get("height"))


def test_the_line_at_the_end_runs_behind_the_headings():
    parts = list(ET.fromstring(picture(vector_add(n=6))))
    line = next(i for i, part in enumerate(parts) if part.get("stroke-dasharray") == "4 3")
    texts = {i: "".join(part.itertext()) for i, part in enumerate(parts) if part.tag == f"{SVG}text"}
    heading = next(i for i, text in texts.items() if "lanes 2, 3 masked off" in text)
    assert line < heading
    assert parts[heading].get("paint-order") == "stroke", "a halo interrupts the line"


def test_a_missing_mask_is_red_and_labeled():
    shapes, labels = drawn(vector_add(masked=False))
    red = [square for square in shapes if square[1] == "var(--out-of-bounds)"]
    assert [square[0] for square in red] == ["10", "11"] * 4
    assert [square[3] for square in red] == ["lane"] * 2 + ["element"] * 6
    assert labels.count("out of bounds") == 3
    assert "program 2 lanes 2, 3 out of bounds" in labels
    assert "Offsets beyond its end that are touched all the same: 10, 11." in described(vector_add(masked=False))


def test_what_nobody_writes_is_gray_and_labeled():
    shapes, labels = drawn(vector_add(step=10))
    gray = [square[0] for square in shapes if square[1] == "var(--untouched)"]
    assert gray == [str(offset) for offset in range(4, 10)] * 3
    assert labels.count("not read") == 2
    assert labels.count("not written") == 1
    assert "all lanes masked off" in " ".join(labels)
    assert "Its offsets 4–9 are not written." in described(vector_add(step=10))


def test_a_matrix_is_a_grid_of_blocks():
    launch = matrix_copy()
    shapes, labels = drawn(launch, tensors=["out_ptr"])
    elements = [square for square in shapes if square[3] == "element"]
    number = {(0, 0): 0, (1, 0): 1, (0, 1): 2, (1, 1): 3, (0, 2): 4, (1, 2): 5}  # axis 0 is counted first
    assert [square[1] for square in elements] == [
        f"var(--pid-{number[r // 2, c // 2]})" for r in range(3) for c in range(5)
    ]
    rects = ET.fromstring(picture(launch, tensors=["out_ptr"])).findall(f"{SVG}rect")[-15:]
    assert len({rect.get("y") for rect in rects}) == 3
    assert len({rect.get("x") for rect in rects}) == 5
    assert "program (1, 2)" in labels
    assert {"0,2", "1,2"} <= set(labels), "under a single square the short form of a pid"
    assert labels.count("0,2") == 1, "two rows of one program share the labels below them"
    assert sum(square[2] == "hatched" for square in shapes) == 6 * 4 - 15


def test_programs_of_two_axes_stand_as_their_grid_does():
    """Whatever the text above one of them takes: axis 0 counts across, axis 1 down."""
    svg = picture(matrix_copy(rows=5, columns=5, block=4), tensors=["out_ptr"])
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*><tspan[^>]*>program \((\d), (\d)\)', svg)
    places = {(int(across), int(down)): (float(x), float(y)) for x, y, across, down in found}
    assert set(places) == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert places[0, 0][0] == places[0, 1][0] < places[1, 0][0] == places[1, 1][0]
    assert places[0, 0][1] == places[1, 0][1] < places[0, 1][1] == places[1, 1][1]


def test_a_dtype_among_the_arguments_is_no_tensor():
    launch = matrix_copy()
    with_dtype = replace(launch, arguments={**launch.arguments, "DTYPE": {"tl.dtype": "fp16"}})
    assert drawn(with_dtype) == drawn(launch)


def test_what_several_programs_load_has_no_color_of_one():
    shapes, labels = drawn(vector_add(n=8, block=4, same=["y_ptr"]), tensors=["y_ptr"])
    assert [square[1] for square in shapes if square[3] == "element"] == ["var(--ink-muted)"] * 4 + [
        "var(--untouched)"
    ] * 4
    assert "programs 0, 1" in labels


@pytest.mark.parametrize("n, block", [(1, 1), (12, 4), (13, 4), (40, 16), (64, 32)])
def test_other_sizes_show_every_lane_and_element_once(n, block):
    shapes, _ = drawn(vector_add(n, block))
    lanes = -(-n // block) * block
    assert [square[0] for square in shapes] == [*map(str, range(lanes)), *map(str, [*range(n)] * 3)]


@pytest.mark.parametrize("launch", [vector_add(), vector_add(masked=False), vector_add(40, 16), matrix_copy(6, 10, 4)])
def test_fits_beside_nothing_on_a_phone(launch):
    svg = ET.fromstring(picture(launch))
    left, _, width, height = map(float, svg.get("viewBox").split())
    assert width <= 358
    assert float(svg.get("width").removesuffix("em")) * 16 == width
    for rect in svg.iter(f"{SVG}rect"):
        assert left <= float(rect.get("x"))
        assert float(rect.get("x")) + 25 < left + width
        assert float(rect.get("y")) + 25 < height


def test_colors_come_from_the_tokens_and_ids_are_unique():
    first, second = picture(vector_add()), picture(vector_add())
    ids = lambda svg: re.findall(r'\bid="([^"]+)"', svg)
    assert len({*ids(first), *ids(second)}) == len(ids(first)) + len(ids(second))
    for svg in (first, second):
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= set(ids(svg))
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!-)", re.sub(r"url\([^)]*\)", "", svg))
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("aria-labelledby").split() == [root[0].get("id"), root[1].get("id")]
    assert "Program 2: load x_ptr, load y_ptr, store out_ptr at offsets 8–11, lanes 2, 3 masked off." in first


def test_an_element_belongs_to_the_program_that_stores_it():
    everyone = [Access(pid=(pid, 0, 0), op="load", tensor="x_ptr", **LANES) for pid in range(2)]
    one = Access(pid=(1, 0, 0), op="store", tensor="x_ptr", **LANES)
    shapes, labels = drawn(launch("k", (2, 1, 1), [*everyone, one], [2], [1]))
    assert [square[1:] for square in shapes[-2:]] == [("var(--pid-1)", "filled", "element")] * 2
    assert "x_ptr 2 elements of float32, loaded and stored" in labels


def test_programs_with_several_strips_name_what_each_touches():
    both = vector_add(n=8, block=4, same=["y_ptr"])
    shapes, labels = drawn(both)
    lanes = [square[:2] for square in shapes if square[3] == "lane"]
    first, own = [0, 1, 2, 3], [4, 5, 6, 7]  # program 0 has one strip, program 1 has its own and the first
    assert lanes == [(str(o), "var(--pid-0)") for o in first] + [(str(o), "var(--pid-1)") for o in own + first]
    assert labels.count("x_ptr, out_ptr") == labels.count("y_ptr") == 1
    assert "Program 1: load y_ptr at offsets 0–3, no lane masked off." in described(both)


def test_long_names_of_narrow_strips_do_not_run_into_the_next_program():
    accesses = []
    for pid in range(2):
        for number, tensor in enumerate(("a_tensor_ptr", "another_tensor_ptr")):
            lanes = {"shape": [1], "offsets": [pid + 2 * number], "mask": [True]}
            accesses.append(Access(pid=(pid, 0, 0), op="load", tensor=tensor, **lanes))
    svg = picture(launch("k", (2, 1, 1), accesses, [2, 2], [2, 1]))  # a matrix: programs stand side by side
    places = {}  # of each line of text: where it begins, and at least how far it reaches
    for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(\w+_ptr)</text>', svg):
        places.setdefault(y, []).append((float(x), float(x) + 6 * len(text)))
    assert sum(map(len, places.values())) >= 4
    for shapes in places.values():
        ends = sorted(shapes)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends)), ends


def test_many_names_take_a_second_line():
    names = [f"a_tensor_of_a_long_name_{number}_ptr" for number in range(3)]
    alone = Access(pid=(0, 0, 0), op="load", tensor="y_ptr", shape=[1], offsets=[1], mask=[True])
    together = [Access(pid=(0, 0, 0), op="load", tensor=name, **LANES) for name in names]
    svg = picture(launch("k", (1, 1, 1), [*together, alone], [20], [1]), tensors=["y_ptr", *names])
    lines = re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*_name_[^<]*)</text>', svg)
    shown = ", ".join(names)
    assert " ".join(text for _, text in lines if text in shown and text.startswith("a_tensor")) == shown
    width = float(ET.fromstring(svg).get("viewBox").split()[2])
    assert width <= 358 and all(float(x) + 7.2 * len(text) <= width for x, text in lines)


def test_the_table_has_the_same_in_text():
    rows = table(vector_add())
    assert list(rows) == ["0", "1", "2"]
    assert rows["2"] == "load x_ptr , load y_ptr , store out_ptr 8 9 10 11 1 1 0 0"
    assert "8 9 10 11 (out of bounds: 10, 11) 1 1 1 1" in table(vector_add(masked=False))["2"]
    assert "(1, 2)" in table(matrix_copy())


def row_scale(rows=3, columns=5, block=8) -> Launch:
    """A program a row: it loads the row and a weight, and stores the row and one number."""
    accesses = []
    for pid in range(rows):
        lanes, mask = range(block), [lane < columns for lane in range(block)]
        row, first = [pid * columns + lane for lane in lanes], {"shape": [block], "mask": mask}
        for op, tensor, offsets in (("load", "x_ptr", row), ("load", "w_ptr", [*lanes]), ("store", "out_ptr", row)):
            accesses.append(Access(pid=(pid, 0, 0), op=op, tensor=tensor, offsets=offsets, **first))
    arguments = {
        name: {"dtype": "float32", "shape": shape, "strides": [columns, 1][-len(shape) :], "alignment": 16}
        for name, shape in (("x_ptr", [rows, columns]), ("w_ptr", [columns]), ("out_ptr", [rows, columns]))
    }
    return Launch(kernel="scale", file="toy.py", grid=(rows, 1, 1), arguments=arguments, accesses=accesses)


def grid_of(launch: Launch) -> str:
    return accesses(replace(made("cpu"), launches={"scale[0]": launch})).partition("<details")[0]


def columns_of(launch: Launch) -> list:
    return re.findall(r"<svg role.*?</svg>", grid_of(launch), re.S)


def test_each_program_has_a_column_with_all_tensors_in_it():
    columns = columns_of(row_scale())
    assert len(columns) == 3
    for pid, column in enumerate(columns):
        shown = [(int(text), color, kind) for text, color, kind, _ in squares(column)]
        own, gray = f"var(--pid-{pid})", "var(--untouched)"
        offsets = lambda color, kind, shown=shown: [each[0] for each in shown if each[1:] == (color, kind)]
        row = [*range(5 * pid, 5 * pid + 5)]
        assert offsets(own, "outlined") == [*row, 0, 1, 2, 3, 4], "its row, and the weight, which all load"
        assert offsets(own, "filled") == row, "what it stores"
        beyond = [row[-1] + 1, row[-1] + 2, row[-1] + 3]
        assert offsets(own, "hatched") == [*beyond, 5, 6, 7, *beyond], "masked off, each in its place"
        assert offsets(gray, "filled") == [each for each in range(15) if each not in row + beyond] * 2, "others' rows"


def test_a_matrix_and_a_copy_of_two_tensors_keep_their_pictures():
    assert "access-grid" not in grid_of(matrix_copy()) and "access-grid" not in grid_of(vector_add())
    assert "access-grid" not in grid_of(row_scale(rows=5)), "no room for so many columns"
    assert "access-grid" not in grid_of(row_scale(columns=12, block=16))


def test_the_key_says_what_occurs_and_no_more():
    words = re.sub("<[^>]+>", " ", grid_of(row_scale()).partition("access-grid__key")[2])
    assert "loaded" in words and "masked off" in words and "out of bounds" not in words
    assert "masked off" not in grid_of(row_scale(columns=8)).partition("access-grid__key")[2]


def test_a_phone_shows_one_program_at_a_time(open_site, tmp_path):
    html = accesses(replace(made("cpu"), launches={"scale[0]": row_scale()}))
    with page_with(tmp_path, "accesses", html) as url:
        seen = lambda page: [each.is_visible() for each in page.locator(".access-grid__columns > svg[role]").all()]
        page = open_site(url, viewport={"width": 360, "height": 800})
        assert seen(page) == [True, False, False] and page.locator(".access-grid__columns > svg").first.is_visible()
        page.get_by_text("program 2", exact=True).first.click()
        assert seen(page) == [False, False, True]
        page.keyboard.press("ArrowLeft")
        assert seen(page) == [False, True, False]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page = open_site(url, viewport={"width": 1280, "height": 800})
        assert seen(page) == [True, True, True] and not page.locator(".access-grid__switch").is_visible()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(RecorderError, match="not recorded"):
        picture(replace(vector_add(), accesses=None))
    with pytest.raises(RecorderError, match="'z_ptr'; it has x_ptr, y_ptr, out_ptr"):
        picture(vector_add(), tensors=["z_ptr"])
    with pytest.raises(RecorderError, match="legible"):
        picture(vector_add(1000, 256))
    with pytest.raises(RecorderError, match=r"launch toy_kernel\[1\] were not written down"):
        accesses(made("cpu"), launch="toy_kernel[1]")
