# SPDX-License-Identifier: Apache-2.0
"""What was saved is found in a process that loads it, for the same graph and no other."""

import pytest
from recorded import recorded_output

from snippets.pytorch import inductor_cache as snippet


def test_found_only_where_it_was_loaded():
    lines = dict(line.split(": ") for line in recorded_output(snippet).splitlines() if ": " in line)
    assert {name: how for name, how in lines.items() if how in ("compiled", "found")} == {
        "at first": "compiled",
        "not loaded, the same function": "compiled",
        "loaded, the same function": "found",
        "loaded, under another name, with other variables": "found",
        "loaded, with another number": "compiled",
        "loaded, with more rows": "compiled",
    }


def test_the_cases_differ_as_they_say():
    (same, rows), renamed, number, more = snippet.CASES.values()
    assert renamed[0] is not same and snippet.torch.equal(renamed[0](rows), same(rows))
    assert not snippet.torch.equal(number[0](rows), same(rows))
    assert more[0] is same and len(more[1]) > len(rows)


def test_the_number_of_the_gpu_is_in_the_key():
    assert snippet.key_on("cuda:0") == snippet.key_on("cuda:0") != snippet.key_on("cuda:1")


def test_a_process_that_fails_is_no_result(tmp_path):
    with pytest.raises(SystemExit, match="FileNotFoundError"):
        snippet.start("load", tmp_path)
