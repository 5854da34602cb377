# SPDX-License-Identifier: Apache-2.0
"""The hierarchy: sums are right, figures are those of the driver, threads are where the page says."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import triton
import triton.language as tl
from guards import Guarded, check_each_once, environment, handed_out, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.gpu import hierarchy
from snippets.tools.testing import sum_tolerance
from tests.processes import run_script

SOURCE = Path(hierarchy.__file__)


# total


def check_total(x, **options):
    guarded = Guarded.around(x, before=64, after=2048, fill=0xFF)
    dtype = torch.float32 if x.dtype == torch.float32 else torch.int64
    out = Guarded((), dtype, x.device, before=4, after=4, fill=0x5A)
    out.tensor.zero_()
    with mock.patch.object(torch, "zeros", return_value=out.tensor):
        assert hierarchy.total(guarded.tensor, **options) is out.tensor
    guarded.check("x"), out.check("the sum")
    exact = x.double().sum()
    if x.dtype == torch.float32:
        assert abs(out.tensor.double() - exact) <= sum_tolerance(x, max(x.numel() - 1, 0), torch.float32)
    else:
        assert out.tensor.item() == exact.item()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.float32])
def test_adds_up(device, dtype):
    for n in (0, 1, 31, 32, 33, 128, 97 if device == "cpu" else 99_999):
        x = torch.arange(n, device=device) * 37 % 101 - (0 if dtype == torch.uint8 else 50)
        for block_size, num_warps in ((32, 1), (64, 4), (1024, 2)):
            check_total(x.to(dtype), block_size=block_size, num_warps=num_warps)


@settings(max_examples=15)
@given(n=st.integers(0, 200), block_size=st.sampled_from([1, 8, 64, 256]), num_warps=st.sampled_from([1, 2, 8]))
def test_adds_up_whatever_the_block_and_the_warps(device, n, block_size, num_warps):
    x = torch.arange(1, n + 1, dtype=torch.int32, device=device)
    check_total(x, block_size=block_size, num_warps=num_warps)


def test_does_not_overflow(device):
    for value in (2**31 - 1, -(2**31)):
        x = torch.full((100,), value, dtype=torch.int32, device=device)
        assert hierarchy.total(x, block_size=64).item() == 100 * value


def test_touches_each_element_once():
    x = torch.arange(100, dtype=torch.int32)
    with recorded_accesses() as accesses:
        hierarchy.total(x, block_size=32)
    check_each_once(accesses, "load", x=x)


def test_offsets_past_2_to_the_31():
    x, out = torch.zeros(2, 1)
    with recorded_accesses(first_program=(2**27, 0, 0), memory=False) as seen:
        hierarchy.total_kernel[(1,)](x, out, 2**32 + 2, BLOCK_SIZE=32)
    assert ((seen[0][1] - x.data_ptr()) // 4).tolist() == [2**32, 2**32 + 1]


@pytest.mark.parametrize("n, block_size", [(2**31, 1), (2**32 - 1, 2)])
def test_refuses_too_many_elements(device, n, block_size):
    x = torch.ones(1, device=device)
    with mock.patch.object(torch.Tensor, "numel", return_value=n), pytest.raises(ValueError, match="too many"):
        hierarchy.total(x, block_size=block_size)


def test_serves_what_is_at_the_limits(device):
    x = torch.arange(8.0, device=device, requires_grad=True)
    with torch.no_grad():
        assert hierarchy.total(x, block_size=2**16, num_warps=32).item() == 28
    with (
        mock.patch.object(torch.Tensor, "numel", return_value=2**31 - 1),
        mock.patch.object(hierarchy, "total_kernel") as kernel,
    ):
        hierarchy.total(torch.ones(1), block_size=1)
    assert kernel.__getitem__.call_args == mock.call((2**31 - 1,))


@pytest.mark.gpu
def test_the_order_shows_in_floats_only():
    torch.manual_seed(0)
    x = torch.rand(2**24, device="cuda")
    whole = torch.randint(-1000, 1000, (2**24,), dtype=torch.int32, device="cuda")
    assert len({hierarchy.total(x).item() for _ in range(100)}) > 1
    assert {hierarchy.total(whole).item() for _ in range(20)} == {whole.sum().item()}


@pytest.mark.gpu
def test_adds_up_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 4 * 2**30:
        pytest.skip("takes 3 GiB")
    x = torch.ones(2**31 + 5, dtype=torch.int8, device="cuda")
    assert hierarchy.total(x).item() == 2**31 + 5


# whereabouts


def test_whereabouts_stores_what_the_hardware_says():
    """In the interpreter there is no hardware, so each register of it yields numbers of its own."""
    told = []

    def assembly(text, constraints, args, dtype, **options):
        told.append((text, constraints, str(dtype), options))
        return args[0] + {"%tid.x": 0, "%smid": 1000, "%laneid": 2000}[text.split()[2].rstrip(";")]

    with mock.patch.object(tl, "inline_asm_elementwise", assembly):
        seen = hierarchy.whereabouts(3, num_warps=2)
    offsets = torch.arange(3 * 64, dtype=torch.int32).view(3, 64)
    assert seen["thread"].equal(offsets) and seen["warp"].equal(offsets // 32)
    assert seen["sm"].equal(offsets + 1000) and seen["lane"].equal(offsets + 2000)
    for text, constraints, dtype, options in told:
        assert (constraints, dtype, options) == ("=r,r", "int32", {"is_pure": False, "pack": 1}), text


def test_whereabouts_stays_inside():
    found = Guarded((4, 3, 64), torch.int32, torch.device("cpu"), before=64, after=64, fill=0x5A)
    with (
        mock.patch.object(tl, "inline_asm_elementwise", lambda text, constraints, args, dtype, **options: args[0]),
        handed_out("empty", found.tensor),
        recorded_accesses() as accesses,
    ):
        hierarchy.whereabouts(3, num_warps=2)
    found.check("the result")
    check_each_once(accesses, "store", found=found.tensor)


@pytest.mark.parametrize(
    "programs, options",
    [
        (0, {}),
        (2**24, {}),
        (1.5, {}),
        (1, {"num_warps": 3}),
        (1, {"num_warps": 64}),
        (1, {"num_ctas": 16}),
        (1, {"num_warps": 0}),
        (1, {"num_ctas": 2.0}),
        (2**18, {"num_warps": 32, "num_ctas": 8}),
    ],
)
def test_whereabouts_refuses(programs, options):
    with pytest.raises(ValueError, match="must be"):
        hierarchy.whereabouts(programs, **options)


@pytest.mark.parametrize("programs, warps, blocks", [(1, 1, 1), (2**18 - 1, 32, 8)])
def test_whereabouts_serves_what_is_at_the_limits(programs, warps, blocks):
    with (
        mock.patch.object(hierarchy, "whereabouts_kernel") as kernel,
        mock.patch.object(torch, "empty", return_value=torch.arange(4)) as empty,
    ):
        hierarchy.whereabouts(programs, num_warps=warps, num_ctas=blocks)
    threads = 32 * warps * blocks
    assert kernel.__getitem__.call_args == mock.call((programs,)) and empty.call_args.args == (4, programs, threads)
    assert kernel[(programs,)].call_args.kwargs == {"THREADS": threads, "num_warps": warps, "num_ctas": blocks}


@pytest.mark.parametrize("gpu, hip, served", [(True, None, True), (False, None, False), (True, "7.1", False)])
def test_whereabouts_needs_an_nvidia_gpu(monkeypatch, gpu, hip, served):
    monkeypatch.setattr(hierarchy, "whereabouts_kernel", kernel := mock.MagicMock(spec=triton.JITFunction))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: torch.arange(4))
    if served:
        assert list(hierarchy.whereabouts(1)) == ["thread", "sm", "warp", "lane"]
    else:
        with pytest.raises(ValueError, match="no NVIDIA GPU found"):
            hierarchy.whereabouts(1)
    assert kernel.__getitem__.called == served


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_a_program_is_on_one_multiprocessor(num_warps):
    seen = hierarchy.whereabouts(500, num_warps=num_warps)
    assert bool((seen["sm"] == seen["sm"][:, :1]).all())
    threads = torch.arange(32 * num_warps, dtype=torch.int32, device="cuda")
    for name, expected in (("thread", threads), ("warp", threads // 32), ("lane", threads % 32)):
        assert bool((seen[name] == expected).all()), name


# figures


def fake_driver(error=0):
    """A stand-in for libcuda whose attributes are their own numbers times ten, and GPU 1 has the handle 5."""

    def get_device(pointer, ordinal):
        pointer._obj.value = ordinal + 4
        return 0

    def get(pointer, number, device):
        pointer._obj.value = 10 * number + device.value
        return error

    return SimpleNamespace(cuDeviceGet=get_device, cuDeviceGetAttribute=get)


@pytest.fixture
def with_fake_driver(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake_driver())


def test_figures_asks_for_each_attribute(with_fake_driver):
    found = hierarchy.figures(1)
    assert list(found) == list(hierarchy.ATTRIBUTES)
    assert found["multiprocessors"] == 165 and found["threads in a warp"] == 105
    assert found["bytes of shared memory reserved for each thread block"] == 1115


def test_figures_refuses(with_fake_driver, monkeypatch):
    for device in (-1, 2):
        with pytest.raises(ValueError, match=f"between 0 and 1; got {device}"):
            hierarchy.figures(device)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake_driver(error=1))
    with pytest.raises(ValueError, match="no word on the multiprocessors: CUresult 1"):
        hierarchy.figures()


def test_figures_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no NVIDIA GPU found"):
        hierarchy.figures()


def test_names_of_other_tellers_are_among_the_attributes():
    assert set(hierarchy.TORCH) | set(hierarchy.TRITON) <= set(hierarchy.ATTRIBUTES)


@pytest.mark.gpu
def test_all_who_tell_a_figure_agree():
    for name, told in hierarchy.told_by().items():
        values = {value for value in told.values() if value is not None}
        assert len(values) == 1, f"{name}: {told}"
    assert hierarchy.figures()["multiprocessors"] == torch.cuda.get_device_properties(0).multi_processor_count


# the script


def run(device, **more):
    root = SOURCE.parents[2]
    given = environment(device, PYTHONPATH=str(root), **more)
    return run_script(SOURCE, env=given, cwd=root)


def test_says_so_without_a_gpu():
    done = run("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


def test_prints(device, capsys):
    hierarchy.main()
    lines = capsys.readouterr().out.splitlines()
    assert "32 elements, a program of one warp: 528" in lines
    assert "1024 elements, eight such programs: 524800" in lines
    if device == "cuda":
        assert "programs whose threads were not all on one multiprocessor: 0" in lines
        assert "different results with integers: 1" in lines
