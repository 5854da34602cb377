# SPDX-License-Identifier: Apache-2.0
"""What runs kernels on pages: from the registry of npm as it is there, or not at all."""

import io
import logging
import tarfile
import urllib.error
import zipfile
from types import SimpleNamespace

import pytest

from render.mkdocs import browser, npm


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "CACHE", tmp_path / "cache")
    return tmp_path


def built(folder):
    """Return what pages are told of the editor, after a build."""
    env = SimpleNamespace(globals={})
    browser.on_startup(command="build")
    browser.on_env(env)
    browser.on_post_build(SimpleNamespace(site_dir=folder / "site"))
    return env.globals["editor"]


def test_offline_no_page_has_a_button_and_one_line_says_so(empty, monkeypatch, caplog):
    def offline(*_, **__):
        raise urllib.error.URLError("no network here")

    monkeypatch.setattr(npm.urllib.request, "urlopen", offline)
    caplog.set_level(logging.INFO, "mkdocs")
    assert built(empty) == {} and not (empty / "site").exists()
    (line,) = caplog.records
    assert line.levelno == logging.INFO, "a strict build stops at warnings"
    assert "Pages have no button that runs a kernel: https://registry.npmjs.org does not answer" in line.getMessage()


def test_packages_are_fetched_once_and_the_model_lies_beside_them(empty, monkeypatch):
    asked = []

    def packed(address, timeout):
        asked.append(address)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as files:
            for name in {*browser.PYTHON, *(each["module"] for each in browser.EDITOR.values())}:
                info = tarfile.TarInfo(f"package/{name}")
                info.size = 1
                files.addfile(info, io.BytesIO(b"x"))
        return io.BytesIO(archive.getvalue())

    monkeypatch.setattr(npm.urllib.request, "urlopen", packed)
    monkeypatch.setattr(browser, "fetch", lambda package: npm.fetch(package._replace(integrity=ANY)))
    editor = built(empty)
    assert built(empty) == editor and len(asked) == 1 + len(browser.EDITOR)
    for address in editor.values():
        assert (empty / "site" / address).read_bytes() == b"x"
    with zipfile.ZipFile(empty / "site/assets/browser/model.zip") as model:
        assert "browser/page.py" in model.namelist()


class Anything(str):
    """Equal to any digest: what is fetched here is made here."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


ANY = Anything()
