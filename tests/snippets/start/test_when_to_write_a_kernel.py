# SPDX-License-Identifier: Apache-2.0
"""The recurrence: as close to float64 as float32 can be, exact on whole numbers, and inside its tensors throughout."""

import contextlib
import math
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, environment, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st

from snippets.start import when_to_write_a_kernel as lesson
from tests.processes import run_script

SOURCE = Path(lesson.__file__)


def served(device):
    return [dtype for dtype in lesson.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def run(a, b, block=4, starts=(0, 0, 0)):
    """The result of ``recurrence``, after a check of what it touched: guard zones and, on a CPU, every access."""
    zones = [{"before": 64 + start, "after": max(64, 2 * a.shape[-1])} for start in starts]
    inputs = [Guarded.around(x, **zone, fill=0xFF) for x, zone in zip((a, b), zones, strict=False)]
    out = Guarded(b.shape, b.dtype, b.device, **zones[2], fill=0xFF)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor) as empty_like,
        recorded_accesses() if b.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        result = lesson.recurrence(*(x.tensor for x in inputs), block=block)
    assert empty_like.call_count == 1 and result is out.tensor
    for name, guarded, before in zip("ab", inputs, (a, b), strict=True):
        guarded.check(name)
        check_same_bits(guarded.tensor, before)
    out.check("h")
    if accesses is not None:
        check_each_once(accesses, "load", a=inputs[0].tensor, b=inputs[1].tensor)
        check_each_once(accesses, "store", h=out.tensor)
    return result


def exactly(a, b):
    """The recurrence in float64, written out once more, and how far off one in float32 may be.

    A step multiplies, adds and so rounds twice at most, by half an eps of each result; it hands on the error before.
    """
    h, error, steps, errors = torch.zeros_like(b[:, 0]).double(), 0.0, [], []
    rounding, final = torch.finfo(torch.float32).eps / 2, torch.finfo(b.dtype).eps / 2
    for t in range(b.shape[1]):
        product = a[:, t].double() * h
        h = product + b[:, t].double()
        error = a[:, t].double().abs() * error + 1.01 * rounding * (product.abs() + h.abs())
        steps.append(h), errors.append(error + 1.01 * final * (h.abs() + error) + 1e-7 * (b.dtype == torch.float16))
    return torch.stack(steps, 1), torch.stack(errors, 1)


def random(shape, dtype, device, seed=0):
    numbers = torch.Generator().manual_seed(seed)
    a = torch.rand(shape, generator=numbers) * 2 - 1
    return a.to(device, dtype), torch.randn(shape, generator=numbers).to(device, dtype)


@given(
    data=st.data(),
    series=st.integers(1, 3),
    time=st.integers(1, 40),
    channels=st.integers(1, 20),
    block=st.sampled_from([4, 8, 16]),
    starts=st.tuples(*[st.sampled_from([0, 1, 4])] * 3),
    seed=st.integers(0, 99),
)
def test_close_to_float64(device, data, series, time, channels, block, starts, seed):
    dtype = data.draw(st.sampled_from(served(device)), label="dtype")
    a, b = random((series, time, channels), dtype, device, seed)
    exact, tolerance = exactly(a, b)
    error = (run(a, b, block, starts).double() - exact).abs()
    assert bool((error <= tolerance).all()), f"largest error: {error.max()}"


@pytest.mark.parametrize("shape, block", [((2, 5, 6), 4), ((1, 1, 1), 4), ((3, 2, 4), 4), ((1, 17, 5), 1)])
def test_exact_on_whole_numbers(device, shape, block):
    numbers = torch.Generator().manual_seed(1)
    for dtype in served(device):
        a = torch.randint(-1, 2, shape, generator=numbers).to(device, dtype)
        b = torch.randint(-3, 4, shape, generator=numbers).to(device, dtype)
        exact, _ = exactly(a, b)
        check_same_bits(run(a, b, block), exact.to(dtype))
        check_same_bits(lesson.recurrence_eager(a, b), exact.to(dtype))


def test_h_is_kept_in_float32(device):
    """Rounded to float16 at every step, h goes astray: near 1,000 its neighbors are half a step apart."""
    shape = (1, 2000, 1)
    a = torch.full(shape, 0.9995, dtype=torch.float16, device=device)
    b = torch.ones(shape, dtype=torch.float16, device=device)
    exact, tolerance = exactly(a, b)
    assert bool(((lesson.recurrence(a, b).double() - exact).abs() <= tolerance).all())
    assert abs(lesson.recurrence_eager(a, b)[0, -1, 0].item() - exact[0, -1, 0].item()) > 10


def test_nothing_leaks_from_channel_to_channel_or_series_to_series(device):
    a, b = random((2, 6, 5), torch.float32, device)
    clean = lesson.recurrence(a, b, block=4)
    a[0, 2, 1], b[0, 3, 2] = math.nan, math.inf
    dirty = run(a, b)
    expected = clean.clone()
    expected[0, 2:, 1] = math.nan
    signs = torch.cat([a.new_ones(1), a[0, 4:, 2].sign().cumprod(0)])
    expected[0, 3:, 2] = math.inf * signs
    check_same_bits(dirty, expected)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, shape):
    x = torch.empty(shape, device=device)
    assert lesson.recurrence(x, x).shape == shape


def test_offsets_past_2_to_the_31_elements():
    a, b, h = torch.zeros(3, 1)
    first = 2**29 + 1  # the second program of series 2**28, of two blocks each
    with recorded_accesses(first_program=(first, 0, 0), memory=False) as seen:
        lesson.recurrence_kernel[(1,)](a, b, h, 2, 6, BLOCK=4, STAGES=2)
    offsets = [((at - x.data_ptr()) // 4).tolist() for (_, at), x in zip(seen, (a, b, h) * 2, strict=True)]
    start = 2**28 * 12 + 4
    assert offsets == [[start, start + 1]] * 3 + [[start + 6, start + 7]] * 3


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("takes 30 GiB")
    a = torch.full((2**19 + 1, 2, 2048), 0.5, dtype=torch.bfloat16, device="cuda")
    h = lesson.recurrence(a, a)
    assert bool((h[:, 0] == 0.5).all()) and bool((h[:, 1] == 0.75).all())
    del a, h
    one = torch.ones((1, 3, 2**30 + 8), dtype=torch.bfloat16, device="cuda")
    h = lesson.recurrence(one, one)
    assert all(bool((h[0, t] == t + 1).all()) for t in range(3))


@pytest.mark.gpu
def test_runs_on_the_current_stream_and_does_not_wait():
    a = torch.zeros(4, 64, 1024, device="cuda")
    lesson.recurrence(a, a)  # compiled
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        a.fill_(1)
        h = lesson.recurrence(a, a)
        assert not stream.query(), "recurrence waited for the GPU"
        assert bool((h[:, -1] == 64).all())


@pytest.mark.gpu
def test_real_size():
    a, b = random((4, 2048, 1000), torch.float32, "cuda")
    exact, tolerance = exactly(a, b)
    assert bool(((lesson.recurrence(a, b).double() - exact).abs() <= tolerance).all())


@pytest.mark.parametrize(
    "shape, message",
    [((2**31, 1, 0), "too many for block"), ((1, 2**31, 0), "time steps"), ((0, 1, 2**31), "channels")],
)
def test_refuses_too_many(device, shape, message):
    x = torch.empty(shape, device=device)
    if shape[0] > 1:  # channels that are not there, so that the tensor takes no memory
        with mock.patch.object(lesson.triton, "cdiv", return_value=1), pytest.raises(ValueError, match=message):
            lesson.recurrence(x, x)
    else:
        with pytest.raises(ValueError, match=message):
            lesson.recurrence(x, x)


def test_a_gradient_is_fine_where_none_is_recorded(device):
    x = torch.ones(1, 2, 3, device=device, requires_grad=True)
    with torch.no_grad():
        assert lesson.recurrence(x, x)[0, 1].tolist() == [2.0] * 3


def process(device, **more):
    given = environment(device, PYTHONPATH=str(SOURCE.parents[2]), **more)
    return run_script(SOURCE, env=given)


def test_says_so_without_a_gpu():
    done = process("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")
