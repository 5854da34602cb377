# SPDX-License-Identifier: Apache-2.0
"""Which calls compile, by the kind of their arguments, and what a version for each length leaves on disk."""

import re
from pathlib import Path

import pytest
from guards import environment

from recorder.printed import sections
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
    left = re.findall(r": (.+) versions, (.+) files, (.+) kB", printed["What 100 lengths leave on disk"])
    number, constant = ([int(count.replace(",", "")) for count in counts] for counts in left)
    assert (number[0], constant[0]) == (3, len(snippet.LENGTHS))
    files, more = divmod(constant[1], constant[0])
    assert more == 0 and number[1] == 3 * files and files >= 5
    assert 20 < constant[2] / number[2] < 50


def test_round_numbers():
    assert [snippet.about(number) for number in (0, 9_400, 9_600, 14_999)] == ["0 kB", "9 kB", "10 kB", "10 kB"]
