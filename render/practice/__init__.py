# SPDX-License-Identifier: Apache-2.0
"""Makes the site and the folder ``practice/`` agree.

- ``exercises``: the exercises in the order of the menu, their pages, and which files readers download
- ``handout``: writes the notebook and the titles of pages into the folder; ``python -m`` runs it
"""
