# SPDX-License-Identifier: Apache-2.0
"""Vector add: right on everything that it takes, clear about everything else, and inside its tensors throughout."""

import ast
import contextlib
import math
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
from guards import (
    Guarded,
    check_each_once,
    check_same_bits,
    environment,
    load_file,
    mutate,
    recorded_accesses,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import recorded_output
from sanitizer import FOUND, check_sanitized, sanitize

from snippets.programs import vector_add
from tests.processes import run_python, run_script

SOURCE = Path(vector_add.__file__)
ROOT = SOURCE.parents[2]

# Sums of float16 infinities or of large numbers are part of the tests; NumPy, in the interpreter, warns about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in add:RuntimeWarning")


# The check that everything else is built on


def check(module, x, y, block_size=4, starts=(0, 0, 0), host=True, record=True):
    """Assert that ``module`` adds ``x`` and ``y`` as torch does and, on the way, touches what it must and nothing else.

    ``x``, ``y`` and the result lie in larger buffers, ``starts`` elements behind an address that is aligned for the
    widest loads. ``host=False`` launches the kernel itself, without the checks of ``add``; ``record=False`` leaves
    everything to the guard zones, as on a GPU.
    """
    expected = torch.add(x, y)
    after = 2 * block_size + 1
    zones = [{"before": 16 * after + start, "after": after} for start in starts]
    x = Guarded.around(x, **zones[0], fill=0xFF)
    y = Guarded.around(y, **zones[1], fill=0xFF)
    # Another filling for the result: the sum of two NaN may be the very NaN that would show a stray store.
    out = Guarded(expected.shape, expected.dtype, expected.device, **zones[2], fill=0x5A)
    given_bytes = x.bytes.clone(), y.bytes.clone()
    record = record and expected.device.type == "cpu"
    with recorded_accesses() if record else contextlib.nullcontext() as accesses:
        if host:
            with mock.patch.object(torch, "empty_like", return_value=out.tensor) as empty_like:
                result = module.add(x.tensor, y.tensor, block_size=block_size)
            assert empty_like.call_count == 1 and result is out.tensor, "add returns what torch.empty_like gave it"
        elif expected.numel():
            grid = (triton.cdiv(expected.numel(), block_size),)
            module.add_kernel[grid](x.tensor, y.tensor, out.tensor, expected.numel(), BLOCK_SIZE=block_size)
    x.check("x"), y.check("y"), out.check("the result")
    assert torch.equal(x.bytes, given_bytes[0]) and torch.equal(y.bytes, given_bytes[1]), "x and y are only read"
    check_same_bits(out.tensor, expected)
    if record:
        check_each_once(accesses, "load", x=x.tensor, y=y.tensor)
        check_each_once(accesses, "store", out=out.tensor)


def numbers(n, dtype, device, kind="any bits"):
    """``n`` elements: of any bit pattern (so also infinite, NaN and subnormal), of moderate size, or special ones."""
    if kind == "any bits":
        return torch.randint(0, 256, (n * dtype.itemsize,), dtype=torch.uint8, device=device).view(dtype)
    if kind == "moderate":
        return torch.randint(0, 100, (n,), device=device).to(dtype) / (8 if dtype.is_floating_point else 1)
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    special = [info.min, info.max, 0, 1]
    if dtype.is_floating_point:
        special += [-0.0, info.tiny, -info.tiny, info.eps, math.inf, -math.inf, math.nan]
    return torch.tensor(special, dtype=dtype, device=device)[torch.randint(0, len(special), (n,), device=device)]


def ramp(n, dtype, device):
    """Two tensors whose sum is different in each of its first 60 elements, and unlike any guard zone."""
    x = torch.arange(n, device=device) % 60
    return (x + 1).to(dtype), (x + 3).to(dtype)


def served(device):
    """The interpreter of Triton 3.7 adds the bits of bfloat16 as integers, see below."""
    return [dtype for dtype in vector_add.DTYPES if device == "cuda" or dtype != torch.bfloat16]


# Values


kinds = st.sampled_from(["any bits", "moderate", "special"])
shapes = st.one_of(
    st.sampled_from([(), (0,), (3, 0, 2), (1,), (1, 1, 1)]),
    st.integers(1, 300).map(lambda n: (n,)),
    st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple),
)


@pytest.mark.long
@settings(max_examples=200)
@given(data=st.data(), shape=shapes, kind=kinds, seed=st.integers(0, 999))
def test_adds_as_torch_does_to_the_bit(device, data, shape, kind, seed):
    dtype = data.draw(st.sampled_from(served(device)), label="dtype")
    n = math.prod(shape)
    # At least n / 64, for the interpreter takes a third of a millisecond for each program.
    block_size = data.draw(st.sampled_from([2**k for k in range(11) if 64 * 2**k >= n]), label="block size")
    starts = data.draw(st.tuples(*[st.sampled_from([0, 1, 4])] * 3), label="starts")  # what Triton specializes on
    torch.manual_seed(seed)
    x, y = (numbers(n, dtype, device, kind).view(shape) for _ in "xy")
    check(vector_add, x, y, block_size, starts)


@pytest.mark.long
@pytest.mark.parametrize("dtype", vector_add.DTYPES, ids=str)
def test_around_the_edges_of_a_block(device, dtype):
    for n in (1, 15, 16, 17, 31, 32, 33, 48):
        x, y = numbers(n, dtype, device), numbers(n, dtype, device)
        host = True
        if dtype not in served(device):
            y, host = torch.zeros_like(y), False  # x + 0 is right in the interpreter too, so memory can be checked
        check(vector_add, x, y, block_size=16, host=host)
        check(vector_add, x, y, block_size=16, starts=(1, 0, 3), host=host)


@pytest.mark.parametrize("block_size", [2**k for k in range(13)])
def test_block_sizes(device, block_size):
    n = 2 * block_size + 1
    check(vector_add, *ramp(n, torch.float32, device), block_size)


def test_integers_wrap_around(device):
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        top = torch.full((3,), torch.iinfo(dtype).max, dtype=dtype, device=device)
        assert vector_add.add(top, torch.ones_like(top)).tolist() == [torch.iinfo(dtype).min] * 3


def test_a_tensor_may_be_added_to_itself(device):
    x = torch.arange(10.0, device=device)
    check_same_bits(vector_add.add(x, x, block_size=4), 2 * x)


def test_offsets_past_2_to_the_31():
    x, y, out = torch.zeros(3, 1)  # the interpreter can run a late program without touching memory
    with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as accesses:
        vector_add.add_kernel[(1,)](x, y, out, 2**31 + 3, BLOCK_SIZE=4)
    offsets = [(at - tensor.data_ptr()) // 4 for (_, at), tensor in zip(accesses, (x, y, out), strict=True)]
    assert [list(at) for at in offsets] == [[2**31, 2**31 + 1, 2**31 + 2]] * 3


def test_default_block_size(device):
    x, y = ramp(5000, torch.float32, device)
    check_same_bits(vector_add.add(x, y), x + y)


def test_the_largest_block(device):
    x, y = (torch.arange(5.0, device=device) * factor for factor in (1, 10))
    check_same_bits(vector_add.add(x, y, block_size=2**16), x + y)


# Refusals


def test_compiled_refuses_the_cpu():
    call = "import torch; from snippets.programs.vector_add import add; add(torch.ones(3), torch.ones(3))"
    done = run_python("-c", call, env=environment("cuda"), cwd=ROOT)
    assert "ValueError: x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1" in done.stderr


# The file as a script


def run_alone(path, device):
    """Run a snippet where nothing of this repository can be imported."""
    # -I alone would leave the repository's entry in site-packages.
    command = [sys.executable, "-I", "-c", ALONE, path.name, str(ROOT)]
    done = subprocess.run(command, cwd=path.parent, env=environment(device), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


ALONE = """
import runpy, sys
from pathlib import Path

class Refuse:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("snippets", "recorder", "tests"):
            raise ImportError(f"{name} is part of the repository")

sys.meta_path.insert(0, Refuse)
sys.path = [entry for entry in sys.path if Path(entry).resolve() != Path(sys.argv[2])]
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.shown
def test_copied_alone_it_prints_what_the_original_prints(device, tmp_path):
    printed = run_alone(Path(shutil.copy(SOURCE, tmp_path)), device)
    assert printed == recorded_output(vector_add)

    first, *differences = printed.split("x + y =")[1].splitlines()
    assert ast.literal_eval(first.strip()) == [101.0 * i for i in range(10)]
    assert len(differences) == 3 and all(line.endswith(": 0.0") for line in differences)


def test_alone_means_alone(tmp_path):
    file = tmp_path / "uses_ours.py"
    file.write_text("import snippets.programs.vector_add")
    with pytest.raises(AssertionError, match="is part of the repository"):
        run_alone(file, "cpu")


def test_says_so_without_a_gpu():
    done = run_script(SOURCE, env=environment("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES=""))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


# Planted faults: for each, what is replaced by what, and whether values and guard zones alone give it away.
# What they cannot show, a read of which the result is thrown away, shows in the interpreter's list of accesses.

LOADS = "x = tl.load(x_ptr + offsets, mask=mask)", "y = tl.load(y_ptr + offsets, mask=mask)"
MUTANTS = {
    "mask dropped everywhere": (", mask=mask)", ")", True),
    "mask of x dropped": (LOADS[0], LOADS[0].replace(", mask=mask", ""), False),
    "mask of y dropped": (LOADS[1], LOADS[1].replace(", mask=mask", ""), False),
    "mask of the store dropped": ("x + y, mask=mask", "x + y", True),
    "< is <=": ("offsets < n", "offsets <= n", True),
    "< n is < n - 1": ("offsets < n", "offsets < n - 1", True),
    "offset uses n for the block": ("pid.to(tl.int64) * BLOCK_SIZE", "pid.to(tl.int64) * n", True),
    "y loaded from x": ("tl.load(y_ptr", "tl.load(x_ptr", True),
    "x loaded from y": ("tl.load(x_ptr", "tl.load(y_ptr", True),
    "stored to x": ("tl.store(out_ptr", "tl.store(x_ptr", True),
    "offset one too high": ("offsets = start +", "offsets = 1 + start +", True),
    "offset one too low": ("offsets = start +", "offsets = -1 + start +", True),
    "x one too high": ("x_ptr + offsets", "x_ptr + 1 + offsets", True),
    "every program does the first block": ("tl.program_id(axis=0)", "tl.program_id(axis=1)", True),
    "difference for sum": ("x + y, mask", "x - y, mask", True),
    "last program never started": ('triton.cdiv(n, meta["BLOCK_SIZE"])', 'max(1, n // meta["BLOCK_SIZE"])', True),
}
IN_32_BITS = ("start = pid.to(tl.int64) * BLOCK_SIZE", "start = pid * BLOCK_SIZE")


def check_core(module, device, record=True):
    for n in (1, 3, 4, 5, 10):
        for dtype in (torch.float32, torch.int8):
            check(module, *ramp(n, dtype, device), record=record)


def is_caught(module, device, record=True):
    try:
        check_core(module, device, record)
    except AssertionError:
        return True
    return False


def test_planted_faults_are_caught(device, tmp_path):
    check_core(load_file(mutate(SOURCE, tmp_path / "sound.py", "mask", "mask")), device)
    survivors = []
    for i, (name, (old, new, seen_in_memory)) in enumerate(MUTANTS.items()):
        mutant = load_file(mutate(SOURCE, tmp_path / f"mutant_{i}.py", old, new))
        if is_caught(mutant, device, record=False) != seen_in_memory:
            survivors.append(f"{name}: by its values and the guard zones")
        if device == "cpu" and not is_caught(mutant, device):
            survivors.append(name)
    assert not survivors


# On a GPU only


def gpu(test):
    return pytest.mark.gpu(pytest.mark.long(test))


@gpu
def test_refuses_the_cpu():
    with pytest.raises(ValueError, match="x is on the CPU; move it to a GPU"):
        vector_add.add(torch.ones(3), torch.ones(3))


@gpu
def test_refuses_two_devices():
    with pytest.raises(ValueError, match=r"same shape, dtype and device.* on cuda:0 and .* on cpu"):
        vector_add.add(torch.ones(3, device="cuda:0"), torch.ones(3))


@gpu
def test_runs_on_the_device_of_its_arguments():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = ramp(1000, torch.float32, "cuda:1")
    assert torch.cuda.current_device() == 0
    check_same_bits(vector_add.add(x, y), x + y)


@gpu
def test_allocates_its_result_and_nothing_else():
    x, y = ramp(2**20, torch.float32, "cuda")
    vector_add.add(x, y)  # compiles
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    out = vector_add.add(x, y)
    after = torch.cuda.memory_stats()
    assert after["allocation.all.allocated"] - before["allocation.all.allocated"] == 1
    assert after["allocated_bytes.all.peak"] - before["allocated_bytes.all.current"] == out.nbytes == 2**22


def busy(seconds=0.5):
    """Keep the current stream busy for about so long."""
    torch.cuda._sleep(int(seconds * 2e9))  # cycles, at 2 GHz; slower clocks make it longer


@gpu
def test_does_not_wait_for_the_gpu():
    x, y = ramp(2**20, torch.float32, "cuda")
    vector_add.add(x, y)  # compiles
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        busy()
        out = vector_add.add(x, y)
        done.record()
        waited = done.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not waited, "add returned only when the GPU had finished everything queued before it"
    check_same_bits(out, x + y)


@gpu
def test_is_queued_on_the_current_stream():
    x, y = ramp(2**20, torch.float32, "cuda")
    vector_add.add(x, y)  # compiles
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        busy()
        x.fill_(5)  # on any other stream, add would not wait for this
        out = vector_add.add(x, y)
    assert torch.cuda.default_stream().query() and not stream.query()
    stream.synchronize()
    check_same_bits(out, 5 + y)


@gpu
def test_can_be_captured_in_a_graph():
    x, y = ramp(5000, torch.float32, "cuda")
    vector_add.add(x, y)  # compiles, which cannot be captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = vector_add.add(x, y)
    for value in (7, 8):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        check_same_bits(out, value + y)


# 2**31 elements and five: the last program's offsets begin at 2**31. In a process of its own, because a kernel that
# computes them in 32 bits may well end the CUDA context with an illegal access.
BEYOND_32_BITS = """
import runpy, sys, torch
n = 2**31 + 5
torch.manual_seed(0)
x = torch.randint(-128, 128, (n,), dtype=torch.int8, device="cuda")
y = torch.randint(-128, 128, (n,), dtype=torch.int8, device="cuda")
x[-5:], y[-5:] = 1, torch.arange(5, device="cuda")  # so that a result that was never written is not right by chance
expected = x[-5:] + y[-5:]
out = runpy.run_path(sys.argv[1])["add"](x, y)
for start in range(0, n, 2**28):
    part = slice(start, start + 2**28)
    wrong = int((out[part] != x[part] + y[part]).sum())
    assert wrong == 0, f"{wrong} wrong elements from {start}"
assert torch.equal(out[-5:], expected), f"the last five are {out[-5:].tolist()}, should be {expected.tolist()}"
print("all equal, the last five:", out[-5:].tolist())
"""


def add_beyond_32_bits(path):
    free = torch.cuda.mem_get_info()[0]
    if free < 9e9:
        pytest.skip(f"needs 9 GB of free GPU memory, has {free / 1e9:.1f}")
    command = [sys.executable, "-c", BEYOND_32_BITS, str(path)]
    return subprocess.run(command, env=environment("cuda"), capture_output=True, text=True)


@gpu
def test_more_than_2_to_the_31_elements():
    done = add_beyond_32_bits(SOURCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all equal, the last five: [1, 2, 3, 4, 5]\n"


@gpu
def test_offsets_in_32_bits_are_caught(tmp_path):
    done = add_beyond_32_bits(mutate(SOURCE, tmp_path / "mutant.py", *IN_32_BITS))
    assert done.returncode != 0 and "all equal" not in done.stdout
    assert "AssertionError" in done.stderr or "illegal memory access" in done.stderr, done.stderr


@gpu
def test_compute_sanitizer_finds_nothing():
    assert "x + y = [0.0, 101.0" in check_sanitized(SOURCE)


@gpu
@pytest.mark.parametrize("mutant", [name for name in MUTANTS if "mask" in name])
def test_compute_sanitizer_finds_a_dropped_mask(mutant, tmp_path):
    old, new, _ = MUTANTS[mutant]
    done = sanitize(mutate(SOURCE, tmp_path / "mutant.py", old, new))
    assert done.returncode == FOUND, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Invalid __global__" in done.stdout and "add_kernel" in done.stdout
