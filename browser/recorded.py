# SPDX-License-Identifier: Apache-2.0
"""Give the coach what it asks of a call, out of what the model has recorded: see ``coach.launch`` and ``coach.run``.

Offsets count from the first element of a tensor as it was made, whichever part of it a kernel was given; for pictures
alone they count from where the argument begins.
"""

from collections import Counter
from collections.abc import Callable

from coach.launch import Access, Launch, Trouble

from . import layout, memory
from .tensor import DTYPES, Tensor

HALF = 2.0**-10  # how far apart two neighbors of float16 are at most: a few sums in another order round to the other
SEVERAL = -2  # programs, or lanes


class Region:
    """One tensor in its memory, and what kernels did to its elements."""

    def __init__(self, tensor: Tensor, name: str, given: bool):
        self.tensor, self.name, self.given = tensor, name, given
        self.size, self.base = tensor.itemsize, tensor.storage.address
        self.places = layout.indices(tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        self.numbers = {place: number for number, place in enumerate(self.places)}
        self.span = max(self.places, default=-1) + 1
        self.covered: set[int] = set()
        self.loaded: Counter[int] = Counter()
        self.new_launch()

    def new_launch(self):
        """Forget who touched what: an order holds between launches, but not between programs."""
        self.stored_by: dict[int, int] = {}
        self.read_by: dict[int, int] = {}
        self.stored_at: dict[int, tuple] = {}  # after which barrier, and by which lane of a block of which shape
        self.read_at: dict[int, tuple] = {}

    def element(self, offset: int) -> int:
        return self.numbers.get(offset, -1)

    def storer(self, offset: int) -> int:
        return self.stored_by.get(offset, -1)

    def stored(self) -> bool:
        return bool(self.covered)

    def missed(self) -> list[int]:
        return sorted(self.numbers.keys() - self.covered)

    def reads(self) -> list[int]:
        return [self.loaded[place] for place in self.places]

    def altered(self, offsets: list[int]) -> bool:
        return False  # torch alone could do that here, and is seen at it


class Run:
    """One call. ``results`` and ``expected`` are by name: ``out``, and ``grad of x`` for gradients."""

    def __init__(self, spec, case, file: str, inputs: dict, expected: dict[str, Tensor] | None):
        self.spec, self.case, self.file, self.inputs, self.expected = spec, case, file, inputs, expected
        self.results, self.error, self.computed = {}, None, []
        self.regions = [Region(value, name, True) for name, value in inputs.items() if isinstance(value, Tensor)]
        self.known = {id(region.tensor.storage): region for region in self.regions}
        self.launches: list[Launch] = []
        self.troubles: list[Trouble] = []
        self.elsewhere: list[tuple[str, int]] = []  # parameters that got a tensor without a device, and its line
        self.tf32 = 0  # the first line in which `tl.dot` rounds as a GPU does
        self.patient = case.size not in spec.last  # for what known mistakes give: there it takes long

    @property
    def ops(self) -> list[tuple[str, int]]:
        """What torch computed, and in which line."""
        return [(name, line) for name, line in self.computed if name not in self.spec.torch_ops]

    def wrong(self, name: str) -> list[int]:
        """Return the numbers of the elements of a result that are not right."""
        expected = self.expected[name].detach()
        pairs = list(zip(self.results[name].detach().values(), expected.values(), strict=True))
        wrong = [i for i, pair in enumerate(pairs) if not near(*pair, self.spec.rtol, self.spec.atol)]
        few = expected.dtype.name == "float16" and 100 * len(wrong) <= len(pairs)
        return [] if few and all(near(*pairs[i], HALF, 0.0) for i in wrong) else wrong

    def give(self, name: str, tensor: Tensor):
        """Note a tensor that the code is given later than its inputs."""
        self.regions.append(Region(tensor, name, True))
        self.known[id(tensor.storage)] = self.regions[-1]

    def region_of(self, tensor: Tensor) -> Region | None:
        return self.known.get(id(tensor.storage))

    def region(self, origin: memory.Origin) -> Region:
        """Return the region that a pointer was made for."""
        storage = origin.allocation
        if id(storage) not in self.known:
            dtype = DTYPES.get(origin.of.label, DTYPES["bool"])
            made = getattr(storage, "made", None) or (dtype, origin.shape, layout.strides_of(origin.shape))
            self.known[id(storage)] = Region(Tensor(storage, *made), "the result", False)
            self.regions.append(self.known[id(storage)])
        return self.known[id(storage)]

    def take(self, launched: list[memory.Launch]):
        """Take over what the kernels did. Of a result that none of them knew, nothing was stored."""
        for each in launched:
            for region in self.regions:
                region.new_launch()
            for name, origin in each.origins.items():
                if line := getattr(origin.allocation, "elsewhere", 0):
                    self.elsewhere.append((name, line))
            self.launches.append(launch := launch_of(each, self.region, whole=True))
            for access, seen in zip(launch.accesses, each.accesses, strict=True):
                self._judge(access, seen.barrier)
        for value in self.results.values():
            if isinstance(value, Tensor) and (made := getattr(value.storage, "made", None)):
                self.known.setdefault(id(value.storage), Region(Tensor(value.storage, *made), "the result", False))

    def _judge(self, access: Access, barrier: int):
        """Note what is not allowed, as ``coach.record`` does."""
        region, me = access.region, access.program
        on = [(lane, access.offsets[lane]) for lane in access.on()]
        lanes = [(lane, at) for lane, at in on if access.inside[lane]]
        at_once = lambda lane: (barrier, access.shape, lane)
        if len(lanes) < len(on):
            stray = next(lane for lane, _ in on if not access.inside[lane])
            self.troubles.append(Trouble("outside", access, stray))
        if access.op == "load":
            region.loaded.update(at for _, at in lanes)
            self._race(access, lanes, region.stored_by)
            self._unordered(access, lanes, region.stored_by, region.stored_at, at_once)
            read = set()
            for lane, at in lanes:
                seen = region.read_at.get(at, (barrier,)) if region.read_by.get(at) == me else ()
                others = at in read or (seen[:1] == (barrier,) and seen[1:] not in ((), at_once(lane)[1:]))
                region.read_at[at] = (barrier, SEVERAL) if others else at_once(lane)
                read.add(at)
            for _, at in lanes:
                region.read_by[at] = me if region.read_by.get(at, me) == me else SEVERAL
            return
        if region.given and region.name not in self.spec.writes and lanes:
            self.troubles.append(Trouble("input", access, lanes[0][0]))
        if access.op == "store":
            self._race(access, lanes, region.read_by)
            self._unordered(access, lanes, region.read_by, region.read_at, at_once)
            before = dict(region.stored_by)
            for lane, at in lanes:
                if at in before:
                    self.troubles.append(Trouble("twice", access, lane, before[at]))
                    break
                before[at] = me
            for lane, at in lanes:
                region.stored_by[at], region.stored_at[at] = me, at_once(lane)
        region.covered.update(at for _, at in lanes)

    def _race(self, access: Access, lanes: list[tuple[int, int]], owners: dict[int, int]):
        me = access.program
        if (found := next((each for each in lanes if owners.get(each[1], me) != me), None)) is not None:
            other = owners[found[1]]
            self.troubles.append(Trouble("race", access, found[0], other if other >= 0 else None))

    def _unordered(self, access: Access, lanes, programs: dict[int, int], at: dict[int, tuple], at_once: Callable):
        """Note a lane that comes to an element to which another lane of its program came since the last barrier."""
        for lane, offset in lanes:
            same = programs.get(offset) == access.program and at[offset][0] == at_once(lane)[0]
            if same and at[offset] != at_once(lane):
                self.troubles.append(Trouble("unordered", access, lane, access.program))
                return


def near(got, want, rtol: float, atol: float) -> bool:
    if got == want or (got != got and want != want):
        return True
    return isinstance(want, float) and abs(got - want) <= atol + rtol * abs(want)


def launch_of(seen: memory.Launch, region: Callable[[memory.Origin], Region], whole: bool) -> Launch:
    """Return a launch as the coach has it. ``whole``: whether offsets count from a tensor's first element."""
    names = {id(region(origin)): name for name, origin in seen.origins.items()}
    columns, rows, _ = seen.grid
    made = Launch(seen.kernel, seen.grid, names, seen.given, seen.constants, seen.line)
    for each in seen.accesses:
        x, y, z = each.program
        mask = [True] * len(each.offsets) if each.mask is None else each.mask
        if whole:
            of, start = region(each.origin), each.origin.start
            offsets = [offset + start for offset in each.offsets] if start else each.offsets
            inside = [offset in of.numbers for offset in offsets]
        else:
            of, offsets, outside = each.origin, each.offsets, {*each.outside}
            inside = [lane not in outside for lane in range(len(offsets))]
        made.accesses.append(Access(
            made, x + columns * (y + rows * z), each.op, of, offsets, mask, inside, each.shape, each.line,
            masked=each.mask is not None, other=each.other, adds=each.adds))  # fmt: skip
    return made


def drawn(seen: memory.Access) -> dict:
    """Return the launch of an access as ``coach.svg`` draws it, with the access and its first stray lane in focus."""
    from coach import judge
    from coach.finding import Finding

    launch = launch_of(seen.launch, lambda origin: origin, whole=False)
    at = next(i for i, each in enumerate(seen.launch.accesses) if each is seen)
    return judge.with_picture(Finding(""), launch.accesses[at], (seen.outside or [0])[0]).launch
