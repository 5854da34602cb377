# SPDX-License-Identifier: Apache-2.0
"""Gluon on a CPU, as far as the course's attention needs it: each part of a program is a thread, each tensor torch's.

Nobody promises when a tile arrives, or when a product reads its operands, so both happen at the worst moment. A tile
arrives as soon as it is asked for, over whatever lies there; or, if ``late``, not before somebody waits for it, and
until then its buffer holds NaN. A product reads its operands when it is waited for, and no earlier. Who waits for what
never comes fails the test.

Layouts are not modelled.
"""

import contextlib
import threading
import types
from collections.abc import Iterator

import torch
import triton
from triton.experimental.gluon import language as gluon_language

from tests.limits import HANGS

BREATH = 0.001  # seconds in which the other parts go on


class Mbarrier:
    """Count arrivals and loads; a phase is over when both are complete. All of it is done under the program's lock."""

    def __init__(self, program: "Program"):
        self.program, self.count, self.phase, self.arrivals, self.loads = program, 0, 0, 0, []

    def arrive(self, count: int = 1) -> None:
        self.arrivals += count
        assert self.arrivals <= self.count, "more arrivals than the mbarrier counts"
        self.settle()

    def settle(self) -> None:
        if self.arrivals == self.count and not self.loads:
            self.phase, self.arrivals = self.phase + 1, 0
        self.program.changed.notify_all()

    def land(self) -> None:
        while self.loads:
            self.loads.pop(0)()
        self.settle()


class Memory:
    """A view of shared memory."""

    def __init__(self, values: torch.Tensor):
        self.values = values

    shape = property(lambda self: [*self.values.shape])

    def index(self, i: int) -> "Memory":
        return Memory(self.values[int(i)])

    def reshape(self, shape) -> "Memory":
        return Memory(self.values.view(*shape))

    def permute(self, order) -> "Memory":
        return Memory(self.values.permute(*order))

    def store(self, value: "Value") -> None:
        assert self.values.dtype == value.values.dtype
        self.values.copy_(value.values)


class Value:
    """A tensor in registers."""

    type = types.SimpleNamespace(layout=None)

    def __init__(self, values: torch.Tensor):
        self.values = values

    shape = property(lambda self: [*self.values.shape])

    def to(self, dtype) -> "Value":
        return Value(self.values.to(dtype))


def of_values(function):
    """Return the function of tensors as one of values."""
    plain = lambda x: x.values if isinstance(x, Value) else x
    return lambda *arguments: Value(function(*map(plain, arguments)))


for name in ("neg", "add", "radd", "sub", "mul", "rmul", "truediv", "rtruediv", "le"):
    setattr(Value, f"__{name}__", of_values(getattr(torch.Tensor, f"__{name}__")))


class InFlight:
    """A product that was issued; nothing can be read from it."""

    def __init__(self, a: Memory | Value, b: Memory, acc: Value, use_acc: bool):
        assert isinstance(acc, Value), "adds to sums that are not finished"
        self.operands = a, b, acc, use_acc

    def land(self) -> None:
        a, b, acc, use_acc = self.operands
        product = a.values.float() @ b.values.float()
        self.value = Value(product + acc.values if use_acc else product)


class Described:
    """What a kernel knows of a tensor: where it lies, and the shape of a tile."""

    def __init__(self, descriptor):
        self.base, self.dtype, self.layout = descriptor.base, descriptor.base.dtype, None
        self.block_type = types.SimpleNamespace(shape=descriptor.block_shape)
        self.nbytes_per_cta = torch.Size(descriptor.block_shape).numel() * self.base.element_size()

    def part(self, place) -> tuple[torch.Tensor, tuple[slice, ...]]:
        """Return the part of a tile that lies in the tensor, and where in the tile it is."""
        assert all(first >= 0 for first in place)
        shape, block = self.base.shape, self.block_type.shape
        sizes = [max(0, min(n, side - first)) for first, n, side in zip(place, block, shape, strict=True)]
        there = tuple(slice(first, first + size) for first, size in zip(place, sizes, strict=True))
        return self.base[there], tuple(slice(0, size) for size in sizes)


class Program:
    """One running instance of a kernel."""

    def __init__(self, pid: int, programs: int, late: bool):
        self.pid, self.programs, self.late = pid, programs, late
        self.changed, self.failures = threading.Condition(), []
        self.parts, self.asleep = 1, {}  # how many parts have not ended; what those that sleep wait for
        self.mine = threading.local()  # the products that a part has in flight

    def allocate(self, dtype, shape, layout) -> Memory:
        return Memory(torch.full([*shape], float("nan"), dtype=dtype))

    def mbarriers(self, batch: int = 1):
        made = [Mbarrier(self) for _ in range(batch)]
        return types.SimpleNamespace(index=lambda i: made[int(i)])

    def init(self, barrier: Mbarrier, count: int) -> None:
        barrier.count = int(count)

    def expect(self, barrier: Mbarrier, nbytes: int, pred=True) -> None:
        if pred:
            barrier.expected = nbytes

    def wait(self, barrier: Mbarrier, phase: int) -> None:
        assert phase in (0, 1)
        with self.changed:
            barrier.land()
            while barrier.phase & 1 == phase:
                self.asleep[threading.get_ident()] = barrier, phase
                self.notice_a_hang()
                self.changed.wait(HANGS)
                del self.asleep[threading.get_ident()]
                assert not self.failures, "another part failed"
                barrier.land()

    def notice_a_hang(self) -> None:
        """Fail if all parts that have not ended wait, and nothing is on its way that one of them waits for."""
        goes_on = (barrier.loads or barrier.phase & 1 != phase for barrier, phase in self.asleep.values())
        if self.asleep and len(self.asleep) == self.parts and not any(goes_on):
            self.failures.append(AssertionError("all parts wait for ever"))
            self.changed.notify_all()
            raise self.failures[-1]

    def arrive(self, barrier: Mbarrier, count: int) -> None:
        with self.changed:
            barrier.arrive(count)
        threading.Event().wait(BREATH)  # so that whoever waits for this does what it must not do too early

    def async_load(self, source: Described, place, barrier: Mbarrier, tile: Memory, pred=True) -> None:
        if not pred:
            return

        def load():
            values, inside = source.part(place)
            tile.values.zero_()
            tile.values[inside] = values

        with self.changed:
            assert barrier.expected == source.nbytes_per_cta == tile.values.numel() * tile.values.element_size()
            tile.values.fill_(float("nan"))
            barrier.loads.append(load)
            barrier.arrive()
            if not self.late:
                barrier.land()

    def async_store(self, target: Described, place, tile: Memory) -> None:
        values, inside = target.part(place)
        values.copy_(tile.values[inside])

    def multiply(self, a, b, acc, use_acc=True, is_async=False) -> InFlight:
        assert is_async
        self.flying.append(InFlight(a, b, acc, use_acc))
        return self.flying[-1]

    def wait_for_products(self, left: int, deps) -> Value:
        while len(self.flying) > left:
            self.flying.pop(0).land()
        (product,) = deps
        assert product not in self.flying, "reads sums that are not finished"
        return product.value

    @property
    def flying(self) -> list[InFlight]:
        if not hasattr(self.mine, "flying"):
            self.mine.flying = []
        return self.mine.flying

    def specialize(self, parts, worker_num_warps, worker_num_regs) -> None:
        def run(function, arguments):
            try:
                function(*arguments)
                with self.changed:
                    self.parts -= 1
                    self.notice_a_hang()
            except BaseException as failure:
                with self.changed:
                    self.failures.append(failure)
                    self.changed.notify_all()

        self.parts = len(parts)
        threads = [threading.Thread(target=run, args=part, daemon=True) for part in parts]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if self.failures:
            raise self.failures[0]

    def language(self) -> dict:
        """Return what stands in for Gluon's names in a module."""
        like = {name: getattr(gluon_language, name) for name in ("bfloat16", "float16", "NVMMASharedLayout")}
        gl = types.SimpleNamespace(
            **like, float32=torch.float32, program_id=lambda axis: self.pid, num_programs=lambda axis: self.programs,
            num_warps=lambda: 4, barrier=lambda: None, static_range=range, minimum=min, cdiv=triton.cdiv,
            allocate_shared_memory=self.allocate, warp_specialize=self.specialize,
            zeros=lambda shape, dtype, layout: Value(torch.zeros(shape, dtype=dtype)),
            full=lambda shape, value, dtype, layout: Value(torch.full(shape, value, dtype=dtype)),
            arange=lambda start, end, layout: Value(torch.arange(start, end)),
            convert_layout=lambda x, layout, assert_trivial: x, DotOperandLayout=lambda *_: None,
            SliceLayout=lambda *_: None, maximum=of_values(torch.maximum), exp2=of_values(torch.exp2),
            max=of_values(torch.amax), sum=of_values(torch.sum), reshape=of_values(torch.reshape),
            expand_dims=of_values(torch.unsqueeze),
            where=of_values(torch.where), fma=of_values(lambda a, b, c: a * b + c),
        )  # fmt: skip
        bars = types.SimpleNamespace(
            allocate_mbarrier=self.mbarriers, init=self.init, expect=self.expect, wait=self.wait, arrive=self.arrive
        )
        tma = types.SimpleNamespace(
            async_load=self.async_load, async_store=self.async_store, store_wait=lambda pendings: None
        )
        return {
            "gl": gl, "mbarrier": bars, "tma": tma, "fence_async_shared": lambda: None, "layout_of": lambda *_: None,
            "warpgroup_mma": self.multiply, "warpgroup_mma_wait": self.wait_for_products,
        }  # fmt: skip


@contextlib.contextmanager
def python_of(module) -> Iterator[None]:
    """Make a module's Gluon functions those of Python, and its constants plain ones."""
    before = dict(vars(module))
    for name, value in before.items():
        if isinstance(value, triton.JITFunction):
            setattr(module, name, value.fn)
        elif isinstance(value, gluon_language.constexpr):
            setattr(module, name, value.value)
    try:
        yield
    finally:
        vars(module).update(before)


def run(modules, kernel: str, grid: tuple[int, ...], *arguments, late: bool, **options) -> None:
    """Run a kernel of the first of some modules, one program after another; the others are those that it imports."""
    described = [Described(each) if hasattr(each, "block_shape") else each for each in arguments]
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(python_of(module))
        for pid in range(grid[0]):
            program = Program(pid, grid[0], late).language()
            for module in modules:
                vars(module).update(program)
            getattr(modules[0], kernel)(*described, **options)
