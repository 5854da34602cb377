# SPDX-License-Identifier: Apache-2.0
"""Compile the launches that ``trace`` recorded, for several targets, without a GPU: registers, digests and stages.

This runs in a process of its own, without ``TRITON_INTERPRET``: ``python -m recorder.compile SNIPPET LAUNCHES RESULT``;
and under a Triton of its own, ``project.COMPILER``, which need not be the installed one.
Triton specializes a kernel on the types, the alignment and the divisibility of its arguments. Each launch
is repeated here by ``kernel.warmup`` with arguments alike in all of these, so the code is that of the real launch.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.tools.tensor_descriptor import TensorDescriptor

from recorder.project import ROOT, Snippet
from recorder.recording import STAGES, sha256
from recorder.source import places

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
INLINE = re.compile(r"// begin inline asm\n.*?// end inline asm", re.S)
REGISTER = re.compile(r"\b(U?[RP])\d+")  # in SASS; R and P are a thread's, UR and UP those of a warp


class CompileOnly:
    """Stands in for the driver of a GPU that is not there: it only says what to compile for."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def in_one_place(ptx: str) -> str:
    """Return PTX in which all of an inline assembly comes from one line of the source.

    Triton writes loads and stores as inline assembly. The LLVM of 3.9 takes its second line for the next line of the
    source, and so on, and ptxas tells SASS the same.
    """
    return INLINE.sub(lambda block: re.sub(r"^[ \t]*\.loc\s.*\n", "", block[0], flags=re.M), ptx)


def _keep_places(backend=None, stages=None, *more):
    """Change how Triton makes PTX: a hook, called for each compilation, and without stages for the cache's key."""
    if stages is None:
        return ("places", "places")
    if make := stages.get("ptx"):
        stages["ptx"] = lambda *given: in_one_place(make(*given))
    return None


def _argument(value):
    """Return a tensor of the same dtype and alignment, a descriptor of one, a Triton dtype, or the value itself."""
    if isinstance(value, list):
        return tuple(map(_argument, value))
    if not isinstance(value, dict):
        return value
    if "tl.dtype" in value:
        return tl.dtype(value["tl.dtype"])
    dtype = getattr(torch, value["dtype"])
    storage = torch.empty(64, dtype=torch.uint8)
    start = -storage.data_ptr() % 16 + value["alignment"] % 16
    tensor = storage[start : start + 16].view(dtype)
    if "block_shape" in value:
        return TensorDescriptor(tensor, value["shape"], value["strides"], value["block_shape"])
    return tensor


def compile_launch(launch: dict, target: str) -> dict:
    """Return registers, spills, bytes of shared memory and the text of every stage, or the compiler's error."""
    module = importlib.import_module(launch["file"].removesuffix(".py").replace("/", "."))
    kernel = getattr(module, launch["kernel"])
    driver.set_active(CompileOnly(TARGETS[target]))
    knobs.runtime.add_stages_inspection_hook = _keep_places
    kernel.device_caches.clear()
    arguments = {name: _argument(value) for name, value in launch["arguments"].items()}
    try:
        compiled = kernel.warmup(**arguments, **launch["options"], grid=tuple(launch["grid"]))
    except Exception as error:
        message = f"{type(error).__name__}: {error}".replace(f"{ROOT}{os.sep}", "")
        return {"error": re.sub(r" at 0x[0-9a-f]+", "", message)}  # an address would be another in each run
    texts = {stage: compiled.asm[stage] for stage in STAGES if stage in compiled.asm}
    if "cubin" in compiled.asm:
        texts["sass"], usage = _disassemble(compiled.asm["cubin"])
    else:
        usage = _amd_usage(texts["amdgcn"])
    return {
        **usage,
        "shared": compiled.metadata.shared,
        "num_warps": compiled.metadata.num_warps,
        "stages": {stage: tie_to_source(stage, text, launch["file"]) for stage, text in texts.items()},
    }


def kept(code: dict, launch: dict, target: str, wanted) -> dict:
    """Return the same code with a digest of each stage, and with text and places only for the wanted stages."""
    if "error" in code:
        return code
    path = ROOT / launch["file"]
    place = places(path, launch["kernel"])
    shown = {
        stage: [[text, place.get(line)] for text, line in pairs]
        for stage, pairs in code["stages"].items()
        if any(listing.names(called, target, stage) for called in launch["names"] for listing in wanted)
    }
    digests = {stage: digest(stage, pairs) for stage, pairs in code["stages"].items()}
    return {**code, "digests": digests, "stages": shown}


def digest(stage: str, pairs: list) -> str:
    """Return 16 hexadecimal digits of the text without register numbers, which ptxas gives in many ways."""
    text = "\n".join(text for text, _ in pairs)
    return sha256(REGISTER.sub(r"\1_", text) if stage == "sass" else text)[:16]


def _disassemble(cubin: bytes) -> tuple[str, dict]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = lambda *command: subprocess.run([*command, file.name], capture_output=True, text=True, check=True).stdout
        sass = tool(knobs.nvidia.nvdisasm.path, "--print-code", "--print-line-info")
        usage = tool(knobs.nvidia.cuobjdump.path, "--dump-resource-usage")
    number = lambda name: int(re.search(rf"\b{name}:(\d+)", usage)[1])
    # What spills goes to the thread's stack. Counted as Triton's `n_spills` does, in values of 4 bytes.
    return sass, {"registers": number("REG"), "spills": (number("STACK") + number("LOCAL")) // 4}


def _amd_usage(amdgcn: str) -> dict:
    number = lambda name: int(re.search(rf"\.{name}:\s+(\d+)", amdgcn)[1])
    return {"registers": number("vgpr_count"), "spills": number("vgpr_spill_count")}


# What ties a line of a stage to a line of the source is written in each stage's own way. It moves from
# the text into a list of line numbers, so that the text keeps only what a reader came for.


def tie_to_source(stage: str, text: str, file: str) -> list[tuple[str, int]]:
    """Return each line of the text with its line in ``file``, or 0 if it has none."""
    pairs = {"ttir": _mlir, "ttgir": _mlir, "llir": _llvm, "sass": _sass}.get(stage, _assembly)(text, file)
    while pairs and not pairs[-1][0].strip():
        pairs.pop()
    return pairs


def _mlir(text, file):
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))

    def number(place, depth=0):
        if match := re.search(rf'"[^"]*{re.escape(file)}":(\d+):', place):
            return int(match[1])
        names = re.findall(r"#loc\d*", place)
        return next((n for name in names if depth < 9 and (n := number(places.get(name, ""), depth + 1))), 0)

    pairs = []
    for line in text.splitlines():
        if not re.match(r"#loc\d* = ", line):
            last = re.search(r" loc\(([^()]*)\)$", line)
            pairs.append((re.sub(r' loc\((?:"[^"]*"\([^()]*\)|[^()]*)\)', "", line), number(last[1]) if last else 0))
    return pairs


def _llvm(text, file):
    number = {tag: int(line) for tag, line in re.findall(r"^(!\d+) = .*DILocation\(line: (\d+)", text, re.M)}
    pairs = []
    for line in text.splitlines():
        if re.match(r"!\S+ = ", line):
            continue
        tag = re.search(r", !dbg (!\d+)", line)
        pairs.append((re.sub(r",? !dbg !\d+", "", line), number.get(tag[1], 0) if tag else 0))
    return pairs


def _assembly(text, file):
    """Return the lines of PTX or AMD assembly, where ``.loc`` names the source line of the instructions after it."""
    pairs, current = [], 0
    for line in text.splitlines():
        if re.match(r"\s*\.section\s+(\.debug_|\.rodata)", line):
            break  # tables and debug data follow, nothing that runs
        if match := re.match(r"\s*\.loc\s+\d+\s+(\d+)", line):
            current = int(match[1])
        elif not re.match(r"\s*(\.file\s|\$L__(tmp|func_begin|func_end)\d+:|\.L(tmp|func_begin|func_end)\d+:)", line):
            instruction = re.match(r"\s+[@a-z]", line)
            pairs.append((line.expandtabs(4), current if instruction else 0))
    return pairs


def _sass(text, file):
    pairs, current = [], 0
    for line in text.splitlines():
        if match := re.search(r'//## File "[^"]*", line (\d+)', line):
            current = int(match[1])
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):
            pairs.append((line.expandtabs(4).rstrip(), current))
        elif re.match(r"\.L_x_\d+:", line):
            pairs.append((line, 0))
    return pairs


def main(name: str, launches: str, result: str):
    wanted, compiled = Snippet(name).settings.stages, []
    for called, launch in json.loads(Path(launches).read_text("utf-8")).items():
        alike = {key: launch[key] for key in ("kernel", "file", "constexprs", "options")}
        alike["arguments"] = {
            name: value if name in launch["constexprs"] else specialization(value)
            for name, value in launch["arguments"].items()
        }
        same = next((entry for entry in compiled if entry["alike"] == alike), None)
        if same:
            same["launch"]["names"].append(called)
        else:
            compiled.append({"alike": alike, "launch": launch | {"names": [called]}})
    for entry in compiled:
        launch = entry["launch"]
        print(f"compiling launch {launch['names'][0]}", flush=True)
        codes = {target: compile_launch(launch, target) for target in TARGETS}
        entry["targets"] = {target: kept(code, launch, target, wanted) for target, code in codes.items()}
    written = [
        {"launches": e["launch"]["names"], **{k: e["launch"][k] for k in ("kernel", "file")}, "targets": e["targets"]}
        for e in compiled
    ]
    Path(result).write_text(json.dumps({"compiler": triton.__version__, "compiled": written}), "utf-8")


def specialization(value):
    """Return what Triton's compiler specializes on in an argument: launches that agree in it share their code."""
    if isinstance(value, dict) and "alignment" in value:
        seen = {"dtype": value["dtype"], "aligned to 16": value["alignment"] % 16 == 0}
        return seen | {key: value[key] for key in ("block_shape",) if key in value}  # of a descriptor
    if isinstance(value, list):
        return [specialization(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return type(value).__name__ if isinstance(value, float) else value
    return {"is 1": value == 1, "multiple of 16": value % 16 == 0, "bits": 32 if -(2**31) <= value < 2**31 else 64}


if __name__ == "__main__":
    main(*sys.argv[1:])
