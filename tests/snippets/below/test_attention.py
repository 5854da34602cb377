# SPDX-License-Identifier: Apache-2.0
"""Attention in Gluon: who waits for whom, by a stand-in; what is refused; what it compiles to; on a Hopper GPU, all."""

import functools
from unittest import mock

import gluon_stand_in
import pytest
import torch
from stand_ins import Kernel, compile_for_hopper

from snippets.below import attention as snippet
from snippets.below.attention import WAYS, attention, default, place

KERNELS = {"waiting": "waiting_kernel", "flying": "flying_kernel"}
SMS = 2


def kernel_of(way):
    return KERNELS.get(way, "specialized_kernel")


def run(late, kernel, grid, *arguments, num_warps, **options):
    assert num_warps == (4 if kernel == "specialized_kernel" else 8)
    gluon_stand_in.run([snippet], kernel, grid, *arguments, late=late, **options)


@pytest.fixture(params=[False, True], ids=["tiles at once", "tiles late"])
def without_gpu(monkeypatch, request):
    names = {kernel_of(way) for way in WAYS}
    kernels = {name: Kernel(functools.partial(run, request.param, name)) for name in names}
    originals = {name: getattr(snippet, name) for name in names}

    def launch(late, name, grid, *arguments, **options):
        with mock.patch.object(snippet, name, originals[name]):
            run(late, name, grid, *arguments, **options)

    for name, kernel in kernels.items():
        kernel.program = functools.partial(launch, request.param, name)
        monkeypatch.setattr(snippet, name, kernel)
    monkeypatch.setattr(snippet, "check_gpu", lambda device: None)
    monkeypatch.setattr(snippet, "multiprocessors", lambda device: SMS)
    return kernels


def heads(batch, number, rows, D, dtype=torch.bfloat16, device="cpu", seed=0):
    """Random numbers, each row at a multiple of 16 bytes, with NaN around them."""
    random = torch.Generator().manual_seed(seed + rows)
    room = torch.full((batch, number + 1, rows + 3, D + 8), float("nan"), dtype=dtype, device=device)
    values = room[:, :number, :rows, :D]
    values.copy_(torch.randn(values.shape, generator=random))
    return values


def expected(q, k, v, causal):
    sharing = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(sharing, dim=1) for x in (k, v))
    scores = q @ k.mT * q.shape[3] ** -0.5
    if causal:
        later = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(dim=-1) @ v


def check_right(q, k, v, causal, way):
    out, right = attention(q, k, v, causal=causal, way=way), expected(q, k, v, causal)
    assert out.shape == q.shape and out.dtype == q.dtype and out.is_contiguous()
    tolerance = (0.01 if q.dtype == torch.bfloat16 else 0.002) * right.abs().max()
    torch.testing.assert_close(out.double(), right, atol=tolerance.item(), rtol=0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("queries, keys, causal", [(1, 1, False), (130, 513, False), (300, 300, True)])
def test_attends(without_gpu, way, queries, keys, causal):
    q, k, v = heads(1, 2, queries, 64), heads(1, 1, keys, 64, seed=1), heads(1, 1, keys, 64, seed=2)
    check_right(q, k, v, causal, way)
    assert not any(kernel.launches for name, kernel in without_gpu.items() if name != kernel_of(way))


def test_heads_that_share_keys_and_the_other_width(without_gpu):
    for D, dtype in ((64, torch.float16), (128, torch.bfloat16)):
        q, k, v = heads(2, 4, 200, D, dtype), heads(2, 2, 200, D, dtype, seed=1), heads(2, 2, 200, D, dtype, seed=2)
        for way in ("turns", "persistent"):
            check_right(q, k, v, True, way)


def test_programs(without_gpu):
    q, k = heads(1, 2, 257, 64), heads(1, 2, 257, 64)
    grids = {way: (attention(q, k, k, way=way), without_gpu[kernel_of(way)].launches[-1])[1] for way in WAYS}
    # Two groups have 128 queries, three 192.
    assert {way: grid for way, (grid, _) in grids.items()} == dict.fromkeys(WAYS, (6,)) | {
        "third": (4,), "persistent": (SMS,)
    }  # fmt: skip
    turns = {way: (options["GROUPS"], options["TURNS"]) for way, (_, options) in grids.items() if "TURNS" in options}
    assert turns == {"specialized": (2, False), "turns": (2, True), "third": (3, False), "persistent": (3, False)}


def test_by_default(without_gpu):
    assert [default(D, keys) for D in (64, 128) for keys in (1, 4096, 4097)] == [
        "persistent", "persistent", "third", "persistent", "persistent", "specialized"
    ]  # fmt: skip
    q, k = heads(1, 3, 257, 128), heads(1, 3, 257, 128)
    check_right(q, k, k, False, None)
    ((grid, options),) = without_gpu["specialized_kernel"].launches
    assert grid == (SMS,) and options["GROUPS"] == 2


@pytest.mark.parametrize("programs", [1, 3, 7, 100])
@pytest.mark.parametrize("together", [1, 4, 6])
def test_every_tile_has_its_place_and_long_ones_come_first(programs, together):
    blocks, heads, tiles = 5, 3, 5 * 3 * 2
    gl = mock.Mock(num_programs=lambda axis: programs, minimum=min, cdiv=lambda a, b: -(-a // b))
    with mock.patch.object(snippet, "gl", gl):
        counts = blocks, heads, 1, together, 10 * 128, tiles
        places = [place.fn(tile, counts, 128, 128, True) for tile in range(tiles)]
    assert len({where[:3] for where in places}) == tiles
    assert all(steps == row // 128 + 1 and row < blocks * 128 for _, _, row, steps in places)
    assert all(batch < 2 and head < heads for batch, head, *_ in places)
    if programs >= tiles:
        first = [steps for batch, head, _, steps in places if 3 * batch + head < together]
        assert first == sorted(first, reverse=True) and len(first) == together * blocks


def test_programs_that_share_all_tiles_have_as_much_to_do_as_the_others():
    gl = mock.Mock(num_programs=lambda axis: 132, minimum=min, cdiv=lambda a, b: -(-a // b))
    with mock.patch.object(snippet, "gl", gl):
        counts = 16, 16, 1, 64, 2048, 16 * 64
        steps = [place.fn(tile, counts, 128, 128, True)[3] for tile in range(16 * 64)]
    work = [sum(steps[pid::132]) for pid in range(132)]
    assert max(work) < 1.05 * sum(work) / 132


def test_large_scores_do_not_overflow(without_gpu):
    q, k, v = heads(1, 1, 130, 64) * 30, heads(1, 1, 130, 64, seed=1) * 30, heads(1, 1, 130, 64, seed=2)
    check_right(q, k, v, True, "turns")


def test_nothing_to_attend_to(without_gpu):
    full = torch.ones(1, 2, 8, 64).bfloat16()
    for q, k in ((full[:0], full[:0]), (full[:, :, :0], full), (full, full[:, :, :0])):
        out = attention(q, k, k)
        assert out.shape == q.shape and not out.any()
    assert not any(kernel.launches for kernel in without_gpu.values())


q, k = heads(2, 4, 8, 64), heads(2, 2, 8, 64)


@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda: attention(q[0], k, k), r"q must be \(batch, heads, queries, D\)"),
        (lambda: attention(q, k, k[:, :, :4]), r"got \(2, 4, 8, 64\), \(2, 2, 8, 64\) and \(2, 2, 4, 64\)"),
        (lambda: attention(q[:1], k, k), "q must be"),
        (lambda: attention(q[..., :32], k, k), "q must be"),
        (lambda: attention(q[..., :32], k[..., :32], k[..., :32]), "D must be 64 or 128; got 32"),
        (lambda: attention(q[:, :3], k, k), "heads must be a multiple of kv_heads; got 3 and 2"),
        (lambda: attention(q, k[:, :0], k[:, :0]), "heads must be a multiple of kv_heads; got 4 and 0"),
        (lambda: attention(q[:, :, :4], k, k, causal=True), "as many keys as queries; got 8 and 4"),
        (lambda: attention(q, k, k, way="fast"), "way must be one of"),
        (lambda: attention(*[torch.zeros(1, 1, 8, 128).bfloat16()] * 3, way="third"), "'third' for D = 64 only"),
        (lambda: attention(q.float(), k.float(), k.float()), "of 16 bits; got torch.float32"),
        (lambda: attention(q, k, k.half()), "must be alike"),
        (lambda: attention(q, k, k.to("meta")), "must be alike"),
        (lambda: attention(q.mT.contiguous().mT, k, k), "each row of q"),
        (lambda: attention(q, k[:, :1].expand(2, 2, 8, 64), k), "each row of k"),
        (lambda: attention(q, k, torch.ones(2, 2, 8, 65).bfloat16()[..., 1:]), "each row of v"),
    ],
)
def test_refuses(without_gpu, call, fragment):
    with pytest.raises(ValueError, match=fragment):
        call()


def test_refuses_a_cpu_and_other_gpus():
    with pytest.raises(ValueError, match="q must be on a Hopper GPU, for Gluon has no interpreter; it is on cpu"):
        attention(q, k, k)
    with pytest.raises(SystemExit, match="no GPU found"):
        snippet.main()
    for capability in ((8, 0), (9, 0), (10, 0)):
        found = dict(get_device_name=lambda device: "B200", get_device_capability=lambda device, c=capability: c)
        with mock.patch.multiple(torch.cuda, **found):
            if capability[0] == 9:
                snippet.check_gpu(torch.device("cuda", 0))
                continue
            with pytest.raises(ValueError, match="wgmma is Hopper's; B200 has another instruction"):
                snippet.check_gpu(torch.device("cuda", 0))


def test_what_they_compile_to():
    """Nothing spills, weights go to the second product as they are, and one product may be in flight in the loop."""
    code = """
import re
from triton.experimental.gluon import language as gl
from snippets.below import attention as snippet
for D, causal in ((128, False), (64, True)):
    x = torch.empty(1, 1, 128, D, dtype=torch.bfloat16)
    for way, kernel in (("waiting", snippet.waiting_kernel), ("flying", snippet.flying_kernel),
                        ("turns", snippet.specialized_kernel)):
        alone = way != "turns"
        described = snippet.describe(x, x, x, x, rows=128 if alone else 64, keys=128)
        options = {"num_warps": 8} if alone else {"num_warps": 4, "GROUPS": 2, "TURNS": True}
        made = kernel.warmup(*described, 8, 4, 1, 1, 1024, 64, FACTOR=0.1275, CAUSAL=causal, BUFFERS=2,
                             grid=(1,), **options)
        assert made.metadata.shared <= 232_448, "so much shared memory no program may take"
        code = made.asm["sass"]
        waits = "".join(re.findall(r"DEPBAR[.]LE gsb0, 0x(.)", code))
        print(way, waits, len(re.findall(r"(?:STL|LDL)[. ]", code)), "setmaxnreg" in made.asm["ptx"])
"""
    found = [line.split() for line in compile_for_hopper(code)]
    loops = {"waiting": ["00", "0", "False"], "flying": ["0100", "0", "False"], "turns": ["01000100", "0", "True"]}
    assert found == [[way, *expected] for _ in range(2) for way, expected in loops.items()]


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_attends_on_a_gpu(way, D, causal):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is Hopper's")
    if way == "third" and D == 128:
        pytest.skip("three groups have too few registers for 128 columns")
    for batch, number, kv_number, queries, keys in (
        (1, 1, 1, 1, 1), (2, 4, 2, 300, 300), (1, 2, 1, 200, 1111), (3, 16, 16, 1024, 1024), (2, 64, 8, 513, 513)
    ):  # fmt: skip
        if causal and queries != keys:
            continue
        for dtype in (torch.bfloat16, torch.float16)[: 2 if D == 64 else 1]:  # each is compiled anew
            q = heads(batch, number, queries, D, dtype, "cuda")
            k, v = (heads(batch, kv_number, keys, D, dtype, "cuda", seed) for seed in (1, 2))
            check_right(q, k, v, causal, way)


@pytest.mark.gpu
def test_the_same_bits_again_and_in_a_graph():
    q, k, v = (heads(2, 8, 1000, 128, device="cuda", seed=seed) for seed in range(3))
    for way in WAYS:
        if way == "third":
            continue
        first = attention(q, k, v, causal=True, way=way)
        assert all(torch.equal(attention(q, k, v, causal=True, way=way), first) for _ in range(20))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(q, k, v, causal=True)
    v.mul_(2)
    graph.replay()
    assert torch.equal(out, attention(q, k, v, causal=True))
