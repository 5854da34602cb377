# SPDX-License-Identifier: Apache-2.0
"""The coach's process for a reader's code, as tests start it: without work of the interpreter that changes nothing, and
with what a gradient imports. As readers have it, it runs in ``test_commands``.
"""

import os
from pathlib import Path

if __name__ == "__main__":
    import torch.fx.experimental.symbolic_shapes  # noqa: F401
    from coach import child
    from coach.exercise import load

    if os.environ.get("TRITON_INTERPRET"):
        load(Path(__file__).parents[1] / "interpreter.py", "interpreter").spare_work()
    child.main()
