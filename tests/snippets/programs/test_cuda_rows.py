# SPDX-License-Identifier: Apache-2.0
"""A sum and a block that is handed over: right at every size, within their tensors, and compiled as the page says."""

from pathlib import Path

import pytest
import torch
import triton
from guards import Guarded, check_each_once, environment, handed_out, load_file, mutate, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder import recording
from recorder.printed import numbers
from recorder.project import find
from snippets.programs import cuda_rows as snippet
from tests.processes import run_script

SOURCE = Path(snippet.__file__)
SIZES = st.integers(0, 10).map(lambda power: 2**power)
ZONES = {"before": 64, "after": 2048}


def whole(n: int, device: str) -> torch.Tensor:
    """Whole numbers, all of whose sums are exact in any order."""
    return torch.arange(n, device=device).float() * 37 % 101 - 50


def check_total(x, module=snippet, **options):
    guarded, out = Guarded.around(x, fill=0xFF, **ZONES), Guarded((), x.dtype, x.device, fill=0x5A, **ZONES)
    with handed_out("empty", out.tensor):
        assert module.total(guarded.tensor, **options) is out.tensor
    guarded.check("x"), out.check("the sum")
    assert out.tensor == x.sum()


def check_doubled(x, module=snippet):
    guarded = Guarded.around(x, fill=0xFF, **ZONES)
    box, out = (Guarded(x.shape, x.dtype, x.device, fill=0x5A, **ZONES) for _ in range(2))
    flag = Guarded((), torch.int32, x.device, fill=0x5A, **ZONES)
    flag.tensor.zero_()
    with handed_out("empty_like", box.tensor, out.tensor), handed_out("zeros", flag.tensor):
        assert module.doubled(guarded.tensor) is out.tensor
    for name, each in {"x": guarded, "box": box, "out": out, "flag": flag}.items():
        each.check(name)
    assert torch.equal(out.tensor, 2 * x) and flag.tensor == 1


@settings(max_examples=20)
@given(n=SIZES, num_warps=st.sampled_from([1, 4, 32]))
def test_adds_up(device, n, num_warps):
    check_total(whole(n, device), num_warps=num_warps)


@pytest.mark.parametrize("n", [1, 64, 1024])
def test_adds_up_in_a_cluster(device, n):
    if device == "cuda" and (torch.cuda.get_device_capability()[0] < 9 or triton.__version__ < "3.9"):
        pytest.skip("a sum across a cluster takes a GPU from Hopper on, and Triton 3.9")
    check_total(whole(n, device), num_ctas=2)


@settings(max_examples=20)
@given(n=SIZES)
def test_hands_over(device, n):
    check_doubled(whole(n, device))


def test_touches_each_element_once():
    x = whole(64, "cpu")
    box, out, flag = torch.empty(64), torch.empty(64), torch.zeros((), dtype=torch.int32)
    with recorded_accesses() as accesses:
        snippet.hand_over_kernel[(2,)](x, box, flag, out, BLOCK_SIZE=64)
    check_each_once(accesses, "load", x=x, box=box)
    check_each_once(accesses, "store", box=box, out=out)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (check_total, "tl.load(x_ptr + tl.arange(", "tl.load(x_ptr + 1 + tl.arange("),
        (check_total, "tl.store(out_ptr, tl.sum", "tl.store(out_ptr + 1, tl.sum"),
        (check_doubled, "tl.store(box_ptr + offsets", "tl.store(box_ptr + 1 + offsets"),
        (check_doubled, "tl.store(out_ptr + offsets", "tl.store(out_ptr + 1 + offsets"),
        (check_doubled, "tl.load(x_ptr + offsets)", "tl.load(x_ptr + 1 + offsets)"),
        (check_doubled, "tl.load(box_ptr + offsets)", "tl.load(box_ptr + 1 + offsets)"),
        (check_doubled, "tl.atomic_xchg(flag_ptr, 1", "tl.atomic_xchg(flag_ptr, 2"),
    ],
)  # fmt: skip
def test_a_broken_kernel_is_noticed(tmp_path, check, old, new):
    broken = load_file(mutate(SOURCE, tmp_path / "broken.py", old, new))
    with pytest.raises(AssertionError):
        check(whole(64, "cpu"), broken)


def test_takes_what_is_just_allowed():
    assert snippet.total(torch.ones(2**14), num_ctas=8) == 2**14


def test_a_gradient_is_refused_only_where_it_counts():
    with torch.no_grad():
        assert snippet.total(torch.ones(4, requires_grad=True)) == 4


def lines(launch: str) -> list[str]:
    """The PTX of a launch of ``main``, as recorded."""
    made = recording.load(find("programs/cuda_rows"), "cpu")
    return [line.text.strip() for line in made.stage(launch, "sm_90", "ptx")]


def test_only_a_sum_across_warps_waits_and_only_a_cluster_reads_from_another_thread_block():
    launches = ["sum_kernel[0]", "sum_kernel[1]", "sum_kernel[2]"]
    count = lambda launch, text: sum(text in line for line in lines(launch))
    assert [count(launch, "bar.sync") for launch in launches] == [0, 1, 0]
    assert [count(launch, "barrier.cluster.wait") > 0 for launch in launches] == [False, False, True]
    assert [count(launch, "ld.shared::cluster") for launch in launches] == [0, 0, 1]


def test_a_block_is_published_after_all_threads_have_stored():
    found = [
        line
        for line in lines("hand_over_kernel[0]")
        if "bar.sync" in line or "st.global" in line or "gpu.release" in line
    ]
    published = next(i for i, line in enumerate(found) if "gpu.release" in line)
    assert "bar.sync" in found[published - 1] and "st.global" in found[published - 3]


def test_prints_no_wrong_element(capsys):
    snippet.main()
    assert set(numbers(capsys.readouterr().out).values()) == {0}


def test_says_how_to_run_it():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run_script(snippet.__file__, env=environment("cuda"))
    assert done.returncode == 1 and done.stderr.startswith("no GPU found; set TRITON_INTERPRET=1")
