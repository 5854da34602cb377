# SPDX-License-Identifier: Apache-2.0
"""Runs snippets, keeps what they produced with its provenance, and judges what is kept. Knows no HTML and no generator.

One job a module, in the order in which a recording comes about:

- ``project``: where snippets, recordings and pages lie, what they are called, and a snippet's settings
- ``new``: begins a lesson, from ``skeleton/``; ``rename``: gives a snippet another name, in all places
- ``menu``: adds a page to the menu, and numbers the lessons in it
- ``source``: parses files into statements and imports, and finds a line of code again when lines have moved
- ``effects``: judges whether a statement of a file's top level only binds names, or acts; ``reads``: finds whether it
  reads docstrings, source lines or files, and refuses what cannot be followed
- ``reach``: follows what a file runs into the files that it imports
- ``fingerprint``: what a recording was made from
- ``runner``: runs a snippet in processes of its own; ``watch`` stops them when the recorder is gone
- ``trace``: in such a process: output, launches, memory accesses, benchmarks
- ``compile``: in another, by a Triton of its own: the launches that were seen, for several targets, without a GPU
- ``coach``: in such a process: checks an exercise's wrong solutions, or times its solution on a GPU
- ``lab``: executes a lab into a notebook
- ``recording``: what a recording holds, as types with units; the only reader and writer of the files
- ``printed``: numbers, sections, pixels and verdicts in what a run printed
- ``judge``: what is stale, missing, edited, orphaned, untested
- ``replay``: runs everything that needs no GPU again and compares; or on a GPU, everything that prints
- ``timing``: what a sample of the benchmarks measured again there, and how far that agrees
- ``tools``: what a GPU machine needs that pip does not bring

``__main__`` is the command line.
"""
