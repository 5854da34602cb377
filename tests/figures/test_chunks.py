# SPDX-License-Identifier: Apache-2.0
"""<logit-chunks>: areas as printed, sums as measured on a GPU, and the chunk that the bar of time leads through."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.chunks import COPIES, chunks
from recorder import printed, recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("fusion/cross_entropy_steps"), "cpu")


def test_the_parts_sum_to_what_a_gpu_allocated(recorded):
    numbers = printed.numbers(recorded.output)
    measured = recording.load(Snippet("fusion/cross_entropy_measured"), "h200").benchmark("memory").medians()
    memory = measured["32768 × 4096 × 128256"]
    page = BeautifulSoup(chunks(recorded), "html.parser")
    torch, ours = (float(each.text.split()[0]) for each in page.select(".chunks em"))
    assert (torch, ours) == (pytest.approx(memory.torch, abs=0.05), pytest.approx(memory.ours, abs=0.05))
    assert len(page.select(".chunks__whole")) == COPIES
    heights = [float(re.search(r"[\d.]+", each["style"])[0]) for each in page.select(".chunks__held > div")]
    whole = numbers["logits of all rows, GB"]
    assert heights[0] == pytest.approx(100 * numbers["gradient of weight in float32, GB"] / whole, abs=0.01)
    assert heights[1] == pytest.approx(100 * numbers["gradient of hidden, GB"] / whole, abs=0.01)


def test_refuses_chunks_of_another_size(recorded):
    other = replace(recorded, output=recorded.output.replace("of 32768: 4096", "of 32768: 8192"))
    with pytest.raises(RecorderError, match="in chunks of 8192 take other GB"):
        chunks(other)
    with pytest.raises(RecorderError, match="no 'rows of a chunk, of 100'"):
        chunks(recorded, rows=100)


def test_each_chunk_takes_the_place_of_the_last(recorded, open_site, tmp_path):
    with page_with(tmp_path, "chunks", chunks(recorded)) as url:
        page = open_site(url, reduced_motion="reduce")
        kinds = lambda: page.locator(".chunks__place i").evaluate_all("all => all.map(each => each.className)")
        rest = ["chunks--gone"] * 4 + ["chunks--gradient"] + [""] * 3
        assert kinds() == rest
        said = page.locator("[data-of=step]").inner_text()
        page.get_by_label("Back", exact=True).click()
        assert kinds() == [*rest[:4], "chunks--scores", *rest[5:]]
        assert page.locator("[data-of=chunk]").inner_text() == "5"
        assert page.locator("[data-of=step]").inner_text() not in ("", said)
        page.locator("[name=step]").press("End")
        assert kinds() == ["chunks--gone"] * 7 + ["chunks--gradient"]
        assert page.locator(".time-bar__text").inner_text() == "chunk 8 of 8"
        done = page.locator(".chunks__held i").first.evaluate("each => each.style.getPropertyValue('--share')")
        assert float(done) == 1


def test_the_key_has_the_colors_of_what_remains(recorded, open_site, tmp_path):
    """From none of the chunks to all of them, for in the picture these gradients grow stronger."""
    with page_with(tmp_path, "chunks", chunks(recorded)) as url:
        page = open_site(url, reduced_motion="reduce")
        color = lambda: page.locator(".chunks__held i").first.evaluate("each => getComputedStyle(each).backgroundColor")
        ends = []
        for key in ("Home", "End"):
            page.locator("[name=step]").press(key)
            ends.append(color())
        swatch = page.locator(".explorer__key i").last.evaluate("each => getComputedStyle(each).backgroundImage")
        assert ends[0] != ends[1]
        drawn = page.evaluate("""gradient => {
            const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
            return gradient.map(color => {
                context.clearRect(0, 0, 1, 1);
                context.fillStyle = color;
                context.fillRect(0, 0, 1, 1);
                return [...context.getImageData(0, 0, 1, 1).data];
            });
        }""", [*ends, *re.findall(r"(?:rgb|color)\([^)]*\)", swatch)])  # fmt: skip
        assert drawn[:2] == drawn[2:]
