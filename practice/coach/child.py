# SPDX-License-Identifier: Apache-2.0
"""Run the reader's code, in a process of its own: ``python -m coach.child``, with or without ``TRITON_INTERPRET``.

It imports torch and Triton once. Then it reads requests, a line of JSON each, and forks for every one (where there is
no fork, as on Windows, it does the work itself): the next check begins at once, and the reader's code cannot hurt it.
A request names a task, an exercise, a file, and where to write: the result, a line of JSON for each stage that begins
and one at the end; and the beginning of what the code prints, to whose end nobody would read.
"""

import contextlib
import json
import os
import select
import signal
import sys
import threading
from pathlib import Path

KEPT = 64 * 1024  # bytes of what the code prints; one more shows that there was more


def main():
    import torch

    torch.set_num_threads(1)  # the work is small, and a fork must not find threads
    try:
        import triton
        import triton.language  # noqa: F401

        from .compiled import warm_up

        warm_up()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps({"ready": True, "gpu": gpu_there()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = work_in_fork(request) if hasattr(os, "fork") else work_inline(request)
        print(json.dumps(answer), flush=True)


def gpu_there() -> bool:
    """Return whether there is a GPU. Ask in a fork: asking may initialize CUDA, and no later fork could use it."""
    import torch

    if not hasattr(os, "fork") or not torch.backends.cuda.is_built():
        return torch.cuda.is_available()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            code = 0 if torch.cuda.is_available() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def work_in_fork(request: dict) -> dict:
    printed, into = os.pipe()
    if pid := os.fork():
        os.close(into)
        return {"code": os.waitstatus_to_exitcode(keep_until_end(printed, request["printed"], pid))}
    os.close(printed)
    os.dup2(into, 1)
    os.dup2(into, 2)
    os.close(into)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 1
    try:
        work(request)
        code = 0
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def keep_until_end(pipe: int, path: str, pid: int) -> int:
    """Keep what a process prints until it ends, and return its status; what it has started may print on, in vain."""
    status, left, coach = None, KEPT + 1, os.getppid()
    with open(path, "wb", buffering=0) as file:  # so that what was kept is there when the process has to be stopped
        while status is None:
            if os.getppid() != coach:  # it was killed, so nobody else will stop an endless loop
                os.kill(pid, signal.SIGKILL)
            if select.select([pipe], [], [], 0.05)[0]:
                if not (data := os.read(pipe, 65536)):
                    status = os.waitpid(pid, 0)[1]
                left -= file.write(data[:left])
            if status is None:
                ended, ending = os.waitpid(pid, os.WNOHANG)
                status = ending if ended else None
        os.set_blocking(pipe, False)
        with contextlib.suppress(BlockingIOError):
            file.write(os.read(pipe, 1 << 20)[:left])  # more than a pipe holds
    os.close(pipe)
    return status


def work_inline(request: dict) -> dict:
    """Work where there is no fork: lead this process's own output through a pipe meanwhile."""
    printed, into = os.pipe()
    keeper = threading.Thread(target=keep, args=(printed, request["printed"]), daemon=True)
    keeper.start()
    own = os.dup(1), os.dup(2)
    os.dup2(into, 1)
    os.dup2(into, 2)
    os.close(into)
    try:
        work(request)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, old in zip((1, 2), own, strict=True):
            os.dup2(old, fd)
            os.close(old)
        keeper.join(timeout=5)  # what the code has started may hold the pipe
    return {"code": 0}


def keep(pipe: int, path: str):
    left = KEPT + 1
    with open(path, "wb", buffering=0) as file:
        while data := os.read(pipe, 65536):
            left -= file.write(data[:left])
    os.close(pipe)


def work(request: dict):
    """Do one task, and write the finding."""
    import traceback

    from . import case, compiled, speed, stages
    from .exercise import Exercise, load
    from .finding import Fault, Finding
    from .run import perform

    stage, notes, finding = "compiles", [], None
    path = request["file"]

    def tell(**line):
        with Path(request["result"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def begin(name):
        nonlocal stage
        stage = name
        tell(stage=name)

    try:
        spec = Exercise(Path(request["exercise"])).spec()
        module = stages.importing(lambda: load(Path(path), Path(path).stem), path)
        function = case.function_of(spec, module, path)
        if request["task"] == "compile":
            begin("compiles")
            if compiled.possible():
                compiled.check(spec, function, path)
            else:
                notes.append("Left out: this Triton cannot compile for an NVIDIA GPU.")
        elif request["task"] == "interpret":
            stages.check(spec, function, path, begin, perform)
        else:  # on a GPU: "values", "speed" or, as "gpu", both
            begin("speed")
            checks = {"gpu": speed.check, "values": speed.check_values, "speed": speed.check_speed}
            notes += filter(None, [checks[request["task"]](spec, function, path)])
    except Fault as error:
        finding = error.finding
    except SystemExit:
        finding = Finding("Your file ends the process, with exit() or SystemExit. Let it return instead.")
    except Exception as error:  # of the coach's own, then
        message = "".join(traceback.format_exception(error)[-3:])
        finding = Finding(f"The coach itself failed, which is not your fault:\n    {type(error).__name__}: {error}")
        tell(bug=message)
    if finding:
        finding.stage = stage
    tell(done=True, finding=finding.as_dict() if finding else None, notes=notes)


if __name__ == "__main__":
    main()
