# SPDX-License-Identifier: Apache-2.0
"""What tests of snippets share: the checks of the lesson *Testing a kernel*, and what is about this repository only."""

import contextlib
import importlib.util
import os
from pathlib import Path
from unittest import mock

import numpy as np

from snippets.tools.testing import (  # noqa: F401  for the tests to import from here
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    recorded_accesses,
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


def without_memory(*shape: int, dtype=None):
    """A tensor on the CPU of any size, which has no elements: for what only its shape decides."""
    import torch
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(shape, dtype=dtype)


def reaching(shape: tuple[int, int], sides: tuple[int, int], span: int):
    """A float16 matrix without memory, of which a tile reaches just so far from its first element to its last.

    Raises StopIteration if no strides do: ``span`` must be a multiple of what divides both sides less 1.
    """
    import torch
    from torch._subclasses import FakeTensorMode

    rows, columns = (side - 1 for side in sides)
    first = next(stride for stride in range(2**20, 2**21) if (span - rows * stride) % columns == 0)
    with FakeTensorMode():
        return torch.empty_strided(shape, (first, (span - rows * first) // columns), dtype=torch.float16)


def handed_out(name: str, *tensors):
    """A patch of ``torch.empty`` or its like: a call gets the next of these tensors, and must ask for one like it."""
    import torch

    make, left = getattr(torch, name), list(tensors)

    def hand_out(*args, **options):
        asked, tensor = make(*args, **options), left.pop(0)
        for attribute in ("shape", "dtype", "device"):
            a, b = getattr(asked, attribute), getattr(tensor, attribute)
            assert a == b, f"torch.{name} was asked for the {attribute} {a}, should be {b}"
        return tensor

    return mock.patch.object(torch, name, hand_out)


def among_nans(tensor):
    """Return an equal tensor with NaN before and behind it, so that what is read beyond its ends shows."""
    import torch

    nans = tensor.new_full((16,), torch.nan)
    return torch.cat([nans, tensor.flatten(), nans])[16:-16].view(tensor.shape)


@contextlib.contextmanager
def made_among_nans():
    """Make new tensors of NaN, with more NaN around them: for what one kernel stores and the next one loads.

    A stray load finds what lay in memory before, which is mostly finite: times a masked zero, it does not show.
    """
    import torch

    def made(make, *args, **options):
        new = make(*args, **options)
        if not (new.is_floating_point() and new.is_contiguous()):
            return new
        return new.new_full((new.numel() + 32,), torch.nan)[16:-16].view(new.shape)

    with contextlib.ExitStack() as stack:
        for of, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
            make = getattr(of, name)
            among = lambda *args, make=make, **options: made(make, *args, **options)
            stack.enter_context(mock.patch.object(of, name, among))
        yield


@contextlib.contextmanager
def nan_as_on_a_gpu():
    """In the interpreter: a maximum or minimum that is not told to propagate NaN drops it, as a GPU's does."""
    from triton.runtime.interpreter import interpreter_builder as builder

    drop = {"create_maxnumf": np.fmax, "create_minnumf": np.fmin}
    with contextlib.ExitStack() as stack:
        for name, function in drop.items():
            dropping = lambda a, b, function=function: builder.binary_op(a, b, function)
            stack.enter_context(mock.patch.object(builder, name, dropping))
        yield


@contextlib.contextmanager
def precisions_of_dots():
    """Yield a set that receives what each ``tl.dot`` is told: the interpreter multiplies float32 as float32 anyway."""
    from triton.runtime.interpreter import interpreter_builder as builder

    seen, dot = set(), builder.create_dot

    def noted(a, b, acc, precision, *rest):
        seen.add(precision.name)
        return dot(a, b, acc, precision, *rest)

    with mock.patch.object(builder, "create_dot", noted):
        yield seen


@contextlib.contextmanager
def promises_kept():
    """In the interpreter: each value that ``tl.multiple_of`` says is a multiple is one. Yields what was promised.

    A broken promise is wrong on a GPU alone, for loads and stores become wider than memory is aligned.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    said, patch = [], interpreter._patch_lang_core

    def checked(x, size):
        values = x.handle.data if isinstance(x, tl.tensor) else np.asarray(x)  # (a loop's variable is an int)
        size = getattr(size, "value", size)
        said.append(size)
        assert size > 0 and not (values.astype(np.int64) % size).any(), f"{values} is no multiple of {size}"
        return x

    def patched(lang, scope):
        patch(lang, scope)
        scope.set_attr(lang, "multiple_of", checked)

    with mock.patch.object(interpreter, "_patch_lang_core", patched):
        yield said


@contextlib.contextmanager
def as_if_compiled(module, kernel: str):
    """Without a GPU: a snippet's checks take its kernel for a compiled one; yield what makes bfloat16 on a GPU."""
    import torch
    import triton
    from torch._subclasses import FakeTensorMode  # tensors without memory, on any device

    def on_gpu(*shape):
        with FakeTensorMode():
            return torch.ones(*shape, device="cuda", dtype=torch.bfloat16)

    with mock.patch.object(module, kernel, mock.Mock(spec=triton.JITFunction)):
        yield on_gpu


def environment(device: str, **more: str) -> dict[str, str]:
    """This process's environment for a child process that runs kernels on ``device``."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return kept | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {}) | more
