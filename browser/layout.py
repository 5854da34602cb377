# SPDX-License-Identifier: Apache-2.0
"""Say where the elements of a shape lie: strides, flat indices, broadcasting. For blocks and for tensors alike."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter

Shape = tuple[int, ...]


def strides_of(shape: Shape) -> Shape:
    """Return the strides of a contiguous array.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=512)
def indices(shape: Shape, strides: Shape, start: int = 0) -> list[int]:
    """Return the flat index of each element, in the order of a contiguous array.

    >>> indices((2, 3), (1, 2))
    [0, 2, 4, 1, 3, 5]
    """
    if math.prod(shape) == 0:
        return []
    flat = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else [0] * size
        flat = [base + step for base in flat for step in steps]
    return flat


@lru_cache(maxsize=512)
def picker(shape: Shape, strides: Shape, start: int = 0) -> Callable[[Sequence], list]:
    """Return a function that takes those elements out of a sequence."""
    wanted = indices(shape, strides, start)
    if len(wanted) < 2:
        return lambda data: [data[i] for i in wanted]
    get = itemgetter(*wanted)
    return lambda data: list(get(data))


def broadcast_strides(shape: Shape, strides: Shape, into: Shape) -> Shape:
    """Return the strides with which an array has another shape: 0 where one element stands for many."""
    missing = len(into) - len(shape)
    return (0,) * missing + tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))


def spread(data: list, shape: Shape, into: Shape) -> list:
    """Return contiguous data, broadcast."""
    if shape == into:
        return data
    if len(data) == 1:
        return data * math.prod(into)
    return picker(into, broadcast_strides(shape, strides_of(shape), into))(data)


def permuted(data: list, shape: Shape, order: Sequence[int]) -> list:
    strides = strides_of(shape)
    return picker(tuple(shape[i] for i in order), tuple(strides[i] for i in order))(data)


def lines(data: list, shape: Shape, axis: int) -> list[list]:
    """Return the elements along an axis, a list for each place on the other axes, in their order.

    >>> lines([0, 1, 2, 3, 4, 5], (2, 3), 0)
    [[0, 3], [1, 4], [2, 5]]
    """
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    if not data:
        return [[] for _ in range(math.prod(shape[:axis]) * inner)]
    if inner == 1:
        return [data[i : i + size] for i in range(0, len(data), size)]
    block = size * inner
    return [data[i + j : i + block : inner] for i in range(0, len(data), block) for j in range(inner)]


def from_lines(parts: list[list], shape: Shape, axis: int) -> list:
    """Return what ``lines`` took apart, where each line may have another length by now."""
    inner = math.prod(shape[axis + 1 :]) or 1
    groups = (parts[i : i + inner] for i in range(0, len(parts), inner))
    return [value for group in groups for across in zip(*group, strict=True) for value in across]
