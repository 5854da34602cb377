# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs, for what is no Markdown. Another generator needs its own; nothing else in ``render`` imports them.

- ``address``: writes the repository's address into the command that clones it
- ``browser``: brings what runs kernels in a reader's browser
- ``cards``: draws the picture that a shared link shows
- ``collector``: lets Python's garbage collector come less often
- ``faces``: fetches the faces of text and code, and puts them into the site
- ``files``: writes the snippets' whole files, and the template's zip, beside the pages
- ``folders``: leads from the address of a folder to its first page
- ``labs``: gives labs the site's own Markdown and styles in place of mkdocs-jupyter's
- ``lean``: takes the comments out of our styles and scripts
- ``npm``: fetches packages for ``browser`` and ``faces``
- ``onward``: makes what a lesson says of the next one the card that leads there
- ``policy``: adds the Content-Security-Policy to each page
- ``practice``: packs the exercises for download
- ``search``: tells the search plugin what to read of a page
- ``styles``: joins the style sheets of all pages into one
"""
