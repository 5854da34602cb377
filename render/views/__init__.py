# SPDX-License-Identifier: Apache-2.0
"""Views: what a page can ask for by a ``recording`` fence. A view is a function under ``@view``, of the view's name.

It takes the page and the options that the fence may give, and returns HTML. A new view needs nothing else.

- ``registry``: all views, by name
- ``figure``: the views that are figures, for all of ``figures/``
- ``frame``: the foot, styles and script around a figure, and the lines under a page's title
- ``emblem``: what a chapter is about, as a small drawing
- ``exercises``: the views ``exercise``, ``exercises`` and ``caught``, and a lesson's links to its exercises
- ``file``: a snippet's whole file
- ``ledger``: everything that was recorded, by chapter
- ``modeled``: the views ``modeled`` and ``unmodeled``: where the model that runs in a browser differs from Triton
- ``path``: the views ``path`` and ``route``: lessons with their times
- ``template``: a button that downloads the template
- ``snippet``: a snippet as something to copy: its arguments, where it ran, its test
"""
