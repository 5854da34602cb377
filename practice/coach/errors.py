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
    r"name 'inf' is not defined": 'Infinity is `float("inf")`, as in `-float("inf")`.',
    r"'(builtin_function_or_method|method)' object is not subscriptable": "That is a method: call it, as in "
    "`x.stride(0)`.",
    r"failed to specialize argument of type: (builtin_function_or_method|method)": "That is a method: call "
    "it, as in `x.numel()`.",
    r"can only concatenate tuple|unsupported operand type\(s\) for .*'tuple'": "A shape is a tuple: `n = x.numel()`, "
    "or `rows, columns = x.shape`.",
    r"cannot import name": "Does the module have it, with the same spelling?",
    r"has no attribute '\w+'\. Did you mean|unrecognised\. Did you mean|argument '\w+'\. Did you mean": "",
    r"triton\.language' has no attribute": "`tl` has no such function. Can you build it from others? A mean is a sum "
    'divided by the number of elements; infinity is `float("inf")`.',
    r"tensor_descriptor_base\.|\.store\(.*\n\s*\^\s*\n.*has no len|tl\.load\(.*\n\s*\^\s*\n.*core\.tuple|"
    r"'tensor_descriptor' object|ptr type tensor_descriptor": "A descriptor has two methods of its own, which take the "
    "first row and column together: `x.load([row, column])` and `out.store([row, column], tile)`.",
    r"TensorDescriptor\.__init__": "Is it `TensorDescriptor.from_tensor(tensor, shape of a tile)`? It reads everything "
    "else from the tensor.",
    r"'tensor' object has no attribute": "A block has few of torch's methods, among them `.to(dtype)` and `.T`. "
    "Most others are functions of `tl`.",
    r"multiple values for argument": "One argument is passed by position and by name. Does the launch pass the "
    "kernel's arguments in order, each of them once?",
    r"power of 2": "A block's size must be a power of two: does `triton.next_power_of_2` help?",
    r"arange's arguments must be of type tl\.constexpr": "`tl.arange` takes constants: is the block's size marked "
    "`tl.constexpr`?",
    r"Unsupported function referenced: <function \w+>": "A kernel calls only functions of `tl`, and your own that "
    "are marked `@triton.jit`, too.",
    r"(float|int)\(\) argument must be .* not 'tensor'|must be real number, not tensor": "The dtype of a block "
    "changes by `x.to(tl.float32)`, and functions come from `tl`: `tl.exp`, not `math.exp`.",
    r"name '(torch|math|np|numpy)' is not defined": "Is it imported? Inside a kernel, use the functions of `tl`: "
    "`tl.exp`.",
    r"Cannot access global variable": "A kernel sees only its arguments and globals that are "
    "`tl.constexpr`, so pass it.",
    r"a scalar has no axes": "A pointer knows no shape: pass the tensor's sizes as arguments.",
    r"object of type 'tensor' has no len": "A kernel sees no length. That of a block is the constant you chose, such "
    "as `BLOCK`; a tensor's is passed as an argument, such as `n`.",
    r"Unsupported function referenced|NameError\(.(torch|math|np|numpy) is": "Inside a kernel, use the functions "
    "of `tl`: `tl.exp`, not `torch.exp` or `math.exp`.",
    r"NameError: (abs|sum) is not defined": "Python's own function does not work on blocks: it is `tl.abs(x)`, and "
    "`tl.sum(x, axis=0)`.",
    r"NameError: \w+ is not defined": "A kernel knows few of Python's own functions: `range`, `min`, `max`, `len`, "
    "`print`. Others come from `tl`.",
    r"UnboundLocalError": "It has a value in one branch of an `if` only, or in a loop that did not run. Give it one "
    "before.",
    r"is not defined\. Did you mean": "",
    r"NameError|is not defined": "Is this name defined in your file, with the same spelling? Whatever you copy from "
    "another file needs its helpers, too. And what only an `if` defines is unknown after it.",
    r"invalid axis|axis 1 out of bounds for shape \[\d+\]": "A one-dimensional block has only axis 0. In one of rows "
    "and columns, axis 1 runs along a row.",
    r"axis \S+ out of bounds for shape": "The second argument is the axis along which one block is reduced. The larger "
    "of two is `tl.maximum(a, b)`.",
    r"(?s)triton\.(cdiv|next_power_of_2)\([^\n]*\n\s*\^\s*\n.*Did you forget": "In a kernel it is `tl.cdiv`; "
    "`triton.cdiv` is for the launch.",
    r"unsupported tensor index: .* of pointer": "A pointer has no elements in brackets. Read from memory by "
    "`tl.load(x_ptr + offsets, mask=mask)`.",
    r"__setitem__ is not supported": "To write to memory: `tl.store(out_ptr + offsets, value, mask=mask)`. A block "
    "does not change; `tl.where` makes another one.",
    r"a block cannot be iterated over": "A kernel does not go through elements one by one: an operation takes all "
    "lanes of a block at once, and `tl.sum` adds them up.",
    r"(?s)\w\[[^\n]*\n\s*\^\s*\n.*Did you forget to add @triton\.jit|unsupported tensor index": "Brackets can't pick "
    "an element out of a block. Load it from memory, or use `tl.where` to keep only that element in a sum.",
    r"AST node type: (Import|ImportFrom)": "Imports belong at the top of the file. A kernel computes with `tl` alone.",
    r"AST node type: (Break|Continue)": "A kernel's loop has no `break` and no `continue`. Switch lanes off by a "
    "mask, or use `while` with a condition.",
    r"AST node type|nested function definition|only tuple comprehensions": "A kernel knows only a part of Python: "
    "numbers and blocks, `if`, `for`, `while`, and calls of `tl` or of other functions with `@triton.jit`.",
    r"failed to specialize argument of type": "A kernel takes tensors and numbers. A list becomes a tensor by "
    "`torch.tensor(…)`, an array by `torch.from_numpy(…)`.",
    r"program_id\(\) missing": "Along which axis of the grid? `tl.program_id(axis=0)`.",
    r"num_programs\(\) missing": "Along which axis of the grid? `tl.num_programs(axis=0)`.",
    r"arange\(\) missing": "`tl.arange(0, BLOCK)` takes a start, too.",
    r"(zeros|full)\(\) missing": "`tl.zeros((BLOCK,), dtype=tl.float32)` takes a shape and a dtype, `tl.full` a value "
    "between them.",
    r"store\(\) missing": "Where, and what? `tl.store(pointer, value, mask=mask)`.",
    r"where\(\) missing": "`tl.where(condition, x, y)` takes a value for each case.",
    r"takes \d+ positional arguments? but": "There are more arguments than parameters. Does the call pass one twice, "
    "or is a parameter missing?",
    r"missing .*required positional argument": "Does the launch pass every argument of the kernel, in its order?",
    r"Conflicting meta-parameters": "Does the launch also pass something that the tuner's configs set?",
    r"'function' object is not subscriptable": "Is the kernel marked `@triton.jit`? A kernel is launched with its "
    "grid in brackets: `kernel[(programs,)](…)`.",
    r"'float' object cannot be interpreted as an integer": "A whole number is needed, and `/` gives a fraction: "
    "`triton.cdiv(n, BLOCK)` rounds up, `//` down.",
    r"object of type '(int|float|NoneType)' has no len|int\(\) argument must be .* not 'tuple'": "The grid is a tuple "
    "of numbers: `kernel[(programs,)](…)`, with a comma for one axis.",
    r"'tensor' object is not callable": "A number or a block is called like a function. Is there a `*` missing?",
    r"requires at least 2 values": "The largest element of a block is `tl.max(x, axis=0)`.",
    r"loop bounds and step must all be ints|For \w+ bound must be a scalar": "A loop counts in whole numbers: "
    "`range(0, n, BLOCK)`, with `//` for division.",
    r"'int' object has no attribute 'to'": "In the interpreter, the variable of a `for` loop is a Python number "
    "without `.to`. Cast a block instead, such as `tl.arange(…)`.",
    r"invalid operands of type pointer\S* and \S*float|invalid operands of type \S*float\d+ and pointer": "A pointer "
    "is only an address: is there a `tl.load` around it? And offsets are whole numbers, so divide them by `//`.",
    r"cannot add pointers together|cannot cast .*pointer<": "A pointer is only an address. Is there a `tl.load` "
    "around it?",
    r"invalid operands of type pointer": "A pointer is only an address. Is there a `tl.load` around it?",
    r"__pow__|\*\* or pow\(\)": "Triton has no `**`. To square a number, multiply it by itself.",
    r"outside of the scope of a kernel: tl\.(cdiv|next_power_of_2)": "Outside a kernel it is `triton.cdiv`.",
    r"outside of the scope of a kernel: tl\.": "The functions of `tl` work only inside a kernel. Outside, use torch's.",
    r"is not subscriptable|Cannot call @triton\.jit.*outside": "A kernel is launched with its grid in brackets: "
    "`kernel[(programs,)](…)`.",
    r"Unsupported ptr type .* in `tl\.store`|Pointer argument of store instruction is": "The pointer comes first, "
    "then the value: `tl.store(out_ptr + offsets, value, mask=mask)`.",
    r"Unsupported ptr type|cannot be loaded from|not a pointer": "Is the first argument of `tl.load` or `tl.store` a "
    "pointer plus offsets?",
    r"Loop-carried variable \w+ has initial type \w+ but is re-assigned to <": "It begins as one number and becomes a "
    "block. Should it begin as one, `tl.zeros((BLOCK,), dtype=tl.float32)`, or is a `tl.sum` missing?",
    r"Mismatched type for \w+ between then": "A name has one type, whichever branch is taken. Is it 0 in one, where "
    "the other has a float, 0.0?",
    r"Cannot make_shape_compatible|Cannot broadcast": "Blocks meet lane by lane, so along each axis their sizes are "
    "equal, or one of them is 1. `x[:, None]` adds an axis of 1.",
    r"Expected pointer argument to have shape": "The value has more lanes than there are pointers. Do the offsets "
    "have both axes: `rows[:, None] * stride + columns[None, :]`?",
    r"must have type .constexpr\[int\]": "A block's shape is made of constants: is the size marked `tl.constexpr`?",
    r"Mask must have boolean": "A mask says for each lane whether it is on. It is a comparison: `offsets < n`.",
    r"'int' object is not iterable": "Is a tuple meant, `(8,)` with its comma, or `range(8)`?",
    r"equal ranks >= 2": "`tl.dot` multiplies tiles of rows and columns. For two blocks of one axis it is `tl.sum(a * "
    "b)`.",
    r"Both operands must be same dtype": "Cast one of the tiles: `b.to(a.dtype)`.",
    r"Unsupported [lr]hs dtype|Expected dtype \['": "Cast it before: `x.to(tl.float32)`.",
    r"not compiled with CUDA": "There is no GPU here. A tensor that is made with `device=x.device` lies beside x, "
    "wherever that is.",
    r"maximum recursion depth": "A function calls itself, and nothing ends that. A kernel cannot call itself at all.",
    r"to tensor$|object has no attribute 'type'": "In a kernel, only numbers and blocks can be computed with.",
    r"Multiple assignments": "Assign one name a line: `a = x`, then `b = x`.",
    r"is not string": 'The first argument is a text, then follow values: `tl.device_print("x", x)`.',
    r"Loop-carried variable": "A block keeps its dtype through a loop: which `dtype` does it begin with, and what is "
    "added to it?",
    r"simultaneous multiple comparison": "`&` binds tighter than `<`: put each comparison in parentheses, "
    "`(0 <= x) & (x < n)`.",
    r"(?s)^ .*tl\.dot\([^\n]*\n\s*\^$|acc is \w+, and out_dtype is \w+": "`tl.dot` returns float32. Does "
    "the accumulator have the shape of the product, and is it float32?",
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
