# SPDX-License-Identifier: Apache-2.0
"""Explain memory that programs share: an input that is overwritten, an element that several store."""

import itertools

from .. import source
from . import accesses


def overwritten_input(run, trouble):
    if trouble.kind == "input":
        return "A kernel's result needs memory of its own. Is there a `torch.empty_like` for it?"
    return None


def shared_element(run, trouble):
    if trouble.kind in ("race", "twice") and trouble.other != trouble.access.program:
        return run.spec.shared or None
    return None


def race(run, trouble):
    if trouble.kind == "race":
        return "A GPU runs programs in any order, so what one of them writes, no other may touch in the same launch."
    return None


def unordered(run, trouble):
    if trouble.kind == "unordered":
        return "A program's threads run independently: `tl.debug_barrier()` waits for all, and a block needs no memory."
    return None


def overlap(run, trouble):
    if trouble.kind != "twice":
        return None
    many = accesses.siblings(trouble.access)
    starts = [many[p][0].offsets[0] for p in sorted(many)][:2]
    if trouble.other != trouble.access.program and len(starts) == 2:
        lanes = len(trouble.access.offsets)
        return (
            f"Program 0 begins at offset {starts[0]}, program 1 at {starts[1]}, and each has {lanes} lanes. Some of "
            f"those that the mask leaves on belong to another program. Is the step wrong, or the mask?"
        )
    access, offset = trouble.access, trouble.access.offsets[trouble.lane]
    before = list(itertools.takewhile(lambda other: other is not access, access.launch.accesses))
    before = [a for a in before if (a.op, a.program) == ("store", access.program) and a.region is access.region]
    lines = [other.line for other in before if any(other.offsets[lane] == offset for lane in other.on())]
    if lines and lines[-1] != access.line:
        return source.two_stores(run.file, lines[-1], access.line)
    if len({access.offsets[lane] for lane in access.on()}) == len(access.on()):
        return (
            "Another store of the same program wrote it. If that is in a loop, how far do the offsets "
            "move with each step?"
        )
    return "Two lanes have the same offset. Does every index have its stride, and the mask `<` rather than `<=`?"
