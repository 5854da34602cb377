# SPDX-License-Identifier: Apache-2.0
"""Of many cases alike, an ordinary run takes those that show each kind first, and always the same.

``CI=1`` in the environment, as ``.ci/run`` sets it, takes all of them; so does ``EVERYTHING=1``, and so does
``make test-changed`` for what a change touches. Of Hypothesis's examples an ordinary run takes a third.
"""

import os
import re
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")
EVERYTHING = bool(os.environ.get("CI") or os.environ.get("EVERYTHING"))
EXAMPLES = 40  # that Hypothesis makes up for a test


def some(
    cases: Iterable[Case], kinds: Callable[[Case], Iterable[Hashable]], *, everything: bool = EVERYTHING
) -> list[Case]:
    """Return those cases, in their order, that are of a kind of which none before is; or all of them.

    >>> some(["ab", "b", "ba", "bc"], set, everything=False)
    ['ab', 'bc']
    >>> some(["ab", "b"], set, everything=True)
    ['ab', 'b']
    """
    seen, chosen = set(), []
    for case in cases:
        new = set(kinds(case)) - seen
        if new or everything:
            chosen.append(case)
        seen |= new
    return chosen


def kinds_of_page(path: Path) -> set[str]:
    """Return what makes a page unlike others: its chapter, its format, and the views that it asks for."""
    return {path.parent.name, path.suffix, *re.findall(r"^ *view: (\S+)", path.read_text("utf-8"), re.M)}
