# SPDX-License-Identifier: Apache-2.0
"""RMSNorm four ways: the same numbers; the Triton kernel inside its tensors; the compiler's kernel is found."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, check_same_bits, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st

from snippets.start import torch_compile_rms_norm as snippet


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def run(x, weight, starts=(0, 0, 0), **options):
    """The result of ``rms_norm``, after a check of what it touched: guard zones and, on a CPU, every access."""
    zones = [{"before": 64 + start, "after": 64} for start in starts]
    inputs = [Guarded.around(t, **zone, fill=0xFF) for t, zone in zip((x, weight), zones, strict=False)]
    out = Guarded(x.shape, x.dtype, x.device, **zones[2], fill=0xFF)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor),
        recorded_accesses() if x.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        assert snippet.rms_norm(*(t.tensor for t in inputs), **options) is out.tensor
    for name, guarded, before in zip(("x", "weight"), inputs, (x, weight), strict=True):
        guarded.check(name)
        check_same_bits(guarded.tensor, before)
    out.check("the result")
    if accesses is not None:
        check_inside(accesses, "load", x=inputs[0].tensor, weight=inputs[1].tensor)
        check_each_once(accesses, "store", out=out.tensor)
    return out.tensor


@given(
    data=st.data(),
    rows=st.integers(1, 4),
    columns=st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 511, 513])),
    starts=st.tuples(*[st.sampled_from([0, 1, 4])] * 3),
    eps=st.sampled_from([0.0, 1e-6, 0.5]),
)
def test_close_to_float64(device, data, rows, columns, starts, eps):
    dtype = data.draw(st.sampled_from(served(device)), label="dtype")
    numbers = torch.Generator().manual_seed(rows * columns)
    x = (torch.randn(rows, columns, generator=numbers) + 0.1).to(device, dtype)
    weight = (torch.rand(columns, generator=numbers) + 0.5).to(device, dtype)
    exact = x.double() * torch.rsqrt(x.double().square().mean(1, keepdim=True) + eps) * weight.double()
    # The sum of squares rounds a dozen times at most, by a tree; rsqrt and two products a few times more.
    rounding = 24 * torch.finfo(torch.float32).eps + torch.finfo(dtype).eps / 2
    error = (run(x, weight, starts, eps=eps).double() - exact).abs()
    assert bool((error <= rounding * exact.abs() + 1e-7).all())


def test_all_sides_agree(device):
    x = torch.randn(5, 96, generator=torch.Generator().manual_seed(0)).to(device)
    weight = torch.linspace(0.5, 1.5, 96, device=device)
    sides = {name: side for name, side in snippet.SIDES.items() if name != "compiled" or device == "cuda"}
    for side in sides.values():
        torch.testing.assert_close(side(x, weight), snippet.rms_norm_eager(x.double(), weight.double()).float())


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_empty(device, shape):
    x = torch.empty(shape, device=device)
    assert snippet.rms_norm(x, torch.ones(shape[1], device=device)).shape == shape


def test_offsets_past_2_to_the_31_elements():
    x, weight, out = torch.zeros(3, 1)
    with recorded_accesses(first_program=(2**30, 0, 0), memory=False) as seen:
        snippet.rms_norm_kernel[(1,)](x, weight, out, 3, 1.0, BLOCK=4)
    offsets = [((at - t.data_ptr()) // 4).tolist() for (_, at), t in zip(seen, (x, weight, out), strict=True)]
    assert offsets == [[3 * 2**30 + i for i in range(3)], [0, 1, 2], [3 * 2**30 + i for i in range(3)]]


def test_serves_what_is_at_the_limits(device):
    for shape in ((0, 2**16), (2**31 - 1, 0)):
        x = torch.empty(shape, device=device)
        assert snippet.rms_norm(x, torch.ones(shape[1], device=device)).shape == shape
    with torch.no_grad():
        x = torch.ones(1, 2, device=device, requires_grad=True)
        assert snippet.rms_norm(x, torch.ones(2, device=device), eps=0.0).tolist() == [[1, 1]]


def test_kernels_are_found_in_what_the_compiler_wrote():
    one = "async_compile.triton('{0}', '''\nimport triton\n@heuristics()\n@triton.jit\ndef {0}(x):\n    pass\n''')\n"
    found = snippet.kernels_in(one.format("first") + "y = '''no kernel'''\n" + one.format("second"))
    assert found == [f"@triton.jit\ndef {name}(x):\n    pass" for name in ("first", "second")]


@pytest.mark.gpu
def test_the_compiler_writes_one_kernel():
    x, weight = torch.ones(64, 1024, device="cuda"), torch.ones(1024, device="cuda")
    (kernel,) = snippet.emitted_kernels(snippet.rms_norm_eager, x, weight)
    assert kernel.startswith("@triton.jit\ndef triton_") and "tl.store" in kernel


def test_says_so_without_a_gpu():
    with mock.patch.object(torch.cuda, "is_available", return_value=False), pytest.raises(SystemExit, match="no GPU"):
        snippet.main()
