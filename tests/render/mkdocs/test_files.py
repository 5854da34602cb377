# SPDX-License-Identifier: Apache-2.0
"""The site has each snippet's whole file beside its pages: to read, and to download."""

import zipfile

from bs4 import BeautifulSoup

from render.mkdocs import files
from tests.toy import TOY


def test_what_needs_no_other_file_comes_as_it_is(course):
    text = TOY + "# größer & <b> \"100%\" 'a' #x?y+z\\\n"
    course.snippet("toy", text)
    files.on_post_build({"site_dir": course.root / "site"})
    folder = course.root / "site/snippets/programs"
    assert (folder / "toy.py").read_text("utf-8") == text and not (folder / "toy.zip").exists()
    page = BeautifulSoup((folder / "toy.html").read_bytes(), "html.parser")
    code = page.select_one(".highlight > pre > code")
    assert code.get_text() == text and page.title.text == "snippets/programs/toy.py"
    assert page.select(page.select_one("pre > nav > button")["data-clipboard-target"]) == [code]


def test_the_template_comes_as_a_zip_of_its_own_name_without_our_marks(course):
    files.on_post_build({"site_dir": course.root / "site"})
    assert not (course.root / "site/template").exists()
    course.write("template/pyproject.toml", '[project]\nname = "rownorm"\n')
    course.write("template/src/rownorm/ops.py", "# --8<-- [start:call]\ncalled = 1\n# --8<-- [end:call]\n")
    course.write("template/notes.txt", "mine")
    files.on_post_build({"site_dir": course.root / "site"})
    packed = zipfile.ZipFile(course.root / "site/template/rownorm.zip")
    assert packed.namelist() == ["rownorm/pyproject.toml", "rownorm/src/rownorm/ops.py"]
    assert packed.read("rownorm/src/rownorm/ops.py") == b"called = 1\n"


def test_what_needs_another_comes_with_it(course):
    course.snippet("least", "x = 1\n")
    course.snippet("toy", f"from snippets.programs.least import x\n{TOY}")
    files.on_post_build({"site_dir": course.root / "site"})
    folder = course.root / "site/snippets/programs"
    assert zipfile.ZipFile(folder / "toy.zip").namelist() == [f"snippets/programs/{n}.py" for n in ("toy", "least")]
    assert not (folder / "toy.py").exists() and (folder / "least.py").exists()
