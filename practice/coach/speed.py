# SPDX-License-Identifier: Apache-2.0
"""The last check, on a GPU: the values again, compiled, and the time as a share of something that does as much.

Runs in a process without ``TRITON_INTERPRET``. Operands rotate, more of them than fit in L2, in one CUDA graph; both
sides take turns.
"""

import statistics

import torch

from . import judge, mistakes
from .arena import Arena
from .finding import Finding, Found
from .record import Recorder
from .run import Case, Run, call, make_inputs, raised, reference
from .spec import Spec
from .stages import awkward_sizes

ROUNDS = 7


def check(spec: Spec, function, file: str) -> str:
    """Raise :class:`Found` for a wrong value, or for too slow a function; return a sentence for the reader."""
    for size in awkward_sizes(spec, 1024):
        for layout in ("", *spec.layouts):
            values(spec, function, file, Case(size, layout))
    if spec.speed is None:
        return "The values are right on this GPU, too."
    share = measure(spec, function)
    against = "a copy of as many bytes" if spec.speed.against == "copy" else _name(spec.speed.against)
    if share < spec.speed.least:
        size = ", ".join(f"{name} = {n}" for name, n in spec.speed.size.items())
        said = f"Your function runs at {share:.0%} of the speed of {against}; it should be {spec.speed.least:.0%}."
        raise Found(Finding(said, size, guess="What is read more often than needed, or by lanes that are far apart?"))
    return f"On this GPU it runs at {share:.0%} of the speed of {against}."


def _name(function) -> str:
    return "cuBLAS" if function in (torch.matmul, torch.mm) else f"`{getattr(function, '__name__', 'the other')}`"


def values(spec: Spec, function, file: str, case: Case):
    plain = make_inputs(spec, case)
    run = Run(spec, case, file, to_gpu(plain), Arena(), Recorder(Arena(), file), expected=reference(spec, plain))
    try:
        run.results = call(spec, function, dict(run.inputs))
        torch.cuda.synchronize()
    except ValueError as error:
        if case.layout and spec.strides != "served":
            return
        run.error = error
    except Exception as error:
        run.error = error
    if run.error is not None:
        said, line = raised(run.error, file)
        details = [judge.source(file, line)]
        raise Found(
            Finding(f"On the GPU your code raised {said}:", str(case), details, guess=mistakes.about_error(said))
        )
    for name, expected in (run.expected or {}).items():
        wrong = judge.wrong_elements(run.results[name], expected, spec.rtol, spec.atol)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            said = f"On the GPU, element {list(at)} is {run.results[name][at].item():.6g} and should be "
            guess = "It is right in the interpreter. Does one program read what another one writes?"
            raise Found(Finding(f"{said}{expected[at].item():.6g}.", str(case), guess=guess))


def to_gpu(inputs: dict) -> dict:
    """Tensors with the same strides, on the GPU."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        empty = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")
        return empty.copy_(value)

    return {name: move(value) for name, value in inputs.items()}


def measure(spec: Spec, function) -> float:
    """The time of what it is compared with, divided by the reader's."""
    inputs = to_gpu(make_inputs(spec, Case(spec.speed.size)))
    given = [inputs[name] for name in spec.signature]
    with torch.no_grad():
        result = function(*given)
    tensors = [value for value in (*given, result) if isinstance(value, torch.Tensor)]
    moved = sum(tensor.numel() * tensor.itemsize for tensor in tensors)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(2, min(64, 4 * l2 // max(moved, 1) + 1))
    sets = [[v.clone() if isinstance(v, torch.Tensor) else v for v in given] for _ in range(count)]
    if spec.speed.against == "copy":
        sources = [torch.empty(max(moved // 2, 1), dtype=torch.uint8, device="cuda") for _ in range(count)]
        other = [lambda source=source: source.clone() for source in sources]
    else:
        other = [lambda given=given: spec.speed.against(*given) for given in sets]
    sides = [_graph([lambda given=given: function(*given) for given in sets]), _graph(other)]
    times = [[_time(side) for side in sides] for _ in range(ROUNDS)]
    return statistics.median(theirs / mine for mine, theirs in times)


def _graph(calls) -> torch.cuda.CUDAGraph:
    for call_once in calls:
        call_once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        kept = [call_once() for call_once in calls]
    graph.kept = kept
    return graph


def _time(graph) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
