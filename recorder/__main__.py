# SPDX-License-Identifier: Apache-2.0
"""``python -m recorder run | check | draw | new | rename | list``: see ``--help``."""

import argparse
import contextlib
import signal
import sys
import time

from recorder import judge, lab, recording, runner
from recorder.new import new
from recorder.project import OTHER_TRITON, Lab, RecorderError, Snippet, find, labs, mend, relative, snippets, triton_of
from recorder.rename import rename
from recorder.replay import replay


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


def work(names: list[str], everything: bool, devices: list[str]) -> list[tuple[Snippet | Lab, str]]:
    """What to run: everything that was named, or what is stale or missing on the devices at hand."""
    every_lab = {script.name: script for script in labs()}
    chosen_labs = [every_lab[name] for name in names if name in every_lab] if names else list(every_lab.values())
    chosen = [find(name) for name in names if name not in every_lab] if names else snippets()
    jobs = []
    for snippet in chosen:
        try:
            needed = _needed(snippet, everything or bool(names), devices)
        except RecorderError:  # its run will say so, and not be the end of the others'
            needed = devices[:1]
        jobs += [(snippet, device) for device in needed]
    if "cpu" in devices:
        for script in chosen_labs:
            if everything or names or lab.status(script) != "fresh":
                jobs.append((script, "cpu"))
    return jobs


def _needed(snippet: Snippet, asked: bool, devices: list[str]) -> list[str]:
    """The devices at hand on which a snippet is to run: all that it runs on, if a person asks for it."""
    stale = [problem.path for problem in judge.problems(snippet)]
    paths = {device: recording.path_of(snippet, device) for device in devices if snippet.runs_on(device)}
    hurt = lambda path: any(fault.startswith(relative(path).removesuffix("json")) for fault in stale)
    return [device for device, path in paths.items() if asked or not path.is_file() or hurt(path)]


def _other_tritons() -> list[str]:
    """The interpreters of other versions of Triton that snippets ask for, where their settings can be read."""
    found = set()
    for snippet in snippets():
        with contextlib.suppress(RecorderError):
            found |= {f"{OTHER_TRITON}{version}" for version in snippet.settings.triton}
    return sorted(found)


def run(options) -> int:
    available = runner.machine_devices()
    if not available:
        raise RecorderError("running snippets takes torch and Triton; get them by: pip install -r requirements.txt")
    devices = options.device or [*available, *_other_tritons()]
    if missing := {device for device in devices if not triton_of(device)} - set(available):
        raise RecorderError(f"this machine has no {', '.join(missing)}; it has {', '.join(available)}")
    jobs = work(options.names, options.all, devices)
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
    if failed:
        print(f"{len(failed)} failed, their old recordings are unchanged: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def check(options) -> int:
    problems = judge.all_problems()
    if options.replay and not problems:
        problems = replay(Progress())
    for problem in problems:
        print(problem)
    counted = f"{len(problems)} problem{'s' * (len(problems) > 1)}."
    print(counted if problems else "Every recording is of the code as it stands.")
    return bool(problems)


def draw(options) -> int:
    """Draw charts again, from the numbers as recorded: a mended or a new style of charts needs no GPU."""
    for snippet in map(find, options.names) if options.names else snippets():
        for device in recording.devices(snippet):
            drawn = runner.draw_charts(recording.load(snippet, device))
            if drawn != recording.charts(snippet, device):
                if not recording.as_written(snippet, device):
                    path = relative(recording.path_of(snippet, device))
                    raise RecorderError(f"{path} was edited by hand; make it anew with: {mend(snippet.name, device)}")
                recording.save(recording.load(snippet, device), drawn)
                print(f"drew the charts of {relative(recording.path_of(snippet, device))}", file=sys.stderr)
    return 0


def begin(options) -> int:
    print(new(options.name))
    return 0


def move(options) -> int:
    for path in rename(options.old, options.new):
        print(f"changed {path}", file=sys.stderr)
    print(f"{options.old} is {options.new} now; read `git diff`, then: python -m render check", file=sys.stderr)
    return 0


def show(options) -> int:
    for snippet in snippets():
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
    commands = parser.add_subparsers(required=True, metavar="run | check | draw | new | rename | list")
    runs = commands.add_parser("run", help="run what is stale, or what is named, on the devices that this machine has")
    runs.add_argument("names", nargs="*", metavar="NAME", help="such as programs/vector_add")
    runs.add_argument("--all", action="store_true", help="run everything, stale or not")
    runs.add_argument("--device", action="append", help="only on this device; may be given again")
    runs.add_argument("--time-limit", type=float, default=runner.TIME_LIMIT, metavar="SECONDS", help="for each snippet")
    runs.set_defaults(do=run)
    checks = commands.add_parser(
        "check", help="say what is stale, missing, edited or orphaned; exit status 1 if anything is"
    )
    checks.add_argument("--replay", action="store_true", help="also run everything on the CPU again and compare")
    checks.set_defaults(do=check)
    draws = commands.add_parser("draw", help="draw the charts of recordings again, from the numbers that were recorded")
    draws.add_argument("names", nargs="*", metavar="NAME", help="such as programs/vector_add; everything, if left out")
    draws.set_defaults(do=draw)
    begins = commands.add_parser("new", help="begin a lesson: snippet, test and page that run, and what to do next")
    begins.add_argument("name", metavar="NAME", help="such as programs/saxpy")
    begins.set_defaults(do=begin)
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
