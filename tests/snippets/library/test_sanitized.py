# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compute-sanitizer finds no access out of bounds and no race in what each file to copy demonstrates."""

import pytest
from sanitizer import CLEAN, ROOT, check_sanitized

OTHERS = ("_measured", "_cases", "_compared")  # not to copy
FILES = sorted(path.stem for path in (ROOT / "snippets/library").glob("*.py") if not path.stem.endswith(OTHERS))


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
@pytest.mark.parametrize("name", FILES)
def test_compute_sanitizer_finds_nothing(name, tool):
    printed = check_sanitized("-m", f"snippets.library.{name}", tool=tool)
    assert "as by torch" in printed and "NOT as by torch" not in printed
