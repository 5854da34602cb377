# SPDX-License-Identifier: Apache-2.0
"""Ways to draw what is recorded, a room each: Python that draws, beside its template, styles and script.

A folder here is a figure. Its ``__init__.py`` holds one function under ``@figure`` (``registry``), named as pages ask
for it, or several that share a picture. It takes a typed recording (``recorder.recording``) and the options that a page
may give, and returns HTML. Beside it, as needed: ``template.html``, ``style.css``, and ``script.js`` for what can be
played with. A page that shows the figure carries its style and script; another does not. A style sheet of another name
is for what only some pages show of a figure: ``waves__legend.css`` comes with those that have ``class="waves__legend``.

Shared by all: ``registry`` (what figures there are), ``templates`` (Jinja2), ``macros.html`` (tables, folds), ``svg``
(elements and texts of a picture), ``words`` (how numbers are said), ``data_sheets`` (what data sheets say of GPUs),
``explorer.js`` and ``explorer.css`` (forms of explorers, the bar of time), ``forms.html`` (their parts; ``forms/``:
styles of those that few figures have), ``machine`` in Python, JavaScript, CSS and a template (multiprocessors and
tiles), ``online`` in Python and JavaScript (online softmax, moment by moment). A script brings what it imports of
these.
"""
