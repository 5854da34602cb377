# SPDX-License-Identifier: Apache-2.0
"""Find the instruction on a line of a compiler's stage, and what it does (``instructions.toml``)."""

import re
import tomllib
from functools import cache
from pathlib import Path

GLOSSARY = Path(__file__).with_name("instructions.toml")
IR = r'^\s+(?:%[\w:#, %]+ = )?"?([a-z]\w*\.\w+)|^#\w+ = #(\w+\.\w+)'
NAMES = {  # where a line has its instruction's name; a line without one is a heading, a comment or a bracket
    "ttir": IR,
    "ttgir": IR,
    "llir": r"^\s+(?:%\S+ = )?(?:tail )?(?:call [^@]*?(?:(asm)|@([\w.]+))|(\w+))",
    "ptx": r"^\s+(?:@!?%\w+ )?([a-z]\w*(?:[.:]+\w+)*)",
    "sass": r"/\*\w+\*/\s+(?:@!?\w+ )?([A-Z][\w.]*)",
    "amdgcn": r"^\s+((?:[sv]|buffer|ds|global)_\w+)",
}
HEADINGS = {"tt.func", "NOP", "s_nop"}  # the signature, and what only fills up


def find(stage: str, text: str) -> tuple[int, int] | None:
    """Return where the name of a line's instruction begins and ends.

    >>> find("ptx", "    @%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];")
    (9, 22)
    >>> find("ptx", "    // begin inline asm")
    """
    match = re.search(NAMES[stage], text)
    if not match or match[match.lastindex] in HEADINGS:
        return None
    return match.span(match.lastindex)


def explain(stage: str, name: str) -> str:
    """Return one sentence, or none: that of the longest known name with which this one begins.

    >>> explain("sass", "STG.E.128"), explain("sass", "STG.E.U8")
    ('Stores 128 bits to memory: four values of 32 bits at once.', 'Stores to memory that all programs share.')
    """
    known = _glossary()["ir" if stage in ("ttir", "ttgir") else stage]
    while name and name not in known:
        name = re.sub(r"(?:^|[._:]+)[^._:]*$", "", name)
    return known.get(name, "")


@cache
def _glossary() -> dict[str, dict[str, str]]:
    return tomllib.loads(GLOSSARY.read_text("utf-8"))
