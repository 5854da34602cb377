# SPDX-License-Identifier: Apache-2.0
"""A chart's SVG holds what matplotlib draws with; whatever runs, moves, links or loads is refused, however spelled."""

import pytest

from recorder.drawing import sound
from recorder.project import RecorderError
from tests.toy import charts

NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
HOSTILE = [
    "<script>x</script>",
    "<svg onload='x'/>",
    "<svg/onload=x>",
    '<img src="x"onerror=x>',
    "<a href='x'><text>x</text></a>",
    "<style>@import '//h.test'</style>",
    "<animate attributeName='href' to='x'/>",
    "<set attributeName='onload' to='x'/>",
    "<foreignObject><p/></foreignObject>",
    "<use href='//h.test/x#a'/>",
    "<use xlink:href='https://h.test/x#a'/>",
    "<use xlink:href='data:image/svg+xml,x#a'/>",
    "<image xlink:href='x.png'/>",
    "<g fill='url(//h.test/x#a)'/>",
    "<g style='fill: url(//h.test/x#a)'/>",
    "<g style='fill: u\\72l(//h.test)'/>",
    "<g style='background: red'/>",
    "<g style='fill: red; position: fixed'/>",
    "<g clip-path='url(//h.test/x#a)'/>",
    "<g ONCLICK='x'/>",
    "<g onfocus='x' tabindex='1'/>",
    "<meta http-equiv='refresh' content='0'/>",
    "<g xmlns='http://www.w3.org/1999/xhtml'/>",
    "<iframe/>",
    "<title>x</title>",
    "<filter><feImage xlink:href='x'/></filter>",
    "<g class='recording'/>",
    "<g id='a b'/>",
    "<g xml:base='//h.test'/>",
    "<!--><script>x</script>-->",
    "<![CDATA[<script>x</script>]]>",
    "<?xml-stylesheet href='//h.test'?>",
    "</svg><p/><svg>",
    "<h:script xmlns:h='http://www.w3.org/1999/xhtml'/>",
    "<g &#111;nload='x'/>",
    "<text>",
]


def test_what_the_recorder_draws_passes():
    svg = charts("h200")["bandwidth"]
    assert sound(f"{svg}<!-- a note -->", "bandwidth") == sound(svg, "bandwidth")
    for part in ("<g/>", "<use xlink:href='#m0' x='1' style='stroke: var(--ink, #000)'/>", "<text>&lt;b&gt;</text>"):
        sound(f"<svg {NAMESPACES}>{part}</svg>", "x")


@pytest.mark.parametrize("part", HOSTILE)
def test_whatever_could_act_is_refused(part):
    with pytest.raises(RecorderError, match="the chart 'x' is more than a drawing"):
        sound(f"<svg {NAMESPACES}><g>{part}</g></svg>", "x")


def test_so_is_a_declaration_that_makes_names():
    for before in ("<!DOCTYPE svg [<!ENTITY x 'y'>]>", "<?xml version='1.0'?>", "<p/>"):
        with pytest.raises(RecorderError, match="more than a drawing"):
            sound(f"{before}<svg {NAMESPACES}/>", "x")
