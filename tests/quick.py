# SPDX-License-Identifier: Apache-2.0
"""``pytest --quick``, which is ``make test``: leave out the tests that start processes, which take most of the time.

They are those that want a browser, the built site, a script as a reader runs it, a compiler, ``torch.compile``, the
coach or a replay. Each is skipped as soon as it starts one, so none needs a mark. A few, one of each kind, are marked
``shown`` and run all the same. Of Hypothesis's examples a third is tried. ``make test-all`` and ``pytest FILE`` leave
out nothing.
"""

import subprocess
import sys
from multiprocessing.process import BaseProcess

import pytest

EXAMPLES = 40  # that Hypothesis makes up for a test
FIXTURES = {"browser", "browser_path", "coach", "playwright", "site"}  # each starts processes once, for many tests
quick = False  # whether this run is one; `begin` says so


def begin(config) -> None:
    """Leave out what starts a process, if pytest has the option ``--quick``."""
    global quick
    if config.option.quick:
        quick = True
        config.pluginmanager.register(_LeaveOut())


class _LeaveOut:
    """A plugin of pytest: a test that starts a process is skipped there, unless it is marked ``shown``."""

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
