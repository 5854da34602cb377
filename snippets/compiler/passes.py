# SPDX-License-Identifier: Apache-2.0
"""Show what each pass of Triton's compiler does to a kernel: the passes by name and in order, and what each changed.

With ``MLIR_ENABLE_DUMP=1`` the compiler writes its whole text to stderr before each pass. Two such texts in a row
differ by what one pass did. Nothing is launched, so no GPU is needed.

``python passes.py`` prints what the lesson shows; ``MLIR_ENABLE_DUMP=1 python passes.py sm_90`` prints the dump itself.
For a kernel of your own, copy the file, put it and its arguments in place of ``matmul_kernel``, and call
``passes(dump("sm_90"))``.
Source: ``MLIR_ENABLE_DUMP`` in Triton's README; the passes in ``triton/backends/nvidia/compiler.py`` of its wheel.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from itertools import pairwise
from typing import NamedTuple

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),  # A100
    "sm_90": GPUTarget("cuda", 90, 32),  # H100, H200
    "gfx942": GPUTarget("hip", "gfx942", 64),  # AMD's MI300
}
STAGES = ("ttir", "ttgir", "llir")
BEGINS = "// the stage begins: "
INDENT = "    "  # of a function in a module: what is still indented stands in a loop
WIDE = 84  # columns of what is printed

# Passes whose changes the lesson shows, and the lines that matter in them.
SHOWN = {
    "triton-combine": "",
    "convert-triton-to-tritongpu": r"module|#blocked5? = |= tt\.(load|dot) |dot_op",
    "tritongpu-coalesce": r"#blocked6 = |%a(_|\b)",
    "tritongpu-accelerate-matmul": "",
    "tritongpu-remove-layout-conversions": "convert_layout",
    "tritongpu-pipeline": r"tt\.load|local_alloc|async_copy|async_wait|warp_group_dot",
    "allocate-shared-memory-nv": "%",
    "convert-triton-gpu-to-llvm": "warp_group_dot %|wgmma %",
}
FIRST = 8  # lines of what each other pass changed
# Other ways to compile the same kernel, each with this setting changed; and what to count in its TritonGPU IR.
TRIED = {"num_stages": 1, "num_warps": 2, "multiple": 1}
COUNTED = ("async_copy_global_to_local", "tt.load", "tt.dot ", "warp_group_dot %")


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a_ptrs = a_ptr + i[:, None] * K + i[None, :]
    b_ptrs = b_ptr + i[:, None] * BLOCK + i[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, K, BLOCK):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK
        b_ptrs += BLOCK * BLOCK
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
# --8<-- [end:kernel]


# --8<-- [start:compile]
def compile_for(target: str, multiple: int = 16, **options: int):
    """Compile the kernel for one of ``TARGETS``; K is a multiple of ``multiple``; ``options`` as in a launch."""
    types = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*fp32", "K": "i32", "BLOCK": "constexpr"}
    divisible = {(0,): 16, (1,): 16, (2,): 16, (3,): multiple}  # by position: addresses in bytes, and K
    attrs = {place: [["tt.divisibility", number]] for place, number in divisible.items()}
    source = ASTSource(matmul_kernel, types, {"BLOCK": 64}, attrs)
    knobs.runtime.add_stages_inspection_hook = announce_stages
    return triton.compile(source, target=TARGETS[target], options={"num_warps": 4, "num_stages": 3} | options)
# --8<-- [end:compile]


def announce_stages(backend=None, stages=None, *more):
    """Write a line before each stage: a hook for Triton. Called with nothing, return a key and a hash for the cache."""
    if stages is None:
        return ("announced", "announced")
    for name in STAGES:
        stages[name] = _announced(name, stages[name])
    return None


def _announced(name, make):
    def announce(*given):
        print(f"{BEGINS}{name}", file=sys.stderr, flush=True)  # flushed: the compiler writes to the same place
        return make(*given)

    return announce


# --8<-- [start:dump]
def dump(target: str, **settings: int) -> str:
    """Compile in a process of its own, and return the whole text that the compiler writes before each pass."""
    with tempfile.TemporaryDirectory() as cache:  # an empty one, or nothing would be compiled
        environment = os.environ | {"MLIR_ENABLE_DUMP": "1", "TRITON_CACHE_DIR": cache, "TRITON_INTERPRET": "0"}
        command = [sys.executable, __file__, target, *(f"{name}={value}" for name, value in settings.items())]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{target} does not compile: {done.stderr.rstrip().splitlines()[-1]}")
    return done.stderr
# --8<-- [end:dump]


class Pass(NamedTuple):
    """One pass: its name, the stage that it is part of, and the lines before and after it."""

    name: str
    stage: str
    before: list[str]
    after: list[str]


# --8<-- [start:parse]
def passes(text: str) -> list[Pass]:
    """Return the passes of a dump, in order. The very last is left out: nothing is written after it.

    Raises:
        ValueError: There are none in the text.
    """
    stage, found, names = "", [], defaultdict(dict)
    pieces = re.split(rf"^(// -----// .*|{BEGINS}.*)\n", text, flags=re.M)[1:]
    for header, body in zip(pieces[::2], pieces[1::2], strict=True):
        if header.startswith(BEGINS):
            stage = header.removeprefix(BEGINS)
        # "Before CSE (cse) ('builtin.module' operation)"; by Triton 3.9 "Before CSEPass: cse ('builtin.…"
        title = re.match(r"// -----// IR Dump Before \w+(?:: | \()([\w-]+).* \('([\w.]+)' operation", header)
        # Inlining tidies up each function by itself, which is part of that pass; and some passes write drafts.
        if title and title.groups() != ("canonicalize", "tt.func"):
            found.append((title[1], stage, tidy(body, names)))
    if not found:
        raise ValueError("no pass in the dump: was MLIR_ENABLE_DUMP=1 set, and the cache empty?")
    return [Pass(*this, after) for this, (_, _, after) in pairwise(found)]


def tidy(body: str, names: dict[str, dict[str, str]]) -> list[str]:
    """Return lines without places in the source. A layout keeps the name under which it was first met, in ``names``."""
    body = re.sub(r"^#loc\d* = .*\n", "", body, flags=re.M)
    body = re.sub(r' loc\((?:"[^"]*"\([^()]*\)|[^()]*)\)', "", body)
    now = {}
    for name, layout in re.findall(r"^#(\w+) = (.*)$", body, re.M):
        kind = name.rstrip("0123456789")
        now[name] = names[kind].setdefault(layout, f"{kind}{len(names[kind]) or ''}")
    body = re.sub(r"#(\w+)", lambda found: f"#{now.get(found[1], found[1])}", body)
    return [line.removeprefix(INDENT) for line in body.splitlines() if line.strip()]


def changes(made: Pass) -> list[str]:
    """Return the lines that went, each behind a minus, and those that came, behind a plus.

    Values are numbered anew after each pass, so a line counts as the same where only the names of values differ.
    """
    before, after = made.before, made.after
    nameless = lambda lines: [re.sub(r"%[\w.$-]+(?:[#:]\d+)?", "%", line) for line in lines]
    matcher = difflib.SequenceMatcher(None, nameless(before), nameless(after), autojunk=False)
    said = []
    for what, i, j, k, m in matcher.get_opcodes():
        if what != "equal":
            said += [f"- {line}" for line in before[i:j]] + [f"+ {line}" for line in after[k:m]]
    return said
# --8<-- [end:parse]


def short(line: str) -> str:
    """Return a line cut to ``WIDE`` columns: without what tells a reader nothing, and if long without operands' types.
    """
    line = re.sub(r" : i32(?=[,}])|\b(eltType|layout)[ABC] = \d+ : i32, |, #smem, mutable(?=>)", "", line)
    if len(line) > WIDE and "convert_layout" not in line:  # which is about the types
        line = re.sub(r" : (?=[(!t])(.* (?=-> )|.*)", " : … ", line)
        line = re.sub(r"… -> (<|!llvm).*", "…", line)
    return textwrap.fill(line, WIDE, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)


def when_begins(made: list[Pass], stage: str) -> list[str]:
    """Return the text that a stage begins with."""
    return next(one.before for one in made if one.stage == stage)


def loop(lines: list[str]) -> list[str]:
    """Return the loop of the kernel, from its first line to its last."""
    begin, end = (next(i for i, line in enumerate(lines) if word in line) for word in ("scf.for", "scf.yield"))
    return lines[begin : end + 1]


# --8<-- [start:main]
def main():
    by_target = {target: passes(dump(target)) for target in TARGETS}
    made = [(one, changes(one)) for one in by_target["sm_90"]]
    print("## passes")
    print("     +      -")
    for stage in STAGES:
        print(f"               {stage}")
        for one, lines in made:
            if one.stage == stage:
                print(*(f"{sum(line[0] == sign for line in lines) or '.':>6}" for sign in "+-"), "", one.name)
    print("## counts")
    for stage in STAGES:
        mine = [(one, lines) for one, lines in made if one.stage == stage]
        print(f"{stage}, passes: {len(mine)}")
        print(f"{stage}, passes that change something: {sum(lines != [] for _, lines in mine)}")
        print(f"{stage}, lines at its end: {len(mine[-1][0].after)}")
    times = Counter()
    for one, _ in made:
        times[one.name] += 1
        before, after = (sum("= ttg.convert_layout" in line for line in lines) for lines in (one.before, one.after))
        if before != after:
            print(f"conversions after {one.name} {times[one.name]}: {after}")
    print("## loop")
    print(*map(short, loop(when_begins(by_target["sm_90"], "ttgir"))), sep="\n")
    # where a pass runs several times: the last time that it changed something
    shown = {one.name: i for i, (one, lines) in enumerate(made) if lines and one.name in SHOWN}
    for name, pattern in SHOWN.items():
        print(f"## {name}")
        print(*(short(line) for line in made[shown[name]][1] if re.search(pattern, line)), sep="\n")
    print("## others")
    for i, (one, lines) in enumerate(made):
        if lines and i not in shown.values():
            more = [f"… and {len(lines) - FIRST} more"] if len(lines) > FIRST else []
            print(f"{one.name}, in {one.stage}", *map(short, lines[:FIRST]), *more, sep="\n")
    print("## targets")
    for target, those in by_target.items():
        print(target)
        lines = when_begins(those, "llir")
        layouts = [line for line in lines if re.match(r"#(mma|shared)\d* =", line)]
        steps = [
            line for line in loop(lines) if re.search(r"= tt(?:g|ng)?\.(?:\w*dot|local_load|async_copy|load)", line)
        ]
        print(*map(short, layouts + steps), sep="\n")
    print("## compared")
    print(f"different texts of Triton IR: {len({tuple(when_begins(those, 'ttgir')) for those in by_target.values()})}")
    for target, those in by_target.items():
        shared = re.search(r"ttg\.shared = (\d+)", "\n".join(those[-1].before))
        print(f"{target}, bytes of shared memory: {shared[1]}")
    active = lambda some: {one.name for one in some if one.stage == "ttgir" and changes(one)}
    for name, value in TRIED.items():
        those = passes(dump("sm_90", **{name: value}))
        lines = when_begins(those, "llir")
        for word in COUNTED:
            print(f"{name}={value}, {word.rstrip(' %')}: {sum(word in line for line in lines)}")
        silent = active(by_target["sm_90"]) - active(those)
        print(f"{name}={value}, passes that fall silent: {len(silent)}", *sorted(silent), sep="\n  ")
# --8<-- [end:main]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compile_for(sys.argv[1], **{name: int(value) for name, _, value in (a.partition("=") for a in sys.argv[2:])})
    else:
        main()
