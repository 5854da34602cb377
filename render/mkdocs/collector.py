# SPDX-License-Identifier: Apache-2.0
"""Let Python's garbage collector come less often: a build makes millions of objects, hardly any of them in cycles."""

import gc


def on_startup(**_):
    gc.set_threshold(200_000, 50, 50)
