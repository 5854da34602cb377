# SPDX-License-Identifier: Apache-2.0
"""What PyPI is asked, tried on a small index of our own: no test needs the network."""

import http.server
import io
import random
import threading
import zipfile
from functools import partial

import pytest

from snippets.start import install_versions as versions

ASKS = 'triton==3.7.1; platform_system == "Linux" and platform_machine == "x86_64"'


class Server(http.server.SimpleHTTPRequestHandler):
    """Files by pieces, as PyPI serves them; ``pieces`` counts the bytes that were sent."""

    pieces = 0

    def do_GET(self):
        if "Range" not in self.headers or "whole" in self.path:
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[first : last + 1])
        Server.pieces += last + 1 - first

    def log_message(self, *arguments):
        pass


@pytest.fixture
def index(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def wheel(folder, name, requires):
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("torch/large.bin", random.Random(0).randbytes(1_000_000))
        lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
        archive.writestr("torch-2.13.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: torch\n{lines}\n")


def test_a_requirement_is_read_in_a_few_pieces(index):
    folder, address = index
    wheel(folder, "torch.whl", ["sympy", ASKS])
    Server.pieces = 0
    assert versions.requirement(f"{address}/torch.whl") == ASKS
    assert Server.pieces < 300_000
    wheel(folder, "cpu.whl", ["sympy"])
    assert versions.requirement(f"{address}/cpu.whl") == "no Triton"


def test_a_file_in_pieces(index):
    folder, address = index
    data = random.Random(1).randbytes(1000)
    (folder / "file").write_bytes(data)
    remote = versions.Remote(f"{address}/file")
    assert remote.size == 1000 and remote.seek(-10, io.SEEK_END) == 990
    assert remote.read(100) == data[990:] and remote.read(1) == b"" and remote.tell() == 1000
    remote.seek(5)
    assert remote.seek(5, io.SEEK_CUR) == 10 and remote.read(3) == data[10:13]
    (folder / "whole").write_bytes(data)
    with pytest.raises(OSError, match="in pieces"):
        versions.Remote(f"{address}/whole")


def test_releases_in_order(index):
    folder, address = index
    (folder / "toy").mkdir()
    names = ["toy-2.10.0-cp310-cp310-win_amd64.whl", "toy-2.9.1-cp310-cp310-win_amd64.whl", "toy-2.9.1.tar.gz"]
    names += ["toy-3.0.0rc1-cp310-cp310-win_amd64.whl", "toy-2.9.1.post2-cp311-cp311-win_amd64.whl"]
    links = "".join(f'<a href="https://x/{name}#sha256=0" data-requires-python="&gt;=3">{name}</a>\n' for name in names)
    (folder / "toy" / "index.html").write_text(links)
    found = versions.wheels("toy", address)
    assert list(found) == ["2.9.1", "2.9.1.post2", "2.10.0"]
    assert found["2.10.0"] == [(names[0], f"https://x/{names[0]}")]


def test_what_is_printed(monkeypatch, capsys):
    files = {
        "torch": {v: [(f"torch-{v}-cp312-cp312-manylinux_2_28_x86_64.whl", v)] for v in ("2.5.1", "2.6.0", "2.13.0")},
        "triton": {"3.9.0": [("triton-3.9.0-cp312-abi3-manylinux_2_28_aarch64.whl", "")]},
        "triton-windows": {"3.8.0": [("triton_windows-3.8.0-cp310-cp310-win_arm64.whl", "")]},
    }
    monkeypatch.setattr(versions, "wheels", files.get)
    asked = {"2.6.0": "triton (==3.2.0) ; python_version < '3'", "2.13.0": ASKS}
    monkeypatch.setattr(versions, "requirement", asked.get)
    monkeypatch.setattr(versions, "pip_says", lambda platform: f"ERROR: {platform}")
    versions.main()
    assert capsys.readouterr().out.splitlines() == [
        "## torch and Triton",
        "torch    asks for        on            Python",
        "2.13.0   triton==3.7.1   Linux x86_64  3.12 to 3.12",
        "2.6.0    triton==3.2.0                 3.12 to 3.12",
        "## wheels",
        "torch 2.13.0",
        "    Linux x86_64; Python 3.12 to 3.12",
        "triton 3.9.0",
        "    Linux aarch64; Python 3.12 and newer",
        "triton-windows 3.8.0",
        "    Windows arm64; Python 3.10 to 3.10",
        "## pip on macOS",
        "ERROR: macosx_14_0_arm64",
        "## pip on Windows",
        "ERROR: win_amd64",
    ]


def test_pip_is_asked_for_another_system(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert versions.pip_says("win_amd64").endswith("ERROR: No matching distribution found for triton")
