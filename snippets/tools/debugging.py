# SPDX-License-Identifier: Apache-2.0
"""Helpers for debugging Triton kernels: copy this file beside your own.

In a kernel, under ``TRITON_INTERPRET=1``:

- ``breakpoint_if("=1")`` opens the debugger in the kernel, in program 1 only;
- ``print_if("=1", "mask", mask)`` prints there only;
- ``assert_all(offsets < n, "past the end")`` stops at the first program in which a lane is false. Triton's own
  ``tl.device_assert`` does nothing in the interpreter (seen in 3.6 and 3.7.1).

On the host:

- ``check_tensors_gpu_ready(x, y)`` refuses a tensor that a simple kernel would read wrongly.

All of them may stay in a kernel that is compiled. ``breakpoint_if`` and ``print_if`` then vanish, and ``assert_all``
becomes ``tl.device_assert``, which is compiled only under ``TRITON_DEBUG=1``.

A condition on programs has one part for each axis of the grid, separated by commas: ``=0``, ``!=0``, ``<4``, ``<=4``,
``>4``, ``>=4``; ``*`` or nothing lets every program through. ``">1,=0"`` is pid 2 and up on axis 0, pid 0 on axis 1.

Run it with ``TRITON_INTERPRET=1 python debugging.py``, or on a GPU, where only the host's part prints anything.
"""

import operator
import pdb
import re
import sys

import torch
import triton
import triton.language as tl

# --8<-- [start:conditions]
COMPARISONS = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def matches(conditions: str, pid: tuple[int, ...]) -> bool:
    """Whether the program ``pid``, one number an axis, fulfills every part of ``conditions``.

    Raises:
        ValueError: a part is no condition, or there are more parts than axes.

    >>> matches(">=2", (2, 0, 0)), matches(">1,=0", (2, 0, 0)), matches(">1,=0", (2, 1, 0)), matches("*,<=3", (9, 4, 0))
    (True, True, False, False)
    """
    parts = conditions.split(",")
    if len(parts) > len(pid):
        raise ValueError(f"{conditions!r} has {len(parts)} parts, one for each axis; there are only {len(pid)} axes")
    holds = []
    for part in parts:
        found = re.fullmatch(r"(==?|!=|<=?|>=?)\s*(\d+)", part.strip())
        if not found and part.strip() not in ("", "*"):
            raise ValueError(f"{part.strip()!r} in {conditions!r} is no condition such as =0, !=0, <4, <=4, >4, >=4, *")
        holds.append(found)
    return all(COMPARISONS[found[1]](i, int(found[2])) for found, i in zip(holds, pid, strict=False) if found)
# --8<-- [end:conditions]


# --8<-- [start:helpers]
def current_pid() -> tuple[int, int, int]:
    """The pid of the program that the interpreter is running, on all three axes."""
    return tuple(int(tl.program_id(axis).handle.data.item()) for axis in range(3))


def for_kernels(function):
    """Let compiled kernels call ``function``: the compiler runs it once, and gives it ``_semantic``."""
    function.__triton_builtin__ = True
    return function


@for_kernels
def program_is(conditions: str, _semantic=None) -> bool:
    """Whether this program fulfills ``conditions``; in a compiled kernel always False, known to the compiler.

    ``if program_is("=1"): breakpoint()`` opens whatever debugger Python is set to, for instance that of an editor.
    """
    if _semantic is not None:
        return tl.constexpr(False)
    return matches(conditions, current_pid())


@for_kernels
def breakpoint_if(conditions: str, _semantic=None) -> None:
    """Open pdb in the kernel, at the next line, in programs that fulfill ``conditions``. Compiled: nothing."""
    if _semantic is None and matches(conditions, current_pid()):
        pdb.Pdb().set_trace(sys._getframe(1))


@for_kernels
def print_if(conditions: str, *values, _semantic=None) -> None:
    """Print the pid and ``values`` in programs that fulfill ``conditions``. Compiled: nothing."""
    if _semantic is None and matches(conditions, pid := current_pid()):
        print(f"pid {pid}:", *values)


@for_kernels
def assert_all(condition, message: str = "", _semantic=None) -> None:
    """Raise ``AssertionError`` unless ``condition`` holds in every lane. Compiled: ``tl.device_assert``."""
    if _semantic is not None:
        return tl.device_assert(condition, message, _semantic=_semantic)
    holds = torch.as_tensor(condition.handle.data if isinstance(condition, tl.tensor) else condition, dtype=torch.bool)
    if not holds.all():
        wrong = (~holds).nonzero().tolist()
        lanes = f"{len(wrong)} of {holds.numel()} lanes, first lane {', '.join(map(str, wrong[0]))}"
        raise AssertionError(f"{message}: pid {current_pid()}, {lanes}")
# --8<-- [end:helpers]


# --8<-- [start:check]
def check_tensors_gpu_ready(*tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` unless a kernel that gets only pointers to ``tensors`` would read and write them rightly.

    Each must be contiguous, without a pending negation or conjugation, and on a GPU, all on one; in the interpreter
    the CPU will do.

    >>> check_tensors_gpu_ready(torch.ones(2, 3).t())
    Traceback (most recent call last):
    ValueError: tensor 0, of shape (3, 2), is not contiguous: its strides are (1, 3); pass x.contiguous()
    """
    allowed = ("cuda", "cpu") if triton.knobs.runtime.interpret else ("cuda",)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"argument {i} is no tensor but a {type(tensor).__name__}")
        what = f"tensor {i}, of shape {tuple(tensor.shape)},"
        if tensor.device.type not in allowed:
            raise ValueError(f"{what} is on {tensor.device}; move it to a GPU, as in x.cuda()")
        if tensor.device != tensors[0].device:
            raise ValueError(f"{what} is on {tensor.device}, and tensor 0 on {tensors[0].device}")
        if not tensor.is_contiguous():
            raise ValueError(f"{what} is not contiguous: its strides are {tensor.stride()}; pass x.contiguous()")
        if tensor.is_neg() or tensor.is_conj():
            raise ValueError(f"{what} is negated or conjugated lazily; pass x.resolve_neg().resolve_conj()")
# --8<-- [end:check]


# --8<-- [start:kernel]
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    print_if(">=1", "offsets", offsets, "mask", mask)
    assert_all(offsets >= 0, "negative offset")
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:kernel]


def main():
    device = "cuda" if isinstance(copy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = torch.arange(10.0, device=device)
    out = torch.full_like(x, -1)
    check_tensors_gpu_ready(x, out)
    copy_kernel[(3,)](x, out, 10, BLOCK=4)
    print("copied:", out.tolist())
    for refused in ((x, x[::2]), (x, torch.empty(2, device="meta"))):
        try:
            check_tensors_gpu_ready(*refused)
        except ValueError as error:
            print("refused:", error)
    for conditions in ("=0", ">=2", ">1,=0", "!=1", "*,<1", "=>2", "=0,=0,=0,=0"):
        try:
            chosen = [pid[:2] for pid in ((i, j, 0) for i in range(4) for j in range(2)) if matches(conditions, pid)]
            print(f"{conditions!r} on a grid of 4 × 2:", *chosen)
        except ValueError as error:
            print("refused:", error)


if __name__ == "__main__":
    main()
