# SPDX-License-Identifier: Apache-2.0
"""In Gluon, too, the shares of each row are torch's; it has no interpreter."""

import pytest
import torch

pytest.importorskip("triton.experimental.gluon", exc_type=ImportError, reason="this Triton has no Gluon")


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 2048), (3, 4000), (2, 4096)])
def test_shares_are_those_of_torch(rows, columns):
    from snippets.reference.softmax_gluon import softmax

    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close(softmax(x), x.softmax(1))
