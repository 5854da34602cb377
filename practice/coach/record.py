# SPDX-License-Identifier: Apache-2.0
"""Record a call in Triton's interpreter: its launches, every access of every program, and its calls of torch.

An access outside of the tensor that it aims at is noted, not made: a wrong pointer must not end the process.
"""

import contextlib
import functools
import inspect
import sys
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .arena import Arena
from .case import POISON
from .launch import Access, Launch, Trouble

MAKES = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
FILLS = {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"}
HARMLESS = {"zero_", "fill_", "detach", "alias", "lift_fresh", "_local_scalar_dense", "set_", "is_same_size"}
ON_A_DEVICE = {torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full, torch.tensor, torch.arange}
TF32 = 0xFFFFE000  # the bits of a float32 that a GPU's matrix units keep of it


@contextlib.contextmanager
def configs_in_turn():
    """Autotune without a GPU to measure on: the first call takes the first config, each later one the next."""
    from triton.runtime.autotuner import Autotuner

    def run(tuned, *args, **kwargs):
        tuned.turn = getattr(tuned, "turn", -1) + 1
        config = tuned.configs[tuned.turn % len(tuned.configs)].all_kwargs()
        if both := sorted(config.keys() & kwargs.keys()):
            raise ValueError(f"Conflicting meta-parameters: {', '.join(both)}")  # as the tuner says it
        return tuned.fn.run(*args, **kwargs, **config)

    with mock.patch.object(Autotuner, "run", run):
        yield


class Recorder:
    """Collect what the code of ``file`` does with an arena, between :meth:`__enter__` and :meth:`__exit__`."""

    def __init__(self, arena: Arena, file: str, torch_ops: tuple[str, ...] = (), writes: tuple[str, ...] = ()):
        self.arena, self.file = arena, file
        self.torch_ops, self.writes = torch_ops, writes
        self.launches: list[Launch] = []
        self.troubles: list[Trouble] = []
        self.ops: list[tuple[str, int]] = []  # what torch computed, and in which line
        self.without_device: dict[int, int] = {}  # by a storage's address, the line that allocates it so
        self.elsewhere: list[tuple[str, int]] = []  # parameters of kernels that were given such a tensor, and its line
        self.tf32 = 0  # the first line in which `tl.dot` rounds float32 as a GPU does
        self.ours, self.masked = False, True
        self.barriers, self.shapes = 0, {}  # how many barriers were passed; a number for each shape of a block

    def __enter__(self):
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.interpreter import interpreter_builder as builder

        self.builder = builder
        self.undo = contextlib.ExitStack()
        around = {
            "create_load": self._unmasked, "create_masked_load": self._load,
            "create_store": self._unmasked, "create_masked_store": self._store,
            "create_atomic_rmw": self._rmw, "create_atomic_cas": self._cas, "create_barrier": self._barrier,
            "create_dot": self._dot,
        }  # fmt: skip
        for name, function in around.items():
            wrapped = functools.partial(function, getattr(builder, name))
            self.undo.enter_context(mock.patch.object(builder, name, wrapped))
        run = InterpretedFunction.run
        launch = lambda kernel, *args, **kwargs: self._launch(run, kernel, *args, **kwargs)
        self.undo.enter_context(mock.patch.object(InterpretedFunction, "run", launch))
        self.undo.enter_context(np.errstate(all="ignore"))  # the reader's own numbers may overflow: the values say so
        self.undo.enter_context(configs_in_turn())
        self.undo.enter_context(_Torch(self))
        self.undo.enter_context(_Devices(self))
        return self

    def __exit__(self, *error):
        self.undo.close()

    # Launches

    def _launch(self, run, kernel, *args, grid, warmup, **kwargs):
        parameters = inspect.signature(kernel.fn).parameters
        names, given = {}, {}
        with contextlib.suppress(TypeError):  # wrong arguments: Triton says so in a moment
            given = inspect.signature(kernel.fn).bind_partial(
                *args, **{name: value for name, value in kwargs.items() if name in parameters}
            )
            given.apply_defaults()
            given = dict(given.arguments)
        for name, value in given.items():
            value = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
            if isinstance(value, torch.Tensor) and (region := self.arena.region_of(value)):
                names[id(region)] = name
                if line := self.without_device.get(value.untyped_storage().data_ptr()):
                    self.elsewhere.append((name, line))
        size = grid(given) if callable(grid) else grid
        size = (size,) if isinstance(size, int) else tuple(int(n) for n in size)
        plain = {name: value for name, value in given.items() if name not in names.values()}
        of_file = kernel.fn.__globals__
        constants = {name: of_file[name] for name in plain if isinstance(of_file.get(name), int | float)}
        launch = Launch(kernel.fn.__name__, (*size, 1, 1)[:3], names, plain, constants, self.line())
        self.launches.append(launch)
        for region in self.arena.regions:
            region.new_launch()
        with self.aside():
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

    @contextlib.contextmanager
    def aside(self):
        """Do not count calls of torch within this context: they are not the reader's."""
        before, self.ours = self.ours, True
        try:
            yield
        finally:
            self.ours = before

    # Accesses

    def line(self) -> int:
        """Return the line of the reader's file that is running, or 0."""
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return frame.f_lineno if frame else 0

    def _note(self, op, pointers, mask, other, adds=False) -> Access | None:
        addresses = pointers.data.ravel()
        on = np.broadcast_to(mask.data, pointers.data.shape).astype(bool).ravel()
        region = self.arena.aimed_at(addresses, on)
        if region is None:
            return None
        x, y, z = self.builder.grid_idx
        launch = self.launches[-1]
        program = x + launch.grid[0] * (y + launch.grid[1] * z)
        offsets = region.offsets(addresses)
        inside, shape = region.holds(offsets), pointers.data.shape
        access = Access(
            launch, program, op, region, offsets.data, on.data, inside.data, shape, self.line(), masked=self.masked,
            other=other, adds=adds,
        )  # fmt: skip
        launch.accesses.append(access)
        if (strays := np.flatnonzero(on & ~inside)).size:
            self.troubles.append(Trouble("outside", access, int(strays[0])))
        lanes = np.flatnonzero(on & inside)
        self._judge(access, lanes, offsets[lanes])
        return access

    def _judge(self, access: Access, lanes: np.ndarray, offsets: np.ndarray):
        region, op, me = access.region, access.op, access.program
        if op == "load":
            np.add.at(region.read, offsets, 1)
            self._others("race", access, lanes, region.stored_by[offsets], me)
            self._unordered(access, lanes, region.stored_by[offsets], region.stored_at[:, offsets])
            self._remember_readers(access, lanes, offsets)
            seen = region.read_by[offsets]
            region.read_by[offsets] = np.where((seen == -1) | (seen == me), me, -2)
            return
        if region.given and region.name not in self.writes and lanes.size:
            self.troubles.append(Trouble("input", access, int(lanes[0])))
        if op == "store":
            self._others("race", access, lanes, region.read_by[offsets], me)
            self._unordered(access, lanes, region.read_by[offsets], region.read_at[:, offsets])
            before = region.stored_by[offsets]
            if (again := np.flatnonzero(before != -1)).size:
                self.troubles.append(Trouble("twice", access, int(lanes[again[0]]), int(before[again[0]])))
            elif np.unique(offsets).size < offsets.size:
                first = set()
                lane = next(lane for lane, at in zip(lanes, offsets, strict=True) if at in first or first.add(at))
                self.troubles.append(Trouble("twice", access, int(lane), me))
            region.stored_by[offsets] = me
            region.stored_at[0, offsets], region.stored_at[1, offsets] = self._places(access, lanes), self.barriers
        region.covered[offsets] = True

    def _places(self, access: Access, lanes: np.ndarray) -> np.ndarray:
        """Return a number for each lane of a block; blocks of other shapes lie in threads in another way."""
        return lanes + (self.shapes.setdefault(access.shape, len(self.shapes)) << 32)

    def _unordered(self, access: Access, lanes: np.ndarray, programs: np.ndarray, at: np.ndarray):
        """Note a lane that comes to an element to which another lane of its program came since the last barrier."""
        lane, barrier = at
        late = (programs == access.program) & (barrier == self.barriers) & (lane != self._places(access, lanes))
        if late.any():
            self.troubles.append(Trouble("unordered", access, int(lanes[np.flatnonzero(late)[0]]), access.program))

    def _remember_readers(self, access: Access, lanes: np.ndarray, offsets: np.ndarray):
        region, places = access.region, self._places(access, lanes)
        lane, barrier = region.read_at[:, offsets]
        again = (region.read_by[offsets] == access.program) & (barrier == self.barriers) & (lane != places)
        region.read_at[0, offsets], region.read_at[1, offsets] = np.where(again, -2, places), self.barriers
        one, several = np.unique(offsets, return_counts=True)
        region.read_at[0, one[several > 1]] = -2

    def _dot(self, dot, a, b, accumulator, precision, *rest):
        """A product as on a GPU: of float32, unless it asks for more, only TF32's digits are multiplied."""
        if getattr(precision, "name", "") == "TF32" and a.data.dtype == b.data.dtype == np.float32:
            self.tf32 = self.tf32 or self.line()
            a, b = (type(x)((x.data.view(np.uint32) & np.uint32(TF32)).view(np.float32), x.dtype) for x in (a, b))
        return dot(a, b, accumulator, precision, *rest)

    def _barrier(self, barrier):
        self.barriers += 1
        return barrier()

    def _others(self, kind, access, lanes, owners, me):
        if (others := np.flatnonzero((owners != -1) & (owners != me))).size:
            other = int(owners[others[0]])
            self.troubles.append(Trouble(kind, access, int(lanes[others[0]]), other if other >= 0 else None))

    def _safe(self, access, pointers, mask):
        """Return the mask without the lanes that would touch memory outside of the arena."""
        on = np.zeros(pointers.data.size, bool)
        if access:
            on = np.asarray(access.mask) & access.region.mapped(pointers.data.ravel())
        on = on.reshape(pointers.data.shape)
        return on if isinstance(mask, np.ndarray) else type(mask)(on, mask.dtype)  # a descriptor's is an array

    def _unmasked(self, access, *args, **kwargs):
        """Wrap a load or store without a mask, which the interpreter passes on as one with a mask of ones."""
        self.masked = False
        try:
            return access(*args, **kwargs)
        finally:
            self.masked = True

    def _load(self, load, pointers, mask, other, *rest, **kwargs):
        access = self._note("load", pointers, mask, other is not None)
        loaded = load(pointers, self._safe(access, pointers, mask), other, *rest, **kwargs)
        if other is None and self.arena.poisoned and access:  # what such a lane holds is undefined
            off = ~np.asarray(access.mask).reshape(pointers.data.shape)
            loaded.data[off] = np.resize(_undefined(loaded), int(off.sum()))
        return loaded

    def _store(self, store, pointers, value, mask, *rest, **kwargs):
        access = self._note("store", pointers, mask, False)
        done = store(pointers, value, self._safe(access, pointers, mask), *rest, **kwargs)
        self._remember(access)
        return done

    def _rmw(self, rmw, kind, pointers, value, mask, *rest):
        access = self._note("atomic", pointers, mask, False, adds=kind.name in ("ADD", "FADD"))
        done = rmw(kind, pointers, value, self._safe(access, pointers, mask), *rest)
        self._remember(access)
        return done

    def _cas(self, cas, pointers, *rest):
        mask = type(pointers)(np.ones(pointers.data.shape, bool), _boolean())
        access = self._note("atomic", pointers, mask, False)
        if not access or not all(access.inside):
            raise IndexError("an atomic compare-and-swap outside of every tensor")
        done = cas(pointers, *rest)
        self._remember(access)
        return done

    def _remember(self, access: Access | None):
        """Keep what the kernel left in memory, to see whether somebody changes it afterwards."""
        if access:
            offsets = np.asarray(access.offsets)[np.asarray(access.mask) & np.asarray(access.inside)]
            access.region.shadow[offsets] = access.region.memory()[offsets]


def _undefined(loaded) -> np.ndarray:
    """Return a value for undefined lanes. NaN alone would not do: the interpreter's maximum and minimum drop it."""
    dtype = loaded.data.dtype
    if loaded.dtype.scalar.name == "bf16":  # which the interpreter keeps as integers
        return np.array([0x7F00, 0xFF00, 0xFFFF], dtype)  # large, small, NaN
    if dtype.kind == "f":
        return np.array([np.finfo(dtype).max / 4, -np.finfo(dtype).max / 4, np.nan], dtype)
    if dtype.kind in "iu" and loaded.dtype.scalar.is_int():
        return np.array([np.iinfo(dtype).max // 4, np.iinfo(dtype).min // 4], dtype)
    return np.full(1, POISON, np.uint8).repeat(dtype.itemsize).view(dtype)


def _boolean():
    import triton.language as tl

    return tl.int1


class _Devices(TorchFunctionMode):
    """Notes what the reader's code allocates without ``device=``: on a GPU, it lies in the CPU's memory."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if isinstance(out, torch.Tensor) and not self.recorder.ours:
            storage, known = out.untyped_storage().data_ptr(), self.recorder.without_device
            if func in ON_A_DEVICE and kwargs.get("device") is None:
                known[storage] = self.recorder.line()
            elif func is torch.Tensor.to and any(not isinstance(a, torch.dtype) for a in [*args[1:], *kwargs.values()]):
                known.pop(storage, None)  # it is moved
        return out


class _Torch(TorchDispatchMode):
    """Put what the reader's code allocates into the arena, and note what it has torch compute."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler at the first call, which takes a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if self.recorder.ours:
            return out
        name, arena = func.overloadpacket.__name__, self.recorder.arena
        if name in MAKES | FILLS:
            return arena.place(out, "the result", copy=name in FILLS) if isinstance(out, torch.Tensor) else out
        writes = any(alias.alias_info and alias.alias_info.is_write for alias in func._schema.arguments)
        views = bool(func._schema.returns) and all(r.alias_info is not None for r in func._schema.returns)
        if name not in HARMLESS | {*self.recorder.torch_ops} and (writes or not views):
            self.recorder.ops.append((name, self.recorder.line()))
        if isinstance(out, torch.Tensor) and not writes and not views and out.numel():
            return arena.place(out, "what torch made")
        return out
