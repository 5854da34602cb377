# SPDX-License-Identifier: Apache-2.0
"""Run one snippet and record what it did: output, launches, memory accesses, benchmarks.

This runs in a process of its own: ``python -m recorder.trace SNIPPET DEVICE RESULT [--no-benchmarks]``.
In the interpreter (``TRITON_INTERPRET=1``) it also records every load and store of a small launch.

Two other recorders of accesses exist, for files that leave the project and so import nothing of it: that of
``snippets/tools/testing.py``, which readers copy beside their tests, and that of ``practice/coach/``.
"""

import base64
import contextlib
import ctypes
import importlib.metadata
import inspect
import json
import os
import platform
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from recorder.project import OUTPUT, ROOT, Snippet, interpreted, relative

TRACED_LANES = 4096  # the accesses of a launch that loads and stores more elements than this are not recorded


def device_name() -> str:
    """Return the name of this machine's GPU as recordings spell it: ``h200``, ``geforce-rtx-4090``."""
    name = re.sub(r"^(NVIDIA|AMD|Intel)\s+", "", torch.cuda.get_device_name())
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def devices() -> list[str]:
    return ["cpu", device_name()] if torch.cuda.is_available() else ["cpu"]


def provenance(device: str) -> dict:
    """Return where a recording is made: device, host processor, driver, versions; see ``recording.Provenance``."""
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "triton": triton.__version__,
        "numpy": np.__version__,
    }
    if interpreted(device):
        return {"device": "CPU, Triton's interpreter", **versions}
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": torch.cuda.get_device_name(),
        "processor": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo"),
        "driver": _first(r"(\d+\.\d+(?:\.\d+)+)", "/proc/driver/nvidia/version"),
        "runtime": f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}",
        "gpu": str(getattr(properties, "uuid", "")) or None,
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
        "libraries": _libraries(),
        **versions,
    }


def _first(pattern: str, file: str) -> str | None:
    """Return the first match of a pattern in a file of the system, if there is one."""
    path = Path(file)
    match = re.search(pattern, path.read_text(), re.M) if path.exists() else None
    return match[1] if match else None


def _libraries() -> dict[str, str]:
    """Return the versions of the libraries that snippets compare with, as far as these say them."""
    versions = {"cuDNN": torch.backends.cudnn.version()}
    for module in list(sys.modules):
        if module.startswith("nvidia.") or module in ("cupy", "numba"):
            versions[module] = getattr(sys.modules[module], "__version__", None)
    versions["cuBLAS"] = _cublas()
    return {name: str(version) for name, version in versions.items() if version}


def _cublas(maps: str = "/proc/self/maps") -> str | None:
    """Return the version of the loaded cuBLAS, such as "13.1.0", or that of the installed package."""
    path = Path(maps)
    loaded = re.search(r"/\S*/libcublas\.so[.\d]*", path.read_text()) if path.exists() else None
    with contextlib.suppress(OSError, AttributeError):
        if loaded:
            library, parts, number = ctypes.CDLL(loaded[0]), [], ctypes.c_int()
            for which in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL, in CUDA's library_types.h
                if library.cublasGetProperty(which, ctypes.byref(number)):
                    break
                parts.append(str(number.value))
            else:
                return ".".join(parts)
    for package in ("nvidia-cublas", "nvidia-cublas-cu12"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return None


class Launches:
    """Collects the launches of Triton kernels between :meth:`__enter__` and :meth:`__exit__`."""

    def __init__(self):
        self.seen = []
        self.tracing = None  # the launch that runs, and its tensors

    def __enter__(self):
        self.undo = contextlib.ExitStack()
        self._wrap(JITFunction, "run", self._compiled)
        self._wrap(interpreter.InterpretedFunction, "run", self._interpreted)
        self._wrap(interpreter.interpreter_builder, "create_masked_load", self._access("load", mask_at=1))
        self._wrap(interpreter.interpreter_builder, "create_masked_store", self._access("store", mask_at=2))
        return self

    def __exit__(self, *error):
        self.undo.close()

    def _wrap(self, owner, name, around):
        original = getattr(owner, name)
        setattr(owner, name, lambda *args, **kwargs: around(original, *args, **kwargs))
        self.undo.callback(setattr, owner, name, original)

    def _describe(self, kernel, args, grid, kwargs):
        """Record a launch, with what the compiler specializes on: types, alignment, integers, constants.

        Record nothing if its arguments do not fit the kernel: Triton's own error says so in a moment.
        """
        parameters = inspect.signature(kernel.fn).parameters
        try:
            bound = inspect.signature(kernel.fn).bind(*args, **{k: v for k, v in kwargs.items() if k in parameters})
        except TypeError:
            return None, {}
        bound.apply_defaults()
        bases = {name: getattr(value, "base", value) for name, value in bound.arguments.items()}
        tensors = {name: value for name, value in bases.items() if isinstance(value, torch.Tensor)}
        annotations = {name: str(parameter.annotation) for name, parameter in parameters.items()}
        grid = tuple(grid(dict(bound.arguments)) if callable(grid) else grid)
        launch = {
            "kernel": kernel.fn.__name__,
            "file": _file(Path(inspect.getsourcefile(kernel.fn)).resolve()),
            "grid": [*grid, 1, 1][:3],
            "arguments": {name: _argument(name, value) for name, value in bound.arguments.items()},
            "constexprs": [name for name, annotation in annotations.items() if "constexpr" in annotation],
            "options": {k: v for k, v in kwargs.items() if k not in parameters},
            "accesses": None,
        }
        self.seen.append(launch)
        return launch, tensors

    def _compiled(self, run, kernel, *args, grid, warmup, **kwargs):
        if warmup:
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        self._describe(kernel, args, grid, kwargs)
        return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

    def _interpreted(self, run, kernel, *args, grid, warmup, **kwargs):
        launch, tensors = self._describe(kernel, args, grid, kwargs)
        if launch:
            launch["accesses"] = []
            self.tracing = launch, tensors
        try:
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        finally:
            self.tracing = None

    def _access(self, op, mask_at):
        def record(original, pointers, *rest, **kwargs):
            if self.tracing:
                launch, tensors = self.tracing
                mask = rest[mask_at - 1].data
                name, offsets = _locate(pointers.data, mask, tensors)
                launch["accesses"].append({
                    "pid": [int(i) for i in interpreter.interpreter_builder.grid_idx],
                    "op": op,
                    "tensor": name,
                    "shape": list(pointers.data.shape),
                    "offsets": offsets.ravel().tolist(),
                    "mask": np.broadcast_to(mask, pointers.data.shape).astype(bool).ravel().tolist(),
                })  # fmt: skip
                if sum(len(access["mask"]) for access in launch["accesses"]) > TRACED_LANES:
                    launch["accesses"] = self.tracing = None
            return original(pointers, *rest, **kwargs)

        return record


def _file(path: Path) -> str:
    """Return the name of a kernel's file; a file outside of the project, such as a library's, has no folder."""
    return relative(path) if path.is_relative_to(ROOT) else path.name


def _argument(name: str, value):
    """Return an argument of a launch as JSON: a dictionary for a tensor, a descriptor, a dtype or a layout, a list for
    a tuple, or the number."""
    value = tl.constexpr(value).value  # which unwraps a constexpr
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if hasattr(value, "block_shape"):  # a descriptor: Triton's or Gluon's, which are two classes
        described = {"shape": list(value.shape), "strides": list(value.strides), "block_shape": list(value.block_shape)}
        return _tensor(value.base) | described
    if isinstance(value, tl.dtype):
        return {"tl.dtype": value.name}
    if hasattr(value, "mangle"):  # a layout of Gluon's
        return {"layout": str(value)}
    if isinstance(value, tuple):
        return [_argument(name, each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise SystemExit(f"the recorder cannot write down the argument {name!r}, a {type(value).__name__}; teach it to")


def _tensor(value: torch.Tensor) -> dict:
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "alignment": next(bytes for bytes in (16, 8, 4, 2, 1) if value.data_ptr() % bytes == 0),
    }


def _locate(addresses, mask, tensors) -> tuple[str, np.ndarray]:
    """Return the tensor that most lanes point into, and each lane's offset from its first element, in elements."""

    def inside(tensor):
        first = tensor.data_ptr()
        last = (
            first + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) * tensor.itemsize
        )
        return int((mask & (addresses >= first) & (addresses < last)).sum())

    def distance(tensor):
        return abs(int(addresses.flat[0]) - tensor.data_ptr())

    name = max(tensors, key=lambda name: (inside(tensors[name]), -distance(tensors[name])))
    tensor = tensors[name]
    return name, (addresses.astype(np.int64) - tensor.data_ptr()) // tensor.itemsize


@contextlib.contextmanager
def captured_output(path: Path):
    """Write this process's standard output to a file, with what comes from below Python (``tl.device_print``)."""
    sys.stdout.flush()
    saved = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            os.dup2(saved, 1)
            os.close(saved)


def benchmarks(namespace: dict) -> list[dict]:
    """Run every benchmark under ``@triton.testing.perf_report`` in the snippet's namespace; return their tables."""
    tables = []
    for report in (value for value in namespace.values() if isinstance(value, triton.testing.Mark)):
        many = report.benchmarks if isinstance(report.benchmarks, list | tuple) else [report.benchmarks]
        for benchmark in many:
            names = list(benchmark.x_names)
            if both := set(names) & set(benchmark.line_vals):
                raise SystemExit(f"the benchmark {benchmark.plot_name!r} uses {both} both as an x name and as a line")
            rows = []
            for x in benchmark.x_vals:
                values = list(x) if isinstance(x, list | tuple) else [x] * len(names)
                given, measured = dict(zip(names, values, strict=True)), {}
                print(f"{benchmark.plot_name}: {given}", flush=True)
                for line in benchmark.line_vals:
                    result = report.fn(**given, **{benchmark.line_arg: line}, **benchmark.args)
                    measured[line] = [float(v) for v in (result if isinstance(result, tuple) else (result,))]
                rows.append({"x": values, "y": measured})
            tables.append({
                "name": benchmark.plot_name,
                "x": names,
                "xlabel": benchmark.xlabel or names[0],
                "ylabel": benchmark.ylabel,
                "lines": dict(zip(benchmark.line_vals, benchmark.line_names, strict=True)),
                "rows": rows,
                "doc": inspect.getdoc(report.fn) or "",
                "x_log": benchmark.x_log,
                "y_log": benchmark.y_log,
            })  # fmt: skip
    return tables


def pictures(folder: Path) -> dict[str, str]:
    """Return the pictures that a snippet wrote into its empty working directory, in base64."""
    files = (path for path in sorted(folder.iterdir()) if path.suffix in (".png", ".jpg"))
    return {path.name: base64.b64encode(path.read_bytes()).decode() for path in files}


def main(name: str, device: str, result: str, *options: str):
    sys.argv = [str(Snippet(name).path)]  # our own arguments are not for the snippet
    if not interpreted(device) and device != device_name():
        raise SystemExit(f"this machine's GPU is {device_name()}, not {device}")
    folder = Path(result).absolute().parent / "work"
    folder.mkdir()
    output = folder.with_name(OUTPUT)
    with contextlib.chdir(folder):
        with captured_output(output), Launches() as launches:
            namespace = _run(Snippet(name).path)
        seen = {
            "provenance": provenance(device),
            "output": output.read_text("utf-8", errors="replace").replace(f"{ROOT}{os.sep}", ""),
            "launches": launches.seen,
            "benchmarks": benchmarks(namespace) if not interpreted(device) and "--no-benchmarks" not in options else [],
            "pictures": pictures(folder),
        }
    Path(result).write_text(json.dumps(seen), "utf-8")


def _run(path: Path) -> dict:
    """Run a file as a script and return its names. Refuse SystemExit, which would leave no benchmarks to run."""
    try:
        return runpy.run_path(str(path), run_name="__main__")
    except SystemExit as error:
        if error.code:
            raise
        raise SystemExit(f"{relative(path)} ended by SystemExit; let main() return instead") from error


if __name__ == "__main__":
    main(*sys.argv[1:])
