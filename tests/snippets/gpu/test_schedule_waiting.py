# SPDX-License-Identifier: Apache-2.0
"""Programs that wait: those that cannot be answered give up, in the interpreter and on a GPU."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.gpu import schedule_waiting as waiting
from tests.processes import run_script

SOURCE = Path(waiting.__file__)


@pytest.mark.parametrize("programs", [1, 2, 5])
def test_the_interpreter_has_room_for_one(programs):
    for target in range(programs):
        gave_up, before, _ = waiting.wait_for(target, programs=programs, tries=3, device="cpu")
        assert gave_up.tolist() == [int(pid < target) for pid in range(programs)]
        assert before.tolist() == list(range(programs))


def test_looks_as_often_as_it_may():
    from triton.runtime.interpreter import interpreter_builder as builder

    looks, original = [], builder.create_atomic_rmw

    def counted(op, pointers, values, *rest):
        looks.append(values.data.item())
        return original(op, pointers, values, *rest)

    for tries in (0, 1, 4):
        looks.clear()
        with mock.patch.object(builder, "create_atomic_rmw", counted):
            waiting.wait_for(1, programs=2, tries=tries, device="cpu")
        # Program 0 counts the ended, says that it is here, looks, looks again, and ends; program 1 finds itself.
        assert looks == [0, 1, *[0] * (1 + tries), 1, 0, 1, 0, 1]


def test_stays_inside():
    names = {"begun": 4, "ended": 1, "before": 4, "gave_up": 4}
    guarded = {
        name: Guarded((size,), torch.int32, torch.device("cpu"), before=8, after=8, fill=0x5A)
        for name, size in names.items()
    }
    guarded["begun"].tensor.zero_(), guarded["ended"].tensor.zero_()
    with recorded_accesses() as accesses:
        waiting.wait_kernel[(4,)](*(buffer.tensor for buffer in guarded.values()), 2, 3)
    for name, buffer in guarded.items():
        buffer.check(name)
    left = {name: buffer.tensor.tolist() for name, buffer in guarded.items()}
    assert left == {"begun": [1] * 4, "ended": [4], "before": [0, 1, 2, 3], "gave_up": [1, 1, 0, 0]}
    check_each_once(accesses, "store", before=guarded["before"].tensor, gave_up=guarded["gave_up"].tensor)


@pytest.mark.parametrize(
    "target, options",
    [(0, {"programs": 0}), (-1, {"programs": 1}), (1, {"programs": 1}), (0, {"programs": 1, "tries": -1}),
     (0, {"programs": 1, "tries": 10**7}), (0, {"programs": 2**31})],
)  # fmt: skip
def test_refuses(device, target, options):
    with pytest.raises(ValueError, match="programs must be 1 or more"):
        waiting.wait_for(target, device=device, **options)


@pytest.mark.gpu
def test_one_more_than_fit_and_some_give_up():
    from snippets.gpu.schedule_occupancy import programs_at_once

    compiled = waiting.wait_for(0, programs=1).compiled
    fit = programs_at_once(compiled) * torch.cuda.get_device_properties(0).multi_processor_count
    waited = waiting.wait_for(fit - 1, programs=fit)
    assert int(waited.gave_up.sum()) == 0 == int(waited.before[fit - 1])
    waited = waiting.wait_for(fit, programs=fit + 1)
    assert int(waited.gave_up.sum()) > 0 and int(waited.before[fit]) > 0


def test_says_so_without_a_gpu():
    root = SOURCE.parents[2]
    given = environment("cuda", PYTHONPATH=str(root), CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    done = run_script(SOURCE, env=given, cwd=root)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


def test_prints(device, capsys):
    waiting.main()
    lines = capsys.readouterr().out.splitlines()
    assert "as many as fit, waiting for the last, gave up: 0" in lines
    if device == "cpu":
        assert "one more, waiting for the last, gave up: 1" in lines
