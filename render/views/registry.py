# SPDX-License-Identifier: Apache-2.0
"""All views. Each module of this folder registers its own by one line above its function."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from pathlib import Path

from markupsafe import Markup

from recorder.project import RecorderError, nearest
from render.page import Page

_registered: dict[str, "View"] = {}


@dataclass(frozen=True)
class View:
    """A way to show something on a page."""

    name: str  # what a fence calls it
    show: Callable[..., Markup]  # takes the page, and the fence's options by name
    options: Mapping[str, Parameter]  # by name; one without a default must be given

    def __call__(self, page: Page, options: dict) -> Markup:
        """Return the view's HTML. Raise ``RecorderError`` for an option that is unknown or missing."""
        if unknown := [option for option in options if option not in self.options]:
            raise RecorderError(
                f"the view {self.name!r} has no option {unknown[0]!r}{nearest(unknown[0], self.options)}"
            )
        required = [option for option, each in self.options.items() if each.default in (Parameter.empty, ...)]
        if missing := [option for option in required if option not in options]:
            raise RecorderError(f"the view {self.name!r} needs the option {missing[0]!r}")
        return self.show(page, **options)


def view(show: Callable[..., Markup]) -> Callable[..., Markup]:
    """Register a function as the view of its name. It takes the page, and then the options of the fence."""
    options = dict(list(inspect.signature(show).parameters.items())[1:])
    register(View(show.__name__, show, options))
    return show


def register(made: View) -> None:
    _registered[made.name] = made


@cache
def views() -> dict[str, View]:
    """Return all views by name."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"render.views.{module.name}")
    return dict(_registered)
