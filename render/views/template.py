# SPDX-License-Identifier: Apache-2.0
"""The view ``template``: a button that downloads the package in ``template/``."""

from markupsafe import Markup

from recorder.project import ROOT
from render.code import Download, link_to_file
from render.page import Page
from render.template import ZIP
from render.templates import render
from render.views.registry import view


@view
def template(page: Page) -> Markup:
    """Return a button that downloads the template as a zip."""
    return render("download.html", download=Download(ZIP.rpartition("/")[2], link_to_file(page.name, ROOT / ZIP)))
