# SPDX-License-Identifier: Apache-2.0
"""Show the last check as a page on this machine, with the site's picture of the launch: ``python practice.py serve``.

Every copy in ``mine/`` is watched; the one that was saved last is checked, and the page, which asks every half second,
shows what was found. Only this machine can open it, and it loads nothing from anywhere else.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import svg
from .check import Coach, Verdict, report
from .desk import POLL_S, READ_FIRST, Desk, are, saved
from .exercise import Exercise, PracticeError
from .pages import named
from .spec import KINDS

HOST, PORT = "127.0.0.1", 8321
NAMES = (HOST, "localhost", "[::1]")  # of this machine
LIGHT = {
    **{f"pid-{i}": paint for i, paint in enumerate(svg.COLORS)},
    "out-of-bounds": svg.RED, "ink": svg.INK, "ink-muted": svg.MUTED, "paper": svg.PAPER,
    "paper-raised": "#f6f8f9", "rule": "#d5dbe0",
}  # fmt: skip
DARK = {
    "pid-0": "#5ab4f0", "pid-1": "#f0b445", "pid-2": "#45cfa6", "pid-3": "#e59ccd", "pid-4": "#9fd4f7",
    "pid-5": "#d9cb4a", "pid-6": "#b0a6f5", "pid-7": "#a9b6bf", "out-of-bounds": "#ff6b5e",
    "ink": "#e4e9ec", "ink-muted": "#a3b0b9", "paper": "#14191d",
    "paper-raised": "#1c2328", "rule": "#364149",
}  # fmt: skip
STYLE = """\
body { margin: 0 auto; max-width: 44rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; }
code { font: .9em ui-monospace, Menlo, Consolas, monospace; }
h1 { font-size: 1.4rem; margin: 0; }
p { margin: .4rem 0; }
.muted { color: var(--ink-muted); }
pre { padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--paper-raised); border: 1px solid var(--rule);
  font: .85rem/1.4 ui-monospace, Menlo, Consolas, monospace; }
figure { margin: 1rem 0; overflow-x: auto; }"""
SCRIPT = """\
const part = document.querySelector("main");
let seen = part.dataset.version;
setInterval(async () => {
  try {
    const now = await (await fetch("/now")).json();
    document.querySelector("#gone").hidden = true;
    if (now.version === seen) return;
    seen = now.version;
    part.innerHTML = now.part;
  } catch { document.querySelector("#gone").hidden = false; }
}, 500);"""


DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
ALLOWED = f"default-src 'none'; script-src 'sha256-{DIGEST}'; style-src 'unsafe-inline'; connect-src 'self'; "
ALLOWED += "img-src data:"
POLICY = f'<meta http-equiv="Content-Security-Policy" content="{ALLOWED}">'  # what was typed as an answer cannot act


def colors(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


class Board:
    """Hold what the page shows now."""

    def __init__(self):
        self.version, self.part = 0, "<p>The first check is running.</p>"

    def show(self, part: str):
        self.version, self.part = self.version + 1, part

    def page(self) -> str:
        style = f":root {{ color-scheme: light dark; {colors(LIGHT)} }}\n"
        style += f"@media (prefers-color-scheme: dark) {{ :root {{ {colors(DARK)} }} }}\n{STYLE}"
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{POLICY}<title>Practice</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><style>{style}</style></head><body>'
            f'<main aria-live="polite" data-version="{self.version}">{self.part}</main>'
            '<p id="gone" class="muted" hidden>practice.py has ended; start it again to go on.</p>'
            f"<script>{SCRIPT}</script></body></html>"
        )

    def now(self) -> str:
        return json.dumps({"version": str(self.version), "part": self.part})


def head(exercise: Exercise) -> str:
    card = exercise.card
    message = f"<h1>{escape(card.title)}</h1><p class='muted'>{exercise.name}: {KINDS[card.kind]}, after "
    return f"{message}{escape(named(card.lesson))}</p><p>{escape(card.goal)}</p>"


def coded(text: str) -> str:
    """Return text as HTML, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def part(exercise: Exercise, verdict: Verdict, more: str) -> str:
    """Return a check as HTML: the coach's text, with a picture in place of the drawing by characters."""
    finding, launch = verdict.finding, verdict.finding.launch if verdict.finding else None
    if launch:
        verdict = replace(verdict, finding=replace(finding, picture=[], guess=""))
    html = head(exercise) + f"<pre tabindex='0'>{escape(report(exercise, verdict))}</pre>"
    if launch:
        html += f"<figure tabindex='0' role='region' aria-label='The launch'>{svg.launch(launch)}</figure>"
        html += f"<p>{coded(finding.guess)}</p>" if finding.guess else ""
    return f"{html}<p class='muted'>{escape(more)}</p>"


def answering(board: Board) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = [host.lower() for host in self.headers.get_all("Host", [])]
            if asked not in [[f"{name}:{self.server.server_port}"] for name in NAMES]:
                self.send_error(403, "Open it under the address that practice.py prints")  # else by DNS rebinding
                return
            texts = {"/": ("text/html", board.page), "/now": ("application/json", board.now)}
            if self.path not in texts:
                self.send_error(404)
                return
            kind, made = texts[self.path]
            body = made().encode()
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Print nothing: the terminal is for the reader."""

    return Handler


def serve(
    desk: Desk, exercise: Exercise, coach: Coach, port: int = PORT, rounds: int | None = None,
    ready: Callable[[int], None] = lambda port: None,
) -> int:  # fmt: skip
    """Check what is saved, until Ctrl-C (or for so many rounds). ``ready`` gets the port; 0 takes a free one.

    The exercise is checked at once, but for a bug that nobody has looked for yet.
    """
    board = Board()
    try:
        server = ThreadingHTTPServer((HOST, port), answering(board))
    except OSError as error:
        message = f"Port {port} cannot be used: {error.strerror}. Is another `practice.py serve` running?"
        raise PracticeError(message) from None
    desk.lay_out(exercise)
    seen = {each.name: saved(desk.copy_of(each)) for each in desk.all if each != exercise or desk.unread(each)}
    if exercise.name in seen:
        board.show(unread(desk, exercise))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    desk.say(f"Open http://{HOST}:{server.server_port} in a browser, and save {desk.copy_of(exercise)}. Ctrl-C ends.")
    ready(server.server_port)
    try:
        while rounds is None or rounds > 0:
            for each in desk.all:
                now = saved(desk.copy_of(each))
                if now is not None and now != seen.get(each.name):
                    seen[each.name] = now
                    show(desk, each, coach, board)
                    for new in desk.all:  # a copy that this made is nobody's saving
                        seen[new.name] = seen.get(new.name) or saved(desk.copy_of(new))
            rounds = None if rounds is None else rounds - 1
            time.sleep(POLL_S)
    finally:
        server.shutdown()
        server.server_close()
    return 0


def unread(desk: Desk, exercise: Exercise) -> str:
    """Return as HTML how to begin to look for a bug."""
    then = f"Then change {desk.copy_of(exercise)} and save it: every save is checked here."
    return f"{head(exercise)}<pre tabindex='0'>{escape(exercise.skeleton)}</pre><p>{READ_FIRST} {escape(then)}</p>"


def show(desk: Desk, exercise: Exercise, coach: Coach, board: Board):
    """Check one copy, and put it on the board."""
    board.show(f"{head(exercise)}<p class='muted'>Checking …</p>")
    try:
        verdict = desk.judged(exercise, coach)
    except PracticeError as error:  # gone since, or not to be read
        board.show(f"{head(exercise)}<p>{escape(str(error))}</p>")
        return
    more = f"Save {desk.copy_of(exercise).name} to check it again. Stuck? python practice.py hint {exercise.name}"
    if verdict.finding is None:
        following, before = desk.following(exercise)
        more = "That was the last one."
        if following is not None:
            desk.lay_out(following)
            more = f"Next: {following.name}. Your copy is {desk.copy_of(following)}: save it to check it here."
            more += f" {READ_FIRST}" if desk.unread(following) else ""
            more += f" ({before} before it {are(before)} still open.)" if before else ""
    board.show(part(exercise, verdict, more))
    message = "right" if verdict.finding is None else verdict.finding.message.splitlines()[0]
    desk.say(f"{time.strftime('%H:%M:%S')} {exercise.name}: {message}")
