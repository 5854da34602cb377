# SPDX-License-Identifier: Apache-2.0
# %% [markdown] of="start/first_kernel" view="explorer" launch="add_kernel[0]"
# # Your first Triton kernel, step by step
#
# You write one addition and no loop, and yet ten numbers get added. Who does the other nine?

# %% [markdown]
# A [kernel](../reference/glossary.md#kernel) is a function that a GPU runs, not once but many times over, like a
# recipe that many cooks follow at the same time. Each running instance is a
# [program](../reference/glossary.md#program). Here three programs share ten additions, up to four each:
#
# - program 0 adds elements 0 to 3,
# - program 1 adds elements 4 to 7,
# - program 2 adds elements 8 and 9, and has nothing to do for two of its four places.
#
# In this notebook you watch the three at every step. Before you run a cell, or read on, say what it will print. Then
# compare: it is the quickest way to find out what you have not understood yet.

# %% [markdown]
# ## Switch the interpreter on
#
# You can read this page as it is, or download it and run it yourself. That takes Linux, Python and
# `pip install torch numpy jupyterlab`, where torch brings the Triton that fits. You need no GPU.
# [Install](../start/install.md) has the rest: Windows, macOS, Colab, and a smaller torch without a Triton.
#
# Triton normally compiles a kernel for a GPU. With `TRITON_INTERPRET=1` it does not:
# its [interpreter](../reference/glossary.md#interpreter) runs the kernel as Python, on NumPy arrays, on the CPU.
#
# Set the variable before you import Triton. If you set it later, only your own kernels are interpreted, and
# those that call `tl.sum` or `tl.zeros` fail: restart the notebook and begin again from here.

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

print("Triton", triton.__version__)

# %% [markdown]
# ## Ten numbers, four at a time
#
# Here are two tensors of ten numbers. `y` is a hundred times `x`, so each sum shows where its two parts came from.
#
# Each program takes one [block](../reference/glossary.md#block) of four elements.
#
# **Predict:** how many programs does it take?

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
# The first kernel touches no memory. Each program works out three things and prints them:
#
# - its number, called the [pid](../reference/glossary.md#pid);
# - `offsets`, the positions of its four elements, counted from 0: their
#   [offsets](../reference/glossary.md#offset);
# - [`mask`](../reference/glossary.md#mask), which says which of these positions exist.
#
# `@triton.jit` makes a function a kernel. `tl.constexpr` marks a number that is fixed when the kernel is compiled.
# `tl.arange(0, 4)` is 0, 1, 2, 3.
#
# In the interpreter, `print` in a kernel is Python's own. In a compiled kernel `print` means `tl.device_print`,
# which takes a text first and then values.

# %%
@triton.jit
def look(n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)


# %% [markdown]
# The brackets before the arguments hold the [grid](../reference/glossary.md#grid): how many programs to start.
# Begin with one.
#
# **Predict:** its `pid`, its four offsets, its [mask](../reference/glossary.md#mask).

# %%
look[(1,)](n, BLOCK_SIZE=block)

# %% [markdown]
# One program holds four positions at once. They are its four [lanes](../reference/glossary.md#lane).
# There is no loop: `offsets` is a block of four numbers. `mask` is a block of four True/False values.
# (`pid` is a single number. The interpreter keeps it in an array of one element, so it prints `[0]`.)

# %% [markdown]
# ## Three programs
#
# The same kernel and the same arguments. Only the grid changes: `programs` is 3.
#
# **Predict:** the offsets of the last program. Which of its lanes are off?

# %%
look[(programs,)](n, BLOCK_SIZE=block)

# %% [markdown]
# Only `pid` differs from program to program. Everything else follows from it.
# The last program's offsets 10 and 11 lie past the end of the tensor, so their lanes are masked off.

# %% [markdown]
# ## What does a masked-off lane load?
#
# Now let each program load its block of `x`, under its mask. A tensor goes in, and its address arrives as `x_ptr`;
# `x_ptr + offsets` are the addresses of four elements.
#
# **Predict:** what will the last two lanes of the last program hold?

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
# They hold zeros. Do not rely on that. A masked-off lane reads no memory, and Triton leaves its value undefined.
# The interpreter fills in zeros, and so do today's GPU compilers; neither promises it.
#
# If a later step uses these lanes, say what they should hold, with `other`.

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
# Now the last two lanes are certain to hold -1, in the interpreter and on a GPU.
# Vector add does not need `other`, because it never stores those lanes.

# %% [markdown]
# ## The whole kernel
#
# Load two blocks, add them, store the sum. The store has the mask too.
#
# `out` starts as -1 everywhere, so you can see which elements have been written.
#
# **Predict:** what does `out` hold after one program, and after three?

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

# %% [markdown]
# ## Does the order matter?
#
# The interpreter ran program 0, then 1, then 2. A GPU promises no order:
# many programs run at once, and any may be first. So a kernel must be right in every order.
# Try one: number the programs from the back. (`tl.num_programs` is how many there are.)
#
# **Predict:** which block is written first now? Does the result change?

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
# No program reads what another one writes, and no two write the same element. So the order cannot matter.

# %% [markdown]
# ## Take the mask away
#
# First make room. Three programs of four lanes reach twelve elements, so each buffer gets twelve.
# Our tensors are the first ten; the last two elements stand for somebody else's data.
# In truth they are ours too, so this experiment breaks nothing.
#
# **Predict:** are the ten sums still right? What will the two elements past them hold?

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
# The ten sums are right, so a test of the result alone passes. But the last program went on:
# it read the 7000 and 700 behind them, and it overwrote two elements that are not in our tensor.
# The kernel gets an address, not a tensor, and does not know where the tensor ends. Only the mask says so.

# %% [markdown]
# ## Look without printing
#
# With many programs, printing is too much to read. Another way works on a GPU as well:
# give the kernel one more tensor, and store there what you want to see.
# Here each program writes its pid to the elements that it owns: one number, stored by every lane that is on.
#
# **Predict:** the ten pids.

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
# Add a cell of your own for each. Leave `n` and `block` as they are, because other cells use them.
#
# 1. Fill the two gaps, so that `subtract` stores `x - y`. Try not to look at `add_kernel`. Then run it like
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
# 5. Copy `sign`, and write `pid * n` in place of `pid * BLOCK_SIZE`. Which elements does nobody own?
#
# A solution to the first follows, and what to expect of the others. Write yours first.

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
# 5. 4 to 9. Program 1 begins at 10 and program 2 at 20, where every lane is off. Only program 0 signs, 0 to 3.

# %% [markdown]
# ## Next
#
# Lesson 2, [Vector add in Triton, line by line](vector-add.md): the same kernel on a GPU, as a function that you
# can keep, and broken in three ways.

# %% [markdown] of="start/first_kernel" view="file"
# ## The file behind the picture
