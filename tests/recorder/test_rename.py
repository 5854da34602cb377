# SPDX-License-Identifier: Apache-2.0
"""A new name reaches every place that has the old one, nothing that was recorded changes, and nothing becomes stale."""

import msgspec
import pytest

from recorder import fingerprint, judge, recording
from recorder.project import RecorderError, Snippet, snippets
from recorder.rename import rename
from tests.toy import SETTINGS, TOY

PAGE = """\
[Here](toy.md#part), [there](../gpu/toys.md), ![a picture](toy.svg), `snippets/programs/toy.py`, `toy.py`, toy.

--8<-- "programs/toy.py:kernel"

{{ cpu of programs/toy: output["sum"]; d }} {{ cpu of programs/toy_too: output["sum"]; d }}
"""


def read(project, path):
    return (project.root / path).read_text("utf-8")


def faults():
    return [str(problem) for snippet in snippets() for problem in judge.problems(snippet)]


def record(project, name, device="h200"):
    """Write a fresh recording of a snippet: that of the toy under another name."""
    made = recording.load(Snippet("programs/toy"), device)
    stamp = msgspec.structs.replace(made.provenance, fingerprint=fingerprint.of(Snippet(name), device, made))
    recording.save(msgspec.structs.replace(made, snippet=name, provenance=stamp))


def test_recordings_stay_as_they_are(toy):
    before = {device: toy.files()[f"recordings/programs/toy/{device}.json"].decode() for device in ("cpu", "h200")}
    rename("programs/toy", "programs/game")
    assert faults() == [] and judge.orphans() == []
    for device, text in before.items():
        now = toy.files()[f"recordings/programs/game/{device}.json"].decode()
        changed = [line for line in text.splitlines() if line not in now.splitlines()]
        assert all("toy" in line.replace("toy_kernel", "") or "digest" in line for line in changed), changed
        assert "programs/toy" not in now and "toy_kernel" in now


def test_every_place_is_reached(toy):
    toy.write("snippets/programs/toy.py", TOY.replace('"""A toy."""', '"""A toy: run ``python toy.py``."""'))
    toy.write("snippets/programs/recorder.toml", f"# toys\n\n[other]\ncompiled = true\n\n{SETTINGS}")
    toy.write("snippets/programs/other.py", "from snippets.programs.toy import toy_kernel\n")
    toy.write(
        "tests/snippets/programs/test_toy.py", '"""Of toy.py."""\nfrom snippets.programs import toy\ntoy.toy_kernel\n'
    )
    toy.write("docs/en/programs/toy.md", PAGE)
    toy.write("docs/en/index.md", "[A toy](programs/toy.md) [other](programs/toys.md)\n")
    toy.write("docs/en/gpu/schedule.md", "[A toy](../programs/toy.md#part) [mine](toy.md)\n\n[1]: ../programs/toy.md\n")
    toy.write("mkdocs.yml", "nav:\n  - programs/toy.md\n  - programs/toys.md\n")
    toy.write("tests/mutants_explained.toml", '[[mutant]]\nsnippet = "programs/toy"\n')
    changed = rename("programs/toy", "programs/big_game")

    assert "run ``python big_game.py``" in read(toy, "snippets/programs/big_game.py")
    assert read(toy, "snippets/programs/other.py") == "from snippets.programs.big_game import toy_kernel\n"
    settings = read(toy, "snippets/programs/recorder.toml")
    assert settings == f"# toys\n\n[other]\ncompiled = true\n\n{SETTINGS.replace('[toy]', '[big_game]')}"
    test = read(toy, "tests/snippets/programs/test_big_game.py")
    assert test == '"""Of big_game.py."""\nfrom snippets.programs import big_game as toy\ntoy.toy_kernel\n'
    page = PAGE.replace("programs/toy.py", "programs/big_game.py").replace("](toy.md", "](big-game.md")
    assert read(toy, "docs/en/programs/big-game.md") == page.replace("of programs/toy:", "of programs/big_game:")
    assert read(toy, "docs/en/index.md") == "[A toy](programs/big-game.md) [other](programs/toys.md)\n"
    linked = "[A toy](../programs/big-game.md#part) [mine](toy.md)\n\n[1]: ../programs/big-game.md\n"
    assert read(toy, "docs/en/gpu/schedule.md") == linked
    assert read(toy, "mkdocs.yml") == "nav:\n  - programs/big-game.md\n  - programs/toys.md\n"
    assert 'snippet = "programs/big_game"' in read(toy, "tests/mutants_explained.toml")
    gone = (
        "snippets/programs/toy.py",
        "tests/snippets/programs/test_toy.py",
        "docs/en/programs/toy.md",
        "recordings/programs/toy",
    )
    assert not any((toy.root / path).exists() for path in gone)
    assert {"docs/en/gpu/schedule.md", "recordings/programs/big_game/cpu.json", "mkdocs.yml"} <= set(changed)


def test_to_another_chapter(toy):
    toy.write("snippets/gpu/recorder.toml", "[memory]\ncompiled = true\n")
    toy.write("snippets/gpu/memory.py", "")
    toy.write("docs/en/programs/toy.md", "[mask](masks.md) [memory](../gpu/memory.md) [me](toy.md)\n")
    toy.write("docs/en/programs/masks.md", "[toy](toy.md)\n")
    toy.write("docs/en/gpu/memory.md", "")
    rename("programs/toy", "gpu/toy")
    assert read(toy, "docs/en/gpu/toy.md") == "[mask](../programs/masks.md) [memory](memory.md) [me](toy.md)\n"
    assert read(toy, "docs/en/programs/masks.md") == "[toy](../gpu/toy.md)\n"
    assert read(toy, "snippets/gpu/recorder.toml") == f"[memory]\ncompiled = true\n\n{SETTINGS}"
    assert read(toy, "snippets/programs/recorder.toml") == ""
    assert judge.problems(Snippet("gpu/toy")) == []


@pytest.mark.parametrize(
    "code",
    [
        "from snippets.programs.toy import toy_kernel\n\ntoy_kernel\n",
        "from snippets.programs import toy\n\ntoy.toy_kernel\n",
        "from snippets.programs import toy as it\n\nit.toy_kernel\n",
        "from snippets.programs import (\n    other,\n    toy,\n)\n\ntoy.toy_kernel, other.x\n",
        'from snippets.programs.toy import toy_kernel\n\nMODULE = "snippets.programs.toy"\ntoy_kernel\n',
    ],
)
def test_who_imports_it_stays_fresh(toy, code):
    """This holds even if the code itself spells the name, which changes its fingerprint."""
    toy.write("snippets/programs/other.py", "x = 1\n")
    toy.write("snippets/programs/user.py", code)
    toy.write("snippets/programs/recorder.toml", '[user]\ndevices = ["gpu"]\n[other]\ndevices = ["gpu"]\n' + SETTINGS)
    record(toy, "programs/user")
    record(toy, "programs/other")
    assert faults() == []
    rename("programs/toy", "programs/game")
    assert faults() == []
    made = recording.load(Snippet("programs/user"), "h200")
    assert (made.snippet, made.provenance.command) == ("programs/user", "python snippets/programs/user.py")
    assert "snippets.programs.toy" not in read(toy, "snippets/programs/user.py")


def test_what_was_stale_stays_stale(toy):
    toy.write("snippets/programs/recorder.toml", '[user]\ndevices = ["gpu"]\n' + SETTINGS)
    toy.write("snippets/programs/user.py", "from snippets.programs import toy\n\ntoy.toy_kernel\n")
    record(toy, "programs/user")
    toy.write("snippets/programs/user.py", "from snippets.programs import toy\n\ntoy.toy_kernel, 2\n")
    rename("programs/toy", "programs/game")
    assert ["stale" in fault for fault in faults()] == [True]


def test_code_may_say_its_file_s_name(toy):
    """What it printed under the old name is recorded, so its code keeps it."""
    toy.write("snippets/programs/toy.py", TOY + '\nSIDES = ["toy.py", "other.py"]\n')
    toy.record("cpu"), toy.record("h200")
    rename("programs/toy", "programs/game")
    assert 'SIDES = ["toy.py"' in read(toy, "snippets/programs/game.py") and faults() == []


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("programs/toi", "programs/game", "the nearest that exist: programs/toy"),
        ("programs/toy", "programs/Game", "no name of a lesson"),
        ("programs/toy", "game", "no name of a lesson"),
        ("programs/toy", "programs/other", "already"),
        ("programs/toy", "gpu/game", "snippets/programs/user.py:1 imports toy beside others"),
        ("programs/none.md", "programs/game.md", "there is no page"),
        ("programs/alone.md", "programs/toy.md", "is taken"),
        ("programs/alone.md", "programs/Alone.md", "or no name such as"),
    ],
)
def test_refuses_and_changes_nothing(toy, old, new, why):
    toy.write("snippets/programs/other.py", "x = 1\n")
    toy.write("snippets/programs/user.py", "from snippets.programs import other, toy\n\ntoy.toy_kernel, other.x\n")
    toy.write("docs/en/programs/toy.md", "")
    toy.write("docs/en/programs/alone.md", "")
    files = lambda: {path: path.read_bytes() for path in toy.root.rglob("*") if path.is_file()}
    before = files()
    with pytest.raises(RecorderError, match=why):
        rename(old, new)
    assert files() == before


def test_refuses_what_is_not_fresh(toy):
    toy.write("snippets/programs/toy.py", TOY + "\nx = 1\n")
    with pytest.raises(RecorderError, match=r"fix first: .*toy/cpu\.json: stale"):
        rename("programs/toy", "programs/game")
    assert (toy.root / "recordings/programs/toy/cpu.json").is_file()


def test_a_page_alone(toy):
    toy.write("docs/en/programs/early.md", "[me](early.md#a)\n")
    toy.write("docs/en/programs/toy.md", "[early](early.md) [early](../programs/early.md)\n")
    toy.write("docs/zh/programs/early.md", "[early](../../en/programs/early.md)\n")
    toy.write("mkdocs.yml", "nav:\n  - programs/early.md\n")
    rename("programs/early.md", "gpu/dependent-launch.md")
    assert read(toy, "docs/en/gpu/dependent-launch.md") == "[me](dependent-launch.md#a)\n"
    assert read(toy, "docs/zh/gpu/dependent-launch.md") == "[early](../../en/gpu/dependent-launch.md)\n"
    page = "[early](../gpu/dependent-launch.md) [early](../gpu/dependent-launch.md)\n"
    assert read(toy, "docs/en/programs/toy.md") == page
    assert read(toy, "mkdocs.yml") == "nav:\n  - gpu/dependent-launch.md\n" and faults() == []


def test_a_page_that_bears_the_name_of_its_snippet_names_it_then(toy):
    toy.write("docs/en/programs/toy.md", "---\ndescription: x\n---\n# Toy in recordings/programs/toy/cpu.json\n")
    rename("programs/toy.md", "notes/game.md")
    moved = "---\nsnippet: programs/toy\ndescription: x\n---\n# Toy in recordings/programs/toy/cpu.json\n"
    assert read(toy, "docs/en/notes/game.md") == moved
    rename("notes/game.md", "notes/play.md")
    assert read(toy, "docs/en/notes/play.md") == moved
    toy.write("docs/en/programs/toy.md", "# Toy\n")
    rename("programs/toy.md", "notes/bare.md")
    assert read(toy, "docs/en/notes/bare.md") == "---\nsnippet: programs/toy\n---\n\n# Toy\n"
    assert faults() == []


def test_command(toy):
    done = toy.recorder("rename", "programs/toy", "programs/game")
    assert done.returncode == 0, done.stderr
    assert "changed recordings/programs/game/cpu.json" in done.stderr
    assert toy.recorder("check").stdout == "Every recording is of the code as it stands.\n"
