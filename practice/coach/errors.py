# SPDX-License-Identifier: Apache-2.0
"""Explain errors of Triton and Python by their text alone, where no rule in ``mistakes`` knows more."""

import re

ERRORS = {
    r"'torch.dtype' object has no attribute": "Inside a kernel, dtypes come from `tl`: `tl.float32`, not "
    "`torch.float32`.",
    r"equal reduction dimensions": "`tl.dot(a, b)` needs as many columns in its first tile as there are rows in its "
    "second. Does a have its k axis second, `k[None, :]`, and b first, `k[:, None]`?",
    r"Value argument cannot be block type": "The pointer is a single address, but the value to store there is "
    "a block. Does your reduction leave more than one number, as it does when a tile has two axes?",
    r"Mask argument cannot be block type": "Here the pointer is a single address. Did you add the offsets to "
    "it, in the same argument: `tl.load(x_ptr + offsets, …)`?",
    r"'MatMult'": "In a kernel the product of two tiles is `tl.dot(a, b)`; `@` is torch's.",
    r"Boolean value of Tensor with more than one": "`if` decides for the whole program. To decide for each lane, use "
    "a mask or `tl.where`.",
    r"end argument must be greater than the start": "Without any elements, the block has no lanes. Should the launch "
    "then have no programs, or the block at least 1 lane?",
    r"unexpected keyword argument 'dim'": "What torch calls `dim`, Triton calls `axis`.",
    r"accumulator shape is incompatible": "`tl.dot(a, b, accumulator)` adds to a block with a's rows and b's "
    "columns. Does the accumulator begin as one, and are a and b in this order?",
    r"no attribute 'to_tensor'": "The interpreter knows reductions only as functions: `tl.max(x, axis=0)`, not "
    "`x.max()`.",
    r"triton\.language' has no attribute": "`tl` has no such function. Can you build it from others? A mean is a sum "
    'divided by the number of elements; infinity is `float("inf")`.',
    r"tensor_descriptor_base\.|\.store\(.*\n\s*\^\s*\n.*has no len|tl\.load\(.*\n\s*\^\s*\n.*core\.tuple|"
    r"'tensor_descriptor' object": "A descriptor has two methods of its own, which take the first row and column "
    "together: `x.load([row, column])` and `out.store([row, column], tile)`.",
    r"TensorDescriptor\.__init__": "Is it `TensorDescriptor.from_tensor(tensor, shape of a tile)`? It reads everything "
    "else from the tensor.",
    r"'tensor' object has no attribute": "A block has few of torch's methods, among them `.to(dtype)` and `.T`. "
    "Most others are functions of `tl`.",
    r"multiple values for argument": "One argument is passed by position and by name. Does the launch pass the "
    "kernel's arguments in order, each of them once?",
    r"power of 2": "A block's size must be a power of two: does `triton.next_power_of_2` help?",
    r"arange's arguments must be of type tl\.constexpr": "`tl.arange` takes constants: is the block's size marked "
    "`tl.constexpr`?",
    r"Unsupported function referenced|NameError\(.(torch|math|np|numpy) is": "Inside a kernel, use the functions "
    "of `tl`: `tl.exp`, not `torch.exp` or `math.exp`.",
    r"NameError|is not defined": "Is this name defined in your file, with the same spelling? Whatever you copy from "
    "another file needs its helpers, too. And what only an `if` defines is unknown after it.",
    r"invalid axis": "A one-dimensional block has only axis 0. In one of rows and columns, axis 1 runs along a row.",
    r"(?s)triton\.(cdiv|next_power_of_2)\([^\n]*\n\s*\^\s*\n.*Did you forget": "In a kernel it is `tl.cdiv`; "
    "`triton.cdiv` is for the launch.",
    r"(?s)\w\[[^\n]*\n\s*\^\s*\n.*Did you forget to add @triton\.jit|unsupported tensor index": "Brackets can't pick "
    "an element out of a block. Load it from memory, or use `tl.where` to keep only that element in a sum.",
    r"Cannot access global variable": "A kernel sees only its arguments and globals that are "
    "`tl.constexpr`, so pass it.",
    r"missing .*required positional argument": "Does the launch pass every argument of the kernel, in its order?",
    r"Conflicting meta-parameters": "Does the launch also pass something that the tuner's configs set?",
    r"'function' object is not subscriptable": "Is the kernel marked `@triton.jit`? A kernel is launched with its "
    "grid in brackets: `kernel[(programs,)](…)`.",
    r"object of type 'int' has no len|int\(\) argument must be .* not 'tuple'": "The grid is a tuple of numbers: "
    "`kernel[(programs,)](…)`, with a comma for one axis.",
    r"'int' object has no attribute 'to'": "In the interpreter, the variable of a `for` loop is a Python number "
    "without `.to`. Cast a block instead, such as `tl.arange(…)`.",
    r"invalid operands of type pointer": "A pointer is only an address. Is there a `tl.load` around it?",
    r"__pow__": "Triton has no `**`. To square a number, multiply it by itself.",
    r"is not subscriptable|Cannot call @triton\.jit.*outside": "A kernel is launched with its grid in brackets: "
    "`kernel[(programs,)](…)`.",
    r"Unsupported ptr type|cannot be loaded from|not a pointer": "Is the first argument of `tl.load` or `tl.store` a "
    "pointer plus offsets?",
    r"Loop-carried variable": "A block keeps its dtype through a loop: which `dtype` does it begin with, and what is "
    "added to it?",
    r"simultaneous multiple comparison": "`&` binds tighter than `<`: put each comparison in parentheses.",
    r"(?s)^ .*tl\.dot\([^\n]*\n\s*\^$": "`tl.dot` returns float32. Does the accumulator have the shape of the "
    "product, and is it float32?",
    r"block offset start must be 16-byte aligned": "A descriptor takes a tile's first row and column, in elements. Is "
    "the tile's number multiplied by its size?",
    r"(?s)^ .*\.store\(\[[^\n]*\n\s*\^$": "A descriptor stores tiles of a single shape. Is the tile "
    "transposed, and does it have the shape that the descriptor was made for?",
    r"illegal memory access|misaligned address": "A program touched memory outside its tensor, at a size that "
    "the interpreter did not try. Which offsets does the mask leave on?",
    r"Failed to find C compiler": "This is not your fault: Triton needs a C compiler here, such as gcc.",
    r"out of resource": "The program's blocks are too large for a GPU. Would smaller ones do?",
}


MADE_OF = {  # what of torch Triton does not have
    "nan_to_num": "Which numbers produce the NaN, and what should they be instead?",
    "logsumexp": "Build it from `tl.max`, `tl.exp`, `tl.sum` and `tl.log`.",
    "mean": "It is `tl.sum` divided by the number of elements.",
    "var": "It is the mean of (x - mean)², and a mean is `tl.sum` divided by the number of elements.",
    "relu": "It is `tl.maximum(x, 0.0)`.",
    "square": "It is `x * x`.",
    "pow": "To square it, multiply: `x * x`.",
    "isnan": "Only NaN differs from itself: `x != x`.",
    "inf": 'It is `float("inf")`.',
}


def explained(message: str) -> str:
    """Return what an error probably means, or nothing."""
    return next((tip for pattern, tip in ERRORS.items() if re.search(pattern, message)), "")
