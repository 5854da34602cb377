# SPDX-License-Identifier: Apache-2.0
"""Lines are counted as one writes them; what machine code says of itself is read; a language is compiled once."""

import json
import re

import pytest

from snippets.reference import which_language as snippet


def test_each_language_has_a_file_with_its_kernel():
    assert [*snippet.MODULES] == [*snippet.COMPILERS] == [*snippet.PACKAGES]
    for name, module in snippet.MODULES.items():
        assert 5 < snippet.lines_of(module) < 60, name


def test_versions_are_pinned():
    for packages in snippet.PACKAGES.values():
        assert all(re.fullmatch(r"[\w-]+==[\d.]+", each) for each in packages)


def test_lines_without_blank_ones_and_comments(tmp_path, monkeypatch):
    (tmp_path / "written.py").write_text(
        "import x\n# --8<-- [start:kernel]\n# why\n@jit\ndef f(\n    a,\n):\n\n    pass\n# --8<-- [end:kernel]\ng()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert snippet.lines_of("written") == 5


def test_what_machine_code_says(monkeypatch):
    said = {
        "cuobjdump": "Function kernel_a:\n REG:30 STACK:0 SHARED:1024",
        "nvdisasm": "        /*0000*/                   LDC R1, c[0x0][0x28] ;\n"
        "        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;\n"
        "        /*0020*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;\n        /*0030*/                   NOP;\n"
        "        /*0040*/                   FCHK P0, R4, R5 ;\n"
        "        /*0050*/              @P1 STG.E.128 desc[UR4][R2.64], R4 ;\n",
    }
    monkeypatch.setattr(snippet, "looked_at", lambda cubin, name, *options: said[name])
    assert snippet.kernels_of(b"") == ["kernel_a"]
    assert snippet.read(b"") == {
        "registers": 30, "instructions": 5, "exact divisions": 1, "barriers": 1,
        "loads": "1 LDG.E.128", "stores": "1 STG.E.128",
    }  # fmt: skip


def test_a_language_is_compiled_after_its_imports(tmp_path, monkeypatch):
    order = []

    def steps():
        order.append("import")
        yield
        order.append("compile")
        return b"code", snippet.Launch("kernel", 32, 0, ["x", 5])

    monkeypatch.setattr(snippet, "COMPILED", tmp_path)
    monkeypatch.setitem(snippet.COMPILERS, "Toy", steps)
    monkeypatch.setattr(snippet, "looked_at", lambda *_: "LDG")
    monkeypatch.setattr(snippet, "seconds_used", lambda: order.append("clock") or len(order))
    snippet.compile_one("Toy")
    assert order == ["import", "clock", "compile", "clock"]
    made = json.loads((tmp_path / "Toy.json").read_text())
    assert made["seconds"] == 2 and made["launch"]["arguments"] == ["x", 5] and (tmp_path / "Toy.cubin").exists()


def test_nothing_is_fetched_that_is_here(tmp_path, monkeypatch):
    monkeypatch.setattr(snippet, "FOLDER", tmp_path)
    monkeypatch.setattr(snippet.subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    (tmp_path / "cuTile").mkdir()
    assert snippet.install("cuTile") == tmp_path / "cuTile"
    assert snippet.install("Triton") == tmp_path / "Triton"
