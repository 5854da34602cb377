# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that adds the Content-Security-Policy to each page: what a browser may load and run on it.

Nothing from another host, and of scripts in the page only those of the theme and of figures, by their digests. So what
stands in a recording or in a page's prose cannot act, should it ever get past the checks there. Styles may stand in
the page, for drawings are full of them; what they could load is this host's.
"""

import base64
import hashlib
import re
from functools import cache

from markupsafe import Markup
from mkdocs.exceptions import PluginError

from figures.registry import figures, module
from render.templates import render
from render.views.frame import RUNS

ALLOWED = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self' 'unsafe-inline'", "img-src": "'self' data:",
    "font-src": "'self'", "connect-src": "'self'", "worker-src": "'self'", "manifest-src": "'self'",
    "base-uri": "'none'", "form-action": "'self'",
}  # fmt: skip
SCRIPT = re.compile(r"<script(?:\s[^>]*)?>(.*?)</script\s*>", re.S | re.I)
CHARSET = re.compile(r'<meta charset="utf-8"\s*/?>', re.I)
serving = False


def on_startup(command: str, **_) -> None:
    global serving
    serving = command == "serve"


def on_post_page(output: str, page, **_) -> str:
    if page.content not in output:
        raise PluginError(
            f"{page.file.src_uri}: the theme changed its content, so {__name__} cannot tell scripts apart"
        )
    return with_policy(output, page.content)


def on_post_template(output_content: str, template_name: str, **_) -> str:
    return with_policy(output_content) if template_name.endswith(".html") else output_content


def with_policy(html: str, content: str = "") -> str:
    """Return a page with its policy, which trusts scripts around the content, and in it those of figures."""
    around = html.replace(content, "") if content else html
    scripts = [script for script in SCRIPT.findall(around) if script] + [s for s in ours(content) if s and s in content]
    allowed = dict(ALLOWED)
    # MkDocs adds a script to what it serves, after all hooks, by which it loads a page anew.
    allowed["script-src"] += " 'unsafe-inline'" if serving else "".join(f" '{digest(script)}'" for script in scripts)
    if RUNS in content:
        allowed["script-src"] += " 'wasm-unsafe-eval'"  # Python, which is compiled to WebAssembly; no script's eval
        allowed["worker-src"] += " blob:"  # a worker of this page's, which inherits its policy
    policy = "; ".join(f"{what} {where}" for what, where in allowed.items())
    meta = Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(Markup(policy))
    changed, count = CHARSET.subn(lambda charset: charset[0] + str(meta), html, count=1)
    if not count:
        raise PluginError(f"the theme's head has no charset, behind which {__name__} puts its policy")
    return changed


def digest(script: str) -> str:
    """Return the digest by which a policy names a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def ours(content: str) -> list[str]:
    """Return our scripts in the content of a page: what switches between GPUs, and the module of its figures."""
    rooms = {each.folder: each for each in figures().values() if each.own_script and each.own_script in content}
    return [*_switch(), module(sorted(rooms.values(), key=lambda each: content.index(each.own_script)))]


@cache
def _switch() -> list[str]:
    return SCRIPT.findall(render("gpu_switch.html"))
