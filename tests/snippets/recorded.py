# SPDX-License-Identifier: Apache-2.0
"""What a script prints, without running it once more: its recording, which ``tests/test_replay.py`` compares."""

from types import ModuleType

from recorder import recording
from recorder.project import find


def recorded_output(module: ModuleType) -> str:
    """Return what a snippet printed when it was recorded without a GPU. Refuse what a replay does not compare."""
    snippet = find(module.__name__.removeprefix("snippets.").replace(".", "/"))
    settings = snippet.settings
    assert settings.replay and not settings.differs, f"no replay compares what {snippet.name} prints: run it"
    return recording.load(snippet, "cpu").output
