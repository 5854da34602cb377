# SPDX-License-Identifier: Apache-2.0
"""Run one snippet and write down what it did: output, launches, memory accesses, benchmarks.

Runs in a process of its own: ``python -m recorder.observe SNIPPET DEVICE RESULT [--no-benchmarks]``.
In the interpreter (``TRITON_INTERPRET=1``) every load and store of a small launch is written down too.
"""

import base64
import contextlib
import inspect
import json
import os
import platform
import re
import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from recorder.project import ROOT, Snippet, interpreted, relative

TRACED_LANES = 4096  # a launch that loads and stores more elements than this is not written down access by access


def device_name() -> str:
    """The name of this machine's GPU as recordings spell it, without its maker: ``h200``, ``geforce-rtx-4090``."""
    name = re.sub(r"^(NVIDIA|AMD|Intel)\s+", "", torch.cuda.get_device_name())
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def devices() -> list[str]:
    return ["cpu", device_name()] if torch.cuda.is_available() else ["cpu"]


def provenance(device: str) -> dict:
    """Where a recording was made: device, driver, versions."""
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
        "driver": _driver(),
        "runtime": f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}",
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
        **versions,
    }


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    found = re.search(r"\d+\.\d+(\.\d+)+", version.read_text()) if version.exists() else None
    return found[0] if found else None


class Launches:
    """Collects the launches of Triton kernels between :meth:`__enter__` and :meth:`__exit__`."""

    def __init__(self):
        self.seen = []
        self.tracing = None  # the launch whose accesses are being written down, and its tensors

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
        """Write the launch down, with what the compiler specializes on: types, alignment, integers, constants."""
        parameters = inspect.signature(kernel.fn).parameters
        bound = inspect.signature(kernel.fn).bind(*args, **{k: v for k, v in kwargs.items() if k in parameters})
        bound.apply_defaults()
        bases = {name: getattr(value, "base", value) for name, value in bound.arguments.items()}
        tensors = {name: value for name, value in bases.items() if isinstance(value, torch.Tensor)}
        annotations = {name: str(parameter.annotation) for name, parameter in parameters.items()}
        grid = tuple(grid(dict(bound.arguments)) if callable(grid) else grid)
        launch = {
            "kernel": kernel.fn.__name__,
            "file": relative(Path(inspect.getsourcefile(kernel.fn)).resolve()),
            "line": kernel.fn.__code__.co_firstlineno,
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
        launch, _ = self._describe(kernel, args, grid, kwargs)
        compiled = run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        launch["registers"], launch["spills"] = compiled.n_regs, compiled.n_spills
        launch["shared"], launch["num_warps"] = compiled.metadata.shared, compiled.metadata.num_warps
        return compiled

    def _interpreted(self, run, kernel, *args, grid, warmup, **kwargs):
        launch, tensors = self._describe(kernel, args, grid, kwargs)
        launch["accesses"] = []
        self.tracing = launch, tensors
        try:
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        finally:
            self.tracing = None

    def _access(self, op, mask_at):
        def write_down(original, pointers, *rest, **kwargs):
            if self.tracing:
                launch, tensors = self.tracing
                mask = rest[mask_at - 1].data
                name, offsets = _locate(pointers.data, mask, tensors)
                launch["accesses"].append({
                    "pid": [int(i) for i in interpreter.interpreter_builder.grid_idx],
                    "op": op,
                    "tensor": name,
                    "line": _line_in(ROOT / launch["file"]),
                    "shape": list(pointers.data.shape),
                    "offsets": offsets.ravel().tolist(),
                    "mask": np.broadcast_to(mask, pointers.data.shape).astype(bool).ravel().tolist(),
                })  # fmt: skip
                if sum(len(access["mask"]) for access in launch["accesses"]) > TRACED_LANES:
                    launch["accesses"] = self.tracing = None
            return original(pointers, *rest, **kwargs)

        return write_down


def _argument(name: str, value):
    """An argument of a launch as JSON: a tensor, its descriptor, a dtype as a dictionary, a number as it is."""
    value = tl.constexpr(value).value  # which unwraps one
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, TensorDescriptor):
        described = {"shape": list(value.shape), "strides": list(value.strides), "block_shape": list(value.block_shape)}
        return _tensor(value.base) | described
    if isinstance(value, tl.dtype):
        return {"tl.dtype": value.name}
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
    """The tensor that most lanes point into, and the lanes' offsets from its first element, in elements."""

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


def _line_in(file: Path) -> int | None:
    frame = sys._getframe()
    while frame:
        if Path(frame.f_code.co_filename) == file:
            return frame.f_lineno
        frame = frame.f_back
    return None


@contextlib.contextmanager
def captured_output():
    """Collect what this process writes to standard output, also from below Python (``tl.device_print``)."""
    result = []
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield result
        finally:
            sys.stdout.flush()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            os.dup2(saved, 1)
            os.close(saved)
            file.seek(0)
            result.append(file.read().decode(errors="replace").replace(f"{ROOT}{os.sep}", ""))


def benchmarks(namespace: dict) -> list[dict]:
    """Run everything under ``@triton.testing.perf_report`` that is left in the snippet's namespace."""
    tables = []
    for mark in (value for value in namespace.values() if isinstance(value, triton.testing.Mark)):
        many = mark.benchmarks if isinstance(mark.benchmarks, list | tuple) else [mark.benchmarks]
        for benchmark in many:
            names = list(benchmark.x_names)
            if both := set(names) & set(benchmark.line_vals):
                raise SystemExit(f"the benchmark {benchmark.plot_name!r} uses {both} both as an x name and as a line")
            rows = []
            for x in benchmark.x_vals:
                values = list(x) if isinstance(x, list | tuple) else [x] * len(names)
                row = dict(zip(names, values, strict=True))
                print(f"{benchmark.plot_name}: {row}", flush=True)
                for line in benchmark.line_vals:
                    result = mark.fn(
                        **dict(zip(names, values, strict=True)), **{benchmark.line_arg: line}, **benchmark.args
                    )
                    row[line] = [float(v) for v in (result if isinstance(result, tuple) else (result,))]
                rows.append(row)
            tables.append({
                "name": benchmark.plot_name,
                "doc": inspect.getdoc(mark.fn) or "",
                "x": names,
                "xlabel": benchmark.xlabel or names[0],
                "ylabel": benchmark.ylabel,
                "x_log": benchmark.x_log,
                "y_log": benchmark.y_log,
                "lines": dict(zip(benchmark.line_vals, benchmark.line_names, strict=True)),
                "rows": rows,
            })  # fmt: skip
    return tables


def pictures(folder: Path) -> dict[str, str]:
    """The pictures that a snippet wrote into its working directory, an empty one, in base64."""
    files = (path for path in sorted(folder.iterdir()) if path.suffix in (".png", ".jpg"))
    return {path.name: base64.b64encode(path.read_bytes()).decode() for path in files}


def main(name: str, device: str, result: str, *options: str):
    snippet = Snippet(name)
    if not interpreted(device) and device != device_name():
        raise SystemExit(f"this machine's GPU is {device_name()}, not {device}")
    folder = Path(result).absolute().parent / "work"
    folder.mkdir()
    with contextlib.chdir(folder):
        with captured_output() as output, Launches() as launches:
            namespace = runpy.run_path(str(snippet.path), run_name="__main__")
        seen = {
            "provenance": provenance(device),
            "output": output[0],
            "launches": launches.seen,
            "benchmarks": benchmarks(namespace) if not interpreted(device) and "--no-benchmarks" not in options else [],
            "pictures": pictures(folder),
        }
    Path(result).write_text(json.dumps(seen), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
