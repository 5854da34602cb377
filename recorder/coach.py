# SPDX-License-Identifier: Apache-2.0
"""Check the wrong solutions of one exercise, or on a GPU time its solution, and write down what the coach answers.

Runs in a process of its own: ``python -m recorder.coach practice/NAME DEVICE RESULT [--no-benchmarks]``. Without a GPU
the result holds which check caught each wrong solution, and the whole answer to one of them, which its page shows. On a
GPU it holds the speed of the solution, and which of those that are right and too slow were caught. It fails where a
wrong solution is not caught by the check, or with the message, that ``wrong.toml`` says.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from recorder.project import ROOT, interpreted
from recorder.trace import provenance

sys.path.append(str(ROOT / "practice"))  # behind the checkout, where `practice` is the package and not practice.py

import torch
from coach import check, speed
from coach.case import Case, gradient_like, make_inputs, reference
from coach.exercise import Exercise, Wrong, load
from coach.finding import Fault, Finding
from coach.spec import Spec

SHOWN = 6, 10  # rows and columns of a tensor in an example
SAMPLED = torch.Tensor, int, float
PATIENCE = 600  # seconds for each process of a check, on a busy machine, too


def main(name: str, device: str, result: str, *options: str) -> None:
    exercise = Exercise(ROOT / "practice/exercises" / name.partition("/")[2])
    with tempfile.TemporaryDirectory() as folder:
        seen = answers(exercise, Path(folder)) if interpreted(device) else speeds(exercise, Path(folder), *options)
    seen = {"output": "", "launches": [], "benchmarks": [], "pictures": {}, "provenance": provenance(device), **seen}
    Path(result).write_text(json.dumps(seen), "utf-8")


def answers(exercise: Exercise, folder: Path) -> dict:
    """Return which check caught each wrong solution, and the answer to the one that teaches most."""
    verdicts = {}
    with check.Coach() as coach:
        for wrong, path in written(exercise, folder, gpu=False):
            verdicts[wrong.name] = coach.check(exercise, path, limit=PATIENCE)
            require(wrong, verdicts[wrong.name].finding)

    def merit(name: str) -> tuple[bool, bool, bool]:
        """Prefer a picture with lanes that are off or wrong, then any picture, then a guess."""
        finding = verdicts[name].finding
        lanes = "".join(program["lanes"] for program in finding.launch["programs"]) if finding.launch else ""
        return bool(set(lanes) & set("!✗○")), bool(lanes), bool(finding.guess)

    shown = max(verdicts, key=merit)  # of equals the first
    caught = {name: verdict.finding.stage for name, verdict in verdicts.items()}
    answer = check.report(exercise, verdicts[shown])
    launch = verdicts[shown].finding.launch
    coached = {"caught": caught, "shown": shown, "launch": launch, "example": example(exercise.spec())}
    return {"output": answer, "coached": coached}


def example(spec: Spec) -> list[dict]:
    """Return what the exercise's function gets in its smallest case, and what it has to return."""
    inputs = make_inputs(spec, Case(spec.sizes[0]))
    results = reference(spec, inputs) or {}
    names = {"out": "result", "out[1]": "second result", "out[2]": "third result"}
    given = {name: value for name, value in inputs.items() if name in spec.signature}
    if spec.gradients:
        given["gradient of the result"] = gradient_like(results["out"])
    wanted = {names.get(name, name.replace("grad of", "gradient of")): value for name, value in results.items()}
    parts = [(True, *each) for each in given.items()] + [(False, *each) for each in wanted.items()]
    return [sample(name, value, comes_in) for comes_in, name, value in parts if isinstance(value, SAMPLED)]


def sample(name: str, value, comes_in: bool) -> dict:
    if not isinstance(value, torch.Tensor):
        return {"name": name, "comes_in": comes_in, "rows": [[f"{value:g}"]]}
    rows, columns = SHOWN
    table = value.detach().reshape(-1, value.shape[-1])[:rows, :columns].tolist()
    kept = [[f"{number:.3g}" if isinstance(number, float) else str(number) for number in row] for row in table]
    dtype = str(value.dtype).removeprefix("torch.")
    return {"name": name, "comes_in": comes_in, "rows": kept, "shape": list(value.shape), "dtype": dtype}


def speeds(exercise: Exercise, folder: Path, *options: str) -> dict:
    """Return the speed of the solution, as a share of what its spec names, and which wrong solutions are too slow."""
    spec, caught = exercise.spec(), {}
    if "--no-benchmarks" in options:
        return {}
    for wrong, path in written(exercise, folder, gpu=True):
        try:
            speed.check_speed(spec, function_of(spec, path), str(path))
            require(wrong, None)
        except Fault as error:
            error.finding.stage = "speed"
            require(wrong, error.finding)
            caught[wrong.name] = "speed"
    path = exercise.folder / "solution.py"
    shares = speed.measure(spec, function_of(spec, path), str(path))
    reached = [round(value, 3) for value in (statistics.median(shares), min(shares), max(shares))]
    if reached[0] < spec.speed.least:
        least, rival = spec.speed.least, speed.against(spec)
        raise SystemExit(f"the solution reaches {reached[0]} of the speed of {rival}; {least} is asked for")
    table = {
        "name": "speed", "x": ["against"], "xlabel": "compared with", "ylabel": "share of its speed",
        "lines": {"solution": "the solution"}, "rows": [{"x": [speed.against(spec)], "y": {"solution": reached}}],
    }  # fmt: skip
    return {"benchmarks": [table], "coached": {"caught": caught}}


def written(exercise: Exercise, folder: Path, *, gpu: bool) -> Iterator[tuple[Wrong, Path]]:
    """Yield each wrong solution, those that only a GPU can tell or the others, and a file with its text."""
    for wrong in exercise.wrong():
        if wrong.gpu == gpu:
            path = folder / f"{exercise.name}.py"
            path.write_text(wrong.text, "utf-8")
            yield wrong, path


def function_of(spec: Spec, path: Path):
    """Return the host function of a file."""
    return getattr(load(path, path.stem), spec.function)


def require(wrong: Wrong, finding: Finding | None) -> None:
    """End with a message unless a wrong solution was caught by its check, with its message."""
    expected, answer = wrong.expected, " ".join(finding.text().split()) if finding else "it passes"
    if not finding or finding.stage != expected.stage or expected.message not in answer:
        stage = f"at {finding.stage}: " if finding else ""
        raise SystemExit(f"{wrong.name} must fail at {expected.stage} with {expected.message!r}; {stage}{answer}")


if __name__ == "__main__":
    main(*sys.argv[1:])
