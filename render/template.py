# SPDX-License-Identifier: Apache-2.0
"""``template/``: a package with one kernel, which pages show in parts and readers download as a zip to begin their own.

In the zip it has its own name, and none of the marks of sections: nothing in it is of this site.
"""

import re
import tomllib

from recorder.project import ROOT, read_text

PACKED = re.compile(  # what a reader downloads; whatever else lies there, somebody left behind
    r"template/(pyproject\.toml|README\.md|LICENSE|\.gitignore|\.github/workflows/\w+\.yml|src/\w+/\w+\.py|tests/\w+\.py)"
)
MARK = re.compile(r"(?m)^[ \t]*# --8<-- \[(start|end): *[\w-]+\]\n")


def files() -> list[str]:
    """Return the files of the template, from the top of the checkout, without links."""
    paths = (path for path in (ROOT / "template").rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(name for path in paths if PACKED.fullmatch(name := path.relative_to(ROOT).as_posix()))


def name() -> str:
    return tomllib.loads(read_text(ROOT / "template/pyproject.toml"))["project"]["name"]


ZIP = "template/rownorm.zip"  # on the site


def texts() -> dict[str, str]:
    """Return the texts of the zip by their names in it."""
    return {file.replace("template", name(), 1): MARK.sub("", read_text(ROOT / file)) for file in files()}
