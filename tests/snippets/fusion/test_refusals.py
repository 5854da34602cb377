# SPDX-License-Identifier: Apache-2.0
"""What the functions of this chapter take for a number, and that a refusal names the argument and the way out."""

import numpy as np
import pytest
import torch

from snippets.fusion.decoding import decode_attention
from snippets.fusion.dropout import add_dropout, dropout
from snippets.fusion.histogram import histogram
from snippets.fusion.swiglu import geglu, swiglu


def ones(device, *shape, dtype=torch.float32):
    return torch.ones(shape, device=device, dtype=dtype)


def heads(device):
    return [ones(device, 1, 2, 3, 16)] * 3


CALLS = {  # of a number: the function, the argument, and a value that is served
    "decode_attention, scale": (lambda d, n: decode_attention(*heads(d), scale=n), 0.5),
    "decode_attention, splits": (lambda d, n: decode_attention(*heads(d), splits=n), 2),
    "dropout, p": (lambda d, n: dropout(ones(d, 50), n, seed=3), 0.25),
    "add_dropout, p": (lambda d, n: add_dropout(ones(d, 50), ones(d, 50), n, seed=3), 0.25),
    "histogram, bins": (lambda d, n: histogram(ones(d, 30, dtype=torch.int64), n), 7),
}
MAY_BE_NONE = {"scale", "splits"}
ONLY_NUMBERS = {"dropout, p", "add_dropout, p"}  # and no arrays or tensors of one


calls = pytest.mark.parametrize("name", CALLS)


@calls
def test_numbers_of_numpy_and_tensors_on_the_cpu_are_served(device, name):
    call, number = CALLS[name]
    numpy = np.int32(number) if isinstance(number, int) else np.float32(number)
    wanted = call(device, number)
    for same in (numpy, *([] if name in ONLY_NUMBERS else [np.array(numpy), torch.tensor(number)])):
        assert torch.equal(call(device, same), wanted)


@calls
def test_what_is_no_number_is_refused_by_name(device, name):
    call, number = CALLS[name]
    argument = name.split(", ")[1]
    wrong = ["3", torch.ones(2), [number], *([] if argument in MAY_BE_NONE else [None])]
    wrong += [np.array(number), torch.tensor(number)] if name in ONLY_NUMBERS else []
    wrong += [number + 0.5] if isinstance(number, int) else []
    wrong += [torch.tensor(number, device=device)] if device == "cuda" else []  # the host would wait for the GPU
    kind = "number of Python or NumPy" if name in ONLY_NUMBERS else "(whole )?number, not on a GPU"
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{argument} must be a {kind}; got "):
            call(device, value)


@pytest.mark.parametrize("function", [dropout, lambda x, seed: add_dropout(x, x, seed=seed)], ids=["alone", "with sum"])
def test_seeds_of_dropout(device, function):
    x = ones(device, 70)
    for seed in (-(2**63), 2**63 - 1, np.uint64(7), torch.tensor(7, device=device)):
        function(x, seed=seed)
    for seed in (0.25, -1.0, "7", [7]):
        with pytest.raises(ValueError, match=r"^seed must be a whole number"):
            function(x, seed=seed)
    for seed in (2**63, -(2**63) - 1, np.uint64(2**64 - 1)):
        with pytest.raises(ValueError, match=r"^seed must be from -2"):
            function(x, seed=seed)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: swiglu(x.to_sparse()), "gate is torch.sparse_coo; pass gate.to_dense()"),
        (lambda x: geglu(x.to_sparse_csr()), "gate is torch.sparse_csr; pass gate.to_dense()"),
    ],
)
def test_a_refusal_says_what_to_pass(device, call, message):
    with pytest.raises(ValueError) as error:
        call(ones(device, 6, 10))
    assert message in str(error.value)
