# SPDX-License-Identifier: Apache-2.0
"""Execute a lab, a percent-format script, into the notebook that its page shows and readers download."""

import hashlib
import json
import os
import platform
import re
import tempfile
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

from recorder import fingerprint as code
from recorder.project import ROOT, Lab, RecorderError, read_text, relative
from recorder.recording import write_atomically


def fingerprint(script: Lab) -> str:
    """Return the SHA-256 (hexadecimal) of what runs and of the script's text: its comments are the page's prose."""
    return hashlib.sha256(f"{code.of(script)}\n{read_text(script.path)}".encode()).hexdigest()


def digest(notebook: dict) -> str:
    """Return the SHA-256 (hexadecimal) of a notebook's cells and provenance, which shows an edit by hand."""
    covered = {"cells": notebook.get("cells"), "provenance": notebook.get("metadata", {}).get("provenance")}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def read(notebook: Path) -> dict:
    """Return a notebook. Raise ``RecorderError`` if it is not as :func:`build` wrote it."""
    try:
        read = json.loads(notebook.read_text("utf-8"))
        if read["metadata"]["digest"] != digest(read) or not read["cells"]:
            raise ValueError("its digest is another")
        return read
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecorderError(f"{relative(notebook)} is not as the recorder wrote it ({error})") from error


def cells(notebook: Path) -> list[dict]:
    """Return the cells of a notebook without the last, which says where and when it ran."""
    return json.loads(notebook.read_text("utf-8"))["cells"][:-1]


def status(script: Lab) -> str:
    """Return ``missing``, ``edited`` (not as :func:`build` wrote it), ``stale`` (the script changed) or ``fresh``."""
    if not script.notebook.is_file():
        return "missing"
    try:
        provenance = read(script.notebook)["metadata"]["provenance"]
    except RecorderError:
        return "edited"
    return "fresh" if provenance.get("fingerprint") == fingerprint(script) else "stale"


def device(script: Path) -> str:
    """Return where a lab runs: in the interpreter if it sets TRITON_INTERPRET; otherwise it only compiles."""
    chosen = re.search(r"""^os\.environ\[["']TRITON_INTERPRET["']\] = """, script.read_text("utf-8"), re.M)
    return "CPU, Triton's interpreter" if chosen else "CPU, Triton's compiler, nothing launched"


def build(script: Lab, notebook: Path, *, timeout: float) -> None:
    """Execute the cells of a lab in a fresh kernel and write ``notebook`` with their outputs.

    Running again what has not changed writes the same bytes, with the old date.

    Args:
        script: A lab of the project, a percent-format script.
        notebook: The ``.ipynb`` to write. It is replaced whole, or left as it was.
        timeout: Seconds for all cells together.

    Raises:
        RecorderError: A cell failed or the time was up; the message names the cell.
    """
    before = fingerprint(script)
    executed = _execute(script.path, timeout)
    if fingerprint(script) != before:
        raise RecorderError(f"{relative(script.path)} was edited while it ran; run it again")
    executed["metadata"]["provenance"] = {
        "script": relative(script.path),
        "device": device(script.path),
        "python": platform.python_version(),
        **{package: version(package).split("+")[0] for package in ("torch", "triton", "numpy")},
        "fingerprint": before,
    }
    write_atomically(notebook, _dated(executed, notebook))


def _execute(script: Path, timeout: float) -> dict:
    # Imported here, because every build of the site calls ``status``, which needs none of them.
    import jupytext
    from ipykernel.kernelspec import KERNEL_NAME
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError

    nb = jupytext.read(script, fmt="py:percent")
    nb.cells = [cell for cell in nb.cells if not re.fullmatch(r"# SPDX-\S+: .*", cell.source)]
    nb.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": KERNEL_NAME},
        "license": "Apache-2.0",
    }
    for number, cell in enumerate(nb.cells, start=1):
        cell.id = f"cell-{number}"
        cell.metadata.pop("lines_to_next_cell", None)
    running = {}
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory() as folder:
        kernel = AsyncKernelManager(
            kernel_name=KERNEL_NAME,
            # This very Python, also where the user has registered another kernel under the name "python3".
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            transport="ipc",  # sockets in a folder that is ours alone, not ports that others could connect to
            connection_file=f"{folder}/kernel.json",
        )
        client = NotebookClient(
            nb,
            km=kernel,
            shutdown_kernel="immediate",
            timeout_func=lambda cell: max(1, round(deadline - time.monotonic())),
            on_cell_execute=lambda cell, cell_index: running.update(cell=cell, number=cell_index + 1),
            coalesce_streams=True,
            record_timing=False,
        )
        try:
            client.execute(env=_environment(folder), cwd=folder, cleanup_kc=True)
        except Exception as error:
            # nbclient catches Ctrl-C itself, stops the kernel, and then fails in one of several ways.
            if hasattr(client, "_async_cleanup_kernel_future"):
                raise KeyboardInterrupt from error
            if not running or not isinstance(error, CellControlSignal | CellTimeoutError | DeadKernelError):
                raise
            first = next(line for line in running["cell"].source.splitlines() if line.strip())
            why = _reason(error, timeout)
            raise RecorderError(f"{relative(script)}: cell {running['number']} ({first}) {why}") from error
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = json.loads(_without_paths(json.dumps(cell.outputs), folder))
    return {
        "cells": nb.cells,
        "metadata": {**nb.metadata, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _environment(folder: str) -> dict[str, str]:
    """Return the kernel's environment. A lab sets TRITON_INTERPRET itself and sees no GPU."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ours = {"CUDA_VISIBLE_DEVICES": "", "IPYTHONDIR": folder, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    return inherited | ours


def _reason(error: Exception, timeout: float) -> str:
    if hasattr(error, "ename"):
        return f"raised {error.ename}: {error.evalue}"
    if isinstance(error, TimeoutError):
        return f"was not done within {timeout:g} s"
    return f"stopped the kernel: {error}"


def _without_paths(text: str, folder: str) -> str:
    """Remove from JSON text the paths of the project and of temporary files on this machine."""
    temporary = re.escape(tempfile.gettempdir())
    text = text.replace(f"{ROOT}{os.sep}", "").replace(str(ROOT), ".").replace(folder, ".")
    return re.sub(rf"{temporary}/ipykernel_\d+/\d+\.py", "cell.py", text)  # where ipykernel keeps the source of a cell


def _dated(executed: dict, notebook: Path) -> str:
    """Return the text of the notebook with today's date, or the old one's if that has the same cells and versions."""
    try:
        old = json.loads(notebook.read_text("utf-8"))
        written = _text(executed, old["metadata"]["provenance"]["date"])
        if json.loads(written) == old:
            return written
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is no old notebook, or we did not write it
    return _text(executed, date.today().isoformat())


def _text(executed: dict, day: str) -> str:
    provenance = {**executed["metadata"]["provenance"], "date": day}
    line = (
        f"Ran on {provenance['device']} · Triton {provenance['triton']} · torch {provenance['torch']} · "
        f"Python {provenance['python']} · {day}"
    )
    last = {"cell_type": "markdown", "id": "provenance", "metadata": {"tags": ["provenance"]}, "source": line}
    dated = {
        **executed,
        "cells": [*executed["cells"], last],
        "metadata": {**executed["metadata"], "provenance": provenance},
    }
    dated["metadata"]["digest"] = digest(dated)
    return json.dumps(dated, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
