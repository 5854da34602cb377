# SPDX-License-Identifier: Apache-2.0
"""Names, and the settings of snippets."""

import os

import pytest

from recorder import project as places
from recorder.project import Lab, Listing, RecorderError, Settings, Snippet

TOY = Snippet("programs/toy")


@pytest.mark.parametrize("name", ["programs/toy", "snippets/programs/toy.py", "programs/toy.py"])
def test_a_snippet_is_found_by_its_name_or_its_file(toy, name):
    assert places.find(name) == TOY


@pytest.mark.parametrize("name", ["programs/toi", "programs/labs/toy", "programs/__init__", ""])
def test_a_snippet_that_is_not_there(toy, name):
    toy.write("snippets/programs/labs/toy.py", "")
    toy.write("snippets/programs/__init__.py", "")
    with pytest.raises(RecorderError, match=r"no snippet '.*'; the nearest that exist: programs/toy$"):
        places.find(name)
    assert places.snippets() == [TOY] and places.labs() == [Lab("programs/labs/toy")]


def test_names():
    assert places.snippet_of_page("programs/vector-add.md") == "programs/vector_add"
    assert places.nearest("x", []) == "; none exist yet"
    assert places.nearest("bandwith", ["zzz", "bandwidth"]).endswith(": bandwidth")
    assert [places.triton_of(device) for device in ("cpu", "cpu-triton-3.8.0", "h200")] == [None, "3.8.0", None]
    assert [places.interpreted(device) for device in ("cpu", "cpu-triton-3.8.0", "h200")] == [True, True, False]


def test_settings(toy):
    assert Snippet("programs/other").settings == Snippet("gpu/other").settings == Settings()
    assert TOY.settings.stages == [Listing(launch="toy_kernel[0]")] and not TOY.runs_on("cpu-triton-3.8.0")
    toy.write("snippets/programs/recorder.toml", '[toy]\ntriton = ["3.8.0"]\ndevices = ["gpu"]\n')
    runs = {device: TOY.runs_on(device) for device in ("cpu", "h200", "cpu-triton-3.8.0", "cpu-triton-3.9.0")}
    assert runs == {"cpu": False, "h200": True, "cpu-triton-3.8.0": True, "cpu-triton-3.9.0": False}


def test_a_listing_names_all_where_it_names_none():
    some = Listing(launch="toy_kernel[1]", targets=["sm_90"])
    assert (
        some.names("toy_kernel[1]", "sm_90", "ptx")
        and not some.names("toy_kernel[1]", "sm_80", "ptx")
        and not some.names("toy_kernel[0]", "sm_90", "ptx")
    )
    assert not Listing(launch="toy_kernel[1]", stages=["sass"]).names("toy_kernel[1]", "sm_90", "ptx")


def test_the_project_is_the_one_around_the_working_directory(toy, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(toy.root / "snippets/programs")
    assert places._root() == toy.root
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert os.path.samefile(places._root() / "recorder/project.py", places.__file__)
