# SPDX-License-Identifier: Apache-2.0
"""Shows what pages ask for by a ``recording`` fence.

- ``frame``: the foot, styles and script around a figure, and the lines under a page's title
- ``ledger``: everything that was recorded, by chapter
- ``snippet``: a snippet as something to copy: its arguments, where it ran, its test
"""
