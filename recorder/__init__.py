# SPDX-License-Identifier: Apache-2.0
"""Runs snippets, keeps what they produced with its provenance, and renders it into pages.

One job a module, in the order in which a recording comes about:

- ``project``: where snippets, recordings and pages lie, and what they are called
- ``fingerprint``: what a recording was made from
- ``observe``: runs one snippet in a process of its own: output, launches, memory accesses, benchmarks
- ``stages``: compiles the launches that were seen for several targets, without a GPU
- ``chart``: draws a benchmark
- ``lab``: executes a lab into a notebook; ``lab_page`` shows it
- ``recording``: reads, writes and judges the files in ``recordings/``
- ``runner``: does all of this for what is stale; ``__main__`` is its command line
- ``claims``, ``views``, ``picture``: turn a recording into numbers and HTML
- ``markdown``: the Python-Markdown extension by which pages ask for them
"""
