# SPDX-License-Identifier: Apache-2.0
"""Check an exercise and say what is wrong with it: the coach. It needs torch, Triton and NumPy, nothing else of ours.

Read in this order; arrows of import run upward:

- ``spec``: what an exercise asks for, as a typed dataclass. **How to write an exercise stands there**
- ``pages``: reads the order of the course, and what its pages are called
- ``gaps``: finds, empties and compares the gaps of a file
- ``exercise``: a folder in ``exercises/``: its card, files and wrong solutions; needs no torch
- ``finding``: what is wrong, and its message
- ``launch``: what is recorded of a call: launches, accesses, memory; needs neither torch nor NumPy
- ``arena``: memory with guard zones, and which element an address is
- ``record``: records what a call does in Triton's interpreter, and what it has torch do
- ``case``: with what the reader's function is called: sizes, strides, seed and fill of memory; and what it should give
- ``run``: one call of it, recorded
- ``draw``: a launch as text: programs × lanes
- ``source``: what the reader's file says, without running it
- ``errors``: what the text of an error probably means
- ``mistakes/``: what is probably wrong, where it is a known mistake; a module for what each is about
- ``judge``: what of a run is wrong: shape, bounds, values, honesty, counts
- ``stages``: the checks in their order, in the interpreter or in the site's model of it
- ``compiled``: the first check: each launch compiles for a GPU that need not be there
- ``speed``: the last check: on a GPU, the values again, and the time
- ``child``: the process in which the reader's code runs, so that nothing it does hurts the coach
- ``check``: starts such processes, with a time limit, and puts their verdicts together
- ``progress``: what has been tried, passed and hinted at
- ``svg``: a launch as a picture in the site's visual language, for notebooks and pages
- ``desk``: the reader's own copies, and the commands of ``practice.py``
- ``serve``: the last check as a page in a browser, by ``python practice.py serve``
- ``notebook``: the same in a notebook, by ``%%exercise``
"""
