# SPDX-License-Identifier: Apache-2.0
"""Plant faults in every kernel and host function of ``snippets/`` and report which ones the tests do not catch.

``python -m tests.mutants [NAME…] [--host | --kernels] [--of FUNCTION] [--fast] [--list] [--jobs N]``; a NAME is the
beginning of a snippet's, such as ``programs/`` or ``tools/testing``. Exits with 1 if the tests catch less than 95 % of
the faults of a kernel, or less than 80 % of those of a snippet's host functions: those that launch kernels, and what
they call.

Which tests: those of the snippet's own test file and its entries in ``tests/snippets/test_contract.py`` that run the
function, in Triton's interpreter, quickest first. A lab has no test file; there, a fault in a kernel is caught when the
script fails, or prints or touches something else than before.

How: pytest collects a test file once. Then the process forks for each mutant; the child puts the faulty kernel in the
place of the sound one, inside of the same kernel object, or the faulty code inside of the same function, so that
everyone who imported it has it, and runs the tests until one fails. A child that crashes or takes far too long has been
caught too.

A survivor that nothing in the interpreter could catch is explained in ``mutants_explained.toml``, and then not counted.
Where a GPU can, the table says ``gpu = true``. ``python -m tests.mutants --gpu [NAME…]`` plants those faults on a
machine with a GPU, runs the tests that are marked gpu, and writes its verdicts into the table.
"""

import argparse
import ast
import collections
import contextlib
import gc
import importlib
import inspect
import json
import multiprocessing
import os
import re
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest

from tests.planting import Mutant, few_mutants, host_mutants, kernels, mutants
from tests.quick import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
ENOUGH = 0.95
ENOUGH_OF_HOSTS = 0.8  # much of them is about GPUs that nobody here has, limits that nobody reaches, and speed
UNTRIED = "run by no test"
STDERR = os.dup(2)
CONTRACT = ROOT / "tests/snippets/test_contract.py"
MEMORY = 64 * 2**30  # bytes for one process, touched or not: a fault in the size of a buffer is not to take any number
A_TEST = 15  # seconds of processor for one test of a fast run: what waits for ever is not to do so for a minute
FAST = ("mask dropped", "comparison", "neighbor", "axis", "arithmetic", "constant", "statement deleted")


# One file and its mutants, in a process of its own


class Job(NamedTuple):
    path: Path
    planted: list[Mutant]
    fast: bool = False  # only a few, and quickly
    gpu: bool = False  # compiled, by the tests marked gpu


class PlantInTests:
    """A pytest plugin: instead of running the tests once, runs them for each mutant."""

    def __init__(self, planted: list[Mutant], module: str, fast: bool, gpu: bool = False):
        self.planted, self.module, self.fast, self.gpu = planted, module, fast, gpu
        self.failed = self.outcomes = self.current = self.report = self.caught_by = None
        self.memory = resource.RLIM_INFINITY if gpu else MEMORY  # CUDA reserves far more than it takes
        self.seconds_of = {}  # without any fault, by test
        self.seconds, self.kernels = collections.Counter(), collections.defaultdict(set)  # by test

    def pytest_collection(self):
        quick = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a smaller example is no better news
        parent = hypothesis.settings.get_profile("tests")
        examples = 5 if self.fast else EXAMPLES  # the fast part is to be quick; fewer only catch less
        hypothesis.settings.register_profile(
            "mutants", parent, derandomize=True, database=None, phases=quick, max_examples=examples
        )
        hypothesis.settings.load_profile("mutants")
        skip_other_pythons()

    def pytest_collection_modifyitems(self, items):
        """Leave out what the contract says of other modules."""
        hosts = [item.callspec.params.get("host") if hasattr(item, "callspec") else None for item in items]
        modules = [getattr(getattr(host, "function", None), "__module__", self.module) for host in hosts]
        items[:] = [item for item, module in zip(items, modules, strict=True) if module == self.module]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        if session.testsfailed or not session.items:
            self.failed = "its tests cannot be collected"
            return True
        if self.fast:  # whether they pass without a fault is for those who run them
            items = one_of_each_first(session.items)
            self.outcomes = [in_child(lambda m=m: self.try_mutant(m, items), 60) for m in self.planted]
            return True
        with tempfile.NamedTemporaryFile() as report:
            if in_child(lambda: self.baseline(session.items, Path(report.name)), 600, self.memory) != "survived":
                self.failed = f"its tests fail without any fault: {Path(report.name).read_text()}"
                return True
            seconds, kernels, imported = json.loads(Path(report.name).read_text())
        for name in imported:  # here, or each child would: which may take longer than its tests, and count as caught
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self.seconds_of = seconds
        ran = sorted((item for item in session.items if item.nodeid in seconds), key=lambda item: seconds[item.nodeid])
        rest = [item for item in session.items if item.nodeid not in seconds]
        self.outcomes = []
        for mutant in self.planted:
            chosen = [item for item in ran if mutant.kernel in kernels[item.nodeid]] + rest
            limit = 30 if rest else (60 if self.gpu else 5) + 3 * sum(seconds[item.nodeid] for item in chosen)
            with tempfile.NamedTemporaryFile() as caught_by:
                self.caught_by = Path(caught_by.name)
                tries = lambda m=mutant, c=chosen: self.try_mutant(m, c)
                outcome = in_child(tries, limit, self.memory) if chosen else UNTRIED if self.gpu else "survived"
                by = self.caught_by.read_text()
            self.outcomes.append(f"{outcome} by {by}" if by and self.gpu else outcome)
            if outcome == "survived":  # said at once: the report comes after the last of the file, perhaps in an hour
                tell(f"{self.module}:{mutant.line} {mutant.kernel}, {mutant.fault}: survived the tests")
        return True

    def try_mutant(self, mutant, items):
        self.report = None
        plant(importlib.import_module(self.module), mutant.kernel, mutant.source)
        spare = 20 if self.gpu else A_TEST if self.fast else 3
        run(items, self.seconds_of, spare, unknown=0 if self.fast else None)

    def baseline(self, items, report):
        """Replace each function by itself, and write down how long each test takes and which of them it runs."""
        module, planted = importlib.import_module(self.module), {mutant.kernel for mutant in self.planted}
        self.report, source = report, Path(module.__file__).read_text("utf-8")
        jitted = {kernel.name for kernel in kernels(ast.parse(source))}
        for name in planted & jitted:
            plant(module, name, source)
        for name in planted - jitted:
            plant(module, name, source, lambda name=name: self.kernels[self.current].add(name))
        note_kernels(lambda fn: fn.__module__ == self.module and self.kernels[self.current].add(fn.__name__), self.gpu)
        before = set(sys.modules)
        for item, following in zip_longest(items, items[1:]):
            for cached in (value for value in vars(module).values() if hasattr(value, "cache_clear")):
                cached.cache_clear()  # else only the first test would be seen to run it
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.kernels[item.nodeid] &= planted
        kernels_of = {test: list(seen) for test, seen in self.kernels.items()}
        imported = [name for name in sys.modules if name not in before and name.partition(".")[0] in ("sympy", "torch")]
        self.report.write_text(json.dumps([self.seconds, kernels_of, imported]))

    def pytest_runtest_logstart(self, nodeid):
        self.current = nodeid

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            if self.report:
                self.report.write_text(f"{report.nodeid}\n{report.longreprtext[-2000:]}")
            elif self.caught_by:
                self.caught_by.write_text(report.nodeid.rpartition("::")[2])
            os._exit(1)


def tell(news: str) -> None:
    """Write to the standard error of the whole run; that of a file's process goes into its log."""
    os.write(STDERR, f"{news}\n".encode())


def one_of_each_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Sort the first case of each test before all second ones, and so on: one fails sooner than the last of many.

    Examples that Hypothesis makes up come last.
    """
    number, cases = {}, collections.Counter()
    for item in items:
        number[item] = cases[item.obj]
        cases[item.obj] += 1
    return sorted(items, key=lambda item: (hasattr(item.obj, "hypothesis"), number[item]))


def note_kernels(note, gpu: bool) -> None:
    """From now on, call ``note`` with the function of each kernel that runs, and of those that it calls."""
    if gpu:
        from triton.runtime.jit import JITFunction

        launch = JITFunction.run

        def run_and_note(kernel, *args, **options):
            seen, found = set(), [kernel]
            while found:  # a compiled kernel calls others inside of its own code: look for their names
                seen.add(fn := found.pop().fn)
                called = [fn.__globals__.get(name) for name in fn.__code__.co_names]
                found += [other for other in called if isinstance(other, JITFunction) and other.fn not in seen]
            for fn in seen:
                note(fn)
            return launch(kernel, *args, **options)

        JITFunction.run = run_and_note
        return

    from triton.runtime.interpreter import InterpretedFunction, ReduceScanOpInterface

    rewrite, begin = InterpretedFunction.rewrite, ReduceScanOpInterface.__init__

    def rewrite_and_note(kernel):
        note(kernel.fn)
        return rewrite(kernel)

    def begin_and_note(operation, axis, combine, *rest):  # a reduction or a scan calls it without rewriting it
        note(combine.fn)
        begin(operation, axis, combine, *rest)

    InterpretedFunction.rewrite, ReduceScanOpInterface.__init__ = rewrite_and_note, begin_and_note


def skip_other_pythons():
    """Skip tests when they start Python: the new process would import the sound kernel, so it cannot catch anything."""
    start = subprocess.Popen.__init__

    def start_or_skip(process, command, *rest, **options):
        if not isinstance(command, str) and str(command[0]) == sys.executable:
            pytest.skip("the fault is in this process only")
        start(process, command, *rest, **options)

    subprocess.Popen.__init__ = start_or_skip


def run(items, seconds_of, spare=3, unknown=None):
    """``unknown``: seconds of a test whose time nobody knows; as many as there are, unless told."""
    for item, following in zip_longest(items, items[1:]):
        _, most = resource.getrlimit(resource.RLIMIT_CPU)  # for all tests; what never ends shows in its first one
        limit = time.process_time() + spare + 5 * seconds_of.get(item.nodeid, most if unknown is None else unknown)
        resource.setrlimit(resource.RLIMIT_CPU, (min(round(limit), most), most))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def plant(module, name: str, source: str, first=None) -> None:
    """Make the module's kernel or function that of another source, wherever it has been imported.

    A function, not a kernel, calls ``first`` before it does anything, and so do the functions that it makes. Those that
    were made when its file was imported, by ``register(made(2))`` or a loop of such calls, are made again.
    """
    file = Path(tempfile.mkdtemp()) / "mutant.py"  # Triton reads a kernel's source from its file
    file.write_text(source, "utf-8")
    tree = ast.parse(source)
    is_kernel = name in {kernel.name for kernel in kernels(tree)}
    calls = [statement for statement in tree.body if isinstance(statement, ast.Expr | ast.For)]
    calls = [c for c in calls if name in {node.id for node in ast.walk(c) if isinstance(node, ast.Name)}]
    tree.body = [node for node in tree.body if getattr(node, "name", None) == name]
    if not is_kernel:
        tree.body[-1].decorator_list = []  # the cache of a cached function stays
    if first:
        vars(module)[f"note_{name}"] = first
        for function in [node for node in ast.walk(tree.body[-1]) if isinstance(node, ast.FunctionDef)]:
            function.body[:0] = ast.parse(f"note_{name}()").body
    namespace = {}
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), vars(module), namespace)
    if is_kernel:
        kernel = getattr(module, name)
        vars(kernel).clear()
        vars(kernel).update(vars(namespace[name]))
        if hasattr(kernel, "create_binder"):  # of a compiled one, which would set up the other object
            kernel.device_caches = collections.defaultdict(kernel.create_binder)
        return
    sound, faulty = inspect.unwrap(getattr(module, name)), namespace[name]
    sound.__code__, sound.__defaults__, sound.__kwdefaults__ = (
        faulty.__code__, faulty.__defaults__, faulty.__kwdefaults__
    )  # fmt: skip
    getattr(getattr(module, name), "cache_clear", int)()
    exec(compile(ast.Module(calls, []), module.__file__, "exec"), vars(module))


def run_lab(source: str, output: Path):
    """Run a lab's source and write what it prints to ``output``."""
    folder = Path(tempfile.mkdtemp())
    (folder / "lab.py").write_text(source, "utf-8")
    os.chdir(folder)
    from recorder.trace import Launches  # which imports Triton

    with output.open("w") as file, contextlib.redirect_stdout(file), Launches() as launches:
        runpy.run_path(folder / "lab.py", run_name="__main__")
        print(launches.seen)


def plant_in_lab(source: str, planted: list[Mutant], fast: bool) -> tuple[str | None, list[str]]:
    first, again, output = (Path(tempfile.mkdtemp()) / "output" for _ in range(3))
    if fast:
        again = first
    for file in {first, again}:
        if in_child(lambda file=file: run_lab(source, file), 300) != "survived":
            return "it fails without any fault", []
    if first.read_text() != again.read_text():
        return "it prints something else each time", []

    def outcome(mutant):
        found = in_child(lambda: run_lab(mutant.source, output), 60)
        return "caught" if found == "survived" and output.read_text() != first.read_text() else found

    return None, [outcome(mutant) for mutant in planted]


def in_child(work, seconds: float, memory: int = MEMORY) -> str:
    """Run ``work()`` in a fork of this process: "survived" if it returned, "caught", or "too slow"."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds)))
            resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.RLIM_INFINITY))
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 10 * seconds  # of the clock; a child that waits for something uses no time of the CPU
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)
    if os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) in (signal.SIGXCPU, signal.SIGKILL):
        return "too slow"
    return "caught" if ended[1] else "survived"


def try_file(job: Job) -> tuple[str | None, list[str]]:
    """Return what kept the mutants of a file from being tried, or None, and the outcome of each."""
    path, planted, fast, gpu = job
    source = path.read_text("utf-8")
    is_lab = path.parent.name == "labs"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        tempfile.tempdir = folder  # whose children leave theirs behind
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        if is_lab:
            failed, outcomes = plant_in_lab(source, planted, fast)
        else:
            name = path.relative_to(ROOT).with_suffix("")
            tests = ROOT / "tests" / name.parent / f"test_{name.name}.py"
            if not tests.exists():
                return f"there is no {tests.relative_to(ROOT)}", []
            plugin = PlantInTests(planted, ".".join(name.parts), fast, gpu)
            files = [str(tests), *([] if fast or gpu else [str(CONTRACT)])]
            options = ["-q", "-p", "no:cacheprovider", "--tb=native", "--rootdir", str(ROOT)]
            options += ["-m", "gpu"] if gpu else []
            pytest.main([*files, *options], plugins=[plugin])
            failed, outcomes = plugin.failed, plugin.outcomes
            tell(f"{'.'.join(name.parts)}: {len(outcomes or [])} of its mutants tried by one process")
        log.seek(0)
        return (f"{failed or ''}\n{log.read()[-3000:]}" if failed or outcomes is None else None), outcomes or []


# All files


def pieces(jobs: list[Job], at_a_time: int, fewest: int = 40) -> list[tuple[Job, range]]:
    """What one process does of each job, and which of its mutants: several processes for a large file, else all wait
    for it.

    ``fewest``: mutants that are worth another process, which has to run the tests without a fault first.

    >>> jobs = [Job(Path("a"), [1, 2, 3, 4, 5]), Job(Path("b"), [6])]
    >>> [(piece.planted, list(numbers)) for piece, numbers in pieces(jobs, 2, fewest=2)]
    [([1, 3, 5], [0, 2, 4]), ([2, 4], [1, 3]), ([6], [0])]
    """
    share = max(fewest, sum(len(job.planted) for job in jobs) / at_a_time / 4)
    found = []
    for job in jobs:
        step = max(1, min(at_a_time, round(len(job.planted) / share)))
        found += [(job._replace(planted=job.planted[i::step]), range(i, len(job.planted), step)) for i in range(step)]
    return found


def tried(piece):
    job, numbers = piece
    return job.path, numbers, *try_file(job)


def is_interpreted(path: Path) -> bool:
    """All but a lab that wants to compile."""
    return path.parent.name != "labs" or 'os.environ["TRITON_INTERPRET"] = "1"' in path.read_text("utf-8")


def all_tried(jobs: list[Job], at_a_time: int):
    """Yield each job and what ``try_file`` returns for it, from forks of this process, which imports what they need."""
    # Threads do not survive a fork, and with as many in each process, small products take minutes: which would count as
    # caught. So nothing above may import NumPy, which looks at this when it is imported.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # nor does CUDA: only children may begin to use it
    os.environ.pop("TRITON_INTERPRET", None)
    import torch  # noqa: F401  here, so that no other process has to

    gc.freeze()
    for interpreted in (False, True):
        if interpreted and any(not job.gpu for job in jobs):
            # Triton reads this when it is imported, so what compiles was forked before
            os.environ["TRITON_INTERPRET"] = "1"
            import triton  # noqa: F401
        chosen = [job for job in jobs if (is_interpreted(job.path) and not job.gpu) == interpreted]
        if not chosen:
            continue
        job_of = {job.path: job for job in chosen}
        outcomes_of = {job.path: [None] * len(job.planted) for job in chosen}
        cut = pieces(chosen, at_a_time)
        failures, left = {}, collections.Counter(piece.path for piece, _ in cut)
        with multiprocessing.get_context("fork").Pool(at_a_time, maxtasksperchild=1) as pool:
            for path, numbers, failed, outcomes in pool.imap_unordered(tried, cut):
                failures[path] = failures.get(path) or failed
                for number, outcome in zip(numbers, outcomes, strict=not failed):
                    outcomes_of[path][number] = outcome
                left[path] -= 1
                if not left[path]:
                    yield job_of[path], failures[path], outcomes_of[path]


def files(names: list[str]) -> list[Path]:
    found = [path for path in sorted((ROOT / "snippets").rglob("*.py")) if not path.stem.endswith("_bug")]
    return [p for p in found if not names or p.relative_to(ROOT / "snippets").as_posix().startswith(tuple(names))]


def snippet_name(path: Path) -> str:
    return path.relative_to(ROOT / "snippets").with_suffix("").as_posix()


class Explanations(dict):
    """Why a survivor is none, by snippet, function and diff, which is empty where it goes for the whole function."""

    def __init__(self, path: Path):
        entries = tomllib.loads(path.read_text("utf-8")).get("mutant", []) if path.exists() else []
        self.for_gpu = {_key(e) for e in entries if e.get("gpu")}
        super().__init__({_key(e): _reason(e) for e in entries if not e.get("verdict", "").startswith("survived")})

    def of(self, name: str, mutant: Mutant) -> tuple | None:
        """The key of what explains a mutant."""
        return next((key for d in (mutant.diff, ()) if (key := (name, mutant.kernel, d)) in self), None)

    def left_to_gpu(self, name: str, mutant: Mutant) -> tuple | None:
        """The key of the entry that leaves it to a GPU to tell."""
        return next((key for d in (mutant.diff, ()) if (key := (name, mutant.kernel, d)) in self.for_gpu), None)


def _key(entry: dict) -> tuple:
    return entry["snippet"], entry["kernel"], tuple(entry.get("diff", ()))


def _reason(entry: dict) -> str:
    return entry["why"] + (f" ({entry.get('verdict', 'not yet tried on a GPU')})" if entry.get("gpu") else "")


def with_verdicts(table: str, verdicts: dict[tuple, str]) -> str:
    """The text of the table of explanations with what a GPU said, by the key of the entry.

    >>> print(with_verdicts('[[mutant]]\\nsnippet = "a"\\nkernel = "b"\\ngpu = true\\n', {("a", "b", ()): "caught"}))
    [[mutant]]
    snippet = "a"
    kernel = "b"
    gpu = true
    verdict = "caught"
    <BLANKLINE>
    """
    first, *entries = re.split(r"^\[\[mutant\]\]\n", table, flags=re.M)  # the heading shows one in a comment
    for i, entry in enumerate(entries):
        if verdict := verdicts.get(_key(tomllib.loads(entry))):
            lines = [line for line in entry.splitlines(keepends=True) if not line.startswith("verdict = ")]
            after = next(at for at, line in enumerate(lines, 1) if line.startswith("gpu = "))
            lines.insert(after, f"verdict = {json.dumps(verdict, ensure_ascii=False)}\n")
            entries[i] = "".join(lines)
    return "[[mutant]]\n".join([first, *entries])


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a snippet's name; default: all")
    parser.add_argument("--fast", action="store_true", help="only two faults a file, in kernels")
    parser.add_argument("--host", action="store_true", help="only faults in host functions")
    parser.add_argument("--kernels", action="store_true", help="only faults in kernels")
    parser.add_argument("--of", metavar="FUNCTION", help="only faults in kernels or host functions of this name")
    parser.add_argument("--gpu", action="store_true", help=f"on a GPU, those that {EXPLAINED.name} leaves to one")
    parser.add_argument("--list", action="store_true", help="only show the faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options = parser.parse_args(arguments)

    explained, jobs = Explanations(EXPLAINED), []
    for path in files(options.names):
        source, name = path.read_text("utf-8"), snippet_name(path)
        if options.host:
            planted = []
        elif options.fast:
            planted = few_mutants(source, FAST, lambda mutant, name=name: explained.of(name, mutant))
        else:
            planted = mutants(source)
        if not (options.kernels or options.fast or path.parent.name == "labs"):
            planted += host_mutants(source)
        if options.of:
            planted = [mutant for mutant in planted if mutant.kernel == options.of]
        if options.gpu:
            planted = [mutant for mutant in planted if explained.left_to_gpu(name, mutant)]
        if planted:
            jobs.append(Job(path, planted, options.fast, options.gpu))
        if options.list:
            for mutant in planted:
                place = f"{name}:{mutant.line} {mutant.kernel}"
                print(f"{place}, {mutant.fault}", *mutant.diff, sep="\n    ")
    if not jobs:
        parser.error("no kernel or host function has such a name")
    if options.list:
        return 0

    jobs.sort(key=lambda job: -len(job.planted))
    if options.gpu:
        return ask_a_gpu(jobs, options.jobs, explained)
    only_some = options.names or options.host or options.kernels or options.of
    used, unneeded, enough = set(), set(explained) if not only_some else set(), True
    for (path, planted, *_), failed, outcomes in all_tried(jobs, options.jobs):
        name = snippet_name(path)
        unneeded |= {explained.of(name, mutant) for mutant in planted} - {None}
        if failed:
            enough = False
            print(f"{name}: {failed.strip()}", flush=True)
            continue
        survived = 0
        for kernel in dict.fromkeys(mutant.kernel for mutant in planted):
            results = [(m, outcome) for m, outcome in zip(planted, outcomes, strict=True) if m.kernel == kernel]
            left, host = report(name, kernel, results, explained, used), results[0][0].host
            survived += left * host
            enough &= host or left <= (1 - ENOUGH) * len(results)
        if of := sum(mutant.host for mutant in planted):  # together: many a host function has few lines
            few_left = survived <= (1 - ENOUGH_OF_HOSTS) * of
            enough &= few_left
            said = f" (enough: {ENOUGH_OF_HOSTS:.0%})" if few_left else f": LESS THAN {ENOUGH_OF_HOSTS:.0%}"
            print(f"{name}, host functions: {of - survived} of {of} faults caught or explained{said}", flush=True)
    unneeded -= used
    for name, kernel, diff in () if options.fast else unneeded:
        print(f"{name}, {kernel}: {EXPLAINED.name} explains what does not survive:", *diff, sep="\n    ")
    return int(not enough or bool(unneeded and not options.fast))


def report(name, kernel, results, explained, used) -> int:
    """Print what became of the mutants of a kernel or function; return how many survived without an explanation."""
    survivors = [mutant for mutant, outcome in results if outcome == "survived"]
    keys = {mutant: explained.of(name, mutant) for mutant in survivors}
    used |= set(keys.values())
    reasons = sum(key is not None for key in keys.values())
    enough = results[0][0].host or len(survivors) - reasons <= (1 - ENOUGH) * len(results)
    slow = sum(outcome == "too slow" for _, outcome in results)
    print(
        f"{name}, {kernel}: {len(results) - len(survivors)} of {len(results)} faults caught"
        + (f", {slow} of them by the time limit" if slow else "")
        + (f", {reasons} explained" if reasons else "")
        + ("" if enough else f": LESS THAN {ENOUGH:.0%}")
    )
    for mutant in survivors:
        print(f"  survived: line {mutant.line}, {mutant.fault}", *mutant.diff, sep="\n    ")
        if keys[mutant]:
            print(f"    explained: {explained[keys[mutant]]}")
    sys.stdout.flush()
    return len(survivors) - reasons


def ask_a_gpu(jobs: list[Job], at_a_time: int, explained: Explanations) -> int:
    """Run the mutants compiled, print what became of each, and write it into the table."""
    outcomes_of, failures = collections.defaultdict(list), 0
    for (path, planted, *_), failed, outcomes in all_tried(jobs, at_a_time):
        name = snippet_name(path)
        if failed:
            failures += 1
            print(f"{name}: {failed.strip()}", flush=True)
            continue
        for mutant, outcome in zip(planted, outcomes, strict=True):
            outcomes_of[explained.left_to_gpu(name, mutant)].append(outcome)
            print(f"{name}, {mutant.kernel}: {outcome}", *mutant.diff, sep="\n    ", flush=True)
    import torch
    import triton

    where = f"{torch.cuda.get_device_name()}, Triton {triton.__version__}" if torch.cuda.is_available() else "no GPU"
    verdicts = {key: f"{verdict(outcomes)} on {where}" for key, outcomes in outcomes_of.items()}
    EXPLAINED.write_text(with_verdicts(EXPLAINED.read_text("utf-8"), verdicts), "utf-8")
    survived = [key for key, text in verdicts.items() if text.startswith(("survived", UNTRIED))]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} entries caught on {where}, written into {EXPLAINED}")
    return int(bool(failures or survived))


def verdict(outcomes: list[str]) -> str:
    """
    >>> verdict(["caught by test_a"]), verdict(["caught by test_a", "survived", "caught by test_b"])
    ('caught by test_a', '2 of 3 caught')
    """
    caught = [outcome for outcome in outcomes if outcome not in ("survived", UNTRIED)]
    if len(outcomes) == 1 or not caught:
        return outcomes[0]
    return f"{len(caught)} of {len(outcomes)} caught"


if __name__ == "__main__":
    sys.exit(main())
