# SPDX-License-Identifier: Apache-2.0
"""Fetch packages from the registry of npm at build time. The repository holds none of them, only their digests."""

import base64
import hashlib
import io
import os
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

REGISTRY = "https://registry.npmjs.org"
SECONDS = 20  # until a registry that does not answer is given up


class Package(NamedTuple):
    address: str
    integrity: str  # as npm spells it


class Missing(Exception):
    """Why something cannot be had."""


def keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: another build may do the same."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


def fetch(package: Package) -> bytes:
    """Return a package of the registry. What has another digest than the pinned one is not looked into."""
    try:
        with urllib.request.urlopen(f"{REGISTRY}/{package.address}", timeout=SECONDS) as answer:
            packed = answer.read()
    except OSError as error:
        raise Missing(f"{REGISTRY} does not answer ({error})") from error
    if digest(packed) != package.integrity:
        raise Missing(f"{package.address} is not what it was, by its digest")
    return packed


def digest(packed: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(packed).digest()).decode()}"


def member(packed: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        return files.extractfile(f"package/{name}").read()
