# SPDX-License-Identifier: Apache-2.0
"""The least speed that a spec asks for rests on what its solution reached on a GPU."""

import json

import pytest
from coach import measured
from coach.exercise import exercises, find

ASKED = [exercise for exercise in exercises() if any(k.arg == "speed" for k in exercise.spec_call().keywords)]
SLOW = {e.name: tuple(w.name for w in e.wrong() if w.gpu) for e in exercises() if any(w.gpu for w in e.wrong())}
LIKE_IT = (
    '{"where": {"gpu": "G"}, "solutions": {"scale": {"against": "a copy", "shares": [0.9], "fingerprint": "f"}}, '
    '"slow": {"scale": ["tiny_blocks"]}}'
)


@pytest.mark.parametrize("exercise", ASKED, ids=lambda exercise: exercise.name)
def test_the_least_rests_on_what_the_solution_reached(exercise):
    found = measured.read()
    assert exercise.name in found.solutions, "python -m tests.practice.on_a_gpu has not measured it"
    reached = found.solutions[exercise.name]
    assert reached.fingerprint == measured.fingerprint(exercise), "stale: its solution or inputs have changed since"
    assert len(reached.shares) >= 3
    assert 0.6 * min(reached.shares) <= exercise.spec().speed.least <= 0.95 * min(reached.shares)


def test_what_is_only_slow_failed_there():
    assert measured.read().slow == SLOW


def test_what_was_measured_is_read(tmp_path):
    path = tmp_path / "measured.json"
    assert measured.read(path) is None
    path.write_text(LIKE_IT)
    assert measured.read(path).solutions["scale"].shares == (0.9,)
    assert measured.read(path).slow == {"scale": ("tiny_blocks",)}
    path.write_text(json.dumps({"where": {}}))
    with pytest.raises(ValueError, match=r"measured\.json cannot be used"):
        measured.read(path)


def test_the_fingerprint_is_of_what_is_timed(tmp_path):
    exercise = find("scale", exercises())
    before = measured.fingerprint(exercise)
    folder = tmp_path / exercise.name
    folder.mkdir()

    def changed(old="", new="", file="spec.py"):
        for name in ("spec.py", "solution.py"):
            text = (exercise.folder / name).read_text()
            assert name != file or old in text
            (folder / name).write_text(text.replace(old, new) if name == file else text)
        return measured.fingerprint(type(exercise)(folder))

    assert changed() == before
    assert changed("Which elements belong", "Which ones belong") == before
    assert changed("least=0.85", "least=0.5") == before
    assert changed('"""Return a·x', '"""Returns a·x', "solution.py") == before
    assert changed("2**25", "2**24") != before
    assert changed("torch.randn", "torch.rand") != before
    assert changed("block = 1024", "block = 2048", "solution.py") != before
