# SPDX-License-Identifier: Apache-2.0
"""The block in our kernels against the same in torch's operations: results and the gradients of all weights."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import block as snippet
from snippets.fusion.block import OURS, TORCH, Block, Model, both_ways, largest_difference, repeated, train
from snippets.library.rope import rope_tables
from tests.processes import run_script

SOURCE = Path(snippet.__file__)


def compared(device, dtype, batch, tokens, dim, heads, kv_heads, hidden, residual=True):
    x, more = torch.randn(2, batch, tokens, dim, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    tables = rope_tables(tokens, dim // heads, device=device)
    make = lambda ops: Block(dim, heads, kv_heads, hidden, ops=ops, device=device)
    return both_ways(make, lambda block: block(x, more if residual else None, *tables))


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (4, 2), (2, 1)])
def test_as_torch(device, heads, kv_heads, residual):
    found, wanted = compared(device, torch.float32, 2, 7, 16 * heads, heads, kv_heads, 24, residual)
    assert len(found) == len(wanted) == 8
    assert largest_difference(found, wanted) < 1e-4


def test_a_wrong_operation_shows(device):
    """Each of the operations counts: with another norm, no norm's gradient is what it was."""
    x = torch.randn(1, 5, 32, generator=torch.Generator().manual_seed(1)).to(device)
    tables = rope_tables(5, 16, device=device)
    made = {}
    for name, ops in {
        "torch": TORCH,
        "ours": OURS,
        "norm": OURS._replace(add_norm=lambda x, residual, weight: (x * weight, x + residual)),
        "rope": OURS._replace(rope=lambda q, k, cos, sin: (q, k)),
        "attention": OURS._replace(attention=lambda q, k, v: v),
        "swiglu": OURS._replace(swiglu=lambda x: x.chunk(2, dim=-1)[1]),
    }.items():
        torch.manual_seed(0)
        made[name] = Block(32, 2, 2, 24, ops=ops, device=device)(x, x, *tables)
    off = {name: largest_difference(made[name], made["torch"]) for name in made}
    assert [name for name in off if off[name] < 1e-4] == ["torch", "ours"]


def test_weights_are_rounded_to_the_dtype_of_x(device):
    x = torch.randn(1, 3, 32, device=device, dtype=torch.float16)
    out, residual = Block(32, 2, 2, 24, device=device)(x, x, *rope_tables(3, 16, device=device))
    assert out.dtype == residual.dtype == torch.float16


def test_sequences_say_everything_twice():
    found = repeated(3, 8, 5, torch.Generator().manual_seed(0))
    assert found.shape == (3, 9) and found.max() < 5
    assert torch.equal(found[:, :4], found[:, 4:8]) and torch.equal(found[:, 0], found[:, 8])


def test_the_loss_is_of_the_second_half(device):
    """A model whose last hidden state were the embedding would be asked for tokens 5 to 8 after seeing 4 to 7."""
    asked = []
    ops = TORCH._replace(loss=lambda hidden, weight, target: asked.append((hidden.shape, target)) or hidden.sum())
    model = Model(8, 5, 32, heads=2, blocks=1, ops=ops, dtype=torch.float32, device=device)
    sequences = repeated(3, 8, 5, torch.Generator().manual_seed(0)).to(device)
    model(sequences)
    assert asked[0][0] == (12, 32)
    assert torch.equal(asked[0][1].view(3, 4), sequences[:, 5:])


def test_training_goes_the_same_way(device):
    losses = []
    for ops in (OURS, TORCH):
        torch.manual_seed(0)
        model = Model(8, 4, 32, heads=2, blocks=1, ops=ops, dtype=torch.float32, device=device)
        losses.append(train(model, 3, batch=2, tokens=8, vocabulary=4))
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert len(set(losses[0])) == 3


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["## a block", "results and gradients: 8", "as torch: True", "## two steps of a model"]
    ours, torchs = ([float(loss) for loss in line.split(": ")[1].split()] for line in lines[4:])
    assert ours == pytest.approx(torchs, abs=2e-4)
    if device == "cpu":  # a GPU draws other numbers
        assert ours == torchs == [2.6498, 2.3625]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 1000, 1024, 8, 2, 2816), (1, 4096, 2048, 16, 16, 5504)], ids=str)
def test_real_sizes_in_bfloat16(shape):
    found, wanted = compared("cuda", torch.bfloat16, *shape)
    assert largest_difference([each.float() for each in found], [each.float() for each in wanted]) < 0.05


@pytest.mark.gpu
def test_under_torch_compile():
    torch.compiler.reset()
    torch.manual_seed(0)
    block = Block(256, 4, 2, 512, device="cuda")
    x = torch.randn(2, 64, 256, device="cuda", dtype=torch.bfloat16)
    tables = rope_tables(64, 64, device="cuda")
    grads = []
    for function in (torch.compile(block, fullgraph=True), block):
        loss = sum(each.float().square().mean() for each in function(x, x, *tables))
        grads.append(torch.autograd.grad(loss, list(block.parameters())))
    assert largest_difference(*grads) < 0.02
