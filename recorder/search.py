# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: the search plugin reads pages without their code, which it leaves out of its index anyway.

Reading all the spans of colored code took a quarter of the time of a build.
"""

import re

from mkdocs.plugins import CombinedEvent, event_priority

CODE = re.compile(r'<pre( class="stage[^>]*)?>.*?</pre>', re.DOTALL)  # errors, <pre class="output">, can be searched
whole = {}


@event_priority(50)  # before the search plugin
def without_code(context, page, **_):
    whole[page.url] = page.content
    if not page.file.src_uri.endswith(".ipynb"):  # the code of labs is in the index
        page.content = CODE.sub("", page.content)
    return context


@event_priority(-50)  # and after it
def with_code(context, page, **_):
    page.content = whole.pop(page.url)
    return context


on_page_context = CombinedEvent(without_code, with_code)
