# SPDX-License-Identifier: Apache-2.0
"""Make the last check, on a GPU: the values again, compiled, and the time as a share of something that does as much.

Runs in a process without ``TRITON_INTERPRET``. Both sides take turns, each on operands in rotation: more sets of them
than fit in L2 several times over, one call on each, all calls in one CUDA graph. So a call finds nothing of its own in
the cache, and no flush leaves modified lines behind. The results of the calls that are timed are compared, too.
"""

import contextlib
import math
import statistics

import torch

from . import judge, mistakes
from .arena import Arena
from .case import Case, awkward_sizes, call, make_inputs, raised, reference
from .finding import Fault, Finding
from .record import Recorder
from .run import Run
from .spec import Spec

ROUNDS = 5
TIMES_L2 = 4  # what the sets of operands hold, in sizes of L2
MOST_SETS = 256
LEAST_MS = 1.0  # of a graph: some microseconds pass between two
READING_MS = 10.0
STEADY_MS = 250.0  # in which the clock follows the power that a large product draws
PRODUCTS = (torch.matmul, torch.mm)
ROUNDING = 16  # units in the last place: a GPU sums in another order, and rounds a product with its sum once


def check(spec: Spec, function, file: str) -> str:
    """Raise :class:`Fault` for a wrong value, or for too slow a function; return a sentence for the reader."""
    check_values(spec, function, file)
    return check_speed(spec, function, file) or "The values are right on this GPU, too."


def check_values(spec: Spec, function, file: str):
    """Raise :class:`Fault` for a wrong value at a size or layout of the interpreter's checks."""
    for size in awkward_sizes(spec, 1024):
        values(spec, function, file, Case(size))
    for layout in spec.layouts:
        for size in spec.sizes:
            values(spec, function, file, Case(size, layout))


def check_speed(spec: Spec, function, file: str) -> str:
    """Raise :class:`Fault` where it is too slow, or wrong at that size; return a sentence, "" if no speed is asked."""
    if spec.speed is None:
        return ""
    share = statistics.median(measure(spec, function, file))
    if share < spec.speed.least:
        message = f"Your function runs at {share:.0%} of the speed of {against(spec)}; it should be "
        message += f"{spec.speed.least:.0%}."
        guess = "What is read more often than needed, or by lanes that are far apart? And is a block very small?"
        raise Fault(Finding(message, str(Case(spec.speed.size)), guess=guess))
    return f"On this GPU it runs at {share:.0%} of the speed of {against(spec)}."


def against(spec: Spec) -> str:
    """Name what the speed is compared with."""
    if spec.speed.against == "copy":
        return "a copy of as many bytes"
    name = getattr(spec.speed.against, "__name__", "")
    return "cuBLAS" if spec.speed.against in PRODUCTS else "torch" if name in ("", "<lambda>") else f"`{name}`"


def values(spec: Spec, function, file: str, case: Case):
    plain = make_inputs(spec, case)
    run = Run(spec, case, file, to_gpu(plain), Arena(), Recorder(Arena(), file), expected=reference(spec, plain))
    for _ in range(2):  # what depends on the order of programs may be right once
        try:
            run.results = call(spec, function, dict(run.inputs))
            torch.cuda.synchronize()
        except Exception as error:
            if isinstance(error, ValueError) and case.layout and spec.strides != "served":
                return
            raise raised_on_gpu(error, case, file) from error
        for name, expected in (run.expected or {}).items():
            compare(run.results[name], expected, spec, case, name)

        def again(**changes):
            return call(spec, function, to_gpu(plain | changes))["out"]

        judge.properties(run, again)


def raised_on_gpu(error: Exception, case: Case, file: str) -> Fault:
    message, line = raised(error, file)
    details = [judge.source(file, line)]
    guess = mistakes.about_error(message)
    return Fault(Finding(f"On the GPU your code raised {message}:", str(case), details, guess=guess))


def compare(actual: torch.Tensor, expected: torch.Tensor, spec: Spec, case: Case, name: str = "out"):
    """Raise :class:`Fault` for the first element that is off by more than the spec's tolerance and some rounding."""
    slack = ROUNDING * torch.finfo(expected.dtype).eps if expected.is_floating_point() else 0.0
    exact = expected.dtype in (torch.float16, torch.bfloat16)  # too few digits to give any away
    rtol, atol = (spec.rtol, spec.atol) if exact else (max(spec.rtol, slack), max(spec.atol, slack))
    wrong = judge.wrong_elements(actual, expected, rtol, atol)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        what = "element" if name == "out" else f"{name}, element"
        message = f"On the GPU, {what} {list(at)} is {actual[at].item():.6g} and should be {expected[at].item():.6g}."
        guess = "It is right in the interpreter. Does one program read what another one writes?"
        if spec.speed and case == Case(spec.speed.size):
            guess = "It is right at smaller sizes. What does your code do otherwise at this one?"
        raise Fault(Finding(message, str(case), guess=guess))


def to_gpu(inputs: dict) -> dict:
    """Return the inputs, with the same strides, on the GPU."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        empty = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")
        return empty.copy_(value)

    return {name: move(value) for name, value in inputs.items()}


# Time


def measure(spec: Spec, function, file: str) -> list[float]:
    """Return the time of what it is compared with divided by the reader's, for each round."""
    case = Case(spec.speed.size)
    inputs = to_gpu(make_inputs(spec, case))
    given = [inputs[name] for name in spec.signature]
    with torch.no_grad():
        expected = reference(spec, inputs)["out"]
        read = _bytes(given)
        sets = [[v.clone() if isinstance(v, torch.Tensor) else v for v in given] for _ in range(sets_needed(read))]
        steady = STEADY_MS if spec.speed.against in PRODUCTS else 0.0
        try:
            mine = Rotation(lambda operands: function(*operands), sets, steady)
        except Exception as error:
            raise _not_captured(error, case, file) from error
        mine.forget()
        mine.graph.replay()
        for result in mine.results:
            compare(result, expected, spec, case)
        if spec.speed.against == "copy":
            half = (read + _bytes([expected])) // 2
            empty = lambda: torch.empty(half, dtype=torch.uint8, device="cuda")
            sources = [empty().random_() for _ in range(sets_needed(half))]
            other = Rotation(torch.clone, sources, steady)
        else:
            other = Rotation(lambda operands: spec.speed.against(*operands), sets, steady)
        return in_turns(mine, other)


def in_turns(mine: "Rotation", other: "Rotation") -> list[float]:
    shares = []
    for turn in range(ROUNDS):
        order = (mine, other) if turn % 2 == 0 else (other, mine)
        taken = {id(side): side.milliseconds() for side in order}
        shares.append(taken[id(other)] / taken[id(mine)])
    return shares


def _bytes(values) -> int:
    return sum(value.numel() * value.itemsize for value in values if isinstance(value, torch.Tensor))


def sets_needed(read: int) -> int:
    """Return how many sets of operands of so many bytes make each leave L2 before its turn comes again."""
    count = 1 + math.ceil(TIMES_L2 * torch.cuda.get_device_properties(0).L2_cache_size / read)
    if count > MOST_SETS:
        raise ValueError(f"the size in Spec.speed is too small: {read} bytes take {count} sets to leave L2")
    return count


class Rotation:
    """Call a function on each set of operands, again and again, in a CUDA graph; ``results`` are of the last round."""

    def __init__(self, run, sets, steady: float = 0.0):
        run(sets[0])  # compiles and tunes, which a graph cannot record
        torch.cuda.synchronize()
        self.before, self.replays = 1, 1
        self.record(run, sets, 1)
        if (lasts := self.lasts()) < LEAST_MS:
            self.record(run, sets, math.ceil(LEAST_MS / lasts))
            lasts = self.lasts()
        self.before = max(1, math.ceil(steady / lasts))  # at least one, so that all that count follow another
        self.replays = max(1, round(READING_MS / lasts))

    def record(self, run, sets, times: int):
        self.calls, self.graph, self.results = times * len(sets), torch.cuda.CUDAGraph(), [None] * len(sets)
        with torch.cuda.graph(self.graph):
            for number in range(self.calls):
                self.results[number % len(sets)] = run(sets[number % len(sets)])

    def forget(self):
        """Fill the results with what no call leaves there, to see that the calls of the graph make them."""
        for result in self.results:
            result.fill_(torch.nan if result.is_floating_point() else -77)

    def lasts(self) -> float:
        """Return the milliseconds that the graph takes, on average over some replays."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(self.before):
            self.graph.replay()
        begin.record()
        for _ in range(self.replays):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self.replays

    def milliseconds(self) -> float:
        """Return the milliseconds that one call takes."""
        return self.lasts() / self.calls


def _not_captured(error: Exception, case: Case, file: str) -> Fault:
    """Explain what was raised while the calls were recorded: most often that the code waits for the GPU."""
    message, line = raised(error, file)
    guess = mistakes.about_error(message)
    if "captur" in message.lower():
        message = f"To be timed, your function is recorded in a CUDA graph, which it does not allow: {message}"
        guess = "Does it wait for the GPU, as `.item()` and `print` of a tensor do? A launch should not."
    else:
        message = f"On the GPU your code raised {message}:"
    with contextlib.suppress(Exception):
        torch.cuda.synchronize()
    return Fault(Finding(message, str(case), [judge.source(file, line)] if line else [], guess=guess))
