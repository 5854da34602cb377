# SPDX-License-Identifier: Apache-2.0
"""The rotary embedding to copy: torch's numbers in float64, with every option and any shape, dtype and strides."""

import functools
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from covering import covering
from guards import check_inside, recorded_accesses, without_memory
from hypothesis import given
from hypothesis import strategies as st
from prepared import keep_launches, refuse_launches

from snippets.library import rope as snippet
from snippets.library.rope import in_torch, rope, rope_tables

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: NaN to another dtype

HALF, LENGTH = 5, 20  # of the tables that options below are given
LAYOUTS = {  # of (batch, tokens, heads, head_dim)
    "contiguous": lambda t: t.clone(),
    "heads first": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "slice of all heads": lambda t: torch.cat([t, t, t], dim=2)[:, :, t.shape[2] : 2 * t.shape[2]],
    "one more": lambda t: torch.cat([t, t[..., :1]], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:, :, :1].clone().expand(t.shape),
}


def numbers(*shape, dtype=torch.float64, device="cpu", seed=0):
    """Return random numbers with NaN before and behind them, so that what is read beyond its ends shows."""
    random = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)
    nans = drawn.new_full((16,), torch.nan)
    return torch.cat([nans, drawn.flatten(), nans])[16:-16].view(shape)


def tables(*leading, half=HALF, length=LENGTH, dtype=torch.float64, device="cpu"):
    """Return any numbers: tables need be no cosines, and may be scaled."""
    return {name: numbers(*leading, length, half, dtype=dtype, device=device, seed=i) for i, name in enumerate(SIDES)}


def whole(*shape, device, dtype=torch.int64, least=0):
    return torch.randint(least, LENGTH, shape, generator=torch.Generator().manual_seed(3)).to(device, dtype)


def twice(given, how):
    repeat = (lambda t: t.repeat(*[1] * (t.ndim - 1), 2)) if how == "halves" else (lambda t: t.repeat_interleave(2, -1))
    return {name: repeat(table) for name, table in given.items()} | {"repeated": how}


SIDES = ("cos", "sin")
# What a model may ask for; each gets batch, tokens and device
OPTIONS = {
    "tables": lambda b, t, d: tables(device=d),
    "tables in float32": lambda b, t, d: tables(device=d, dtype=torch.float32),
    "tables that lie unlike": lambda b, t, d: {
        "cos": tables(device=d)["cos"], "sin": tables(device=d, half=HALF + 1)["sin"][:, :HALF]
    },
    "a table for each sequence": lambda b, t, d: tables(b, device=d),
    "as transformers": lambda b, t, d: twice(tables(b, length=t, device=d), "halves"),
    "one for all sequences": lambda b, t, d: twice(tables(1, length=t, device=d), "halves"),
    "each twice, side by side": lambda b, t, d: twice(tables(b, length=t, device=d), "neighbors"),
    "offset": lambda b, t, d: {"offset": 7, **tables(device=d)},
    "offset of NumPy": lambda b, t, d: {"offset": np.int32(7), **tables(device=d)},
    "offset in a tensor": lambda b, t, d: {"offset": torch.tensor(5, device=d), **tables(device=d)},
    "offsets": lambda b, t, d: {"offset": whole(b, device=d) % 9, **tables(device=d)},
    "positions": lambda b, t, d: {"positions": whole(t, device=d), **tables(device=d)},
    "positions of each": lambda b, t, d: {"positions": whole(b, t, device=d, dtype=torch.int32), **tables(device=d)},
    "positions and an offset": lambda b, t, d: {
        "positions": whole(t, device=d, dtype=torch.uint8) % 9, "offset": 7, **tables(device=d)
    },
    "positions with gaps": lambda b, t, d: {"positions": whole(b, 2 * t, device=d)[:, ::2], **tables(device=d)},
    "positions and offsets": lambda b, t, d: {
        "positions": whole(b, t, device=d, dtype=torch.int16) % 9, "offset": whole(b, device=d) % 9, **tables(device=d),
    },
    "positions, tables of each": lambda b, t, d: {"positions": whole(b, t, device=d), **tables(b, device=d)},
    "sections": lambda b, t, d: {"positions": whole(3, b, t, device=d), "sections": [2, 1, 2], **tables(device=d)},
    "sections of all": lambda b, t, d: {"positions": whole(2, t, device=d), "sections": [0, 5], **tables(device=d)},
    "sections of tables": lambda b, t, d: {"sections": (2, 1, 2), **twice(tables(3, b, length=t, device=d), "halves")},
    "in turns": lambda b, t, d: {
        "positions": whole(3, b, t, device=d), "sections": [3, 1, 1], "in_turns": True, **tables(device=d)
    },
    "inverse": lambda b, t, d: {"inverse": True, **tables(device=d)},
}  # fmt: skip


def results(function, inputs, grads, **options):
    """Return results and gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    given = leaves if len(leaves) == 2 else [*leaves, None]
    outs = function(*given, **options)
    outs = outs if isinstance(outs, tuple) else (outs,)
    return [x.detach() for x in outs] + list(torch.autograd.grad(outs, leaves, grads))


def in_place(q, k, **options):
    """Write over copies that lie in memory as what they are copied from does."""
    copies = [None if x is None else LAYOUTS["one more"](x) for x in (q, k)]
    outs = rope(*copies, in_place=True, **options)
    assert all(a is b or a.data_ptr() == b.data_ptr() for a, b in zip(outs, copies, strict=True)) or k is None
    return outs


def check(inputs, grads, functions=(rope, in_place), **options):
    """Compare with torch in float64: a pair is off by a few eps of its length, and the store rounds."""
    wide = {name: x.double() if name in SIDES else x for name, x in options.items()}
    exact = results(in_torch, [x.double() for x in inputs], [x.double() for x in grads], **wide)
    for function in functions:
        found = results(function, inputs, grads, **options)
        for actual, expected, x in zip(found, exact, [*inputs, *grads], strict=True):
            assert (actual.shape, actual.dtype) == (expected.shape, x.dtype)
            eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
            size = x.double().abs()
            size = 8 * (size.amax(dim=-1, keepdim=True) if size.numel() else size)
            allowed = 4 * eps * size + torch.finfo(x.dtype).eps * expected.abs() + torch.finfo(x.dtype).tiny
            wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
            assert not wrong.any(), f"{function}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@covering(option=OPTIONS, size=[(2 * HALF, False), (2 * HALF + 3, True)], interleaved=[False, True])
def test_every_option_gives_torchs_numbers(device, option, size, interleaved):
    head_dim, heads_first = size
    shapes = [(2, heads, 7, head_dim) if heads_first else (2, 7, heads, head_dim) for heads in (3, 2)] * 2
    q, k, *grads = (numbers(*shape, device=device, seed=i) for i, shape in enumerate(shapes))
    options = {**OPTIONS[option](2, 7, device), "interleaved": interleaved, "heads_first": heads_first}
    check([q, k], grads, **options)
    check([q], grads[:1], functions=[rope], **options)


@given(
    st.tuples(*(st.integers(0, most) for most in (3, 9, 5, 3))), st.integers(1, 20), st.integers(0, 9),
    st.lists(st.sampled_from(sorted(LAYOUTS)), min_size=4, max_size=4), st.booleans(), st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]), st.sampled_from([torch.float16, torch.float32]),
)  # fmt: skip
def test_any_shape_layout_and_dtype(device, shape, half, rest, layouts, interleaved, packed, dtype, of_table):
    batch, tokens, *heads = shape
    shapes = [(batch, tokens, each, 2 * half + rest) for each in heads] * 2
    drawn = [numbers(*each, dtype=dtype, device=device, seed=i) for i, each in enumerate(shapes)]
    q, k, *grads = (LAYOUTS[layout](each) for each, layout in zip(drawn, layouts, strict=True))
    if packed and batch:
        q, k, *grads = (each[0] for each in (q, k, *grads))
    given = tables(half=half, dtype=of_table, device=device)
    check([q, k], grads, functions=[rope], interleaved=interleaved, **given)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize(
    ("shape", "rest"), [((2, 2048, 24, 8, 128), 0), ((1, 1000, 20, 5, 120), 64), ((3, 517, 3, 1, 64), 7)], ids=str
)
def test_real_sizes(shape, dtype, rest):
    batch, tokens, *heads, width = shape
    inputs, grads = (
        [numbers(batch, tokens, each, width + rest, dtype=dtype, device="cuda", seed=seed + each) for each in heads]
        for seed in (0, 99)
    )
    cos, sin = rope_tables(tokens + 9, width, device="cuda")
    for interleaved in (False, True):
        check(inputs, grads, cos=cos, sin=sin, offset=9, interleaved=interleaved)
    first = [[x.transpose(1, 2) for x in each] for each in (inputs, grads)]
    check(*first, cos=cos.to(dtype), sin=sin.to(dtype), heads_first=True)
    planes = torch.randint(tokens, (3, batch, tokens), device="cuda")
    sections = [width // 2 - 2 * (width // 6), width // 6, width // 6]
    for in_turns in (False, True):
        check(inputs, grads, cos=cos, sin=sin, positions=planes, sections=sections, in_turns=in_turns)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 30e9:
        pytest.skip("needs 30 GB of free GPU memory")
    tokens = 2**31 // 4096 + 3
    q = torch.zeros(tokens, 32, 128, dtype=torch.float16, device="cuda")
    q[-1] = numbers(32, 128, dtype=torch.float16, device="cuda")
    options = dict(zip(SIDES, rope_tables(64, 64, device="cuda"), strict=True))
    positions = torch.arange(tokens, device="cuda") % 64
    wanted = rope(q[-1:], None, positions=positions[-1:], **options)
    found = rope(q, None, positions=positions, **options)
    assert torch.equal(found[-1:], wanted) and not found[:-1].any()


@pytest.mark.parametrize("last", ["batch", "token", "head", "position", "plane"])
def test_offsets_are_computed_in_64_bits(last):
    """The last row of few, in tensors whose rows lie far apart, in units of 8."""
    far = 2**28
    batches, tokens, heads, strides, table_strides, position_strides = {
        "batch": (9, 1, 1, (far, 1, 1), (0, far, 1), (0, 8 * far, 1)),
        "token": (1, 9, 1, (1, far, 1), (0, 0, 1), (0, 0, 8 * far)),
        "head": (1, 1, 9, (1, 1, far), (0, 0, 1), (0, 0, 1)),
        "position": (1, 9, 1, (1, 1, 1), (0, 0, far), (0, 0, 0)),
        "plane": (1, 1, 1, (1, 1, 1), (8 * far, 0, 0), (8 * far, 0, 0)),
    }[last]
    rows = batches * tokens * heads
    x, out, cos, sin = given = [torch.zeros(1) for _ in range(4)]
    positions = torch.zeros(1, dtype=torch.int64)
    sections = (0, 8) if last == "plane" else None
    by_token = last in ("position", "head")
    with recorded_accesses(first_program=(rows - 1, 0, 0), memory=False) as seen:
        snippet.rope_kernel[(1,)](
            x, x, out, out, cos, sin, None if by_token else positions, None, batches * tokens, tokens, heads, 0, 1, 0,
            2**40, 0, *[strides] * 4, table_strides, position_strides, 0, INTERLEAVED=False, INVERSE=False,
            SECTIONS=sections, IN_TURNS=False, COMPUTE=snippet.tl.float32, TABLE_STEP=1, BLOCK_ROWS=1, BLOCK_HALF=8,
            BLOCK_REST=0, UNIT=8,
        )  # fmt: skip
    at = {name: [] for name in ("x", "out", "cos", "sin", "positions")}
    for op, addresses in seen:
        for name, tensor in zip(at, (*given, positions), strict=True):
            if (op == "store") == (name == "out"):
                at[name].append((int(addresses[0]) - tensor.data_ptr()) // tensor.itemsize)
    ends = batches - 1, tokens - 1, heads - 1
    x_at = 8 * sum(a * b for a, b in zip(ends, strides, strict=True))
    plane = 1 if last == "plane" else 0
    position = tokens - 1 if by_token else 0
    table_at = 8 * sum(a * b for a, b in zip((plane, batches - 1, position), table_strides, strict=True))
    position_at = sum(a * b for a, b in zip((plane, batches - 1, tokens - 1), position_strides, strict=True))
    assert max(x_at, table_at, position_at) >= 2**31
    assert x_at in at["x"] and x_at in at["out"] and table_at in at["cos"] and table_at in at["sin"]
    assert by_token or position_at in at["positions"]


def test_reads_inside_of_what_it_is_given():
    """Also where a block of rows is not full."""
    given = {"x": numbers(3, 5, 1, 2 * HALF), "positions": whole(3, 5, device="cpu") % 9, **tables(device="cpu")}
    given["offset"] = whole(3, device="cpu") % 9
    with recorded_accesses() as seen:
        rope(given["x"], None, **{name: each for name, each in given.items() if name != "x"})
    check_inside(seen, "load", **given)


def test_queries_and_keys_of_two_dtypes(device):
    q, k = (numbers(2, 3, 2, 8, dtype=dtype, device=device) for dtype in (torch.float32, torch.float16))
    check([q, k], [q, k], functions=[rope], **tables(half=4, device=device))


def test_a_position_beyond_the_tables_is_nan(device):
    q = torch.ones(4, 2, 8, device=device)
    cos, sin = rope_tables(3, 6, device=device)
    positions = torch.tensor([2, -1, 3, 0], device=device)
    five = torch.tensor([5], device=device)
    for options in ({"positions": positions}, {"positions": positions + 5, "offset": -five}):
        out = rope(q, None, cos, sin, **options)
        assert out[1:3, :, :6].isnan().all() and not out[[0, 3]].isnan().any() and (out[..., 6:] == 1).all()


# In place


def test_in_place_leaves_all_else_alone(device):
    """Queries and keys are slices of one tensor; of a head, the last columns stay."""
    qkv = numbers(2, 4, 6, 11, device=device)
    given = tables(device=device, half=4)
    before = qkv.clone()
    wanted = in_torch(before[:, :, :3], before[:, :, 3:5], **given)
    q, _ = rope(qkv[:, :, :3], qkv[:, :, 3:5], in_place=True, **given)
    assert torch.allclose(qkv[:, :, :5], torch.cat(wanted, dim=2)) and q.data_ptr() == qkv.data_ptr()
    assert torch.equal(qkv[:, :, 5], before[:, :, 5]) and torch.equal(qkv[..., 8:], before[..., 8:])


def test_in_place_where_columns_lie_apart(device):
    q = numbers(2, 4, 3, 10, device=device)
    for lay in (LAYOUTS["turned"], LAYOUTS["flipped sign"]):
        x = lay(q)
        assert rope(x, None, in_place=True, **tables(device=device)) is x
        assert torch.allclose(x, in_torch(q, None, **tables(device=device))[0])


@pytest.mark.parametrize("heads_first", [False, True])
def test_the_gradient_through_slices_that_are_written_over(device, heads_first):
    given = {**tables(device=device), "heads_first": heads_first}
    leaf = numbers(2, 4, 6, 10, device=device).requires_grad_()

    def loss(function, **options):
        qkv = 2 * leaf
        q, k, v = qkv[:, :, :3], qkv[:, :, 3:4], qkv[:, :, 4:]
        q, k, v = (x.transpose(1, 2) if heads_first else x for x in (q, k, v))
        q, k = function(q, k, **options, **given)
        return (q.sum(dim=1) * k.sum(dim=1)).square().sum() + v.sum()

    found = torch.autograd.grad(loss(rope, in_place=True), leaf)[0]
    assert torch.allclose(found, torch.autograd.grad(loss(in_torch), leaf)[0])


def test_autograd_notices_what_was_written_over(device):
    w = torch.ones(1, 3, 2, 10, device=device, requires_grad=True)
    x = torch.ones(1, 3, 2, 10, device=device)
    out = w * x
    rope(x, None, in_place=True, **tables(device=device))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# As PyTorch calls it


def test_gradients_of_gradients_and_functional_ones(device):
    given = {**tables(device=device), "interleaved": True}
    q, k = (numbers(2, 3, heads, 12, device=device).requires_grad_() for heads in (2, 1))
    assert torch.autograd.gradgradcheck(functools.partial(rope, **given), (q, k), fast_mode=True)
    loss = lambda function, q: sum(x.square().sum() * i for i, x in enumerate(function(q, k.detach(), **given), 2))
    for options in ({}, {"in_place": True}):
        write = lambda q, k, **given: rope(q.clone(), k.clone(), **given, **options)  # noqa: B023
        found = torch.func.grad(lambda q: loss(write, q))(q.detach())  # noqa: B023
        assert torch.allclose(found, torch.func.grad(lambda q: loss(in_torch, q))(q.detach()))
        with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes a batch"):
            torch.func.vmap(lambda q: rope(q, None, **given, **options))(q.detach())  # noqa: B023


@pytest.mark.parametrize("needs", [0, 1])
def test_autograd_sees_a_call_if_any_tensor_needs_it(device, needs):
    given = tables(device=device)
    inputs = [numbers(2, 3, heads, 10, device=device) for heads in (2, 1)]
    assert not any(x.requires_grad for x in rope(*inputs, **given))
    inputs[needs].requires_grad_()
    with torch.no_grad():
        assert not any(x.requires_grad for x in rope(*inputs, **given))
    found, wanted = (
        torch.autograd.grad(sum(x.square().sum() * x.sum() for x in function(*inputs, **given)), inputs[needs])[0]
        for function in (rope, in_torch)
    )
    assert torch.allclose(found, wanted)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_forward_gradient_is_refused_and_not_lost(device, in_place):
    q, given = numbers(2, 3, 2, 10, device=device), {**tables(device=device), "in_place": in_place}
    with torch.autograd.forward_ad.dual_level(), pytest.raises((NotImplementedError, RuntimeError), match="jvp"):
        rope(torch.autograd.forward_ad.make_dual(q, q), None, **given)


def test_the_next_call_looks_at_what_has_changed(device, monkeypatch):
    """A launch is prepared once for tensors that lie alike; these are of one shape, and do not."""
    keep_launches(monkeypatch, snippet, "rope_kernel")
    q, k = numbers(2, 4, 3, 10, device=device), numbers(2, 4, 1, 10, device=device, seed=1)
    given = tables(device=device)
    later = torch.cat([q.flatten()[:1], q.flatten()])[1:].view(q.shape)  # begins at no multiple of 16 bytes
    for each in (*(lay(q) for lay in LAYOUTS.values()), later, q[:, :3], q.float()):
        for offset in (0, 7, LENGTH - 4, 1):
            for other in (k, 2 * k, None, torch._neg_view(k), k.expand(2, 4, 3, 10)):
                other = other if other is None else other[:, : each.shape[1]].to(each.dtype)
                found = rope(each, other, **given, offset=offset)
                wanted = in_torch(each, other, **given, offset=offset)
                near = 1e-5 if each.dtype == torch.float32 else 1e-9
                for ours, exact in zip([found] if other is None else found, wanted, strict=True):
                    assert ours.dtype == each.dtype and torch.allclose(ours, exact.to(each.dtype), atol=near)
    for offset in (1, 2**31):  # of 32 bits, and of 64
        found = rope(q, None, **given, positions=whole(4, device=device) // 2, offset=offset)
        assert found.isnan().all() if offset > LENGTH else found.isfinite().all()
    learned = {name: table.clone().requires_grad_() for name, table in given.items()}
    nowhere = {name: table.to("meta") for name, table in given.items()}
    for message, call in {
        "got 4 tokens from the position 17": lambda: rope(q, k, **given, offset=LENGTH - 3),
        "cos requires a gradient": lambda: rope(q, k, **learned),
        "begin at the same place": lambda: rope(q, q, **given, in_place=True),
        "cos on meta": lambda: rope(q, k, **nowhere),
        "q is expanded": lambda: rope(LAYOUTS["stride 0"](q), k, **given, in_place=True),
    }.items():
        rope(q.clone(), q.clone(), **given, in_place=True)
        with pytest.raises(ValueError, match=message):
            call()


def test_shapes_without_end_do_not_fill_the_memory(device, monkeypatch):
    monkeypatch.setattr(snippet, "PLANS", dict.fromkeys(range(4096)))
    rope(numbers(2, 3, 2, 10, device=device), None, **tables(device=device))
    assert len(snippet.PLANS) == 1


@pytest.mark.parametrize("in_place", [False, True])
def test_the_second_call_goes_without_looking_at_the_arguments_again(device, monkeypatch, in_place):
    keep_launches(monkeypatch, snippet, "rope_kernel")
    q, given = numbers(2, 4, 3, 10, device=device), tables(device=device)
    call = lambda offset: rope(q, None, **given, offset=offset, in_place=in_place)
    call(1)
    refuse_launches(monkeypatch, snippet, "rope_kernel")
    q += 1
    (wanted,) = in_torch(q.clone(), None, **given, offset=3)
    assert torch.allclose(call(3), wanted)


def test_one_of_the_results_is_used(device):
    given = tables(device=device)
    inputs = [numbers(3, 2, 10, device=device, seed=i).requires_grad_() for i in range(2)]
    for which in range(2):
        found = torch.autograd.grad(rope(*inputs, **given)[which].transpose(0, 2).sum(), inputs)
        wanted = torch.autograd.grad(in_torch(*inputs, **given)[which].sum(), inputs[which])
        assert torch.allclose(found[which], wanted[0]) and not found[1 - which].any()


@pytest.mark.parametrize(
    ("option", "write", "learns"),  # few, for each compiles; whatever a backward needs, some case needs in its backward
    [("offset", False, True), ("offsets", False, True), ("sections", True, True), ("as transformers", True, False)],
)
def test_compiled_without_a_break(device, option, write, learns):
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    model = lambda function: lambda q, k, **options: function(2 * q.transpose(1, 2), 2 * k, **options)
    run = torch.compile(model(functools.partial(rope, in_place=write)), fullgraph=True, backend=backend)
    for tokens in (4, 6):
        q, k = (numbers(2, *size, 13, device=device) for size in ((3, tokens), (tokens, 1)))
        options = OPTIONS[option](2, tokens, device)
        found, wanted = run(q, k, **options), model(in_torch)(q, k, **options)
        if learns:
            grads = [numbers(*x.shape, device=device) for x in wanted]
            found, wanted = (results(f, [q, k], grads, **options) for f in (run, model(in_torch)))
        assert all(map(torch.allclose, found, wanted))


def test_the_op_keeps_what_it_promises_the_compiler(device):
    positions, offsets = (whole(*shape, device=device) % 9 for shape in ((3, 2, 4), (2,)))
    given = [*tables(device=device, dtype=torch.float32).values(), positions, offsets]
    for lay in (LAYOUTS[name] for name in ("contiguous", "turned", "flipped sign")):
        q, k = (lay(numbers(2, 4, heads, 12, dtype=torch.float32, device=device)).detach() for heads in (3, 1))
        inputs = (q.requires_grad_(), k.requires_grad_(), *given, 0, True, False, [2, 1, 2], False, False)
        torch.library.opcheck(snippet.rope_op, inputs)


def test_nothing_is_copied_that_lies_well(device):
    """Slices of one tensor, heads first, and tables of twice the width; nor is anything large kept."""
    qkv = numbers(2, 3, 8, 16, device=device)
    given = twice(tables(2, half=8, length=3, device=device), "halves")
    saved = []
    with (
        mock.patch.object(torch.Tensor, "contiguous", side_effect=AssertionError("copied")),
        torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t),
    ):
        q, k = (x.requires_grad_() for x in (qkv[:, :, :4].detach(), qkv[:, :, 4:6].detach()))
        out, _ = rope(q, k, **given)
        rope(q.transpose(1, 2), k.transpose(1, 2), heads_first=True, **given)
    assert out.is_contiguous() and {t.untyped_storage().data_ptr() for t in saved} == {
        given[side].data_ptr() for side in SIDES
    }


def test_under_autocast(device):
    q = numbers(3, 2, 10, dtype=torch.float32, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = rope(q, None, **tables(device=device))
    assert torch.equal(out, rope(q, None, **tables(device=device)))


@pytest.mark.gpu
def test_a_replayed_graph_sees_other_offsets():
    q, k = (numbers(4, 1, heads, 64, dtype=torch.bfloat16, device="cuda") for heads in (8, 2))
    cos, sin = rope_tables(64, 64, device="cuda")
    offset = torch.tensor([0, 5, 9, 60], device="cuda", dtype=torch.int32)
    run = lambda: rope(q, k, cos, sin, offset=offset)
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    offset += 3
    graph.replay()
    assert all(map(torch.equal, captured, run()))


# What is refused

Q, C = torch.ones(2, 3, 4, 8), torch.ones(3, 4)
REFUSED = {
    'pass repeated="halves"': lambda: rope(Q, None, C.repeat(1, 2), C.repeat(1, 2)),
    'repeated must be None, "halves" or "neighbors"; got True': lambda: rope(Q, None, C, C, repeated=True),
    "an even width; got 3": lambda: rope(Q, None, C[:, :3], C[:, :3], repeated="halves"),
    "cos must be (positions, half) or (2, positions, half)": lambda: rope(Q, None, C.expand(4, 3, 4), C),
    "cos must be (planes, positions, half) or (planes, 2, positions, half) for q (2, 3, 4, 8) and 2 sections": (
        lambda: rope(Q, None, C, C, sections=[2, 2])
    ),
    "cos and sin must have the same shape": lambda: rope(Q, None, C, C[:2]),
    "pass cos.detach()": lambda: rope(Q, None, C.clone().requires_grad_(), C),
    "sections must be numbers of pairs, 4 in all; got [1, 2]": (
        lambda: rope(Q, None, C.expand(2, 3, 4), C.expand(2, 3, 4), sections=[1, 2])
    ),
    "sections[2] is 3; where 3 planes take turns, it has 1 of 4 pairs": (
        lambda: rope(Q, None, C.expand(3, 3, 4), C.expand(3, 3, 4), sections=[0, 1, 3], in_turns=True)
    ),
    "positions must be (3,) or (2, 3) for q (2, 3, 4, 8); got (4,)": lambda: rope(Q, None, C, C, torch.arange(4)),
    "positions is torch.float32, which is not supported": lambda: rope(Q, None, C, C, torch.ones(3)),
    "got 3 tokens from the position 1": lambda: rope(Q, None, C, C, offset=1),
    "got 3 tokens from the position -1": lambda: rope(Q, None, C, C, offset=-1),
    "offset must be a whole number, not on a GPU; got 0.5": lambda: rope(Q, None, C, C, offset=0.5),
    "offset must be a number, or a tensor () or (2,); got (3,)": lambda: rope(Q, None, C, C, offset=torch.arange(3)),
    "q and k must have the same shape, but for the number of heads": lambda: rope(Q, Q[:, :2], C, C),
    "float64 goes with float64 only": lambda: rope(Q, Q.double(), C, C),
    "q must be (batch, heads, tokens, head_dim) or (heads, tokens, head_dim); got (8,)": (
        lambda: rope(Q[0, 0, 0], None, C, C, heads_first=True)
    ),
    "q is torch.int64, which is not supported": lambda: rope(Q.long(), None, C, C),
    "pass q.to_dense()": lambda: rope(Q.to_sparse(), None, C, C),
    "q is on cpu and cos on meta": lambda: rope(Q, None, C.to("meta"), C),
    "q is expanded, so it cannot be written over": lambda: rope(Q[:1].expand(2, 3, 4, 8), None, C, C, in_place=True),
    "q and k begin at the same place": lambda: rope(Q, Q, C, C, in_place=True),
    "heads of tokens, too many for one launch": lambda: rope(without_memory(2, 3, 2**29, 2), None, C[:, :1], C[:, :1]),
    "at most 32768 are served": lambda: rope(without_memory(1, 1, 2**15 + 2), None, C, C),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


# Compiled for an H200, without one

CODE = """
q, cos = torch.empty(1000, 8, 128, dtype=torch.bfloat16), torch.empty(1000, 64)
wide, planes = torch.empty(1, 1000, 128), torch.zeros(3, 1000, dtype=torch.int64)
module.rope(q, q, cos, cos)
module.rope(q, q, cos, cos, interleaved=True)
module.rope(q, q, cos[:, :32], cos[:, :32])
module.rope(q, q, cos[:, :32], cos[:, :32], interleaved=True, in_place=True)
module.rope(q, q, wide, wide, repeated="halves")
module.rope(q, q, cos, cos, planes, sections=[16, 24, 24], offset=planes[0, :1])
module.rope(q, q, cos, cos, planes, sections=[24, 20, 20], in_turns=True)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """Loads and stores of queries and keys are 16 bytes wide, and 1024 threads find room and more."""
    launches = compiled("library/rope", CODE)
    assert len(launches) == 7
    for launch in launches:
        assert launch.spills == 0 and launch.registers <= 64
        assert launch.widths("STG") == {128} and 128 in launch.widths("LDG")
    assert all(launch.widths("LDG") == {128} for launch in launches[:5])
