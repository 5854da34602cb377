# SPDX-License-Identifier: Apache-2.0
"""A row for each language, a cell for each decision, in words too; lines come from the run, and none may be missing."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures import decided
from recorder.project import RecorderError
from tests.toy import made

COUNTS = {name: 10 + number for number, name in enumerate(decided.known()[1]) if name != decided.NOTHING}
PRINTED = "".join(f"{name}, lines: {count}\n" for name, count in COUNTS.items())


def drawn(printed=PRINTED) -> BeautifulSoup:
    return BeautifulSoup(decided.decided(replace(made("cpu"), output=printed)), "html.parser")


def test_a_row_is_a_language_and_a_cell_a_decision():
    decisions, languages = decided.known()
    rows = drawn().select(".decided__row:not(.decided__head)")
    assert [row.strong.text for row in rows] == [*languages]
    for row, taken in zip(rows, languages.values(), strict=True):
        assert [cell["class"] for cell in row.select("i")] == [[f"decided__{who.replace(' ', '-')}"] for who in taken]
    assert [head.text for head in drawn().select(".decided__head b")] == [*(d["short"] for d in decisions), "lines"]


def test_lines_are_those_of_the_run():
    shown = {row.strong.text: row.em.text for row in drawn().select(".decided__row:not(.decided__head)")}
    assert shown == {decided.NOTHING: "1"} | {name: str(count) for name, count in COUNTS.items()}
    shares = [float(bar["style"].removeprefix("--share: ")) for bar in drawn().select(".decided__lines u")]
    assert shares[-1] == 1 and shares == sorted(shares), "the longest fills its place"


def test_the_picture_and_its_table_say_it_in_words():
    page = drawn()
    label = page.select_one(".decided")["aria-label"]
    triton = "you write fusion, tile, offsets; you may say threads, memory; decided for you are layout"
    assert f"Triton, {COUNTS['Triton']} lines: {triton}" in label
    cells = {row.th.text: [cell.text for cell in row.select("td")] for row in page.select("tbody tr")}
    assert cells["CUDA C++"][1:] == ["you write it"] * 6 and cells["torch.compile"][1:] == ["decided for you"] * 6


def test_a_language_without_its_lines_is_an_error():
    with pytest.raises(RecorderError, match="printed no 'Helion, lines"):
        drawn(PRINTED.replace("Helion, lines", "Helium, lines"))


def test_a_decision_that_nobody_takes_is_an_error(tmp_path, monkeypatch):
    wrong = decided.FILE.read_text("utf-8").replace('"Gluon" = ["you", ', '"Gluon" = [')
    (tmp_path / "decided.toml").write_text(wrong)
    monkeypatch.setattr(decided, "FILE", tmp_path / "decided.toml")
    decided.known.cache_clear()
    with pytest.raises(RecorderError, match="Gluon needs one of you, open, for you"):
        decided.known()
    decided.known.cache_clear()
