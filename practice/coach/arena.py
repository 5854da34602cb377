# SPDX-License-Identifier: Apache-2.0
"""Give tensors memory with guard zones, and know which element an address is.

Every tensor that the reader's code is given or allocates lies here, in a buffer of its own with guard zones before and
behind it, all filled with one byte: 0x00, as fresh memory often is, or 0xFF, a NaN of each floating-point type.
"""

import numpy as np
import torch

GUARD = 1 << 16  # bytes on either side


class Region:
    """One tensor in its buffer, and what kernels did to its elements, as ``launch.Region`` says."""

    def __init__(self, tensor: torch.Tensor, fill: int, name: str, given: bool):
        size = tensor.itemsize
        extents = [(n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        self.span = 1 + sum(extents) if tensor.numel() else 0
        self.buffer = torch.full((2 * GUARD + self.span * size,), fill, dtype=torch.uint8)
        inner = self.buffer[GUARD : GUARD + self.span * size].view(tensor.dtype)
        self.tensor = inner.as_strided(tensor.shape, tensor.stride(), inner.storage_offset())
        self.name, self.given, self.size = name, given, size
        self.base = self.buffer.data_ptr() + GUARD
        # By offset: the flat index of the element, or -1 between elements.
        self.index = np.full(self.span, -1, np.int64)
        offsets = np.zeros(tensor.shape, np.int64)
        for axis, (n, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            offsets += (stride * np.arange(n)).reshape([-1 if i == axis else 1 for i in range(tensor.ndim)])
        self.index[offsets.ravel()] = np.arange(offsets.size)
        self.covered = np.zeros(self.span, bool)  # whether a kernel stored it
        self.read = np.zeros(self.span, np.int64)  # how often
        self.shadow = np.zeros(self.span * size, np.uint8).reshape(self.span, size)  # what kernels stored last
        self.new_launch()

    def new_launch(self):
        """Forget who touched what: an order holds between launches, but not between programs."""
        self.stored_by = np.full(self.span, -1, np.int64)
        self.read_by = np.full(self.span, -1, np.int64)
        self.stored_at = np.full((2, self.span), -1, np.int64)  # by which lane of which shape, after which barrier
        self.read_at = np.full((2, self.span), -1, np.int64)  # the same; the lane is -2 where several loaded it

    def offsets(self, addresses: np.ndarray) -> np.ndarray:
        return (addresses.astype(np.int64) - self.base) // self.size

    def holds(self, offsets: np.ndarray) -> np.ndarray:
        """Return which offsets are elements of the tensor."""
        near = (offsets >= 0) & (offsets < self.span)
        return near & (self.index[np.where(near, offsets, 0)] >= 0) if self.span else near

    def mapped(self, addresses: np.ndarray) -> np.ndarray:
        """Return which addresses lie in the buffer, guard zones included, so that touching them does no harm."""
        inside = addresses.astype(np.int64) - self.buffer.data_ptr()
        return (inside >= 0) & (inside <= len(self.buffer) - self.size)

    def element(self, offset: int) -> int:
        return int(self.index[offset])

    def storer(self, offset: int) -> int:
        return int(self.stored_by[offset])

    def stored(self) -> bool:
        return bool(self.covered.any())

    def missed(self) -> list[int]:
        return np.flatnonzero(~self.covered & (self.index >= 0)).tolist()

    def reads(self) -> list[int]:
        there = self.index >= 0
        return self.read[there][np.argsort(self.index[there])].tolist()

    def altered(self, offsets: list[int]) -> bool:
        done = np.array(offsets, np.int64)[self.covered[offsets]]
        return bool((self.memory()[done] != self.shadow[done]).any())

    def memory(self) -> np.ndarray:
        """Return the bytes, a row an element."""
        return self.buffer.numpy()[GUARD : GUARD + self.span * self.size].reshape(self.span, self.size)


class Arena:
    def __init__(self, fill: int = 0):
        self.fill = fill
        self.regions: list[Region] = []

    @property
    def poisoned(self) -> bool:
        return self.fill != 0

    def place(self, tensor: torch.Tensor, name: str, given: bool = False, copy: bool = True) -> torch.Tensor:
        """Return a tensor with the same shape, strides and (if ``copy``) values, in a buffer of its own."""
        region = Region(tensor, 0 if tensor.dtype == torch.bool else self.fill, name, given)
        if copy:
            region.tensor.copy_(tensor)
        self.regions.append(region)
        return region.tensor

    def region_of(self, tensor: torch.Tensor) -> Region | None:
        storage = tensor.untyped_storage().data_ptr()
        return next((r for r in self.regions if r.buffer.untyped_storage().data_ptr() == storage), None)

    def aimed_at(self, addresses: np.ndarray, on: np.ndarray) -> Region | None:
        """Return the region that most lanes point into; of several, the nearest to the first lane."""
        first = int(addresses.flat[0])

        def merit(region):
            return int((region.mapped(addresses) & on).sum()), -abs(first - region.base)

        return max(self.regions, key=merit, default=None)
