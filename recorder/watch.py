# SPDX-License-Identifier: Apache-2.0
"""``python -m recorder.watch PARENT COMMAND…``: run a command, and stop it when the process PARENT is gone.

A recorder that is killed, or whose terminal hangs up, can stop nothing; without this its snippet would run on.
Exits with the command's status, or with 128 and the number of the signal that killed it, as a shell does.
"""

import os
import signal
import subprocess
import sys
import time


def main(parent: str, *command: str) -> int:
    process = subprocess.Popen(command)
    while process.poll() is None:
        if os.getppid() != int(parent):  # whoever is left without a parent gets another
            os.killpg(0, signal.SIGKILL)
        time.sleep(0.1)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
