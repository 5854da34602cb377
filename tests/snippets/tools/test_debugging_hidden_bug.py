# SPDX-License-Identifier: Apache-2.0
"""The interpreter reads out of bounds where the compiled kernel does not."""

import shutil
import sys

import pytest

from snippets.tools.debugging_hidden_bug import child, gather

RIGHT = [30.0, 10.0, 40.0, 10.0, 50.0, 20.0]


def test_right_as_long_as_the_rest_points_into_the_table(device):
    assert gather(0) == gather(7) == RIGHT


def test_beyond_the_table(device):
    assert child(2**40) == ("ended by SIGSEGV" if device == "cpu" else str(RIGHT))


def test_reads_the_summary_of_the_sanitizer():
    say = [sys.executable, "-c", "print('========= ERROR SUMMARY: 12 errors')"]  # and not the command behind it
    assert child(0, say) == "12 errors"


@pytest.mark.gpu
def test_the_sanitizer_sees_nothing():
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    assert child(2**40, ["compute-sanitizer"]) == "0 errors"
