# SPDX-License-Identifier: Apache-2.0
"""``python -m recorder run | check | measure | new | number | rename | list``: see ``--help``."""

import argparse
import contextlib
import signal
import sys
import time

from recorder import judge, lab, menu, recording, runner, timing, tools
from recorder.new import new
from recorder.project import (
    OTHER_TRITON,
    Lab,
    RecorderError,
    Snippet,
    find,
    interpreted,
    labs,
    recorded,
    relative,
    snippets,
    triton_of,
)
from recorder.rename import rename
from recorder.replay import replay, replay_on_gpu


class Progress:
    """One line that changes on a terminal; one line a step in a log."""

    def __init__(self):
        self.live = sys.stderr.isatty()

    def step(self, title):
        self.title, self.start = title, time.monotonic()
        if not self.live:
            print(title, file=sys.stderr, flush=True)

    def __call__(self, text=""):
        if self.live:
            line = f"{self.title}  {time.monotonic() - self.start:3.0f} s  {text}"
            print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)

    def done(self, text):
        start = "\r\033[K" if self.live else "  "
        title = f"{self.title}  " if self.live else ""
        print(f"{start}{title}{time.monotonic() - self.start:3.0f} s  {text}", file=sys.stderr, flush=True)


def work(names: list[str], everything: bool, stale: bool, devices: list[str]) -> list[tuple[Snippet | Lab, str]]:
    """Return what to run: everything that was named, or what is stale or missing on the devices at hand.

    ``stale`` leaves out what is missing on this machine's GPU alone, while another GPU's recording is fresh.
    """
    every_lab = {script.name: script for script in labs()}
    chosen_labs = [every_lab[name] for name in names if name in every_lab] if names else list(every_lab.values())
    chosen = [find(name) for name in names if name not in every_lab] if names else recorded()
    jobs = []
    for snippet in chosen:
        try:
            needed = _needed(snippet, everything or bool(names), stale, devices)
        except RecorderError:  # its run will say so, and not be the end of the others'
            needed = devices[:1]
        jobs += [(snippet, device) for device in needed]
    if "cpu" in devices:
        for script in chosen_labs:
            if everything or names or lab.status(script) != "fresh":
                jobs.append((script, "cpu"))
    return jobs


def _needed(snippet: Snippet, asked: bool, stale: bool, devices: list[str]) -> list[str]:
    """Return the devices at hand on which a snippet is to run: all that it runs on, if a person asks for it."""
    known, hurt = set(recording.devices(snippet)), _hurt(snippet)
    gpus = {device for device in known if not interpreted(device)}
    if stale and gpus and not gpus & hurt:
        known |= {device for device in devices if not interpreted(device)}  # one fresh recording of a GPU will do
    return [d for d in devices if snippet.runs_on(d) and (asked or d in hurt or d not in known)]


def _hurt(snippet: Snippet) -> set[str]:
    """Return the devices whose recording is at fault."""
    faults = {problem.path for problem in judge.problems(snippet)}
    return {d for d in recording.devices(snippet) if relative(recording.path_of(snippet, d)) in faults}


def _replace(names: list[str], gpu: str) -> None:
    """Remove other GPUs' stale recordings of snippets that are fresh on this GPU: their code is gone."""
    for snippet in [find(name) for name in names if "/labs/" not in name] if names else recorded():
        with contextlib.suppress(RecorderError):  # which its run has said
            faults = {problem.path: problem.fault for problem in judge.problems(snippet)}
            if gpu not in recording.devices(snippet) or gpu in _hurt(snippet):
                continue
            for device in recording.devices(snippet):
                path = recording.path_of(snippet, device)
                if not interpreted(device) and faults.get(relative(path)) == "stale":
                    path.unlink()
                    print(f"removed {relative(path)}: it was stale, and {gpu}.json is fresh", file=sys.stderr)


def _other_tritons() -> list[str]:
    """Return the interpreters of other versions of Triton that readable settings of snippets ask for."""
    interpreters = set()
    for snippet in snippets():
        with contextlib.suppress(RecorderError):
            interpreters |= {f"{OTHER_TRITON}{version}" for version in snippet.settings.triton}
    return sorted(interpreters)


def run(options) -> int:
    available = runner.machine_devices()
    if not available:
        raise RecorderError("running snippets takes torch and Triton; get them by: pip install -r requirements.txt")
    gpu = _gpu(available) if options.replace or "gpu" in (options.device or []) else None
    devices = [gpu if device == "gpu" else device for device in options.device or [*available, *_other_tritons()]]
    if missing := {device for device in devices if not triton_of(device)} - set(available):
        raise RecorderError(f"this machine has no {', '.join(missing)}; it has {', '.join(available)}")
    jobs = work(options.names, options.all, options.stale, devices)
    if not jobs:
        print("Nothing is stale.", file=sys.stderr)
    progress, failed = Progress(), []
    for number, (job, device) in enumerate(jobs, start=1):
        progress.step(f"[{number}/{len(jobs)}] {job.name} on {device}")
        try:
            if isinstance(job, Lab):
                lab.build(job, job.notebook, timeout=options.time_limit)
                progress.done(f"wrote {relative(job.notebook)}")
            elif runner.update(job, device, time_limit=options.time_limit, progress=progress):
                progress.done(f"wrote {relative(recording.path_of(job, device))}")
            else:
                progress.done("as before")
        except (RecorderError, OSError) as error:  # such as a full disk: the next may be smaller
            failed.append(job.name)
            progress.done(f"FAILED: {error}")
    if options.replace:
        _replace(options.names, gpu)
    if failed:
        if not all(map(interpreted, devices)):
            _print_missing_tools()
        print(f"{len(failed)} failed, their old recordings are unchanged: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def _gpu(available: list[str]) -> str:
    """Return this machine's GPU as recordings spell it. Raise ``RecorderError`` if there is none."""
    for device in available:
        if not interpreted(device):
            return device
    raise RecorderError("this machine has no GPU that torch can use; why: python snippets/start/install.py")


def _print_missing_tools() -> None:
    for line in tools.missing():
        print(line, file=sys.stderr)


def check(options) -> int:
    problems, stopped = judge.all_problems(), False
    again = iter(())
    if options.replay == "gpu" and not problems:
        gpu = _gpu(runner.machine_devices())
        again = replay_on_gpu(gpu, 60 * options.minutes, options.seed, Progress(), lambda line: print(line, flush=True))
    elif options.replay and not problems:
        again = replay(Progress())
    try:
        for problem in again:
            problems.append(problem)
    except KeyboardInterrupt:
        stopped = True
    if options.replay == "gpu" and problems:
        _print_missing_tools()
    if stopped:
        print("\nStopped before everything was run again.", "So far:" if problems else "So far all is as recorded.")
    for problem in problems:
        print(problem)
    counted = f"{len(problems)} problem{'s' * (len(problems) > 1)}."
    if problems or not stopped:
        print(counted if problems else "Every recording is of the code as it stands.")
    return 130 if stopped else bool(problems)


def measure(options) -> int:
    """Measure a snippet again on this machine's GPU, and print each number as recorded, as it is now, and its name."""
    snippet, gpu = find(options.name), _gpu(runner.machine_devices())
    recorded = recording.load(snippet, gpu)
    for number in timing.numbers(recorded, runner.record(snippet, gpu)):
        print(f"{number.before}\t{number.now}\t{number.name}", flush=True)
    return 0


def begin(options) -> int:
    print(new(options.name))
    return 0


def number(options) -> int:
    print(f"The menu in mkdocs.yml numbers {menu.number()} lessons; next: python -m render check")
    return 0


def move(options) -> int:
    for path in rename(options.old, options.new):
        print(f"changed {path}", file=sys.stderr)
    print(f"{options.old} is {options.new} now; read `git diff`, then: python -m render check", file=sys.stderr)
    return 0


def show(options) -> int:
    for snippet in recorded():
        try:
            faults = {problem.path: problem.fault for problem in judge.problems(snippet)}
        except RecorderError as error:
            print(f"{snippet.name:32} {error}")
            continue
        for device in recording.devices(snippet):
            state = faults.get(relative(recording.path_of(snippet, device)), "fresh")
            made = None if state == "unreadable" else recording.load(snippet, device).provenance
            print(f"{snippet.name:32} {device:16} {state:10}" + (f" {made.date}  Triton {made.triton}" if made else ""))
        if not recording.devices(snippet):
            print(f"{snippet.name:32} {'-':16} missing")
    for script in labs():
        print(f"{script.name:32} {'cpu':16} {lab.status(script)}")
    return 0


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recorder", description="Run snippets and keep what they produced.")
    commands = parser.add_subparsers(required=True, metavar="run | check | measure | new | number | rename | list")
    runs = commands.add_parser("run", help="run what is stale, or what is named, on the devices that this machine has")
    runs.add_argument("names", nargs="*", metavar="NAME", help="such as programs/vector_add")
    runs.add_argument("--all", action="store_true", help="run everything, stale or not")
    runs.add_argument("--stale", action="store_true", help="not what this GPU lacks while another's recording is fresh")
    runs.add_argument("--replace", action="store_true", help="then remove other GPUs' stale recordings of the same")
    runs.add_argument("--device", action="append", help="only on this device, `gpu` for this GPU; may be given again")
    runs.add_argument("--time-limit", type=float, default=runner.TIME_LIMIT, metavar="SECONDS", help="for each snippet")
    runs.set_defaults(do=run)
    checks = commands.add_parser(
        "check", help="say what is stale, missing, edited or orphaned; exit status 1 if anything is"
    )
    checks.add_argument(
        "--replay", nargs="?", const="cpu", choices=["cpu", "gpu"],
        help="also run everything on the CPU again and compare; or on this GPU, and measure a sample again",
    )  # fmt: skip
    checks.add_argument(
        "--minutes", type=float, default=10, help="with `--replay gpu`: the time for that sample; 10, if left out"
    )
    checks.add_argument("--seed", type=int, default=0, help="with `--replay gpu`: another sample; 0, if left out")
    checks.set_defaults(do=check)
    measures = commands.add_parser("measure", help="measure a snippet again on this GPU, beside what is recorded of it")
    measures.add_argument("name", metavar="NAME", help="such as gpu/loads")
    measures.set_defaults(do=measure)
    begins = commands.add_parser("new", help="begin a lesson: snippet, test and page that run, and what to do next")
    begins.add_argument("name", metavar="NAME", help="such as programs/saxpy")
    begins.set_defaults(do=begin)
    numbers = commands.add_parser("number", help="number the lessons in the order in which the menu has them")
    numbers.set_defaults(do=number)
    moves = commands.add_parser("rename", help="give a snippet another name, in all places; what was recorded stays")
    moves.add_argument("old", metavar="OLD", help="such as programs/vector_add")
    moves.add_argument("new", metavar="NEW")
    moves.set_defaults(do=move)
    commands.add_parser("list", help="show all recordings").set_defaults(do=show)
    options = parser.parse_args(arguments)
    try:
        return options.do(options)
    except RecorderError as error:
        print(f"recorder: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. Recordings that were not finished are as they were.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as by Ctrl-C: the snippet must not run on
    sys.exit(main())
