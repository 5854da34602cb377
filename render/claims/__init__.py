# SPDX-License-Identifier: Apache-2.0
"""Claims: numbers and words in sentences, read from recordings when the page is built.

- ``expressions``: what a claim says: an expression over a recording, a format and a condition
- ``values``: names that a page gives to values in a fence ``values``, for its claims
- ``tracked``: values that remember that they were read from a recording, so that a claim that was typed is refused
"""
