# SPDX-License-Identifier: Apache-2.0
"""Run files as scripts, each in a process of its own that has torch imported already: importing it takes a second.

The processes are forked from one server for each test process. This file imports nothing but the standard library, and
the server nothing but torch, for Triton reads ``TRITON_INTERPRET`` when it is imported.
"""

import functools
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


def run_script(path: Path, *, env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess:
    """What ``subprocess.run([sys.executable, path], env=env, cwd=cwd, capture_output=True, text=True)`` returns."""
    if multiprocessing.current_process().daemon:  # as tests of mutants are, which may have no children of this kind
        return subprocess.run([sys.executable, path], env=env, cwd=cwd, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        arguments = str(path), env, str(cwd or Path.cwd()), usual_path(), *map(str, said)
        process = server().Process(target=_run, args=arguments)
        process.start()
        process.join()
        stdout, stderr = (file.read_text() if file.exists() else "" for file in said)
    return subprocess.CompletedProcess([sys.executable, path], process.exitcode, stdout, stderr)


def run_code(code: str, *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess:
    """Likewise, of a piece of code, which can import what lies in ``cwd``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code.py")
        path.write_text(code)
        return run_script(path, env={**env, "PYTHONPATH": str(cwd)}, cwd=cwd)


@functools.cache
def server():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    return context


@functools.cache
def usual_path() -> list[str]:
    """Where a new interpreter looks for modules, by itself."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    return json.loads(subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout)


def _run(path, env, cwd, usual, stdout, stderr):
    """In the new process: become what ``python path`` would be."""
    for number, name in ((1, stdout), (2, stderr)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.path[:] = [str(Path(path).parent), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *usual]
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [path]
    code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what is left to do belongs to the test process
