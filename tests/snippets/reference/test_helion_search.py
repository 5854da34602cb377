# SPDX-License-Identifier: Apache-2.0
"""Without a GPU a search says so."""

import pytest
import torch

from snippets.reference import helion_search as snippet


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(SystemExit, match="no GPU found"):
        snippet.main()
