# SPDX-License-Identifier: Apache-2.0
"""Where the products wait for wgmma: once a step, and behind each instruction if its sums are read too early."""

from recorded import recorded_output

from snippets.below import wgmma_compiled
from snippets.below.wgmma_bug import CASES
from snippets.below.wgmma_compiled import waits


def test_waits_are_read_in_order():
    assert waits("") == (0, [])
    wait = "WARPGROUP.DEPBAR.LE gsb0, 0x"
    assert waits(f"HGMMA.a ;\n{wait}2 ;\nHGMMA.b ;\nDEPBAR.LE SB0, 0x1 ;\n{wait}0 ;") == (2, [2, 0])


def test_what_it_prints():
    lines = dict(line.split(": ") for line in recorded_output(wgmma_compiled).splitlines())
    assert list(lines) == list(CASES)
    assert lines["as it should be"] == lines["loads a step too early"] == "4 wgmma; waits that leave 1, 0 in flight"
    assert lines["reads the sums too early"] == "4 wgmma; waits that leave 0, 0, 0, 0 in flight"
