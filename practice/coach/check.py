# SPDX-License-Identifier: Apache-2.0
"""Check a file: start the processes that run it, with a time limit, and join their verdicts."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from . import source
from .child import KEPT
from .exercise import PRACTICE, Exercise, PracticeError
from .finding import STAGES, Finding

TASKS = ("compile", "interpret", "gpu")  # of a check; "values" and "speed" are the halves of the last
START_S = 300  # what importing torch may take, from a slow disk
PRINTED, WIDE = 12, 400  # lines of what the reader's code printed, and characters of one
SIGNALS = {
    -11: "a read or write of memory that is not there (SIGSEGV)",
    -9: "the system, which ran out of memory (SIGKILL)",
}
CHILD = (sys.executable, "-m", "coach.child")
TIMED, NO_GPU = "timed", "not timed: no GPU here"


@dataclass
class Verdict:
    """``finding`` is None where all is right."""

    finding: Finding | None
    passed: list[str]  # stages
    notes: list[str] = field(default_factory=list)
    printed: str = ""
    timing: str = ""  # TIMED, or why a GPU did not time it; "" where none was asked


class Child:
    """A process that waits for requests; see ``child``. Restarted when the code had to be stopped."""

    def __init__(self, interpreted: bool):
        self.interpreted, self.process, self.gpu = interpreted, None, False

    def start(self):
        env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        env |= {"TRITON_INTERPRET": "1"} if self.interpreted else {}
        env.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # else Triton 3.9 warns, which would look like the reader's
        env |= {"PYTHONPATH": os.pathsep.join([str(PRACTICE), *filter(None, [env.get("PYTHONPATH")])])}
        self.process = subprocess.Popen(
            CHILD, env=env, cwd=PRACTICE, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process, self.lines), daemon=True).start()
        self.ready = False

    def _listen(self, process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def _wait(self, limit: float) -> dict | None:
        """Return the child's next line, or None when it ended. Raise queue.Empty after ``limit`` seconds."""
        line = self.lines.get(timeout=limit)
        return json.loads(line) if line else None

    def prepare(self):
        """Start the process unless it runs, and ask whether it has a GPU."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        if not self.ready:
            answer = self._wait(START_S)
            if answer is None or "missing" in answer:
                message = answer["missing"] if answer else self.process.stderr.read().strip().splitlines()[-1:]
                raise PracticeError(f"torch and Triton are needed, but importing them failed: {message}. "
                                    "Try: pip install torch triton numpy")  # fmt: skip
            self.ready, self.gpu = True, answer["gpu"]

    def ask(self, request: dict, limit: float) -> dict:
        """Return ``{"code": 0}``, another exit status, or ``{"late": True}``."""
        try:
            self.prepare()
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self._wait(limit)
        except queue.Empty:
            self.stop()
            return {"late": True}
        except BaseException:
            self.stop()
            raise
        return answer or {"code": self.process.wait()}

    def has_gpu(self) -> bool:
        self.prepare()
        return self.gpu

    def stop(self):
        """End the process, and what it started."""
        if self.process is None:
            return
        if self.process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, 9)
            else:
                self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            pipe.close()
        self.process = None


class Coach:
    """Check files, in two processes that are kept for the next file; use it in a ``with``."""

    def __init__(self):
        self.interpreted, self.compiling = Child(True), Child(False)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.interpreted.stop()
        self.compiling.stop()

    def check(self, exercise: Exercise, path: Path, limit: float | None = None, tasks: tuple = TASKS) -> Verdict:
        if finding := before(exercise, path):
            return Verdict(finding, [])
        for child in (self.compiling, self.interpreted):
            if child.process is None:
                child.start()  # both import at the same time
        limit = limit or exercise.card.limit_s
        passed: list[str] = []
        notes: list[str] = []
        timing = ""
        for task in tasks:
            child = self.interpreted if task == "interpret" else self.compiling
            if task not in ("compile", "interpret"):
                if not child.has_gpu():
                    timing = NO_GPU
                    break
                timing = TIMED
            verdict = self._task(task, child, exercise, path, limit)
            passed += [stage for stage in verdict.passed if stage not in passed]
            notes += verdict.notes
            if verdict.finding:
                passed = [stage for stage in passed if stage != verdict.finding.stage]
                return Verdict(verdict.finding, passed, [], verdict.printed, timing)
        return Verdict(None, passed, notes, verdict.printed, timing)

    def _task(self, task: str, child: Child, exercise: Exercise, path: Path, limit: float) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="practice-") as folder:
            result, printed = Path(folder, "result"), Path(folder, "printed")
            request = {"task": task, "exercise": str(exercise.folder), "file": str(path)}
            answer = child.ask(request | {"result": str(result), "printed": str(printed)}, limit)
            lines = [json.loads(line) for line in result.read_text("utf-8").splitlines()] if result.exists() else []
            message = printed.read_bytes() if printed.exists() else b""
        begun = [line["stage"] for line in lines if "stage" in line] or ["compiles"]
        last = lines[-1] if lines else {}
        if last.get("done"):
            finding = Finding(**last["finding"]) if last["finding"] else None
            return Verdict(finding, begun if not finding else begun[:-1], last["notes"], _cut(message))
        if answer.get("late"):
            why = f"Your code was stopped after {limit:g} seconds. Is there a loop that never ends?"
            why += " Or does each program do everybody's work?"
        else:
            code = answer.get("code", 1)
            why = f"Your code ended the whole process: {SIGNALS.get(code, f'exit status {code}')}."
        return Verdict(Finding(why, stage=begun[-1]), begun[:-1], [], _cut(message))


def _cut(printed: bytes) -> str:
    whole = len(printed) <= KEPT
    lines = printed[:KEPT].decode("utf-8", "replace").rstrip().splitlines()
    more = len(lines) - PRINTED
    shown = [line if len(line) <= WIDE else line[:WIDE] + "…" for line in lines[:PRINTED]]
    if not whole:
        shown.append(f"… and more: it printed over {KEPT // 1024} KiB, of which only the beginning was kept")
    elif more > 0:
        shown.append(f"… and {more} lines more")
    return "\n".join(shown)


def before(exercise: Exercise, path: Path) -> Finding | None:
    """Check what needs no process: the file is there, is Python, and has its gaps filled."""
    return source.faulty(exercise, read(path), path.name)


def read(path: Path) -> str:
    """Return the reader's file, without the byte order mark of editors on Windows. Raise PracticeError."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise PracticeError(f"{path} is gone. `python practice.py reset {path.stem}` makes a new one.") from None
    except UnicodeDecodeError as error:
        raise PracticeError(f"{path} is not UTF-8 ({error.reason}, byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise PracticeError(f"{path} cannot be read: {error.strerror}.") from None


def _speed(exercise: Exercise, verdict: Verdict) -> str:
    """Return what the last stage is called: where nothing was timed, after what was counted."""
    if verdict.timing == TIMED and verdict.finding:
        return "right and fast enough on this GPU" if exercise.timed() else "right on this GPU"
    if verdict.timing == TIMED and exercise.timed():
        return STAGES["speed"]
    counted = exercise.counted()
    listed = " and ".join(filter(None, [", ".join(counted[:-1]), counted[-1] if counted else ""]))
    message = f"few enough {listed}" if counted else "nothing to count"
    if verdict.finding is None and verdict.timing == NO_GPU and exercise.timed():
        message += f"; {NO_GPU}"
    return message


def report(exercise: Exercise, verdict: Verdict) -> str:
    """Return the verdict as text for a terminal."""
    names = STAGES | {"speed": _speed(exercise, verdict)}
    lines = [f"✓ {names[stage]}" for stage in STAGES if stage in verdict.passed]
    if verdict.finding:
        lines += [f"✗ {names[verdict.finding.stage]}", "", verdict.finding.text()]
    else:
        elsewhere = ["No GPU here, so the values were checked in Triton's interpreter."]
        lines += ["", *verdict.notes, *(elsewhere if verdict.timing == NO_GPU and not exercise.timed() else [])]
        lines += [f"{exercise.name} is right."]
    if verdict.printed:
        lines += ["", "Your code printed:", *("    " + line for line in verdict.printed.splitlines())]
    return "\n".join(lines)
