# SPDX-License-Identifier: Apache-2.0
"""Explain shapes and dtypes of blocks: two that do not fit, and what makes one."""

import ast
import re

from .. import source

SHAPE = r"(<\[[^\]]*\], \w+>|\w+)"


def sides(kind: str) -> list[str]:
    """Return the sides of a block, out of its type: ``<[4, 8], fp32>``; of a number, none."""
    return re.findall(r"\d+", kind.partition("]")[0]) if kind.startswith("<") else []


def changes_shape(message, file, line, node):
    """Explain a variable that becomes a block of another shape in a loop."""
    match = re.search(rf"Loop-carried variable (\w+) has initial type {SHAPE} but is re-assigned to {SHAPE}", message)
    if not match:
        return None
    before, after = (sides(kind) for kind in match.groups()[1:])
    if before == after:
        passed = source.begins_as(file, match[1])
        return (
            f"A block keeps its dtype through a loop: {passed}. What is added to it has another dtype."
            if passed
            else None
        )
    first, then = ("a block of " + " × ".join(shape) if shape else "one number" for shape in (before, after))
    begins = f"`{match[1]}` begins as {first}, and becomes {then}. "
    if not before:
        return begins + "Is a `tl.sum` (`tl.max`) missing? Or should it begin as a block, with `tl.zeros`?"
    return begins + "A block keeps its shape through a loop: is it reduced too early, or along the wrong axis?"


def arange_of_variables(message, file, line, node):
    if "arange's arguments must be of type" not in message:
        return None
    names, constant = source.fixed(file, node)
    if not names or not constant:
        return None
    which = " and ".join(f"`{name}`" for name in names)
    return (
        f"{which} {'is' if len(names) == 1 else 'are'} known only at run time. Both ends of `tl.arange` "
        f"must be constants: `tl.arange(0, {constant})`. Whatever depends on the program is added outside."
    )


def shape_of_a_block(message, file, line, node):
    """Explain a shape of ``tl.zeros`` or ``tl.full`` that is no tuple, or not of constants."""
    call = source.makes_a_block(node)
    if re.search(r"not iterable|missing a required argument: 'dtype'", message) and call is not None:
        name = ast.unparse(call.func)
        message = "A block is made from its shape, a tuple of constants, and its dtype: "
        message += f"`{name}((…, …), {'value, ' if name == 'tl.full' else ''}dtype=tl.float32)`."
        return message + source.constants_around(file, node)
    if re.search(r"Shape element \d+ must have type", message):
        names = source.not_constant(file, call)
        verb = "is" if len(names) == 1 else "are"
        known = f", and {in_backticks(names)} {verb} known only at the launch" if names else ""
        return f"A block's shape is made of constants{known}.{source.constants_around(file, node)}"
    return None


def in_backticks(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(f"`{n}`" for n in names[:-1]), f"`{names[-1]}`"]))


def two_branches(message, file, line, node):
    """Explain a variable that an ``if`` sets to two dtypes or shapes."""
    match = re.search(rf"Mismatched type for (\w+) between then block \({SHAPE}\) and else block \({SHAPE}\)", message)
    if not match:
        return None
    shapes = [" × ".join(sides(kind)) for kind in match.groups()[1:]]
    if shapes[0] != shapes[1]:
        first, other = (f"a block of {shape}" if shape else "one number" for shape in shapes)
        return f"`{match[1]}` is {first} if the condition holds and {other} if not, but both must have the same shape."
    kinds = [re.sub(r".*, (\w+)>", r"\1", kind) for kind in match.groups()[1:]]
    first, other = (source.DTYPES.get(kind, kind) for kind in kinds)
    message = f"`{match[1]}` is {first} if the condition holds and {other} if not, but both must have the same dtype."
    whole = [kind for kind in (first, other) if "int" in kind]
    return message + (" A number with a decimal point is float32: `0.0`, not `0`." if len(whole) == 1 else "")


def brackets_around_an_address(message, file, line, node):
    node = node.targets[0] if isinstance(node, ast.Assign) else node
    if isinstance(node, ast.Subscript) and (name := getattr(node.value, "id", "")).endswith("_ptr"):
        at = ast.unparse(node.slice)
        return (
            f"`{name}` is an address. Read with `tl.load({name} + {at}, mask=…)`, write with `tl.store(…)`, which also "
            "takes an address."
        )
    return None


def one_address(message, file, line, node):
    """Explain a block that is stored to a pointer without offsets."""
    if "Value argument cannot be block type" not in message:
        return None
    pointer = source.stored_to(file, node, line)
    if not isinstance(pointer, ast.Name):
        return None
    return (
        f"`{pointer.id}` is the address of one element, but the value to store is a block. Are the offsets missing, as "
        f"in `{pointer.id} + offsets`? Or should a sum or a maximum make one number of it first?"
    )


def two_shapes(message, file, line, node):
    """Explain two blocks that do not fit, with their shapes where the message has them."""
    if not re.search(r"annot (make_shape_compatible|broadcast)|incompatible dimensions|be broadcast together", message):
        return None
    shapes = re.search(r"shapes [(\[]([\d, ]*)[)\]] (?:and )?[(\[]([\d, ]*)[)\]]", message)
    sizes = [" × ".join(re.findall(r"\d+", shape)) for shape in shapes.groups()] if shapes else []
    alone = [size + (" elements" if "×" not in size else "") for size in sizes]
    which = f", {alone[0]} and {alone[1]}" if all(sizes) and sizes else ""
    return f"Two blocks have different shapes{which}: is a `[:, None]` or `[None, :]` missing?"


def product_by_star(message, file, line, node):
    if "incompatible dimensions" in message and source.loaded(file, node):
        return "`*` multiplies element by element. The product of two tiles is `tl.dot(a, b)`."
    return None


def two_dtypes(message, file, line, node):
    """Explain a ``tl.dot`` whose accumulator has another dtype than its result."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "tl.dot" or len(node.args) < 3:
        return None
    if re.search(r"incompatible|must have|must be at least", message):
        return None
    if asked := next((ast.unparse(k.value) for k in node.keywords if k.arg == "out_dtype"), ""):
        return (
            f"With this `out_dtype`, `tl.dot` gives {asked} and adds it to `{ast.unparse(node.args[2])}`: both must "
            "have the same dtype."
        )
    if passed := source.begins_as(file, ast.unparse(node.args[2])):
        return f"Without `out_dtype`, `tl.dot` gives float32, and both must have the same dtype: {passed}."
    return None
