# SPDX-License-Identifier: Apache-2.0
"""``pytest --quick``, which is ``make test``: leave out the tests that start processes, which take most of the time.

They are those that want a browser, the built site, a script as a reader runs it, a compiler, ``torch.compile``, the
coach or a replay. Each is skipped as soon as it starts one, so none needs a mark. A few, one of each kind, are marked
``shown`` and run all the same. Of a test with many cases, a dozen are drawn, the same ones each time, and of
Hypothesis's examples a third is tried. ``make test-all`` and ``pytest FILE`` leave out nothing.
"""

import collections
import random
import subprocess
import sys
from multiprocessing.process import BaseProcess

import pytest

EXAMPLES = 40  # that Hypothesis makes up for a test
CASES = 12  # of one parametrized test
FIXTURES = {"browser", "browser_path", "coach", "playwright", "site"}  # each starts processes once, for many tests
quick = False  # whether this run is one; `begin` says so


def begin(config) -> None:
    """Leave out what starts a process, if pytest has the option ``--quick``."""
    global quick
    if config.option.quick:
        quick = True
        config.pluginmanager.register(_LeaveOut())


class _LeaveOut:
    """A plugin of pytest that skips a test as it starts a process, unless it is ``shown``, and most of many cases."""

    def __init__(self):
        self.skips = False  # outside of tests: workers of pytest-xdist are processes, too
        for of, name in ((subprocess.Popen, "__init__"), (BaseProcess, "start")):
            setattr(of, name, self._unless_it_skips(getattr(of, name)))

    def _unless_it_skips(self, start):
        def start_or_skip(*arguments, **options):
            self._skip()
            return start(*arguments, **options)

        return start_or_skip

    def _skip(self) -> None:
        if self.skips:
            pytest.skip("it starts a process or torch.compile; make test-all runs it")

    def pytest_collection_modifyitems(self, config, items):
        cases = collections.defaultdict(list)
        for item in items:
            if hasattr(item, "callspec"):
                cases[item.nodeid.partition("[")[0]].append(item)
        # Drawn, not every tenth: a step of the size of one parameter would always meet the same value of it.
        left_out = {
            item
            for name, all_cases in cases.items()
            if len(all_cases) > CASES
            for item in random.Random(name).sample(all_cases, len(all_cases) - CASES)
        }
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]

    def pytest_collection_finish(self):
        if torch := sys.modules.get("torch"):
            torch.compile = self._unless_it_skips(torch.compile)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.skips = item.get_closest_marker("shown") is None
        try:
            return (yield)
        finally:
            self.skips = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if FIXTURES & {*getattr(item, "fixturenames", ())}:
            self._skip()
