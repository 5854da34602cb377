# SPDX-License-Identifier: Apache-2.0
"""What ``torch.compile`` has compiled, carried into a process whose cache is empty; and what its key depends on.

Inductor compiles for the CPU here, which takes a C++ compiler. The keys of tensors on two GPUs are computed without
one, from fake tensors.

Run it with ``python inductor_cache.py``.
Source: PyTorch, *Compile Time Caching in torch.compile*, and ``_inductor/codecache.py``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch._dynamo.utils import counters
from torch._inductor.codecache import compiled_fx_graph_hash
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


# --8<-- [start:functions]
def step(x):
    return (x * 2 + 1).relu()


def under_another_name(y):
    z = y * 2  # and with a comment
    return (z + 1).relu()


def with_another_number(x):
    return (x * 3 + 1).relu()


ROWS, MORE_ROWS = torch.arange(-4.0, 4), torch.arange(-8.0, 8)
CASES = {
    "the same function": (step, ROWS),
    "under another name, with other variables": (under_another_name, ROWS),
    "with another number": (with_another_number, ROWS),
    "with more rows": (step, MORE_ROWS),
}
# --8<-- [end:functions]


# --8<-- [start:how]
def how(function, x) -> str:
    """Compile a function, call it, and return how Inductor came by it."""
    torch.compiler.reset()
    counters.clear()
    out = torch.compile(function, dynamic=False)(x)
    assert torch.equal(out, function(x))
    hit = counters["inductor"]["fxgraph_cache_hit"]
    return "found" if hit else "compiled"
# --8<-- [end:how]


# --8<-- [start:carry]
def save(file: Path) -> None:
    print("at first:", how(step, ROWS))
    artifacts, _ = torch.compiler.save_cache_artifacts()
    file.write_bytes(artifacts)


def load(file: Path) -> None:
    torch.compiler.load_cache_artifacts(file.read_bytes())
    for name, case in CASES.items():
        print(f"loaded, {name}:", how(*case))
# --8<-- [end:carry]


def without(file: Path) -> None:
    print("not loaded, the same function:", how(step, ROWS))


# --8<-- [start:devices]
def key_on(device: str) -> str:
    """Return Inductor's key of a graph whose tensors are on a device."""
    with FakeTensorMode():
        x = torch.empty(8, device=device)
        graph = make_fx(step)(x)
        key, _ = compiled_fx_graph_hash(graph, [x], {}, [])
    return key
# --8<-- [end:devices]


def start(what: str, folder: Path) -> None:
    """Run this file in a process of its own, with an empty cache, and print what it prints."""
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / what),
        "TORCHINDUCTOR_VEC_ISA_OK": "0",  # else it compiles seven programs, to see which instructions work
    }
    command = [sys.executable, __file__, what, str(folder / "artifacts")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    print(done.stdout, end="")


def main():
    if len(sys.argv) > 1:
        what, file = sys.argv[1:]
        return {"save": save, "load": load, "without": without}[what](Path(file))
    with tempfile.TemporaryDirectory() as folder:
        print("## How three processes, each with an empty folder, came by it", flush=True)
        for what in ("save", "without", "load"):
            start(what, Path(folder))
    print("## The key of a graph on a GPU")
    first = key_on("cuda:0")
    for device in ("cuda:0", "cuda:1"):
        print(f"cuda:0 and {device}: {'the same key' if key_on(device) == first else 'another key'}")


if __name__ == "__main__":
    main()
