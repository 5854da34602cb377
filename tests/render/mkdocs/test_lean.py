# SPDX-License-Identifier: Apache-2.0
"""Styles and scripts get shorter, and do the same."""

from pathlib import Path

import pytest
from pygments import lex
from pygments.token import Comment

from render.mkdocs.lean import LEXERS, on_post_page, shorten

ROOT = Path(__file__).resolve().parents[3]
OURS = [path for folder in ("figures", "theme/assets") for path in sorted((ROOT / folder).rglob("*.*s*"))]


@pytest.mark.parametrize(
    ("kind", "source", "short"),
    [
        ("style", "/* why */\n.a {\n  color: red; /* and why */\n}\n", ".a{color:red;}"),
        ("style", '.a::after { content: "/* no  comment */" }', '.a::after{content:"/* no  comment */"}'),
        ("style", ".a { width: calc(1px /* why */ + 2px) }", ".a{width:calc(1px + 2px)}"),
        ("style", "a { top: 0 !important; /* why */ }", "a{top:0 !important;}"),
        ("style", ".a :hover, .b:is( .c) > i { --x: ; left: -1px }", ".a :hover,.b:is( .c) > i{--x:;left:-1px}"),
        ("style", "@media (a) and (b: 1) { u { top: 0 } }", "@media (a) and (b:1){u{top:0}}"),
        ("script", "const a = 1; // why\n  return /* so */ a", "const a = 1;\nreturn a"),
        ("script", "let a = `\n  // ${b /* c */}  `", "let a = `\n  // ${b }  `"),
        ("script", 'let a = "//  no";', 'let a = "//  no";'),
        ("script", "return /* two\nlines */ a", "return\na"),
    ],
)
def test_shorter_and_the_same(kind, source, short):
    assert shorten(source, kind) == short


@pytest.mark.parametrize("path", [p for p in OURS if p.suffix in (".css", ".js")], ids=lambda p: p.parent.name + p.name)
def test_of_ours_only_comments_and_blanks_go(path):
    kind, source = "style" if path.suffix == ".css" else "script", path.read_text("utf-8")

    def words(text):
        stays = lambda token: token not in Comment or token in Comment.Preproc  # such as !important
        tokens = lex(text, LEXERS[kind](stripnl=False, ensurenl=False))
        return [value for token, value in tokens if stays(token) and value.strip()]

    short = shorten(source, kind)
    assert words(short) == words(source) and len(short) < len(source)


def test_only_styles_of_a_page_change():
    """Its scripts are those that its policy names by their digests."""
    page = '<style>a  { /* b */ }</style><pre>/* c */  d</pre><script type="module">a()  // b\n</script>'
    short = '<style>a{}</style><pre>/* c */  d</pre><script type="module">a()  // b\n</script>'
    assert on_post_page(page) == short
