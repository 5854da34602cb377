# SPDX-License-Identifier: Apache-2.0
"""Exercises and a coach, for readers to download; see README.md. The site imports this as a package."""
