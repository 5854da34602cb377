# SPDX-License-Identifier: Apache-2.0
"""Kernels for a program in C: the versions link and are chosen by the arguments, and a float arrives as a double."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import triton
from guards import Guarded, check_each_once, check_inside, environment, recorded_accesses

from snippets.pytorch import ahead_of_time as snippet
from tests.processes import run_python

# Stands in for CUDA's driver: memory is the host's, and a launch prints what it was given. The result stays as it was.
DRIVER = r"""
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef cuMemAlloc
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
CUresult cuInit(unsigned flags) { return 0; }
CUresult cuDeviceGet(CUdevice *device, int number) { return *device = 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { return 0; }
CUresult cuCtxSetCurrent(CUcontext context) { return 0; }
CUresult cuCtxSynchronize(void) { return 0; }
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) { *at = (CUdeviceptr)aligned_alloc(256, 256); return 0; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return 0; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { memcpy(to, (void *)from, bytes); return 0; }
CUresult cuModuleLoadData(CUmodule *module, const void *code) { return 0; }
CUresult cuModuleUnload(CUmodule module) { return 0; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) { *f = (CUfunction)name; return 0; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device) { return *value = 0; }
CUresult cuGetErrorString(CUresult error, const char **text) { *text = "?"; return 0; }
CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache how) { return 0; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value) { return 0; }
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned j, unsigned k,
                        unsigned shared, CUstream stream, void **given, void **more) {
    printf("%s: %u %u %u of %u threads, rows %d, columns %d, eps %g, by its first 4 bytes %s 0\n", (char *)f, x, y, z,
           threads, *(int *)given[3], *(int *)given[4], *(double *)given[5], *(float *)given[5] < 0 ? "<" : ">=");
    return 0;
}
"""
BUILD = """
import json, subprocess, sys
from pathlib import Path
from snippets.pytorch import ahead_of_time as snippet
folder = Path(sys.argv[1])
snippet.libcuda_dirs = lambda: [folder]
said = {}
for number, (what, (signatures, arch)) in enumerate(snippet.PROGRAMS.items()):
    place = folder / str(number)
    place.mkdir()
    program = snippet.build(place, snippet.to_c(place, *signatures, arch=arch))
    there = {"LD_LIBRARY_PATH": str(folder)}
    said[what] = subprocess.run([program], env=there, capture_output=True, text=True).stdout.strip()
print(json.dumps(said | snippet.refusals(folder)))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    if not shutil.which("gcc"):
        pytest.skip("there is no gcc")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "driver.c").write_text(DRIVER)
    include = Path(triton.__file__).parent / "backends/nvidia/include"
    library = folder / "libcuda.so.1"
    command = ["gcc", "-w", "-shared", "-fPIC", f"-I{include}", folder / "driver.c", "-o", library]
    subprocess.run(command, check=True)
    done = run_python("-c", BUILD, str(folder), env=environment("gpu") | {"CUDA_VISIBLE_DEVICES": ""})
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_the_program_launches_the_kernel(said):
    launch, *rows = said["eps as fp64"].splitlines()
    assert launch.startswith("rms_norm_kernel: 2 1 1 of 128 threads, rows 2, columns 4, eps 1e-06,")
    assert rows == ["3.0 4.0 0.0 0.0", "0.0 0.0 0.0 0.0"]


def test_a_float_is_handed_over_as_a_double(said):
    """So a kernel that takes a float32 reads the first half of a double, which is negative for 1e-6."""
    assert "eps 1e-06, by its first 4 bytes < 0" in said["eps as fp32"]


def test_what_no_version_fits_is_refused(said):
    assert said["columns a multiple of 16 or nothing"] == "error 1"


def test_what_is_not_compiled(said):
    assert "missing 1 required positional argument: 'warp_size'" in said["a target without its warp size"]
    assert "'Autotuner' object has no attribute" in said["a kernel with a tuner"]
    assert "global scratch requirements is not yet implemented" in said["a descriptor made within the kernel"]
    assert "0 active drivers" in said["no GPU, and nothing in its place"]


def test_a_package_has_a_size():
    assert snippet.megabytes("torch") > 100


@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 13), (3, 13), (2, 16)])
def test_a_row_is_normalized(device, rows, columns):
    x = Guarded.around(torch.randn(rows, columns, device=device), before=64, after=64, fill=0xFF)
    weight = Guarded.around(torch.rand(columns, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((rows, columns), torch.float32, device, before=64, after=64, fill=0xFF)
    given = x.tensor, weight.tensor, out.tensor, rows, columns, 0.5
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.rms_norm_kernel[(rows,)](*given, BLOCK=16)
    if accesses:
        check = check_each_once if rows == 1 else check_inside  # each row loads the weights
        check(accesses, "load", x=x.tensor, weight=weight.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    wanted = torch.nn.functional.rms_norm(x.tensor, (columns,), weight.tensor, 0.5)
    torch.testing.assert_close(out.tensor, wanted)


@pytest.mark.skipif(torch.cuda.is_available(), reason="programs are started anywhere only by the interpreter")
def test_a_row_beyond_two_to_the_31():
    row, columns = 2**28, 16
    x, weight, out = torch.ones(1, columns), torch.ones(columns), torch.ones(1, columns)
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as accesses:
        snippet.rms_norm_kernel[(1,)](x, weight, out, 1, columns, 0.5, BLOCK=16)
    stores = [each for op, each in accesses if op == "store"]
    assert stores[0].min() == out.data_ptr() + 4 * row * columns


@pytest.mark.parametrize("columns", [64])
def test_a_descriptor_doubles(device, columns):
    if device != "cpu":
        pytest.skip("it needs an allocator on a GPU; it is there to be refused")
    x = torch.randn(16, columns)
    wanted = 2 * x
    snippet.descriptor_kernel[(1,)](x, 16, BLOCK=16)
    torch.testing.assert_close(x, wanted)


def test_on_a_gpu_it_is_right(device, capsys):
    if device == "cpu":
        pytest.skip("programs in C need a GPU")
    snippet.main()
    printed = capsys.readouterr().out
    assert "## eps as fp64\n1.2 1.6 0.0 0.0\n0.0 0.0 0.0 0.0" in printed
