# SPDX-License-Identifier: Apache-2.0
"""Show the compiler's message about a launch that it refused."""

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording


@figure(of="stages", searched=True)  # by whoever has met it elsewhere
def error(recording: Recording, *, launch=None, target="sm_90"):
    message = recording.code(launch, target).error
    if not message:
        raise RecorderError(f"the launch compiles for {target}: there is no error to show")
    text = "\n".join(line for line in message.splitlines() if "--8<--" not in line)
    return render("output/template.html", text=text, error=True)
