# SPDX-License-Identifier: Apache-2.0
"""Does a kernel of cuBLAS begin before the kernel ahead of it has ended? Read from the edges of a CUDA graph.

Three products of a shape are captured into a graph. An ordinary edge of it lets a kernel begin when the one before has
ended; a *programmatic* one lets it begin early, as ``launch_pdl=True`` does for a kernel of Triton. Nothing is timed.

Source: ``cuGraphGetEdges_v2`` and ``CUgraphEdgeData`` in NVIDIA's documentation of the CUDA driver.

Run it on a GPU with ``python cublas_starts.py``.
"""

import ctypes
from collections.abc import Callable

import torch

SHAPES = {  # M, N, K, and the dtype
    "512": (512, 512, 512, torch.bfloat16),
    "1,024": (1024, 1024, 1024, torch.bfloat16),
    "4,096": (4096, 4096, 4096, torch.bfloat16),
    "4,096, float16": (4096, 4096, 4096, torch.float16),
    "4,096, TF32": (4096, 4096, 4096, torch.float32),
    "4,095": (4095, 4095, 4095, torch.bfloat16),
    "1 × 4,096 × 4,096": (1, 4096, 4096, torch.bfloat16),
    "16 × 4,096 × 4,096": (16, 4096, 4096, torch.bfloat16),
}
CALLS = 3


# --8<-- [start:edges]
class Edge(ctypes.Structure):
    """``CUgraphEdgeData``: ``kind`` is 0 for an ordinary edge and 1 for a programmatic one."""

    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("kind", ctypes.c_ubyte),
                ("reserved", ctypes.c_ubyte * 5)]  # fmt: skip


def edges(call: Callable[[], torch.Tensor]) -> list[int]:
    """Return the kinds of the edges between what ``CALLS`` calls start, in a CUDA graph.

    Raises:
        RuntimeError: The driver refuses to say.
    """
    call()  # what is set up once is not captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    ask = ctypes.CDLL("libcuda.so.1").cuGraphGetEdges_v2
    count, handle = ctypes.c_size_t(0), ctypes.c_void_p(graph.raw_cuda_graph())
    failed = ask(handle, None, None, None, ctypes.byref(count))
    begins, ends = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)()
    found = (Edge * count.value)()
    failed = failed or ask(handle, begins, ends, found, ctypes.byref(count))
    if failed:
        raise RuntimeError(f"cuGraphGetEdges_v2 says error {failed}")
    return [edge.kind for edge in found]
# --8<-- [end:edges]


def row(name: str, kinds: list[int]) -> str:
    """Return a line of the table."""
    return f"{name:<22}{kinds.count(0):>9}{kinds.count(1):>8}"


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found: cuBLAS runs on one")
    torch.set_float32_matmul_precision("high")
    print(f"{'three products of':<22}{'ordinary':>9}{'early':>8}")
    for name, (m, n, k, dtype) in SHAPES.items():
        a, b = (torch.randn(shape, device="cuda", dtype=dtype) for shape in ((m, k), (k, n)))
        print(row(name, edges(lambda a=a, b=b: a @ b)), flush=True)


if __name__ == "__main__":
    main()
