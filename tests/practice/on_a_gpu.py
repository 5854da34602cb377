# SPDX-License-Identifier: Apache-2.0
"""Run every solution through all checks on a machine with a GPU, and write what speed the solutions reach there.

``python -m tests.practice.on_a_gpu [NAME…] [--out FILE] [--jobs N]``: (1) all checks but the speed, of all solutions,
in parallel; (2) the solutions that are right and too slow, which must fail, one after another; (3) the speeds, in three
processes, one after another. Prints a table and writes ``practice/measured.json``. Exits with 1 if anything is not as
it should be; with 2 where there is no GPU. Torch and Triton may be any versions.
"""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "practice"))

from coach import measured  # noqa: E402
from coach.check import Checker  # noqa: E402
from coach.exercise import exercises, find, load  # noqa: E402

PROCESSES = 3
LIBRARIES = ("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cublas-cu13")


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.practice.on_a_gpu", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="exercises; all of them by default")
    parser.add_argument("--out", type=Path, default=measured.MEASURED, help="where to write (%(default)s)")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 2)), help="%(default)s")
    parser.add_argument("--skip-checks", action="store_true", help="only the speeds")
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    chosen = [find(name, exercises()) for name in given.names] or exercises()
    if given.process:
        return measure(chosen)
    with Checker() as checker:
        if not checker.compiling.has_gpu():
            print("no GPU here", file=sys.stderr)
            return 2
        failed = [] if given.skip_checks else check_all(chosen, given.jobs)
        slow, failed_slow = check_slow(chosen, checker)
    failed += failed_slow + write_speeds(chosen, slow, given.out)
    for line in failed:
        print(f"NOT AS IT SHOULD BE: {line}")
    return 1 if failed else 0


def check_all(chosen, jobs: int) -> list[str]:
    """Every solution, through all but the speed."""
    began, idle = time.monotonic(), queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        for _ in range(min(jobs, len(chosen))):
            idle.put(stack.enter_context(Checker()))

        def one(exercise) -> str | None:
            checker, start = idle.get(), time.monotonic()
            try:
                path = exercise.folder / "solution.py"
                verdict = checker.check(exercise, path, limit=200, tasks=("compile", "interpret", "values"))
            finally:
                idle.put(checker)
            said = verdict.finding.text() if verdict.finding else None
            verb = "FAILED" if said else "passed"
            print(f"{verb} {exercise.name} in {time.monotonic() - start:.1f} s", flush=True)
            return f"{exercise.name}, {verdict.finding.stage}: {said}" if said else None

        with ThreadPoolExecutor(jobs) as pool:
            found = [said for said in pool.map(one, chosen) if said]
    print(f"{len(chosen)} solutions checked in {time.monotonic() - began:.0f} s", flush=True)
    return found


def check_slow(chosen, checker) -> tuple[dict[str, list[str]], list[str]]:
    """What is right and too slow has to fail, with its message: those that do, and what is said of others."""
    began, failed, found = time.monotonic(), [], {}
    for exercise in chosen:
        for wrong in (wrong for wrong in exercise.wrong() if wrong.gpu):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, f"{exercise.name}.py")
                path.write_text(wrong.text, "utf-8")
                verdict = checker.check(exercise, path, tasks=("speed",))
            said = verdict.finding.said if verdict.finding else " ".join(verdict.notes)
            print(f"{exercise.name} {wrong.name}: {said}", flush=True)
            if not verdict.finding or wrong.expected.message not in verdict.finding.text().replace("\n", " "):
                failed.append(f"{exercise.name} {wrong.name} must fail, being too slow: {said}")
            else:
                found.setdefault(exercise.name, []).append(wrong.name)
    print(f"slow ones checked in {time.monotonic() - began:.0f} s", flush=True)
    return found, failed


def measure(chosen) -> int:
    """One process's speeds, a line of JSON each."""
    from coach import speed

    for exercise in chosen:
        spec, path = exercise.spec(), exercise.folder / "solution.py"
        if spec.speed is None:
            continue
        function = getattr(load(path, exercise.name), spec.function)
        shares = speed.measure(spec, function, str(path))
        print(json.dumps([exercise.name, speed.against(spec), spec.speed.least, shares]), flush=True)
    return 0


def write_speeds(chosen, slow: dict[str, list[str]], out: Path) -> list[str]:
    began, found, failed = time.monotonic(), {}, []
    names = [exercise.name for exercise in chosen]
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    for _ in range(PROCESSES):
        command = [sys.executable, "-m", "tests.practice.on_a_gpu", "--process", *names]
        with subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE) as process:
            killer = threading.Timer(200, process.kill)
            killer.start()
            for line in process.stdout:
                name, against, least, shares = json.loads(line)
                found.setdefault(name, (against, least, []))[2].append(shares)
            killer.cancel()
        if process.returncode:
            failed.append(f"a process that measures ended with {process.returncode}")
    print(
        f"\n{'exercise':24} {'against':26} {'least':>5} {'0.9 ×':>5}  median of each process (least–most of its rounds)"
    )
    solutions = {}
    for name, (against, least, processes) in found.items():
        medians = [statistics.median(shares) for shares in processes]
        shown = "  ".join(f"{statistics.median(s):.3f} ({min(s):.3f}–{max(s):.3f})" for s in processes)
        print(f"{name:24} {against:26} {least:5.2f} {0.9 * min(medians):5.2f}  {shown}")
        if min(medians) < least:
            failed.append(f"{name} reaches {min(medians):.2f}, and {least} is asked for")
        print_of = measured.fingerprint(find(name, chosen))
        solutions[name] = {"against": against, "shares": [round(m, 3) for m in medians], "fingerprint": print_of}
    where = provenance()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(f"{len(found)} speeds in {time.monotonic() - began:.0f} s", flush=True)
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in solutions.items())
    text = f'{{\n "where": {json.dumps(where)},\n "solutions": {{\n{rows}\n }},\n "slow": {json.dumps(slow)}\n}}\n'
    if not failed or out != measured.MEASURED:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, "utf-8")
        print(f"written: {out}")
    return failed


def provenance() -> dict[str, str]:
    asked = ["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    found = dict(zip(("gpu", "uuid", "driver"), said.split(", "), strict=True))
    found["python"] = platform.python_version()
    # What is imported, which need not be what pip has installed.
    asked = "import torch, triton; print(torch.__version__.split('+')[0], triton.__version__)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    found |= zip(("torch", "triton"), said, strict=True)
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found | {"date": datetime.date.today().isoformat()}


if __name__ == "__main__":
    sys.exit(main())
