# SPDX-License-Identifier: Apache-2.0
"""Of many cases alike, an ordinary run takes some, and others on the next day.

``CI=1`` in the environment, as ``.ci/run`` sets it, takes all of them; so does ``EVERYTHING=1``. Of Hypothesis's
examples, which are new ones in every ordinary run, it takes a third.
"""

import datetime
import os
from collections.abc import Iterable

EVERYTHING = bool(os.environ.get("CI") or os.environ.get("EVERYTHING"))
EXAMPLES = 40  # that Hypothesis makes up for a test
TODAY = datetime.date.today().toordinal()


def todays(cases: Iterable, days: int, *, day: int = TODAY, everything: bool = EVERYTHING) -> list:
    """One case of ``days``, so that each has its turn within as many days.

    >>> [todays("abcde", 2, day=day, everything=False) for day in (0, 1)]
    [['a', 'c', 'e'], ['b', 'd']]
    >>> todays("abc", 2, everything=True)
    ['a', 'b', 'c']
    """
    cases = list(cases)
    return cases if everything else cases[day % days :: days]
