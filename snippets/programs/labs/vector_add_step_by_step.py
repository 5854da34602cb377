# SPDX-License-Identifier: Apache-2.0
# %% [markdown] of="start/first_kernel" view="explorer" launch="add_kernel[0]"
# # Your first Triton kernel, step by step
#
# You write one addition and no loop, and yet ten additions get done. Who does the other nine?

# %% [markdown]
# Three copies of the same code share the work, and each copy adds up to four pairs of numbers at once. A
# [kernel](../reference/glossary.md#kernel) is a function that a GPU runs not once but many times over, like a recipe
# that a whole crew of cooks follows at the same time. Each running copy is called a
# [program](../reference/glossary.md#program), and here is who does what:
#
# - program 0 adds elements 0 to 3,
# - program 1 adds elements 4 to 7,
# - program 2 adds elements 8 and 9, which leaves two of its four places with nothing to do.
#
# Here you watch the three of them at every step. Each time, first guess what will be printed. There's no quicker way
# to find out what you haven't understood yet.

# %% [markdown] tags=["notebook"]
# On the course's site there is a picture of this: click a square to see what each line of the kernel computes for it,
# or drag the end of the list. To play along here, run the cells from the top, and guess before you run each one.

# %% [markdown]
# ## Turn on the interpreter
#
# You can just read this page, or you can download it and run it yourself. For that you need Linux, Python and `pip
# install torch numpy jupyterlab`, which also installs the Triton that torch needs. You don't need a GPU.
# [Install](../start/install.md) covers the rest: Windows, macOS, Colab, and a smaller torch without Triton.
#
# Normally, Triton compiles a kernel for a GPU. With `TRITON_INTERPRET=1` it doesn't. Instead, its
# [interpreter](../reference/glossary.md#interpreter) runs the kernel as Python, with NumPy arrays, on the CPU.
#
# Set the variable before you import Triton. If you set it later, Triton's own functions have already been prepared
# for a GPU, and kernels that call one of them, such as `tl.sum` or `tl.zeros`, fail. If that happens, restart the
# notebook and begin again from here.

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

print("Triton", triton.__version__)

# %% [markdown] right=2 then="Ten divided by four is two and a half, and half a program is a whole one."
# ## Ten numbers, four at a time
#
# Here are two tensors of ten numbers. `y` is a hundred times `x`, so you can tell from each sum which two elements
# went into it.
#
# Each program works on one [block](../reference/glossary.md#block) of four elements.
#
# **Predict:** how many programs do you need?
#
# - two
# - three
# - four

# %%
n = 10
block = 4
x = torch.arange(n, dtype=torch.float32)
y = 100 * x

print("x =", x.tolist())
print("y =", y.tolist())
programs = triton.cdiv(n, block)
print("programs:", programs)

# %% [markdown]
# `triton.cdiv` divides and rounds up. Two programs would leave two elements out.

# %% [markdown]
# ## The pid, the offsets and the mask
#
# Our first kernel doesn't touch memory. Each program works out three things and prints them:
#
# - its number, called the [pid](../reference/glossary.md#pid);
# - `offsets`, the positions of its four elements, counted from 0, which are called
#   [offsets](../reference/glossary.md#offset);
# - [`mask`](../reference/glossary.md#mask), which says which of these positions exist.
#
# `@triton.jit` turns a function into a kernel. `tl.program_id(axis=0)` asks for the program's number. (Programs can
# be numbered along up to three axes, such as the rows and columns of a matrix. A list of ten numbers needs only the
# first, axis 0.) `tl.arange(0, 4)` is 0, 1, 2, 3. And `tl.constexpr` marks a number that the compiler must know in
# advance. It has to know `BLOCK_SIZE`, which decides how many numbers each program handles at once. It doesn't have to
# know `n`, which may be different each time you run the kernel.
#
# In the interpreter, `print` in a kernel is Python's own. In a compiled kernel, `print` means `tl.device_print`,
# which takes one string first, then the values, so the prints below work in the interpreter alone.

# %%
@triton.jit
def look(n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)


# %% [markdown] right=2 then="Programs and elements are both counted from 0."
# The square brackets before the arguments hold the [grid](../reference/glossary.md#grid), which says how many
# programs to start. It's a tuple with a number for each axis, so with one axis you write `(1,)`. Let's begin with one
# program.
#
# **Predict:** what are its `pid`, its four offsets and its [mask](../reference/glossary.md#mask)?
#
# - pid 1, offsets 1 to 4, all four exist
# - pid 0, offsets 0 to 3, all four exist
# - pid 0, offsets 0 to 3, the last two don't exist

# %%
look[(1,)](n, BLOCK_SIZE=block)

# %% [markdown]
# This one program works on four positions at once, and they're called its four
# [lanes](../reference/glossary.md#lane). There's no loop: `offsets` is a block of four numbers, and `mask` is a block
# of four True/False values. (`pid` is a single number. The interpreter keeps it in an array with one element, so it
# prints as `[0]`.)

# %% [markdown] right=3 then="Every program has four lanes, whether it needs them or not."
# ## Three programs
#
# Now the same kernel with the same arguments. Only the grid is different: `programs` is 3.
#
# **Predict:** what are the offsets of the last program, and which of its lanes are off?
#
# - 6 to 9, and none is off
# - 8 and 9, and none is off
# - 8 to 11, and the last two are off

# %%
look[(programs,)](n, BLOCK_SIZE=block)

# %% [markdown]
# Only `pid` differs from program to program, and everything else follows from it. In the last program, offsets 10 and
# 11 are past the end of the tensor, so their lanes are masked off.

# %% [markdown] right=2 then="A lane that is off doesn't read anything."
# ## What does a masked-off lane load?
#
# Next, let each program load its block of `x`, with its mask. You pass a tensor, and what arrives as `x_ptr` is the
# address of its first element. Adding offsets to that address gives the addresses of four elements. (Triton counts in
# elements here, not in bytes, so `x_ptr + 1` is the next number.)
#
# **Predict:** what will the last two lanes of the last program hold?
#
# - -1
# - zeros, but nobody promises that
# - the numbers behind the end of `x`

# %%
@triton.jit
def load(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask)
    print("pid", pid, " loaded", values)


load[(programs,)](x, n, BLOCK_SIZE=block)

# %% [markdown]
# They hold zeros, but don't rely on that. A masked-off lane doesn't read memory, and Triton leaves its value
# undefined. The interpreter happens to fill in zeros, and so do today's GPU compilers, but nobody promises it.
#
# If a later step uses these lanes, say what they should hold. That's what `other` is for.

# %%
@triton.jit
def load_other(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask, other=-1.0)
    print("pid", pid, " loaded", values)


load_other[(programs,)](x, n, BLOCK_SIZE=block)

# %% [markdown]
# Now the last two lanes are sure to hold -1, in the interpreter and on a GPU. Vector add doesn't need `other`,
# because it never stores those lanes.

# %% [markdown] right=1 then="Each program stores its own block and nothing else."
# ## The whole kernel
#
# Load two blocks, add them, store the sum. The store has the mask, too.
#
# `out` starts out as -1 everywhere, so you can see which elements have been written.
#
# **Predict:** what does `out` hold after one program? After three?
#
# - four sums and six times -1, then ten sums
# - ten sums both times
# - four sums both times

# %%
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


out = torch.full_like(x, -1)
add_kernel[(1,)](x, y, out, n, BLOCK_SIZE=block)
print("after one program:   ", out.tolist())

out = torch.full_like(x, -1)
add_kernel[(programs,)](x, y, out, n, BLOCK_SIZE=block)
print("after all programs:  ", out.tolist())
print("equal to torch:      ", torch.equal(out, x + y))

# %% [markdown] right=2 then="Each block still goes to its own place in `out`."
# ## Does the order matter?
#
# The interpreter ran program 0, then 1, then 2. A GPU doesn't promise any order. Many programs run at the same time,
# and any of them may be first, so a kernel has to be right in every order. Let's try a different one and number the
# programs from the back. (`tl.num_programs` is how many there are.)
#
# **Predict:** which block is written first now? Does the result change?
#
# - the first block, and the result is the same
# - the last block, and the result is the same
# - the last block, and the sums are in another order

# %%
@triton.jit
def add_backwards(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.num_programs(axis=0) - 1 - tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    print("block", pid, " adds", x + y)
    tl.store(out_ptr + offsets, x + y, mask=mask)


out = torch.full_like(x, -1)
add_backwards[(programs,)](x, y, out, n, BLOCK_SIZE=block)
print("equal to torch:", torch.equal(out, x + y))

# %% [markdown]
# No program reads what another one writes, and no two of them write the same element. So the order can't matter.

# %% [markdown] right=3 then="Without a mask, all four lanes of the last program load, add and store."
# ## Take the mask away
#
# First we make room. Three programs with four lanes each reach twelve elements, so each buffer gets twelve. Our
# tensors are the first ten, and the last two elements stand for somebody else's data. In reality they're ours as
# well, so this experiment doesn't break anything.
#
# **Predict:** are the ten sums still right? What will the two elements past them hold?
#
# - some are wrong
# - all are right, and the two elements stay -1
# - all are right, and the two elements become 7700

# %%
@triton.jit
def add_without_mask(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, x + y)


past = programs * block - n
x_buffer = torch.cat([x, torch.full((past,), 7000.0)])
y_buffer = torch.cat([y, torch.full((past,), 700.0)])
out_buffer = torch.full_like(x_buffer, -1)

add_without_mask[(programs,)](x_buffer[:n], y_buffer[:n], out_buffer[:n], n, BLOCK_SIZE=block)
print("our own are right:", torch.equal(out_buffer[:n], x + y))
print("those past them:  ", out_buffer[n:].tolist())

# %% [markdown]
# The ten sums are right, so a test that only looks at the result passes. But the last program kept going. It read the
# 7000 and the 700 past the end, and it overwrote two elements that aren't part of our tensor. A kernel gets an
# address rather than a tensor, so it doesn't know where the tensor ends. Only the mask tells it.

# %% [markdown] right=3 then="A block is four elements in a row, and all of them belong to one program."
# ## Look without printing
#
# With lots of programs, printing gives you too much to read. Here's another way, which works on a GPU as well: pass
# the kernel one more tensor, and store what you want to see in it. In this kernel, each program writes its pid to the
# elements that it owns. The pid is a single number, and every lane that is on stores a copy of it.
#
# **Predict:** what are the ten pids?
#
# - 0 1 2 3 4 5 6 7 8 9
# - 0 1 2 0 1 2 0 1 2 0
# - 0 0 0 0 1 1 1 1 2 2

# %%
@triton.jit
def sign(owner_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(owner_ptr + offsets, pid, mask=offsets < n)


owner = torch.full((n,), -1, dtype=torch.int32)
sign[(programs,)](owner, n, BLOCK_SIZE=block)
print("owner =", owner.tolist())

# %% [markdown]
# ## Try it
#
# Add a cell of your own for each of these. Leave `n` and `block` as they are, because other cells use them.
#
# 1. Fill in the two blanks, so that `subtract` stores `x - y`. Try not to look at `add_kernel`. Then run it like
#    `add_kernel` above, and compare with `x - y`.
#
#     ```text
#     @triton.jit
#     def subtract(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
#         pid = tl.program_id(axis=0)
#         offsets = ____
#         mask = ____
#         x = tl.load(x_ptr + offsets, mask=mask)
#         y = tl.load(y_ptr + offsets, mask=mask)
#         tl.store(out_ptr + offsets, x - y, mask=mask)
#     ```
#
# 2. Blocks of eight: `look[(2,)](n, BLOCK_SIZE=8)`. Why two programs? How many lanes are off, and in which program?
# 3. Twelve numbers: `look[(3,)](12, BLOCK_SIZE=4)`. Does the mask still switch anything off?
# 4. Run `add_kernel` with a grid of `(4,)`. What does the fourth program do? Why is that harmless?
# 5. Copy `sign`, and write `pid * (BLOCK_SIZE - 1)` in place of `pid * BLOCK_SIZE`. Which elements are signed twice?
#    Would the sums still be right if `add_kernel` did this?
#
# Below is a solution to the first, and what to expect from the others. Write yours before you look.

# %% tags=["solution"] jupyter={"source_hidden": true, "outputs_hidden": true}
@triton.jit
def subtract(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


out = torch.full_like(x, -1)
subtract[(programs,)](x, y, out, n, BLOCK_SIZE=block)
print("out =", out.tolist())
print("equal to torch:", torch.equal(out, x - y))

# 2. 10 divided by 8, rounded up, is 2. Program 1 has offsets 8 to 15, and 10 to 15 do not exist: six lanes are off.
# 3. No: 12 is 3 × 4, so every lane has an element.
# 4. Its offsets are 12 to 15, all past the end. Every lane is off, so it loads and stores nothing.
# 5. 3 and 6. Each program starts on the last element of the one before it. The sums would be right, because both
#    programs store the same sum. But two are computed twice, and at other sizes the last elements would be left out.

# %% [markdown] of="start/first_kernel" view="file"
# ## The file behind the picture

# %% [markdown]
# ## Next
#
# [Vector add in Triton, line by line](vector-add.md): the same kernel on a GPU, as a function you can keep,
# and broken in three ways.
