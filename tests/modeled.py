# SPDX-License-Identifier: Apache-2.0
"""Run a kernel's text in Triton's interpreter and in the model of it, ``browser/``, and say what each computed."""

import contextlib
import importlib.util
import math
import sys
import warnings
from pathlib import Path
from unittest import mock

import browser

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def in_browser():
    """Have the model in place of torch and Triton, as a page has it, and modules of ours that know no other."""
    ours = lambda: {name: each for name, each in sys.modules.items() if name.partition(".")[0] in ("coach", "snippets")}
    taken = ours()
    for name in taken:
        del sys.modules[name]
    try:
        with browser.installed():
            yield
    finally:
        for name in ours():
            del sys.modules[name]
        sys.modules.update(taken)
        browser.reset()


def in_triton(path: Path, name: str = "module"):
    """Import a file, for torch and Triton."""
    origin = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(origin)
    with mock.patch.object(sys, "dont_write_bytecode", True):  # or a second file of the same name would be the first
        origin.loader.exec_module(module)
    return module


def modeled(x):
    """Return a tensor of torch as one of the model, in memory of its own; anything else as it is."""
    if not hasattr(x, "untyped_storage"):
        return x
    name = str(x.dtype).removeprefix("torch.")
    return browser.place(x.detach().flatten().tolist(), name, tuple(x.shape), x.stride())


def seen_by_triton(value):
    """Return dtype, shape and numbers of a block of the interpreter; of anything else, its text."""
    if not hasattr(value, "handle"):
        return repr(value)
    shape = tuple(getattr(n, "value", n) for n in value.type.shape) if value.type.is_block() else ()
    return str(value.dtype), shape, value.handle.data.ravel().tolist()


def seen_by_model(value):
    if not hasattr(value, "data"):
        return repr(value)
    return str(value.dtype), tuple(value.shape), list(value.data)


def same(a, b, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Return whether two values are the same: to the bit (NaN is NaN, and 0 has a sign), or nearly."""
    if isinstance(a, float) and isinstance(b, float):
        if a != a or b != b:
            return a != a and b != b
        if rtol or atol:
            return a == b or abs(a - b) <= atol + rtol * max(abs(a), abs(b))
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, rtol, atol) for x, y in zip(a, b, strict=True))
    return a == b


def both(path: Path, text: str, arguments: list, grid=(1,)):
    """Run ``kernel`` of a text on the same tensors in both, and return what ``probe`` was given in each, by its key."""
    path.write_text(text)
    seen: list[dict] = [{}, {}]
    module = in_triton(path)
    module.probe = lambda key, value: seen[0].__setitem__(key, seen_by_triton(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copies = [x.clone() if hasattr(x, "untyped_storage") else x for x in arguments]
        module.kernel[grid](*copies)
    browser.reset()
    with browser.installed():
        names = browser.load(text, str(path))
        names["probe"] = lambda key, value: seen[1].__setitem__(key, seen_by_model(value))
        theirs = [modeled(x) for x in arguments]
        names["kernel"][grid](*theirs)
    for i, (x, y) in enumerate(zip(copies, theirs, strict=True)):
        if hasattr(x, "untyped_storage"):
            seen[0][f"argument {i}"], seen[1][f"argument {i}"] = x.flatten().tolist(), y.values()
    return seen
