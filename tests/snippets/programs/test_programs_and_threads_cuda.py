# SPDX-License-Identifier: Apache-2.0
"""The same sums from Numba, on a GPU or simulated, and from CUDA C++; and the hardware's word on the layouts."""

import re
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton.language as tl
from guards import Guarded, check_each_once, check_same_bits, environment, recorded_accesses

from figures.layout import blocked
from snippets.programs import programs_and_threads_cuda as cuda
from snippets.programs.vector_add import add_kernel
from tests.processes import run_python, run_script

pytestmark = pytest.mark.filterwarnings("ignore:.*under-utilization")  # of Numba, on toy sizes


def guarded(n, device, start=0):
    """Two inputs and an output of float32, each between guard zones; the sums are unlike any guard."""
    x = torch.arange(1.0, n + 1, device=device)
    given = [Guarded.around(t, before=64 + start, after=64, fill=0xFF) for t in (x, 1000 * x)]
    return *given, Guarded((n,), torch.float32, x.device, before=64 + start, after=64, fill=0x5A)


def check(add, n, device, start=0):
    """Assert that ``add`` is right, and touches what it must and nothing else, as far as guards can tell."""
    x, y, out = guarded(n, device, start)
    expected = x.tensor + y.tensor
    with mock.patch.object(torch, "empty_like", return_value=out.tensor):
        assert add(x.tensor, y.tensor) is out.tensor
    x.check("x"), y.check("y"), out.check("the result")
    check_same_bits(out.tensor, expected)
    check_same_bits(x.tensor, torch.arange(1.0, n + 1, device=device))
    check_same_bits(y.tensor, 1000 * torch.arange(1.0, n + 1, device=device))


# Numba, on a GPU or simulated; CUDA C++ on a GPU alone


def sides(device):
    """Every way to add by threads that runs here, and whether it takes tensors that begin anywhere."""
    yield lambda x, y, threads: cuda.add_numba(x, y, threads=threads), True
    if device == "cuda":
        yield lambda x, y, threads: cuda.add_cuda(x, y, threads=threads), True
        yield lambda x, y, threads: cuda.add_cuda(x, y, threads=threads, wide=True), False


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 7, 8, 9, 31, 33])
@pytest.mark.parametrize("threads", [1, 4, 7])
def test_adds_by_threads(device, n, threads):
    for add, anywhere in sides(device):
        check(lambda x, y, add=add: add(x, y, threads), n, device)
        if anywhere:
            check(lambda x, y, add=add: add(x, y, threads), n, device, start=1)


@pytest.mark.gpu
def test_adds_by_many_threads():
    torch.manual_seed(0)
    x, y = torch.rand(2, 999_999, device="cuda")
    y = y.clone()
    for add, _ in sides("cuda"):
        for threads in (32, 256, 1000):
            check_same_bits(add(x, y, threads), x + y)


@pytest.mark.gpu
def test_adds_more_than_2_to_the_31_by_threads():
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("takes 30 GiB")
    x = torch.ones(2**31 + 5, device="cuda")
    for add, _ in sides("cuda"):
        out = add(x, x, 256)
        assert bool((out == 2).all())
        del out


@pytest.mark.gpu
def test_threads_add_on_the_current_stream():
    x = torch.zeros(2**20, device="cuda")
    for add, _ in sides("cuda"):
        add(x, x, 256)  # compiled
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for add, _ in sides("cuda"):
            x.zero_()
            torch.cuda._sleep(20_000_000)
            x.fill_(1)
            out = add(x, x, 256)
            assert not stream.query(), "add waited for the GPU"
            assert bool((out == 2).all())


def test_threads_refuse_too_many_elements(device):
    x = torch.empty(1, device=device)
    with mock.patch.object(torch.Tensor, "numel", return_value=2**31), pytest.raises(ValueError, match="too many"):
        cuda.add_numba(x, x, threads=1)


def test_serves_what_is_at_the_limits(device):
    x = torch.ones(8, device=device, requires_grad=True)
    with torch.no_grad(), mock.patch.object(torch.Tensor, "numel", return_value=1024 * (2**31 - 1)):
        cuda.check_arguments(x, x, 1024)


def test_cuda_refuses_the_cpu():
    with pytest.raises(ValueError, match="on cpu; move it to a GPU"):
        cuda.add_cuda(torch.ones(3), torch.ones(3))


def test_numba_refuses_the_other_device(device):
    other = "False" if device == "cpu" else "True"
    cuda.numba_kernel()
    from numba import config

    x = torch.ones(3, device=device)
    said = f"on {device}.*; Numba runs on {'a GPU' if device == 'cpu' else 'the CPU'}"
    with mock.patch.object(config, "ENABLE_CUDASIM", other == "True"), pytest.raises(ValueError, match=said):
        cuda.add_numba(x, x)


@pytest.mark.gpu
def test_wide_refuses_a_start_in_between():
    x = torch.ones(9, device="cuda")
    for pair in ((x[1:], x[:8]), (x[:8], x[1:])):
        with pytest.raises(ValueError, match="multiple of 16 bytes"):
            cuda.add_cuda(*pair, wide=True)


@pytest.mark.parametrize("n, block_size", [(1, 4), (4, 4), (9, 4), (64, 32)])
def test_owners_touches_each_element_once(n, block_size):
    x = Guarded.around(torch.arange(n, dtype=torch.int32), before=64, after=64, fill=0xFF)
    out = Guarded((n,), torch.int32, torch.device("cpu"), before=64, after=64, fill=0x5A)
    told = []

    def assembly(text, constraints, args, **options):  # the interpreter knows none
        told.append((text, constraints, options))
        return args[0] + 1000

    with mock.patch.object(tl, "inline_asm_elementwise", assembly), recorded_accesses() as accesses:
        cuda.owners_kernel[(-(-n // block_size),)](x.tensor, out.tensor, n, BLOCK_SIZE=block_size)
    x.check("x"), out.check("the result")
    assert out.tensor.tolist() == [1000 + i for i in range(n)]
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)
    options = {"dtype": tl.int32, "is_pure": False, "pack": 1}
    assert set(map(str, told)) == {str(("mov.u32 $0, %tid.x;", "=r,r", options))}


def test_owners_refuses():
    with pytest.raises(ValueError, match="n must be at most 2147483584"):
        cuda.owners(2**31 - 63, block_size=64, num_warps=4)


# What the page says about threads, asked of the hardware


@pytest.mark.gpu
@pytest.mark.parametrize("block_size, num_warps", [(1024, 1), (1024, 4), (1024, 8), (64, 4), (16, 1)])
def test_the_drawn_layout_is_that_of_the_hardware(block_size, num_warps):
    x = torch.ones(4 * block_size, device="cuda")
    compiled = add_kernel[(4,)](x, x, x.clone(), x.numel(), BLOCK_SIZE=block_size, num_warps=num_warps)
    holders = blocked.parse(compiled.asm["ttgir"]).holders()
    threads = cuda.owners(block_size, block_size=block_size, num_warps=num_warps).tolist()
    assert len(holders) == block_size
    # Of the threads that hold an element, the first stores it.
    assert threads == [min(holders[(element,)]) for element in range(block_size)]


@pytest.mark.gpu
def test_owners_of_a_ragged_block():
    assert len(cuda.owners(100, block_size=64, num_warps=2)) == 100
    assert len(cuda.owners(0, block_size=4, num_warps=1)) == 0


def run(device, **more):
    root = Path(cuda.__file__).parents[2]
    given = environment(device, PYTHONPATH=str(root), **more)
    return run_script(cuda.__file__, env=given, cwd=root)


def test_says_so_without_a_gpu():
    done = run("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


def test_importing_needs_torch_and_triton_alone():
    code = "import sys; sys.modules.update(numba=None, cupy=None); import snippets.programs.programs_and_threads_cuda"
    done = run_python("-c", code, env=environment("cpu"), cwd=Path(cuda.__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_prints(device, capsys):
    cuda.main()
    said = capsys.readouterr().out
    assert re.search("Numba: *" + re.escape(str([101.0 * i for i in range(10)])), said)
    if device == "cuda":
        assert len(re.findall("sums unlike those of torch, .*: 0$", said, re.M)) == 4
