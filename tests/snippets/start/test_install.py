# SPDX-License-Identifier: Apache-2.0
"""The check finds what is wrong with an installation and nothing else, also where torch and Triton are missing."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.start import install

SOURCE = Path(install.__file__)
GPU = {
    "system": "Linux", "machine": "x86_64", "python": "3.12.4", "interpret": False, "compiler": "/usr/bin/gcc",
    "driver": "NVIDIA 580.1", "visible": None, "packages": {"triton": "3.6.0"}, "numpy": "2.4.6", "torch": "2.11.0",
    "built_for": "CUDA 13.0", "asks_for": "triton==3.6.0", "refusal": None, "gpu": "NVIDIA H200",
    "capability": (9, 0), "triton": "3.6.0", "broken": None, "kernel": 100,
}  # fmt: skip
CPU = GPU | {
    "driver": None, "built_for": None, "asks_for": None, "gpu": None, "capability": None, "compiler": None,
    "packages": {"triton": "3.7.1"}, "triton": "3.7.1",
}  # fmt: skip
NOTHING = CPU | {"torch": None, "triton": None, "packages": {}, "kernel": None}
TWO = {"triton": "3.6.0", "triton-rocm": "3.6.0"}
NUMPY = "TypeError: only 0-dimensional arrays can be converted to Python scalars"


def test_nothing_is_wrong():
    for found in (GPU, CPU, CPU | {"asks_for": "triton~=3.7.0"}, GPU | {"interpret": True, "compiler": None}):
        assert install.faults(found) == []
        assert install.report(found)[8] == "All is well."
    assert "TRITON_INTERPRET=1" in install.report(CPU)[-1]
    assert "Unset it" in install.report(GPU | {"interpret": True})[-1]
    assert "without tensor cores" in install.report(GPU | {"capability": (7, 5)})[-1]
    assert install.report(GPU)[-1] == "All is well."
    assert "GPU      NVIDIA H200, compute capability 9.0" in install.report(GPU)


@pytest.mark.parametrize(
    "found, fault, mend",
    [
        (NOTHING | {"triton": "3.7.1"}, "torch is not installed", "install torch"),
        (NOTHING | {"torch": "2.13.0"}, "Triton is not installed", 'install "triton"'),
        (NOTHING | {"torch": "2.13.0", "asks_for": "triton==3.7.1"}, "Triton is not", 'install "triton==3.7.1"'),
        (NOTHING | {"torch": "2.13.0", "system": "Windows"}, "no Triton for Windows", "triton-windows"),
        (NOTHING | {"torch": "2.13.0", "system": "Darwin"}, "no Triton for Darwin", "Colab"),
        (NOTHING | {"torch": "2.13.0", "broken": "`import triton` finds the folder /x"}, "/x", "rename"),
        (NOTHING | {"torch": "2.13.0", "broken": "OSError: no"}, "OSError: no", "--force-reinstall"),
        (CPU | {"driver": "NVIDIA 580.1"}, "built for the CPU only", "pytorch.org"),
        (GPU | {"gpu": None, "refusal": "too old"}, "too old", "a newer driver"),
        (GPU | {"gpu": None}, "does not see the GPU", "a newer driver"),
        (GPU | {"gpu": None, "visible": ""}, "CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"),
        (GPU | {"packages": TWO}, "triton triton-rocm are installed", "uninstall --yes triton triton-rocm, then"),
        (GPU | {"packages": {"triton": "3.7.1"}}, "triton 3.7.1 is installed, but Python finds Triton 3.6.0", "=3.6.0"),
        (GPU | {"triton": "3.9.0", "packages": {"triton": "3.9.0"}}, "asks for triton==3.6.0; Triton 3.9.0", "=3.6.0"),
        (GPU | {"compiler": None}, "C compiler", "gcc"),
        (CPU | {"numpy": None}, "needs NumPy", "install numpy"),
        (CPU | {"kernel": NUMPY, "triton": "3.6.0", "packages": {"triton": "3.6.0"}}, NUMPY, '"numpy<2.4"'),
        (CPU | {"kernel": NUMPY}, NUMPY, "issues"),
        (GPU | {"kernel": 99}, "the kernel: 99", "issues"),
    ],
)
def test_a_fault_and_its_mend(found, fault, mend):
    [(what, how)] = install.faults(found)
    assert fault in what and mend in how
    assert f"WRONG    {what}" in install.report(found)


def test_what_torch_asks_for():
    lines = ["numpy; extra == 'x'", "triton-rocm~=3.7.1; platform_system == 'Linux'"]
    assert install.wanted(lines) == "triton-rocm~=3.7.1"
    assert install.wanted(["triton==3.6.0"]) == "triton==3.6.0" and install.wanted(["tritonclient==2"]) is None
    assert install.satisfies("3.6.0+git1", "triton==3.6.0") and not install.satisfies("3.6.1", "triton==3.6.0")
    assert not install.satisfies("3.7.1", "triton~=3.8.0") and install.satisfies("3.7.1", "triton>=3.6")


def test_it_looks_at_what_is_there(monkeypatch):
    versions = {"triton": "3.9.0", "triton-rocm": "3.6.0", "numpy": "2.4.6"}
    monkeypatch.setattr(install, "_version", versions.get)
    monkeypatch.setattr(install, "_kernel_in_its_own_process", lambda gpu, interpret: (gpu, interpret))
    monkeypatch.setattr(importlib.metadata, "requires", lambda package: ["triton==3.6.0"])
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    found = install.look()
    assert found["packages"] == {"triton": "3.9.0", "triton-rocm": "3.6.0"} and found["asks_for"] == "triton==3.6.0"
    assert found["kernel"] == (torch.cuda.is_available(), True)
    assert found["torch"] == torch.__version__.split("+")[0] and found["refusal"] is None


@pytest.mark.parametrize("n", [0, 1, 4, 5, 8, 11])
def test_the_kernel(device, n):
    x = Guarded.around(torch.arange(1.0, n + 1, device=device), before=16, after=16, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=16, after=16, fill=0x5A)
    launch = lambda: install.double_kernel[(1,)](x.tensor, out.tensor, n, BLOCK=4)
    if device == "cuda":
        launch()
    else:
        with recorded_accesses() as accesses:
            launch()
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    assert out.tensor.tolist() == [2.0 * i for i in range(1, n + 1)]
    x.check("x"), out.check("out")


def test_the_kernel_is_counted(device):
    assert install.run_kernel(device) == 100


def test_what_no_kernel_wrote_is_not_counted(monkeypatch):
    monkeypatch.setattr(install, "double_kernel", kernel := mock.MagicMock())
    assert install.run_kernel("cpu") == 0
    (x, out, n), _ = kernel[(1,)].call_args
    assert x.dtype == out.dtype == torch.float32 and len(x) == len(out) == n


def run(*options, **more):
    call = [sys.executable, *options, SOURCE]
    return subprocess.run(call, env=environment("cuda", **more), capture_output=True, text=True)


def test_without_a_gpu_it_tries_the_interpreter():
    done = run(CUDA_VISIBLE_DEVICES="")
    where = "Kernel   100 of 100 results right, in the interpreter, on the CPU"
    assert where in done.stdout.splitlines(), done.stdout + done.stderr


def test_without_torch_and_triton_it_still_speaks():
    done = run("-S", PYTHONPATH="")
    assert done.returncode == 1 and done.stderr == ""
    assert "WRONG    torch is not installed" in done.stdout and "WRONG    Triton is not installed" in done.stdout


def test_a_folder_called_triton(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "install.py").write_text(SOURCE.read_text("utf-8"), "utf-8")
    done = subprocess.run([sys.executable, "-S", tmp_path / "install.py"], capture_output=True, text=True)
    assert done.returncode == 1 and f"finds the folder {tmp_path / 'triton'}" in done.stdout


@pytest.mark.gpu
def test_on_a_gpu():
    done = run()
    assert "Kernel   100 of 100 results right, compiled, on the GPU" in done.stdout.splitlines(), done.stdout
