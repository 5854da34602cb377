# SPDX-License-Identifier: Apache-2.0
"""The form of ``<launch-explorer>``: it begins as the recorded launch, and says which launch it cannot vary."""

import re

import pytest
from msgspec.structs import replace

from figures.launch_explorer import explorer, read
from recorder.project import RecorderError
from tests.toy import TOY, launch, made


def test_begins_as_what_was_recorded(toy):
    page = explorer(made("cpu"), launch="toy_kernel[0]", id="other")
    fields = {name: re.search(rf'name="{name}"[^>]*\svalue="(\w+)"', page)[1] for name in ("n", "mask", "element")}
    assert fields == {"n": "3", "mask": "on", "element": "2"}
    assert re.findall(r'name="block" value="(\d+)"( checked)?', page) == [
        ("1", ""), ("2", ""), ("4", " checked"), ("8", ""), ("16", ""),
    ]  # fmt: skip
    assert '<launch-explorer id="other"><svg' in page and "launched as 1 program" in page


def test_has_the_lines_of_the_kernel_as_they_stand(toy):
    lines = read(launch(), "BLOCK")
    assert ["".join(line.code) for line in lines] == [
        "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "tl.load(x_ptr + offsets, mask=offsets < n)",
    ]  # fmt: skip
    assert [(line.kind, line.code[1], line.tensor, line.shown) for line in lines] == [
        ("offsets", "", "", "{pid} * {block} + {lane}"),
        ("load", ", mask=offsets < n", "x", "{tensor}[{offset}]"),
    ]


@pytest.mark.parametrize("line", ["offsets = tl.program_id(0) * n + tl.arange(0, BLOCK)", "offsets += 1"])
def test_refuses_a_line_that_it_cannot_work_out(toy, line):
    old = "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
    assert old in TOY
    toy.snippet("toy", TOY.replace(old, line))
    with pytest.raises(RecorderError, match=r"snippets/programs/toy.py: .* cannot work out `" + re.escape(line)):
        explorer(made("cpu"), launch="toy_kernel[0]")


def changed(**arguments):
    usual = launch()
    return launch(arguments={**usual.arguments, **arguments}, constexprs=usual.constexprs)


@pytest.mark.parametrize(
    "number, words",
    [(1, r"accesses of launch toy_kernel\[1\] were not written down"),
     (4, r"launch toy_kernel\[4\] was counted, not kept"),
     (2, "the launch has no length `n`"), (3, "the launch has no length `n` or no constant"),
     (5, "n up to 15 .* not 32 and 4"), (6, "not 3 and 32")],
)  # fmt: skip
def test_refuses_what_it_cannot_vary(toy, number, words):
    recorded = made("cpu")
    more = {3: launch(constexprs=[]), 5: changed(n=32), 6: changed(BLOCK=32)}
    more = {f"toy_kernel[{key}]": each for key, each in more.items()}
    with pytest.raises(RecorderError, match=words):
        explorer(replace(recorded, launches={**recorded.launches, **more}), launch=f"toy_kernel[{number}]")
