# SPDX-License-Identifier: Apache-2.0
"""Quotients of decays are right until they overflow, and one sum for a whole text loses the decay of a step."""

import pytest
import torch

from snippets.models import state_bug as snippet
from snippets.models.state import in_torch


def test_a_quotient_is_right_while_it_is_a_number(device):
    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(64, 16, generator=random).to(device) for _ in range(3))
    log_decay = torch.full((64,), 0.9, device=device).log()
    wanted, _ = in_torch(*(x[None, None].double() for x in (q, k, v, log_decay)))
    assert torch.allclose(snippet.by_quotients(q, k, v, log_decay).double(), wanted[0, 0], rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
@pytest.mark.parametrize(
    ("dtype", "decay", "least", "most"),
    [(torch.float16, 0.95, 64, 64), (torch.float16, 0.8, 40, 52), (torch.float32, 0.8, 64, 64),
     (torch.float32, 0.2, 50, 58)],
)  # fmt: skip
def test_it_is_lost_where_the_inverse_is_beyond_all_numbers(device, dtype, decay, least, most):
    """Beyond 65,504, or 3.4e38: a product with a large key may get there a few steps before."""
    assert least <= snippet.first_lost(dtype, decay, device=device) <= most


def test_a_sum_of_many_has_no_digits_for_one():
    log_decay = torch.full((1_000_000,), 0.5).log()
    early, late = (snippet.one_sum_bug(log_decay, step).item() for step in (10, 999_999))
    assert early == pytest.approx(0.5, rel=1e-5) and abs(late - 0.5) > 0.001
