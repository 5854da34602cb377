# SPDX-License-Identifier: Apache-2.0
"""List which Triton each torch asks for, and for which systems there are wheels: asked of PyPI, over the network.

The list of a package's files comes from PyPI's simple index, as for pip. What a torch asks for stands in its wheel, in
``METADATA``; a wheel is a ZIP archive, so a few short pieces of the 500 MB are enough to read that.
Needs Python alone. The answers change when something is published.
"""

import io
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from email.parser import HeaderParser
from urllib.request import Request, urlopen

INDEX = "https://pypi.org/simple"
SINCE = (2, 6)  # the oldest torch to list
SYSTEMS = {"manylinux": "Linux", "macosx": "macOS", "win": "Windows"}


def wheels(package: str, index: str = INDEX) -> dict[str, list[tuple[str, str]]]:
    """Return the wheels of each release of a package, oldest release first: their file names and addresses."""
    with urlopen(f"{index}/{package}/", timeout=60) as answer:
        links = re.findall(r'<a href="([^"#]+)[^>]*>([^<]+\.whl)</a>', answer.read().decode())
    found = {}
    for address, name in links:
        found.setdefault(name.split("-")[1], []).append((name, address))
    final = [version for version in found if re.fullmatch(r"[\d.]+(\.post\d+)?", version)]
    return {version: found[version] for version in sorted(final, key=numbers)}


def numbers(version: str) -> tuple[int, ...]:
    """
    >>> numbers("2.10.0") > numbers("2.9.1")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", version))


class Remote(io.RawIOBase):
    """A file on a server, of which only the pieces that are read are fetched."""

    def __init__(self, address: str):
        self.address, self.position = address, 0
        self.size = int(self._piece(0, 0)[1].rpartition("/")[2])

    def _piece(self, first: int, last: int) -> tuple[bytes, str]:
        with urlopen(Request(self.address, headers={"Range": f"bytes={first}-{last}"}), timeout=60) as answer:
            if answer.status != 206:
                raise OSError(f"{self.address} cannot be read in pieces")
            return answer.read(), answer.headers["Content-Range"]

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + {0: 0, 1: self.position, 2: self.size}[whence]
        return self.position

    def tell(self) -> int:
        return self.position

    def readinto(self, buffer) -> int:
        last = min(self.position + len(buffer), self.size) - 1
        if last < self.position:
            return 0
        piece, _ = self._piece(self.position, last)
        buffer[: len(piece)] = piece
        self.position += len(piece)
        return len(piece)


def requirement(wheel: str) -> str:
    """Return what a torch asks for, from its wheel's address: the line of its METADATA that names Triton."""
    with zipfile.ZipFile(io.BufferedReader(Remote(wheel), 2**16)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    return next((line for line in metadata.get_all("Requires-Dist", []) if line.startswith("triton")), "no Triton")


def short(line: str) -> tuple[str, str]:
    """Return a requirement, and the systems it is for.

    >>> short('triton (==3.2.0) ; platform_system == "Linux" and platform_machine == "x86_64"')
    ('triton==3.2.0', 'Linux x86_64')
    """
    asked, _, where = line.partition(";")
    names = re.findall(r'platform_(?:system|machine) == "(\w+)"', where)
    return re.sub(r"[()\s]", "", asked) if where else line, " ".join(names)


def platforms(names: list[str]) -> str:
    """Return the systems that the names of wheels stand for.

    >>> platforms(["torch-2.15.0-cp312-cp312-win_amd64.whl", "torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl"])
    'Linux x86_64, Windows amd64'
    """
    found = set()
    for name in names:
        tag = name.removesuffix(".whl").rpartition("-")[2].split(".")[-1]
        system = next(title for start, title in SYSTEMS.items() if tag.startswith(start))
        found.add(f"{system} {re.search(r'(x86_64|aarch64|amd64|arm64)$', tag)[1]}")
    return ", ".join(sorted(found))


def pythons(names: list[str]) -> str:
    """Return the versions of Python that wheels are for.

    >>> pythons(["triton-3.9.0-cp312-abi3-manylinux_2_28_x86_64.whl", "triton-3.9.0-cp311-cp311-linux_x86_64.whl"])
    '3.11 and newer'
    """
    minors = sorted({int(minor) for name in names for minor in re.findall(r"-cp3(\d+)-", name)})
    return f"3.{minors[0]} and newer" if any("-abi3-" in name for name in names) else f"3.{minors[0]} to 3.{minors[-1]}"


def pip_says(platform: str) -> str:
    """Return the errors of ``pip install triton`` on another system, which pip can be told to prepare for."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["download", "triton", "--no-deps", "--only-binary=:all:", f"--platform={platform}", "--dest", folder]
        done = subprocess.run([sys.executable, "-m", "pip", *command], capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return "\n".join(textwrap.fill(line, 72, subsequent_indent="    ") for line in errors) or "installed"


def main():
    torch, triton, windows = (wheels(package) for package in ("torch", "triton", "triton-windows"))
    print("## torch and Triton")
    print(f"{'torch':<9}{'asks for':<16}{'on':<14}Python")
    for version in [version for version in torch if numbers(version)[:2] >= SINCE][::-1]:
        linux = [(name, address) for name, address in torch[version] if "manylinux" in name and "x86_64" in name]
        asked, where = short(requirement(linux[-1][1]))
        print(f"{version:<9}{asked:<16}{where:<14}{pythons([name for name, _ in linux])}", flush=True)
    print("## wheels")
    for package, releases in {"torch": torch, "triton": triton, "triton-windows": windows}.items():
        version, files = list(releases.items())[-1]
        names = [name for name, _ in files]
        print(f"{package} {version}\n    {platforms(names)}; Python {pythons(names)}")
    for title, platform in {"macOS": "macosx_14_0_arm64", "Windows": "win_amd64"}.items():
        print(f"## pip on {title}\n{pip_says(platform)}")


if __name__ == "__main__":
    main()
