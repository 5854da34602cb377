# SPDX-License-Identifier: Apache-2.0
"""What a search tried is counted once each, and what failed isn't counted as run. Without a GPU nothing is searched."""

import csv

import pytest
import torch

from snippets.reference import helion_search as snippet


def test_settings_are_counted_once(tmp_path):
    rows = [
        ("a", "started", ""), ("a", "ok", "0.05"), ("a", "ok", "0.06"),
        ("b", "error", ""), ("c", "deduplicated", ""), ("d", "filtered", ""), ("e", "ok", "0.04"),
    ]  # fmt: skip
    with (tmp_path / "search.csv").open("w") as file:
        csv.writer(file).writerows([("config_id", "status", "perf_ms"), *rows])
    assert snippet.tried(tmp_path / "search") == (3, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(SystemExit, match="no GPU found"):
        snippet.main()
