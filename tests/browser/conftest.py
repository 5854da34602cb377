# SPDX-License-Identifier: Apache-2.0
"""The model is judged by what the coach of the exercises knows, too."""

import sys

from tests.modeled import ROOT

sys.path.append(str(ROOT / "practice"))  # behind the checkout, where `practice` is this package and not practice.py
