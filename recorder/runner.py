# SPDX-License-Identifier: Apache-2.0
"""Record snippets: each in processes of its own, with a time limit, so that none can harm the others."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from recorder import fingerprint, recording
from recorder.project import ROOT, RecorderError, Snippet, interpreted, relative, triton_of

REGISTER = re.compile(r"\b(U?[RP])\d+")  # in SASS; R and P are a thread's, UR and UP those of a warp
TIME_LIMIT = 600  # seconds for one snippet on one device
GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of CUDA, of ROCm, and of both in Windows' Linux


def command(snippet: Snippet, device: str) -> str:
    """What a reader types to repeat the run."""
    other = f"PYTHONPATH={relative(triton_folder(version))} " if (version := triton_of(device)) else ""
    return f"{other}{'TRITON_INTERPRET=1 ' if interpreted(device) else ''}python {relative(snippet.path)}"


def triton_folder(version: str) -> Path:
    """Where a Triton that is not the pinned one is kept, to come first on ``PYTHONPATH``."""
    return ROOT / ".cache/triton" / version


def fetch_triton(version: str, deadline: float, progress) -> Path:
    """Download a version of Triton, unless it is here already. Raises ``RecorderError`` if there is none of it."""
    folder = triton_folder(version)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:  # so that half a download is never taken for one
            wanted = ["pip", "install", "--no-deps", "--target", f"{new}/triton", f"triton=={version}"]
            _run(wanted, {}, new, deadline, progress)
            os.replace(f"{new}/triton", folder)
    return folder


def machine_devices() -> list[str]:
    """``cpu``, and this machine's GPU if it has one; empty without torch and Triton."""
    if not (find_spec("torch") and find_spec("triton")):
        return []
    if sys.platform == "linux" and not any(map(os.path.exists, GPU_DRIVERS)):
        return ["cpu"]  # without importing torch, which takes seconds
    script = "from recorder.observe import devices; print(*devices())"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split()


def record(
    snippet: Snippet, device: str, *, time_limit: float = TIME_LIMIT, progress=lambda text: None, only_output=False
) -> dict:
    """Run a snippet on a device and return its recording, not yet written. Raises ``RecorderError`` if the run fails.

    ``only_output`` leaves out what takes long: the benchmarks and the compiler's stages.
    """
    deadline = time.monotonic() + time_limit
    before = fingerprint.of(snippet.path, device)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        observe = ["recorder.observe", snippet.name, device, str(result), *(["--no-benchmarks"] if only_output else [])]
        environment = {"TRITON_INTERPRET": "1"} if interpreted(device) else {}
        if version := triton_of(device):
            environment["PYTHONPATH"] = f"{fetch_triton(version, deadline, progress)}{os.pathsep}{ROOT}"
        _run(observe, environment, folder, deadline, progress)
        seen = json.loads(result.read_text("utf-8"))
        compiled = []
        if device == "cpu" and seen["launches"] and snippet.settings.stages and not only_output:
            launches = Path(folder) / "launches.json"
            launches.write_text(json.dumps(seen["launches"]), "utf-8")
            _run(["recorder.stages", str(launches), str(result)], {}, folder, deadline, progress)
            compiled = json.loads(result.read_text("utf-8"))
    if fingerprint.of(snippet.path, device) != before:
        raise RecorderError(f"{relative(snippet.path)} was edited while it ran; run it again")
    sources = {relative(path): path.read_text("utf-8") for path in fingerprint.local_modules(snippet.path)}
    return {
        "snippet": snippet.name,
        "device": device,
        "provenance": {
            **seen["provenance"],
            "date": date.today().isoformat(),
            "command": command(snippet, device),
            "fingerprint": before,
        },
        "output": seen["output"],
        "benchmarks": seen["benchmarks"],
        "pictures": seen["pictures"],
        "launches": seen["launches"],
        "compiled": compiled,
        "source": sources,
    }


def _run(arguments: list[str], more: dict[str, str], folder: str, deadline: float, progress) -> None:
    """Run a module, with some more variables in its environment, until it ends or its time is up."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    # A cache of its own: what an earlier run compiled from another folder carries that folder's name.
    environment |= {"TRITON_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= more
    log = Path(folder) / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what the snippet itself starts can be stopped with it
        )  # fmt: skip
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise RecorderError("stopped at its time limit; see `--time-limit`")
                last = log.read_text("utf-8", errors="replace").rstrip().rpartition("\n")[2]
                progress(last)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text("utf-8", errors="replace").rstrip().splitlines()[-25:])
        raise RecorderError(f"exit status {process.returncode}\n{tail}")


def draw_charts(recorded: dict) -> dict[str, str]:
    from recorder import chart

    return {table["name"]: chart.draw(table) for table in recorded["benchmarks"]}


def differences(old: dict, new: dict) -> list[str]:
    """Where two recordings of one snippet on one device first differ, a line a part; versions and dates apart."""
    parts = ["launches", "pictures"] if Snippet(old["snippet"]).settings.differs else ["output", "launches", "pictures"]
    if old["provenance"]["triton"] == new["provenance"]["triton"]:
        parts.append("compiled")  # another Triton may well compile to other code
    if old.get("source") != new.get("source"):  # comments came or went, and moved the lines of the code below
        old, new = _without_lines(old), _without_lines(new)
    old, new = _without_register_numbers(old), _without_register_numbers(new)
    # A recording from before there were pictures has none.
    return [_first_difference(old.get(part) or None, new.get(part) or None, part) for part in parts
            if (old.get(part) or None) != (new.get(part) or None)]  # fmt: skip


def _first_difference(old, new, at: str) -> str:
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        lines, now = (dict(enumerate(text.split("\n"), 1)) for text in (old, new))
        return _first_difference(lines, now, f"{at} line ")
    if isinstance(old, list) and isinstance(new, list):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{at}{'' if at.endswith(' ') else '.'}{key}")
    return f"{at} was {str(old)[:100]!r}, is {str(new)[:100]!r}"


def _without_lines(part):
    if isinstance(part, dict):
        return {key: _without_lines(value) for key, value in part.items() if key not in ("line", "lines")}
    return [_without_lines(value) for value in part] if isinstance(part, list) else part


def _without_register_numbers(recorded: dict) -> dict:
    """ptxas numbers the registers of some kernels in another way from run to run, of the very same PTX."""

    def blank(stages):
        sass = stages.get("sass")
        return {**stages, "sass": {**sass, "text": REGISTER.sub(r"\1_", sass["text"])}} if sass else stages

    compiled = [
        {**entry, "targets": {
            target: {**code, "stages": blank(code["stages"])} if "stages" in code else code
            for target, code in entry["targets"].items()
        }}
        for entry in recorded.get("compiled") or []
    ]  # fmt: skip
    return {**recorded, "compiled": compiled}


def update(snippet: Snippet, device: str, **options) -> bool:
    """Record and write. False if the old recording said the same already: then it stays, with its date."""
    new = record(snippet, device, **options)
    if recording.path_of(snippet, device).is_file():
        old = recording.load(snippet, device)
        same = {**new, "provenance": {**new["provenance"], "date": old["provenance"].get("date")}}
        if all(old.get(key) == value for key, value in same.items()) and not recording.problems(snippet):
            return False
    recording.save(snippet, device, new, draw_charts(new))
    return True
