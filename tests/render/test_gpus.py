# SPDX-License-Identifier: Apache-2.0
"""A page that asks for ``gpu``: which GPU it shows first, what it holds for the others, and how a reader switches."""

import json
import re
import shutil

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from recorder.project import Snippet
from render import config, recordings
from render.gates import built, check
from render.page import PageError
from render.views import frame
from tests.chromium import ROOT, served
from tests.toy import SETTINGS, made

FILE = "```recording\nview: file\n```\n"
OUTPUT = "```recording\nview: output\ndevice: gpu\n```\n"
CLAIM = '{{ gpu: output["sum"]; d; > 1000 }}'
TOY = Snippet("programs/toy")
DIFFERS = SETTINGS + 'differs = "so that it can be seen"\n'


@pytest.fixture
def convert(course):
    def convert(text):
        text = f"# Toy\n\n{text}\n\n{FILE}"
        converter = config.converter()
        converter.page_of_check = (course.write("docs/en/programs/toy.md", text), "programs/toy.md")
        return converter.convert(text)

    return convert


def record(course, device: str, name: str, **changes):
    """A recording of the toy on a GPU of another name."""
    usual = made("h200")
    course.record(device, provenance=replace(usual.provenance, device=name), **changes)


def sums(number: int) -> str:
    return made("h200").output.replace("1,024", str(number))


@pytest.fixture
def two(course):
    """Two GPUs, on the second of which the sum is another."""
    course.write("snippets/programs/recorder.toml", DIFFERS)
    for device in ("cpu", "h200"):
        course.record(device)
    record(course, "a100", "NVIDIA A100", output=sums(7))
    return course


def test_one_gpu_is_shown_as_if_it_had_been_named(convert):
    asked = f"{OUTPUT}\nIt is {CLAIM}."
    assert convert(asked) == convert(asked.replace("gpu", "h200"))


def test_the_gpu_that_pages_were_written_for_comes_first(two, convert):
    assert recordings.devices(TOY, "gpu") == ["h200", "a100"]  # the alphabet would have it the other way round
    page = BeautifulSoup(convert(f"{OUTPUT}\nIt is {CLAIM}."), "html.parser")
    place = page.find(class_="by-gpu")
    assert place.find("figure")["data-device"] == "h200" and "sum: 1,024" in place.find("figure").text
    (waiting,) = place.find_all("template")
    assert waiting["data-gpu"] == "a100" and "sum: 7" in waiting.text and "NVIDIA A100" in waiting.text
    assert [button.text for button in page.select(".gpu-switch button")] == ["H200", "A100"]
    assert page.find("h1").find_next_sibling().select(".gpu-switch"), "in the line under the title"
    assert page.find(id="run-it").text == "What this page shows ran on the GPU you choose at the top."


def test_at_home_the_switch_comes_behind_the_links_of_the_headline(two):
    home = '<div class="home__statement"><h1>Home</h1><a href="a">Start</a></div><p>More</p>'
    headed = frame.with_head(home, "index.md", (), {"h200": "NVIDIA H200", "a100": "NVIDIA A100"})
    *_, link, switch = BeautifulSoup(headed, "html.parser").select(".home__statement :is(a, .gpu-switch)")
    assert link.text == "Start" and "gpu-switch" in switch["class"]


def test_labels_of_the_switch_are_short_and_tell_two_apart(two, convert):
    record(two, "h100", "NVIDIA H100 80GB HBM3", output=sums(7))
    labels = lambda: [each.text for each in BeautifulSoup(convert(OUTPUT), "html.parser").select(".gpu-switch button")]
    assert labels() == ["H200", "A100", "H100"]
    record(two, "h100b", "NVIDIA H100 PCIe", output=sums(7))
    assert labels() == ["H200", "A100", "H100 80GB HBM3", "H100 PCIe"]


def test_what_a_sentence_relies_on_binds_where_it_was_written(two, convert):
    claim = BeautifulSoup(convert(f"It is {CLAIM}."), "html.parser").find("data")
    assert claim.text == "1024"
    by_gpu = json.loads(claim["data-by-gpu"])
    assert by_gpu["h200"][0] == "1024" and by_gpu["a100"][0] == "7 (not so on this GPU)"
    assert "A100" in by_gpu["a100"][1] and "H200" in by_gpu["h200"][1]
    course = two
    course.record("h200", output=sums(8))
    with pytest.raises(PageError, match=r"relies on .* > 1000, but it is 8"):
        convert(f"It is {CLAIM}.")


def test_a_device_that_is_named_binds(two, convert):
    with pytest.raises(PageError, match=r"relies on .* > 1000, but it is 7"):
        convert(f"It is {CLAIM.replace('gpu', 'a100')}.")


def test_what_another_gpu_did_not_measure_says_so(two, convert):
    record(two, "a100", "NVIDIA A100", benchmarks=[])
    page = convert("It is {{ gpu: bandwidth[2**20].copy; .0f; > 1 }}.")
    by_gpu = json.loads(BeautifulSoup(page, "html.parser").find("data")["data-by-gpu"])
    assert by_gpu["a100"][0] == "– (not measured on this GPU)"


def test_a_site_of_another_gpu_alone(two, convert):
    for path in TOY.recordings.glob("h200*"):
        path.unlink()
    page = convert(f"{OUTPUT}\nIt is {CLAIM}, on an {{{{ gpu: name }}}}.")
    assert "7 (not so on this GPU)</data>" in page and ">A100</data>" in page
    assert "gpu-switch" not in page and "<template" not in page


def test_no_gpu_at_all(two, convert):
    for device in ("h200", "a100"):
        for path in TOY.recordings.glob(f"{device}*"):
            path.unlink()
    with pytest.raises(PageError, match="has no recording on 'gpu'"):
        convert(OUTPUT)


def test_what_waits_for_another_gpu_is_not_counted_as_shown(two, convert):
    lesson = (two.root / "docs/en/programs/toy.md").read_text("utf-8").replace("device: h200", "device: gpu")
    page = convert(lesson.removeprefix("# Toy").removesuffix(f"{FILE}") + f"\n\nIt is {CLAIM}.")
    assert check.problems() == []
    assert built._losses("programs/toy.md", page) == []
    hidden = re.sub(r"(?s)<figure.*?</figure>", "", page, count=1)  # the one that a reader sees at first
    assert built._losses("programs/toy.md", hidden) == ["2 recordings, 1 of them on the built page"]


@pytest.fixture
def opened(two, convert, browser, tmp_path):
    """The page of two GPUs, served and opened, and a function that opens it again."""
    folder = tmp_path / "served"
    folder.mkdir()
    for file in (ROOT / "theme/assets").glob("*.css"):
        shutil.copy(file, folder)
    body = convert(f"{OUTPUT}\nIt is {CLAIM}, by 3 of {{{{ gpu: bandwidth[2**10].n; d }}}}.")
    links = "".join(f'<link rel="stylesheet" href="{name}.css">' for name in ("tokens", "theme", "recording"))
    head = f'<meta charset="utf-8"><title>Toy</title><link rel="icon" href="data:,">{links}'
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en"><head>{head}</head><body class="md-typeset">{body}</body></html>', "utf-8"
    )
    with served(folder, folder) as url:
        page = browser.new_context().new_page()
        page.goto(url)
        yield page
        page.context.close()


def shown(page) -> tuple[str, str]:
    return page.locator("figure").get_attribute("data-device"), page.locator("data").first.inner_text()


def test_a_reader_switches_and_the_address_and_the_browser_remember(opened):
    page = opened
    assert shown(page) == ("h200", "1024")
    page.get_by_role("button", name="A100").press("Enter")
    assert shown(page) == ("a100", "7 (not so on this GPU)") and "sum: 7" in page.locator("figure").inner_text()
    assert page.get_by_role("button", name="A100").get_attribute("aria-pressed") == "true"
    assert page.get_by_role("button", name="H200").get_attribute("aria-pressed") == "false"
    assert page.url.endswith("?gpu=a100")
    page.goto(page.url.partition("?")[0])  # another page of the course
    assert shown(page)[0] == "a100"
    page.get_by_role("button", name="H200").click()
    assert shown(page) == ("h200", "1024") and "gpu=" not in page.url
    page.goto(f"{page.url}?gpu=b200")  # of which this page has nothing
    assert shown(page)[0] == "h200"


@pytest.mark.parametrize(("asked", "gpu"), [("a100", "a100"), ("A1", "a100"), ("h2", "h200"), ("", "h200")])
def test_the_address_may_have_the_beginning_of_a_gpu(opened, asked, gpu):
    opened.goto(f"{opened.url}?gpu={asked}")
    assert shown(opened)[0] == gpu


def test_a_number_that_is_the_same_on_both_names_the_device_that_was_chosen(opened):
    page, facts = opened, "claim => [claim.title, claim.value]"
    same = page.locator("data").last
    assert same.inner_text() == "1024" and "an NVIDIA H200" in same.evaluate(facts)[0]
    page.get_by_role("button", name="A100").click()
    assert same.inner_text() == "1024" and "an NVIDIA A100" in same.evaluate(facts)[0]
    assert page.locator("data").first.evaluate(facts)[1] == "7"
    page.get_by_role("button", name="H200").click()
    assert "an NVIDIA H200" in same.evaluate(facts)[0]
