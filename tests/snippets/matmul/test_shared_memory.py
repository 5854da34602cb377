# SPDX-License-Identifier: Apache-2.0
"""Default configs fit: an H200 as they are, other GPUs with fewer stages. Compiled for each, without a GPU."""

from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
from guards import environment
from launches import GPUS, properties

from snippets.matmul import autotuned, fp8, fused, persistent, precision, split_k
from tests.processes import run_code

ROOT = Path(__file__).parents[3]
BEGINNING = """
import torch
from tests.snippets.launches import compiled_for
from snippets.matmul import fp8, fused, persistent, precision

def matrix(rows, columns, dtype, transposed=False):
    return torch.empty(columns, rows, dtype=dtype).t() if transposed else torch.empty(rows, columns, dtype=dtype)

def check(gpu, module, call, fewer):
    module.FEWER.clear()
    with compiled_for(gpu, module) as launches:
        call()
    assert len(launches) == 1 and len(module.FEWER) == fewer, (launches[0].metadata.shared, module.FEWER)
"""


def compiled(code):
    """Run code in a process that compiles."""
    done = run_code(BEGINNING + code + "\nprint('done')\n", env=environment("cuda", OMP_NUM_THREADS="1"), cwd=ROOT)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


@pytest.mark.parametrize(
    "dtype, precision, sides",
    [
        ("float16", "ieee", (4096, 1536, 1024, 512)),
        ("float32", "tf32", (4096, 1536, 1024, 512)),
        ("float32", "ieee", (512,)),
        ("float32", "tf32x3", (512,)),
    ],
)
def test_every_persistent_product_fits_an_h200(dtype, precision, sides):
    """Each config, by rows and by columns, with rows of c that a descriptor can describe and ones that it cannot."""
    compiled(f"""
from itertools import product
for side, more, transposed in product({sides}, (0, 1), (False, True)):
    a = matrix(side, 64, torch.{dtype}, transposed)
    b = matrix(64, side + more, torch.{dtype}, transposed)
    check("H200", persistent, lambda: persistent.matmul(a, b, input_precision="{precision}"), fewer=0)
""")


def test_the_others_fit_an_h200():
    compiled("""
x = torch.float16
for M, N, K in ((4096, 4096, 512), (4096, 4096, 2048), (1408, 1408, 512), (512, 513, 512)):
    check("H200", fused, lambda: fused.linear(matrix(M, K, x), matrix(N, K, x), None, "gelu"), fewer=0)
a, one = matrix(4096, 64, x).to(fp8.DTYPES[0]), torch.ones(())
for fast in (False, True):
    for dtype in fp8.OUT_DTYPES:
        check("H200", fp8, lambda: fp8.scaled_matmul(a, a.t(), one, one, dtype, use_fast_accum=fast), fewer=0)
for dtype, how in ((x, "ieee"), (torch.float32, "tf32"), (torch.float32, "tf32x3"), (torch.float32, "ieee")):
    a = matrix(512, 512, dtype)
    check("H200", precision, lambda: precision.matmul(a, a, input_precision=how), fewer=0)
""")


def test_other_gpus_get_fewer_stages():
    compiled("""
x, y = torch.float16, torch.float32
for gpu, dtype, N in (("B200", y, 4096), ("B200", y, 4097), ("RTX 5090", x, 4097), ("A100", y, 4097)):
    a, b = matrix(4096, 64, dtype), matrix(64, N, dtype)
    check(gpu, persistent, lambda: persistent.matmul(a, b, input_precision="tf32" if dtype == y else "ieee"), fewer=1)
a = matrix(4096, 2048, x)
check("RTX 5090", fused, lambda: fused.linear(a, a, None, "gelu"), fewer=1)
a, one = matrix(4096, 64, x).to(fp8.DTYPES[0]), torch.ones(())
for gpu in ("B200", "RTX 5090"):
    check(gpu, fp8, lambda: fp8.scaled_matmul(a, a.t(), one, one, use_fast_accum=True), fewer=1)
for dtype, how in ((x, "ieee"), (y, "tf32")):
    a = matrix(512, 512, dtype)
    check("MI300X", precision, lambda: precision.matmul(a, a, input_precision=how), fewer=1)
""")


@pytest.mark.parametrize("module", [autotuned, persistent, precision, split_k], ids=lambda module: module.__name__)
def test_tf32x3_is_refused_on_amd(module):
    with mock.patch.object(torch.version, "hip", "7.0"), pytest.raises(ValueError, match="no tf32x3 on AMD"):
        module.matmul(*torch.ones(2, 2, 2), input_precision="tf32x3")


# What happens when a launch fails, in the interpreter

QUANTIZED = torch.ones(2, 2).to(fp8.DTYPES[0])
CALLS = {
    persistent: lambda **options: persistent.matmul(torch.ones(2, 2), torch.ones(2, 2), **options),
    precision: lambda **options: precision.matmul(torch.ones(2, 2), torch.ones(2, 2), **options),
    fused: lambda **options: fused.linear(torch.ones(2, 2), torch.ones(2, 2), **options),
    fp8: lambda **options: fp8.scaled_matmul(QUANTIZED, QUANTIZED, *torch.ones(2), torch.float32, **options),
}
GIVEN = {
    persistent: {"config": persistent.LARGE},
    precision: {"block": precision.SMALL},
    fp8: {"config": fp8.Config((32, 32, 32), 1, 4, 2)},
}
modules = pytest.mark.parametrize("module", CALLS, ids=lambda module: module.__name__)


class Small:
    """A GPU with room for so many stages; ``tried`` are the stages of all launches."""

    def __init__(self, module, stages):
        (name,) = vars(module).keys() & {"matmul_kernel", "linear_kernel", "scaled_matmul_kernel"}
        self.kernel, self.stages, self.tried = getattr(module, name), stages, []
        self.patches = mock.patch.object(module, name, self), mock.patch.dict(module.FEWER, clear=True)

    def __enter__(self):
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()

    def __getitem__(self, grid):
        def launch(*arguments, num_stages, **options):
            self.tried.append(num_stages)
            if num_stages > self.stages:
                raise triton.OutOfResources(num_stages * 1000, self.stages * 1000, "shared memory")
            self.kernel[grid](*arguments, num_stages=num_stages, **options)

        return launch


@modules
def test_stages_are_left_out_once_and_for_all(module):
    with Small(module, 2) as gpu:
        for _ in range(2):
            assert CALLS[module]().tolist() == [[2.0, 2.0]] * 2
    first, *others = gpu.tried
    assert others == [*range(first - 1, 1, -1), 2], "from the second call on, the first try is the right one"


@modules
def test_says_how_much_is_missing_where_nothing_fits(module):
    with Small(module, 0) as gpu, pytest.raises(ValueError, match=r"fit on cpu: .*Required: 1000, Hardware limit: 0"):
        CALLS[module]()
    assert gpu.tried[-1] == 1


@pytest.mark.parametrize("module", GIVEN, ids=lambda module: module.__name__)
def test_a_given_config_is_not_changed(module):
    with Small(module, 1) as gpu, pytest.raises(ValueError, match=r"fit on cpu: .*Hardware limit: 1000"):
        CALLS[module](**GIVEN[module])
    assert len(gpu.tried) == 1


# Limits that are asked of torch


@pytest.mark.parametrize("name", ["H200", "MI300X"])
def test_limits_of_a_gpu(name):
    gpu = GPUS[name]
    asked = mock.Mock(return_value=properties(gpu))
    with mock.patch.object(torch.cuda, "get_device_properties", asked):
        limits = autotuned.limits_of.__wrapped__(torch.device("cuda"))  # not from its cache, nor into it
        assert limits == (gpu.shared, gpu.multiprocessors)
        assert split_k.limits_of(torch.device("cuda")) == limits._asdict()
