# SPDX-License-Identifier: Apache-2.0
"""What a launch returns on a GPU, for the interpreter, where it returns nothing: by it a prepared launch is tried.

Its judge is the part of Triton that tells what a launch is to be compiled for. On a GPU nobody looks at the arguments
of a prepared launch any more; here each must be of the kind for which Triton compiled the first.
"""

from types import ModuleType

import pytest
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature


class Kernel:
    """An interpreted kernel whose launches return what a GPU's do."""

    def __init__(self, interpreted):
        self.interpreted, self.arg_names = interpreted, interpreted.arg_names
        compiled = JITFunction(interpreted.fn, **interpreted.kwargs)
        backend = make_backend(GPUTarget("cuda", 90, 32))
        self.looked_at = create_function_from_signature(compiled.signature, compiled.params, backend)

    def __getitem__(self, grid: tuple[int, ...]):
        return lambda *arguments, **options: self.run(grid, *arguments, **options)

    def run(self, grid, *arguments, **options) -> "Compiled":
        self.interpreted[grid](*arguments, **options)
        given, kinds, _ = self.looked_at(*arguments, **options)
        return Compiled(self, grid, kinds, list(given))


class Compiled:
    """What a kernel was compiled to: it takes all arguments by their places, the constants, too."""

    def __init__(self, kernel: Kernel, grid: tuple[int, ...], kinds: list, names: list[str]):
        self.kernel, self.grid, self.kinds, self.names = kernel, grid, kinds, names

    def __getitem__(self, grid: tuple[int, ...]):
        assert grid == self.grid

        def launch(*arguments):
            given = dict(zip(self.names, arguments, strict=True))
            kinds = self.kernel.looked_at(**given)[1]
            others = {name: (a, b) for name, a, b in zip(given, self.kinds, kinds, strict=True) if a != b}
            assert not others, f"the kernel that was kept is not for such arguments: {others}"
            self.kernel.interpreted[grid](**given)

        return launch


def keep_launches(monkeypatch: pytest.MonkeyPatch, snippet: ModuleType, *names: str) -> None:
    """Let a snippet begin without prepared launches, and its kernels keep what they compile, as on a GPU."""
    monkeypatch.setattr(snippet, "PLANS", {})
    for name in names:
        if not isinstance(kernel := getattr(snippet, name), JITFunction):
            monkeypatch.setattr(snippet, name, Kernel(kernel))


def refuse_launches(monkeypatch: pytest.MonkeyPatch, snippet: ModuleType, *names: str) -> None:
    """Let only prepared launches through: all others go by a kernel's ``run``."""
    for name in names:
        monkeypatch.setattr(getattr(snippet, name), "run", None)
