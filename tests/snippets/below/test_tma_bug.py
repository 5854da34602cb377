# SPDX-License-Identifier: Apache-2.0
"""Waits that never end, or end too early: each case compiles as it is meant; on a Hopper GPU, what becomes of it."""

import re
import types
from pathlib import Path

import pytest
import torch
from stand_ins import compile_for_hopper

from snippets.below import tma_bug
from snippets.below.tma_bug import BYTES, CASES, consan, where


def test_cases_differ_in_what_they_say():
    """The bytes that the kernel announces and the arrivals that it waits for, from the compiled code."""
    code = """
from snippets.below.tma import descriptors
from snippets.below.tma_bug import CASES, BYTES, LAPS, TILE, strip_kernel
x, progress = torch.empty(1024, 64), torch.empty(8, dtype=torch.int32)
for case in CASES.values():
    options = {"COUNT": 1, "EXPECTED": BYTES, "PHASE": 0, "FLIP": 1} | case
    print(ptx(strip_kernel, *descriptors(x, x, tile=TILE), progress, LAPS=LAPS, num_warps=1, **options), "\\n====")
"""
    found = {}
    for name, text in zip(CASES, "\n".join(compile_for_hopper(code)).split("===="), strict=False):
        (count,) = re.findall(r"mbarrier\.init\S* \[\S+\], (\d+);", text)
        (expected,) = set(re.findall(r"expect_tx\S* _, \[\S+\], (\d+);", text))
        found[name] = int(count), int(expected)
    assert found == {
        "as it should be": (1, BYTES), "twice the bytes": (1, 2 * BYTES), "half of the bytes": (1, BYTES // 2),
        "16 bytes too few": (1, BYTES - 16), "two arrivals": (2, BYTES), "the first phase is 1": (1, BYTES),
        "the phase stays 0": (1, BYTES),
    }  # fmt: skip


@pytest.mark.parametrize(
    "progress, said",
    [
        ([1, 1], "2 programs wait in lap 0"),
        ([3, 1, 4], "1 program waits in lap 0, 1 waits in lap 1, 1 is past the wait of lap 1"),
        ([2, 2], "2 programs are past that of lap 0"),
    ],
)
def test_where(progress, said):
    assert where(progress) == said


ASSERTION = "/work/tma_bug.py:12: unknown: block: [4,0,0], thread: [0,0,0] Assertion `Deadlock detected` failed."


def test_what_came_of_a_process(monkeypatch):
    results = {"alone": ("hangs; 1 program waits", ""), "crash": ("", "Traceback\nE: CUDA error: launch failure\nmore")}
    results |= {"stopped": ("", f"{ASSERTION}\n{ASSERTION}\n"), "other": ("", "first\nlast")}
    results |= {"fine": ("ends, right", "")}
    monkeypatch.setattr(tma_bug, "apart", lambda name, how="run", **environment: results[name])
    monkeypatch.setattr(tma_bug, "line", lambda number: f"line {number}")
    assert tma_bug.alone("alone") == "hangs; 1 program waits"
    assert tma_bug.alone("crash") == "fails; CUDA error: launch failure" and tma_bug.alone("other") == "last"
    assert consan("stopped") == "Deadlock detected, in line 12"
    assert consan("fine") == "ends, right" and consan("other") == "last"


def test_line_is_of_the_file():
    text = Path(tma_bug.__file__).read_text("utf-8").splitlines()
    number = text.index("        mbarrier.wait(arrived, phase)") + 1
    assert tma_bug.line(str(number)) == f"line {number}: mbarrier.wait(arrived, phase)"


def test_on_the_host(monkeypatch):
    """Where Python stands is in the topmost frame of the file itself."""
    places = ("cuda/__init__.py", 1), ("tma_bug.py", 5), ("tma_bug.py", 9)
    dump = "\n".join(f'File "/x/{file}", line {number} in it' for file, number in places)
    monkeypatch.setattr(tma_bug, "apart", lambda name, how: ("", dump))
    monkeypatch.setattr(tma_bug, "line", lambda number: number)
    assert tma_bug.on_the_host("x") == "5"


def test_a_process_of_its_own(monkeypatch):
    """Without a GPU it says so, and is over."""
    said, errors = tma_bug.apart("as it should be", CUDA_VISIBLE_DEVICES="")
    assert said == "" and errors.startswith("no GPU found")
    with pytest.raises(SystemExit, match="no GPU found"):
        tma_bug.main()


def made_up(monkeypatch, done: bool, copied: bool):
    x = torch.ones(4)
    event = types.SimpleNamespace(record=lambda: None, query=lambda: done)
    monkeypatch.setattr(tma_bug, "launch", lambda name: (x, x.clone() if copied else x + 1, torch.tensor([1, 1])))
    monkeypatch.setattr(torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(tma_bug, "PATIENCE", 0.05)


@pytest.mark.parametrize(
    "done, copied, said",
    [(True, True, "ends, right"), (True, False, "ends, wrong"), (False, True, "hangs; 2 programs wait in lap 0")],
)
def test_run(monkeypatch, done, copied, said):
    made_up(monkeypatch, done, copied)
    assert tma_bug.run("x") == said


@pytest.mark.gpu
@pytest.mark.parametrize("name, begins", [("as it should be", "ends, right"), ("twice the bytes", "hangs; 8 programs")])
def test_on_a_gpu(name, begins):
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("TMA came with Hopper")
    assert tma_bug.alone(name).startswith(begins)
