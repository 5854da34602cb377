# SPDX-License-Identifier: Apache-2.0
"""The kernel copies each byte once, and refuses what it cannot; with two GPUs, bytes arrive by every way."""

import contextlib
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.gpu import memory_two_gpus as snippet
from tests.processes import run_script


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 20_001])
def test_each_byte_is_copied(device, monkeypatch, size):
    monkeypatch.setattr(snippet, "PROGRAMS", 2)  # so that each takes several blocks
    source = torch.randint(1, 256, (size,), dtype=torch.uint8, device=device)
    target = Guarded.around(torch.zeros_like(source), before=64, after=64, fill=0xFF)
    with recorded_accesses() if source.device.type == "cpu" else contextlib.nullcontext() as accesses:
        snippet.load_from(source, target.tensor)
    assert torch.equal(target.tensor, source)
    target.check("target")
    if accesses is not None:
        check_each_once(accesses, "load", source=source)
        check_each_once(accesses, "store", target=target.tensor)


@pytest.mark.parametrize(
    "source, target, message",
    [
        (torch.zeros(4), torch.zeros(4, dtype=torch.uint8), "must be bytes of one shape; got torch.float32"),
        (torch.zeros(4, dtype=torch.uint8), torch.zeros(5, dtype=torch.uint8), r"\(4,\) and torch.uint8 of \(5,\)"),
        (torch.zeros(8, dtype=torch.uint8)[::2], torch.zeros(4, dtype=torch.uint8), "must be contiguous"),
    ],
)
def test_what_it_cannot_copy_is_refused(source, target, message):
    with pytest.raises(ValueError, match=message):
        snippet.load_from(source, target)


def test_a_gpu_out_of_reach_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda *_: False)
    with pytest.raises(RuntimeError, match="cuda:1 cannot reach the memory of cuda:0"):
        snippet.open_way(torch.device("cuda:0"), torch.device("cuda:1"))


def test_what_becomes_of_a_kernel(device, monkeypatch):
    source, target = (torch.full((3,), value, dtype=torch.uint8, device=device) for value in (7, 0))
    assert snippet.said_of(source, target) == "right" and target.tolist() == [7, 7, 7]
    monkeypatch.setattr(torch, "equal", lambda *_: False)
    assert snippet.said_of(source, target) == "wrong"

    class Refusing:
        def __getitem__(self, grid):
            raise ValueError("Pointer argument cannot be accessed")

    monkeypatch.setattr(snippet, "copy_kernel", Refusing())
    assert snippet.said_of(source, target) == "Pointer argument cannot be accessed"


def test_an_unknown_link():
    assert snippet.link("nvidia-smi failed") == "unknown"


def test_says_that_it_needs_two_gpus():
    if torch.cuda.device_count() > 1:
        pytest.skip("this machine has them")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "it needs two GPUs" in done.stderr


@pytest.mark.gpu
def test_every_way_brings_the_bytes(capsys):
    if torch.cuda.device_count() < 2:
        pytest.skip("it needs two GPUs")
    snippet.main()
    said = capsys.readouterr().out
    assert said.count(": equal") == 4 and "NOT" not in said
    assert "a kernel, after a copy from GPU 1 to GPU 0: right" in said
    for way, run in snippet.ways(2**20).items():
        assert snippet.until_both_done(run) > 0, way
