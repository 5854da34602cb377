# SPDX-License-Identifier: Apache-2.0
"""A look for whatever a browser would load from another host than that of the site."""

import re
from html.parser import HTMLParser
from pathlib import Path

LOADS = {  # which attributes make a browser load something; `a` is missing: a link is followed by choice
    "img": ("src", "srcset"), "script": ("src",), "iframe": ("src",), "frame": ("src",), "embed": ("src",),
    "source": ("src", "srcset"), "track": ("src",), "audio": ("src",), "video": ("src", "poster"),
    "object": ("data",), "input": ("src",), "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"), "link": ("href", "imagesrcset"), "body": ("background",),
}  # fmt: skip
LINKS = {"stylesheet", "icon", "apple-touch-icon", "mask-icon", "preload", "prefetch", "modulepreload", "preconnect"}
LINKS |= {"dns-prefetch", "manifest"}
OTHER_HOST = re.compile(r"^\s*(?:https?:|wss?:)?//", re.I)
IN_CSS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*((?:https?:)?//[^"')\s]+)""", re.I)
IN_SCRIPT = re.compile(
    r"""(?:\bimport\b|\bfrom\b|\bfetch\(|\bimport\(|importScripts\(|\.src\s*=|new\s+(?:Worker|WebSocket|EventSource|URL)\()"""
    r"""\s*["'`]((?:https?:|wss?:)?//[^"'`\s]+)""",
)


class _Requests(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.inside = [], None

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.inside = tag if tag in ("style", "script") else None
        if tag != "link" or LINKS & set(attributes.get("rel", "").lower().split()):
            for name in LOADS.get(tag, ()):
                value = attributes.get(name, "")
                values = re.split(r",\s+|,(?=//|http)", value) if "srcset" in name else [value]
                self.found += [(self.getpos()[0], value.strip()) for value in values if OTHER_HOST.match(value)]
        self._code(attributes.get("style", ""), IN_CSS)

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self._code(data, IN_CSS if self.inside == "style" else IN_SCRIPT)

    def _code(self, text, pattern):
        self.found += [(self.getpos()[0] + text.count("\n", 0, m.start()), m[1]) for m in pattern.finditer(text)]


def other_hosts(site: Path) -> list[str]:
    """``FILE:LINE: ADDRESS`` of everything in a built site that a browser would load from another host."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".js", ".mjs", ".svg"):
            continue
        text = path.read_text("utf-8")
        if path.suffix in (".html", ".svg"):
            parser = _Requests()
            parser.feed(text)
            requests = parser.found
        else:
            pattern = IN_CSS if path.suffix == ".css" else IN_SCRIPT
            requests = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in pattern.finditer(text)]
        found += [f"{path.relative_to(site).as_posix()}:{line}: {address}" for line, address in requests]
    return found
