# SPDX-License-Identifier: Apache-2.0
"""A model of Triton, and of as much of torch as its host functions use, in Python alone: it runs in a reader's browser.

Triton's interpreter is its judge: tests run the same kernels in both. What is not modeled raises an error that names
it. What differs, and why, stands in ``coverage``. Read in this order; arrows of import run upward:

- ``dtypes``: how numbers are rounded, wrapped, converted and stored
- ``layout``: where the elements of a shape lie
- ``memory``: one flat address space; each access is checked, and recorded
- ``block``: blocks, the values of kernels: promotion, broadcasting, operators
- ``language``: functions of ``triton.language`` for programs, loops, making and shaping blocks
- ``arithmetic``: those that compute, element by element, and products of matrices
- ``access``: those that load, store and change memory
- ``reductions``: reductions, scans, sorting, counting
- ``philox``: random numbers in kernels
- ``compiler``: a kernel's text: what Triton's compiler refuses, and how it is run
- ``launch``: ``triton.jit``, grids, arguments, the tuner
- ``tensor``: ``torch.Tensor``
- ``derivatives``: gradients of a few operations of torch's own
- ``autograd``: gradients, as far as ``torch.autograd.Function`` goes
- ``functions``: what torch computes
- ``modules``: puts all of it where imports find it, and runs files
- ``recorded``: gives the coach what it asks of a call
- ``check``: checks an exercise, by the coach's stages
- ``page``: what a page's script asks for, as JSON
- ``coverage``: what is modeled, what is not, and what differs

A page's worker, ``theme/assets/run-worker.js``, calls ``install()`` once and then functions of ``page``. Tests also
call ``reset(fill, strict, record)``, ``load(source, name)`` and a function of what that returns; afterwards
``MEMORY.launches`` and ``MEMORY.troubles`` say what the kernels did.
"""

from .launch import SETTINGS
from .memory import MEMORY, POISON, OutOfBounds
from .modules import install, installed, load, place

reset = MEMORY.reset

__all__ = ["MEMORY", "POISON", "SETTINGS", "OutOfBounds", "install", "installed", "load", "place", "reset"]
