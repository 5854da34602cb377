# SPDX-License-Identifier: Apache-2.0
"""Run Python, each time in a new process, which need not import what takes long: that is imported already.

The processes are forked from servers, of which a test process starts those that it needs. One has Triton as it is under
``TRITON_INTERPRET``, and torch with what its compiler imports when it is first used, which takes two seconds; one has
Triton as it compiles; and one has what MkDocs needs to build the site. None has anything of this project.
"""

import functools
import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from multiprocessing import forkserver
from pathlib import Path

from tests.limits import HANGS

TORCH = ["torch", "torch.fx.experimental.symbolic_shapes"]
TORCH_COMPILER = ["torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor.pattern_matcher"]
TORCH_COMPILER += ["torch._inductor.lowering", "torch._inductor.standalone_compile"]
TRITON = ["triton", "triton.language", "triton.experimental.gluon"]
SITE = ["markdown_it", "mkdocs.__main__", "mkdocs.commands.build", "material.plugins.search.plugin"]
SITE += ["mkdocs_jupyter.plugin", "mkdocs_jupyter.convert", "pymdownx.superfences", "pymdownx.highlight", "bs4"]
PRELOADED = {
    "interpreted": [*TORCH, *TORCH_COMPILER, *TRITON],
    "compiled": [*TORCH, *TRITON, "tests.hashed"],
    "site": SITE,
}


def run_python(
    *arguments: str | Path, env: dict[str, str], cwd: Path | None = None, timeout: float = HANGS
) -> subprocess.CompletedProcess:
    """What ``subprocess.run([sys.executable, *arguments], …, capture_output=True, text=True)`` returns.

    Of the interpreter's options it knows a file, ``-c`` and ``-m``, and of those of the environment ``PYTHONPATH``.
    """
    cwd = cwd or Path.cwd()
    if multiprocessing.current_process().daemon:  # as tests of mutants are, which may have no children of this kind
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=env, cwd=cwd, timeout=timeout, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        how = [*map(str, arguments)], env, str(cwd), usual_path()
        from unittest import mock  # not above, for what is forked imports this module

        kind = "interpreted" if env.get("TRITON_INTERPRET") else "site" if arguments[0] == "-m" else "compiled"
        process = multiprocessing.get_context("forkserver").Process(target=_run, args=(*how, *map(str, said)))
        with mock.patch.object(forkserver, "connect_to_new_process", server(kind).connect_to_new_process):
            process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired([sys.executable, *arguments], timeout)
        stdout, stderr = (file.read_text() if file.exists() else "" for file in said)
    return subprocess.CompletedProcess([sys.executable, *arguments], process.exitcode, stdout, stderr)


def run_script(path: Path, *, env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess:
    """``python path``."""
    return run_python(path, env=env, cwd=cwd)


def run_code(code: str, *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess:
    """A piece of code as a file, which can import what lies in ``cwd``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code.py")
        path.write_text(code)
        return run_python(path, env={**env, "PYTHONPATH": str(cwd)}, cwd=cwd)


@functools.cache
def server(kind: str) -> forkserver.ForkServer:
    """One of those that ``PRELOADED`` names, started in the environment that Triton reads when it is imported."""
    from unittest import mock

    started = forkserver.ForkServer()
    started.set_forkserver_preload(PRELOADED[kind])
    with mock.patch.dict(os.environ, {"TRITON_INTERPRET": "1"}):
        if kind != "interpreted":
            del os.environ["TRITON_INTERPRET"]
        started.ensure_running()
    return started


@functools.cache
def usual_path() -> list[str]:
    """Where a new interpreter looks for modules, by itself."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    return json.loads(subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout)


def _run(arguments, env, cwd, usual, stdout, stderr):
    """In the new process: become what ``python arguments…`` would be."""
    gc.freeze()  # what the server imported stays, so the collector of garbage need not go through it
    for number, name in ((1, stdout), (2, stderr)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    first, *rest = arguments
    here = "" if first == "-c" else cwd if first == "-m" else str(Path(first).parent)
    sys.path[:] = [here, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *usual]
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    code = 0
    try:
        if first == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = arguments
            runpy.run_path(first, run_name="__main__")
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
