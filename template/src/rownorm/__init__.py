# SPDX-License-Identifier: Apache-2.0
"""RMS norm of rows. Importing this needs neither a GPU nor Triton."""

from rownorm.ops import rms_norm

__all__ = ["rms_norm"]
