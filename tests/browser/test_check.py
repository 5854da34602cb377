# SPDX-License-Identifier: Apache-2.0
"""An exercise's check in the browser: solutions pass, and wrong ones fail where the coach's own check fails them."""

import json
import re
import subprocess
import sys

import pytest
from coach.exercise import exercises

from browser.check import check, counted
from tests.modeled import ROOT, in_browser

# What the model does not see, by exercise and wrong solution.
UNSEEN = {"softmax methods_of_torch": "it is right: the interpreter alone refuses it"}
# What the model sees in another stage.
ELSEWHERE = {
    "flip and_of_python": "Triton's compiler warns of it, to which the coach does not listen",
    "descriptor numbers_of_tiles": "the model refuses it before a result could have another shape",
    "cross_entropy by_torch": "the model has no such function of torch",
    "attention by_torch": "the model has no such function of torch",
}
# What both see in the same stage, and the browser says in other words.
OTHERWISE = {
    "add brackets": "the model names the pointer that is stored to, which comes first in the line",
    "grid_stride cut_off": "another seed's numbers differ by one in the last of six digits",
    "same_sum block_of_1024": "what known mistakes give takes too long at the sizes that come last",
    "matmul cheat": "torch's own parts call a product mm",
    "split no_mask_of_c": "the model knows whether an atomic operation was given a mask",
}


@pytest.fixture(autouse=True)
def modeled():
    with in_browser():
        yield


@pytest.mark.parametrize("exercise", exercises(), ids=lambda each: each.name)
def test_the_solution_is_right_and_the_file_to_fill_is_not(exercise):
    verdict = check(exercise, exercise.solution)
    assert verdict["text"] == ""
    assert counted(exercise).startswith("few enough ") or counted(exercise) == "the counts"
    assert verdict["passed"][-1] == counted(exercise), "which promises no timing"
    assert check(exercise, exercise.skeleton)["text"]


WRONG = [(each, wrong) for each in exercises() for wrong in each.wrong() if not wrong.gpu]


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{e.name}-{w.name}" for e, w in WRONG])
def test_a_wrong_solution_gets_the_coachs_sentence(exercise, wrong):
    verdict, name = check(exercise, wrong.text), f"{exercise.name} {wrong.name}"
    if name in UNSEEN:
        assert verdict["text"] == "", "it is seen by now: take it from the list"
        return
    assert verdict["text"], f"the coach says: {wrong.expected.message}"
    assert (verdict["stage"] == wrong.expected.stage) != (name in ELSEWHERE), verdict["text"]
    if name not in ELSEWHERE:
        same = wrong.expected.message in " ".join(verdict["text"].split())
        assert same != (name in OTHERWISE), f"{wrong.expected.message}\n{verdict['text']}"


def test_of_what_it_prints_in_each_case_the_first_lines_are_shown(capsys):
    from browser import page

    (scale,) = (each for each in exercises() if each.name == "scale")
    page.check_exercise("scale", scale.solution.replace("    n = x.numel()", "    n = x.numel()\n    print('here', n)"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Your code prints:", "here 10"] and lines[-1] == "…" and len(lines) == 14


def test_a_program_per_element_is_refused_before_larger_sizes_take_minutes():
    """Their lanes would also fill the memory of a browser's Python."""
    (scale,) = (each for each in exercises() if each.name == "scale")
    verdict = check(scale, scale.solution.replace("(triton.cdiv(n, block),)", "(n,)"))
    assert verdict["text"].startswith("With n = 10:\n9 of 10 programs of scale_kernel store nothing.")
    assert verdict["passed"][-1] == "shape and dtype"  # as the coach has it: at other sizes, nothing was checked


def test_and_between_masks_is_refused_by_its_line():
    exercise, wrong = next((e, w) for e, w in WRONG if w.name == "and_of_python")
    text = " ".join(check(exercise, wrong.text)["text"].split())
    assert "use '&' or '|' instead." in text and "22: mask = (rows < n_rows) and" in text


ALONE = """
import sys
sys.modules |= dict.fromkeys(["numpy", "torch", "triton"])  # which cannot be imported, then
sys.path += sys.argv[1:]
import browser
browser.install()
from browser import page
from coach.exercise import exercises, find
exercise = find("scale", exercises())
wrong = {each.name: each.text for each in exercise.wrong()}
texts = exercise.solution, wrong["no_mask"], wrong["tensors_exchanged"]
print(*(page.check_exercise("scale", text) for text in texts), sep="\\n")
"""


def test_it_needs_no_numpy_and_no_torch():
    root = str(ROOT), str(ROOT / "practice")
    done = subprocess.run([sys.executable, "-c", ALONE, *root], capture_output=True, text=True, cwd="/", check=True)
    right, *wrong = map(json.loads, done.stdout.splitlines())
    assert right["text"] == "" and right["lines"] == []
    assert [each["lines"] for each in wrong] == [[14], [16]]
    assert "has no mask: what switches off the lanes" in wrong[0]["text"].replace("\n", " ")
    assert "passes `y` as x_ptr and `x` as y_ptr" in wrong[1]["text"]


def test_a_check_tells_how_far_it_is():
    (scale,) = (each for each in exercises() if each.name == "scale")
    said = []
    check(scale, scale.solution, said.append)
    assert re.fullmatch(r"1 of 8, compiles and launches: n = \d+", said[0])
    assert any(each.startswith("2 of 8, shape and dtype: n = 0") for each in said)
