# SPDX-License-Identifier: Apache-2.0
# %% [markdown] of="programs/vector_add_bug" view="accesses" launch="add_kernel_no_mask_bug[0]"
# # Debug a kernel in the interpreter: a bug hunt
#
# A [kernel](../reference/glossary.md#kernel) runs without an error, and its result is wrong. How do you find out why?

# %% [markdown]
# That is how most bugs in a kernel look: no error, no warning, only elements that never arrive, or arrive where they
# should not. (On the site a picture above shows such a run. Red is what the kernel had no business with.) A GPU will
# not tell you which line is to blame. But Triton's [interpreter](../reference/glossary.md#interpreter) runs the
# kernel as Python, so you can look inside while it works, as a mechanic listens to a running engine.
#
# The first kernel of this lesson should copy ten numbers, four at a time, and six of them never arrive. You will find
# out why, and then hunt a second bug that hides better. A hunt takes six steps: **symptom, hypotheses, print, cause,
# fix, check.**
#
# Copying is the smallest job there is: load a [block](../reference/glossary.md#block), store it. So whatever is
# wrong must be in the few lines that every kernel has. [Lesson 2](vector-add.md) explains those lines.
#
# Before you run a cell, say what it will print. Then run it and compare.

# %% [markdown]
# ## Prepare
#
# To run this yourself you need Linux (on Windows, WSL), Python, and
# `pip install torch numpy jupyterlab`, where torch brings Triton. You need no GPU.
#
# First switch Triton's interpreter on. It runs a kernel as Python on the CPU,
# so a plain `print` works inside. The variable has to be set before Triton is imported.

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

print("Triton", triton.__version__)

# %% [markdown]
# Now set a trap for the bug: two buffers of twelve numbers. Our tensors are the first ten of each.
# The last two stand for whatever follows a tensor in memory. They are a small
# [guard zone](../reference/glossary.md#guard-zone).
#
# - `x` holds 100 to 109, numbers that appear nowhere else here. Behind it lie 700 and 701.
# - `out` holds [poison](../reference/glossary.md#poison): -1 everywhere, which no copy of `x` contains. An
#   element that is still -1 was never written.

# %%
n = 10
block = 4
grid = (triton.cdiv(n, block),)  # three programs


def buffers():
    x = torch.arange(100, 112)
    x[n:] = torch.tensor([700, 701])
    return x, torch.full_like(x, -1)


x, out = buffers()
print("x  ", x[:n].tolist(), "and behind it", x[n:].tolist())
print("out", out[:n].tolist(), "and behind it", out[n:].tolist())

# %% [markdown]
# ## The first suspect
#
# It looks right at first sight. It even has a [mask](../reference/glossary.md#mask). (In this course the name of
# a kernel that is wrong on purpose ends in `_bug`, so that nobody copies it.)

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
# **Predict:** which four of the ten will it copy?

# %%
x, out = buffers()
copy_one_bug[grid](x, out, n, BLOCK_SIZE=block)

print("out", out[:n].tolist())
assert out[:block].tolist() == x[:block].tolist()  # the first block is right
assert (out[block:] == -1).all()  # and nothing else was written

# %% [markdown]
# Four numbers arrived. The other six elements still hold the poison. There was no error and no warning: the
# [launch](../reference/glossary.md#launch) was fine, the result is not.
#
# ### Hypotheses
#
# Say what could cause this before you look. Three candidates:
#
# 1. Only one [program](../reference/glossary.md#program) ran.
# 2. Three programs ran, but the mask switched off all [lanes](../reference/glossary.md#lane) of the other two.
# 3. Three programs ran, and all of them copied the same four elements.
#
# Each predicts something else about the [pid](../reference/glossary.md#pid), the
# [offsets](../reference/glossary.md#offset) or the mask. So print these three.
#
# ### Print
#
# The same kernel, with one more line that fetches the pid and one that prints.
# In the interpreter `pid` is an array of one element, so it prints as `[0]`.
#
# **Predict:** what would it print if the first hypothesis were true? The second? The third?

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
# Three lines: three programs ran, so hypothesis 1 is wrong. All lanes are on, so hypothesis 2 is wrong.
# The offsets are the same in every line. Three programs did the same work, and none did the rest.
#
# The pid is the only thing in which one program differs from another, and the first suspect never asks for it.
#
# ### Fix
#
# Shift the offsets: program `pid` begins at `pid * BLOCK_SIZE`.

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
# Run it on a fresh, poisoned output. Ask two questions: are all ten right, and are the two past the end untouched?

# %%
x, out = buffers()
copy_fixed[grid](x, out, n, BLOCK_SIZE=block)

print("out", out[:n].tolist(), "and behind it", out[n:].tolist())
assert torch.equal(out[:n], x[:n])
assert out[n:].tolist() == [-1, -1]

# %% [markdown]
# ## Why the poison?
#
# Run the first suspect again, but this time on an output that already holds the right answer, from an earlier run.
#
# **Predict:** will the comparison see the bug?

# %%
x, out = buffers()
out[:n] = x[:n]  # left over from an earlier, correct run
copy_one_bug[grid](x, out, n, BLOCK_SIZE=block)

print("equal:", torch.equal(out[:n], x[:n]))
assert torch.equal(out[:n], x[:n])  # it passes, and the kernel is still wrong

# %% [markdown]
# This happens in real tests. `torch.empty_like` hands out memory that was used before, with its old contents.
# If you have computed the expected result a moment ago and freed it, that memory may be what you get.
# Fill outputs with a value that cannot be right.

# %% [markdown]
# ## The second suspect
#
# It shifts its offsets, and has a mask on the load and on the store. Read it twice.

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
# **Predict:** which of the two questions will it fail?

# %%
x, out = buffers()
copy_two_bug[grid](x, out, n, BLOCK_SIZE=block)

print("all ten right:", torch.equal(out[:n], x[:n]))
print("behind them:  ", out[n:].tolist())
assert torch.equal(out[:n], x[:n])  # the result is right
assert out[n:].tolist() == [700, 701]  # and somebody else's two elements are gone

# %% [markdown]
# All ten are right. A test that compares the result with `x` passes, and the bug goes unseen.
# But the poison behind the result has been replaced by 700 and 701: the kernel read past the end of `x`
# and wrote past the end of `out`.
#
# ### Hypotheses
#
# 1. Too many programs were started. That would print a fourth line.
# 2. The offsets are wrong. That would show as a gap, a repetition or a wrong first offset.
# 3. The mask is wrong. That would show as a `True` where there is no element.
#
# ### Print
#
# **Predict:** the last line, if the kernel were right.

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
# There are three lines, and three programs are right for ten elements in blocks of four. So it is not hypothesis
# 1. The offsets go up from 0 without a gap, so it is not 2. But program 2 is about to touch offsets 10 and 11,
# and its mask is true there.
#
# The mask compares `lanes`, which are 0 to 3 in every program, with 10. That is always true. It should ask where
# the elements are, not which lane holds them: `offsets < n`. The kernel has a mask, and the mask never switches
# anything off.
#
# ### When does it not show?
#
# With eight elements. That is a multiple of the block, as sizes in a first test often are.

# %%
x, out = buffers()
copy_two_bug[(2,)](x, out, 8, BLOCK_SIZE=block)

print("out", out.tolist())
assert torch.equal(out[:8], x[:8]) and (out[8:] == -1).all()  # no trace of a bug

# %% [markdown]
# ### Fix, and a check that stays
#
# With `offsets < n` the second suspect becomes the fixed copy from above. Without its `print`, this is it:

# %%
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


# %% [markdown]
# Now keep what caught these two bugs: a poisoned output, a guard zone behind it, and sizes around a multiple of
# the block. This function says what a kernel did for a given size. (`kernel.fn` is the Python function under
# `@triton.jit`, so `kernel.fn.__name__` is its name.)

# %%
def check(kernel, n, block=4):
    """Copy ``n`` numbers, with ``block`` more behind them; say what went wrong."""
    x = torch.arange(100, 100 + n + block)
    out = torch.full_like(x, -1)
    kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK_SIZE=block)
    unwritten = int((out[:n] == -1).sum())
    wrong = int((out[:n] != x[:n]).sum()) - unwritten
    behind = int((out[n:] != -1).sum())
    if unwritten or wrong or behind:
        return f"{unwritten} unwritten, {wrong} wrong, {behind} behind the end"
    return "right"


for kernel in (copy_one_bug, copy_two_bug, copy):
    print(kernel.fn.__name__)
    for size in (1, 4, 8, 10):
        print(f"  n = {size:2}: {check(kernel, size)}")

assert check(copy_one_bug, 4) == "right"
assert check(copy_one_bug, 10) == "6 unwritten, 0 wrong, 0 behind the end"
assert check(copy_two_bug, 8) == "right"
assert check(copy_two_bug, 10) == "0 unwritten, 0 wrong, 2 behind the end"
assert all(check(copy, size) == "right" for size in range(1, 20))

# %% [markdown]
# Each wrong kernel is right for some sizes. With one block there is nothing to shift, so the first kernel passes.
# With full blocks there is nothing to mask, so the second passes. (It passes for n = 1, too: in program 0, lanes
# and offsets are the same.) Test one size of each kind: less than a block, exactly one, several, and several and
# a bit.

# %% [markdown]
# ## Try it
#
# 1. A third suspect uses `offsets = pid * n + tl.arange(0, BLOCK_SIZE)`. Predict what `check` says when n is 1, when
#    it is 4, and when it is 10. Then find out why, with `print`.
# 2. Start the right kernel with `n // block` programs instead of `triton.cdiv(n, block)`. Which sizes show it?
# 3. Give `out` zeros instead of -1, and let `x` begin at 0. Which elements can you no longer judge?
# 4. Print only where it matters: `if pid == 2: print(offsets)`. What happens in the interpreter?
#
# A solution to the first follows, and what to expect of the others. Write yours first.

# %% tags=["solution"] jupyter={"source_hidden": true, "outputs_hidden": true}
@triton.jit
def copy_three_bug(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * n + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    print("pid", pid, " offsets", offsets, " mask", mask)
    values = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, values, mask=mask)


for size in (1, 4, 10):
    print(f"n = {size}: {check(copy_three_bug, size)}")
# Program 1 begins at n, where every lane is off: only program 0 ever copies anything.
assert check(copy_three_bug, 10) == "6 unwritten, 0 wrong, 0 behind the end"

# 2. Every size that is no multiple of the block: the last, partial block is never written.
# 3. Element 0: an unwritten 0 looks like a copied 0. All others are told apart as before.
# 4. It prints for program 2 alone. Python's `if` takes an array of one element for true or false.

# %% [markdown]
# ## Next
#
# Lesson 4, [Strides and 2-D offsets](offsets.md): the same offsets and masks for a matrix.
#
# Go deeper: [`breakpoint`, `device_print`, `device_assert`](../reference/debugging.md), also for a kernel that
# fails only on a GPU. Lesson 7, [Test and debug a Triton kernel](../tools/testing.md), turns this `check` into a
# method.

# %% [markdown] of="programs/vector_add_bug" view="file"
# ## The file behind the picture
