# SPDX-License-Identifier: Apache-2.0
"""Make the first check: each launch compiles for an H100 or H200 (sm_90), which need not be there, and has a grid.

Runs in a process without ``TRITON_INTERPRET``. The function is called on the CPU; a launch compiles and does not run.
"""

import inspect
import operator
import os
import re
import traceback
from contextlib import contextmanager, suppress
from unittest import mock

from . import judge, mistakes
from .case import Case, call, make_inputs, raised
from .finding import Fault, Finding
from .record import configs_in_turn
from .spec import Spec

TARGET = "cuda", 90, 32
ASKS_FOR_JIT = "Did you forget to add @triton.jit"
SHARED, THREADS = 232_448, 1024  # bytes of shared memory, and threads, that a program may have


class _CompileOnly:
    """Stand in for the driver of a GPU."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*TARGET)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def warm_up() -> None:
    """Import what a launch needs, and hash Triton for its cache: each fork would take half a second for it."""
    with suppress(ImportError):  # another Triton may have these elsewhere
        import triton.experimental.gluon  # noqa: F401
        from triton.runtime.cache import triton_key

        if not os.environ.get("TRITON_INTERPRET"):
            triton_key()


def possible() -> bool:
    """Return whether this platform's Triton can compile for an NVIDIA GPU."""
    try:
        from triton.backends import backends
    except ImportError:
        return False
    return "nvidia" in backends


@contextmanager
def compiling():
    """Have launches compile, and do no more, within this context; yield the list whose length is their number."""
    import triton
    from triton.runtime import driver

    run, seen = triton.JITFunction.run, []

    def compile_only(kernel, *args, grid, warmup, **kwargs):
        compiled = run(kernel, *args, grid=grid, warmup=True, **kwargs)
        if compiled.metadata.shared > SHARED:
            raise triton.OutOfResources(compiled.metadata.shared, SHARED, "shared memory")
        if (threads := 32 * compiled.metadata.num_warps) > THREADS:
            raise ValueError(
                f"num_warps={compiled.metadata.num_warps} are {threads} threads, and a program has at most {THREADS}"
            )
        counted(kernel, grid, args, kwargs)
        seen.append(compiled)
        return compiled

    driver.set_active(_CompileOnly())
    with mock.patch.object(triton.JITFunction, "run", compile_only), configs_in_turn():
        yield seen


def counted(kernel, grid, args, kwargs) -> tuple[int, ...]:
    """Return how many programs a grid has along its axes. Raise what a launch without a grid would raise."""
    if callable(grid):
        named = {name: value for name, value in kwargs.items() if name in kernel.arg_names}
        given = inspect.signature(kernel.fn).bind_partial(*args, **named)
        given.apply_defaults()
        grid = grid(dict(given.arguments))
    len(grid)  # an int has none
    return tuple(operator.index(n) if isinstance(n, float) else int(n) for n in grid)


def check(spec: Spec, function, file: str) -> None:
    """Raise :class:`Fault` if a launch does not compile."""
    with compiling():
        try:
            call(spec, function, make_inputs(spec, Case(spec.sizes[0])))
        except Exception as error:
            raise Fault(_finding(error, file)) from error


def _finding(error: Exception, file: str) -> Finding:
    innermost = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    place = re.search(r"\bat (\d+):(\d+):", str(error))
    message, line = raised(error, file)
    kernels = "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"
    in_kernel = type(error).__name__ in kernels
    whole = f"{innermost} {error}{_shapes(innermost)}"
    guess = mistakes.about_error(whole, file, 0 if in_kernel else line, getattr(error, "node", None))
    if not in_kernel:
        where = f", on line {line}:" if line else ":"
        return Finding(f"Your code raised {message}{where}", details=[judge.source(file, line)], guess=guess)
    if not place:
        return Finding(f"The kernel does not compile: {message}", guess=guess)
    lines = str(error).splitlines()  # the place, the source as far as there, a caret, and why
    caret = next((i for i, text in enumerate(lines) if text.strip() == "^"), None)
    code = [f"    {text}" for text in lines[max(1, caret - 3) : caret + 1]] if caret else []
    last = str(innermost).strip() if innermost is not error else "\n".join(lines[caret + 1 :] if caret else lines[-1:])
    why = last.splitlines()[-1] if last else "Triton does not say why"
    if ASKS_FOR_JIT in why and guess and "@triton.jit" not in guess:
        why = ""  # Triton asks that of whatever it cannot call, and here it is known what is wrong
    details = ["\n".join(code), *filter(None, [why])]
    return Finding("The kernel does not compile:", details=details, guess=guess)


def _shapes(error: BaseException) -> str:
    """Return the shapes of the two blocks. Triton's message omits them, so read them from the frame that raised."""
    first = error.__context__ or error  # in place of which Triton raises one of its own
    frames = [frame for frame, _ in traceback.walk_tb(first.__traceback__)] if "incompatible" in str(first) else []
    for frame in reversed(frames):
        if frame.f_code.co_name == "binary_op_type_checking_impl":  # before one of them is given more axes
            with suppress(TypeError, ValueError):  # another Triton may keep them in another form
                sides = [getattr(frame.f_locals.get(name), "shape", ()) for name in ("lhs", "rhs")]
                left, right = ([int(getattr(size, "value", size)) for size in side] for side in sides)
                return f"\nshapes {left} and {right}"
    return ""
