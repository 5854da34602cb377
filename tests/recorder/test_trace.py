# SPDX-License-Identifier: Apache-2.0
"""Record what a run does, in the interpreter."""

import importlib.util
import json
import os
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from recorder import compile, trace  # noqa: E402

KERNELS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SCALE: tl.constexpr = 1):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x * SCALE, mask=offsets < n)


@triton.jit
def tile(x_ptr, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    x = tl.load(
        x_ptr + rows * stride + columns,
        mask=(rows < 2) & (columns < 3),
    )
    tl.store(x_ptr + tl.program_id(1), tl.program_id(2))


@triton.jit
def unmasked(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK) - 1, tl.load(x_ptr + tl.arange(0, BLOCK)))


@triton.jit
def cast(x_ptr, DTYPE: tl.constexpr, other):
    tl.store(x_ptr, tl.load(x_ptr).to(DTYPE))


@triton.jit
def described(x_desc, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    y_desc = tl.make_tensor_descriptor(y_ptr, [3, 4], [4, 1], [ROWS, COLUMNS])
    y_desc.store([tl.program_id(0) * ROWS, 0], x_desc.load([tl.program_id(0) * ROWS, 4]))


@triton.jit
def refuses(x_ptr):
    tl.store(x_ptr + tl.arange(0, 4), 1)
    tl.arange(0, 3)
"""


@pytest.fixture
def kernels(project):
    path = project.write("snippets/programs/kernels.py", KERNELS)
    spec = importlib.util.spec_from_file_location("kernels_to_trace", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_launch(kernels):
    x, y = torch.arange(10.0), torch.zeros(10)
    with trace.Launches() as launches:
        kernels.copy[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, n=10, BLOCK=4, num_warps=8, num_stages=2)
    assert torch.equal(x, y)
    (launch,) = launches.seen
    tensor = {"dtype": "float32", "shape": [10], "strides": [1], "alignment": 16}
    assert {k: v for k, v in launch.items() if k != "accesses"} == {
        "kernel": "copy",
        "file": "snippets/programs/kernels.py",
        "grid": [3, 1, 1],
        "arguments": {"x_ptr": tensor, "y_ptr": tensor, "n": 10, "BLOCK": 4, "SCALE": 1},
        "constexprs": ["BLOCK", "SCALE"],
        "options": {"num_warps": 8, "num_stages": 2},
    }


def test_a_kernel_of_a_library(kernels, monkeypatch):
    """Its file is not in the project: a launch has its name alone."""
    monkeypatch.setattr(trace, "ROOT", trace.ROOT / "another")
    with trace.Launches() as launches:
        kernels.copy[(3,)](torch.arange(10.0), torch.zeros(10), 10, 4)
    assert launches.seen[0]["file"] == "kernels.py"


def test_loads_and_stores(kernels):
    with trace.Launches() as launches:
        kernels.copy[(3,)](torch.arange(10.0), torch.zeros(10), 10, 4)
    accesses = launches.seen[0]["accesses"]
    assert [(a["pid"], a["op"], a["tensor"]) for a in accesses] == [
        ([pid, 0, 0], op, tensor) for pid in range(3) for op, tensor in (("load", "x_ptr"), ("store", "y_ptr"))
    ]
    assert accesses[4] == {
        "pid": [2, 0, 0], "op": "load", "tensor": "x_ptr", "shape": [4],
        "offsets": [8, 9, 10, 11], "mask": [True, True, False, False],
    }  # fmt: skip


def test_two_dimensions_and_strides(kernels):
    x = torch.zeros(5, 8, dtype=torch.int64)[1:3, 2:5]
    with trace.Launches() as launches:
        kernels.tile[1, 2, 3](x, x.stride(0), 2, 4)
    launch = launches.seen[0]
    assert launch["grid"] == [1, 2, 3]
    assert launch["arguments"]["x_ptr"] == {"dtype": "int64", "shape": [2, 3], "strides": [8, 1], "alignment": 16}
    loads = [access for access in launch["accesses"] if access["op"] == "load"]
    assert len(loads) == 6 and loads[0]["shape"] == [2, 4]
    assert loads[0]["offsets"] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert loads[0]["mask"] == [True, True, True, False] * 2
    stores = [access for access in launch["accesses"] if access["op"] == "store"]
    written = {(*access["pid"], *access["offsets"]) for access in stores}
    assert written == {(0, j, k, j) for j in range(2) for k in range(3)}


def test_descriptors_of_gluon_are_written_down_alike():
    hopper = pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    layout = pytest.importorskip("triton.experimental.gluon.language").NVMMASharedLayout(128, 32, rank=2)
    x = torch.zeros(16, 64)
    written = [
        trace._argument("x", made)
        for made in (TensorDescriptor.from_tensor(x, [8, 32]), hopper.TensorDescriptor.from_tensor(x, [8, 32], layout))
    ]
    assert written[0] == written[1] and written[1]["block_shape"] == [8, 32]


def test_layouts_of_gluon_are_written_down_by_name():
    language = pytest.importorskip("triton.experimental.gluon.language")
    written = trace._argument("LAYOUT", language.BlockedLayout([4], [32], [4], [0]))
    assert written["layout"].startswith("BlockedLayout(size_per_thread=[4], ")


def test_tensor_descriptors_from_the_host_and_made_in_the_kernel(kernels):
    x, y = torch.arange(24.0).view(3, 8), torch.zeros(3, 4)
    with trace.Launches() as launches:
        kernels.described[(2,)](TensorDescriptor.from_tensor(x[:, :7], [2, 4]), y, 2, 4)
    assert y.tolist() == [[4, 5, 6, 0], [12, 13, 14, 0], [20, 21, 22, 0]]
    launch = launches.seen[0]
    described = {"dtype": "float32", "shape": [3, 7], "strides": [8, 1], "alignment": 16, "block_shape": [2, 4]}
    assert launch["arguments"]["x_desc"] == described
    load, store = (access for access in launch["accesses"] if access["pid"] == [1, 0, 0])
    assert (load["op"], load["tensor"], load["shape"]) == ("load", "x_desc", [2, 4])
    assert load["offsets"] == [20, 21, 22, 23, 28, 29, 30, 31]
    assert load["mask"] == [True, True, True, False] + 4 * [False], "of what the descriptor does not hold"
    assert (store["op"], store["tensor"]) == ("store", "y_ptr")
    assert store["offsets"] == list(range(8, 16)) and store["mask"] == 4 * [True] + 4 * [False]


def test_lanes_out_of_bounds_belong_to_the_tensor_that_most_point_into(kernels):
    buffer = torch.zeros(32)
    x, y = buffer[:6], buffer[9:15]  # y is where the last lanes of x would go on
    with trace.Launches() as launches:
        kernels.unmasked[(1,)](x, y, 8)
    load, store = launches.seen[0]["accesses"]
    assert (load["tensor"], load["offsets"], load["mask"]) == ("x_ptr", list(range(8)), [True] * 8)
    assert (store["tensor"], store["offsets"]) == ("y_ptr", list(range(-1, 7)))


def test_lanes_that_are_masked_off_do_not_say_which_tensor_is_meant(kernels):
    buffer = torch.zeros(16)
    with trace.Launches() as launches:
        kernels.copy[(1,)](buffer[:3], buffer[3:], 3, 16)  # 13 of the lanes of the load point into y
    assert [access["tensor"] for access in launches.seen[0]["accesses"]] == ["x_ptr", "y_ptr"]


@pytest.mark.parametrize("start, alignment", [(0, 16), (1, 4), (2, 8), (4, 16)])
def test_alignment(kernels, start, alignment):
    with trace.Launches() as launches:
        kernels.copy[(1,)](torch.zeros(16)[start : start + 4], torch.zeros(4), 4, 4)
    assert launches.seen[0]["arguments"]["x_ptr"]["alignment"] == alignment


def test_a_dtype_as_an_argument(kernels):
    with trace.Launches() as launches:
        kernels.cast[(1,)](torch.zeros(4), tl.float16, None)
    assert launches.seen[0]["arguments"] | {"x_ptr": 0} == {"x_ptr": 0, "DTYPE": {"tl.dtype": "fp16"}, "other": None}
    with pytest.raises(SystemExit, match="cannot write down the argument 'other', a type"), trace.Launches():
        kernels.cast[(1,)](torch.zeros(4), tl.float16, int)


def test_a_tuple_as_an_argument(kernels):
    with trace.Launches() as launches:
        kernels.cast[(1,)](torch.zeros(4), tl.float16, (16, 3))
    assert launches.seen[0]["arguments"]["other"] == [16, 3]
    as_number = [compile.specialization(each) for each in (16, 3)]
    assert compile.specialization([16, 3]) == as_number and compile._argument([16, 3]) == (16, 3)


def test_a_large_launch_is_written_down_without_its_accesses(kernels):
    large = trace.TRACED_LANES
    with trace.Launches() as launches:
        for n in (large // 2, large):
            x, y = torch.ones(n), torch.zeros(n)
            kernels.copy[(1,)](x, y, n, n)
            assert torch.equal(x, y)
    just, over = launches.seen
    assert len(just["accesses"]) == 2 and over["accesses"] is None


def test_a_launch_that_fails_is_written_down(kernels):
    x = torch.zeros(4)
    with trace.Launches() as launches:
        with pytest.raises(Exception, match="power of 2"):
            kernels.refuses[(1,)](x)
        kernels.copy[(1,)](x, x, 4, 4)
    assert [(launch["kernel"], len(launch["accesses"])) for launch in launches.seen] == [("refuses", 1), ("copy", 2)]


def test_arguments_that_do_not_fit_are_refused_in_tritons_own_words(kernels):
    x = torch.zeros(4)

    def refused(**arguments):
        with pytest.raises(TypeError) as error:
            kernels.copy[(1,)](x, **arguments)
        return str(error.value)

    attempts = {"y_ptr": x}, {"y_ptr": x, "n": 4, "block": 4}
    plainly = [refused(**arguments) for arguments in attempts]
    with trace.Launches() as launches:
        assert [refused(**arguments) for arguments in attempts] == plainly
    assert launches.seen == [] and "missing" in plainly[0]


def test_nothing_is_written_down_afterwards(kernels):
    with trace.Launches() as launches:
        pass
    kernels.copy[(1,)](torch.ones(4), torch.zeros(4), 4, 4)
    assert launches.seen == []


# All of it


@pytest.fixture
def run(project, tmp_path_factory, capfd, monkeypatch):
    """Return a function that traces a snippet in this process and returns what it recorded."""

    def traced(text):
        monkeypatch.setattr(sys, "argv", [])
        monkeypatch.setattr(sys, "stdout", os.fdopen(1, "w", encoding="utf-8", closefd=False))  # pytest's is another
        snippet, result = project.snippet("it", text), tmp_path_factory.mktemp("run") / "result.json"
        try:
            trace.main(snippet.name, "cpu", str(result))
        finally:
            assert capfd.readouterr().out == "", "what a snippet prints goes into its recording alone"
        return json.loads(result.read_text("utf-8"))

    return traced


def test_output_also_from_below_python(run, project):
    seen = run("""\
import os, subprocess
print("from Python", flush=True)
os.write(1, b"from a file descriptor\\n")
subprocess.run(["echo", "from a child"], check=True)
print(__file__, "caf\u00e9", flush=True)
os.write(1, b"\\xff\\n")
""")
    expected = ["from Python", "from a file descriptor", "from a child", "snippets/programs/it.py café", "\ufffd"]
    assert seen["output"].splitlines() == expected


def test_a_snippet_sees_no_arguments_of_the_recorder(run, project):
    assert run("import sys\nprint(sys.argv)\n")["output"] == "['snippets/programs/it.py']\n"


def test_pictures_are_those_that_it_writes_where_it_runs(run):
    text = "from pathlib import Path\nPath('a.png').write_bytes(b'123')\nPath('b.txt').write_text('')\n"
    assert run(text)["pictures"] == {"a.png": "MTIz"}


@pytest.mark.parametrize("code", ["0", "", "None"])
def test_a_snippet_that_ends_early_says_so(run, code):
    with pytest.raises(SystemExit, match=r"snippets/programs/it\.py ended by SystemExit; let main\(\) return instead"):
        run(f"print(1)\nraise SystemExit({code})\n")


@pytest.mark.parametrize("code", [3, "for a reason"])
def test_a_snippet_that_fails_says_so_itself(run, code):
    with pytest.raises(SystemExit) as ended:
        run(f"raise SystemExit({code!r})\n")
    assert ended.value.code == code


def test_benchmarks():
    calls = []

    def measure(n, m, provider, scale):
        """What it counts."""
        calls.append((n, m, provider))
        return (n * scale, 1, 2) if provider == "a" else n + m

    benchmark = triton.testing.Benchmark(
        plot_name="speed", x_names=["n", "m"], x_vals=[4, (8, 2)], x_log=True, xlabel="elements", ylabel="GB/s",
        line_arg="provider", line_vals=["a", "b"], line_names=["A", "B"], args={"scale": 10},
    )  # fmt: skip
    (table,) = trace.benchmarks({"f": triton.testing.perf_report(benchmark)(measure), "other": 1})
    assert table == {
        "name": "speed", "doc": "What it counts.", "x": ["n", "m"], "xlabel": "elements", "ylabel": "GB/s",
        "x_log": True, "y_log": False, "lines": {"a": "A", "b": "B"},
        "rows": [
            {"x": [4, 4], "y": {"a": [40.0, 1.0, 2.0], "b": [8.0]}},
            {"x": [8, 2], "y": {"a": [80.0, 1.0, 2.0], "b": [10.0]}},
        ],
    }  # fmt: skip
    assert calls == [(4, 4, "a"), (4, 4, "b"), (8, 2, "a"), (8, 2, "b")]


def test_a_benchmark_whose_lines_are_called_as_its_sizes():
    benchmark = triton.testing.Benchmark(["rows"], [1], line_arg="side", line_vals=["rows"], line_names=["Rows"],
                                         plot_name="tiles", args={})  # fmt: skip
    with pytest.raises(SystemExit, match=r"'tiles' uses \{'rows'\} both"):
        trace.benchmarks({"f": triton.testing.perf_report(benchmark)(lambda **arguments: 1.0)})


@pytest.mark.parametrize(
    "name, spelled",
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("AMD Instinct MI300X", "instinct-mi300x"),
    ],
)
def test_names_of_devices(monkeypatch, name, spelled):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    assert trace.device_name() == spelled


def test_the_version_of_cublas_is_that_of_the_loaded_library(monkeypatch, tmp_path):
    """Without one it is the package's version; without either, None."""
    answers = {0: 13, 1: 1, 2: 0}

    def get(which, into):
        into._obj.value = answers[which]
        return failed

    failed, opened = 0, []
    library = SimpleNamespace(cublasGetProperty=get)
    monkeypatch.setattr(trace.ctypes, "CDLL", lambda path: opened.append(path) or library)
    monkeypatch.setattr(trace.importlib.metadata, "version", lambda package: {"nvidia-cublas": "13.0.2.14"}[package])
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 0 00:01 7   /lib/libc.so.6\n7f02-7f03 r-xp 0 00:01 8   /x/lib/libcublas.so.13\n")
    assert trace._cublas(maps) == "13.1.0" and opened == ["/x/lib/libcublas.so.13"]
    failed = 1
    assert trace._cublas(maps) == "13.0.2.14"
    assert trace._cublas(tmp_path / "none") == "13.0.2.14"

    def missing(package):
        raise trace.importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(trace.importlib.metadata, "version", missing)
    assert trace._cublas(tmp_path / "none") is None


def test_provenance_names_versions_as_their_makers_do():
    made = trace.provenance("cpu")
    assert made["device"] == "CPU, Triton's interpreter"
    assert made["triton"] == triton.__version__ and made["torch"] == torch.__version__.split("+")[0]
