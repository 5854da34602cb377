# SPDX-License-Identifier: Apache-2.0
"""Whatever a browser would load from another host is found, wherever in a built site it stands."""

import pytest

from render.gates.hosts import other_hosts

FOREIGN = {
    "page.html": """
        <a href="https://a.test/followed-by-choice">fine</a> <link rel="canonical" href="https://a.test/">
        <svg xmlns="http://www.w3.org/2000/svg"><use xlink:href="#local"/></svg> <img src="//h01.test/x.png">
        <img src="local.png" srcset="local.png 1x, https://h02.test/x.png 2x"> <script src="https://h03.test/x.js"></script>
        <link rel="stylesheet" href="HTTPS://h04.test/x.css"> <link rel="shortcut icon" href="https://h05.test/x.ico">
        <link rel=preload href=https://h06.test/x> <iframe src="https://h07.test"></iframe>
        <video poster="https://h08.test/x.png"><source src="https://h09.test/x.mp4"></video>
        <audio src="https://h10.test/x.mp3"></audio> <object data="https://h11.test/x"></object>
        <embed src="//h12.test/x">
        <style>@import "https://h13.test/x.css"; a { background: url( 'https://h14.test/x.png' ) }</style>
        <p style="background: url(https://h15.test/x.png)">
        <script>import "https://h16.test/x.js"; fetch('//h17.test')</script>
        <link rel="preconnect" href="https://h18.test"> <svg><image href="https://h19.test/x.png"/></svg>
    """,
    "style.css": "@import url(https://h20.test/x.css);\n@font-face { src: url('//h21.test/x.woff2') }\n"
    "/* https://a.test */",
    "code.js": "// https://a.test\nimport x from 'https://h22.test/x.js';\nconst y = import(`https://h23.test/y.js`);",
    "picture.svg": '<svg xmlns="http://www.w3.org/2000/svg"><image xlink:href="https://h24.test/x.png"/></svg>',
}


def test_every_way_to_ask_another_host_is_seen(tmp_path):
    for name, text in FOREIGN.items():
        (tmp_path / name).write_text(text)
    places = "\n".join(other_hosts(tmp_path))
    assert [n for n in range(1, 25) if f"h{n:02}.test" not in places] == []
    assert "//a.test" not in places
    assert "code.js:3: https://h23.test/y.js" in places


SPELLINGS = [
    "<img src=&#104;ttps://h.test/x>",
    "<img src='ht\ttps://h.test/x'>",
    "<img src='https:h.test/x'>",
    "<img src='\\\\h.test/x'>",
    "<img src='/\\h.test/x'>",
    "<img src=' \n//h.test/x'>",
    "<img srcset='a 1x,//h.test/x 2x'>",
    "<meta http-equiv=Refresh content='0;url=https://h.test'>",
    "<base href=//h.test/>",
    "<a href=x ping=https://h.test>x</a>",
    "<iframe srcdoc='<img src=//h.test/x>'></iframe>",
    "<link rel='preload alternate' href=//h.test/x>",
    "<link rel=stylesheet href='HTTPS:&sol;&sol;h.test/x'>",
    "<form action=https://h.test></form>",
    "<button formaction=//h.test>x</button>",
    "<table background=//h.test/x></table>",
    "<applet codebase=//h.test></applet>",
    "<svg><feImage xlink:href=//h.test/x /></svg>",
    "<svg><rect fill='url(https://h.test/x#a)'/></svg>",
    "<svg><animate to=//h.test/x /></svg>",
    "<svg><a xlink:href=x /><set to='https://h.test'/></svg>",
    "<p style='background: u\\72l(https://h.test/x)'>",
    "<p style='background: url(\\68ttps://h.test/x)'>",
    "<style>@import/**/'//h.test/x'</style>",
    "<style>a { background: image-set('//h.test/x' 1x) }</style>",
    "<object data='wss://h.test'></object>",
    "<html manifest=//h.test/x>",
    "<video poster='\u00a0//h.test/x'></video>",
]


@pytest.mark.parametrize("html", SPELLINGS)
def test_however_it_is_spelled(tmp_path, html):
    (tmp_path / "page.html").write_text(html)
    assert other_hosts(tmp_path)
