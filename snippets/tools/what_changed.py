# SPDX-License-Identifier: Apache-2.0
"""Try what changed between the versions of Triton, under the one that is installed, and print what came of each.

Every kernel is compiled for a GPU that need not be there, and none runs. ``yes`` means that Triton took it; otherwise
its message stands there. Choose another Triton by putting its folder first on ``PYTHONPATH``.

Run it with ``python what_changed.py``; it takes no GPU.
Source: Triton's releases, https://github.com/triton-lang/triton/releases.
"""

import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

HOPPER = GPUTarget("cuda", 90, 32)  # H100 and H200
BLACKWELL = GPUTarget("cuda", 100, 32)  # B200
GFX1250 = GPUTarget("hip", "gfx1250", 32)  # AMD's next
ARGUMENTS = {"x_ptr": torch.float32, "h_ptr": torch.float16, "b_ptr": torch.bfloat16, "i_ptr": torch.int32, "n": 100}
DEPENDS_ON = ("TRITON_INTERPRET", "TRITON_DEFAULT_FP_FUSION")  # variables that would change what is said


class NoGPU:
    """Stands in for the driver of a GPU that is not there: it only says what to compile for."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


# `triton.jit` is put on all kernels in `build`: they are compiled, never run.


def block_pointer(x_ptr, h_ptr, b_ptr, i_ptr, n):
    p = tl.make_block_ptr(x_ptr, [n], [1], [0], [8], [0])
    tl.store(p, tl.load(p, boundary_check=(0,)), boundary_check=(0,))


def load_no_check(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i, boundary_check=()))


def load_check(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i, boundary_check=(0,)))


def load_no_padding(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i, padding_option=""))


def load_by_position(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i, i < n, 0.0, (), "", ".cg"))


def store_by_position(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, 1.0, i < n, (), ".cs")


def softmax_by_position(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.softmax(tl.load(x_ptr + i), 0, False))


def by_keyword(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i, i < n, 0.0, cache_modifier=".cg"), i < n, cache_modifier=".cs")


def float16_sums(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 64)
    tile = i[:, None] * 64 + i[None, :]
    acc = tl.zeros((64, 64), tl.float16)
    for _ in range(n):
        acc = tl.dot(tl.load(h_ptr + tile), tl.load(h_ptr + tile), acc)
    tl.store(h_ptr + tile, acc)


def running_sum(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 1024)
    tl.store(x_ptr + i, tl.cumsum(tl.load(b_ptr + i), axis=0).to(tl.float32))


def block_sum(x_ptr, h_ptr, b_ptr, i_ptr, n):
    tl.store(x_ptr, tl.sum(tl.load(b_ptr + tl.arange(0, 1024)), axis=0).to(tl.float32))


def relu_and_add(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 1024)
    b = tl.load(b_ptr + i)
    tl.store(x_ptr + i, (tl.maximum(b, 0.0) + b).to(tl.float32))


def chained_mask(x_ptr, h_ptr, b_ptr, i_ptr, n):
    r, c = tl.arange(0, 8), tl.arange(0, 8)
    tl.store(x_ptr + r, 1.0, mask=r < n & c < n)


def between(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, 1.0, mask=1 < i < 6)


def short_steps(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i, k = tl.arange(0, 16), tl.arange(0, 8)
    a, b = tl.load(x_ptr + i[:, None] * 8 + k[None, :]), tl.load(x_ptr + k[:, None] * 16 + i[None, :])
    tl.store(x_ptr + i[:, None] * 16 + i[None, :], tl.dot(a, b))


def joined(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + tl.arange(0, 16), tl.cat(tl.load(x_ptr + i), tl.load(x_ptr + i)))


def smallest(x_ptr, h_ptr, b_ptr, i_ptr, n):
    tl.store(x_ptr + tl.arange(0, 4), tl.topk(tl.load(x_ptr + tl.arange(0, 8)), 4, descending=False))


def set_flag(x_ptr, h_ptr, b_ptr, i_ptr, n):
    tl.atomic_store(i_ptr, 1)


def look_at_flag(x_ptr, h_ptr, b_ptr, i_ptr, n):
    tl.store(i_ptr + 1, tl.atomic_load(i_ptr))


def wait_for_flag(x_ptr, h_ptr, b_ptr, i_ptr, n):
    tl.atomic_poll(i_ptr, 1)


def rough_quotient(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.fdiv(tl.load(x_ptr + i), tl.load(x_ptr + i + n), approx=True))


def copied_tile(x_ptr, h_ptr, b_ptr, i_ptr, n):
    d = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [16, 64])
    d.store([0, 0], d.load([16, 0]))


def fused(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 128)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * tl.load(x_ptr + i + 128) + 1.5)


def joined_in_any_order(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + tl.arange(0, 16), tl.cat(tl.load(x_ptr + i), tl.load(x_ptr + i), can_reorder=True))


def reshaped_in_any_order(x_ptr, h_ptr, b_ptr, i_ptr, n):
    x = tl.reshape(tl.load(x_ptr + tl.arange(0, 8)), (4, 2), can_reorder=True)
    tl.store(x_ptr, tl.sum(tl.sum(x, axis=0), axis=0))


def softmax_that_keeps(x_ptr, h_ptr, b_ptr, i_ptr, n):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.softmax(tl.load(x_ptr + i), 0, keep_dims=True))


def build(kernel, target=HOPPER, **options):
    """Return a kernel of ``ARGUMENTS``, compiled for a GPU that need not be there."""
    triton.runtime.driver.set_active(NoGPU(target))
    with contextlib.redirect_stderr(io.StringIO()):  # where the compiler writes what it was doing
        return triton.jit(kernel).warmup(*ARGUMENTS.values(), grid=(1,), **options)


def taken(action) -> str:
    """Return ``yes``, or ``refused`` with the message of the error that an action raises.

    >>> taken(lambda: None)
    'yes'
    >>> taken(lambda: {}["key"])
    "refused: KeyError: 'key'"
    """
    try:
        action()
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        lines = [line for line in str(error).splitlines() if line.strip()] or ["no message"]
        return f"refused: {type(error).__name__}: {lines[-1].strip()}"
    return "yes"


def warned(action) -> str:
    """Return the first warning of an action, ``nothing``, or what ``taken`` returns of its error."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        came = taken(action)
    return str(found[0].message) if found else came.replace("yes", "nothing")


def instruction(kernel, pattern: str, target=HOPPER, stage="ptx") -> str:
    """Return what of the kernel's assembly matches first, or ``refused`` with a message."""
    found = []
    came = taken(lambda: found.append(re.findall(pattern, build(kernel, target).asm[stage])[0]))
    return f"`{found[0]}`" if found else came


def grouping() -> str:
    """Return how ``r < n & c < n`` was understood."""
    found = []
    came = taken(lambda: found.append("arith.andi" in build(chained_mask).asm["ttir"].split("arith.cmpi")[0]))
    return came if not found else "as `r < (n & c) < n`" if found[0] else "as `(r < n) & (c < n)`"


def command(*words: str) -> str:
    """Return ``yes`` where the installed Triton has a command, which is asked for its help."""
    done = subprocess.run([sys.executable, "-m", *words, "--help"], capture_output=True, text=True)
    return "yes" if done.returncode == 0 else f"refused: {done.stderr.splitlines()[-1].rpartition(': ')[2]}"


def tuned(option: str):
    lists = {"key": []} | {option: ["size"]}
    return lambda: triton.autotune([triton.Config({})], **lists)(triton.jit(fused))


def sanitized() -> str:
    """Return whether the sanitizer of floating point changes the code; older versions take its name and do nothing."""
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.instrumentation_mode = "fpsan"
        changed = build(fused).asm["ptx"]
    return "yes" if changed != build(fused).asm["ptx"] else "no: the code stays the same"


def signature(function) -> str:
    """Return the arguments of a function with their defaults, without annotations and what only the compiler gives.

    >>> signature(lambda x, *shape, y=None, _semantic=None: 0)
    '`(x, *shape, y=None)`'
    >>> signature(tl.sum)
    '`(input, axis=None, keep_dims=False, dtype=None)`'
    """
    words, named = [], False
    for p in inspect.signature(getattr(function, "fn", function)).parameters.values():
        if not p.name.startswith("_"):
            if p.kind is p.KEYWORD_ONLY and not named:
                words.append("*")
            named = p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            default = getattr(p.default, "name", None) or repr(p.default)  # a dtype and an enumeration have names
            star = "*" if p.kind is p.VAR_POSITIONAL else ""
            words.append(f"{star}{p.name}" if p.default is p.empty else f"{p.name}={default}")
    return f"`({', '.join(words)})`"


def functions() -> dict[str, str]:
    """Return the signature of each function that kernels can call, by its name."""
    found = {name: getattr(tl, name) for name in dir(tl) if not name.startswith("_")}
    called = {name: f for name, f in found.items() if callable(f) and not inspect.isclass(f)}
    return {f"`tl.{name}`": signature(f) for name, f in called.items()}


def show(what: str, key: str, value: str) -> None:
    print(f"  {what}\n    {key}: {value}", flush=True)


def report() -> None:
    show_taken = lambda what, action: show(what, "taken", taken(action))
    print("## What is announced")  # first: a warning comes once in a process
    show("any kernel, `TRITON_DEFAULT_FP_FUSION` not set", "warns", warned(lambda: build(by_keyword)))
    show("`tl.cat(…, can_reorder=True)`", "warns", warned(lambda: build(joined_in_any_order)))
    show("`tl.reshape(…, can_reorder=True)`", "warns", warned(lambda: build(reshaped_in_any_order)))
    show("`tl.softmax(…, keep_dims=True)`", "warns", warned(lambda: build(softmax_that_keeps)))
    print("## What stops working")
    show_taken("`tl.make_block_ptr`", lambda: build(block_pointer))
    show_taken("`tl.advance`", lambda: tl.advance)
    show_taken("`tl.load(p, boundary_check=())`, pointers", lambda: build(load_no_check))
    show_taken("`tl.load(p, boundary_check=(0,))`, pointers", lambda: build(load_check))
    show_taken('`tl.load(p, padding_option="")`, pointers', lambda: build(load_no_padding))
    show_taken('`tl.load(p, mask, 0.0, (), "", ".cg")`', lambda: build(load_by_position))
    show_taken('`tl.store(p, x, mask, (), ".cs")`', lambda: build(store_by_position))
    show_taken('the same, `cache_modifier=".cg"` by name', lambda: build(by_keyword))
    show_taken("`tl.softmax(x, 0, False)`", lambda: build(softmax_by_position))
    for option in ("key", "reset_to_zero", "restore_value"):
        show_taken(f'`triton.autotune(…, {option}=["size"])`, no such argument', tuned(option))
    print("## What changes silently")
    show("`tl.dot(a, b, acc)`, `acc` of float16", "becomes", instruction(float16_sums, r"wgmma\.mma_async\S*"))
    show("`tl.cumsum` of bfloat16", "becomes", instruction(running_sum, r"add\.b?f\w+"))
    show("`tl.sum` of bfloat16", "becomes", instruction(block_sum, r"add\.b?f\w+"))
    show("`tl.maximum(b, 0.0) + b` of bfloat16", "becomes", instruction(relu_and_add, r"add\.b?f\w+"))
    show("the mask `r < n & c < n`", "becomes", grouping())
    print("## What is new")
    show_taken("`1 < i < 6` on a block", lambda: build(between))
    show_taken("`tl.dot` in steps of 8 along K", lambda: build(short_steps))
    show_taken("`tl.cat(x, y)`, in order", lambda: build(joined))
    show_taken("`tl.topk(x, 4, descending=False)`", lambda: build(smallest))
    show_taken("`tl.atomic_store`", lambda: build(set_flag))
    show_taken("`tl.atomic_load`", lambda: build(look_at_flag))
    show_taken("`tl.atomic_poll`", lambda: build(wait_for_flag))
    show_taken("`tl.fdiv(x, y, approx=True)`", lambda: build(rough_quotient))
    show_taken("the option `clc=True`, for B200", lambda: build(fused, BLACKWELL, clc=True))
    show_taken("the option `clc=True`, for H200", lambda: build(fused, clc=True))
    loads = r"\b(?:tensor_load|global_load|buffer_load)_\w+"
    show("a descriptor's load, for AMD's gfx1250", "taken", instruction(copied_tile, loads, GFX1250, "amdgcn"))
    show("`TRITON_INSTRUMENTATION_MODE=fpsan`", "taken", sanitized())
    show("`python -m triton.tools.gsan`", "taken", command("triton.tools.gsan"))
    translator = "triton.tools.triton_to_gluon_translator.translator"
    show(f"`python -m {translator}`", "taken", command(translator))
    show_taken("`triton.testing.do_bench_proton`", lambda: triton.testing.do_bench_proton)
    print("## The functions of triton.language")
    for name, arguments in functions().items():
        show(name, "arguments", arguments)


def main():
    if not any(name in os.environ for name in DEPENDS_ON):
        return report()
    sys.stdout.flush()  # begin again without them
    without = {name: value for name, value in os.environ.items() if name not in DEPENDS_ON}
    with tempfile.TemporaryDirectory() as folder:  # nothing was compiled before, so that all warnings come
        environment = without | {"TRITON_CACHE_DIR": folder}
        subprocess.run([sys.executable, os.path.abspath(__file__)], env=environment, check=True)


if __name__ == "__main__":
    main()
