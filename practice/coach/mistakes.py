# SPDX-License-Identifier: Apache-2.0
"""What is probably wrong, where it is a known mistake: a sentence, as a question or with "looks as if".

Each rule looks at one thing and returns its sentence, or None. The first that says something is taken, so the surest
come first. Errors of the compiler and of Python have their own table, of patterns.
"""

import ast
import itertools
import re

import numpy as np
import torch

from . import draw, source
from .record import Access, Trouble
from .run import Run, gradient_like, reference

ERRORS = {
    r"'torch.dtype' object has no attribute": "A kernel takes dtypes of `tl`: `tl.float32`, not `torch.float32`.",
    r"equal reduction dimensions": "`tl.dot(a, b)` needs as many columns in its first tile as there are rows in its "
    "second. Has a the axis of k second, `k[None, :]`, and b first, `k[:, None]`?",
    r"Value argument cannot be block type": "The place is one address, and what is to be stored there is a block. One "
    "number for a program: has the reduction left more than that, as of a tile with two axes?",
    r"Mask argument cannot be block type": "Here the pointer is one address. Are the offsets added to it, in the same "
    "argument: `tl.load(x_ptr + offsets, …)`?",
    r"'MatMult'": "In a kernel the product of two tiles is `tl.dot(a, b)`; `@` is torch's.",
    r"Boolean value of Tensor with more than one": "`if` decides for the whole program. What decides for each lane is "
    "a mask, or `tl.where`.",
    r"end argument must be greater than the start": "With no element, the block has no lane. Does the launch then have "
    "no program, or the block at least 1 lane?",
    r"unexpected keyword argument 'dim'": "What torch calls `dim` is `axis` in Triton.",
    r"accumulator shape is incompatible": "`tl.dot(a, b, accumulator)` adds to a block with the rows of a and the "
    "columns of b. Does it begin as that, and are a and b in this order?",
    r"no attribute 'to_tensor'": "The interpreter knows a reduction as a function only: `tl.max(x, axis=0)`, not "
    "`x.max()`.",
    r"triton\.language' has no attribute": "`tl` has no such function. Is it made of others? A mean is a sum, divided "
    'by how many elements there are; infinity is `float("inf")`.',
    r"tensor_descriptor_base\.|\.store\(.*\n\s*\^\s*\n.*has no len|tl\.load\(.*\n\s*\^\s*\n.*core\.tuple|"
    r"'tensor_descriptor' object": "A descriptor has its own two functions, which take the first row and column "
    "together: `x.load([row, column])` and `out.store([row, column], tile)`.",
    r"TensorDescriptor\.__init__": "Is it `TensorDescriptor.from_tensor(tensor, shape of a tile)`? That reads the rest "
    "from the tensor.",
    r"'tensor' object has no attribute": "A block has few of torch's methods. There is `.to(dtype)`, and `.T`; most "
    "else is a function of `tl`.",
    r"multiple values for argument": "Does the launch pass just the arguments of the kernel, in its order, and each "
    "once? One is given by position and by name.",
    r"power of 2": "A block's size must be a power of two: does `triton.next_power_of_2` help?",
    r"arange's arguments must be of type tl\.constexpr": "`tl.arange` takes constants: is the block's size marked "
    "`tl.constexpr`?",
    r"Unsupported function referenced|NameError\(.(torch|math|np|numpy) is": "In a kernel, functions are those of "
    "`tl`: `tl.exp`, not `torch.exp` or `math.exp`.",
    r"NameError|is not defined": "Is this name defined in your file, which needs what it copies from another? And "
    "spelled as there? What only an `if` defines is unknown behind it.",
    r"invalid axis": "A block of one dimension has axis 0 only. In one of rows and columns, axis 1 is along a row.",
    r"(?s)triton\.(cdiv|next_power_of_2)\([^\n]*\n\s*\^\s*\n.*Did you forget": "In a kernel it is `tl.cdiv`; "
    "`triton.cdiv` is for the launch.",
    r"(?s)\w\[[^\n]*\n\s*\^\s*\n.*Did you forget to add @triton\.jit|unsupported tensor index": "Brackets pick no "
    "element of a block: load it from memory, or let `tl.where` keep it alone in a sum.",
    r"Cannot access global variable": "A kernel sees its arguments, and globals that are `tl.constexpr`: pass it.",
    r"missing .*required positional argument": "Does the launch pass every argument of the kernel, in its order?",
    r"Conflicting meta-parameters": "Does the launch pass what a config of the tuner gives, too?",
    r"'function' object is not subscriptable": "Is the kernel marked `@triton.jit`? A kernel is launched with its "
    "grid in brackets: `kernel[(programs,)](…)`.",
    r"object of type 'int' has no len|int\(\) argument must be .* not 'tuple'": "The grid is a tuple of numbers: "
    "`kernel[(programs,)](…)`, with a comma for one axis.",
    r"'int' object has no attribute 'to'": "In the interpreter, the number of a `for` loop is Python's own, without "
    "`.to`: cast a block, such as `tl.arange(…)`.",
    r"invalid operands of type pointer": "A pointer is an address. Is there a `tl.load` around it?",
    r"__pow__": "Triton has no `**`: for a square, multiply.",
    r"is not subscriptable|Cannot call @triton\.jit.*outside": "A kernel is launched with its grid in brackets: "
    "`kernel[(programs,)](…)`.",
    r"Unsupported ptr type|cannot be loaded from|not a pointer": "Is the first argument of `tl.load` or `tl.store` a "
    "pointer plus offsets?",
    r"Loop-carried variable": "A block keeps its dtype through a loop: which `dtype` does it begin with, and what is "
    "added to it?",
    r"simultaneous multiple comparison": "`&` binds tighter than `<`: put each comparison in parentheses.",
    r"(?s)^ .*tl\.dot\([^\n]*\n\s*\^$": "`tl.dot` gives float32. Has the accumulator that it adds to the shape of the "
    "product, and is it float32?",
    r"block offset start must be 16-byte aligned": "A descriptor takes a tile's first row and column, in elements. Is "
    "the tile's number multiplied by its size?",
    r"(?s)^ .*\.store\(\[[^\n]*\n\s*\^$": "A descriptor stores tiles of one shape. Is the tile turned, and has it the "
    "shape that the descriptor was made for?",
    r"illegal memory access|misaligned address": "A program touched memory that is not the tensor's, at a size at "
    "which the interpreter did not look. Which offsets does the mask leave on?",
    r"Failed to find C compiler": "That is no fault of yours: Triton needs a C compiler here, such as gcc.",
    r"out of resource": "The program's blocks are too large for a GPU: are smaller ones enough?",
}


MADE_OF = {  # what of torch Triton does not have
    "nan_to_num": "Which numbers make the NaN, and what should stand there instead, before they do?",
    "logsumexp": "It is made of `tl.max`, `tl.exp`, `tl.sum` and `tl.log`.",
    "mean": "It is `tl.sum`, divided by how many elements there are.",
    "var": "It is the mean of (x - mean)², and a mean is `tl.sum`, divided by how many elements there are.",
    "relu": "It is `tl.maximum(x, 0.0)`.",
    "square": "It is `x * x`.",
    "pow": "For a square, multiply: `x * x`.",
    "isnan": "Only NaN differs from itself: `x != x`.",
    "inf": 'It is `float("inf")`.',
}


def about_error(said: str, file: str = "", line: int = 0, node: ast.AST | None = None) -> str:
    """Of what Triton or Python raised; in a line of the file (0: unknown, as in a kernel), at a node of a kernel."""
    rules = (
        _of_torch,
        _made_of,
        _name,
        _changes_shape,
        _two_branches,
        _arange,
        _shape,
        _brackets,
        _larger_of_two,
        _product,
        _two_shapes,
        _two_dtypes,
        _too_few,
        _grid,
        _tl,
    )
    if tip := next((tip for rule in rules if (tip := rule(said, file, line, node))), ""):
        return tip
    return next((tip for pattern, tip in ERRORS.items() if re.search(pattern, said)), "")


def _of_torch(said, file, line, node):
    if not re.search(r"Unsupported function referenced|NameError\(.(torch|math|np|numpy) is", said):
        return None
    if (own := re.search(r"<function (\w+) at", said)) and source.defines(file, own[1]):
        return f"A kernel calls `{own[1]}`, so that needs `@triton.jit`, too."
    if not (found := source.of_torch(file)):
        return None
    import triton.language as tl

    name = found[1].split(".")[-1]
    there = f": `tl.{name}`, not `{found[1]}`." if hasattr(tl, name) else f", which has no `{name}`."
    made = "" if hasattr(tl, name) or name not in MADE_OF else f" {MADE_OF[name]}"
    return f"Line {found[0]} calls `{found[1]}`. In a kernel, functions are those of `tl`{there}{made}"


def _made_of(said, file, line, node):
    """A function that Triton does not have, and that others make."""
    if not (found := re.search(r"triton\.language' has no attribute '(\w+)'", said)) or found[1] not in MADE_OF:
        return None
    return f"`tl` has no `{found[1]}`. {MADE_OF[found[1]]}"


def _name(said, file, line, node):
    found = re.search(r"NameError\('(\w+) is not defined|\bname '(\w+)' is not defined", said)
    if not found or found[1] in ("torch", "math", "np", "numpy"):
        return None
    return source.about_name(file, found[1] or found[2], 0 if found[1] else line)


SHAPE = r"(<\[[^\]]*\], \w+>|\w+)"


def _changes_shape(said, file, line, node):
    """A variable that a loop makes a block of another shape."""
    found = re.search(rf"Loop-carried variable (\w+) has initial type {SHAPE} but is re-assigned to {SHAPE}", said)
    if not found:
        return None
    before, after = (re.findall(r"'(\d+)'", kind) for kind in found.groups()[1:])
    if before == after:
        passed = source.begins_as(file, found[1])
        return (
            f"A block keeps its dtype through a loop: {passed}. What is added to it is another dtype."
            if passed
            else None
        )
    first, then = ("a block of " + " × ".join(shape) if shape else "one number" for shape in (before, after))
    begins = f"`{found[1]}` begins as {first}, and becomes {then}. "
    if not before:
        return begins + "Is a `tl.sum` (`tl.max`) missing? Or should it begin as a block, with `tl.zeros`?"
    return begins + "A loop keeps its shape: is it reduced too early, or along the wrong axis?"


def _arange(said, file, line, node):
    if "arange's arguments must be of type" not in said:
        return None
    names, constant = source.fixed(file, node)
    if not names or not constant:
        return None
    which = " and ".join(f"`{name}`" for name in names)
    return (
        f"{which} {'is' if len(names) == 1 else 'are'} known only at run time. Both ends of `tl.arange` are constants: "
        f"`tl.arange(0, {constant})`. Add what depends on the program outside of it."
    )


def _shape(said, file, line, node):
    """The shape of ``tl.zeros`` or ``tl.full``: no tuple, or not of constants."""
    call = source.makes_a_block(node)
    if re.search(r"not iterable|missing a required argument: 'dtype'", said) and call is not None:
        name = ast.unparse(call.func)
        said = "A block is made from its shape, a tuple of constants, and its dtype: "
        said += f"`{name}((…, …), {'value, ' if name == 'tl.full' else ''}dtype=tl.float32)`."
        return said + source.constants_around(file, node)
    if re.search(r"Shape element \d+ must have type", said):
        names = source.not_constant(file, call)
        known = f", and {_marked(names)} {'is' if len(names) == 1 else 'are'} known only at the launch" if names else ""
        return f"A block's shape is made of constants{known}.{source.constants_around(file, node)}"
    return None


def _marked(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(f"`{n}`" for n in names[:-1]), f"`{names[-1]}`"]))


def _two_branches(said, file, line, node):
    """A variable that an ``if`` sets to two dtypes or shapes."""
    found = re.search(rf"Mismatched type for (\w+) between then block \({SHAPE}\) and else block \({SHAPE}\)", said)
    if not found:
        return None
    shapes = [" × ".join(re.findall(r"'(\d+)'", kind)) for kind in found.groups()[1:]]
    if shapes[0] != shapes[1]:
        first, other = (f"a block of {shape}" if shape else "one number" for shape in shapes)
        return f"`{found[1]}` is {first} where the `if` holds, and {other} where not: both must have the same shape."
    kinds = [re.sub(r".*, (\w+)>", r"\1", kind) for kind in found.groups()[1:]]
    first, other = (source.DTYPES.get(kind, kind) for kind in kinds)
    said = f"`{found[1]}` is {first} where the `if` holds, and {other} where not: both must have the same dtype."
    whole = [kind for kind in (first, other) if "int" in kind]
    return said + (" A number with a point is float32: `0.0`, not `0`." if len(whole) == 1 else "")


def _brackets(said, file, line, node):
    node = node.targets[0] if isinstance(node, ast.Assign) else node
    if isinstance(node, ast.Subscript) and (name := getattr(node.value, "id", "")).endswith("_ptr"):
        at = ast.unparse(node.slice)
        return (
            f"`{name}` is an address. Read by `tl.load({name} + {at}, mask=…)`, write by `tl.store(…)`, which takes an "
            "address, too."
        )
    return None


def _larger_of_two(said, file, line, node):
    second = ast.unparse(node.args[1]) if isinstance(node, ast.Call) and len(node.args) > 1 else "0"
    if not re.fullmatch(r"[\dA-Z_-]+|axis", second):  # an axis is right
        for name, word in (("max", "larger"), ("min", "smaller")):
            if ast.unparse(node.func) == f"tl.{name}":
                return f"`tl.{name}` reduces one block; the {word} of two is `tl.{name}imum(a, b)`."
    return None


def _two_shapes(said, file, line, node):
    """Two blocks that do not fit: their shapes, where the message or what was added to it has them."""
    if not re.search(r"annot (make_shape_compatible|broadcast)|incompatible dimensions|be broadcast together", said):
        return None
    shapes = re.search(r"shapes [(\[]([\d, ]*)[)\]] (?:and )?[(\[]([\d, ]*)[)\]]", said)
    sizes = [" × ".join(re.findall(r"\d+", shape)) for shape in shapes.groups()] if shapes else []
    alone = [size + (" elements" if "×" not in size else "") for size in sizes]
    which = f", {alone[0]} and {alone[1]}" if all(sizes) and sizes else ""
    return f"Two blocks have different shapes{which}: is a `[:, None]` or `[None, :]` missing?"


def _product(said, file, line, node):
    if "incompatible dimensions" in said and source.loaded(file, node):
        return "`*` multiplies element by element. The product of two tiles is `tl.dot(a, b)`."
    return None


def _two_dtypes(said, file, line, node):
    """``tl.dot`` with an accumulator of another dtype than what it gives."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "tl.dot" or len(node.args) < 3:
        return None
    if re.search(r"incompatible|must have|must be at least", said):
        return None
    if asked := next((ast.unparse(k.value) for k in node.keywords if k.arg == "out_dtype"), ""):
        return (
            f"`tl.dot` gives {asked}, by `out_dtype`, and adds it to `{ast.unparse(node.args[2])}`: both must have the "
            "same dtype."
        )
    if passed := source.begins_as(file, ast.unparse(node.args[2])):
        return f"Without `out_dtype`, `tl.dot` gives float32, and both must have the same dtype: {passed}."
    return None


def _too_few(said, file, line, node):
    """A launch without all arguments of its kernel."""
    if not (found := re.search(r"missing \d+ required positional arguments?: (.*)", said)):
        return None
    if tip := source.too_few(file, line, list(dict.fromkeys(re.findall(r"'(\w+)'", found[1])))):
        return tip
    return None


def _grid(said, file, line, node):
    if found := re.search(r"int\(\) argument must be .* not '(tuple|function)'", said):
        if name := source.grid_of(file, line):
            what = "a tuple" if found[1] == "tuple" else "a function"
            return f"Line {line} puts `{name}` in a tuple already: the gap wants a number, not {what}."
        if found[1] == "function":
            return "A grid is a tuple of numbers, or a function that returns one: not a tuple with a function in it."
    if "'float' object cannot be interpreted as an integer" in said and source.divides(file, line):
        return "`/` gives a float, and here a whole number is wanted. A grid is rounded up, by `triton.cdiv`."
    return None


def _tl(said, file, line, node):
    if "outside of the scope of a kernel" in said and (name := source.tl_outside(file, line)):
        outside = f"; outside it is `triton.{name}`" if name in ("cdiv", "next_power_of_2") else ""
        return f"`tl.{name}` works in a kernel only{outside}."
    return None


def about_trouble(run: Run, trouble: Trouble) -> str:
    """Of an access that is not allowed."""
    rules = (
        _input,
        _unordered,
        _joined_masks,
        _shared,
        _same_offsets,
        _no_mask,
        _exchanged,
        _backward,
        _beside_the_tile,
        _one_too_many,
        _ignores_strides,
        _row_begins,
        _mask_says_on,
        _race,
        _overlap,
    )
    return next((said for rule in rules if (said := rule(run, trouble))), "")


def siblings(access: Access) -> dict[int, list[Access]]:
    """The accesses of every program in the same line, by program."""
    found: dict[int, list[Access]] = {}
    for other in access.launch.accesses:
        if other.line == access.line and other.op == access.op and other.region is access.region:
            found.setdefault(other.program, []).append(other)
    return found


def all_the_same(access: Access) -> bool:
    """Whether every program of the launch works on the same offsets."""
    found = [np.concatenate([a.offsets for a in many]) for many in siblings(access).values()]
    return len(found) > 1 and all(np.array_equal(found[0], offsets) for offsets in found[1:])


def _input(run, trouble):
    if trouble.kind == "input":
        return "What a kernel writes needs memory of its own: is there a `torch.empty_like` for it?"
    return None


def _joined_masks(run, trouble):
    if trouble.kind != "outside" or trouble.access.mask.size == 1:
        return None
    if not (found := source.joined_masks(run.file, trouble.access.line)):
        return None
    symbol = "&" if found[0] == "and" else "|"
    return f"Line {found[1]} has `{found[0]}` between two masks, of which Python takes one. Write `{symbol}`."


def _same_offsets(run, trouble):
    stores = [access for access in trouble.access.launch.accesses if access.op != "load"]
    if trouble.access.op == "load" and stores and not all_the_same(stores[-1]):
        return None  # what all programs read may be the same, as a tile of a matrix in a product
    if all_the_same(trouble.access) and not run.spec.shared:
        said = "Every program has the same offsets. Did you forget the program's number, `tl.program_id`?"
        return said + (" Or is one program enough here?" if trouble.access.region.span == 1 else "")
    return None


def _shared(run, trouble):
    if trouble.kind in ("race", "twice") and trouble.other != trouble.access.program:
        return run.spec.shared or None
    return None


def _no_mask(run, trouble):
    if trouble.kind != "outside" or _between(trouble):
        return None
    if not trouble.access.masked and trouble.access.offsets.size == 1:
        return f"Line {trouble.access.line} has no mask. When is there no such element, and which condition says so?"
    if not trouble.access.masked:
        return f"Line {trouble.access.line} has no mask: what switches off the lanes that have no element?"
    if trouble.access.op == "atomic" and trouble.access.mask.all():  # masked, or not
        return f"Every lane of line {trouble.access.line} is on: which mask switches off those that have no element?"
    return None


def _between(trouble) -> bool:
    """Whether the offset lies in the tensor, in a gap between its elements."""
    return 0 <= trouble.access.offsets[trouble.lane] < trouble.access.region.span


def _steps(access: Access) -> tuple[int, int] | None:
    """How far the offsets of a tile move along each of its axes, where that is the same everywhere."""
    if len(access.shape) != 2 or min(access.shape) < 2:
        return None
    lanes = access.offsets.reshape(access.shape)
    steps = np.diff(lanes, axis=0), np.diff(lanes, axis=1)
    return None if any((step != step[0, 0]).any() for step in steps) else tuple(int(step[0, 0]) for step in steps)


def _exchanged(run, trouble):
    """A tile that moves by the other axis' stride on each axis; its mask says which axis is which."""
    access, tensor = trouble.access, trouble.access.region.tensor
    if trouble.kind != "outside" or tensor.ndim != 2 or access.program or access.mask.all() or not _steps(access):
        return None
    row, column = tensor.stride()
    on = access.mask.reshape(access.shape)
    meant = np.zeros_like(on)
    meant[: len(tensor), : tensor.shape[1]] = True
    if row != column and [abs(step) for step in _steps(access)] == [column, row] and (on == meant).all():
        return "Have rows and columns each other's stride? See the offsets, and what the launch passes."
    return None


def _backward(run, trouble):
    access, tensor = trouble.access, trouble.access.region.tensor
    if trouble.kind != "outside" or run.case.layout or not tensor.ndim:
        return None
    lanes, many = access.offsets.reshape(access.shape), siblings(access)
    falls = [axis for axis, n in enumerate(access.shape) if n > 1 and (np.diff(lanes, axis=axis) < 0).all()]
    firsts = [int(many[p][0].offsets.flat[0]) for p in sorted(many)[:2]]
    if not falls and not (len(firsts) == 2 and firsts[1] < firsts[0]):
        return None
    said = f"The offsets fall from {'lane to lane' if falls else 'program to program'}. "
    step = -int(np.diff(lanes, axis=falls[-1]).flat[0]) if falls else 0
    strides = list(tensor.stride())
    axis = strides.index(step) if step in strides else tensor.ndim - 1
    if firsts[0] != (tensor.shape[axis] - 1) * strides[axis]:
        return said + (
            "Does the first lane of the first program get the last index, which is n - 1? And does the mask compare "
            "with the right length?"
        )
    on = access.mask.reshape(access.shape)
    if len(access.shape) == 2 == tensor.ndim:
        for axis, what in ((1, "columns"), (0, "rows")):
            if on.shape[axis] > tensor.shape[axis] and (on == on.any(axis=axis, keepdims=True)).all():
                return f"{said}{draw.name_of(access)} has {tensor.shape[axis]} {what}, and of the tile all " + (
                    f"{on.shape[axis]} are on. Does the mask compare the {what}, too?"
                )
    return said + "Does the mask compare with the right length?"


def _one_too_many(run, trouble):
    access = trouble.access
    if trouble.kind == "outside" and (access.offsets[access.mask & ~access.inside] == access.region.span).all():
        return (
            "Just one lane too many is on. Does your mask say `<=` where `<` is right? Or does it compare with one "
            "more than there are?"
        )
    return None


def _ignores_strides(run, trouble):
    if run.case.layout and trouble.access.op == "store" and trouble.access.region.tensor.is_contiguous():
        strides = tuple(trouble.access.region.tensor.stride())
        if said := _strides_of_another(run, trouble.access):
            return said
        return f"Here the strides of what is stored are {strides}. Are its offsets made with those of something else?"
    if run.case.layout and trouble.kind in ("outside", "twice"):
        other = ", or a `.contiguous()`" if "clone" in run.spec.torch_ops else ""
        said = f"It was in bounds for a contiguous tensor. Looks as if a stride is missing from the offsets{other}."
        return said + _stride_left_out(run, [trouble.access])
    if trouble.kind == "outside" and _between(trouble):
        if trouble.access.region.name == "the gradient":
            return "The gradient that comes in may have gaps. Does the kernel get what `.contiguous()` returns?"
        return "Looks as if a stride is missing from the offsets." + _stride_left_out(run, [trouble.access])
    return None


def _stride_left_out(run: Run, accesses: list[Access]) -> str:
    """A stride of a tensor that the kernel gets, and that an access of the tensor does not use; "" if none is known."""
    seen, ndims = set(), {name: value.ndim for name, value in run.inputs.items() if isinstance(value, torch.Tensor)}
    for access in accesses:
        launch, region = access.launch, access.region
        if (access.line, region.name) in seen or not region.given:
            continue
        seen.add((access.line, region.name))
        used = source.used_by(run.file, access.line)
        for parameter, axis in source.strides_passed(run.file, launch.line, region.name, ndims).items():
            size = region.tensor.shape[axis] if -region.tensor.ndim <= axis < region.tensor.ndim else 0
            if size > 1 and used is not None and parameter not in used:
                return f" `{parameter}`, which the kernel gets, is not in line {access.line}."
    return ""


def _strides_of_another(run, access: Access | None) -> str | None:
    """A tile that is stored with the strides of an input."""
    own = tuple(access.region.tensor.stride()) if access and access.op == "store" else ()
    for name, value in run.inputs.items() if len(own) == 2 else ():
        if isinstance(value, torch.Tensor) and tuple(value.stride()) == _steps(access) != own:
            return f"The store uses {name}'s strides, {tuple(value.stride())}; the result's are {own}."
    return None


def _row_begins(run, trouble):
    """Where a program takes a row, and begins somewhere else."""
    access, tensor = trouble.access, trouble.access.region.tensor
    many = siblings(access)
    if trouble.kind != "outside" or len(access.shape) > 1 or tensor.ndim != 2 or not {0, 1} <= many.keys():
        return None
    first, second = (int(many[p][0].offsets.flat[0]) for p in (0, 1))
    row, column = tensor.stride()
    if access.offsets.size == 1 or first != 0 or second == row or access.launch.programs != len(tensor):
        return None
    said = f"Program 1 begins at offset {second}, and row 1 at {row}. "
    if second == 2 * row > 0:
        return said + "Is the row counted twice?"
    if second == column and access.offsets[1] == row:
        return said + "Have rows and columns each other's stride?"
    if second == access.offsets.size:
        return said + "Is the row's number multiplied by the block, rather than by the stride?"
    return None


def _beside_the_tile(run, trouble):
    """Rows or columns of a tile are on that the matrix does not have."""
    access, tensor = trouble.access, trouble.access.region.tensor
    if trouble.kind != "outside" or len(access.shape) != 2 or tensor.ndim != 2 or min(access.shape) < 2:
        return None
    lanes, on, (row, column) = access.offsets.reshape(access.shape), access.mask.reshape(access.shape), tensor.stride()
    if (np.diff(lanes, axis=0) != row).any() or (np.diff(lanes, axis=1) != column).any() or lanes[0, 0] < 0:
        return None  # of other strides, or no tile of the matrix
    if row > column > 0:
        first = lanes[0, 0] // row, lanes[0, 0] % row // column
    elif column > row > 0:
        first = lanes[0, 0] % column // row, lanes[0, 0] // column
    else:
        return None
    for axis, what in ((1, "column"), (0, "row")):
        beyond = first[axis] + np.arange(on.shape[axis]) >= tensor.shape[axis]
        if (gone := np.flatnonzero(beyond & on.any(axis=1 - axis))).size:
            which = f"{what} {gone[0]}" if gone.size == 1 else f"{what}s {gone[0]} to {gone[-1]}"
            said = f"The mask is on in {which} of the tile, and {draw.name_of(access)} ends before. "
            end, size = int(first[axis] + gone[-1] + 1), tensor.shape[axis]
            known = source.names_in_mask(run.file, access.line) if gone[-1] < on.shape[axis] - 1 else set()
            if other := [name for name in known if access.launch.given.get(name) == end]:
                return (
                    said + f"It lets {end} {what}s pass, which is {other[0]}, and there are {size}: compare with those."
                )
            if known and end == size + 1:
                return said + "Does your mask say `<=` where `<` is right?"
            return said + f"Does the mask compare the {what}s, and in a loop those of this step?"
    return None


def _mask_says_on(run, trouble):
    if trouble.kind == "outside":
        on = trouble.access.mask
        if on.size == 1:
            return "The mask is on. Has each index in this offset its own stride, and is none counted twice?"
        which = "every lane" if on.all() else f"{int(on.sum())} of {on.size} lanes"
        said = f"The mask has {which} on. Does it compare the right offsets with the right length?"
        access = trouble.access
        if not (on & access.inside).any():
            if siblings(access)[access.program][0] is not access:
                return said + " Or does the loop end a step too late?"
            if access.program == access.launch.programs - 1 > 0:
                return said + " And has the launch more programs than there is work?"
        return said + (" If so: is each index multiplied by its own stride?" if len(trouble.access.shape) > 1 else "")
    return None


def _race(run, trouble):
    if trouble.kind == "race":
        return "A GPU starts programs in any order: what one writes, no other may touch in the same launch."
    return None


def _unordered(run, trouble):
    if trouble.kind == "unordered":
        return "The threads of a program run apart: `tl.debug_barrier()` waits for all, and a block needs no memory."
    return None


def _overlap(run, trouble):
    if trouble.kind != "twice":
        return None
    many = siblings(trouble.access)
    starts = [int(many[p][0].offsets[0]) for p in sorted(many)][:2]
    if trouble.other != trouble.access.program and len(starts) == 2:
        lanes = trouble.access.offsets.size
        return (
            f"Program 0 begins at offset {starts[0]}, program 1 at {starts[1]}, and each has {lanes} lanes, of which "
            f"the mask leaves some on that belong to somebody else. Is it the step, or the mask?"
        )
    access, offset = trouble.access, trouble.access.offsets[trouble.lane]
    before = list(itertools.takewhile(lambda other: other is not access, access.launch.accesses))
    before = [a for a in before if (a.op, a.program) == ("store", access.program) and a.region is access.region]
    lines = [other.line for other in before if (other.mask & (other.offsets == offset)).any()]
    if lines and lines[-1] != access.line:
        return source.two_stores(run.file, lines[-1], access.line)
    if np.unique(trouble.access.offsets[trouble.access.mask]).size == trouble.access.mask.sum():
        return "It was another store of the same program. In a loop: how far do the offsets move with each step?"
    return "Two lanes have the same offset. Does every index have its stride, and the mask `<` rather than `<=`?"


# Values


def about_values(
    run: Run, name: str, at: tuple[int, ...], got, want, owner: Access | None, missed: int
) -> tuple[str, Access | None]:
    """Of a result with a wrong element at ``at``; ``missed`` elements were never stored. And a load to draw, if any."""
    rules = (
        _other_number,
        _known_result,
        _never_launched,
        _dark_load,
        _diagonal,
        _axes,
        _short_row,
        _too_few_programs,
        _wrong_step,
        _poison,
        _half,
        _strided,
        _transposed,
        _same_loads,
        _tf32,
        _unread,
    )
    given = (run, name, at, got, want, owner, missed)
    said = next((said for rule in rules if (said := rule(*given))), "")
    if isinstance(said, tuple):
        return said
    unread = _unread(*given) if owner is not None and not run.case.fill and not run.case.layout else None
    if not isinstance(unread, tuple) or any(len(many) > 1 for many in siblings(unread[1]).values()):
        return said, None  # of a loop, a picture of the first step shows little
    return said, unread[1]


def _other_number(run, name, at, got, want, owner, missed):
    """A launch passes a number as a parameter that bears the name of another number of the file."""
    for launch in run.launches:
        for constant, value in launch.constants.items():
            passed = getattr(launch.given[constant], "value", launch.given[constant])
            if isinstance(value, float) and isinstance(passed, int | float) and passed != value:
                passes = f"Line {launch.line} passes {passed:g} as {constant}"
                return f"{passes}; the file sets {constant} to {value:g}, at the top."
    return None


def _tf32(run, name, at, got, want, owner, missed):
    if line := run.recorder.tf32:
        return (
            f"A GPU multiplies float32 as TF32, with 10 bits behind the point, and so does line {line}. All 23 bits "
            'count in `tl.dot(…, input_precision="ieee")`.'
        )
    return None


def _dark_load(run, name, at, got, want, owner, missed):
    """A load of which no lane is on, in any program."""
    for launch in run.launches:
        lines: dict[int, list[Access]] = {}
        for access in launch.accesses:
            if access.op == "load" and access.region.given and (access.region.index >= 0).any():
                lines.setdefault(access.line, []).append(access)
        for line, loads in lines.items():
            if not any(access.mask.any() for access in loads):
                return f"No lane of the load in line {line} is on, in any program: what does its mask compare?", loads[
                    0
                ]
    return None


def _diagonal(run, name, at, got, want, owner, missed):
    for access in _stores(run) if missed else ():
        tensor, vector = access.region.tensor, len(access.shape) == 1 and access.offsets.size > 1
        if vector and tensor.ndim == 2 and (np.diff(access.offsets) == sum(tensor.stride())).all():
            return "The lanes of a program lie on a diagonal: a tile takes `rows[:, None]` and `columns[None, :]`."
    return None


def _axes(run, name, at, got, want, owner, missed):
    """With two axes: programs without an element, and elements without a program."""
    for launch in run.launches if missed else ():
        stores = [access for access in launch.accesses if access.op == "store"]
        idle = {a.program for a in stores} - {a.program for a in stores if a.mask.any()}
        if launch.grid[1] > 1 and idle:
            pid = launch.pid(min(idle))
            return (
                f"Program {pid} has no element, and {missed} elements have no program. Has the grid its axes in the "
                "kernel's order: does the kernel count the same on each axis?"
            )
    return None


def _known_result(run, name, at, got, want, owner, missed):
    actual = run.results[name]
    given = [v.detach() if isinstance(v := run.inputs[p], torch.Tensor) else v for p in run.spec.signature]
    known = run.spec.mistaken if name == "out" else {}
    if run.spec.gradients and name == f"grad of {run.spec.gradients[0]}":
        known, given = run.spec.mistaken_gradient, [gradient_like(run.expected["out"].detach()), *given]
    for said, mistaken in known.items():
        try:
            other = mistaken(*given)
            close = torch.allclose(actual.double(), other.double(), 1e-3, 1e-5, equal_nan=True)
            if close and not abs(other[at].item() - got) >= abs(want - got):  # else what is right is as close
                return said
        except (RuntimeError, IndexError, ValueError, TypeError, AttributeError):
            continue  # not for these shapes
    return None


def _stores(run):
    return [access for launch in run.launches for access in launch.accesses if access.op == "store"]


def _never_launched(run, name, at, got, want, owner, missed):
    if not run.launches:
        return "No kernel was launched. Is there a line `kernel[grid](…)`, and does it run?"
    return None


def _short_row(run, name, at, got, want, owner, missed):
    stores = _stores(run)
    if not missed or not stores or stores[0].region.tensor.ndim != 2:
        return None
    many = siblings(stores[0])
    if len(many) < 2 or stores[0].offsets.size < 2:  # a lane alone is no block
        return None
    first, second = (many[p] for p in sorted(many)[:2])
    (_, columns), (stride, _) = stores[0].region.tensor.shape, stores[0].region.tensor.stride()
    reached = max(int(access.offsets.max()) for access in first)
    if second[0].offsets.flat[0] == stride and reached < columns - 1:
        return (
            f"Each program begins a row, and stores {reached + 1} of its {columns} elements. Is the block as long as "
            "a row, or is there a loop along it?"
        )
    return None


def _too_few_programs(run, name, at, got, want, owner, missed):
    if not missed or owner is not None:
        return None
    if run.launches and not run.launches[-1].programs:
        return "The launch has no program at all. Does the grid round up, with `triton.cdiv`?"
    if not (stores := _stores(run)):
        return None
    if all_the_same(stores[-1]):
        return "Every program has the same offsets. Did you forget the program's number, `tl.program_id`?"
    region = stores[-1].region
    ends = max(int(access.offsets.max()) for access in stores if access.region is region)
    if ends < region.span - 1:
        launch = stores[-1].launch
        count = f"{launch.programs} programs of this launch reach"
        said = (
            f"The {count if launch.programs != 1 else 'one program of this launch reaches'} offset {ends}, and the "
            f"last element is at {region.span - 1}. Does the grid round up, with `triton.cdiv`?"
        )
        if launch.grid[1:] != (1, 1):
            return said + " And does the kernel count the same on each axis?"
        return said + (" And does it count tiles along both axes?" if len(stores[-1].shape) > 1 else "")
    return None


def _wrong_step(run, name, at, got, want, owner, missed):
    stores = _stores(run)
    if not missed or not stores:
        return None
    many = siblings(stores[0])
    if len(many) < 2 or stores[0].offsets.size < 2:  # a lane alone is no block
        return None
    first, second = (many[p][0].offsets for p in sorted(many)[:2])
    if len(run.launches[-1].grid) and second[0] > first[-1] + 1 and run.launches[-1].grid[1:] == (1, 1):
        return (
            f"Program 0 ends at offset {first[-1]} and program 1 begins at {second[0]}. "
            f"Looks as if `pid` is multiplied by something else than the block's size."
        )
    return None


def undefined_load(run: Run, program: int | None = None) -> Access | None:
    """A load (of this program, else of any) with lanes that are off and no `other`."""
    for launch in run.launches:
        for access in launch.accesses:
            if access.op == "load" and not access.other and not access.mask.all() and program in (None, access.program):
                return access
    return None


def _poison(run, name, at, got, want, owner, missed):
    if not run.case.fill:
        return None
    if load := undefined_load(run):
        return (
            f"Line {load.line} loads without `other`. What a lane that is off holds is undefined, and here it reaches "
            "the result: which value would change nothing?"
        )
    if any(access.op == "atomic" for launch in run.launches for access in launch.accesses):
        return "An atomic operation adds to what is there. Does the result begin as zeros?"
    return "The result depends on memory that nobody wrote. Is something read before it is stored, or never stored?"


def _half(run, name, at, got, want, owner, missed):
    actual, expected = run.results[name], run.expected[name]
    narrow = str(expected.dtype).removeprefix("torch.")
    if narrow not in ("float16", "bfloat16") or missed:
        return None
    error = (actual.double() - expected.double()).abs()
    relative = error / expected.double().abs().clamp(min=1e-3)
    near = relative.isfinite().all() and relative.median() < 0.05 and error.max() < 0.02 * expected.double().abs().max()
    for launch in run.launches if near else ():
        found = source.sums(run.file, launch.kernel, launch.given)
        for total, dtype, parameter, line, rounded in found:
            if dtype == "float32" and rounded:
                return f"The sum is kept in tl.float32, but line {rounded} rounds what is added to it, in every step."
            if dtype == narrow and not rounded and parameter:
                passes = f"line {launch.line} passes tl.{narrow} as {parameter}"
                return f"What is added up in `{total}` is kept in tl.{narrow}, for {passes}. Is tl.float32 better?"
            if dtype == narrow and not rounded:
                return f"What is added up in `{total}` is kept in tl.{narrow}, by line {line}. Is tl.float32 better?"
        if found and source.narrow(run.file, launch.kernel, launch.given, narrow):
            return f"Close, but not close enough. Looks as if the sum is kept in tl.{narrow}; is tl.float32 better?"
    if near and _by_steps(run, actual):
        return (
            f"Close, but not close enough. A sum that is rounded to tl.{narrow} in each step gives these very numbers: "
            "is something in the loop kept in it?"
        )
    return None


def _by_steps(run, actual) -> bool:
    """Whether the result is a product of the two inputs that is rounded to its dtype in each step along K."""
    given = [value for value in run.inputs.values() if isinstance(value, torch.Tensor)]
    if (
        len(given) != 2
        or any(m.ndim != 2 or m.dtype != actual.dtype for m in given)
        or len(given[0].T) != len(given[1])
    ):
        return False
    a, b = (m.detach().double() for m in given)
    for step in (8, 16, 32, 64, 128):
        for kept in (torch.float32, actual.dtype):
            total = torch.zeros(len(a), b.shape[1], dtype=kept)
            for start in range(0, a.shape[1], step):
                total = total + (a[:, start : start + step] @ b[start : start + step]).to(actual.dtype)
            if torch.equal(total.to(actual.dtype), actual):
                return True
    return False


def _strided(run, name, at, got, want, owner, missed):
    if run.case.layout and (said := _strides_of_another(run, owner)):
        return said
    if run.case.layout and not run.results[name].is_contiguous():
        strides = tuple(run.results[name].stride())
        what = "The result" if name == "out" else f"{name[0].upper()}{name[1:]}"
        return f"{what} is not contiguous: its strides are {strides}. Does the kernel store as if it were?"
    if run.case.layout and not run.case.fill:
        said = "It was right for a contiguous tensor. Looks as if a stride is missing from the offsets."
        return said + _stride_left_out(run, [a for launch in run.launches for a in launch.accesses])
    return None


def _transposed(run, name, at, got, want, owner, missed):
    actual, expected = run.results[name], run.expected[name]
    if actual.ndim == 2 and actual.shape[0] == actual.shape[1] and torch.equal(actual, expected.mT):
        return "This is the result, transposed. Are rows and columns, or their strides, exchanged?"
    return None


def _same_loads(run, name, at, got, want, owner, missed):
    for launch in run.launches:
        for access in launch.accesses:
            region = access.region
            unread = access.op == "load" and region.given and (region.reads[region.index >= 0] == 0).any()
            if unread and all_the_same(access):
                return (
                    f"Every program loads the same elements of {draw.name_of(access)}, in line {access.line}, and some "
                    "are loaded by none. Did you forget the program's number there?"
                ), access
    return None


TRIES = 16  # elements that are changed, to see whether the result depends on them


def _unread(run, name, at, got, want, owner, missed):
    """An element that no program loads, and on which the result depends."""
    loads = [access for launch in run.launches for access in launch.accesses if access.op == "load"]
    for given, value in run.inputs.items() if not missed else ():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or run.expected is None:
            continue
        region = run.arena.region_of(value)
        unread = np.sort(region.index[(region.index >= 0) & (region.reads == 0)])
        for element in unread[:: max(1, unread.size // TRIES)][:TRIES].tolist():
            place = tuple(int(i) for i in np.unravel_index(element, value.shape))
            if not _depends(run, given, place):
                continue
            mine = [access for access in loads if access.region is region]
            mine = [access for access in mine if owner is not None and access.program == owner.program] or mine
            what = f"{draw.name_of(mine[0]) if mine else given}[{', '.join(map(str, place))}]"
            verb = "is not" if unread.size == 1 else "are not"
            said = f"{what} is read by no program ({unread.size} of {value.numel()} elements {verb})."
            return (f"{said} Which offsets has the load in line {mine[0].line}?", mine[0]) if mine else said
    return None


def _depends(run, given: str, place: tuple[int, ...]) -> bool:
    """Whether the right result is another one when this element of an input is."""
    changed = {k: v.detach().clone() if isinstance(v, torch.Tensor) else v for k, v in run.inputs.items()}
    changed[given][place] += 1
    try:
        other = reference(run.spec, changed)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return any(not torch.allclose(e, other[k], 1e-4, 1e-6, equal_nan=True) for k, e in run.expected.items())
