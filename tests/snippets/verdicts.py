# SPDX-License-Identifier: Apache-2.0
"""What recordings say of the features of a section of ``interpreter_and_gpu``, and whether it is so here."""

import pytest
import triton

from recorder import printed, recording
from recorder.project import Snippet
from snippets.tools import interpreter_and_gpu as table


class Recorded:
    """The verdicts on a section's features, by the names of their functions."""

    def __init__(self, section: str, deadly: tuple[str, ...] = ()):
        self.section, self.snippet = section, Snippet(f"tools/interpreter_and_gpu_{section}")
        self.names = [name for name, row in table.FEATURES.items() if row.section == section]
        self.survivable = [name for name in self.names if name not in deadly]  # the others end the process
        self.on_cpu = [self.said(device) for device in recording.devices(self.snippet) if device.startswith("cpu")]
        self.right_everywhere = [name for name in self.names if all(found[name] == "right" for found in self.on_cpu)]

    def said(self, device: str) -> dict[str, str]:
        rows = printed.verdicts(recording.load(self.snippet, device).output)[table.SECTIONS[self.section]]
        return {name: rows[table.FEATURES[name].title]["ran"] for name in self.names}

    def expected(self, name: str) -> str:
        """The verdict in this interpreter; skips what was recorded with another Triton and differs between them."""
        return "right" if name in self.right_everywhere else self._of_this_triton("cpu")[name]

    def _of_this_triton(self, device: str) -> dict[str, str]:
        version = recording.load(self.snippet, device).provenance.triton
        if version != triton.__version__:
            pytest.skip(f"recorded with Triton {version}")
        return self.said(device)

    def check_gpu(self, file: str) -> None:
        """Assert that a GPU agrees with its recording in kind: right, differs, error, …"""
        expected, found = self._of_this_triton("h200"), table.run(file, self.names)
        kind = lambda verdict: verdict.partition(":")[0].partition(" ")[0]
        assert {name: kind(found[name]) for name in self.names} == {name: kind(expected[name]) for name in self.names}
