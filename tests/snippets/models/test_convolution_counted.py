# SPDX-License-Identifier: Apache-2.0
"""What the counters say becomes multiples of the operand; on a GPU, memory gives each byte about once."""

import shutil
from unittest import mock

import pytest

from snippets.models import convolution_counted as counted


def test_multiples_of_the_operand():
    blurred, text = counted.PIXELS**2 * 4, counted.BATCH * counted.CHANNELS * counted.STEPS * 2
    launch = lambda size: {
        "kernel": "a_kernel",
        counted.METRICS["asked"]: 9 * size / 32,
        counted.METRICS["l2"]: 2 * size / 32,
        counted.METRICS["memory"]: size,
    }
    launches = [launch(blurred if name.startswith("blur") else text) for name in counted.KERNELS]
    counted.measure.cache_clear()
    with mock.patch.object(counted, "counters", return_value=launches) as asked:
        for name in counted.KERNELS:
            assert [counted.read.fn(name, what) for what in counted.LINES] == [9, 2, 1]
    counted.measure.cache_clear()
    assert asked.call_args.args[1:] == (counted.__file__, "run") and asked.call_args.kwargs == {"cache": "all"}


def test_main_says_what_there_is(capsys):
    counted.main()
    assert capsys.readouterr().out.startswith("read.run(")


@pytest.mark.gpu
@pytest.mark.alone
def test_memory_gives_each_byte_about_once():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    for name, found in counted.measure().items():
        assert found["memory"] < 1.3 and found["asked"] > 3, name
