# SPDX-License-Identifier: Apache-2.0
"""Which calls compile, by the kind of their arguments, and what a version for each length leaves on disk."""

from pathlib import Path

import pytest
from guards import environment

from recorder.printed import numbers, sections
from snippets.pytorch import compile_versions as snippet
from tests.processes import run_python

FILE = Path(snippet.__file__)


@pytest.fixture(scope="module")
def printed():
    done = run_python(FILE, env=environment("gpu"))
    assert done.returncode == 0, done.stderr
    return sections(done.stdout)


def test_a_part_that_begins_elsewhere_is_another_version(printed):
    plain = printed["Versions for x, x[1:], x[2:] and x[4:]"].splitlines()
    assert [line.partition(": ")[2] for line in plain] == ["x_ptr, out_ptr", "out_ptr"]
    (anywhere,) = printed["The same, where alignment is left out"].splitlines()
    assert anywhere == "add_one_anywhere_kernel, divisible by 16: out_ptr"


def test_a_constexpr_cannot_be_left_unspecialized(printed):
    refused = " ".join(printed["A constexpr that is not to be specialized"].split())
    assert refused.startswith("CompilationError") and "N marked as constexpr and listed in do_not_special" in refused


def test_each_length_as_a_constexpr_stays_on_disk(printed):
    left = numbers(printed["What 100 lengths leave on disk"])
    number, constant = ({what: left[f"{name}, {what}"] for what in ("versions", "files", "bytes, about")}
                        for name in ("n, a number", "N, a tl.constexpr"))  # fmt: skip
    assert (number["versions"], constant["versions"]) == (3, len(snippet.LENGTHS))
    files, more = divmod(constant["files"], constant["versions"])
    assert more == 0 and number["files"] == 3 * files and files >= 5
    assert 20 < constant["bytes, about"] / number["bytes, about"] < 50


def test_round_numbers():
    assert [snippet.rounded(number) for number in (0, 7, 94, 96, 14_999)] == [0, 7, 90, 100, 10_000]
