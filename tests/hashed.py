# SPDX-License-Identifier: Apache-2.0
"""Importing this hashes Triton, half a GB, of which it keeps the result: for the server of processes that compile."""

if __name__ == "tests.hashed":  # and not when pytest looks for doctests
    from triton.runtime.cache import triton_key

    triton_key()
