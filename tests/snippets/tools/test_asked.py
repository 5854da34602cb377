# SPDX-License-Identifier: Apache-2.0
"""What people ask for, beside torch; and what the compiler makes of it, in a process that compiles."""

import contextlib
import re
from pathlib import Path

import pytest
import torch
from guards import Guarded, environment, precisions_of_dots
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.tools import asked
from tests.processes import run_script


def poisoned(*shape, dtype, device):
    """An output between guards; a stray store shows in ``out.check("out")``."""
    return Guarded(shape, dtype, torch.device(device), before=16, after=256, fill=0x5A)


def numbers(shape, dtype, device):
    return torch.randint(-8, 8, shape).to(dtype).to(device)


@pytest.fixture(autouse=True)
def _the_same_numbers_each_time():
    torch.manual_seed(1)


@pytest.mark.parametrize("values", [[3.0, 1.0, 4.0, 2.0], [-1.0, -5.0], [7.0]])
def test_a_helper_returns_two_results(values, device):
    out = poisoned(2, dtype=torch.float32, device=device)
    asked.range_kernel[(1,)](torch.tensor(values, device=device), out.tensor, BLOCK=len(values))
    assert out.tensor.tolist() == [min(values), max(values)]
    out.check("out")


@pytest.mark.parametrize("n", [1, 4, 64])
def test_two_blocks_in_a_row(n, device):
    a, b = numbers((n,), torch.int64, device), numbers((n,), torch.int64, device) + 100
    out = poisoned(2 * n, dtype=torch.int64, device=device)
    asked.cat_kernel[(1,)](a, b, out.tensor, BLOCK=n)
    assert torch.equal(out.tensor, torch.cat([a, b]))
    out.check("out")


@settings(deadline=None)
@given(steps=st.integers(1, 4))
def test_int8_is_added_up_in_int32(steps):
    device = "cpu" if not torch.cuda.is_available() else "cuda"
    K = 32 * steps
    a, b = (torch.full(shape, -128, dtype=torch.int8, device=device) for shape in ((32, K), (K, 32)))
    a[0], b[:, 1] = 127, 3  # rows and columns differ
    out = poisoned(32, 32, dtype=torch.int32, device=device)
    asked.int8_kernel[(1,)](a, b, out.tensor, K, SIDE=32)
    assert torch.equal(out.tensor.cpu(), a.cpu().int() @ b.cpu().int()) and out.tensor.max() == 128 * 128 * K
    out.check("out")


def test_float16_sums_are_rounded(device):
    """4,096 times 9 is 36,864, which a float16 can hold; a sum that is rounded on the way misses it."""
    a, b = (torch.full(shape, 3.0, dtype=torch.float16, device=device) for shape in ((16, 4096), (4096, 16)))
    out = poisoned(16, 16, dtype=torch.float16, device=device)
    asked.float16_kernel[(1,)](a, b, out.tensor, 4096, SIDE=16)
    assert ((out.tensor > 30_000) & (out.tensor < 36_864)).all()
    out.check("out")


@pytest.mark.parametrize("steps", [1, 3])
def test_small_whole_numbers_are_exact_in_float16(steps, device):
    a, b = numbers((16, 16 * steps), torch.float16, device), numbers((16 * steps, 16), torch.float16, device)
    out = poisoned(16, 16, dtype=torch.float16, device=device)
    asked.float16_kernel[(1,)](a, b, out.tensor, 16 * steps, SIDE=16)
    assert torch.equal(out.tensor.cpu().float(), a.cpu().float() @ b.cpu().float())
    out.check("out")


def batch_of(count, device, *, apart):
    """Matrices of 16 rows and columns, all of them different, that begin ``apart`` elements from each other."""
    x = torch.zeros(apart * count, device=device).as_strided((count, 16, 16), (apart, 16, 1))
    x.copy_(numbers((count, 16, 16), torch.float32, device) + torch.arange(float(count), device=device)[:, None, None])
    return x


@pytest.mark.parametrize("batch", [1, 3])
def test_a_program_for_each_product_of_a_batch(batch, device):
    a, b = batch_of(batch, device, apart=256), batch_of(batch, device, apart=300)
    out = poisoned(400 * batch, dtype=torch.float32, device=device)
    c = out.tensor.as_strided((batch, 16, 16), (400, 16, 1))
    with precisions_of_dots() if device == "cpu" else contextlib.nullcontext({"IEEE"}) as seen:
        asked.batch_kernel[(1, batch)](a, b, c, 256, 300, 400, SIDE=16)
    assert torch.equal(c.cpu(), a.cpu() @ b.cpu()) and seen == {"IEEE"}
    out.check("out")


def test_a_batch_beyond_2_31_elements():
    """The third matrix begins at 2**31; of the memory around it nothing is touched."""
    far = torch.empty(2**31 + 256, dtype=torch.float16).as_strided((3, 16, 16), (2**30, 16, 1))
    near = numbers((3, 16, 16), torch.float16, "cpu")
    far.copy_(near)
    c = torch.zeros(3, 16, 16)
    asked.batch_kernel[(1, 3)](far, far, c, 2**30, 2**30, 256, SIDE=16)
    assert torch.equal(c, near.float() @ near.float())


def test_a_batch_in_one_dot(device):
    a, b = batch_of(4, device, apart=256), batch_of(4, device, apart=256)
    out = poisoned(4, 16, 16, dtype=torch.float32, device=device)
    with precisions_of_dots() if device == "cpu" else contextlib.nullcontext({"IEEE"}) as seen:
        asked.small_batch_kernel[(1,)](a, b, out.tensor, BATCH=4, SIDE=16)
    assert torch.equal(out.tensor.cpu(), a.cpu() @ b.cpu()) and seen == {"IEEE"}
    out.check("out")


@pytest.mark.parametrize("n, radius", [(1, 1), (7, 1), (16, 3), (37, 8)])
def test_a_stencil_adds_the_neighbors_that_exist(n, radius, device):
    x, out = numbers((n,), torch.float32, device), poisoned(n, dtype=torch.float32, device=device)
    around = torch.cat([x.new_full((99,), torch.nan), x, x.new_full((99,), torch.nan)])[99:-99]
    asked.stencil_kernel[(-(-n // 16),)](around, out.tensor, n, RADIUS=radius, BLOCK=16)
    wanted = [x[max(i - radius, 0) : i + radius + 1].sum().item() for i in range(n)]
    assert out.tensor.tolist() == wanted
    out.check("out")


@pytest.mark.parametrize("pieces", [[9], [1] * 9, [2, 4, 3], [1, 8]])
@pytest.mark.parametrize("width, channels", [(2, 3), (4, 16), (5, 37)])
def test_a_causal_convolution_goes_on_where_it_ended(pieces, width, channels, device):
    x, weight = numbers((9, channels), torch.float32, device), numbers((width, channels), torch.float32, device)
    wanted = sum(torch.cat([x.new_zeros(width - 1, channels), x])[k : k + 9] * weight[k] for k in range(width))
    state, found = x.new_zeros(width - 1, channels), []
    for piece in x.split(pieces):
        out, state = asked.causal_conv(piece, weight, state)
        found.append(out)
    assert torch.equal(torch.cat(found), wanted) and state.shape == (width - 1, channels)


def test_a_causal_convolution_reads_no_other_memory(device):
    nan = torch.full((99,), torch.nan, device=device)
    among = lambda *shape: torch.cat([nan, numbers(shape, torch.float32, device).flatten(), nan])[99:-99].view(shape)
    assert asked.causal_conv(among(9, 20), among(4, 20), among(3, 20))[0].isfinite().all()


def test_atomics_add(device):
    """On float32, for the interpreter has no bfloat16 ones."""
    out = poisoned(8, dtype=torch.float32, device=device)
    out.tensor.copy_(torch.arange(8.0, device=device))
    asked.atomic_kernel[(2,)](out.tensor, torch.full((8,), 0.5, device=device), BLOCK=8)
    assert out.tensor.tolist() == [i + 1.0 for i in range(8)]
    out.check("out")


def test_what_is_printed():
    """With TRITON_INTERPRET=1 the script runs in the interpreter, and starts another process to compile."""
    done = run_script(Path(asked.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    _, ran, compiled = re.split(r"^## .+\n", done.stdout, flags=re.MULTILINE)
    assert ran.count("as torch says") == 5 and "WRONG" not in ran
    said = dict(line.split(": ") for line in compiled.splitlines())
    assert {name.split(", ")[0] for name in said} == {
        "int8", "float16 sums", "tl.dot of a batch", "bfloat16 atomic",
    }  # fmt: skip
    for gpu in asked.GPUS:
        assert re.search(r"mma.*\.s32\.s8\.s8", said[f"int8, {gpu}"])
        assert re.search(r"mma.*\.f16\.f16\.f16", said[f"float16 sums, {gpu}"])
        assert "mma.sync" in said[f"tl.dot of a batch, {gpu}"]
    assert "cas" in said["bfloat16 atomic, A100"] and "add" in said["bfloat16 atomic, H200"]


def test_without_a_gpu_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr("sys.argv", ["asked.py"])
    with pytest.raises(SystemExit, match="TRITON_INTERPRET=1"):
        asked.main()
