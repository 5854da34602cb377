# SPDX-License-Identifier: Apache-2.0
"""Explain names: functions that Triton does not have, or calls otherwise, and what the file does not define."""

import ast
import re

from .. import errors, source


def function_of_torch(message, file, line, node):
    library = r"NameError\(.(torch|math|np|numpy) is|\bname '(torch|math|np|numpy)' is|torch\.\w+ is not modeled"
    if not re.search(rf"Unsupported function referenced|{library}", message):
        return None
    if (own := re.search(r"<function (\w+) at", message)) and source.defines(file, own[1]):
        return f"A kernel calls `{own[1]}`, which therefore needs `@triton.jit`, too."
    if not (call := source.of_torch(file)):
        return None
    import triton.language as tl

    name = call[1].split(".")[-1]
    try:
        known = hasattr(tl, name)
    except NotImplementedError:  # it is there, and the site's model does not have it
        known = True
    there = f": `tl.{name}`, not `{call[1]}`." if known else f", which has no `{name}`."
    made = "" if known or name not in errors.MADE_OF else f" {errors.MADE_OF[name]}"
    return f"Line {call[0]} calls `{call[1]}`. Inside a kernel, use the functions of `tl`{there}{made}"


def made_of_others(message, file, line, node):
    """Explain a function that Triton does not have, and that others make."""
    match = re.search(r"triton\.language' has no attribute '(\w+)'", message)
    if not match or match[1] not in errors.MADE_OF:
        return None
    return f"`tl` has no `{match[1]}`. {errors.MADE_OF[match[1]]}"


def undefined_name(message, file, line, node):
    known = r"NameError\('(\w+) is not defined|\bname '(\w+)' is not defined|cannot access local variable '(\w+)'"
    match = re.search(known, message)
    if not match or match[1] in ("torch", "math", "np", "numpy") or match[2] == "inf":
        return None
    return source.about_name(file, match[1] or match[2] or match[3], 0 if match[1] else line)


def larger_of_two(message, file, line, node):
    second = ast.unparse(node.args[1]) if isinstance(node, ast.Call) and len(node.args) > 1 else "0"
    if not re.fullmatch(r"[\dA-Z_-]+|axis", second):  # an axis is right
        for name, word in (("max", "larger"), ("min", "smaller")):
            if ast.unparse(node.func) == f"tl.{name}":
                return f"`tl.{name}` reduces one block; the {word} of two is `tl.{name}imum(a, b)`."
    return None


def tl_outside_a_kernel(message, file, line, node):
    if "outside of the scope of a kernel" in message and (name := source.tl_outside(file, line)):
        outside = f"; outside, it is `triton.{name}`" if name in ("cdiv", "next_power_of_2") else ""
        return f"`tl.{name}` works only inside a kernel{outside}."
    return None
