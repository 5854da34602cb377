# SPDX-License-Identifier: Apache-2.0
"""Record snippets: each in processes of its own, with a time limit, so that none can harm the others."""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from subprocess import STDOUT, Popen, run

import msgspec

from recorder import fingerprint
from recorder.judge import problems
from recorder.project import COMPILER, OUTPUT, ROOT, Exercise, RecorderError, Snippet, interpreted, nearest, relative
from recorder.recording import Recording, load, path_of, save

TIME_LIMIT = 3600  # seconds for one snippet on one device, against hanging: ten times what the longest takes
ROOM = 2**20  # bytes of a temporary folder, below which it counts as full
PRINTED_BYTES = 1_000_000  # who prints more than this does not print for a page
GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of CUDA, of ROCm, and of both in Windows' Linux


def command(snippet: Snippet, device: str) -> str:
    """Return what a reader types to repeat the run."""
    if isinstance(snippet, Exercise):
        return f"python -m recorder run {snippet.name}"
    other = f"PYTHONPATH={relative(triton_folder(version))} " if (version := snippet.triton_on(device)) else ""
    return f"{other}{'TRITON_INTERPRET=1 ' if snippet.interpreted_on(device) else ''}python {relative(snippet.path)}"


def triton_folder(version: str) -> Path:
    """Return the folder of a Triton that is not the pinned one; it comes first on ``PYTHONPATH``."""
    return ROOT / ".cache/triton" / version


def fetch_triton(version: str, deadline: float, progress) -> Path:
    """Download a version of Triton unless it is here, and return its folder. Raise ``RecorderError`` if that fails."""
    folder = triton_folder(version)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:  # so that half a download is never taken for one
            fetch = lambda target: ["pip", "install", "--no-deps", "--target", target, f"triton=={version}"]
            try:
                _run(fetch(f"{new}/triton"), {}, new, deadline, progress)
            except RecorderError as error:
                repair = f"python -m {' '.join(fetch(relative(folder)))}  (where there is a network)"
                why = f"Triton {version} is not here, and could not be fetched; fix: {repair}"
                raise RecorderError(f"{why}\n{error}") from error
            try:
                os.replace(f"{new}/triton", folder)
            except OSError:  # unless another process was faster: its Triton is as good
                if not folder.is_dir():
                    raise
    return folder


def _first(version: str, deadline: float, progress) -> dict[str, str]:
    """Return variables that make Python import another version of Triton than the installed one."""
    return {"PYTHONPATH": f"{fetch_triton(version, deadline, progress)}{os.pathsep}{ROOT}"}


def machine_devices() -> list[str]:
    """Return ``cpu``, and this machine's GPU if it has one; nothing without torch and Triton."""
    if not (find_spec("torch") and find_spec("triton")):
        return []
    if sys.platform == "linux" and not any(map(os.path.exists, GPU_DRIVERS)):
        return ["cpu"]  # without importing torch, which takes seconds
    script = "from recorder.trace import devices; print(*devices())"
    done = run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split()


def record(
    snippet: Snippet, device: str, *, time_limit: float = TIME_LIMIT, progress=lambda text: None, only_output=False
) -> Recording:
    """Run a snippet on a device and return its recording, not yet written. Raise ``RecorderError`` if the run fails.

    ``only_output`` leaves out what takes long: the benchmarks and the compiler.
    """
    start = time.monotonic()
    processes = 1 if interpreted(device) or only_output else snippet.settings.processes
    before, deadline = fingerprint.of(snippet, device), start + time_limit * processes
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        seen, *others = (
            _trace(snippet, device, Path(folder, f"process-{number}"), deadline, progress, only_output)
            for number in range(processes)
        )
        made, launches = {"compiler": None, "compiled": []}, _by_name(seen.get("launches") or [])
        if launches and snippet.compiled_on(device) and not only_output:
            given = Path(folder) / "launches.json"
            given.write_text(json.dumps(launches), "utf-8")
            # With fused multiply-adds, as a launch has them by default. Said, because 3.9 warns where it is not said.
            environment = _first(COMPILER, deadline, progress) | {"TRITON_DEFAULT_FP_FUSION": "1"}
            _run(["recorder.compile", snippet.name, str(given), str(result)], environment, folder, deadline, progress)
            made = _result(result)
    if fingerprint.of(snippet, device) != before:
        raise RecorderError(f"{relative(snippet.path)} was edited while it ran; run it again")
    keeps = snippet.settings.launches if interpreted(device) else []
    if only_output:  # of a draft: what it does not launch yet is for its recording to miss
        keeps = [name for name in keeps if name in launches]
    if wrong := [name for name in keeps if name not in launches]:
        raise RecorderError(
            f"{relative(snippet.settings_file)} keeps launch {wrong[0]} of {snippet.name}{nearest(wrong[0], launches)}"
        )
    try:
        made = msgspec.convert(_plain(snippet, device, seen, others, made, launches, keeps), Recording)
    except (KeyError, TypeError, ValueError) as error:  # msgspec's are ValueErrors
        why = f"{type(error).__name__}: {error}"
        raise RecorderError(f"its result is not what a recording holds ({why})") from error
    seconds = round(time.monotonic() - start, 1)
    stamp = {"seconds": seconds, "fingerprint": fingerprint.of(snippet, device, made)}
    provenance = msgspec.structs.replace(made.provenance, **stamp)
    return msgspec.structs.replace(made, provenance=provenance)


def _by_name(launches: list[dict]) -> dict[str, dict]:
    """Return launches, in their order, by their names: ``add_kernel[0]`` is the first of that kernel."""
    seen, named = Counter(), {}
    for launch in launches:
        kernel = launch["kernel"]
        named[f"{kernel}[{seen[kernel]}]"] = launch
        seen[kernel] += 1
    return named


def _plain(
    snippet: Snippet, device: str, seen: dict, others: list[dict], made: dict, launches: dict, keeps: list[str]
) -> dict:
    """Return a recording as JSON, from the results of its processes and of the compiler."""
    return {
        "snippet": snippet.name,
        "device": device,
        "provenance": {
            **seen["provenance"],
            "compiler": made["compiler"],
            "date": date.today().isoformat(),
            "command": command(snippet, device),
            "fingerprint": "",
        },
        "output": seen["output"],
        "benchmarks": _together([each["benchmarks"] for each in (seen, *others)]),
        "pictures": seen["pictures"],
        "launched": dict(Counter(launch["kernel"] for launch in launches.values())),
        "launches": {name: launches[name] for name in keeps},
        "compiled": made["compiled"],
        "coached": seen.get("coached"),
    }


def _trace(snippet: Snippet, device: str, folder: Path, deadline: float, progress, only_output: bool) -> dict:
    """Run a snippet in a process and a folder of its own, and return what it did."""
    folder.mkdir()
    result = folder / "result.json"
    module = "recorder.coach" if isinstance(snippet, Exercise) else "recorder.trace"
    trace = [module, snippet.name, device, str(result), *(["--no-benchmarks"] if only_output else [])]
    environment = {"TRITON_INTERPRET": "1"} if snippet.interpreted_on(device) else {}
    if version := snippet.triton_on(device):
        environment |= _first(version, deadline, progress)
    _run(trace, environment, str(folder), deadline, progress)
    return _result(result)


def _result(file: Path) -> dict:
    """Return the result that a process wrote. Raise ``RecorderError`` if it is not whole."""
    try:
        result = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RecorderError("it ended without a result, as `os._exit` does; let main() return") from error
    except ValueError as error:
        raise RecorderError(f"its result is no whole JSON ({error}){_full(file.parent)}") from error
    if not isinstance(result, dict):
        raise RecorderError(f"its result is no object of JSON, but {str(result)[:40]!r}")
    return result


def _full(folder: Path) -> str:
    """Return the end of a message if a folder of temporary files has no room left."""
    if shutil.disk_usage(folder).free >= ROOM:
        return ""
    return f"\nThere is no room left in {tempfile.gettempdir()}; free some, or name another folder in TMPDIR"


def _together(processes: list[list[dict]]) -> list[dict]:
    """Return the tables of several processes as one list of tables, each row with the number of its process."""
    first, *others = processes
    if others:
        for number, tables in enumerate(processes):
            for row in (row for table in tables for row in table["rows"]):
                row["process"] = number
        for table, *again in zip(first, *others, strict=True):
            table["rows"] += [row for other in again for row in other["rows"]]
    return first


def _run(arguments: list[str], more: dict[str, str], folder: str, deadline: float, progress) -> None:
    """Run a module, with some more variables in its environment, until it ends or its time is up."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    # A cache of its own: what an earlier run compiled from another folder carries that folder's name.
    environment |= {"TRITON_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= more
    log, output = Path(folder) / "log", Path(folder) / OUTPUT
    with log.open("wb") as file:
        # In a session of its own, so that what the snippet itself starts can be stopped with it; and behind a watch,
        # which stops it where we cannot, because we were killed.
        process = Popen(
            [sys.executable, "-m", "recorder.watch", str(os.getpid()), sys.executable, "-m", *arguments],
            cwd=ROOT, env=environment, stdout=file, stderr=STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise RecorderError("stopped at its time limit; see `--time-limit`")
                printed = max(path.stat().st_size if path.exists() else 0 for path in (log, output))
                if printed > PRINTED_BYTES:
                    raise RecorderError(f"stopped: it printed more than {PRINTED_BYTES:,} bytes")
                progress(_tail(log)[-1])
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode:
        signals = {128 + each: each.name for each in signal.Signals}  # the watch says it as a shell would
        killer = signals.get(process.returncode)
        how = f"killed by {killer}" if killer else f"exit status {process.returncode}"
        raise RecorderError("\n".join([how, *_tail(log)]).rstrip() + _full(log.parent))


def _tail(log: Path) -> list[str]:
    """Return the last lines of a process's log."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 10_000))
        return file.read().decode("utf-8", errors="replace").rstrip().splitlines()[-25:] or [""]


def update(snippet: Snippet, device: str, **options) -> bool:
    """Record and write; return False if the old recording is the same and so stays, with its date."""
    new = record(snippet, device, **options)
    if path_of(snippet, device).is_file():
        try:
            old = load(snippet, device)
        except RecorderError:  # broken, or of another version
            old = None
        if old and not problems(snippet) and _undated(old) == _undated(new):
            return False
    save(new)
    return True


def _undated(recording: Recording) -> Recording:
    made = msgspec.structs.replace(recording.provenance, date="", seconds=None)
    return msgspec.structs.replace(recording, provenance=made)
