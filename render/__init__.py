# SPDX-License-Identifier: Apache-2.0
"""Places figures, claims and code into pages: a Python-Markdown extension, whatever builds the site around it.

In the order in which a page comes about:

- ``config``: mkdocs.yml: where pages are, the menu, the Markdown extensions
- ``page``: the page that is being converted, and its faults
- ``fences``: the reader of fences, and counts of recordings and claims in a text
- ``labs``: notebooks as Markdown pages; all that treats them unlike others, but for the hook
- ``lessons``: the main path: which pages are lessons, their numbers, and how long each takes
- ``links``: which page shows a snippet's file, and the way there from another page
- ``gpus``: which recordings a page means by ``gpu``
- ``previews``: a fresh recording for a page, or a preview of it under ``mkdocs serve``
- ``claims/``: numbers for sentences: expressions over recordings, and names that a page gives to values
- ``code``: whole files, colored, to read and download
- ``practice/``: the exercises, their pages, and which files readers download; what those hold of the site
- ``templates``: Jinja2, for the HTML of all of these
- ``views/``: what pages show by a fence
- ``extension``: the Markdown syntax for all of these
- ``gates/``: judges the pages, and what a generator made of them; ``__main__`` is the command line
- ``mkdocs/``: hooks of MkDocs, for what is no Markdown
"""
