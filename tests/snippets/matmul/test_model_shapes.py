# SPDX-License-Identifier: Apache-2.0
"""A list to compare by: what it must contain, each shape once, and what it counts."""

from snippets.matmul.model_shapes import SHAPES, Shape

EVERY = [shape for shapes in SHAPES.values() for shape in shapes]


def test_each_shape_stands_once():
    sizes = [shape[:3] for shape in EVERY]
    assert len(set(sizes)) == len(sizes) >= 40


def test_it_has_what_a_tuned_kernel_finds_hard():
    assert {1, 2, 4, 8, 16, 32, 64, 128} <= {shape.m for shape in SHAPES["decode"]}
    assert {1000, 1536, 3072, 5000} <= {shape.m for shape in SHAPES["square"]}
    assert any(shape.n % 2 for shape in EVERY) and any(shape.m % 2 for shape in EVERY)


def test_counts():
    shape = Shape(2, 3, 5, "a toy")
    assert shape.flops == 2 * (2 * 3) * 5  # each of 6 results is 5 products and their sum
    assert shape.elements == 10 + 15 + 6
