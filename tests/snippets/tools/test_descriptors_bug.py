# SPDX-License-Identifier: Apache-2.0
"""What a descriptor takes is read right, what it doesn't is refused, and a copy whose rows are aligned is taken."""

import re
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, environment, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.tools import descriptors_bug as snippet
from tests.processes import run_script


def poisoned():
    return Guarded((2, 4), torch.float32, torch.device("cpu"), before=64, after=64, fill=0x5A)


@given(rows=st.integers(1, 9), columns=st.integers(1, 40), data=st.data())
def test_an_aligned_copy_is_equal_and_taken(rows, columns, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float16, torch.int8]))
    x = torch.arange(rows * columns).view(columns, rows).t().to(dtype)
    copy = snippet.aligned(x)
    assert torch.equal(copy, x) and copy.stride(0) < columns + 16 // x.element_size()
    TensorDescriptor.from_tensor(copy, [1, 16])


def test_a_tile_is_loaded_where_the_descriptor_says():
    x, out = torch.arange(64.0).view(8, 8), poisoned()
    with recorded_accesses() as accesses:
        snippet.tile_kernel[(1,)](TensorDescriptor.from_tensor(x, [2, 4]), out.tensor, 3, 4, ROWS=2, COLUMNS=4)
    assert torch.equal(out.tensor, x[3:5, 4:8])
    check_each_once(accesses, "store", out=out.tensor)
    check_inside(accesses, "load", x=x)
    out.check("out")


def test_a_kernel_describes_rows_of_any_multiple_of_16_bytes():
    x, out = torch.arange(96.0).view(8, 12)[:, :6], poisoned()
    snippet.made_inside_kernel[(1,)](x, out.tensor, 1, 3, *x.stride(), ROWS=2, COLUMNS=4)
    assert out.tensor.tolist() == [[0, 1, 2, 0], [0, 0, 0, 0]], "past the end there are zeros"
    out.check("out")


@pytest.fixture(scope="module")
def said():
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^(?!## )(.+?): (.+)$", done.stdout, re.MULTILINE))


def test_what_the_host_says(said):
    host = {name.partition(", strides")[0]: words for name, words in said.items() if ", strides" in name}
    accepted = [name for name, words in host.items() if words == "accepted"]
    assert accepted == ["x", "x[:, 4:]", "x[::2, :6]", "x[:1].expand(8, 8)"]
    assert host["x[:, 1:]"] == "base must be 16-byte aligned"
    assert host["torch.ones(8, 5)"] == "strides must be 16-byte aligned"
    assert host["x[:, ::2]"] == "Last dimension must be contiguous"
    assert "positive" in host["x[:0]"] and "power of 2" in said["tiles of 3 × 4"] and "5" in said["six axes"]


def test_what_the_interpreter_says(said):
    assert said["x.load([0, 4])"] == "read 4, 5, 6, 7"
    assert said["x.load([0, 6])"] == said["x.load([0, 2])"] == "block offset start must be 16-byte aligned"
    inside = {name.partition("kernel, ")[2]: words for name, words in said.items() if "made in" in name}
    assert inside["x"] == "read 8, 9, 10, 11" and inside["aligned(rows of 5)"] == "read 5, 6, 7, 8"
    assert inside["rows of 5"] == "stride must be 16-byte aligned"
    assert inside["x[:, 1:]"] == "base must be 16-byte aligned" and "last dim must be 1" in inside["x[:, ::2]"]


def test_the_compiler_cannot_see_a_stride_that_arrives_at_the_launch(said):
    assert said["row stride of 5, as an argument"] == "accepted"
    assert said["last stride of 2, compiled in"] == "Tensor descriptor last dim must be 1 but got 2"
    assert "at least 16 bytes" in said["tiles of 2 columns of float32"]
    assert "Did you forget to add @triton.jit" in said["last stride as an argument that is not 1"]


def test_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(snippet, "tile_kernel", object.__new__(snippet.triton.JITFunction))
    monkeypatch.setattr("sys.argv", ["descriptors_bug.py"])
    with pytest.raises(SystemExit, match="TRITON_INTERPRET=1"):
        snippet.main()
