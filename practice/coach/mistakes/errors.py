# SPDX-License-Identifier: Apache-2.0
"""Explain errors of Triton and Python by their text alone, where no rule of another module knows more."""

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
