# SPDX-License-Identifier: Apache-2.0
"""What pages offer to copy runs where nothing of this repository stands beside it."""

import ast
import sys

import pytest

from recorder.project import Snippet

LIBRARY = [f"library/{path.stem}" for path in Snippet("library/norms").path.parent.glob("[a-z]*.py")]
ALONE = (
    *sorted(name for name in LIBRARY if not name.endswith("_measured") and "/peers_" not in name),
    "programs/greyscale",
    "programs/offsets",
    "programs/offsets_plain",
    "programs/vector_add",
)


@pytest.mark.parametrize("name", ALONE)
def test_a_copy_needs_torch_and_triton_alone(name):
    nodes = list(ast.walk(ast.parse(Snippet(name).path.read_text("utf-8"))))
    imported = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    imported |= {f"{'.' * node.level}{node.module}" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} - sys.stdlib_module_names == {"torch", "triton"}
