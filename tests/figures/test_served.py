# SPDX-License-Identifier: Apache-2.0
"""<served-call>: what the run printed, machine by machine, and what a reader chooses."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures import served as figure
from figures.served import served
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("pytorch/package"), "cpu")


def drawn(made):
    return BeautifulSoup(served(made), "html.parser")


def test_the_first_machine_stands_there_without_a_script(recorded):
    page = drawn(recorded)
    ran = {each["data-run"]: each.i.text for each in page.select(".served__function.served--ran")}
    order = ["ops.py rms_norm", "ops.py check", "ops.py rms_norm_op", "ops.py in_torch"]
    assert ran == {name: str(place) for place, name in enumerate(order, 1)}
    assert {each["data-file"] for each in page.select(".served--read[data-file]")} == {"__init__.py", "ops.py"}
    said = page.select_one(".explorer__now").text
    assert said == "x on the CPU: in_torch computes it, and the result is PyTorch's. Nothing imports kernels.py."
    assert page.select_one("[data-of=error]").text == ""


def test_an_error_is_told_as_it_was_printed(recorded):
    no_triton = drawn(recorded).select_one("[value='interpreter, no Triton']")
    assert no_triton["data-says"] == "import_kernels refuses: "
    assert no_triton["data-error"].startswith("RuntimeError: rownorm's kernel needs Triton, which can't be imported")


def test_a_gpu_adds_its_machines(recorded, monkeypatch):
    run = "given: x on a GPU\nimported: ops.py\nran: ops.py rms_norm, kernels.py launch\nresult: as PyTorch's\n"
    other = replace(recorded, device="h200", output=f"## laptop, no GPU\nnothing\n## a server\n{run}")
    monkeypatch.setattr(figure, "_others", lambda made: [other])
    machines = [each["value"] for each in drawn(recorded).select("[name=machine]")]
    assert machines[0] == "laptop, no GPU" and machines[-1] == "a server" and len(machines) == 6


def test_refuses_a_run_that_is_not_such_a_one(recorded, monkeypatch):
    monkeypatch.setattr(figure, "_others", lambda made: [])  # another machine's recording has what this one then lacks
    with pytest.raises(RecorderError, match="has no section 'functions'"):
        served(replace(recorded, output=recorded.output.replace("## functions", "## names")))
    with pytest.raises(RecorderError, match=r"ran 'ops\.py check', which the section 'functions' does not have"):
        served(replace(recorded, output=recorded.output.replace(", check", "")))
    with pytest.raises(RecorderError, match="no section with the lines given, imported, ran, result"):
        served(replace(recorded, output=recorded.output.replace("given: ", "")))


def test_each_machine_shows_what_ran_there(recorded, open_site, tmp_path):
    with page_with(tmp_path, "served", served(recorded)) as url:
        page = open_site(url)
        for radio in page.locator("[name=machine]").all():
            data = {name: radio.get_attribute(f"data-{name}") for name in ("ran", "imported", "given", "says", "error")}
            radio.check()
            marked = "all => all.map(each => [each.firstElementChild.textContent, each.dataset.run])"
            shown = page.locator(".served--ran[data-run]").evaluate_all(marked)
            numbered = sorted((int(place), run) for place, run in shown)
            assert numbered == [*enumerate(data["ran"].split("|"), 1)]
            files = page.locator(".served--read[data-file]").evaluate_all("all => all.map(each => each.dataset.file)")
            assert {*files} == {*data["imported"].split("|")}
            now = page.locator(".explorer__now").inner_text()
            assert now == f"{data['given']}: {data['says']}{data['error']}"
        page.locator("[name=machine]").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".explorer__now").inner_text().startswith("x on the CPU, no Triton:")
        assert "served.machine=macOS" in page.url, "the address keeps it"
