# SPDX-License-Identifier: Apache-2.0
"""Samples are those of lines, in the file that is asked for, with the reasons to wait; without ncu it says so."""

import sys
from collections import Counter
from types import SimpleNamespace

import pytest

pytest.importorskip("triton.profiler.profile", exc_type=ImportError, reason="this Triton has no Proton")

from snippets.tools import find_time_lines as snippet

VIEW = """\
==PROF== Disconnected
"Function Name","turn_row_kernel"
"File Path","/somewhere/find_time.py"
"Line No","Source","Address","Source","# Samples","stall_lg","stall_wait"
"6","no sample","","","0","0","0"
"7","x = 1","","","1,030","1,000","30"
"","","0x10","MOV","1,030","1,000","30"
"File Path","/somewhere/standard.py"
"Line No","Source","Address","Source","# Samples","stall_lg","stall_wait"
"7","y = 1","","","5","5","0"
"""


def test_samples_of_lines():
    found = snippet.by_line(VIEW, "find_time.py")
    assert found == {7: Counter({"# Samples": 1030, "stall_lg": 1000, "stall_wait": 30})}


def test_a_view_without_samples_has_none():
    assert snippet.by_line('"File Name","find_time.py"\n"Line No","Source"\n"7","x = 1"\n', "find_time.py") == {}


def test_samples_by_the_module(monkeypatch):
    """Each metric has an instance an instruction; two of them stand in line 7, one in another file."""
    places = {1: ("find_time.py", 7), 2: ("find_time.py", 7), 3: ("other.py", 7)}

    def metric(counts):
        ids = SimpleNamespace(as_uint64=[*counts].__getitem__)
        values = [*counts.values()].__getitem__
        return SimpleNamespace(num_instances=lambda: len(counts), correlation_ids=lambda: ids, as_uint64=values)

    def place(address):
        file, line = places[address]
        return SimpleNamespace(file_name=lambda: file, line=lambda: line)

    counts = {"wait": {1: 4, 3: 9}, "lg_throttle": {2: 6}, "wait_not_issued": {1: 50}}
    metrics = {f"{snippet.STALLED}{reason}": metric(each) for reason, each in counts.items()}
    action = SimpleNamespace(metric_names=lambda: metrics, metric_by_name=metrics.__getitem__, source_info=place)
    loaded = SimpleNamespace(range_by_idx=lambda _: SimpleNamespace(action_by_idx=lambda _: action))
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda _: loaded))
    monkeypatch.setattr(snippet.shutil, "which", lambda _: "/usr/bin/ncu")
    found = snippet.by_report("report", "find_time.py")
    assert found == {7: Counter({"# Samples": 10, "stall_lg_throttle": 6, "stall_wait": 4})}


def test_without_ncu_it_says_so(monkeypatch):
    monkeypatch.setattr(snippet.shutil, "which", lambda _: None)
    with pytest.raises(RuntimeError, match="ncu was not found"):
        snippet.run("ncu", "--version")
