# SPDX-License-Identifier: Apache-2.0
"""The launches fail as the page says, and the one at the limit does not; nothing is changed behind one's back."""

import os
from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.tools import launch_errors_bug as snippet
from tests.processes import run_script


def test_what_is_said():
    assert snippet.said(lambda: None) == "accepted"
    assert snippet.said(lambda: [][0]) == "IndexError: list index out of range"

    def fails():
        raise ValueError("\nfirst\nsecond")

    assert snippet.said(fails) == "ValueError: first"


def test_a_folder_that_may_not_be_written():
    before, user = os.environ.get("TRITON_CACHE_DIR"), os.geteuid()
    with snippet.unwritable() as folder:
        cache = os.environ["TRITON_CACHE_DIR"]
        assert Path(cache).parent == Path(folder)
        with pytest.raises(PermissionError):
            Path(cache).mkdir()
    assert (os.environ.get("TRITON_CACHE_DIR"), os.geteuid()) == (before, user) and not Path(folder).exists()


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_the_launches(capsys):
    snippet.main()
    lines = capsys.readouterr().out.splitlines()
    came = dict(zip(lines[::2], map(str.strip, lines[1::2]), strict=True))
    assert came["kernel[(1, 65535)](x, n, BLOCK_SIZE=16)"] == "accepted"
    assert came["kernel[(1, 65536)](x, n, BLOCK_SIZE=16)"].endswith("Triton Error [CUDA]: invalid argument")
    assert came["kernel[(65536, 32768)](x, n, BLOCK_SIZE=16)"] == "accepted, but no program ran"
    assert came["kernel[(2**30,)](x, n, BLOCK_SIZE=16, num_ctas=2)"].endswith("Triton Error [CUDA]: invalid argument")
    assert came["kernel[(1,)](x, n, BLOCK_SIZE=16, num_ctas=32)"].endswith("cluster misconfiguration")
    assert came["a descriptor of 2**33 elements along an axis"].endswith("tensor map descriptor: invalid argument")
    assert "missing 1 required positional argument: 'BLOCK_SIZE'" in came["kernel[(1,)](x, n)"]
    assert "BLOCK_SIZE" in came["kernel[(1,)](x, n, block_size=16)"]
    assert "block" in came["kernel[(1,)](x, n, BLOCK_SIZE=16, block=4)"]
    assert "names that are not kernel arguments: size." in came['triton.autotune(configs, key=["size"])(kernel)']
    assert came["a cache that may not be written"].startswith("PermissionError: [Errno 13] Permission denied: '/home")
