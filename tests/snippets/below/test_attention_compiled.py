# SPDX-License-Identifier: Apache-2.0
"""In which order machine code has products, exponentials and waits."""

from stand_ins import compile_for_hopper

from snippets.below.attention_compiled import KERNELS, order


def test_order_is_read():
    assert order("") == []
    wait = "WARPGROUP.DEPBAR.LE gsb0, 0x"
    code = f"HGMMA.64x8 R1 ;\nMUFU.RCP R2 ;\nHGMMA.64x8 R1 ;\n{wait}1 ;\nMUFU.EX2 R1 ;\nDEPBAR.LE SB0, 0x0 ;\n{wait}0 ;"
    assert order(code) == ["2 wgmma", "wait 1", "1 exp2", "wait 0"]


def test_what_it_prints():
    said = compile_for_hopper("from snippets.below.attention_compiled import main\nmain()")
    lines = dict(line.split(": ") for line in said if ": " in line)
    assert list(lines)[:3] == list(KERNELS)
    assert lines["one after another"] == "8 wgmma, wait 0, 66 exp2, 8 wgmma, wait 0"
    assert lines["in flight"] == "16 wgmma, wait 1, 66 exp2, wait 0"
    assert lines["landed first"].startswith("16 wgmma, wait 1, ")
    after = int(lines["after the wait for the values"])
    assert int(lines["exponentials"]) == 66 and 0 < after <= 66, "only part of them, or none, overlaps"
