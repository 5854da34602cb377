# SPDX-License-Identifier: Apache-2.0
"""Run many small kernels, each on one feature of Triton, and say of each whether its result is right.

The features stand in a file for each section of the table, ``interpreter_and_gpu_language.py`` and so on. This one
judges a result and runs the features, in a process of their own, which is started anew behind a feature that brought it
down. What is right comes from PyTorch, from plain Python or from the definition of the feature, never from Triton.

Run all sections compiled with ``python interpreter_and_gpu.py`` on a machine with a GPU, or without one in Triton's
interpreter with ``TRITON_INTERPRET=1 python interpreter_and_gpu.py``. In the interpreter they also compile every kernel
for a GPU of compute capability 9.0, which takes none. Choose another Triton by putting its folder first on
``PYTHONPATH``.

Source: the features are those of Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
import triton.language as tl

TIME_LIMIT = 300  # seconds for all features together
TARGET = triton.backends.compiler.GPUTarget("cuda", 90, 32)  # what to compile for without a GPU
REFUSED = "refused"  # what is expected of a kernel that the compiler must not accept
SECTIONS = {
    "language": "The language",
    "looking": "Looking into a kernel",
    "numbers": "Numbers",
    "refused": "What the compiler must refuse",
    "beside": "Lanes and programs side by side",
}
FEATURES = {}  # by the names of their functions, in the order of the table


# --8<-- [start:feature]
@dataclass(frozen=True)
class Feature:
    section: str
    title: str
    run: callable  # takes a device, returns what was got and expected, and perhaps a relative tolerance


def feature(section, title):
    """Enter a function into ``FEATURES``."""

    def enter(run):
        FEATURES[run.__name__] = Feature(section, title, run)
        return run

    return enter


def judge(got, expected=None, tolerance=0.0) -> str:
    """Say in a few words how a result compares with what is right; ``None`` where nothing is.

    >>> judge(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]))
    'differs: got 4 instead of 3, one of 3 values'
    >>> judge(torch.tensor([1.0001]), torch.tensor([1.0]), 1e-3)
    'right'
    """
    if expected is None:
        return f"got {spell(got)}"
    if expected == REFUSED:
        return f"accepted: got {spell(got)}"
    if isinstance(got, str):
        return "right" if got == expected else f"differs: {got}"
    got, expected = values(got), values(expected)
    if got.shape != expected.shape:
        return f"differs: got shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
    wrong = ~torch.isclose(got, expected, rtol=tolerance, atol=0, equal_nan=True)
    if not wrong.any():
        return "right"
    first = got[wrong][0].item(), expected[wrong][0].item()
    digits = next((d for d in (4, 7) if len({f"{value:.{d}g}" for value in first}) == 2), 9)
    spelled = [f"{value:.{digits}g}" if tolerance else number(value, digits) for value in first]  # sums vary by CPU
    told = f"differs: got {spelled[0]} instead of {spelled[1]}"
    many = int(wrong.sum())
    return told if got.numel() == 1 else f"{told}, {'one' if many == 1 else many} of {got.numel()} values"
# --8<-- [end:feature]


def values(tensor) -> torch.Tensor:
    return torch.as_tensor(tensor).detach().cpu().to(torch.float64).flatten()


def number(value: float, digits: int = 7) -> str:
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e12 else f"{value:.{digits}g}"


def spell(got) -> str:
    """Spell up to four values of a tensor, or a text as it is."""
    if isinstance(got, str):
        return got
    texts = map(number, values(got)[:4].tolist())
    return ", ".join(texts) + (", …" if values(got).numel() > 4 else "")


def complaint(error: BaseException) -> str:
    """Return the cause of an error in one line.

    >>> complaint(ValueError("two\\nlines"))
    'ValueError: two'
    """
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = lines[-1] if lines[0].startswith("at ") else lines[0]  # "at 3:4:", the line, what is wrong with it
    told = f"{type(error).__name__}: {re.sub(r' object at 0x[0-9a-f]+', '', text)}".removesuffix(": ")
    return told if len(told) <= 120 else f"{told[:119]}…"


# What sections share


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


def interpreted() -> bool:
    return not isinstance(larger, triton.JITFunction)


def numbers(n, device) -> torch.Tensor:
    """Return ``n`` integers as float32, no two alike and in no order."""
    return ((torch.arange(n) * 5 + 3) % (n + 1)).to(device=device, dtype=torch.float32)


# Running them


def try_out(name, device, compiling=False) -> str:
    """Run a feature, or only compile it, and judge the result; an exception is a result too."""
    try:
        got, expected, *tolerance = FEATURES[name].run(device)
        return "yes" if compiling else judge(got, expected, *tolerance)
    except Exception as error:
        kind = "refused" if compiling or FEATURES[name].section == "refused" else "error"
        return f"{kind}: {complaint(error)}"


class NoGPU:
    """Stands in for the driver of a GPU that is not there: it only says what to compile for."""

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


@contextlib.contextmanager
def compile_only():
    """Let every launch compile its kernel and run nothing."""
    launch = triton.JITFunction.run
    triton.runtime.driver.set_active(NoGPU())
    triton.JITFunction.run = lambda self, *args, warmup, **options: launch(self, *args, warmup=True, **options)
    try:
        yield
    finally:
        triton.JITFunction.run = launch


def child(file: str, compiling: str, *names: str) -> None:
    """Run the features of a section in this process: write a line of JSON before and behind each."""
    device = "cuda" if not interpreted() and not compiling else "cpu"
    with open(file, "a", encoding="utf-8") as results, compile_only() if compiling else contextlib.nullcontext():
        for name in names:
            print(json.dumps([name, None]), file=results, flush=True)
            verdict = try_out(name, device, bool(compiling))
            print(json.dumps([name, verdict]), file=results, flush=True)
            if device == "cuda":
                torch.cuda.synchronize()  # after an error on the GPU this raises, and the next needs a new process


def run(file: str, names, compiling=False) -> dict[str, str]:
    """Return the verdict on each feature of a section's file. One that ends the process costs no other."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET" or not compiling}
    verdicts, waiting = {}, list(names)
    while waiting:
        with tempfile.TemporaryDirectory() as folder:
            environment["TRITON_CACHE_DIR"] = folder  # nothing was compiled before
            said = Path(folder) / "verdicts.jsonl"
            command = [sys.executable, file, "--child", str(said), "compiling" * compiling, *waiting]
            with open(f"{folder}/log", "w+", encoding="utf-8") as log:
                try:
                    done = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=TIME_LIMIT)
                    end = f"crash: {ending(done.returncode)}"
                except subprocess.TimeoutExpired:
                    end = f"not done after {TIME_LIMIT} s"
                if not said.exists():  # it did not get as far as the first feature
                    log.seek(0)
                    raise SystemExit(f"{end}\n{log.read()}")
            lines = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
        for name, verdict in lines:
            verdicts[name] = verdict or end
        waiting = [name for name in waiting if name not in verdicts]
    return verdicts


def ending(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


# --8<-- [start:main]
def main(file: str, section: str) -> None:
    """Run the features of a section, which stand in ``file``, and print the verdicts; the child runs them."""
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    if not interpreted() and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    names = [name for name, row in FEATURES.items() if row.section == section]
    ran = run(file, names)
    compiled = run(file, names, compiling=True) if interpreted() else {}
    counts = {"rows": len(names)}
    print(f"## {SECTIONS[section]}")
    for name in names:
        print(f"  {FEATURES[name].title}\n    ran: {ran[name]}")
        if name in compiled:
            print(f"    compiles for sm_90: {compiled[name]}")
        kind = ran[name].partition(":")[0].partition(" ")[0]
        counts[kind] = counts.get(kind, 0) + 1
    print("## Counts")
    for part, count in counts.items():
        print(f"  {section}, {part}: {count}")
# --8<-- [end:main]


def every_section() -> int:
    """Run the files of all sections, which lie beside this one, one after the other; return the first bad status."""
    files = [Path(__file__).with_name(f"{Path(__file__).stem}_{section}.py") for section in SECTIONS]
    return next((status for file in files if (status := subprocess.run([sys.executable, file]).returncode)), 0)


if __name__ == "__main__":
    sys.exit(every_section())
