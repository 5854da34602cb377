# SPDX-License-Identifier: Apache-2.0
"""``<blocked-explorer>``: it deals a tile out as Triton does, loads as wide, and everybody can use it."""

import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from figures.blocked import COLUMNS, ORDERS, ROWS, SIZES, THREADS, WARP, Dealt, blocked, detail
from recorder import recording
from recorder.project import find
from tests.accessibility import assert_accessible
from tests.chromium import ROOT
from tests.figures.explorer_support import call, page_with
from tests.limits import HANGS

RECORDED = recording.load(find("below/gluon_copy_compiled"), "cpu")
pair = lambda text: tuple(map(int, text.split(",")))
ALL = [tuple(map(pair, chosen)) for chosen in itertools.product(SIZES, THREADS, ORDERS)]
COMPILE = """
import json, re, sys, triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

@gluon.jit
def load_kernel(x_ptr, out_ptr, LAYOUT: gl.constexpr):
    rows = gl.arange(0, 16, layout=gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, 32, layout=gl.SliceLayout(0, LAYOUT))
    x = gl.load(x_ptr + rows[:, None] * 32 + columns[None, :])
    gl.store(out_ptr + rows[:, None] * 32 + columns[None, :], x)

class Enough(Exception):
    pass

def stop(module, metadata):
    raise Enough(str(module))

def width(size, threads, order):
    layout = gl.BlockedLayout(size, threads, [1, 1], order)
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "LAYOUT": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(2)}
    source = GluonASTSource(load_kernel, types, {"LAYOUT": layout}, aligned)
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    return sorted(set(re.findall(r"ld\\.global(?:\\.v(\\d))?\\.b32", ptx)))

print(json.dumps([width(*case) for case in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("blocked"), "blocked", blocked(RECORDED)) as url:
        yield url


@pytest.fixture
def page(open_site, url):
    return open_site(url)


# What it computes


@pytest.mark.parametrize("size, threads, order", ALL)
def test_elements_are_those_that_triton_says(size, threads, order):
    language = pytest.importorskip("triton.experimental.gluon.language")
    views = pytest.importorskip("triton._C.libtriton.gluon_ir")
    layout = language.BlockedLayout([*size], [*threads], [1, 1], [*order])
    cells = [re.findall(r"T(\d+):(\d+)", cell) for cell in
             re.split(r"[,\]]", views.get_layout_view(layout, [ROWS, COLUMNS], False)) if "T" in cell]  # fmt: skip
    theirs = {(int(t), int(r)): divmod(at, COLUMNS) for at, cell in enumerate(cells) for t, r in cell}
    dealt = Dealt(size, threads, order)
    assert theirs == {(t, r): place for t in range(WARP) for r, place in enumerate(dealt.held(t))}


def test_loads_are_as_wide_as_the_compiler_makes_them(tmp_path):
    pytest.importorskip("triton", exc_type=ImportError)
    clean = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = tmp_path / "compile.py"
    script.write_text(COMPILE, "utf-8")
    environment = clean | {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), json.dumps(ALL)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=True)
    for case, widths in zip(ALL, json.loads(done.stdout), strict=True):
        assert widths == [str(Dealt(*case).width) if Dealt(*case).width > 1 else ""], case


def test_the_script_has_the_same_rule(page):
    asked = [dict(zip(("size", "threads", "order"), case, strict=True)) for case in ALL]
    script = "[[...Array(32).keys()].map(t => it.held(a, t)), it.firstLoad(a).sentence, it.detail(a, 9)]"
    for case, (by_thread, sentence, said) in zip(ALL, call(page, "blocked", script, asked), strict=True):
        dealt = Dealt(*case)
        assert [[tuple(place) for place in own] for own in by_thread] == [dealt.held(t) for t in range(WARP)]
        assert (sentence, said) == (dealt.sentence(), detail(dealt, 9))


def test_counts_what_a_load_wastes():
    assert Dealt((1, 4), (4, 8), (1, 0)).sentence() == (
        "One load of the warp takes 16 bytes for each thread: 16 sectors of 32 bytes, 512 bytes, all of which are used."
    )
    found = Dealt((1, 1), (16, 2), (0, 1)).sentence()
    assert found.endswith(": 16 sectors of 32 bytes, 512 bytes, of which 128 are used.")
    found = Dealt((1, 8), (8, 4), (1, 0)).sentence()
    assert found.endswith(": 32 sectors of 32 bytes, 1,024 bytes, of which 512 are used.")


# What it shows


def shown(page):
    cells = "all => all.map(i => [i.textContent, i.className.split(' ').filter(Boolean).sort().join(' ')])"
    return page.locator(".blocked__tile i").evaluate_all(cells)


def test_the_page_is_what_the_script_draws_at_first(open_site, url, page):
    assert shown(open_site(url, java_script_enabled=False)) == shown(page)
    assert page.evaluate("location.search") == ""


def test_choices_change_the_line_and_stay_in_the_address(page):
    page.locator("[name=size][value='4,1']").check()
    page.locator("[name=order][value='0,1']").check()
    line = page.locator(".blocked__line").inner_text()
    assert line == "gl.BlockedLayout([4, 1], [4, 8], [1, 1], order=[0, 1])"
    page.locator("[name=threads][value='16,2']").check()
    assert "of which 32 are used" in page.locator(".explorer__summary").inner_text()
    assert "blocked.size=4%2C1" in page.evaluate("location.search")


def test_a_click_or_a_key_chooses_a_thread(page):
    page.locator(".blocked__tile i").nth(COLUMNS + 20).click()
    assert page.locator(".explorer__detail").inner_text().startswith("Thread 13 holds row 1, columns 20–23, ")
    page.get_by_label("thread", exact=True).press("ArrowRight")
    assert page.locator(".explorer__detail").inner_text().startswith("Thread 14 holds")
    assert [int(text) for text, kind in shown(page) if "blocked__own" in kind] == [14] * 16


@pytest.mark.parametrize("color_scheme", ["default", "slate"])
def test_accessible(page, color_scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", color_scheme)
    assert_accessible(page)
