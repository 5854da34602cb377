# SPDX-License-Identifier: Apache-2.0
"""Test what a figure declares in its one line."""

import pytest

from figures.registry import figure, figures, module
from recorder.project import RecorderError
from render.views.frame import with_assets


def test_a_figure_of_something_unknown_is_refused():
    with pytest.raises(RecorderError, match=r"figures/figures: no figure is drawn from 'launchs'; .*launches"):
        figure(of="launchs")(lambda recording: "")


def test_a_script_is_one_module_with_what_explorers_share():
    script = figures()["schedule"].script
    assert "class FormExplorer" in script and "class ScheduleExplorer" in script
    assert "import " not in script.partition("class FormExplorer")[0] and "\nexport " not in script
    assert figures()["schedule"].style.index(".explorer") < figures()["schedule"].style.index("schedule")


def test_what_figures_of_a_page_share_comes_once_and_their_names_do_not_meet():
    rooms = [figures()[name] for name in ("schedule", "swizzle", "online_softmax")]
    script = module(rooms)
    assert script.count("class FormExplorer") == 1 and "\nexport " not in script and "\nimport " not in script
    assert [script.count(f"{{\n{each.own_script}\n}}") for each in rooms] == [1, 1, 1]


def test_what_cannot_be_played_with_brings_no_script():
    assert not figures()["table"].script and not figures()["output"].script


def test_the_style_of_all_explorers_comes_once_a_page_and_before_their_own():
    explorers = [each for each in figures().values() if each.script]
    page = with_assets("", explorers)
    (shared,) = {each.styles[0] for each in explorers}
    assert len(explorers) > 3 and page.count(shared) == 1
    assert all(page.index(shared) < page.index(own) for each in explorers for own in each.styles_for("")[1:])


def test_a_page_brings_only_the_styles_of_what_it_shows_of_a_figure():
    waves = figures()["waves"]
    spare = ".waves__orders"
    assert spare in waves.style and spare in with_assets('<p class="waves__legend">', [waves])
    assert spare not in with_assets('<waves-explorer class="waves--compact">', [waves])
