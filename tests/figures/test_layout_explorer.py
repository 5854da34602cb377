# SPDX-License-Identifier: Apache-2.0
"""``<layout-explorer>``: it deals a block out as the compiler does, and everybody can use it."""

import json
import os
import re
import subprocess
import sys

import pytest
from msgspec.structs import replace

from figures.layout.blocked import Layout, parse
from figures.layout_explorer import BLOCKS, WARPS, expected, threads
from recorder import recording
from recorder.project import RecorderError, find
from recorder.recording import Line
from tests.accessibility import assert_accessible
from tests.chromium import ROOT
from tests.figures.explorer_support import call, move_and_copy, page_with
from tests.limits import HANGS
from tests.toy import compiled, made

RECORDED = recording.load(find("programs/programs_and_threads"), "cpu")
powers = lambda ends: [1 << i for i in range(ends[0].bit_length() - 1, ends[1].bit_length())]
CASES = [(block, warps) for block in powers(BLOCKS) for warps in powers(WARPS)]  # all that its sliders reach
COMPILE = """
import json, sys, triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from snippets.programs.vector_add import add_kernel

class Enough(Exception):
    pass

def stop(module, metadata):
    raise Enough(str(module))

def hook(backend=None, stages=None, *more):
    if stages is None:
        return ("layout", "layout")
    stages["llir"] = stop  # what comes after takes most of the time

def ttgir(block, warps):
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK_SIZE": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = triton.compiler.ASTSource(add_kernel, types, {"BLOCK_SIZE": block}, aligned)
    try:
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    except Enough as enough:
        return str(enough)

knobs.runtime.add_stages_inspection_hook = hook
print(json.dumps([ttgir(*case) for case in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a page with two explorers."""
    both = threads(RECORDED, launch="add_kernel[3]"), threads(RECORDED, launch="add_kernel[1]", id="other")
    with page_with(tmp_path_factory.mktemp("layout"), "threads", *both) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page()


def computed(page, sizes: list[dict]) -> list:
    """For each block: what every thread holds, by register; who holds every element."""
    script = """(() => {
        const l = it.layout(a), all = n => [...Array(n).keys()];
        return [all(l.threads).map(t => it.held(l, t)), all(l.block).map(e => it.holders(l, e))];
    })()"""
    return call(page, "layout_explorer", script, sizes)


def text(page, part, of="layout"):
    return page.locator(f"#{of} .explorer__{part}").inner_text()


def query(page):
    return page.evaluate("location.search")


def slider(page, name):
    return page.locator("#layout").get_by_label(name, exact=True)


def show(page, block, warps):
    script = "(it, sizes) => { [it.form.block.value, it.form.warps.value] = sizes; it.update() }"
    page.locator("#layout").evaluate(script, [block, warps])


def chosen(page, of="layout"):
    return page.locator(f"#{of} .layout__held").all_inner_texts()


# What it computes


def test_deals_out_as_every_recorded_layout(page):
    layouts = []
    for code in (target for entry in RECORDED.compiled for target in entry.targets.values()):
        if "ttgir" in code.stages:
            layouts.append(parse("\n".join(line.text for line in code.stages["ttgir"])))
    assert len(layouts) == 5
    asked = [{"block": each.shape[0], "warps": each.warps[0], "warp": each.warp_size} for each in layouts]
    for each, (by_thread, by_element) in zip(layouts, computed(page, asked), strict=True):
        assert [sorted(own) for own in by_thread] == [each.held(i)[0] for i in range(each.number_of_threads)]
        assert {(i,): who for i, who in enumerate(by_element)} == each.holders()


def test_registers_are_those_that_triton_says(page):
    language = pytest.importorskip("triton.experimental.gluon.language")
    views = pytest.importorskip("triton._C.libtriton.gluon_ir")
    dealt = computed(page, [{"block": block, "warps": warps} for block, warps in CASES])
    for (block, warps), (by_thread, _) in zip(CASES, dealt, strict=True):
        each = expected(block, warps)
        theirs = language.BlockedLayout(*map(list, (each.per_thread, each.threads, each.warps, each.order)))
        summary = views.get_layout_view(theirs, [block], False)
        cells = [re.findall(r"T(\d+):(\d+)", cell) for cell in re.split(r"[,\]]", summary) if "T" in cell]
        registers = {(int(t), int(r)): element for element, cell in enumerate(cells) for t, r in cell}
        assert registers == {(t, r): element for t, own in enumerate(by_thread) for r, element in enumerate(own)}


def test_the_compiler_deals_out_so_wherever_the_sliders_reach(page, tmp_path):
    """By Triton itself, which needs no GPU for that; the explorer's line is the compiler's."""
    pytest.importorskip("triton", exc_type=ImportError)
    clean = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment = clean | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COMPILE, json.dumps(CASES)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=True)
    for (block, warps), ttgir in zip(CASES, json.loads(done.stdout), strict=True):
        assert parse(ttgir) == expected(block, warps)
        show(page, block, warps)
        assert page.locator("#layout .layout__line").inner_text() == str(parse(ttgir))
        load = f"of {4 * parse(ttgir).per_thread[0]} bytes."
        assert text(page, "summary").endswith(load if block >= 32 * warps else "held by 2 threads.")


@pytest.mark.parametrize("launch", [f"add_kernel[{number}]" for number in (1, 2, 3, 4)])
def test_speaks_of_the_loads_that_were_compiled(page, launch):
    """Of which a kernel has two for each piece: it adds two tensors."""
    ptx = "\n".join(line.text for line in RECORDED.stage(launch, "sm_90", "ptx"))
    loads = re.findall(r"ld\.global(?:\.v(\d))?\.b32", ptx)
    sizes = RECORDED.launch(launch).arguments["BLOCK_SIZE"], RECORDED.code(launch, "sm_90").num_warps
    (dealt,) = call(page, "layout_explorer", "it.layout(a)", [{"block": sizes[0], "warps": sizes[1]}])
    assert set(loads) == {str(dealt["each"]) if dealt["each"] > 1 else ""}
    assert len(loads) == 2 * max(1, sizes[0] // dealt["tile"])
    if sizes[0] >= BLOCKS[0]:
        show(page, *sizes)
        summary = f"in {len(loads) // 2} load{'s' * (len(loads) > 2)} of {4 * dealt['each']} bytes."
        assert text(page, "summary").endswith(summary)


# What it shows


def test_begins_as_the_recorded_launch(page):
    assert text(page, "summary") == (
        "A block of 1,024 elements, dealt to 8 warps × 32 = 256 threads: 4 each, in 1 load of 16 bytes."
    )
    assert text(page, "detail") == ("Thread 1 of warp 0: elements 4–7 in registers 0–3. Element 4 is in register 0.")
    boxes = page.locator("#layout .layout__rows i").all_inner_texts()
    assert len(boxes) == 256 and [text for text in boxes if text] == ["thread 1"], "the others stand without a number"
    rows = page.locator("#layout .layout__row").all_inner_texts()
    expected_rows = [f"warp {i} {32 * i} {128 * i}–{128 * i + 127}" for i in range(8)]
    assert [" ".join(row.replace("thread 1", "").split()) for row in rows] == expected_rows
    columns = page.locator("#layout .layout__head small:visible").all_inner_texts()
    assert columns == ["+1", *(f"+{i}" for i in range(4, 32, 4))]
    assert chosen(page) == ["thread 1"] and page.locator("#layout .layout__here").count() == 1
    assert page.locator("#other .layout__rows i").count() == 256
    assert chosen(page, "other") == ["thread 1", *[""] * 7], "its boxes, of which the element's has the number"
    assert query(page) == ""
    assert page.locator("#layout .layout__rows").get_attribute("aria-label") == text(page, "summary")


def test_pointing_at_an_element_says_who_holds_it(open_page):
    page = open_page("?layout.warps=4")
    before = text(page, "detail")
    assert before.startswith("Thread 1 of warp 0: elements 4–7 in registers 0–3, 516–519 in 4–7. Element 4 ")
    box = page.locator("#layout .layout__rows i").nth(129)  # elements 516 to 519
    size = box.bounding_box()
    page.locator("#layout .layout__rows i").nth(200).hover()
    assert text(page, "detail").startswith("Thread 72 of warp 2: ") and "thread 72" in chosen(page)
    box.hover(position={"x": size["width"] * 0.4, "y": 5})
    assert text(page, "detail").endswith("Thread 1 of warp 0: elements 4–7 in registers 0–3, 516–519 in 4–7. "
                                         "Element 517 is in register 5.")  # fmt: skip
    assert page.locator("#layout .explorer__detail").get_attribute("aria-live") == "off"
    at = page.locator("#layout .layout__here")
    assert at.count() == 1 and at.evaluate("box => box.style.getPropertyValue('--at')") == "1"
    page.locator("h1").hover()
    assert text(page, "detail") == before and query(page) == "?layout.warps=4"
    assert page.locator("#layout .explorer__detail").get_attribute("aria-live") == "polite"
    box.click(position={"x": size["width"] * 0.9, "y": 5})
    page.locator("h1").hover()
    assert text(page, "detail").endswith("Element 519 is in register 7.")
    assert query(page) == "?layout.warps=4&layout.element=519"


def registers(page, of="layout"):
    """Of the chosen thread: by register, the element; and how many of them one instruction loads."""
    pieces = page.locator(f"#{of} .layout__registers > div > span")
    cells = pieces.locator("b").evaluate_all("all => all.map(b => [...b.children].map(part => part.textContent))")
    each = set(pieces.evaluate_all("all => all.map(piece => piece.children.length)"))
    return {int(register): int(element) for element, register in cells}, each


@pytest.mark.parametrize(("block", "warps", "thread"), [(1024, 8, 1), (1024, 4, 77), (4096, 1, 5), (256, 16, 300)])
def test_lists_the_registers_of_the_chosen_thread(open_page, block, warps, thread):
    page = open_page(f"?layout.block={block}&layout.warps={warps}&layout.thread={thread}")
    (dealt,) = computed(page, [{"block": block, "warps": warps}])
    assert registers(page) == (dict(enumerate(dealt[0][thread])), {expected(block, warps).per_thread[0]})
    group = page.locator("#layout").get_by_role("group", name=f"Registers of thread {thread}, and their elements")
    assert group.count() == 1
    chosen = group.locator("[aria-current]")
    assert chosen.evaluate("it => it.dataset.element") == slider(page, "element, as a number").input_value()
    group.locator("b").last.click()
    register, element = len(dealt[0][thread]) - 1, dealt[0][thread][-1]
    assert f"Element {element} is in register {register}" in text(page, "detail")
    assert f"layout.element={element}" in query(page) or element == 4


def test_the_register_of_an_element_far_behind_is_in_sight(open_page):
    asked = "?layout.block=4096&layout.warps=1&layout.thread=5&layout.element=2199"
    page = open_page(asked, viewport={"width": 640, "height": 800})
    strip = page.locator("#layout .layout__registers > div")
    edge, cell = strip.bounding_box(), strip.locator("[aria-current]").bounding_box()
    assert edge["x"] <= cell["x"] and cell["x"] + cell["width"] <= edge["x"] + edge["width"] + 1
    assert strip.get_attribute("tabindex") == "0", "keys scroll it"
    assert page.locator("#other .layout__registers > div").get_attribute("tabindex") == "0"
    assert open_page().locator("#layout .layout__registers > div").get_attribute("tabindex") == "-1"


def test_a_strip_of_registers_that_goes_on_says_so(open_page):
    page = open_page("?layout.warps=1&layout.block=4096", viewport={"width": 640, "height": 800})
    strip, arrows = (page.locator(f"#layout .layout__registers > {part}") for part in ("div", "button"))
    shown = lambda: [arrow.is_visible() for arrow in arrows.all()]
    assert shown() == [False, True] and strip.evaluate("it => it.style.getPropertyValue('--after')") == "3rem"
    arrows.last.click()
    arrows.first.wait_for()  # it scrolls there
    assert shown() == [True, True]
    strip.evaluate("it => (it.scrollLeft = it.scrollWidth)")
    page.wait_for_function("document.querySelectorAll('#layout .layout__registers > button')[1].hidden")
    assert shown() == [True, False]
    assert open_page().locator("#layout .layout__registers > button:visible").count() == 0, "all of it is in sight"


def test_a_slider_stays_below_the_pointer_and_no_two_names_of_rows_touch(open_page):
    page = open_page("?layout.thread=70", viewport={"width": 1280, "height": 900})
    slider = page.locator("#layout").get_by_role("slider", name="BLOCK_SIZE")
    before = slider.bounding_box()
    slider.focus()
    page.keyboard.press("End")
    assert slider.bounding_box() == before and "4,096" in text(page, "summary")
    names = page.locator("#layout .layout__row > span:visible > var")
    assert names.all_inner_texts() == ["0", "64", "128"] + ["0", "128"] * 3, "each fourth, and the chosen thread's"
    cells = page.locator("#layout .layout__registers b > span").evaluate_all("all => all.map(it => it.offsetWidth)")
    assert len(cells) == 16 and min(cells[4:]) >= 38, "room between numbers of four digits"


def test_the_fields_say_what_is_pointed_at(open_page):
    page = open_page("?layout.warps=4")
    fields = [slider(page, f"{name}, as a number") for name in ("thread", "element")]
    values = lambda: [field.input_value() for field in fields]
    page.locator("#layout .layout__rows i").nth(72).hover()
    assert values()[0] == "72" and values()[1] in ("289", "290") and slider(page, "thread").input_value() == "72"
    assert query(page) == "?layout.warps=4"
    slider(page, "num_warps, as a number").fill("8")
    page.keyboard.press("Enter")
    assert values() == ["1", "4"], "of a place that was only pointed at, nothing stays"
    page.locator("#layout .layout__rows i").nth(72).hover()
    page.locator("h1").hover()
    assert values() == ["1", "4"] and slider(page, "thread").input_value() == "1"


def test_pointing_at_a_box_lists_its_registers(page):
    page.locator("#layout .layout__rows i").nth(200).hover()
    assert registers(page)[0] == {0: 800, 1: 801, 2: 802, 3: 803}
    page.locator("h1").hover()
    assert registers(page)[0] == {0: 4, 1: 5, 2: 6, 3: 7}


def test_more_threads_than_elements(open_page):
    page = open_page("?layout.block=256&layout.warps=16&layout.thread=259&layout.element=3")
    assert text(page, "summary") == (
        "A block of 256 elements, dealt to 16 warps × 32 = 512 threads: each element is held by 2 threads."
    )
    assert text(page, "detail") == (
        "Thread 259 of warp 8: element 3 in register 0. Element 3 is in register 0 of threads 3 and 259."
    )
    assert chosen(page) == ["threads 3, 259"]
    assert page.locator("#layout .layout__row > span").first.inner_text().startswith("warps 0, 8")


def test_says_a_long_list_in_short(open_page):
    page = open_page("?layout.block=4096&layout.warps=1")
    assert "32 loads of 16 bytes" in text(page, "summary")
    assert text(page, "detail").startswith(
        "Thread 1 of warp 0: elements 4–7 in registers 0–3, …, 3972–3975 in 124–127. "
    )
    assert len(chosen(page)) == 32


def test_keyboard_alone_reaches_and_works_everything(page):
    slider(page, "BLOCK_SIZE").focus()
    page.keyboard.press("ArrowRight")
    assert text(page, "summary").startswith("A block of 2,048 elements, dealt to 8 warps × 32 = 256 threads")
    assert slider(page, "BLOCK_SIZE").get_attribute("aria-valuetext") == "2048"
    for name, key in (("num_warps", "ArrowLeft"), ("thread", "ArrowRight"), ("element", "ArrowRight")):
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.ariaLabel") == name
        page.keyboard.press(key)
    assert text(page, "summary").startswith("A block of 2,048 elements, dealt to 4 warps × 32 = 128 threads")
    assert text(page, "detail").endswith("Element 9 is in register 1.") and len(chosen(page)) == 4


def test_a_thread_leads_to_its_element_and_an_element_to_its_thread(page):
    for name, value, summary in (("thread", 40, "Element 160 "), ("element", 13, "Thread 3 of warp 0")):
        slider(page, f"{name}, as a number").fill(str(value))
        page.keyboard.press("Enter")
        assert summary in text(page, "detail")
    slider(page, "thread, as a number").fill("255")
    page.keyboard.press("Enter")
    slider(page, "num_warps, as a number").fill("1")
    page.keyboard.press("Enter")
    assert text(page, "detail").startswith("Thread 31 of warp 0")
    assert slider(page, "thread").get_attribute("max") == "31"


@pytest.mark.parametrize(
    ("label", "typed", "taken"),
    [("BLOCK_SIZE", "4096", 4096), ("BLOCK_SIZE", "9999", 4096), ("BLOCK_SIZE", "1", 256), ("BLOCK_SIZE", "", 1024),
     ("BLOCK_SIZE", "700", 512), ("num_warps", "32", 16), ("num_warps", "3", 2), ("num_warps", "0", 1),
     ("thread", "256", 255), ("thread", "0", 0), ("element", "-1", 0), ("element", "1024", 1023)],
)  # fmt: skip
def test_numbers_are_taken_or_corrected(page, label, typed, taken):
    field = slider(page, f"{label}, as a number")
    field.fill(typed)
    field.press("Enter")
    assert field.input_value() == str(taken)


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    slider(page, "num_warps, as a number").fill("2")
    page.keyboard.press("Enter")
    slider(page, "thread, as a number").fill("33")
    page.keyboard.press("Enter")
    assert query(page) == "?q=1&layout.warps=2&layout.thread=33&layout.element=132"
    again = open_page(query(page))
    assert text(again, "detail") == text(page, "detail") and text(again, "summary") == text(page, "summary")
    assert page.evaluate("history.length") == again.evaluate("history.length"), "a change must add no step to go back"


def test_address_may_hold_anything(open_page):
    page = open_page("?layout.block=<b>&layout.warps=7&layout.thread=999&layout.element=1e9")
    assert text(page, "summary").startswith("A block of 1,024 elements, dealt to 4 warps × 32 = 128 threads")
    assert text(page, "detail").startswith("Thread 127 of warp 3: elements 508–511 in registers 0–3, 1020–1023 in ")


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#layout")
    assert page.locator("#layout .layout__rows i").count() == page.locator("#copy .layout__rows i").count() == 256
    page.locator("#copy .layout__rows i").nth(9).click()
    assert text(page, "detail", of="copy").startswith("Thread 9 ") and chosen(page, "copy") == ["thread 9"]
    assert chosen(page) == ["thread 1"]


# Who can use it


def test_without_javascript_the_picture_stands(open_page):
    boxes = "all => all.map(row => [row.innerText, ...[...row.querySelectorAll('i')].map(box => box.className)])"
    page, other = open_page(java_script_enabled=False), open_page()
    rows, drawn = (each.locator("#layout .layout__row").evaluate_all(boxes) for each in (page, other))
    assert rows == drawn, "as the script draws it"
    assert chosen(page) == ["thread 1"] and not page.locator("#layout input:visible").count()
    assert text(page, "detail") == "Thread 1: elements 4–7."
    assert page.get_by_role("img", name="1,024 elements, 8 warps of 32 threads").count() == 1
    assert page.locator("#layout .layout__line").inner_text() == str(Layout((1024,), (4,), (32,), (8,), (0,)))


def test_no_axe_violation(open_page):
    page = open_page("?layout.block=256&layout.warps=16")
    assert_accessible(page)


@pytest.mark.parametrize(
    ("state", "tall"),
    [("", 660), ("?layout.block=2048&layout.warps=1", 720), ("?layout.block=4096&layout.warps=1", 780),
     ("?layout.block=256&layout.warps=16", 740)],
)  # fmt: skip
def test_fits_on_a_phone(open_page, state, tall):
    page = open_page(state, viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#layout form").bounding_box()["height"] <= tall
    heights = page.locator("#layout input:visible").evaluate_all("all => all.map(e => e.offsetHeight)")
    assert min(heights) >= 40
    clipped = page.locator("#layout .layout__row > span").evaluate_all("""all => all.filter(box => {
        const range = document.createRange();
        range.selectNodeContents(box);
        const [text, { width, height }] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
        return text.width > width + 2 || text.height > height + 4; // a font is higher than its line
    }).map(box => box.textContent)""")
    assert clipped == []
    sliders = page.locator("#layout [type=range]:visible").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert sliders == ["BLOCK_SIZE", "num_warps"], "the rest is chosen by touch, or by number"
    for box in (page.locator("#layout .layout__rows i").nth(40), page.locator("#layout .layout__rows i").last):
        box.tap()
        own = re.match(r"threads? (\d+)", box.inner_text())[1]
        assert text(page, "detail").startswith(f"Thread {own} of warp") and query(page) != state
        flag, rows = box.locator("span").bounding_box(), page.locator("#layout .layout__rows").bounding_box()
        ends = flag["x"] - rows["x"], rows["x"] + rows["width"] - flag["x"] - flag["width"]
        assert min(ends) >= 0, "it stays in the picture"


# What it refuses


def with_layout(*lines: str):
    """The toy, with these lines as the TritonGPU IR of its launch 0."""
    first = compiled()[0]
    code = replace(first.targets["sm_90"], stages={"ttgir": [Line(line, None) for line in lines]})
    return replace(made("cpu"), compiled=[replace(first, targets={"sm_90": code})])


@pytest.mark.parametrize("shape, per_thread", [("1024", [2]), ("256", [4]), ("16x64", [1, 4])])
def test_refuses_a_layout_that_it_does_not_compute(shape, per_thread):
    axes = len(per_thread)
    fields = f"threadsPerWarp = {[1] * (axes - 1) + [32]}, warpsPerCTA = {[1] * (axes - 1) + [8]}"
    line = f"#blocked = #ttg.blocked<{{sizePerThread = {per_thread}, {fields}, order = {[*range(axes)][::-1]}}}>"
    with pytest.raises(RecorderError, match="which this explorer does not compute"):
        threads(with_layout(line, f"%x = tt.load %p : tensor<{shape}x!tt.ptr<f32>, #blocked>"))


def test_refuses_a_thread_that_is_not_there():
    with pytest.raises(RecorderError, match="no thread 256"):
        threads(RECORDED, launch="add_kernel[3]", thread=256)


@pytest.mark.parametrize("thread", [0, 1, 15, 18, 24, 31])
def test_no_number_runs_into_the_next_on_a_phone(open_page, thread):
    page = open_page(f"?layout.thread={thread}", viewport={"width": 360, "height": 740})
    gaps = page.locator("#layout .layout__head small:visible").evaluate_all("""all => {
        const texts = all.map(column => {
            const range = document.createRange();
            range.selectNodeContents(column);
            return range.getBoundingClientRect();
        });
        return texts.slice(1).map((text, i) => text.left - texts[i].right);
    }""")
    assert len(gaps) >= 3 and min(gaps) >= 2
    warp = page.locator("#layout .layout__row > span").evaluate_all("""all => all.map(label => {
        const [name, number] = [...label.children].map(part => part.getBoundingClientRect());
        return number.left - name.right;
    })""")
    assert min(warp) >= 2, "nor the name of a warp into its first thread"
