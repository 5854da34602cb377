# SPDX-License-Identifier: Apache-2.0
"""Snippets that run in the model print what they printed in Triton's interpreter when they were recorded."""

import contextlib
import io
import json

import pytest

import browser
from tests.modeled import ROOT, in_browser

SAME = """
fusion: attention_bug attention_variable decoding decoding_bug decoding_parts decoding_steps dropout_plain
fusion: long_softmax_blocks long_softmax_bug scan_bug
gpu: cache_hints coalescing fusion_bytes fusion_bytes_bug hierarchy hierarchy_bug launch_and_latency loads memory
matmul: few_rows grouped_bug grouped_two_axes naive_bias naive_epilogue split_k split_k_atomic
playground: average histogram mandelbrot matmul pi running_sum softmax transpose who_is_last
programs: cuda_rows greyscale masks masks_bug masks_first masks_price masks_ranges masks_shapes offsets_plain
programs: programs_and_threads softmax softmax_bug vector_add vector_add_block_sizes vector_add_bug vector_add_names_bug
start: first_kernel when_to_write_a_kernel
tools: debugging_hidden_bug debugging_wrong_value_bug testing
"""
NAMES = [f"{chapter}/{name}" for line in SAME.split("\n") if line for chapter, names in [line.split(": ")]
         for name in names.split()]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_snippet_prints_what_was_recorded(name):
    path = ROOT / "snippets" / f"{name}.py"
    recorded = json.loads((ROOT / "recordings" / name / "cpu.json").read_text("utf-8"))["output"]
    printed = io.StringIO()
    with in_browser(), contextlib.redirect_stdout(printed):
        browser.load(path.read_text("utf-8"), str(path))["main"]()
    assert printed.getvalue().strip() == "\n".join(recorded).strip()
