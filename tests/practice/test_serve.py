# SPDX-License-Identifier: Apache-2.0
"""The last check as a page: what it shows after a saving, to whom, and by which colors."""

import http.client
import json
import re
import shutil
import socket
import time
import urllib.error
import urllib.request

import pytest
from bs4 import BeautifulSoup
from coach import exercise
from coach.check import Verdict
from coach.desk import Desk
from coach.exercise import PracticeError
from coach.finding import Finding
from coach.serve import DARK, LIGHT, serve

from recorder import recording
from recorder.project import find
from tests.limits import HANGS
from tests.practice.conftest import PRACTICE

NAMES = ("scale", "row_sum")
LAUNCH = recording.load(find("practice/scale"), "cpu").coached.launch
WRONG = Verdict(
    Finding("x < y is off.", picture=["drawn by characters"], launch=LAUNCH, guess="Is `<=` right?", stage="values"), []
)


class Toy:
    """Stands in for the coach: gives one verdict after another."""

    def __init__(self, *verdicts):
        self.verdicts, self.asked = list(verdicts), []

    def check(self, exercise, path):
        self.asked.append(exercise.name)
        return self.verdicts.pop(0)


@pytest.fixture
def desk(tmp_path):
    for name in NAMES:
        shutil.copytree(PRACTICE / "exercises" / name, tmp_path / "practice/exercises" / name)
    shutil.copy(PRACTICE / "pages.json", tmp_path / "practice")
    return Desk(tmp_path / "practice", say=lambda text: None)


def served(desk, coach, monkeypatch, *steps):
    """Return what ``/now`` shows after each look; take a step before each but the first."""
    shown, pages, waiting = [], [], iter([*steps, None])

    def look(seconds):
        shown.append(json.loads(fetched("/now"))["part"])
        pages.append(fetched("/"))
        if step := next(waiting):
            step()

    def ready(port):
        nonlocal address
        address = f"http://127.0.0.1:{port}"

    def fetched(path):
        with urllib.request.urlopen(address + path, timeout=HANGS) as answer:
            return answer.read().decode()

    address = ""
    monkeypatch.setattr("coach.serve.time.sleep", look)
    assert serve(desk, desk.all[0], coach, port=0, rounds=len(steps) + 1, ready=ready) == 0
    return [BeautifulSoup(part, "html.parser") for part in shown], pages


def save(desk, number):
    return lambda: desk.copy_of(desk.all[number]).write_text(f"# {time.time_ns()}\n")


def test_a_saving_shows_what_is_wrong_with_the_picture_of_the_site(desk, monkeypatch):
    coach = Toy(WRONG, Verdict(None, ["compiles"], []))
    (first, second, third), pages = served(desk, coach, monkeypatch, lambda: None, save(desk, 0))
    assert first.h1.get_text() == desk.all[0].card.title and "x < y is off." in first.pre.get_text()
    assert first.select_one("svg.coach-launch title") and "drawn by characters" not in first.get_text()
    assert first.code.get_text() == "<=" and first.get_text() == second.get_text()
    assert "scale is right." in third.get_text() and "Next: row_sum" in third.get_text()
    assert "before it" not in third.get_text()
    assert coach.asked == ["scale", "scale"] and desk.copy_of(desk.all[1]).exists()
    assert "x &lt; y is off." in pages[0] and not re.search(r"(src|href)=\"(http|//)", pages[0])


def test_the_next_is_checked_when_it_is_saved(desk, monkeypatch):
    coach = Toy(Verdict(None, ["compiles"], []), WRONG)
    (_, still, last), _ = served(desk, coach, monkeypatch, lambda: None, save(desk, 1))
    assert "scale is right." in still.get_text()
    assert last.h1.get_text() == desk.all[1].card.title and coach.asked == list(NAMES)


def test_a_bug_is_not_named_before_it_was_looked_for(desk, monkeypatch):
    hunt, coach = exercise.find("copy", exercise.exercises()), Toy(WRONG)
    desk.all = [hunt]
    (first, still, last), _ = served(desk, coach, monkeypatch, lambda: None, save(desk, 0))
    assert "Read it first" in first.get_text() and first.pre.get_text() == hunt.skeleton
    assert first.get_text() == still.get_text()
    assert "x < y is off." in last.get_text() and coach.asked == [hunt.name]


def test_what_is_open_before_the_next_is_counted(desk, monkeypatch):
    coach = Toy(WRONG, Verdict(None, ["compiles"], []))
    parts, _ = served(desk, coach, monkeypatch, lambda: None, save(desk, 1))
    assert "Next: scale." in parts[-1].get_text() and "before it" not in parts[-1].get_text()


def test_it_answers_to_the_names_of_this_machine_only(desk):
    """Else a page of another host could read it, after its name is made to mean this machine."""
    answers = {}

    def ready(port):
        hosts = [f"LOCALHOST:{port}", f"[::1]:{port}", f"127.0.0.1:{port}"]
        for host in [*hosts, f"evil.example:{port}", "localhost", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}.a.b", ""]:
            for path in ("/", "/now"):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
                connection.putrequest("GET", path, skip_host=True)
                connection.putheader("Host", host)
                connection.endheaders()
                answers.setdefault(host in hosts, set()).add(connection.getresponse().status)
                connection.close()

    serve(desk, desk.all[0], Toy(), port=0, rounds=0, ready=ready)
    assert answers == {True: {200}, False: {403}}


def test_nothing_else_is_served_and_a_port_in_use_is_named(desk, monkeypatch):
    asked = []

    def ready(port):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/../practice.py", timeout=HANGS)
        asked.append(port)

    serve(desk, desk.all[0], Toy(), port=0, rounds=0, ready=ready)
    assert asked
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PracticeError, match=f"Port {port} cannot be used"):
            serve(desk, desk.all[0], Toy(), port=port, rounds=0)


@pytest.mark.parametrize(("part", "colors"), [(0, LIGHT), (1, DARK)])
def test_its_colors_are_those_of_the_site(part, colors):
    css = (PRACTICE.parent / "theme/assets/tokens.css").read_text().split('[data-md-color-scheme="slate"]')[part]
    assert {name: re.search(rf"--{name}: (#\w+)", css)[1] for name in colors} == colors
