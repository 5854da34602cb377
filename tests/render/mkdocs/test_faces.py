# SPDX-License-Identifier: Apache-2.0
"""The site's own faces: what the registry gave, cut down; without it, the system's, and the build goes on."""

import io
import logging
import re
import tarfile
import urllib.error
from types import SimpleNamespace

import pytest

from render.mkdocs import faces, npm

ROOT = faces.ROOT


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A checkout that has built nothing yet, and no registry."""
    monkeypatch.setattr(faces, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(npm.urllib.request, "urlopen", offline)
    return tmp_path


def offline(*_, **__):
    raise urllib.error.URLError("no network here")


def built(folder) -> tuple[list[str], str]:
    """What a page's head names first, and the styles, after a build."""
    env, config = SimpleNamespace(globals={}), SimpleNamespace(site_dir=folder)
    styles = folder / "assets/tokens.css"
    styles.parent.mkdir(exist_ok=True)
    styles.write_text(":root {}", "utf-8")
    faces.on_startup(command="build")
    faces.on_env(env)
    faces.on_post_build(config)
    return env.globals["faces"], styles.read_text("utf-8")


def test_offline_a_page_has_the_systems_faces_and_one_line_says_so(empty, caplog):
    caplog.set_level(logging.INFO, "mkdocs")
    assert built(empty) == ([], ":root {}")
    (line,) = caplog.records
    assert line.levelno == logging.INFO, "a strict build stops at warnings"
    assert line.getMessage() == (
        "Pages have the system's faces: https://registry.npmjs.org does not answer (<urlopen error no network here>)."
    )


def test_a_package_with_another_digest_is_not_looked_into(empty, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "mkdocs")
    monkeypatch.setattr(npm.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"no package at all"))
    assert built(empty)[0] == []
    assert "source-sans-3.52.0.tgz is not what it was, by its digest" in caplog.text
    assert not list((empty / "cache").iterdir())


def test_what_is_in_the_cache_needs_no_registry(empty):
    faces.CACHE.mkdir()
    for name in (faces.LICENSE, *(face.name for face in faces.FACES)):
        (faces.CACHE / name).write_bytes(name.encode())
    first, styles = built(empty)
    assert first[0] == f"assets/faces/{faces.FACES[0].name}"
    assert styles.endswith(":root {}") and styles.count("@font-face") == len(faces.FACES) + 2
    for address in re.findall(r"url\((.+?)\)", styles):  # relative to the style sheet: of this host
        assert (empty / "assets" / address).read_bytes() == address.rpartition("/")[2].encode()
    assert (empty / "assets/faces" / faces.LICENSE).exists()


def test_a_package_is_fetched_once_and_its_members_are_found(empty, monkeypatch):
    packed, asked = io.BytesIO(), []
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        for name in ("LICENSE.md", *(face.file for face in faces.FACES)):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(name)
            files.addfile(info, io.BytesIO(name.encode()))

    def answer(address, timeout):
        asked.append(address)
        return io.BytesIO(packed.getvalue())

    monkeypatch.setattr(npm.urllib.request, "urlopen", answer)
    monkeypatch.setattr(faces, "cut", lambda face, whole: whole)
    packages = [face.package for face in faces.FACES]
    same = npm.digest(packed.getvalue())
    monkeypatch.setattr(
        faces, "FACES", [face._replace(package=face.package._replace(integrity=same)) for face in faces.FACES]
    )
    faces.make()
    faces.make()
    assert asked == [f"https://registry.npmjs.org/{package.address}" for package in dict.fromkeys(packages)]
    assert [(faces.CACHE / face.name).read_text() for face in faces.FACES] == [face.file for face in faces.FACES]


def test_the_styles_name_the_faces_before_the_systems():
    tokens = (ROOT / "theme/assets/tokens.css").read_text("utf-8")
    for family in {face.family for face in faces.FACES} | set(re.findall(r'family:"(.+?)"', faces.STAND_INS)):
        assert f'"{family}", ' in tokens


needs_faces = pytest.mark.skipif(not faces.made(), reason="the faces come with the first build that has a network")


@needs_faces
def test_all_faces_together_weigh_at_most_80_kb():
    sizes = {face.name: (faces.CACHE / face.name).stat().st_size for face in faces.FACES}
    assert all(size > 3_000 for size in sizes.values()) and sum(sizes.values()) <= 80_000


@needs_faces
def test_a_face_has_the_characters_that_pages_need_and_all_weights():
    from fontTools.ttLib import TTFont

    for face in faces.FACES:
        font = TTFont(faces.CACHE / face.name)
        known = font.getBestCmap()
        assert not [chr(letter) for letter in range(0x20, 0x7F) if letter not in known]
        if face.style == "normal":
            assert not [sign for sign in "×·²³½µ±÷−→←≤≥∞√≈–…’¶⁰⁴⁵⁶⁷⁸⁹₂✓" if ord(sign) not in known]
            (axis,) = font["fvar"].axes
            assert (axis.minValue, axis.maxValue) == face.weights
        names = {font["name"].getDebugName(kind) for kind in (1, 4)}
        assert names == {face.family}, "its licence reserves the name of the whole face"
        if face.family.endswith("Code"):
            assert {font["hmtx"][glyph][0] for glyph in known.values()} == {600}, "one width"
            assert not [chr(box) for box in range(0x2500, 0x2580) if box not in known]
