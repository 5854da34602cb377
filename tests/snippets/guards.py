# SPDX-License-Identifier: Apache-2.0
"""What tests of kernels share: buffers with guard zones, and a list of what a kernel read and wrote.

A guard zone catches a stray write, and a stray read whose value reaches the result. A read whose value is thrown
away leaves no trace in memory: in the interpreter :func:`recorded_accesses` sees it, on a GPU compute-sanitizer.
"""

import contextlib
import importlib.util
import os
from pathlib import Path
from unittest import mock

import numpy as np
import torch

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size in bytes


class Guarded:
    """A tensor in the middle of a larger buffer of which every other byte has the value ``fill``.

    Args:
        shape, dtype, device: of the tensor, which starts out filled with ``fill`` too.
        before: elements of guard in front of it; also sets its alignment.
        after: elements of guard behind it.
        fill: a byte. 0xFF makes a NaN of any floating-point type, and -1 of an integer.
    """

    def __init__(self, shape, dtype, device, *, before, after, fill):
        self.shape, self.fill = shape, fill
        numel, size = int(np.prod(shape, dtype=np.int64)), dtype.itemsize
        self.begin, self.end = before * size, (before + numel) * size
        self.bytes = torch.full((self.end + after * size,), fill, dtype=torch.uint8, device=device)
        self.tensor = self.bytes[self.begin : self.end].view(dtype).view(shape)

    @classmethod
    def around(cls, tensor, **zones):
        guarded = cls(tensor.shape, tensor.dtype, tensor.device, **zones)
        guarded.tensor.copy_(tensor)
        return guarded

    def check(self, name):
        """Assert that the guard zones are as they were made."""
        changed = self.bytes != self.fill
        changed[self.begin : self.end] = False
        where = changed.nonzero().flatten().tolist()
        elements = sorted({(byte - self.begin) // self.tensor.itemsize for byte in where})
        assert not where, f"written outside of {name}, which has {self.tensor.numel()} elements: at {elements[:8]}"


@contextlib.contextmanager
def recorded_accesses():
    """Yield a list that receives ``("load" or "store", addresses in bytes)`` for each load and store of a program.

    Only lanes that the mask leaves on count. Interpreter only; atomics are not recorded.
    """
    from triton.runtime.interpreter import interpreter_builder as builder

    accesses = []

    def recorder(name, op, mask_at):
        original = getattr(builder, name)

        def record(pointers, *rest, **kwargs):
            on = np.broadcast_to(rest[mask_at - 1].data, pointers.data.shape).astype(bool)
            accesses.append((op, pointers.data[on].astype(np.int64).ravel()))
            return original(pointers, *rest, **kwargs)

        return record

    load = recorder("create_masked_load", "load", mask_at=1)  # an unmasked load arrives there too
    store = recorder("create_masked_store", "store", mask_at=2)
    with mock.patch.multiple(builder, create_masked_load=load, create_masked_store=store):
        yield accesses


def check_each_once(accesses, op, **tensors):
    """Assert that ``op`` touched each element of the (contiguous) tensors once, and nothing else."""
    actual = [addresses for kind, addresses in accesses if kind == op]
    actual = np.sort(np.concatenate([np.empty(0, np.int64), *actual]))
    inside = {name: t.data_ptr() + t.itemsize * np.arange(t.numel()) for name, t in tensors.items()}
    expected = np.sort(np.concatenate(list(inside.values())))
    strays = np.setdiff1d(actual, expected)
    if strays.size:
        near = min(tensors, key=lambda name: abs(int(strays[0]) - tensors[name].data_ptr()))
        element = (int(strays[0]) - tensors[near].data_ptr()) / tensors[near].itemsize
        raise AssertionError(
            f"{strays.size} {op}s outside of {', '.join(tensors)}: "
            f"one at element {element:g} of {near}, which has {tensors[near].numel()}"
        )
    missed = [name for name in tensors if np.setdiff1d(inside[name], actual).size]
    assert not missed, f"elements of {', '.join(missed)} that no {op} touched"
    assert np.array_equal(actual, expected), f"elements of {', '.join(tensors)} that more than one {op} touched"


def check_same_bits(actual, expected):
    """Assert that shape, dtype, device and every bit are the same; any NaN is as good as any other."""
    for attribute in ("shape", "dtype", "device"):
        a, e = getattr(actual, attribute), getattr(expected, attribute)
        assert a == e, f"{attribute} is {a}, should be {e}"
    a, e = actual.flatten(), expected.flatten()
    wrong = a.view(INTEGERS[a.itemsize]) != e.view(INTEGERS[e.itemsize])
    if a.is_floating_point():
        wrong &= ~(a.isnan() & e.isnan())
    where = wrong.nonzero().flatten().tolist()
    assert not where, (
        f"{len(where)} of {a.numel()} elements are wrong; element {where[0]} is {a[where[0]]}, should be {e[where[0]]}"
    )


def load_file(path: Path):
    """Import a Python file that is not on the path, such as a mutated snippet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutate(source: Path, target: Path, old: str, new: str) -> Path:
    """Copy ``source`` to ``target`` with every ``old`` replaced; fail if there is none, for then nothing is mutated."""
    text = source.read_text("utf-8")
    assert old in text, f"{source.name} no longer contains {old!r}: bring the table of mutants up to date"
    target.write_text(text.replace(old, new), "utf-8")
    return target


def environment(device: str, **more: str) -> dict[str, str]:
    """This process's environment for a child process that runs kernels on ``device``."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return kept | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {}) | more
