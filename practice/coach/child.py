# SPDX-License-Identifier: Apache-2.0
"""The process in which the reader's code runs: ``python -m coach.child``, with or without ``TRITON_INTERPRET``.

It imports torch and Triton once. Then it reads requests, a line of JSON each, and forks for every one (where there is
no fork, as on Windows, it does the work itself): the next check begins at once, and the reader's code cannot hurt it.
A request names a task, an exercise, a file, and where to write: the result, a line of JSON for each stage that begins
and one at the end; and whatever the code prints.
"""

import json
import os
import sys
from pathlib import Path


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
        if not hasattr(os, "fork"):
            answer = work_inline(request)
        elif (pid := os.fork()) == 0:
            work_in_fork(request)
        else:
            _, status = os.waitpid(pid, 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)


def gpu_there() -> bool:
    """Whether there is a GPU: asked in a fork, for asking may initialize CUDA, and no fork after that could use it."""
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


def work_in_fork(request: dict):
    out = os.open(request["printed"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 1
    try:
        work(request)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def work_inline(request: dict) -> dict:
    import contextlib

    with Path(request["printed"]).open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        work(request)
    return {"code": 0}


def work(request: dict):
    """Do one task, and write what was found."""
    import traceback

    from . import compiled, speed, stages
    from .exercise import Exercise, load
    from .finding import Finding, Found

    stage, notes, found = "compiles", [], None
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
        function = stages.function_of(spec, module, path)
        if request["task"] == "compile":
            begin("compiles")
            if compiled.possible():
                compiled.check(spec, function, path)
            else:
                notes.append("Left out: this Triton cannot compile for an NVIDIA GPU.")
        elif request["task"] == "interpret":
            stages.check(spec, function, path, begin)
        else:  # on a GPU: "values", "speed" or, as "gpu", both
            begin("speed")
            checks = {"gpu": speed.check, "values": speed.check_values, "speed": speed.check_speed}
            notes += filter(None, [checks[request["task"]](spec, function, path)])
    except Found as error:
        found = error.finding
    except SystemExit:
        found = Finding("Your file ends the process, with exit() or SystemExit. Let it return instead.")
    except Exception as error:  # of the coach's own, then
        said = "".join(traceback.format_exception(error)[-3:])
        found = Finding(f"The coach itself failed, which is no fault of yours:\n    {type(error).__name__}: {error}")
        tell(bug=said)
    if found:
        found.stage = stage
    tell(done=True, finding=found.as_dict() if found else None, notes=notes)


if __name__ == "__main__":
    main()
