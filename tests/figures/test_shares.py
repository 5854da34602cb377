# SPDX-License-Identifier: Apache-2.0
"""What each kernel takes of a step, as it was printed."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.shares import shares
from recorder import recording
from recorder.project import RecorderError, Snippet

OUTPUT = "## times\n   75.0 us   75%  slow_kernel\n   24.5 us   24%  nvjet_x\n    0.5 us    1%  Memset\n"


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return replace(recording.load(Snippet("tools/find_time"), "h200"), output=OUTPUT)


def test_a_bar_is_cut_by_time(recorded):
    page = BeautifulSoup(shares(recorded, section="times", names={"nvjet": "cuBLAS"}), "html.parser")
    assert [i["style"].split(";")[0] for i in page.select("i")] == ["width: 75.00%", "width: 24.50%", "width: 0.50%"]
    assert [" ".join(row.text.split()) for row in page.select("li")] == [
        "slow_kernel 75% 75 µs", "cuBLAS 24% 24 µs", "Memset 0% < 1 µs",
    ]  # fmt: skip
    assert "100 µs" in page.figcaption.text


def test_refuses_what_was_not_printed(recorded):
    with pytest.raises(RecorderError, match=r"no section 'tims'; the nearest"):
        shares(recorded, section="tims")
    with pytest.raises(RecorderError, match=r"no kernel begins with 'cutlass'"):
        shares(recorded, section="times", names={"cutlass": "cuBLAS"})
    with pytest.raises(RecorderError, match=r"has no line such as"):
        shares(replace(recorded, output="## times\nnothing\n"), section="times")
