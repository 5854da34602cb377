# SPDX-License-Identifier: Apache-2.0
# %% [markdown] of="programs/vector_add_bug" view="accesses" launch="add_kernel_no_mask_bug[0]" tensors=["out_ptr"]
# # Debug a kernel in the interpreter: a bug hunt
#
# Your [kernel](../reference/glossary.md#kernel) runs without an error, and its result is wrong. How do you find out
# why?

# %% [markdown]
# Most kernel bugs give no error and no warning. Some elements just never arrive, or they end up where they
# shouldn't. On the course's site, the picture above is of such a run: the kernel that adds two vectors, without its
# [mask](../reference/glossary.md#mask). Its ten sums are right, but it also writes to the two elements in red, which
# don't belong to it.
#
# A GPU won't tell you which line is to blame. But Triton's [interpreter](../reference/glossary.md#interpreter) runs the
# kernel as Python, so you can look inside while it's working, like a mechanic who opens the hood and lets the engine
# run.
#
# The first kernel in this lesson is supposed to copy ten numbers, four at a time, but six of them never arrive.
# You'll find out why, and then you'll hunt a second bug that hides better. A hunt has six steps: **symptom,
# hypotheses, print, cause, fix, check.**
#
# Copying is the smallest job there is: load a [block](../reference/glossary.md#block), store it. So whatever is wrong
# has to be in the few lines that every kernel has. Lesson 2, [Vector add](vector-add.md), explains those lines.
#
# Before you run a cell, say what it will print. Then run it and compare.

# %% [markdown]
# ## Prepare
#
# To run this yourself, you need Linux (on Windows, use WSL), Python, and `pip install torch numpy jupyterlab`. torch
# brings Triton with it. You don't need a GPU.
#
# First, turn on Triton's interpreter. It runs kernels as Python on the CPU, so a plain `print` works inside them. Set
# the variable before you import Triton.

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

print("Triton", triton.__version__)

# %% [markdown]
# Next, set a trap: two buffers of twelve numbers. Our tensors are the first ten of each. The last two stand for
# whatever comes after a tensor in memory, and they make a small [guard zone](../reference/glossary.md#guard-zone).
#
# - `x` holds 100 to 109, numbers that appear nowhere else. After them come 700 and 701.
# - `out` is filled with [poison](../reference/glossary.md#poison): -1 everywhere, a number that `x` doesn't contain.
#   If an element is still -1 at the end, nobody wrote to it.

# %%
n = 10
block = 4
grid = (triton.cdiv(n, block),)  # three programs


def buffers():
    x = torch.arange(100, 112)
    x[n:] = torch.tensor([700, 701])
    return x, torch.full_like(x, -1)


x, out = buffers()
print("x  ", x[:n].tolist(), "and after it", x[n:].tolist())
print("out", out[:n].tolist(), "and after it", out[n:].tolist())

# %% [markdown]
# ## The first suspect
#
# At first sight, this kernel looks fine. It even has a mask. (In this course, the name of a kernel that's wrong on
# purpose ends in `_bug`, so that nobody copies it.)

# %%
@triton.jit
def copy_one_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


# %% [markdown]
# ### Symptom
#
# **Predict:** which four of the ten numbers will it copy?

# %%
x, out = buffers()
copy_one_bug[grid](x, out, n, BLOCK_SIZE=block)

print("out", out[:n].tolist())
assert out[:block].tolist() == x[:block].tolist()  # the first block is right
assert (out[block:] == -1).all()  # and nothing else was written

# %% [markdown]
# Four numbers arrived. The other six elements still hold the poison. As far as Triton is concerned, the
# [launch](../reference/glossary.md#launch) went well: there was no error and no warning.
#
# ### Hypotheses
#
# Say what could cause this before you look. Here are three candidates:
#
# 1. Only one [program](../reference/glossary.md#program) ran.
# 2. Three programs ran, but in two of them the mask switched off every [lane](../reference/glossary.md#lane).
# 3. Three programs ran, and they all copied the same four elements.
#
# Each of these would show up differently in the [pid](../reference/glossary.md#pid), the
# [offsets](../reference/glossary.md#offset) or the mask. So let's print all three.
#
# ### Print
#
# This is the same kernel with two more lines: one gets the pid, the other prints. (In the interpreter `pid` is an
# array with one element, so it prints as `[0]`.)
#
# **Predict:** what would you see if the first hypothesis were true? The second? The third?

# %%
@triton.jit
def copy_one_looked_at_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


copy_one_looked_at_bug[grid](x, out, n, BLOCK_SIZE=block)

# %% [markdown]
# ### Cause
#
# There are three lines, so three programs ran, and hypothesis 1 is out. Every lane is on, so hypothesis 2 is out,
# too. But the offsets are the same in every line. All three programs did the same work, and the rest was never done.
#
# The pid is the only thing that makes one program different from another, and the first suspect never asks for it.
#
# ### Fix
#
# Shift the offsets, so that program `pid` starts at `pid * BLOCK_SIZE`.

# %%
@triton.jit
def copy_fixed(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


# %% [markdown]
# ### Check
#
# Run it on a fresh, poisoned output, and ask two questions. Are all ten numbers right? And are the two elements past
# the end untouched?

# %%
x, out = buffers()
copy_fixed[grid](x, out, n, BLOCK_SIZE=block)

print("out", out[:n].tolist(), "and after it", out[n:].tolist())
assert torch.equal(out[:n], x[:n])
assert out[n:].tolist() == [-1, -1]

# %% [markdown]
# ## Why the poison?
#
# Run the first suspect again, but this time on an output that already holds the right answer from an earlier run.
#
# **Predict:** will the comparison notice the bug?

# %%
x, out = buffers()
out[:n] = x[:n]  # left over from an earlier, correct run
copy_one_bug[grid](x, out, n, BLOCK_SIZE=block)

print("equal:", torch.equal(out[:n], x[:n]))
assert torch.equal(out[:n], x[:n])  # it passes, and the kernel is still wrong

# %% [markdown]
# This happens in real tests. `torch.empty_like` may give you memory that was used before, with its old contents still
# in it. If you computed the expected result a moment ago and freed it, that may be just the memory you get. So fill
# your outputs with a value that can't be right.

# %% [markdown]
# ## The second suspect
#
# This one shifts its offsets, and it has a mask on both the load and the store. Read it twice.

# %%
@triton.jit
def copy_two_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    lanes = tl.arange(0, BLOCK_SIZE)
    offsets = pid * BLOCK_SIZE + lanes
    mask = lanes < n
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


# %% [markdown]
# ### Symptom
#
# You now have two questions to ask of any copy: are all ten numbers right, and are the two elements past the end
# untouched?
#
# **Predict:** which answer will be no?

# %%
x, out = buffers()
copy_two_bug[grid](x, out, n, BLOCK_SIZE=block)

print("all ten right:", torch.equal(out[:n], x[:n]))
print("after them:   ", out[n:].tolist())
assert torch.equal(out[:n], x[:n])  # the result is right
assert out[n:].tolist() == [700, 701]  # and somebody else's two elements are gone

# %% [markdown]
# All ten are right. A test that compares the result with `x` passes, and the bug goes unnoticed. But the poison after
# the result is gone, and 700 and 701 are in its place. The kernel read past the end of `x` and wrote past the end of
# `out`.
#
# ### Hypotheses
#
# 1. Too many programs were started. Then a fourth line would be printed.
# 2. The offsets are wrong. Then there would be a gap, a repetition or a wrong first offset.
# 3. The mask is wrong. Then it would be `True` at an offset where there's no element.
#
# ### Print
#
# **Predict:** what would the last line say if the kernel were right?

# %%
@triton.jit
def copy_two_looked_at_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    lanes = tl.arange(0, BLOCK_SIZE)
    offsets = pid * BLOCK_SIZE + lanes
    mask = lanes < n
    print("pid", pid, " offsets", offsets, " mask", mask)
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


copy_two_looked_at_bug[grid](x, out, n, BLOCK_SIZE=block)

# %% [markdown]
# ### Cause
#
# There are three lines, and for ten elements in blocks of four, three programs are right. So it isn't hypothesis 1.
# The offsets count up from 0 without a gap, so it isn't hypothesis 2, either. But program 2 is about to touch offsets
# 10 and 11, and there its mask is true.
#
# The mask compares `lanes` with 10. But `lanes` is 0 to 3 in every program, so the comparison is always true. The
# mask should ask where the elements are, `offsets < n`, and not which lane holds them. This kernel has a mask that
# never switches anything off.
#
# ### When doesn't it show?
#
# With eight elements, for example. That's a multiple of the block size, as the sizes in a first test often are.

# %%
x, out = buffers()
copy_two_bug[(2,)](x, out, 8, BLOCK_SIZE=block)

print("out", out.tolist())
assert torch.equal(out[:8], x[:8]) and (out[8:] == -1).all()  # no trace of a bug

# %% [markdown]
# ### Fix, and a check that stays
#
# With `offsets < n`, the second suspect becomes the fixed copy from above. Without the `print`, it looks like this:

# %%
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


# %% [markdown]
# Keep the things that caught these two bugs: a poisoned output, a guard zone after it, and sizes around a multiple of
# the block size. The function below tells you what a kernel did at a given size. (`kernel.fn` is the Python function
# under `@triton.jit`, so `kernel.fn.__name__` is its name.)

# %%
def check(kernel, n, block=4):
    """Copy ``n`` numbers, with ``block`` more after them; say what went wrong."""
    x = torch.arange(100, 100 + n + block)
    out = torch.full_like(x, -1)
    kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK_SIZE=block)
    unwritten = int((out[:n] == -1).sum())
    wrong = int((out[:n] != x[:n]).sum()) - unwritten
    past = int((out[n:] != -1).sum())
    if unwritten or wrong or past:
        return f"{unwritten} unwritten, {wrong} wrong, {past} past the end"
    return "right"


for kernel in (copy_one_bug, copy_two_bug, copy):
    print(kernel.fn.__name__)
    for size in (1, 4, 8, 10):
        print(f"  n = {size:2}: {check(kernel, size)}")

assert check(copy_one_bug, 4) == "right"
assert check(copy_one_bug, 10) == "6 unwritten, 0 wrong, 0 past the end"
assert check(copy_two_bug, 8) == "right"
assert check(copy_two_bug, 10) == "0 unwritten, 0 wrong, 2 past the end"
assert all(check(copy, size) == "right" for size in range(1, 20))

# %% [markdown]
# Each of the wrong kernels is right at some sizes. With one block there's nothing to shift, so the first kernel
# passes. With full blocks there's nothing to mask, so the second one passes. (It also passes at n = 1, because in
# program 0 lanes and offsets are the same.) So test one size of each kind: less than a block, exactly one block,
# several full blocks, and several blocks of which the last is only partly filled.

# %% [markdown]
# ## Try it
#
# 1. A third suspect uses `offsets = pid + tl.arange(0, BLOCK_SIZE)`. What does `check` say when n is 1, when it's 4,
#    and when it's 10? Predict first. Then use `print` to find out why.
# 2. Start the right kernel with `n // block` programs instead of `triton.cdiv(n, block)`. Which sizes give it away?
# 3. Fill `out` with zeros instead of -1, and let `x` start at 0. Which elements can't you judge anymore?
# 4. Print only where it matters: `if pid == 2: print(offsets)`. What happens in the interpreter?
#
# Below is a solution to the first, and what to expect from the others. Write yours before you look.

# %% tags=["solution"] jupyter={"source_hidden": true, "outputs_hidden": true}
@triton.jit
def copy_three_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


for size in (1, 4, 10):
    print(f"n = {size}: {check(copy_three_bug, size)}")
# Each program begins one element after the one before it, not four: all three together only reach elements 0 to 5.
assert check(copy_three_bug, 10) == "4 unwritten, 0 wrong, 0 past the end"

# 2. Every size that is not a multiple of the block: the last, partial block is never written.
# 3. Element 0: an unwritten 0 looks like a copied 0. All the others you can still judge.
# 4. It prints for program 2 only. Python treats an array of one element as true or false.

# %% [markdown] of="programs/vector_add_bug" view="file"
# ## The file behind the picture

# %% [markdown]
# ## Next
#
# Lesson 4, [Strides and 2-D offsets](offsets.md): offsets and masks for a matrix.
#
# Go deeper: [`breakpoint`, `device_print`, `device_assert`](../reference/debugging.md), also for kernels that fail
# only on a GPU. Lesson 7, [Test and debug a Triton kernel](../tools/testing.md), turns this `check` into a method.
