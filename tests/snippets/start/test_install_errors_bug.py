# SPDX-License-Identifier: Apache-2.0
"""Each error is still made, and says what the page says that it says; what is written now instead is accepted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.start import install_errors_bug as errors

SOURCE = Path(errors.__file__)
NO_DRIVER = "RuntimeError: 0 active drivers ([]). There should only be one."


def run(*pieces, **more):
    """What each line of a child process that runs these pieces, compiled, is followed by."""
    call = [sys.executable, SOURCE, "--pieces", *pieces]
    done = subprocess.run(call, env=environment("cuda", **more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, name = {}, ""
    for line in done.stdout.splitlines():
        if line.startswith("    "):
            said[name] = f"{said[name]} {line.strip()}".strip()
        elif line.startswith("  now "):
            said[name + " now"] = line.strip()
        else:
            name = line.strip()
            said[name] = ""
    return said


def test_each_error_without_a_gpu():
    said = run("no_gpu", "asks_the_driver", "no_file", "old_names", "set_too_late", CUDA_VISIBLE_DEVICES="")
    for asks in ("kernel[grid](cpu_tensor)", "do_bench(f)", "driver.active.get_active_torch_device()"):
        assert said[asks] == NO_DRIVER
    no_gpu = ("Torch not compiled with CUDA enabled", "No CUDA GPUs are available")
    assert said['torch.ones(3, device="cuda")'].endswith(no_gpu)
    assert said["exec(text)"] == "ValueError: @jit functions should be defined in a Python file"
    assert said["add_one"] == "accepted"
    assert said["add_up"] == "RuntimeError: Cannot call @triton.jit'd outside of the scope of a kernel"
    for old, (_, now, _) in errors.OLD_AND_NOW.items():
        assert "Error: " in said[old] or old == "tl.make_block_ptr"
        assert said[f"{old} now"] == f"now accepted: {now}"
    assert "no attribute 'libdevice'" in said["tl.libdevice.tanh(x)"]
    assert "Cannot access global variable SCALE" in said["SCALE = 2.0, used in a kernel"]
    assert "'percentiles'" in said["do_bench(f, percentiles=[0.5])"]
    assert said["import triton.ops"] == "ModuleNotFoundError: No module named 'triton.ops'"


def test_without_numpy(capfd):
    errors.in_a_process("without_NumPy", without="numpy", TRITON_INTERPRET="1")
    assert capfd.readouterr().out == "## without NumPy\nModuleNotFoundError: No module named 'numpy'\n"


def test_what_pip_says_of_another_triton(capfd):
    errors.another_triton()
    install, check = " ".join(capfd.readouterr().out.split()).split("pip check")
    assert install.startswith("pip install ERROR: ") and "you have triton 3.9.0 which is incompatible" in install
    assert check.startswith(" torch 2.11.0 has requirement triton==3.6.0")


def test_the_check_is_asked(capfd, monkeypatch):
    monkeypatch.setattr("snippets.start.install.__file__", "/dev/null")
    errors.the_check()
    assert capfd.readouterr().out == "\n"


def test_links_leave_one_package_out(tmp_path, monkeypatch):
    places = [tmp_path / "a" / "site-packages", tmp_path / "b" / "dist-packages", tmp_path / "c"]
    for place in places:
        for name in ("numpy", "numpy.libs", "numpy-2.4.6.dist-info", "numpy_more", "torch"):
            (place / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(place) for place in places])
    (tmp_path / "links").mkdir()
    copies = errors._links(tmp_path / "links", "numpy")
    assert [sorted(os.listdir(copy)) for copy in copies] == [["numpy_more", "torch"]] * 2


def test_the_essential_line_of_a_message():
    assert errors.essential('at 1:2:\ndef f(x):\n      ^\nNameError("no")') == 'NameError("no")'
    assert errors.essential("first\nsecond") == "first" and errors.essential("") == ""
    assert errors.essential(f"First. {'x' * 300}") == "First. …"


def test_a_loop_in_the_interpreter(device):
    x = torch.zeros(12, device=device)
    errors.loop_bug[(1,)](x, 8, BLOCK=4)
    assert x.tolist() == [1.0] * 8 + [0.0] * 4


@pytest.mark.gpu
def test_each_error_on_a_gpu(capfd):
    assert "cannot be accessed from Triton (cpu tensor?)" in run("cpu_tensor")["kernel[grid](cpu_tensor)"]
    errors.in_a_process("without_a_C_compiler", PATH="/nowhere", CC=None)
    assert "Failed to find C compiler" in capfd.readouterr().out
