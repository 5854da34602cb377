# SPDX-License-Identifier: Apache-2.0
"""What the tests of the six families of peers' cases share: ``library/peers_attention.py`` and the others."""

import random
from types import ModuleType

import torch

from snippets.library import peers_run


def few_cases_are_right(family: ModuleType, peer: str, name: str):
    """Check the first and the last of the cases that our function has the options for, small."""
    operation, grids = family.PEERS[peer, name]
    known = peers_run.parameters(operation, getattr(family, "OURS", {}).get(operation))
    served = [case for case in peers_run.distinct(grids) if not peers_run.missing(known, case)]
    for case in (served[0], served[-1]):
        became = peers_run.outcome(operation, peers_run.small(case))
        assert became == "pass" or became.startswith("refused"), (became, case)


def sees_a_wrong_side(call, module: ModuleType, name: str, monkeypatch):
    """Check that a comparison agrees, and no longer once a function of one side returns 1% more."""
    right = getattr(module, name)

    def wrong(*given, **options):
        found = right(*given, **options)
        return tuple(1.01 * x for x in found) if isinstance(found, tuple) else 1.01 * found

    torch.manual_seed(0)
    random.seed(0)
    assert call()
    monkeypatch.setattr(module, name, wrong)
    torch.manual_seed(0)
    random.seed(0)
    assert not call()
