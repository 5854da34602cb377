# SPDX-License-Identifier: Apache-2.0
"""Which numbers of warps and thread blocks the compiler takes, in a process that compiles."""

import re
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, environment, handed_out, recorded_accesses

from snippets.programs import num_warps
from snippets.programs.num_warps import GPUS, double, launched, why
from tests.processes import run_script


def test_table():
    """With TRITON_INTERPRET=1 the script starts another process, for compiling takes one without it."""
    done = run_script(Path(num_warps.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    rows = {
        tuple(line.split(maxsplit=2)[:2]): line.split(maxsplit=2)[2] for line in done.stdout.splitlines() if "=" in line
    }
    for gpu, width in {"A100": 32, "H200": 32, "MI300X": 64}.items():
        assert rows[gpu, "num_warps=16"] == f"{16 * width:,} threads"
        assert rows[gpu, "num_warps=3"] == "refused: num_warps must be a power of 2"
    assert rows["MI300X", "num_warps=32"] == "1,024 threads", "not 2,048: AMD's limit"
    assert rows["H200", "num_ctas=16"] == "128 threads" and rows["H200", "num_ctas=3"].startswith("refused: ")
    assert rows["A100", "num_ctas=2"].startswith("refused: num_ctas > 1 requires")
    assert ("MI300X", "num_ctas=8") not in rows and set(GPUS) == {gpu for gpu, _ in rows}


@pytest.mark.parametrize("n", [1, 100, num_warps.BLOCK, num_warps.BLOCK + 1])
def test_doubles(device, n):
    x = torch.randn(n, device=device)
    assert torch.equal(double(x), 2 * x) and launched(x) == "right"


REFUSED = {
    "must be float32; got torch.float64": lambda device: torch.ones(4, dtype=torch.float64, device=device),
    "strides (0,); pass x.contiguous()": lambda device: torch.ones(1, device=device).expand(4),
    "strides (2,); pass x.contiguous()": lambda device: torch.ones(4, device=device)[::2],
    "pass x.resolve_neg()": lambda device: torch._neg_view(torch.ones(4, device=device)),
    "requires a gradient": lambda device: torch.ones(4, device=device, requires_grad=True),
    "x is on meta; move it to a GPU": lambda device: torch.ones(4, device="meta"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refuses_what_it_would_double_wrongly(device, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        double(REFUSED[reason](device))


def test_nothing_to_double(device):
    assert double(torch.empty(0, device=device)).shape == (0,)


@pytest.mark.parametrize("n", [1, num_warps.BLOCK + 1])
def test_each_element_is_loaded_and_stored_once(n):
    x = Guarded.around(torch.randn(n), before=64, after=num_warps.BLOCK, fill=0xFF)
    out = Guarded((n,), torch.float32, x.tensor.device, before=64, after=num_warps.BLOCK, fill=0x5A)
    with handed_out("empty_like", out.tensor), recorded_accesses() as accesses:
        double(x.tensor)
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)


def test_a_refusal_is_one_line(monkeypatch):
    assert why(ValueError("no. 2 warps. That is too few\nmore")) == "no"

    def refuse(x, **options):
        raise RuntimeError(f"not {options}\nand more")

    monkeypatch.setattr(num_warps, "double", refuse)
    assert launched(torch.ones(2), num_ctas=32) == "refused: not {'num_ctas': 32}"
    monkeypatch.setattr(num_warps, "double", lambda x, **options: x)
    assert launched(torch.ones(2)) == "wrong"
