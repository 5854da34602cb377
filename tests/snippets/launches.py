# SPDX-License-Identifier: Apache-2.0
"""Compile what the host function of a snippet launches on some GPU, without that GPU.

For processes without ``TRITON_INTERPRET``, such as ``run_code`` starts with ``environment("cuda")``.
"""

import contextlib
import tempfile
from types import ModuleType, SimpleNamespace
from typing import NamedTuple
from unittest import mock


class GPU(NamedTuple):
    """What a host function asks of a GPU."""

    target: tuple  # backend, architecture, threads of a warp
    shared: int  # bytes of shared memory that a program may use
    multiprocessors: int


GPUS = {
    "A100": GPU(("cuda", 80, 32), 166_912, 108),
    "H200": GPU(("cuda", 90, 32), 232_448, 132),
    "B200": GPU(("cuda", 100, 32), 232_448, 148),
    "RTX 5090": GPU(("cuda", 120, 32), 101_376, 170),
    "MI300X": GPU(("hip", "gfx942", 64), 65_536, 304),
}


def properties(gpu: GPU) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` returns; it has no ``shared_memory_per_block_optin`` on AMD's GPUs."""
    if gpu.target[0] == "hip":
        return SimpleNamespace(multi_processor_count=gpu.multiprocessors, shared_memory_per_block=gpu.shared)
    return SimpleNamespace(
        multi_processor_count=gpu.multiprocessors,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=gpu.shared,
    )


@contextlib.contextmanager
def compiled_for(name: str, module: ModuleType):
    """Within it, host functions of a snippet take tensors on the CPU for tensors on a GPU; yield what they launch.

    A launch is compiled as far as LLVM's IR, not optimized (for AMD's GPUs: their assembly), which settles how much
    shared memory it takes, and fails, as on the GPU, where that is too much.
    """
    import triton
    from triton import knobs
    from triton._C.libtriton import llvm
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime import driver

    from recorder.compile import CompileOnly

    gpu, launches = GPUS[name], []

    def getitem(kernel, grid):
        def launch(*arguments, **options):
            kernel.device_caches.clear()
            compiled = kernel.warmup(*arguments, grid=(1,), **options)
            if compiled.metadata.shared > gpu.shared:
                raise triton.OutOfResources(compiled.metadata.shared, gpu.shared, "shared memory")
            launches.append(compiled)

        return launch

    def no_ptx(self, llvm, metadata, *_):
        metadata["name"] = "kernel"
        return ""

    early = gpu.target[0] == "cuda" and gpu.target[1] >= 90
    stand_ins = {
        "check_arguments": lambda *_, **__: None,
        "multiprocessors": lambda device: gpu.multiprocessors,
        "can_begin_early": lambda device: early,
    }
    with contextlib.ExitStack() as stack:
        driver.set_active(CompileOnly(GPUTarget(*gpu.target)))
        knobs.cache.dir = stack.enter_context(tempfile.TemporaryDirectory())  # for what follows is no whole result
        stack.enter_context(mock.patch.object(CUDABackend, "make_ptx", no_ptx))
        stack.enter_context(mock.patch.object(CUDABackend, "make_cubin", lambda *_: b""))
        if gpu.target[0] == "cuda":
            stack.enter_context(mock.patch.object(llvm, "optimize_module", lambda *_, **__: None))
        stack.enter_context(mock.patch.object(triton.JITFunction, "__getitem__", getitem))
        for function in stand_ins.keys() & vars(module).keys():
            stack.enter_context(mock.patch.object(module, function, stand_ins[function]))
        yield launches
