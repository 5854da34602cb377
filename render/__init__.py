# SPDX-License-Identifier: Apache-2.0
"""Places figures, claims and code into pages: a Python-Markdown extension, whatever builds the site around it.

In the order in which a page comes about:

- ``page``: the page that is being converted, and what is wrong with it
- ``asked``: what a page asks for, by its text alone
- ``claims``: numbers for sentences, from expressions over a recording
- ``reads``: values that remember that a recording holds them, so that a claim which was typed is refused
- ``typed``: what an author typed, which says so and may not look like a part of a recording
- ``path``: the main path: which pages are lessons, their numbers, and how long each takes
- ``gpus``: which recordings a page means by ``gpu``
- ``fresh``: a recording for a page, or a preview of it; and what to say where it is stale
- ``frame``: what stands around a figure: where it ran, how to repeat it, its styles and script; and under a title
- ``shown``: which page shows a snippet's file, and the way there
- ``code``: whole files, colored, to read and download
- ``offer``: a snippet as something to copy: what it takes, where it ran, its test
- ``ledger``: everything that was recorded, by chapter
- ``practice``: exercises on pages; and their folder, to download
- ``templates``: Jinja2, for the HTML of all of these
- ``extension``: the Markdown syntax for all of these
- ``cards``, ``labs``, ``material``, ``practice``, ``search``: hooks of MkDocs, for what is no Markdown

And the gates, which need no generator:

- ``config``: what mkdocs.yml says of pages and Markdown
- ``terms``: first uses of the glossary's terms
- ``check``: every page, as ``python -m render check`` judges it
- ``policy``: what a browser may load and run on a page; ``hosts``: what a built site would load from another host
- ``built``: what a generator made of the pages, as ``python -m render check --built site`` judges it
"""
