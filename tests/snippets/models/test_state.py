# SPDX-License-Identifier: Apache-2.0
"""The scan in chunks gives what float64 gives step by step, results and gradients, whatever the decays and strides."""

import contextlib

import pytest
import torch
from compiled import SHARED, compiled
from guards import Guarded, check_each_once, check_inside, handed_out, made_among_nans, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from state_inputs import DECAYS, LAYOUTS, inputs

from snippets.models import state as module
from snippets.models.state import in_torch, state_scan

# A sum of large log decays has few digits left for the small ones that follow.
EXACT = {"some": 1e-5, "one": 1e-5, "strong": 1e-4, "none is left": 1e-4}
NAMES = "result", "last state", "q", "k", "v", "log_decay", "initial"


def run(function, given, of):
    """Return results and gradients of leaves that lie in memory as what is given does."""
    leaves = [x.detach().requires_grad_() for x in given]
    found = function(*leaves)
    return [x.detach() for x in found] + list(torch.autograd.grad(found, leaves, of, allow_unused=True))


def check(given, tolerance, scan=state_scan):
    """Compare with float64, step by step; an error counts beside the largest number of a tensor."""
    random = torch.Generator().manual_seed(9)
    shapes = given[2].shape, (*given[1].shape[:2], given[1].shape[3], given[2].shape[3])
    of = [torch.randn(shape, generator=random).to(given[0].device) for shape in shapes]
    # An incoming gradient whose steps lie before the heads, as behind a transpose.
    of[0] = of[0].to(given[0].dtype).transpose(1, 2).contiguous().transpose(1, 2)
    found = run(scan, given, of)
    wide = [torch.nan_to_num(x.double(), neginf=-1e4) for x in given]
    wanted = run(in_torch, wide, [x.double() for x in of])
    for name, a, b in zip(NAMES, found, wanted, strict=True):
        b = torch.zeros_like(a) if b is None else b
        assert a.shape == b.shape, name
        assert a.dtype == (torch.float32 if name in ("last state", "log_decay", "initial") else given[0].dtype), name
        if a.numel():
            error = (a.double() - b).abs().max().item()
            assert error <= tolerance * max(b.abs().max().item(), 0.1), (name, error, b.abs().max().item())


@settings(max_examples=25)
@given(
    batch=st.integers(1, 2),
    heads=st.integers(1, 3),
    steps=st.integers(1, 40),
    keys=st.integers(1, 20),
    values=st.integers(1, 40),
    decay=st.sampled_from(list(DECAYS)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    chunk=st.sampled_from([4, 16]),
)
@example(1, 2, 1, 3, 5, "some", ("contiguous",) * 3, 16)
@example(2, 1, 32, 16, 33, "one", ("columns",) * 3, 16)
@example(1, 1, 33, 17, 16, "none is left", ("steps before heads",) * 3, 16)
@example(1, 3, 7, 4, 4, "strong", ("one head for all", "flipped sign", "wider"), 4)
def test_as_step_by_step(batch, heads, steps, keys, values, decay, layouts, chunk):
    given = inputs(batch, heads, steps, keys, values, decay)
    for i, layout in enumerate(layouts):
        given[i] = LAYOUTS[layout](given[i])
    with pytest.MonkeyPatch.context() as patch, made_among_nans():
        patch.setattr(module, "CHUNK", chunk)
        check(given, EXACT[decay])


def test_a_chunk_of_64_and_float16():
    check(inputs(1, 2, 150, 16, 16), 1e-5)
    check(inputs(1, 2, 70, 32, 16, dtype=torch.float16), 5e-3)


def test_log_decays_of_any_strides(device):
    given = inputs(2, 3, 37, 16, 16, device=device)
    given[3] = given[3].permute(2, 0, 1).contiguous().permute(1, 2, 0)
    given[4] = given[4].mT.contiguous().mT
    check(given, 1e-5)


def test_it_goes_on_where_it_stopped(device):
    """Two halves, the state handed over, are the whole, also for the gradients."""
    given = inputs(1, 2, 100, 16, 16, device=device)

    def halves(q, k, v, log_decay, initial):
        first, state = state_scan(q[:, :, :37], k[:, :, :37], v[:, :, :37], log_decay[:, :, :37], initial)
        second, state = state_scan(q[:, :, 37:], k[:, :, 37:], v[:, :, 37:], log_decay[:, :, 37:], state)
        return torch.cat([first, second], 2), state

    check(given, 1e-5, halves)


def test_nothing_to_do(device):
    q, k, v, log_decay, initial = inputs(2, 3, 0, 8, 24, device=device)
    leaf = initial.clone().requires_grad_()
    y, state = state_scan(q, k, v, log_decay, leaf)
    assert y.shape == (2, 3, 0, 24) and torch.equal(state, initial)
    (of,) = torch.autograd.grad(state.sum(), leaf)
    assert torch.equal(of, torch.ones_like(initial))
    assert not state_scan(q, k, v, log_decay)[1].any()
    for batch, heads in ((0, 3), (2, 0)):
        empty = [x.requires_grad_() for x in inputs(batch, heads, 5, 8, 24, device=device)]
        y, state = state_scan(*empty)
        assert y.shape == (batch, heads, 5, 24) and state.shape == (batch, heads, 8, 24)
        (y.sum() + state.sum()).backward()
        assert empty[0].grad.shape == (batch, heads, 5, 8)


def test_gradients_of_one_result_alone(device):
    """Neither the results nor the last state need be used."""
    given = inputs(1, 1, 20, 16, 16, device=device)
    for i in range(2):
        leaves = [x.clone().requires_grad_() for x in given]
        wide = [x.double().requires_grad_() for x in given]
        state_scan(*leaves)[i].sum().backward()
        in_torch(*wide)[i].sum().backward()
        for name, a, b in zip(NAMES[2:], leaves, wide, strict=True):
            wanted = torch.zeros_like(b) if b.grad is None else b.grad
            assert torch.allclose(a.grad.double(), wanted, atol=1e-4, rtol=1e-4), name


def test_nothing_else_is_touched(device, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    options = {"before": 64, "after": 64, "fill": 0xFF}
    given = inputs(2, 1, 19, 5, 9, device=device)
    guarded = [Guarded(x.shape, x.dtype, device, **options) for x in given]
    for buffer, x in zip(guarded, given, strict=True):
        buffer.tensor.copy_(x)
    makes = {
        "states": (2, 1, 2, 5, 9), "final": (2, 1, 5, 9), "y": (2, 1, 19, 9),
        "of states": (2, 1, 2, 5, 9), "of initial": (2, 1, 5, 9),
        "of q": (2, 1, 19, 5), "of k": (2, 1, 19, 5), "of v": (2, 1, 19, 9), "of decay": (2, 1, 19),
    }  # fmt: skip
    new = {name: Guarded(shape, torch.float32, device, **options) for name, shape in makes.items()}
    leaves = [buffer.tensor.requires_grad_() for buffer in guarded]
    grad = Guarded((2, 1, 19, 9), torch.float32, device, **options)
    grad.tensor.fill_(1.0)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", *(buffer.tensor for buffer in new.values())), seen as accesses:
        y, _ = state_scan(*leaves)
        torch.autograd.grad(y, leaves, grad.tensor)
    for buffer in (*guarded, *new.values(), grad):
        buffer.check("a tensor")
        assert not buffer.tensor.isnan().any()
    if device == "cpu":
        named = {name.replace(" ", "_"): buffer.tensor.detach() for name, buffer in new.items()}
        check_each_once(accesses, "store", **named)
        all_read = {f"given{i}": buffer.tensor.detach() for i, buffer in enumerate(guarded)}
        check_inside(accesses, "load", **all_read, **named, grad=grad.tensor)


@pytest.mark.parametrize("kernel", ["states", "outputs", "gradients"])
def test_far_elements(kernel):
    """Offsets pass 32 bits, though no stride does: where the last chunk of row 5 lies."""
    x, steps, far = torch.zeros(64), 40, 2**30
    strides = (far, far, 16)
    tail = (1, steps, 16, 16)
    options = {"CHUNK": 16, "KEYS": 16, "BLOCK_V": 16}
    program = 5 if kernel == "states" else 5 * 3 + 2
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as accesses:
        if kernel == "states":
            module.states_kernel[(1,)](
                x, x, x, None, x, x, strides, strides, (far, far, 1), *tail, REVERSE=False, **options
            )
        else:
            programs = {"outputs": module.outputs_kernel, "gradients": module.gradients_kernel}
            tensors, more = (6, []) if kernel == "outputs" else (11, [strides])
            programs[kernel][(1,)](*[x] * tensors, *[strides] * 3, (far, far, 1), *more, *tail, **options)
    reached = [(found.max().item() - x.data_ptr()) // 4 for op, found in accesses if op == "load" and found.size]
    assert max(reached) >= 5 * far


@pytest.mark.parametrize("kernel", ["outputs", "gradients"])
def test_far_steps(kernel):
    """The same within one long text: the last of its 2**28 steps, each 16 elements behind the one before."""
    x, steps, strides = torch.zeros(64), 2**28, (0, 0, 16)
    named = {"outputs": (module.outputs_kernel, 6, []), "gradients": (module.gradients_kernel, 11, [strides])}
    program, tensors, more = named[kernel]
    with recorded_accesses(first_program=(2**24 - 1, 0, 0), memory=False) as accesses:
        program[(1,)](
            *[x] * tensors, *[strides] * 3, (0, 0, 1), *more, 1, steps, 16, 16, CHUNK=16, KEYS=16, BLOCK_V=16
        )  # fmt: skip
    tiles = [found for _, found in accesses if found.size == 256]
    assert tiles and {(found.max().item() - x.data_ptr()) // 4 for found in tiles} == {2**32 - 1}


def test_the_same_bits_and_a_custom_gradient(device):
    given = inputs(2, 2, 90, 16, 32, device=device)
    of = [torch.ones(2, 2, 90, 32, device=device), torch.ones(2, 2, 16, 32, device=device)]
    for a, b in zip(run(state_scan, given, of), run(state_scan, given, of), strict=True):
        assert torch.equal(a, b)


def test_under_torch_compile(device):
    given = inputs(1, 2, 20, 16, 16, device=device)
    scan = torch.compile(lambda q, *rest: state_scan(q + 1, *rest)[0] * 2, backend="eager")
    assert torch.equal(scan(*given), state_scan(given[0] + 1, *given[1:])[0] * 2)


def test_refuses_bfloat16_in_the_interpreter(device):
    if device == "cpu":
        q, k, v, log_decay, _ = inputs(1, 1, 3, 4, 4, dtype=torch.bfloat16)
        with pytest.raises(ValueError, match="interpreter multiplies bfloat16 wrongly"):
            state_scan(q, k, v, log_decay)


def test_few_heads_are_walked_by_more_programs():
    """Each takes fewer columns of a state."""
    widths = {rows: module.plan("states", torch.bfloat16, 128, 128, rows=rows)["BLOCK_V"] for rows in (32, 64, 256)}
    assert widths == {32: 32, 64: 64, 256: 64}


CODE = """
for keys, values in ((128, 128), (128, 64), (64, 64)):
    q, v = torch.empty(2, 3, 320, keys).bfloat16().requires_grad_(), torch.empty(2, 3, 320, values).bfloat16()
    module.state_scan(q, q.detach(), v, torch.empty(2, 3, 320))[0].sum().backward()
"""


def test_compiles_to_wide_loads_and_matrix_units():
    """For an H200, without one."""
    launches = compiled("models/state", CODE)
    assert [each.kernel for each in launches[:4]] == [
        "states_kernel", "outputs_kernel", "states_kernel", "gradients_kernel"
    ]  # fmt: skip
    for each in launches:
        assert each.shared <= SHARED and "HGMMA" in each.sass
        assert each.widest("LDG", "LDGSTS") == 128
        assert each.spills <= (64 if each.kernel == "gradients_kernel" else 0)


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize(
    "shape", [(2, 3, 150, 128, 128), (2, 80, 66, 128, 128), (1, 2, 129, 128, 64), (1, 1, 1, 40, 100)]
)
def test_right_gpu(shape, dtype, tolerance):
    for decay in DECAYS if dtype == torch.float32 else ("some", "none is left"):
        check(inputs(*shape, decay, "cuda", dtype), max(tolerance, 10 * EXACT[decay]))
    given = inputs(*shape, "some", "cuda", dtype)
    for i, layout in enumerate(("steps before heads", "one head for all", "columns")):
        given[i] = LAYOUTS[layout](given[i])
    check(given, tolerance)


@pytest.mark.gpu
def test_a_long_text_gpu():
    """Errors don't grow with the text: 4,000 steps that keep nearly all."""
    given = inputs(1, 2, 4000, 64, 64, "some", "cuda", torch.bfloat16)
    given[3] = given[3] / 100
    check(given, 3e-2)


@pytest.mark.gpu
def test_in_a_graph_without_a_wait_gpu():
    given = inputs(2, 4, 300, 64, 64, device="cuda", dtype=torch.bfloat16)
    of = [torch.ones(2, 4, 300, 64, device="cuda").bfloat16(), torch.ones(2, 4, 64, 64, device="cuda")]
    expected = run(state_scan, given, of)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(state_scan, given, of)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = run(state_scan, given, of)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(torch.equal, expected, replayed))


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    """The last head of many: its numbers lie behind 2**31 others, in q, k, v, and the result."""
    steps, heads = 2**18 + 5, 65
    small = inputs(1, 1, steps, 128, 128, device="cuda", dtype=torch.bfloat16)
    large = [torch.zeros(1, heads, *x.shape[2:], dtype=x.dtype, device="cuda") for x in small]
    for x, of in zip(large, small, strict=True):
        x[:, -1] = of[:, 0]
    assert large[0].numel() > 2**31
    y, state = state_scan(*large)
    wanted, last = state_scan(*small)
    for found, alone in ((y, wanted), (state, last)):  # which may have other tiles
        assert torch.allclose(found[:, -1], alone[:, 0], rtol=1e-2, atol=1e-2 * alone.abs().max().item())
    assert not y[:, :-1].any()
