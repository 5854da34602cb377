# SPDX-License-Identifier: Apache-2.0
"""The way from an illegal access to its cause: every step finds what the page says that it finds."""

import shutil
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.tools import debugging_illegal_access_bug
from snippets.tools.debugging_illegal_access_bug import COMPILED, KERNELS, STEPS, command, run, shortened, totals

FILE = "debugging_illegal_access_bug.py"


@pytest.fixture(autouse=True)
def children_find_the_snippets(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))


@pytest.mark.parametrize("n, block", [(1, 4), (6, 4), (8, 4), (13, 8)])
def test_the_mended_kernel(device, n, block):
    prices = torch.rand(8, device=device) + 1
    ids = Guarded.around(torch.randint(0, 8, (n,), device=device), before=4, after=2 * block, fill=0x7F)
    parts = -(-n // block)
    out = Guarded((parts,), torch.float32, device, before=4, after=5, fill=0x5A)
    if device == "cpu":
        with recorded_accesses() as accesses:
            KERNELS["mended"][(parts,)](out.tensor, prices, ids.tensor, n, BLOCK=block)
        loads = [access for access in accesses if access[0] == "load"]  # of ids and of prices, in turns
        check_each_once(loads[::2], "load", ids=ids.tensor)
        assert sum(len(addresses) for _, addresses in loads[1::2]) == n
        check_each_once(accesses, "store", out=out.tensor)
    else:
        KERNELS["mended"][(parts,)](out.tensor, prices, ids.tensor, n, BLOCK=block)
    out.check("out")
    expected = [prices[ids.tensor[i * block : (i + 1) * block]].sum().item() for i in range(parts)]
    assert out.tensor.tolist() == pytest.approx(expected)
    assert totals(KERNELS["mended"], prices, ids.tensor, block).tolist() == pytest.approx(expected)


TRACEBACK = f"""Traceback (most recent call last):
  File "/home/me/{FILE}", line 155, in <module>
    work(KERNELS[sys.argv[1]])
    ~~~~^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/{FILE}", line 83, in work
    print("discounts:", discounts.sum().item())
                        ^^^^^^^^^^^^^^^^^^^^^^
  File "/lib/torch/x.py", line 5, in sum
    other
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call
"""
FAULT = f"""========= Invalid __global__ read of size 4 bytes
=========     at total_kernel_bug+0x1a0 in /home/me/{FILE}:34
=========     by thread (2,0,0) in block (1,0,0)
=========     Access to 0x7f1234 is out of bounds
=========     and is 4,397,908,102,657 bytes after the nearest allocation at 0x7fb7b2c00000 of size 512 bytes
=========
"""
SANITIZED = f"========= COMPUTE-SANITIZER\n{FAULT * 3}========= ERROR SUMMARY: 3 errors\n"


def test_shortened():
    assert shortened(TRACEBACK) == [
        "Traceback (most recent call last):",
        "  …",
        f'  File "{FILE}", line 83, in work',
        '    print("discounts:", discounts.sum().item())',
        "  …",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ]
    first = [
        "========= Invalid __global__ read of size 4 bytes",
        f"=========     at total_kernel_bug+0x… in {FILE}:34",
        f"        ← {Path(debugging_illegal_access_bug.__file__).read_text('utf-8').splitlines()[33].strip()}",
        "=========     by thread (2,0,0) in block (1,0,0)",
        "=========     Access to 0x… is out of bounds",
    ]
    summary = "========= ERROR SUMMARY: 3 errors"
    assert shortened(SANITIZED) == [*first, "========= … 2 more like it", summary]
    assert shortened(f"{FAULT}{summary}\nbill: 64.0\n") == [*first, summary, "bill: 64.0"]


def test_command():
    assert command(*STEPS["the interpreter"]) == f"$ TRITON_INTERPRET=1 python -X faulthandler {FILE} bug"
    assert command(*STEPS["mended"]).replace(" \\\n   ", "") == (
        "$ PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --report-api-errors no --show-backtrace no"
        f" python {FILE} mended"
    )


def line_of(text):
    source = Path(debugging_illegal_access_bug.__file__).read_text("utf-8")
    return source[: source.index(text)].count("\n") + 1


def test_the_interpreter_names_the_line():
    first, *rest = run(*STEPS["the interpreter"])
    assert first == "Fatal Python error: Segmentation fault"
    assert rest[1] == f'  File "{FILE}", line {line_of("prices = tl.load(prices_ptr + ids)")} in total_kernel_bug'
    assert rest[2] == "        ← prices = tl.load(prices_ptr + ids)"


def test_the_assertion_names_the_cause():
    shown = run(*STEPS["the cause"])
    assert shown[0] == "pid (0, 0, 0): ids [3 1 4 1]"
    assert " ".join(shown[1].split()) == "pid (1, 0, 0): ids [ 5 2 1099511627776 1099511627776]"
    assert "AssertionError: there are 8 prices: pid (1, 0, 0), 2 of 4 lanes, first lane 2" in shown
    assert f'  File "{FILE}", line {line_of("assert_all((ids")}, in total_kernel_checked_bug' in shown


@pytest.mark.gpu
def test_on_a_gpu():
    assert COMPILED
    late, at_once = run(*STEPS["it fails"]), run(*STEPS["launches that wait"])
    assert any("discounts" in line for line in late) and not any("kernel[" in line for line in late)
    assert any("kernel[" in line for line in at_once) and not any("discounts" in line for line in at_once)
    assert all("illegal memory access" in shown[-1] for shown in (late, at_once))
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    found, clean = run(*STEPS["the sanitizer"]), run(*STEPS["mended"])
    lost = run(*STEPS["no line information"])
    assert any("at total_kernel_bug+" in line for line in lost) and not any(FILE in line for line in lost)
    assert any("Invalid __global__ read of size 4" in line for line in found)
    load = line_of("prices = tl.load(prices_ptr + ids)")  # Triton 3.9 counts it to the line after, as the page says
    assert any(f"{FILE}:{line}" in said for line in (load, load + 1) for said in found)
    assert "========= ERROR SUMMARY: 0 errors" in clean and "bill: 64.0" in clean
