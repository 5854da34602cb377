# SPDX-License-Identifier: Apache-2.0
"""What readers download to practice, see README.md. The site imports it as a package, its own files do not."""
