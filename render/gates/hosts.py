# SPDX-License-Identifier: Apache-2.0
"""Finds whatever a built site asks of another host.

A browser would refuse it, by the page's policy (render/mkdocs/policy.py), so a reader would miss something: the build
fails instead. What a script puts together while it runs only a browser sees; see ``quiet`` in tests/chromium.py.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

PYTHON = "assets/browser/pyodide"  # not ours; it runs in a worker that the policy holds: tests/site/test_run.py
FOLLOWED = {("a", "href"), ("area", "href"), ("blockquote", "cite"), ("q", "cite")}  # by choice, or never
NAMES = {"canonical", "alternate", "license", "author", "next", "prev", "me"}  # of links that nothing is loaded by
TEXT = re.compile(r"(data-|aria-|xmlns)|(title|alt|id|class|value|viewbox)$")
OTHER_HOST = re.compile(r"""(?:^|[\s"'(,=;])((?:(?:https?|wss?|ftp):/*|//)[^\s"'/)>,;][^\s"')>,;]*)""", re.I)
IN_SCRIPT = re.compile(
    r"""(?:\bimport\b|\bfrom\b|\bfetch\(|\bimport\(|importScripts\(|\.src\s*=|new\s+(?:Worker|WebSocket|EventSource|URL)\()"""
    r"""\s*["'`]((?:https?:|wss?:)?//[^"'`\s]+)""",
)


class _Requests(HTMLParser):
    """A parser that collects the addresses of other hosts in attributes, styles and scripts, with their lines."""

    def __init__(self):
        super().__init__()
        self.addresses, self.inside = [], None

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.inside = tag if tag in ("style", "script") else None
        named = tag == "link" and set(given.get("rel", "").lower().split()) <= NAMES
        information = tag == "meta" and given.get("http-equiv", "").lower() != "refresh"
        for name, value in given.items():
            if not (named or information or TEXT.match(name) or (tag, name) in FOLLOWED):
                self._note(value, addresses(value))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self._note(data, addresses(data) if self.inside == "style" else IN_SCRIPT.finditer(data))

    def _note(self, text, matches):
        self.addresses += [(self.getpos()[0] + text.count("\n", 0, match.start()), match[1]) for match in matches]


def addresses(text: str):
    """Yield addresses of other hosts in an attribute or a style, in any spelling that a browser reads as one."""
    text = re.sub(r"\\([0-9a-fA-F]{1,6})\s?", lambda escaped: chr(min(int(escaped[1], 16), 0x10FFFF)), text)
    text = re.sub(r"/\*.*?\*/|<!--.*?-->", lambda comment: " " * len(comment[0]), text, flags=re.S)
    text = re.sub(r"xmlns(:\w+)?=\S{1,3}http://www\.w3\.org/[\w/]+", lambda name: " " * len(name[0]), text)
    text = re.sub(r"(?<=[\w:/\\])[\t\r\n]+(?=[\w:/\\])", "", text)  # which an address may hold
    return OTHER_HOST.finditer(text.replace("\\", "/"))


def other_hosts(site: Path) -> list[str]:
    """Return ``FILE:LINE: ADDRESS`` of everything in a built site that a browser would load from another host."""
    places = []
    for path in sorted(set(site.rglob("*")) - set((site / PYTHON).rglob("*"))):
        if path.suffix not in (".html", ".css", ".js", ".mjs", ".svg"):
            continue
        text = path.read_text("utf-8")
        if path.suffix in (".html", ".svg"):
            parser = _Requests()
            parser.feed(text)
            requests = parser.addresses
        else:
            matches = addresses(text) if path.suffix == ".css" else IN_SCRIPT.finditer(text)
            requests = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in matches]
        places += [f"{path.relative_to(site).as_posix()}:{line}: {address}" for line, address in requests]
    return places
