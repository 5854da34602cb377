# SPDX-License-Identifier: Apache-2.0
"""Judges pages and built sites. Needs no site generator.

- ``check``: judges recordings and every page, as ``python -m render check`` does
- ``built``: judges what a generator made of the pages, as ``python -m render check --built site`` does
- ``hosts``: finds what a built site would load from another host
- ``terms``: finds first uses of the glossary's terms that do not link to it
- ``typed``: marks code that was typed by hand, and refuses HTML that looks recorded
"""
