# SPDX-License-Identifier: Apache-2.0
"""The package's wheel, installed into an empty folder: what serves a call, and with Triton gone."""

import zipfile

import pytest

from snippets.pytorch import package as snippet


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, and the folder that it is installed in."""
    folder = tmp_path_factory.mktemp("package")
    installed = folder / "installed"
    return snippet.install(snippet.copy_package(folder), installed), installed


def called(machine, built, tmp_path) -> dict[str, str]:
    said = snippet.call_on(machine, built[1], tmp_path / "here")
    return dict(line.split(": ", 1) for line in said.splitlines())


@pytest.mark.long
def test_the_wheel_holds_the_modules_and_no_tests(built):
    names = zipfile.ZipFile(built[0]).namelist()
    modules = {f"rownorm/{name}.py" for name in ("__init__", "ops", "kernels")}
    assert {name for name in names if ".dist-info/" not in name} == modules
    assert any(name.endswith("licenses/LICENSE") for name in names)


FALLBACK = "ops.py rms_norm, ops.py check, ops.py rms_norm_op, ops.py in_torch"


@pytest.mark.parametrize("kind", ["laptop, no GPU", "macOS or Windows"])
def test_a_cpu_is_served_by_pytorch(kind, built, tmp_path):
    said = called(snippet.MACHINES[kind], built, tmp_path)
    assert said == {"imported": "__init__.py, ops.py", "ran": FALLBACK, "result": "as PyTorch's"}


@pytest.mark.parametrize("kind", ["CI, interpreter", "CI, torch.compile"])
def test_the_interpreter_is_served_by_the_kernel(kind, built, tmp_path):
    said = called(snippet.MACHINES[kind], built, tmp_path)
    last = ["ops.py by_kernel", "ops.py import_kernels", "kernels.py launch", "kernels.py rms_norm_kernel"]
    assert said["ran"].split(", ")[-4:] == last
    assert said["result"] == "as PyTorch's"


def test_the_kernel_without_triton_is_refused_in_words(built, tmp_path):
    said = called(snippet.MACHINES["interpreter, no Triton"], built, tmp_path)
    why = "RuntimeError: rownorm's kernel needs Triton, which can't be imported here (No module named 'triton'); "
    assert said["result"].startswith(f"{why}install it, or call rownorm on the CPU")
    assert "kernels.py" not in said["imported"]


def test_says_where_the_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(SystemExit, match="run this in the top folder of a checkout"):
        snippet.copy_package(tmp_path)
