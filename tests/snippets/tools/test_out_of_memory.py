# SPDX-License-Identifier: Apache-2.0
"""Sizes of tensors that take no memory, against what real ones take, and what torch refuses."""

import pytest
import torch

from snippets.tools.out_of_memory import ASKED, differences, gibibytes, main, refused


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_size_is_that_of_the_real_tensor(dtype):
    make = lambda device: torch.empty(3, 1000, dtype=dtype, device=device)
    assert gibibytes(make) * 2**30 == make("cpu").untyped_storage().nbytes() == 3000 * dtype.itemsize


def test_a_view_counts_what_it_keeps_alive():
    assert gibibytes(lambda device: torch.empty(2**28, device=device)[:1]) == 1.0


def test_pairs_take_a_number_each():
    assert differences("meta").shape == (131072, 131072)
    assert gibibytes(differences) == 131072**2 * 4 / 2**30


def test_torch_says_how_many_bytes_it_was_asked_for():
    assert f"you tried to allocate {2**60} bytes" in refused(2**58)
    assert refused(1) == ""


def test_it_prints_a_line_for_each_tensor(capsys):
    main()
    printed = capsys.readouterr().out
    assert all(f"{name}: {gibibytes(make):.3f}" in printed for name, make in ASKED.items())
    assert "can't allocate memory" in printed
