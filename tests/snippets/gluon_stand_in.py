# SPDX-License-Identifier: Apache-2.0
"""Gluon's functions on a CPU, as far as the attention of this course needs them: each part of a program is a thread.

Nobody promises when a tile arrives, or when a product reads its operands, so both may happen at the worst moment. With
``late`` False a tile arrives at once, over whatever lies there; with True not before somebody waits for it, until when
its buffer holds NaN. A product always reads its operands when it is waited for. A part that waits for ever is a failure.

Layouts are not modelled: a tensor is its values.
"""

import threading
import types

import torch

from tests.limits import HANGS

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Mbarrier:
    """Count arrivals and loads; a phase is over when both are complete."""

    def __init__(self, program):
        self.program, self.count, self.phase, self.arrivals, self.loads = program, None, 0, 0, []

    def index(self, i):
        assert i == 0
        return self

    def arrive(self, count=1):
        self.arrivals += count
        assert self.arrivals <= self.count, "more arrivals than the mbarrier counts"
        self.settle()

    def settle(self):
        if self.arrivals == self.count and not self.loads:
            self.phase, self.arrivals = self.phase + 1, 0
            self.program.changed.notify_all()

    def land(self):
        for load in self.loads:
            load()
        self.loads.clear()
        self.settle()


class Barriers:
    def __init__(self, program, batch):
        self.all = [Mbarrier(program) for _ in range(batch)]

    def index(self, i):
        return self.all[i]


class Memory:
    """A view of shared memory."""

    def __init__(self, values):
        self.values = values

    shape = property(lambda self: [*self.values.shape])
    index = lambda self, i: Memory(self.values[int(i)])
    reshape = lambda self, shape: Memory(self.values.view(*shape))
    permute = lambda self, order: Memory(self.values.permute(*order))

    def store(self, values):
        assert self.values.dtype == values.values.dtype
        self.values.copy_(values.values)


class Value:
    """A tensor in registers."""

    def __init__(self, values):
        self.values = values
        self.type = types.SimpleNamespace(layout=None)

    shape = property(lambda self: [*self.values.shape])
    dtype = property(lambda self: self.values.dtype)

    def to(self, dtype):
        return Value(self.values.to(dtype))

    def __neg__(self):
        return Value(-self.values)


def plain(x):
    return x.values if isinstance(x, Value) else x


def operator(name):
    return lambda self, *others: Value(getattr(self.values, name)(*map(plain, others)))


for each in ("add", "radd", "sub", "mul", "rmul", "truediv", "rtruediv", "le", "lt"):
    setattr(Value, f"__{each}__", operator(f"__{each}__"))


class InFlight:
    """A product that has been issued: nothing may read it before it has been waited for."""

    def __init__(self, compute):
        self.compute = compute


class Descriptor:
    """What a kernel knows of a tensor: the shape of its tiles, and where it lies."""

    def __init__(self, base, shape):
        self.base, self.dtype = base, base.dtype
        self.block_type = types.SimpleNamespace(shape=shape)
        self.layout, self.nbytes_per_cta = None, torch.Size(shape).numel() * base.element_size()

    def part(self, place):
        """Return the part of a tile that lies in the tensor, and where in the tile it is."""
        assert all(first >= 0 for first in place)
        sizes = [max(0, min(n, side - first)) for first, n, side in zip(place, self.block_type.shape, self.base.shape)]
        inside = tuple(slice(0, size) for size in sizes)
        return self.base[tuple(slice(f, f + s) for f, s in zip(place, sizes))], inside


class Program:
    """One running instance of a kernel; ``install`` puts it in place of Gluon in a module."""

    def __init__(self, pid, programs, late):
        self.pid, self.programs, self.late = pid, programs, late
        self.changed = threading.Condition()
        self.local = threading.local()
        self.failures = []

    # mbarriers and loads
    def wait(self, barrier, phase, pred=True):
        with self.changed:
            barrier.land()
            over = lambda: self.failures or barrier.phase & 1 != phase
            assert self.changed.wait_for(over, timeout=HANGS), f"waits for ever, for phase {barrier.phase}"
            assert not self.failures, "another part failed"

    def expect(self, barrier, nbytes, pred=True):
        if pred:
            with self.changed:
                barrier.expected = nbytes

    def async_load(self, source, place, barrier, tile, pred=True):
        if not pred:
            return
        with self.changed:
            assert barrier.expected == source.nbytes_per_cta
            tile.values.fill_(float("nan"))

            def load():
                values, inside = source.part(place)
                tile.values.zero_()
                tile.values[inside] = values

            barrier.loads.append(load)
            barrier.arrive()
            if not self.late:
                barrier.land()
            self.changed.notify_all()  # who waits must look whether something can land
            if self.late:
                self.landing(barrier)

    def landing(self, barrier):
        """A late load lands when all others sleep, which is when this thread lets go of the lock and takes it again."""
        def later():
            with self.changed:
                barrier.land()
        threading.Timer(0.002, later).start()

    def arrive(self, barrier, count=1, pred=True):
        if pred:
            with self.changed:
                barrier.arrive(count)

    def async_store(self, target, place, tile):
        values, inside = target.part(place)
        values.copy_(tile.values[inside])

    # products
    def warpgroup_mma(self, a, b, acc, use_acc=True, is_async=False):
        assert is_async and not isinstance(acc, InFlight)
        def compute():
            product = a.values.float() @ b.values.float()
            return Value(product + acc.values if use_acc else product)
        flying = InFlight(compute)
        self.flying.append(flying)
        return flying

    def warpgroup_mma_wait(self, left, deps):
        while len(self.flying) > left:
            each = self.flying.pop(0)
            each.value = each.compute()
        (dep,) = deps
        assert dep not in self.flying, "reads sums that are not finished"
        return dep.value

    @property
    def flying(self):
        if not hasattr(self.local, "flying"):
            self.local.flying = []
        return self.local.flying

    def warp_specialize(self, parts, worker_num_warps, worker_num_regs):
        def run(function, arguments):
            try:
                function(*arguments)
            except BaseException as failure:
                with self.changed:
                    self.failures.append(failure)
                    self.changed.notify_all()
        threads = [threading.Thread(target=run, args=part, daemon=True) for part in parts]
        for each in threads:
            each.start()
        for each in threads:
            each.join(HANGS)
        if self.failures:
            raise self.failures[0]
        assert not any(each.is_alive() for each in threads), "a part never ends"

    def install(self, module, monkeypatch):
        def allocate(dtype, shape, layout):
            return Memory(torch.full(shape, float("nan"), dtype=dtype))

        def init(barrier, count):
            barrier.count = count

        gl = types.SimpleNamespace(
            allocate_shared_memory=allocate, static_range=range, program_id=lambda axis: self.pid,
            num_programs=lambda axis: self.programs, num_warps=lambda: 4, barrier=lambda: None,
            warp_specialize=self.warp_specialize, float32=torch.float32, constexpr=lambda x: x,
            zeros=lambda shape, dtype, layout: Value(torch.zeros(shape, dtype=dtype)),
            full=lambda shape, value, dtype, layout: Value(torch.full(shape, getattr(value, "value", value), dtype=dtype)),
            arange=lambda start, end, layout: Value(torch.arange(start, end)),
            maximum=lambda a, b: Value(torch.maximum(a.values, b.values)), minimum=min,
            max=lambda x, axis: Value(x.values.amax(axis)), sum=lambda x, axis: Value(x.values.sum(axis)),
            exp2=lambda x: Value(x.values.exp2()), fma=lambda a, b, c: Value(a.values * b + c.values),
            expand_dims=lambda x, axis: Value(x.values.unsqueeze(axis)), cdiv=lambda a, b: -(-a // b),
            convert_layout=lambda x, layout, assert_trivial=False: x, where=lambda c, a, b: Value(torch.where(c.values, a.values, b)),
            DotOperandLayout=lambda *_: None, SliceLayout=lambda *_: None,
        )  # fmt: skip
        made = types.SimpleNamespace(
            allocate_mbarrier=lambda batch=1: Barriers(self, batch), init=init, wait=self.wait, expect=self.expect,
            arrive=self.arrive,
        )  # fmt: skip
        tma = types.SimpleNamespace(async_load=self.async_load, async_store=self.async_store, store_wait=lambda pendings: None)
        for name, stand_in in {
            "gl": gl, "mbarrier": made, "tma": tma, "fence_async_shared": lambda: None,
            "warpgroup_mma": self.warpgroup_mma, "warpgroup_mma_wait": self.warpgroup_mma_wait,
        }.items():  # fmt: skip
            monkeypatch.setattr(module, name, stand_in)


def run(module, monkeypatch, kernel, grid, *arguments, late, **options):
    """Run a kernel of a module, one program after another."""
    import triton
    for name, value in list(vars(module).items()):
        if isinstance(value, triton.runtime.jit.JITFunction):
            monkeypatch.setattr(module, name, value.fn)
    monkeypatch.setattr(module, "layout_of", lambda *_: None)
    for pid in range(grid):
        Program(pid, grid, late).install(module, monkeypatch)
        getattr(module, kernel)(*arguments, **options)
