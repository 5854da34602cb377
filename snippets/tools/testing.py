# SPDX-License-Identifier: Apache-2.0
"""Test a kernel so that its faults show: ragged sizes, guard zones, poisoned outputs, recorded accesses, tolerances.

- :func:`ragged_sizes`: the sizes at which masks go wrong
- :class:`Guarded`: a tensor with guard zones around it, filled with a value that nobody computes
- :func:`recorded_accesses`, with :func:`check_each_once` and :func:`check_inside`: what a kernel really read and wrote
- :func:`check_same_bits`: equal to the last bit
- :func:`sum_tolerance`: how far a sum may be off, from the number of its additions

Copy the file beside your tests. They run on a GPU, and without one in Triton's interpreter, which alone has the
list of accesses. The two kernels and ``main()`` are the demonstration.

Source: the bound on the error of a sum is Higham's, *Accuracy and Stability of Numerical Algorithms*, section 4.2.
"""

import contextlib
import math
from unittest import mock

import numpy as np
import torch
import triton
import triton.language as tl

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size in bytes


# --8<-- [start:sizes]
def ragged_sizes(block: int) -> dict[int, str]:
    """Return the numbers of elements to try with blocks of ``block``, each with the fault that it is there to find.

    >>> list(ragged_sizes(4))
    [0, 1, 3, 4, 5, 13]
    """
    return {
        0: "no program at all",
        1: "nearly every lane is off; 1 is also a value that Triton compiles specially",
        block - 1: "the last lane of the only block is off",
        block: "nothing is off",
        block + 1: "a second program, for one element",
        3 * block + 1: "programs that are neither the first nor the last",
    }
# --8<-- [end:sizes]


# --8<-- [start:guarded]
class Guarded:
    """A tensor in the middle of a larger buffer of which every other byte has the value ``fill``.

    Args:
        shape, dtype, device: of the tensor, which starts out filled with ``fill`` too: as an output, it is poisoned.
        before: elements of guard in front of it; also sets its alignment.
        after: elements of guard behind it. A block or more, so that a whole stray block lands there.
        fill: a byte. 0xFF makes a NaN of float16, bfloat16, float32 and float64, and -1 of a signed integer.

    >>> out = Guarded((3,), torch.float32, "cpu", before=4, after=4, fill=0xFF)
    >>> out.tensor
    tensor([nan, nan, nan])
    >>> out.tensor.fill_(0.0)
    tensor([0., 0., 0.])
    >>> out.check("out")  # the three elements are the tensor's own
    >>> out.bytes[-4:] = 0
    >>> out.check("out")
    Traceback (most recent call last):
    AssertionError: written outside of out, which has 3 elements: at [6]
    """

    def __init__(self, shape, dtype, device, *, before, after, fill):
        self.shape, self.fill = shape, fill
        numel, size = math.prod(shape), dtype.itemsize
        self.begin, self.end = before * size, (before + numel) * size
        self.bytes = torch.full((self.end + after * size,), fill, dtype=torch.uint8, device=device)
        self.tensor = self.bytes[self.begin : self.end].view(dtype).view(shape)

    @classmethod
    def around(cls, tensor, **zones):
        """A guarded copy of ``tensor``. With a fill of 0xFF, a stray read that reaches a result makes it NaN."""
        guarded = cls(tensor.shape, tensor.dtype, tensor.device, **zones)
        guarded.tensor.copy_(tensor)
        return guarded

    def check(self, name):
        """Assert that the guard zones are as they were made."""
        changed = self.bytes != self.fill
        changed[self.begin : self.end] = False
        where = changed.nonzero().flatten().tolist()
        elements = sorted({(byte - self.begin) // self.tensor.itemsize for byte in where})
        if where:
            raise AssertionError(
                f"written outside of {name}, which has {self.tensor.numel()} elements: at {elements[:8]}"
            )
# --8<-- [end:guarded]


# --8<-- [start:accesses]
@contextlib.contextmanager
def recorded_accesses(*, first_program=(0, 0, 0), memory=True):
    """Yield a list that receives ``("load" or "store", addresses in bytes)`` for each load and store of a program.

    Only lanes that the mask leaves on count. Interpreter only; atomics are not recorded.

    Args:
        first_program: Where the pids begin, by axis: a grid of ``(1,)`` runs just this program of a larger grid.
        memory: ``False`` leaves memory alone: a store does nothing, and a load yields zeros, or ``other``. Then a
            kernel can be told of more elements than there are, to see where its offsets go.

    >>> x, out = torch.arange(5.0), torch.zeros(5)
    >>> with recorded_accesses() as accesses:
    ...     _ = scale_kernel[(2,)](x, out, 3.0, 5, BLOCK=4)
    >>> [(op, ((addresses - x.data_ptr()) // 4).tolist()) for op, addresses in accesses if op == "load"]
    [('load', [0, 1, 2, 3]), ('load', [4])]
    """
    from triton.runtime.interpreter import interpreter_builder as builder

    accesses = []
    load, store, set_grid_idx = builder.create_masked_load, builder.create_masked_store, builder.set_grid_idx

    def note(op, pointers, mask):
        on = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        accesses.append((op, pointers.data[on].astype(np.int64).ravel()))

    def noting_load(pointers, mask, *rest, **kwargs):  # an unmasked load arrives here too
        note("load", pointers, mask)
        if not memory:
            mask = type(mask)(np.zeros_like(mask.data), mask.dtype)
        return load(pointers, mask, *rest, **kwargs)

    def noting_store(pointers, value, mask, *rest, **kwargs):
        note("store", pointers, mask)
        return store(pointers, value, mask, *rest, **kwargs) if memory else None

    def set_shifted_grid_idx(*position):
        set_grid_idx(*position)
        builder.grid_idx = tuple(first + i for first, i in zip(first_program, position, strict=True))

    with mock.patch.multiple(
        builder, create_masked_load=noting_load, create_masked_store=noting_store, set_grid_idx=set_shifted_grid_idx
    ):
        yield accesses


def addresses_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the address of each element in bytes, in the order of the indices; any strides will do."""
    offsets = np.zeros(tensor.shape, np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        offsets += (stride * np.arange(size)).reshape([-1 if i == axis else 1 for i in range(tensor.ndim)])
    return (tensor.data_ptr() + tensor.itemsize * offsets).ravel()


def check_inside(accesses, op, **tensors):
    """Assert that each ``op`` touched elements of the tensors and nothing else, and return their addresses."""
    actual = [addresses for kind, addresses in accesses if kind == op]
    actual = np.concatenate([np.empty(0, np.int64), *actual])
    strays = np.setdiff1d(actual, np.concatenate([addresses_of(tensor) for tensor in tensors.values()]))
    if strays.size:
        near = min(tensors, key=lambda name: abs(int(strays[0]) - tensors[name].data_ptr()))
        element = (int(strays[0]) - tensors[near].data_ptr()) / tensors[near].itemsize
        raise AssertionError(
            f"{strays.size} {op}s outside of {', '.join(tensors)}: "
            f"one at element {element:g} of {near}, which has {tensors[near].numel()}"
        )
    return actual


def check_each_once(accesses, op, **tensors):
    """Assert that ``op`` touched each element of the tensors once, and nothing else."""
    actual = np.sort(check_inside(accesses, op, **tensors))
    missed = [name for name, tensor in tensors.items() if np.setdiff1d(addresses_of(tensor), actual).size]
    if missed:
        raise AssertionError(f"elements of {', '.join(missed)} that no {op} touched")
    if actual.size > sum(tensor.numel() for tensor in tensors.values()):
        raise AssertionError(f"elements of {', '.join(tensors)} that more than one {op} touched")
# --8<-- [end:accesses]


# --8<-- [start:values]
def check_same_bits(actual: torch.Tensor, expected: torch.Tensor):
    """Assert that shape, dtype, device and every bit are the same; any NaN is as good as any other.

    >>> check_same_bits(torch.tensor([1.0, 0.1 + 0.2]), torch.tensor([1.0, 0.3]))
    >>> check_same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    Traceback (most recent call last):
    AssertionError: 1 of 1 elements are wrong; element 0 is 0.0, should be -0.0
    """
    for attribute in ("shape", "dtype", "device"):
        a, e = getattr(actual, attribute), getattr(expected, attribute)
        if a != e:
            raise AssertionError(f"{attribute} is {a}, should be {e}")
    a, e = actual.flatten(), expected.flatten()
    wrong = a.view(INTEGERS[a.itemsize]) != e.view(INTEGERS[e.itemsize])
    if a.is_floating_point():
        wrong &= ~(a.isnan() & e.isnan())
    where = wrong.nonzero().flatten().tolist()
    if where:
        i = where[0]
        raise AssertionError(f"{len(where)} of {a.numel()} elements are wrong; element {i} is {a[i]}, should be {e[i]}")


def sum_tolerance(terms: torch.Tensor, additions: int, dtype: torch.dtype | None = None) -> float:
    """Return how far off the sum of ``terms`` may be when it is added up in ``dtype`` (default: that of the terms).

    Each addition rounds, by half of the dtype's eps at most. ``additions`` is how many of them the unluckiest term goes
    through: for n terms one after the other n - 1, for a tree about log2(n). The bound holds for every order
    with no more than that, whatever the signs; a sound kernel never exceeds it.

    >>> x = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    >>> error = abs(x.sum().item() - x.double().sum().item())
    >>> error <= sum_tolerance(x, additions=999)
    True
    """
    rounding = additions * torch.finfo(dtype or terms.dtype).eps / 2
    if rounding >= 1:
        raise ValueError(f"{additions} additions in {dtype or terms.dtype} may round everything away")
    return rounding / (1 - rounding) * terms.double().abs().sum().item()
# --8<-- [end:values]


# The demonstration: a kernel, the checks that it passes, and the same for a sum. The wrong ones are in testing_bug.py.

FACTOR, BLOCK = 3.0, 4


# --8<-- [start:scale]
@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor * x, mask=mask)
# --8<-- [end:scale]


# --8<-- [start:run]
def run(kernel, n, device, fill):
    """Scale 1, 2, … n; all bytes but those of the input hold ``fill``."""
    zones = {"before": 2 * BLOCK, "after": 2 * BLOCK, "fill": fill}
    x = Guarded.around(torch.arange(1.0, n + 1, device=device), **zones)
    out = Guarded((n,), torch.float32, device, **zones)
    if n:
        grid = (triton.cdiv(n, BLOCK),)
        kernel[grid](x.tensor, out.tensor, FACTOR, n, BLOCK=BLOCK)
    return x, out
# --8<-- [end:run]


# --8<-- [start:checks]
def round_size(kernel, device):
    x, out = run(kernel, 4 * BLOCK, device, fill=0x00)
    assert torch.allclose(out.tensor, FACTOR * x.tensor)


def ragged(kernel, device):
    for n in ragged_sizes(BLOCK):
        x, out = run(kernel, n, device, fill=0x00)
        assert torch.allclose(out.tensor, FACTOR * x.tensor)


def guard_zones(kernel, device):
    for n in ragged_sizes(BLOCK):
        x, out = run(kernel, n, device, fill=0x5A)
        x.check("x"), out.check("out")


def poisoned_output(kernel, device):
    for n in ragged_sizes(BLOCK):
        x, out = run(kernel, n, device, fill=0xFF)  # NaN, which is close to nothing
        assert torch.allclose(out.tensor, FACTOR * x.tensor)


def accesses(kernel, device):
    for n in ragged_sizes(BLOCK):
        with recorded_accesses() as seen:
            x, out = run(kernel, n, device, fill=0x00)
        check_each_once(seen, "load", x=x.tensor)
        check_each_once(seen, "store", out=out.tensor)


# --8<-- [start:far]
def far_program(kernel, device):
    x, out = torch.zeros(2, 1, device=device)  # nothing will touch them
    first = 2**31 // BLOCK
    with recorded_accesses(first_program=(first, 0, 0), memory=False) as seen:
        kernel[(1,)](x, out, FACTOR, 2**31 + 3, BLOCK=BLOCK)
    for op, tensor in (("load", x), ("store", out)):
        found = np.concatenate([at for kind, at in seen if kind == op])
        offsets = (found - tensor.data_ptr()) // tensor.itemsize
        assert offsets.tolist() == [2**31, 2**31 + 1, 2**31 + 2]
# --8<-- [end:far]


CHECKS = {
    "round": round_size,
    "ragged": ragged,
    "guards": guard_zones,
    "poison": poisoned_output,
    "accesses": accesses,
    "far": far_program,
}
IN_THE_INTERPRETER = ("accesses", "far")
# --8<-- [end:checks]


def caught_by(kernel, device: str) -> dict[str, bool | None]:
    """Return for each check whether it finds something wrong with ``kernel``; None where it cannot run."""

    def finds(check):
        try:
            check(kernel, device)
        except AssertionError:
            return True
        return False

    runs = {name: device == "cpu" or name not in IN_THE_INTERPRETER for name in CHECKS}
    return {name: finds(check) if runs[name] else None for name, check in CHECKS.items()}


# --8<-- [start:sum]
@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), dtype=x_ptr.dtype.element_ty)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(out_ptr, tl.sum(sums))
# --8<-- [end:sum]


def total(kernel, x: torch.Tensor, block: int) -> float:
    """Add up a contiguous floating-point tensor in its own dtype, by one program of ``kernel``.

    >>> total(sum_kernel, torch.tensor([1.0, 2.0, 4.0]), block=2)
    7.0
    """
    if not x.is_contiguous() or not x.is_floating_point() or x.numel() >= 2**31:
        raise ValueError(
            "total takes a contiguous floating-point tensor of fewer than 2**31 elements; "
            f"got {x.numel()} of {x.dtype} with strides {x.stride()}"
        )
    out = torch.full((), math.nan, dtype=x.dtype, device=x.device)
    kernel[(1,)](x, out, x.numel(), BLOCK=block)
    return out.item()


def additions(n: int, block: int) -> int:
    """Return how many additions a term goes through in :func:`sum_kernel`: in its lane, then between lanes."""
    return triton.cdiv(n, block) + block - 1


# --8<-- [start:terms]
def terms(kind: str, n: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return ``n`` numbers to add: between 0 and 1; as large as 1,000 and their opposites; or small whole numbers."""
    random = torch.Generator().manual_seed(0)
    if kind == "whole numbers":  # no sum of these is rounded, in whatever order
        return torch.randint(1, 4, (n,), generator=random).to(device, dtype)
    x = torch.rand(n, generator=random)
    if kind == "canceling":  # the exact sum of an even number of them is zero
        x[1::2] = -x[: n - 1 : 2]
        x = 1000 * x[torch.randperm(n, generator=random)]
    return x.to(device, dtype)
# --8<-- [end:terms]


# --8<-- [start:verdicts]
def verdicts(kernel, kind: str, n: int, device: str, block: int = 1024) -> dict[str, bool]:
    """Return which of three comparisons accept the sum that ``kernel`` computes of float32 numbers."""
    x = terms(kind, n, torch.float32, device)
    actual, exact = total(kernel, x, block), x.double().sum().item()
    whole = terms("whole numbers", n, torch.float32, device)

    def close():
        try:
            torch.testing.assert_close(torch.tensor(actual), torch.tensor(exact).float())
        except AssertionError:
            return False
        return True

    return {
        "assert_close": close(),
        "sum_tolerance": abs(actual - exact) <= sum_tolerance(x, additions(n, block)),
        "whole numbers": total(kernel, whole, block) == whole.double().sum().item(),
    }
# --8<-- [end:verdicts]


def main():
    device = "cuda" if isinstance(scale_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print(f"sizes to try with blocks of {BLOCK}")
    for n, why in ragged_sizes(BLOCK).items():
        print(f"{n:4}: {why}")

    print("error of a sum of 16,384 numbers between 0 and 1, as a share of the sum")
    for dtype in (torch.float16, torch.float32):
        x = terms("between 0 and 1", 2**14, dtype, device)
        exact, steps, half_eps = x.double().sum().item(), additions(2**14, 16), torch.finfo(dtype).eps / 2
        name = str(dtype).removeprefix("torch.")
        print(f"  {name}, measured: {abs(total(sum_kernel, x, 16) - exact) / exact:.1e}")
        print(f"  {name}, if roundings were random: {half_eps * math.sqrt(steps):.1e}")
        print(f"  {name}, at most: {sum_tolerance(x, steps) / exact:.1e}")


if __name__ == "__main__":
    main()
