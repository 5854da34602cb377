# SPDX-License-Identifier: Apache-2.0
"""Places figures, claims and code into pages: a Python-Markdown extension, whatever builds the site around it.

In the order in which a page comes about:

- ``config``: mkdocs.yml: where pages are, the menu, the Markdown extensions
- ``page``: the page that is being converted, and its faults
- ``fences``: the reader of a page's text: its settings, fences, recordings and claims
- ``labs``: notebooks as Markdown pages; all that treats them unlike others, but for the hook
- ``lessons``: the main path: which pages are lessons, their numbers, and how long each takes
- ``links``: which page shows a snippet's file, the way there from another page, and to the repository
- ``recordings``: which a page means by ``gpu``, and a fresh one of each, or under ``mkdocs serve`` a preview
- ``claims/``: numbers for sentences: expressions over recordings, and names that a page gives to values
- ``cards``: tables that a phone shows row by row
- ``units``: a number and its unit, on one line
- ``code``: whole files, colored, to read and download
- ``practice/``: the exercises, their pages, and which files readers download; what those hold of the site
- ``template``: the package in ``template/``, and what readers download of it
- ``wrapping``: code and outputs that a narrow screen wraps
- ``predict``: a question that a reader answers before the page does: the fence ``predict`` as Markdown
- ``templates``: Jinja2, for the HTML of all of these
- ``views/``: what pages show by a fence
- ``endings``: what a lesson has behind it, in one fold
- ``extension``: the Markdown syntax for all of these
- ``gates/``: judges the pages, and what a generator made of them; ``__main__`` is the command line
- ``mkdocs/``: hooks of MkDocs, for what is no Markdown
"""
