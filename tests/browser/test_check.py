# SPDX-License-Identifier: Apache-2.0
"""An exercise's check in the browser: solutions pass, and wrong ones fail where the coach's own check fails them."""

import re

import pytest
from coach.exercise import exercises

from browser.check import check
from tests.modeled import in_browser

# What the model does not see, by exercise and wrong solution.
COMPILED = "only Triton's compiler refuses it"
UNSEEN = {
    "add cdiv_of_tl": COMPILED, "scale sixty_four_warps": COMPILED, "matmul adds_in_float16": COMPILED,
    "matmul adds_to_a_number": COMPILED, "accumulate only_the_cast": COMPILED,
    "cross_entropy loss_is_an_integer": COMPILED, "softmax methods_of_torch": "the interpreter alone refuses it",
    "flip and_of_python": "the interpreter takes `and` of blocks otherwise than the compiler",
    "flip no_device": "there is but one device", "split no_device": "there is but one device",
    "one_read cheat": "torch computes what the kernel is given", "clock torch_adds": "torch computes beside the kernel",
}  # fmt: skip
LARGE = "it is right up to sizes for which the browser has no time"
UNSEEN |= dict.fromkeys(("same_sum block_of_1024", "one_read block_of_1024", "rms_backward block_of_1024"), LARGE)
IN_BROWSER = [each for each in exercises() if "numpy" not in each.spec_text]


@pytest.fixture(autouse=True)
def modeled():
    with in_browser():
        yield


@pytest.mark.parametrize("exercise", IN_BROWSER, ids=lambda each: each.name)
def test_the_solution_is_right_and_the_file_to_fill_is_not(exercise):
    assert check(exercise, exercise.solution)["text"] == ""
    assert check(exercise, exercise.skeleton)["text"]


WRONG = [(each, wrong) for each in IN_BROWSER for wrong in each.wrong() if not wrong.gpu]


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{e.name}-{w.name}" for e, w in WRONG])
def test_a_wrong_solution_fails(exercise, wrong):
    verdict = check(exercise, wrong.text)
    if f"{exercise.name} {wrong.name}" in UNSEEN:
        assert verdict["text"] == "", "it is seen by now: take it from the list"
        return
    assert verdict["text"], f"the coach says: {wrong.expected.message}"
    element = re.match(r"The result\[[\d, ]*\]", wrong.expected.message)
    if element and verdict["stage"] == wrong.expected.stage:
        assert element[0] in " ".join(verdict["text"].split())
