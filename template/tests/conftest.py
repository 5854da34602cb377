# SPDX-License-Identifier: Apache-2.0
"""Where the tests run: on a GPU if there is one, else in Triton's interpreter."""

# --8<-- [start:device]
import os

import pytest
import torch

# Triton reads this when a kernel is decorated, so it comes first.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture
def device():
    return "cpu" if INTERPRETED else "cuda"
# --8<-- [end:device]


def pytest_report_header():
    return "kernels: interpreted" if INTERPRETED else "kernels: compiled"
