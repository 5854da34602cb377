# SPDX-License-Identifier: Apache-2.0
"""Explain values: a known wrong result, a sum that is rounded, an element that nobody read."""

from math import isfinite
from statistics import median_low

from .. import draw, source
from ..case import gradient_like, reference
from ..launch import index_of, is_tensor, numbers


def known_result(run, name, at, got, want, owner, missed):
    actual = run.results[name]
    given = [v.detach() if is_tensor(v := run.inputs[p]) else v for p in run.spec.signature]
    known = run.spec.mistaken if name == "out" else {}
    if run.spec.gradients and name == f"grad of {run.spec.gradients[0]}":
        known, given = run.spec.mistaken_gradient, [gradient_like(run.expected["out"].detach()), *given]
    for message, mistaken in known.items() if run.patient else ():
        try:
            other = mistaken(*given)
            closer = alike(actual, other, 1e-3, 1e-5) and not abs(other[at].item() - got) >= abs(want - got)
            if closer:  # than what is right
                return message
        except (RuntimeError, IndexError, ValueError, TypeError, AttributeError):
            continue  # not for these shapes
    return None


def alike(actual, other, rtol: float, atol: float) -> bool:
    """Return whether two tensors have the same shape and, nearly, the same numbers."""
    if tuple(actual.shape) != tuple(other.shape):
        return False
    pairs = zip(numbers(actual), numbers(other), strict=True)
    return all(a == b or (a != a and b != b) or abs(a - b) <= atol + rtol * abs(b) for a, b in pairs)


def rounded_sum(run, name, at, got, want, owner, missed):
    actual, expected = run.results[name], run.expected[name]
    narrow = str(expected.dtype).removeprefix("torch.")
    if narrow not in ("float16", "bfloat16") or missed:
        return None
    sizes = [abs(value) for value in numbers(expected)]
    errors = [abs(a - e) for a, e in zip(numbers(actual), numbers(expected), strict=True)]
    relative = [error / max(size, 1e-3) for error, size in zip(errors, sizes, strict=True)]
    near = all(map(isfinite, relative)) and median_low(relative) < 0.05 and max(errors) < 0.02 * max(sizes)
    for launch in run.launches if near else ():
        sums = source.sums(run.file, launch.kernel, launch.given)
        for total, dtype, parameter, line, rounded in sums:
            if dtype == "float32" and rounded:
                return f"The sum is kept in tl.float32, but line {rounded} rounds what is added to it, in every step."
            if dtype == narrow and not rounded and parameter:
                passes = f"line {launch.line} passes tl.{narrow} as {parameter}"
                return f"`{total}` adds up in tl.{narrow}, because {passes}. Would tl.float32 be better?"
            if dtype == narrow and not rounded:
                return f"`{total}` adds up in tl.{narrow}, which line {line} chose. Would tl.float32 be better?"
        if sums and source.narrow(run.file, launch.kernel, launch.given, narrow):
            return (
                f"Close, but not close enough. It looks as if the sum is kept in tl.{narrow}. Would "
                f"tl.float32 be better?"
            )
    if near and by_steps(run, actual):
        return (
            f"Close, but not close enough. A sum rounded to tl.{narrow} in each step gives exactly these numbers: "
            "does something in the loop have that dtype?"
        )
    return None


def by_steps(run, actual) -> bool:
    """Return whether the result is a product of the two inputs that is rounded to its dtype in each step along K."""
    import torch

    given = [value for value in run.inputs.values() if is_tensor(value)]
    if (
        len(given) != 2
        or any(m.ndim != 2 or m.dtype != actual.dtype for m in given)
        or len(given[0].T) != len(given[1])
    ):
        return False
    a, b = (m.detach().double() for m in given)
    for step in (8, 16, 32, 64, 128):
        for kept in (torch.float32, actual.dtype):
            total = torch.zeros(len(a), b.shape[1], dtype=kept)
            for start in range(0, a.shape[1], step):
                total = total + (a[:, start : start + step] @ b[start : start + step]).to(actual.dtype)
            if torch.equal(total.to(actual.dtype), actual):
                return True
    return False


def multiplied_as_tf32(run, name, at, got, want, owner, missed):
    if line := run.tf32:
        return (
            f"A GPU multiplies float32 as TF32, with 10 bits after the point, and so does line {line}. With "
            '`tl.dot(…, input_precision="ieee")`, all 23 count.'
        )
    return None


TRIES = 16  # elements that are changed, to see whether the result depends on them


def unread_element(run, name, at, got, want, owner, missed):
    """Explain an element that no program loads, and on which the result depends."""
    loads = [access for launch in run.launches for access in launch.accesses if access.op == "load"]
    for given, value in run.inputs.items() if not missed else ():
        if not is_tensor(value) or not value.is_floating_point() or run.expected is None:
            continue
        region = run.region_of(value)
        unread = [number for number, count in enumerate(region.reads()) if not count]
        for number in unread[:: max(1, len(unread) // TRIES)][:TRIES]:
            place = index_of(number, value.shape)
            if not depends(run, given, place):
                continue
            mine = [access for access in loads if access.region is region]
            mine = [access for access in mine if owner is not None and access.program == owner.program] or mine
            what = f"{draw.name_of(mine[0]) if mine else given}[{', '.join(map(str, place))}]"
            verb = "is not" if len(unread) == 1 else "are not"
            message = f"No program reads {what} ({len(unread)} of {value.numel()} elements {verb} read)."
            return (f"{message} Which offsets does the load on line {mine[0].line} have?", mine[0]) if mine else message
    return None


def depends(run, given: str, place: tuple[int, ...]) -> bool:
    """Return whether the right result changes with this element of an input."""
    changed = {k: v.detach().clone() if is_tensor(v) else v for k, v in run.inputs.items()}
    changed[given][place] += 1
    try:
        other = reference(run.spec, changed)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return any(not alike(e, other[k], 1e-4, 1e-6) for k, e in run.expected.items())
