# SPDX-License-Identifier: Apache-2.0
"""The race lets a token win that waits 0, and the same seeds draw the same tokens; the cures cure it."""

from snippets.models import sampling_bug as snippet


def test_what_goes_wrong(capsys):
    snippet.main()
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines() if ":" in line)
    assert lines["drawn by race"].strip() == "90005" and lines["drawn by sample"].strip() == "7"
    assert lines["1 - u in float32"].strip() == "1.0" and lines["its wait"].strip() == "0.0"
    assert len({*lines["one seed for all rows"].split()}) == 1
    assert len({*lines["a seed for each row"].split()}) > 4
    assert lines["the next step, same seeds"].split() == lines["a seed for each row"].split()
    assert lines["the next step, other seeds"].split() != lines["a seed for each row"].split()
