# SPDX-License-Identifier: Apache-2.0
"""Samples are those of lines, in the file that is asked for, with the reasons to wait; without ncu it says so."""

from collections import Counter

import pytest

pytest.importorskip("triton.profiler.profile", exc_type=ImportError, reason="this Triton has no Proton")

from snippets.tools import find_time_lines as snippet

VIEW = """\
==PROF== Disconnected
"Function Name","turn_row_kernel"
"File Path","/somewhere/find_time.py"
"Line No","Source","Address","Source","# Samples","stall_lg","stall_wait","stall_lg (Not Issued)"
"6","no sample","","","0","0","0","0"
"7","x = 1","-","-","1,030","1,000","30","9"
"","","0x10","MOV","1,030","1,000","30","9"
"File Path","/somewhere/standard.py"
"Line No","Source","Address","Source","# Samples","stall_lg","stall_wait"
"7","y = 1","","","5","5","0"
"""


def test_samples_of_lines():
    found = snippet.by_line(VIEW, "find_time.py")
    assert found == {7: Counter({"# Samples": 1030, "stall_lg": 1000, "stall_wait": 30})}


def test_a_view_without_samples_has_none():
    assert snippet.by_line('"File Name","find_time.py"\n"Line No","Source"\n"7","x = 1"\n', "find_time.py") == {}


def test_without_ncu_it_says_so(monkeypatch):
    monkeypatch.setattr(snippet.shutil, "which", lambda _: None)
    with pytest.raises(RuntimeError, match="ncu was not found"):
        snippet.run("ncu", "--version")
