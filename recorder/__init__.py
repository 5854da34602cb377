# SPDX-License-Identifier: Apache-2.0
"""Run snippets, keep the results with their provenance, and judge them. Nothing here knows HTML or a site generator.

Each module has one job, in the order in which a recording is made:

- ``project``: names the files of snippets, exercises, labs and recordings, and reads a snippet's settings
- ``new``: begins a lesson, from ``skeleton/``; ``rename``: gives a snippet another name everywhere
- ``menu``: adds a page to the menu, and numbers the lessons in it
- ``source``: parses files into statements and imports, and finds a line of code again when lines have moved
- ``effects``: judges whether a statement of a file's top level only binds names, or acts; ``reads``: finds whether it
  reads docstrings, source lines or files, and refuses what cannot be followed
- ``reach``: follows what a file runs into the files that it imports
- ``fingerprint``: identifies the code, settings and pins that a recording was made from
- ``runner``: runs a snippet in processes of its own; ``watch`` stops them when the recorder is gone
- ``trace``, in such a process: records output, launches, memory accesses and benchmarks
- ``compile``, in another with a Triton of its own: compiles the recorded launches for several targets, without a GPU
- ``coach``, in another: checks an exercise's wrong solutions, or times its solution on a GPU
- ``lab``: executes a lab into a notebook
- ``recording``: defines what a recording holds, as types with units; the only reader and writer of the files
- ``printed``: reads numbers, sections, pixels and verdicts from the output of a run
- ``judge``: finds what is stale, missing, edited, orphaned or untested
- ``replay``: runs everything that needs no GPU again and compares; or on a GPU, everything that prints
- ``timing``: chooses the benchmarks that are measured again there, and judges how far the numbers agree
- ``tools``: lists the programs that a GPU machine needs and pip does not install

``__main__`` is the command line.
"""
