# SPDX-License-Identifier: Apache-2.0
"""The CSS properties that figures may use."""

import re

from recorder.project import ROOT


def tokens() -> set[str]:
    """Return the names of the properties in the theme's tokens.css, without their dashes."""
    return set(re.findall(r"--([\w-]+):", (ROOT / "theme/assets/tokens.css").read_text("utf-8")))
