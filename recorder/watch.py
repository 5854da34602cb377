# SPDX-License-Identifier: Apache-2.0
"""Run a command, and stop it when its parent process is gone: ``python -m recorder.watch PARENT COMMAND…``.

A recorder that is killed, or whose terminal closes, can stop nothing itself, and its snippet would run on. Exit with
the command's status, or with 128 plus the number of the signal that killed it, as a shell does.
"""

import os
import signal
import subprocess
import sys
import time


def main(parent: str, *command: str) -> int:
    process = subprocess.Popen(command)
    while process.poll() is None:
        if os.getppid() != int(parent):  # an orphan gets another parent
            os.killpg(0, signal.SIGKILL)
        time.sleep(0.1)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
