# SPDX-License-Identifier: Apache-2.0
"""How many programs fit: hand-worked cases, and on a GPU the driver's word and a count."""

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import triton
import triton.language as tl
from guards import Guarded, check_each_once, check_same_bits, recorded_accesses, without_memory
from hardware import Hardware
from hypothesis import given
from hypothesis import strategies as st

from snippets.gpu import schedule_occupancy as occupancy
from snippets.gpu.schedule import busy_kernel, count_multiprocessors
from snippets.gpu.schedule_occupancy import Room, programs_by_limit

# warps, registers, shared: programs, warps, registers, shared; worked out by hand for an H200
BY_HAND = {
    (1, 16, 0): (32, 64, 128, 228),  # 512 registers a warp, 32 warps a quarter; 233472 / 1024 = 228
    (4, 32, 0): (32, 16, 16, 228),  # 1024 a warp, 16 a quarter, 64 warps
    (4, 33, 0): (32, 16, 12, 228),  # 1056 rounded up to 1280: 12 a quarter (not 12.8), 48 warps
    (4, 40, 0): (32, 16, 12, 228),  # just 1280
    (4, 41, 0): (32, 16, 10, 228),  # 1312 rounded up to 1536: 10 a quarter, 40 warps
    (8, 168, 0): (32, 8, 1, 228),  # 5376: 3 a quarter, 12 warps, room for one program of 8
    (4, 255, 0): (32, 16, 2, 228),  # 8160 rounded up to 8192: 2 a quarter, 8 warps
    (32, 64, 0): (32, 2, 1, 228),  # 2048: 8 a quarter, 32 warps
    (32, 65, 0): (32, 2, 0, 228),  # 2304: 7 a quarter, 28 warps: such a program cannot run
    (4, 16, 1): (32, 16, 32, 202),  # 1025 bytes rounded up to 1152; 233472 / 1152 = 202.7
    (4, 16, 32768): (32, 16, 32, 6),  # 33792 with what is reserved; 6.9
    (4, 16, 49152): (32, 16, 32, 4),  # 50176; 4.65
    (4, 16, 232448): (32, 16, 32, 1),  # all that a program can have, 227 KiB
    (4, 16, 232449): (32, 16, 32, 0),
}


@pytest.mark.parametrize("takes, fit", BY_HAND.items())
def test_by_hand(takes, fit):
    warps, registers, shared = takes
    found = programs_by_limit(num_warps=warps, registers=registers, shared=shared)
    assert tuple(found.values()) == fit and list(found) == ["programs", "warps", "registers", "shared"]


def test_the_bars_of_the_lesson_are_drawn_to_scale():
    """The page draws six programs of 4 warps, 78 registers a thread and 16 bytes of shared memory."""
    page = (Path(__file__).parents[3] / "docs/en/gpu/schedule.md").read_text("utf-8")
    rows = re.findall(r"<div><span>(.+?)</span>.*?>((?:<i style=.*?></i>)+)</span><span>(.*?)</span></div>", page)
    room = Room()
    takes = {
        "places": (1, room.programs),
        "warps": (4, room.warps),
        "registers": (4 * 2560, room.registers),
        "bytes of shared memory": (1152, room.shared),
    }
    programs = min(programs_by_limit(num_warps=4, registers=78, shared=16).values())
    assert [row[0] for row in rows] == list(takes)
    for name, bars, text in rows:
        one, all_ = takes[name]
        assert text == f"{programs * one:,} of {all_:,}"
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bars)]
        assert widths == [pytest.approx(100 * one / all_, abs=0.006)] * programs


def test_another_gpu():
    """An RTX 4090 has 48 warps, 24 places and 100 KiB of shared memory a multiprocessor."""
    room = Room(warps=48, programs=24, registers=65536, shared=102400, reserved=1024)
    found = programs_by_limit(num_warps=8, registers=40, shared=16384, room=room)
    assert found == {"programs": 24, "warps": 6, "registers": 6, "shared": 5}


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 254), st.integers(0, 240_000))
def test_more_never_fits_better(warps, registers, shared):
    least = lambda **takes: min(programs_by_limit(**takes).values())
    base = least(num_warps=warps, registers=registers, shared=shared)
    assert least(num_warps=warps, registers=registers + 1, shared=shared) <= base
    assert least(num_warps=warps, registers=registers, shared=shared + 1) <= base
    if warps < 32:
        assert least(num_warps=2 * warps, registers=registers, shared=shared) <= base


@pytest.mark.parametrize("takes", [(0, 16, 0), (33, 16, 0), (4, 0, 0), (4, 256, 0), (4, 16, -1)])
def test_refuses(takes):
    with pytest.raises(ValueError, match=f"got {takes[0]}, {takes[1]} and {takes[2]}"):
        programs_by_limit(**dict(zip(("num_warps", "registers", "shared"), takes, strict=True)))


def test_of_a_compiled_kernel():
    compiled = SimpleNamespace(n_regs=78, metadata=SimpleNamespace(num_warps=4, shared=16))
    assert occupancy.programs_at_once(compiled, Room()) == 6
    compiled.metadata.shared = 81920
    assert occupancy.programs_at_once(compiled, Room()) == 2


def test_room_of_the_gpu(monkeypatch):
    names = {
        "threads on a multiprocessor, at most": 1536, "threads in a warp": 32, "registers on a multiprocessor": 65536,
        "thread blocks on a multiprocessor, at most": 24, "bytes of shared memory on a multiprocessor": 102400,
        "bytes of shared memory reserved for each thread block": 1024,
    }  # fmt: skip
    monkeypatch.setattr(occupancy, "figures", lambda: names)
    assert Room.of_gpu() == Room(48, 24, 65536, 102400, 1024)


@pytest.mark.parametrize("tile, k, told, busy", [(16, 16, 701, 720), (16, 48, 700, 710)])
def test_tiles_kernel(tile, k, told, busy):
    """The clock moves in steps of 10, and is looked at once more for the end."""
    torch.manual_seed(0)
    a, b = torch.rand(tile, k).half(), torch.rand(k, tile).half()
    buffers = {n: Guarded((2,), torch.int64, a.device, before=8, after=8, fill=0x5A) for n in ("sm", "begin", "end")}
    sums = Guarded((2,), torch.float32, a.device, before=8, after=8, fill=0x5A)
    guarded = [Guarded.around(t, before=64, after=64, fill=0xFF) for t in (a, b)]
    tensors = {name: buffer.tensor for name, buffer in buffers.items()}
    hardware = mock.patch.object(tl, "inline_asm_elementwise", Hardware())
    with hardware, recorded_accesses() as accesses, mock.patch.object(tl, "debug_barrier") as barrier:
        occupancy.tiles_kernel[(2,)](*tensors.values(), told, *(g.tensor for g in guarded), sums.tensor, k, TILE=tile)
    for name, buffer in (buffers | {"sums": sums}).items():
        buffer.check(name)
    assert sums.tensor.tolist() == pytest.approx([float((a.double() @ b.double()).sum())] * 2, rel=1e-5)
    assert tensors["sm"].tolist() == [7, 7]
    assert (tensors["end"] - tensors["begin"]).tolist() == [busy, busy] and barrier.call_count == 2
    check_each_once(accesses, "store", sums=sums.tensor, **tensors)


@pytest.mark.parametrize(
    "programs, microseconds, options",
    [(0, 1, {}), (1, -1, {}), (1, 10**7, {}), (1, 1, {"tile": 48}), (1, 1, {"k": 100}), (1, 1, {"k": 32})],
)
def test_multiply_tiles_refuses(monkeypatch, programs, microseconds, options):
    monkeypatch.setattr(occupancy, "check_gpu", lambda: None)
    with pytest.raises(ValueError, match="programs must be 1 or more"):
        occupancy.multiply_tiles(programs, microseconds, num_stages=2, **options)


def test_needs_a_gpu():
    with pytest.raises(ValueError, match="unset TRITON_INTERPRET"):
        occupancy.multiply_tiles(1, 1, num_stages=2)
    with pytest.raises(SystemExit, match="unset TRITON_INTERPRET"):
        occupancy.main()


# The copy


def check_copy(x, **options):
    given = Guarded.around(x, before=64, after=64, fill=0xFF)
    out = Guarded(x.shape, x.dtype, x.device, before=64, after=64, fill=0x5A)
    assert occupancy.copy(given.tensor, out.tensor, **options) is out.tensor
    given.check("x"), out.check("out")
    check_same_bits(out.tensor, x)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 50])
def test_copy(device, n):
    for dtype in (torch.float32, torch.int8):
        for programs in (1, 2, 20):
            check_copy((torch.arange(n, device=device) + 1).to(dtype), programs=programs, block_size=8)
    check_copy(torch.arange(12.0, device=device).view(3, 4), programs=2, block_size=4)


def test_copy_touches_each_element_once():
    x, out = torch.arange(50.0), torch.empty(50)
    with recorded_accesses() as accesses:
        occupancy.copy(x, out, programs=3, block_size=8)
    check_each_once(accesses, "load", x=x), check_each_once(accesses, "store", out=out)


def test_copy_past_2_to_the_31():
    x, out = torch.zeros(2, 1)
    with recorded_accesses(first_program=(2**27, 0, 0), memory=False) as seen:
        occupancy.copy_kernel[(1,)](x, out, 2**32 + 40, BLOCK_SIZE=2**5)
    offsets = [((seen[i][1] - t.data_ptr()) // 4).tolist() for i, t in enumerate((x, out, x, out))]
    assert offsets[0] == offsets[1] == list(range(2**32, 2**32 + 32))
    assert offsets[2] == offsets[3] == list(range(2**32 + 32, 2**32 + 40)) and len(seen) == 4


def test_copy_serves_what_is_at_the_limits(device):
    x = torch.arange(5.0, device=device, requires_grad=True)
    with torch.no_grad():
        for block_size in (1, 2**16):
            assert occupancy.copy(x, torch.zeros_like(x), programs=1, block_size=block_size).tolist() == x.tolist()
    with mock.patch.object(occupancy, "copy_kernel") as kernel:
        occupancy.copy(without_memory(4), without_memory(4), programs=2**31 - 1)
    assert kernel.__getitem__.call_args == mock.call((2**31 - 1,))


# On a GPU only


@pytest.mark.gpu
def test_the_driver_agrees():
    """Over registers and warps: what is predicted is what the driver says, for every kernel that can run."""
    compared = 0
    for num_warps, each, most in itertools.product((1, 4, 16, 32), (1, 16, 64), (None, 24, 40, 56, 72, 104, 168)):
        if each * 32 * num_warps > 2**16 or (most or 0) * 32 * num_warps > 65536:
            continue
        numbers = torch.zeros(4, 1, dtype=torch.int64, device="cuda")
        x, sums = torch.rand(each * 32 * num_warps, device="cuda"), torch.empty(1, device="cuda")
        options = {"maxnreg": most} if most else {}
        compiled = busy_kernel[(1,)](*numbers, x, sums, HELD=x.numel(), num_warps=num_warps, **options)
        predicted = occupancy.programs_at_once(compiled)
        assert predicted == occupancy.programs_at_once_by_driver(compiled), (num_warps, each, most, compiled.n_regs)
        compared += 1
    assert compared > 40


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", occupancy.KERNELS)
def test_predicted_is_seen(kernel):
    found = occupancy.measure(kernel)
    assert found["predicted"] == found["driver"] == found["seen"]


@pytest.mark.gpu
def test_tiles_are_right():
    for stages in (2, 3, 5):
        schedule, compiled, error = occupancy.multiply_tiles(2 * count_multiprocessors(), 20, num_stages=stages)
        assert error < 1e-3 and len(schedule.sm) == 2 * count_multiprocessors()
        assert isinstance(compiled, triton.compiler.CompiledKernel)


@pytest.mark.gpu
def test_more_bytes_in_flight_are_faster():
    found = occupancy.measure_filled(2**26, 1)
    assert found["block_512"][0] < 0.6 * found["torch"][0] < found["block_8192"][0] * 1.5
