# SPDX-License-Identifier: Apache-2.0
"""Greyscale: exact for every color, right for any strides and sizes, and inside of its pictures throughout."""

import ast
import contextlib
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from guards import Guarded, check_same_bits, environment, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitizer import check_sanitized

from snippets.programs import greyscale as snippet
from snippets.programs.greyscale import greyscale, greyscale_flat
from tests.processes import run_python

SOURCE = Path(snippet.__file__)
ROOT = SOURCE.parents[2]


def reference(planes):
    """By float64, in which a half is exact, rounded half up."""
    red, green, blue = planes.double()
    return ((299 * red + 587 * green + 114 * blue) / 1000 + 0.5).floor().to(torch.uint8)


def addresses(tensor):
    """The address of each element, sorted; one that is there twice (stride 0) counts twice."""
    found = np.full((), tensor.data_ptr(), np.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        found = found[..., None] + stride * np.arange(size)
    return np.sort(found.ravel())


def touched(accesses, op):
    return np.sort(np.concatenate([np.empty(0, np.int64), *(found for kind, found in accesses if kind == op)]))


# The check that everything else is built on


def check(picture, channel_dim=0, start=0, run=greyscale, **options):
    """Assert that ``run`` turns ``picture`` gray, reads each of its bytes once, and writes each of the result once.

    The result lies between guard zones, ``start`` bytes behind an address that is aligned for the widest stores.
    """
    expected = reference(picture.movedim(channel_dim, 0))
    before = picture.clone()
    guard = 16 * (1 + expected.shape[-1])  # rows too many would land here
    out = Guarded(expected.shape, torch.uint8, expected.device, before=guard + start, after=16 * guard, fill=0x5A)
    recorder = recorded_accesses() if expected.device.type == "cpu" else contextlib.nullcontext()
    with recorder as accesses, mock.patch.object(torch, "empty", return_value=out.tensor) as empty:
        result = run(picture, channel_dim=channel_dim, **options)
    assert empty.call_count == 1 and empty.call_args.args == tuple(expected.shape) and result is out.tensor
    out.check("the result")
    check_same_bits(result, expected)
    assert torch.equal(picture, before), "the picture is only read"
    if accesses is not None:
        assert np.array_equal(touched(accesses, "load"), addresses(picture)), "loads are not those of the picture"
        assert np.array_equal(touched(accesses, "store"), addresses(out.tensor)), "stores are not those of the result"


def noise(*shape, device):
    return torch.randint(0, 256, shape, dtype=torch.uint8, device=device)


def test_ragged_along_both_sides(device):
    check(noise(3, 5, 6, device=device), block=(2, 4))


def test_one_pixel(device):
    check(noise(3, 1, 1, device=device), block=(2, 4))


def test_interleaved(device):
    check(noise(5, 7, 3, device=device), channel_dim=-1, block=(2, 4))


def test_around_the_edges_of_a_block(device):
    for height in (3, 4, 5, 8):
        for width in (7, 8, 9, 16):
            check(noise(3, height, width, device=device), block=(4, 8))
            check(noise(height, width, 3, device=device), channel_dim=2, block=(4, 8), start=3)


def test_flat(device):
    for height, width in ((1, 1), (3, 5), (4, 4), (1, 17)):
        check(noise(3, height, width, device=device), run=greyscale_flat, block_size=8)
        check(noise(height, width, 3, device=device), channel_dim=-1, run=greyscale_flat, block_size=8)


def test_many_colors(device):
    """Every fifth value of each channel. ``greyscale_rounding.py`` takes all 16,777,216."""
    values = torch.arange(0, 256, 5, dtype=torch.uint8, device=device)
    colors = torch.stack(torch.meshgrid(values, values, values, indexing="ij")).view(3, 52, -1)
    expected = reference(colors)
    check_same_bits(greyscale(colors, block=(16, 1024)), expected)
    check_same_bits(greyscale_flat(colors, block_size=8192), expected)
    check_same_bits(snippet.by_torch(colors), expected)


def layouts(height, width, device):
    """Pictures of this size, with the dimension of their channels, by what is special about their strides."""
    wide = noise(3, 2 * height + 1, 3 * width + 2, device=device)
    yield "planar", noise(3, height, width, device=device), 0
    yield "interleaved", noise(height, width, 3, device=device), -1
    yield "channels in the middle", noise(height, 3, width, device=device), 1
    yield "every other row, every third column", wide[:, 1::2, 2::3], 0
    yield "transposed", noise(3, width, height, device=device).transpose(1, 2), -3
    yield "without alpha", noise(height, width, 4, device=device)[..., :3], 2
    yield "starts anywhere", noise(3 * height * width + 1, device=device)[1:].view(3, height, width), 0


@settings(max_examples=100)
@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 40)),
    block=st.sampled_from([(1, 64), (4, 16), (8, 8), (32, 2), (64, 1), (1, 8), (16, 64)]),
    layout=st.integers(0, 6),
    start=st.sampled_from([0, 1, 4]),
    num_warps=st.sampled_from([1, 4]),
    seed=st.integers(0, 999),
)
def test_any_size_block_and_strides(device, size, block, layout, start, num_warps, seed):
    torch.manual_seed(seed)
    _, picture, channel_dim = list(layouts(*size, device))[layout]
    check(picture, channel_dim, start, block=block, num_warps=num_warps)


@settings(max_examples=25)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 40)), block=st.sampled_from([8, 64, 256]), seed=st.integers(0, 99)
)
def test_flat_any_size(device, size, block, seed):
    torch.manual_seed(seed)
    check(noise(3, *size, device=device), run=greyscale_flat, block_size=block)


def test_one_gray_for_all_pixels(device):
    """A picture of stride 0 takes three bytes of memory."""
    picture = torch.tensor([10, 200, 30], dtype=torch.uint8, device=device)[:, None, None].expand(3, 5, 9)
    check(picture, block=(4, 4))


def test_default_block(device):
    check(noise(3, 3, 2051, device=device))
    check(noise(3, 2051, device=device)[:, None], run=greyscale_flat)


# Offsets past 2**31: the interpreter can run a late program without touching memory.

FAR = {  # tile (column, row), height, width, strides of rows and columns; the first offset to load and to store
    "a row": ((2**29, 0), (1, 2**31 + 3, 2**31 + 3, 1), 2**31, 2**31),
    "a column of the picture": ((2**20, 0), (1, 2**23, 1, 2**12), 2**22 * 2**12, 2**22),
    "a row of the picture": ((0, 2**14), (2**16, 4, 2**20, 1), 2**15 * 2**20, 2**15 * 4),
    "a row of the result": ((0, 2**14), (2**16, 2**20, 3, 1), 2**15 * 3, 2**15 * 2**20),
}


def far(kernel, position, arguments, **block):
    """The first offsets that one late program loads, of each channel, and the first that it stores."""
    picture, gray = torch.zeros(2, 1, dtype=torch.uint8)
    with recorded_accesses(first_program=(*position, 0), memory=False) as accesses:
        kernel[(1,)](picture, gray, *arguments, **block)
    *loads, store = [int(found[0]) for _, found in accesses]
    return [load - picture.data_ptr() for load in loads], store - gray.data_ptr()


@pytest.mark.parametrize("position, arguments, loaded, stored", FAR.values(), ids=FAR)
def test_offsets_past_2_to_the_31(position, arguments, loaded, stored):
    channel = 2**30 + 1  # fits in 32 bits, while its double does not
    height, width, stride_y, stride_x = arguments
    found = far(snippet.greyscale_kernel, position, (height, width, channel, stride_y, stride_x), BLOCK_Y=2, BLOCK_X=4)
    assert found == ([loaded, loaded + channel, loaded + 2 * channel], stored)


def test_flat_offsets_past_2_to_the_31():
    channel = 2**30 + 1
    found = far(snippet.greyscale_flat_kernel, (2**29, 0), (2**31 + 3, channel, 3), BLOCK_SIZE=4)
    assert found == ([3 * 2**31 + i * channel for i in range(3)], 2**31)


@pytest.mark.parametrize("shape", [(3, 0, 5), (3, 5, 0), (3, 0, 0)])
@pytest.mark.parametrize("run", [greyscale, greyscale_flat])
def test_empty(device, shape, run):
    out = run(torch.empty(shape, dtype=torch.uint8, device=device))
    assert out.shape == shape[1:] and out.dtype == torch.uint8


def test_flat_serves_a_row_of_a_larger_picture(device):
    check(noise(3, 4, 8, device=device)[:, :1, :5], run=greyscale_flat, block_size=2**16)


@pytest.mark.parametrize("block", [(512, 2), (1, 2**16)])
def test_blocks_are_rows_and_columns(block):
    picture = torch.zeros(3, 1, 1, dtype=torch.uint8).expand(3, block[0] * 65535, 9)  # the most rows
    with mock.patch.object(snippet, "greyscale_kernel") as kernel, mock.patch.object(torch, "empty"):
        greyscale(picture, block=block)
    grid = kernel.__getitem__.call_args.args[0]
    options = kernel[grid].call_args.kwargs
    assert (options["BLOCK_Y"], options["BLOCK_X"]) == block
    assert grid(options) == (-(-9 // block[1]), 65535)


def test_flat_has_as_many_programs_as_cuda():
    picture = torch.zeros(3, 1, 1, dtype=torch.uint8).expand(3, 1, 2**31 - 1)
    with mock.patch.object(snippet, "greyscale_flat_kernel") as kernel, mock.patch.object(torch, "empty"):
        greyscale_flat(picture, block_size=1)
    assert kernel.__getitem__.call_args == mock.call((2**31 - 1,))


def test_compiled_refuses_the_cpu():
    call = "import torch; from snippets.programs.greyscale import *; greyscale(torch.zeros(3, 2, 2, dtype=torch.uint8))"
    done = run_python("-c", call, env=environment("cuda"), cwd=ROOT)
    assert "ValueError: picture is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1" in done.stderr


# The file as a script


def test_imports_nothing_but_torch_and_triton():
    nodes = list(ast.walk(ast.parse(SOURCE.read_text("utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"torch", "triton"}


# On a GPU only


def gpu(test):
    return pytest.mark.gpu(pytest.mark.long(test))


@gpu
def test_refuses_the_cpu():
    with pytest.raises(ValueError, match="picture is on the CPU; move it to a GPU"):
        greyscale(torch.zeros(3, 2, 2, dtype=torch.uint8))


@gpu
def test_runs_on_the_device_of_the_picture():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    picture = noise(3, 50, 70, device="cuda:1")
    assert torch.cuda.current_device() == 0
    check_same_bits(greyscale(picture), reference(picture))


@gpu
def test_allocates_its_result_and_does_not_wait():
    picture = noise(1024, 1024, 3, device="cuda")
    greyscale(picture, channel_dim=-1)  # compiles
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    done = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(10**9)  # cycles: about half a second
        out = greyscale(picture, channel_dim=-1)
        done.record()
        waited = done.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    after = torch.cuda.memory_stats()
    assert not waited
    assert after["allocation.all.allocated"] - before["allocation.all.allocated"] == 1
    assert after["allocated_bytes.all.peak"] - before["allocated_bytes.all.current"] == out.nbytes == 2**20
    check_same_bits(out, reference(picture.movedim(-1, 0)))


# Offsets past 2**31: in the picture, in both; in one row; and a channel stride that fits 32 bits while its double does
# not. In a process of its own, because offsets in 32 bits may well end the CUDA context with an illegal access.
BEYOND_32_BITS = """
import runpy, sys, torch
namespace = runpy.run_path(sys.argv[1])
for run in (namespace["greyscale"], namespace["greyscale_flat"]):
    for shape in ((3, 38_000, 38_000), (3, 46_400, 46_400), (3, 1, 2**31 + 5), (46_400, 46_400, 3)):
        torch.manual_seed(0)
        picture = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
        dim = 0 if shape[0] == 3 else -1
        gray = run(picture, channel_dim=dim)
        flat = picture.movedim(dim, 0).reshape(3, -1) if dim == 0 else picture.view(-1, 3).T
        for start in range(0, gray.numel(), 2**27):
            red, green, blue = flat[:, start : start + 2**27].int()
            expected = ((299 * red + 587 * green + 114 * blue + 500) // 1000).to(torch.uint8)
            wrong = int((gray.view(-1)[start : start + 2**27] != expected).sum())
            assert wrong == 0, f"{shape}: {wrong} wrong pixels from {start}"
        del picture, gray, flat, red, green, blue, expected
print("all right")
"""


def beyond_32_bits(path):
    free = torch.cuda.mem_get_info()[0]
    if free < 14e9:
        pytest.skip(f"needs 14 GB of free GPU memory, has {free / 1e9:.1f}")
    command = [sys.executable, "-c", BEYOND_32_BITS, str(path)]
    return subprocess.run(command, env=environment("cuda"), capture_output=True, text=True)


@gpu
def test_more_than_2_to_the_31_elements():
    done = beyond_32_bits(SOURCE)
    assert done.returncode == 0 and done.stdout == "all right\n", done.stderr


@gpu
@pytest.mark.parametrize(
    "old, new",
    [
        ("x = tl.program_id(axis=0).to(tl.int64)", "x = tl.program_id(axis=0)"),
        ("y = tl.program_id(axis=1).to(tl.int64)", "y = tl.program_id(axis=1)"),
        ("offsets = tl.program_id(axis=0).to(tl.int64)", "offsets = tl.program_id(axis=0)"),
        ("blue_ptr = green_ptr + stride_c", "blue_ptr = red_ptr + 2 * stride_c"),
    ],
)
def test_offsets_in_32_bits_are_caught(tmp_path, old, new):
    text = SOURCE.read_text("utf-8")
    assert old in text
    mutant = tmp_path / "mutant.py"
    mutant.write_text(text.replace(old, new), "utf-8")
    done = beyond_32_bits(mutant)
    assert done.returncode != 0 and "all right" not in done.stdout
    assert "AssertionError" in done.stderr or "illegal memory access" in done.stderr, done.stderr


@gpu
def test_compute_sanitizer_finds_nothing():
    check_sanitized(SOURCE)
