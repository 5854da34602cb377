# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that brings the faces of text and code: from the registry of npm, cut down to what pages need.

The repository holds no face. The first build fetches the packages, whose digests are pinned here, and keeps what it
cuts under ``.cache/faces``. Where they cannot be had, it says so in one line, and pages have the system's faces: the
styles name those, too, and sizes are made to agree. The licence of the faces, the SIL Open Font License, lies beside
them in the site; what is cut bears another name, as it asks.
"""

import hashlib
import io
import logging
from pathlib import Path
from typing import NamedTuple

from recorder.project import ROOT
from render.mkdocs.npm import Missing, Package, fetch, keep, member

CACHE = ROOT / ".cache/faces"
FOLDER = "assets/faces"
log = logging.getLogger("mkdocs.faces")  # below mkdocs', which shows it, and with --strict stops at warnings

LETTERS = [*range(0x20, 0x7F), *range(0xA0, 0x100)]
SIGNS = [ord(sign) for sign in "–—‘’“”…†•‖′″⁰ⁱ⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉ˣᵀᵏ←↑→↓−√∞≈≠≤≥ΣΦΔλμπσ■○▸▾✓✗"]
BOXES = [*range(0x2500, 0x25A0)]


SANS = Package(
    "source-sans/-/source-sans-3.52.0.tgz",
    "sha512-xsm7qlMI/JwxwNdp6pvpR6l+aZjn90fzOzoeUz/qoohIYbKbDwQNRIz5/ItYs7/hvqLirQNUoDFGXSVA3TU9tw==",
)
MONO = Package(
    "source-code-pro/-/source-code-pro-2.42.0.tgz",
    "sha512-18isp9l4xtOL3r61TwL9m1hjYX9qb1+i7iK0pSHEeWADKuQCOdQkBzhFiv8pBfOP7u9lNTBN75yYif2HUdyiyg==",
)


class Face(NamedTuple):
    family: str  # by which tokens.css names it
    package: Package
    file: str
    weights: tuple[int, int]
    characters: list[int]
    style: str = "normal"
    size: str = "100%"  # so that it looks as large as the system's faces of the same size

    @property
    def name(self) -> str:
        """Return the name of its file, which changes with what is in it."""
        return f"{self.family}-{self.style}-{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}.woff2".lower()

    @property
    def rule(self) -> str:
        """Return the rule of CSS. A page does not wait: it is shown in the system's face, and changes once."""
        weights = " ".join(map(str, sorted(set(self.weights))))
        return (
            f'@font-face{{font-family:"{self.family}";font-style:{self.style};font-weight:{weights};font-display:fallback;'
            f'size-adjust:{self.size};src:url(faces/{self.name})format("woff2")}}\n'
        )


FACES = (
    Face("Course-Text", SANS, "VF/SourceSans3VF-Upright.ttf", (400, 700), LETTERS + SIGNS, size="108%"),
    Face("Course-Text", SANS, "VF/SourceSans3VF-Italic.ttf", (400, 400), LETTERS[:95] + SIGNS[:8], "italic", "108%"),
    Face("Course-Code", MONO, "VF/SourceCodeVF-Upright.ttf", (400, 600), LETTERS + SIGNS + BOXES),
)
LICENSE = "OFL.txt"
# The system's faces until ours is there, as wide and as high as it is, so that no line of text moves when it comes.
STAND_INS = """\
@font-face{font-family:"Course-Text-Arial";src:local("Arial"),local("Liberation Sans"),local("Helvetica");\
size-adjust:100.2%;ascent-override:107.8%;descent-override:35.1%;line-gap-override:0%}
@font-face{font-family:"Course-Text-DejaVu";src:local("DejaVu Sans");\
size-adjust:88.1%;ascent-override:122.6%;descent-override:40%;line-gap-override:0%}
"""


def on_env(env, **_):
    """Make the faces before there are pages, whose heads name the first of them."""
    env.globals["faces"] = [f"{FOLDER}/{face.name}" for face in FACES] if made() else []


def on_post_build(config, **_):
    """Put the faces into the site, and their rules into its first style sheet: no page asks for another one."""
    if not made():
        return
    folder = Path(config.site_dir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (LICENSE, *(face.name for face in FACES)):
        (folder / name).write_bytes((CACHE / name).read_bytes())
    styles = Path(config.site_dir, "assets/tokens.css")
    rules = "".join(face.rule for face in FACES)
    styles.write_text(rules + STAND_INS + styles.read_text("utf-8"), "utf-8")


def on_startup(**_):
    """Make them now, so that the one line about what is missing stands at the top."""
    try:
        make()
    except Missing as reason:
        log.info(f"Pages have the system's faces: {reason}.")


def made() -> bool:
    return all((CACHE / name).exists() for name in (LICENSE, *(face.name for face in FACES)))


def make() -> None:
    """Make what is not in the cache, or raise ``Missing``."""
    if made():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    fetched = {package: fetch(package) for package in dict.fromkeys(face.package for face in FACES)}
    for face in FACES:
        if not (CACHE / face.name).exists():
            keep(CACHE / face.name, cut(face, member(fetched[face.package], face.file)))
    keep(CACHE / LICENSE, b"\n\n".join(member(packed, "LICENSE.md") for packed in fetched.values()))


def cut(face: Face, whole: bytes) -> bytes:
    """Return a face with the characters and weights that pages need, compressed for the web."""
    try:
        import brotli  # noqa: F401  that fontTools needs for this
        from fontTools import subset
        from fontTools.ttLib import TTFont
        from fontTools.varLib import instancer
    except ImportError as error:
        raise Missing(f"{error.name} is not installed") from error
    font = TTFont(io.BytesIO(whole))
    options = subset.Options(hinting=False, layout_features=["ccmp", "kern", "mark", "tnum", "lnum"])
    options.name_IDs = []
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=face.characters)
    cutter.subset(font)
    low, high = face.weights
    font = instancer.instantiateVariableFont(font, {"wght": low if low == high else (low, high)})
    for kind in (1, 4, 6):
        font["name"].setName(face.family, kind, 3, 1, 0x409)
    font["name"].setName("SIL Open Font License 1.1, in OFL.txt. Made from a face of Adobe's.", 13, 3, 1, 0x409)
    font.flavor = "woff2"
    done = io.BytesIO()
    font.save(done)
    return done.getvalue()
