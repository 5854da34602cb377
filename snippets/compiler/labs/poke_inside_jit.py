# SPDX-License-Identifier: Apache-2.0
# %% [markdown] of="programs/vector_add" view="versions" launch="add_kernel[1]"
# # Poke inside `@triton.jit`
#
# You write a function and put `@triton.jit` above it, and then you can't call it anymore. What has it become?

# %% [markdown]
# It has become an object. It keeps the text of your function. At a [launch](../reference/glossary.md#launch) it
# compiles that text for the kind of arguments it gets, unless it already has a version for them. In the picture, a
# single extra element needs a new version, and so does an address that isn't a multiple of 16 bytes. In this notebook
# you take the object apart, follow your code through the compiler, and compile it for a GPU you don't have.
#
# You don't need a GPU, but you do need Linux (WSL on Windows) and Python with a few packages: `pip install torch
# triton numpy jupyterlab`. What you'll see is the inside of one version of Triton. The names change from version to
# version, and no documentation promises them.
#
# Before you run a cell, say what you think it will print. Then run it and compare.

# %% [markdown]
# ## Let it compile
#
# Most notebooks in this course run in the [interpreter](../reference/glossary.md#interpreter). This one has to
# compile, so `TRITON_INTERPRET` must not be set. Compiled code goes to an empty folder, so that Triton can't find
# anything old there. The [kernel](../reference/glossary.md#kernel) is the one from [Vector
# add](../programs/vector-add.md) and from the picture, except that it counts in 32 bits instead of 64.

# %%
import os
import tempfile

os.environ.pop("TRITON_INTERPRET", None)
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import ast
import inspect
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import interpreter_builder, interpreter_semantic

print("Triton", triton.__version__)


# %%
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


# %% [markdown]
# ## What is it now?
#
# **Predict:** what is the type of `add_kernel`, and is your function still in there?

# %%
print(type(add_kernel))
print(type(add_kernel.fn), add_kernel.fn.__name__)

# %% [markdown]
# It's a `JITFunction`, an object wrapped around your function. The decorator hasn't compiled anything yet. It has
# only written down what it will need later.

# %%
print("arguments:    ", add_kernel.arg_names)
print("constexprs at:", add_kernel.constexprs)
for param in add_kernel.params:
    print(f"  {param.num}: {param.name:10} constexpr: {param.is_constexpr}")
print(add_kernel.src.splitlines()[0], "...")

# %% [markdown]
# A [constexpr](../reference/glossary.md#constexpr) is an argument whose value is fixed when the kernel is compiled.
#
# `src` is the source, as text. That's why Triton must be able to find the file or the notebook cell that the kernel
# was written in. Code that `exec` runs from a string has neither, so `@triton.jit` fails on it.

# %% [markdown]
# ## Why is it indexed?
#
# You write a [launch](../reference/glossary.md#launch) as `add_kernel[grid](x, y, out, n, BLOCK_SIZE=4)`. Python
# turns the square brackets into a call of `__getitem__`.
#
# **Predict:** what does `add_kernel[(3,)]` return, and does it start anything?


# %%
def last_step(function):
    """What a function returns, in its own words."""
    lines = [line.strip() for line in inspect.getsource(function).splitlines()]
    return next(line for line in lines if line.startswith("return"))


print(type(add_kernel[(3,)]))
print(last_step(type(add_kernel).__getitem__))

# %% [markdown]
# It returns a function that remembers the [grid](../reference/glossary.md#grid) and waits for the arguments. Nothing
# has started yet. The brackets are just a way to pass two sets of arguments: how many
# [programs](../reference/glossary.md#program) to start, and what they work on.

# %% [markdown]
# ## Your code as a tree
#
# Triton doesn't run your function to find out what it does. It reads it. Python's own parser turns the source into an
# *abstract syntax tree*, and the compiler walks along that tree.
#
# **Predict:** how many statements are in the kernel's body?

# %%
tree = add_kernel.parse()
function = tree.body[0]
print(function.name, "has", len(function.body), "statements")
for statement in function.body:
    print(f"  {type(statement).__name__:7}", ast.unparse(statement))

# %% [markdown]
# Here is the first statement up close. `pid = tl.program_id(axis=0)` is an assignment. Its value is a call, and what
# gets called is the attribute `program_id` of the name `tl`.

# %%
print(ast.dump(function.body[0], indent=2))

# %% [markdown]
# That's also why you can use so little of Python in a kernel: the compiler has to know what to emit for each kind of
# node. For `break` or `try` it doesn't, so it refuses them. [Interpreter and
# GPU](../reference/interpreter.md#what-the-compiler-must-refuse) has a table of everything it refuses.

# %% [markdown]
# ## Call it without a launch
#
# **Predict:** what happens in each of these three cases?


# %%
def attempt(title, call):
    try:
        print(f"{title}\n    {call()}")
    except Exception as error:
        print(f"{title}\n    {type(error).__name__}: {error}")


x, y, out = torch.rand(3, 10)
attempt("the kernel, without a grid", lambda: add_kernel(x, y, out, 10, 16))
attempt("your own function", lambda: add_kernel.fn(x, y, out, 10, 16))
attempt("tl.program_id by itself", lambda: tl.program_id(0))

# %% [markdown]
# The first message says *outside of the scope of a kernel* because inside a kernel, one compiled function may call
# another without a grid. From outside, you need the brackets.
#
# The second and the third fail in the same way and in the same place, because the first thing your function does is
# to call `tl.program_id`. The message asks whether you forgot `@triton.jit`. You didn't. What the message means is
# that *nobody is compiling*.
#
# Look at the function's signature and at the last line of its body.

# %%
print(tl.program_id.__name__, inspect.signature(tl.program_id))
print(last_step(tl.program_id))

# %% [markdown]
# `tl.program_id` doesn't know any [pid](../reference/glossary.md#pid), because no program runs while a kernel is
# being compiled. All it does is ask `_semantic`, an object that the compiler passes in, to emit an instruction that
# will read the pid later, on the GPU. Without a compiler, there is no such object and nowhere to emit anything.
#
# Older versions passed a `_builder` instead, and you'll still find it in texts from that time. Today's `_semantic`
# checks types and shapes first, and then asks a builder of its own. Go one step farther, into the class of
# `_semantic`:

# %%
print(last_step(TritonSemantic.program_id))

# %% [markdown]
# `create_get_program_id` is the end of this path. It is written in C++, and it adds one instruction to the code being
# compiled. It returns the instruction's result, not a number but a placeholder for one, which becomes the *handle* of
# an int32 tensor.

# %% [markdown]
# ## Be there when it compiles
#
# To watch the compiler, you need a function of your own that it calls. `tl.core.builtin` creates one. It isn't part
# of the documented language, but it's how `tl.load` and the others are made.
#
# You also need a target. On a machine with a GPU, Triton asks the driver. Here a small class stands in for the
# driver. It answers the question *what should I compile for?* with an H200. From then on, this process can't launch
# anything, even if it has a GPU. `warmup` is a launch that stops after compiling.


# %%
class NoGPU:
    """Stands in for the driver of a GPU that is not there."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)  # compute capability 9.0, warps of 32 threads

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


triton.runtime.driver.set_active(NoGPU())


# %%
@tl.core.builtin
def peek(name, value, _semantic=None):
    name = tl.core._unwrap_if_constexpr(name)
    shape = [int(side) for side in value.shape]
    print(f"{name:10} {type(value).__name__}  dtype {value.dtype}  shape {shape}")
    print(f"{'':10} handle: {type(value.handle)}")
    print(f"{'':10} made by: {type(_semantic).__name__}, {type(_semantic.builder)}")


@triton.jit
def peeking_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    peek("pid", pid)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    peek("offsets", offsets)
    pointers = x_ptr + offsets
    peek("pointers", pointers)
    peek("loaded", tl.load(pointers))


compiled = peeking_kernel.warmup(x, BLOCK_SIZE=16, grid=(3,))

# %% [markdown]
# A launch would have started three programs. But each of the four calls of `peek` ran only once, while the one kernel
# was being compiled. The pid has no shape, because it is a single number.
#
# Note that [offsets](../reference/glossary.md#offset) aren't [pointers](../reference/glossary.md#pointer). They are
# int32 and count elements. Only when you add them to `x_ptr`, which is an address, do you get pointers.
#
# Compare what `peek` saw with a torch tensor:

# %%
print(f"{'x':10} {type(x).__name__}  dtype {x.dtype}  shape {list(x.shape)}")
print(f"{'':10} values: {x.nbytes} bytes at an address in memory")

# %% [markdown]
# | What | `torch.Tensor` | `tl.tensor` |
# |---|---|---|
# | is there | while your program runs | while a kernel is compiled |
# | holds | memory, with values | a *handle*: one value in the compiler's intermediate representation |
# | shape | any, known at run time | each side a power of two, known when compiling |
# | dtype | of its elements | of its elements, which may be pointers |
# | `a + b` | adds | emits an instruction that will add |
#
# That's why nothing can show you a value while a kernel is being compiled. `tl.static_print` prints at that time, and
# what it shows are types:


# %%
@triton.jit
def static_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    tl.static_print("x is", x)


compiled = static_kernel.warmup(x, BLOCK_SIZE=16, grid=(1,))

# %% [markdown]
# To stop a kernel in a debugger and see its values, use the interpreter. [Debugging](../reference/debugging.md) shows
# such a session.

# %% [markdown]
# ## What does `.to` do?
#
# Like torch's tensors, Triton's have a method `to`. torch's converts a tensor to another dtype or moves it to another
# device.
#
# **Predict:** which of the two can Triton's `to` do?


# %%
@triton.jit
def cast_kernel(x_ptr):
    peek("cast", tl.load(x_ptr).to(tl.float16))


@triton.jit
def move_kernel(x_ptr):
    tl.load(x_ptr).to("cuda")


compiled = cast_kernel.warmup(x, grid=(1,))
attempt("to another device", lambda: move_kernel.warmup(x, grid=(1,)))

# %% [markdown]
# It can cast, but it can't move anything. It took `"cuda"` for a dtype, but a string doesn't have the attributes of
# one. Inside a kernel, there is nowhere to move to: the program runs on the GPU, and everything it has loaded is
# there already. Moving tensors is the job of the [host](../reference/glossary.md#host), before the launch.

# %% [markdown]
# ## Pass a builder of your own
#
# `tl.program_id` failed because nobody passed it a `_semantic`. You can make one yourself, without a GPU, a launch or
# `@triton.jit`. The parts are in `libtriton`, the compiler itself, which is written in C++. Its builder needs
# somewhere to write: a module, a function in that module, and a place for instructions in that function.
#
# **Predict:** what do these three lines compute?


# %%
def offsets_by(semantic):
    pid = tl.program_id(0, _semantic=semantic)
    lanes = tl.arange(0, 4, _semantic=semantic)
    return semantic.add(semantic.mul(pid, semantic.to_tensor(4), False), lanes, False)


context = ir.context()
ir.load_dialects(context)  # so that it knows Triton's instructions, tt.…
builder = ir.builder(context)
module = builder.create_module()
mine = builder.get_or_insert_function(module, "mine", builder.get_function_ty([], []), "public", False)
module.push_back(mine)
builder.set_insertion_point_to_start(mine.add_entry_block())

offsets = offsets_by(TritonSemantic(builder))
builder.ret([])
print("offsets:", offsets.type, type(offsets.handle))
print("a correct module:", module.verify())
print(str(module).replace(" loc(#loc)", "").split("#loc")[0])  # without the lines of a source that it has not got

# %% [markdown]
# The three lines of `offsets_by` compute `pid * 4 + tl.arange(0, 4)`, the offsets of a program. `mul` and `add` stand
# for `*` and `+`, because Python's operators have no room for a `_semantic`. (`False` leaves out a check for
# overflow.) Nothing has been computed, though. Each call only wrote an instruction. `tt.get_program_id` will read the
# pid, `tt.make_range` is `tl.arange`, and `tt.splat` repeats a number to give it the shape of the range. That's what
# was going on while `peek` looked on.
#
# The interpreter has a builder as well, written in Python. Instead of writing instructions down, it carries them out,
# with NumPy. Its launch is a loop that tells the builder which program it is in. You can do that yourself, and call
# the same function:

# %%
interpreter_builder.set_grid_dim(3, 1, 1)
for pid in range(3):
    interpreter_builder.set_grid_idx(pid, 0, 0)
    handle = offsets_by(interpreter_semantic).handle
    print(f"program {pid}: {type(handle).__name__}, {handle.data}")

# %% [markdown]
# One language, two builders: that's how the same kernel can be compiled or interpreted.
#
# What else is in `ir`? For each choice an instruction leaves open, it has a list of the possible values:

# %%
for name, kind in vars(ir).items():
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        print(f"{name:22}", *kind.__members__)
creates = [name for name in dir(builder) if name.startswith("create_")]
print(len(creates), "functions of the builder, such as", *creates[:3])

# %% [markdown]
# You'll meet `CACHE_MODIFIER` and `EVICTION_POLICY` in the next section, and `INPUT_PRECISION` in [Precision of
# `tl.dot`](../matmul/precision.md).

# %% [markdown]
# ## What `tl.load` and `tl.store` accept
#
# **Predict:** which of these arguments have you not used yet?

# %%
for function in (tl.program_id, tl.load, tl.store):
    print(f"tl.{function.__name__}")
    for argument in inspect.signature(function).parameters.values():
        if argument.name != "_semantic":
            required = argument.default is argument.empty
            value = "must be given" if required else repr(argument.default)
            print(f"    {argument.name:16} {value}")
    print(f"    its last step: {last_step(function).split('(')[0]}(...)")

# %% [markdown]
# All three functions just pass their arguments on to the compiler's `_semantic`.
#
# - `axis` is 0, 1 or 2, because a grid has up to three axes.
# - [`mask` and `other`](../programs/vector-add.md#the-kernel) switch [lanes](../reference/glossary.md#lane) off, and
#   say what those lanes hold.
# - `boundary_check` and `padding_option` belong to pointers to a whole [block](../reference/glossary.md#block),
#   which are deprecated, and gone in later versions.
# - `cache_modifier` and `eviction_policy` say how the caches should treat the data. As long as nobody else is
#   changing the data, they make no difference to the result.
# - `volatile` says that somebody else may be changing the data.
#
# The last three change the instruction. You can see that in the [PTX](../reference/glossary.md#ptx), NVIDIA's
# assembly language, where `ld.global` is a load and `st.global` a store:


# %%
@triton.jit
def load_kernel(x_ptr, out_ptr, HINT: tl.constexpr):
    if HINT == "cache_modifier":
        value = tl.load(x_ptr, cache_modifier=".cg")
    elif HINT == "eviction_policy":
        value = tl.load(x_ptr, eviction_policy="evict_first")
    elif HINT == "volatile":
        value = tl.load(x_ptr, volatile=True)
    else:
        value = tl.load(x_ptr)
    tl.store(out_ptr, value)


def lines(compiled, *words):
    """The lines of PTX that contain one of the words."""
    text = [line.strip() for line in compiled.asm["ptx"].splitlines()]
    return [line for line in text if any(word in line for word in words)]


for hint in ("none", "cache_modifier", "eviction_policy", "volatile"):
    compiled = load_kernel.warmup(x, out, HINT=hint, grid=(1,))
    print(f"{hint:16}", lines(compiled, "ld.global", "ld.volatile")[0])

# %% [markdown]
# `.cg` keeps the data out of L1, the small cache close to the [threads](../reference/glossary.md#thread).
# `evict_first` tells the caches to drop this data before other data. `volatile` forbids the compiler to skip the load
# and use an older value again.
#
# If you ask for an axis that doesn't exist, the compiler refuses, and its message points to the place:


# %%
@triton.jit
def axis_kernel(out_ptr):
    tl.store(out_ptr, tl.program_id(axis=3))


attempt("axis 3", lambda: axis_kernel.warmup(out, grid=(1,)))

# %% [markdown]
# ## Compile the kernel
#
# Back to the addition. **Predict:** which stages does it go through?

# %%
x, y, out = torch.rand(3, 1024)
compiled = add_kernel.warmup(x, y, out, 1024, BLOCK_SIZE=1024, grid=(1,))
print("stages:", list(compiled.asm))
print("threads:", 32 * compiled.metadata.num_warps)
print("bytes of shared memory:", compiled.metadata.shared)
print(*lines(compiled, "ld.global", "st.global"), sep="\n")

# %% [markdown]
# `asm` is a dictionary, in the order of the stages. The first four hold an intermediate representation, IR for short:
#
# - `source`: Triton's IR as the walk along the tree emitted it. In spite of its name it is not your Python.
# - `ttir`: the same, tidied up.
# - `ttgir`: TritonGPU's IR. It says which thread holds which elements.
# - `llir`: LLVM's IR, for one thread.
# - `ptx` is text, and `cubin` the machine code, as bytes.
#
# Each thread adds eight elements (1024 over 128 threads), and a `v4` load brings four at once. So there are two loads
# for `x`, two for `y`, and two stores. `@%p1` and `@%p2` are the [mask](../reference/glossary.md#mask), one bit for
# each group of four. [From Python to machine code](stages.md#every-stage) shows the stages side by side.
#
# Older texts get the PTX from `kernel.cache[0]`. Is it still there?

# %%
attempt("add_kernel.cache[0]", lambda: add_kernel.cache[0])

# %% [markdown]
# It isn't. Use what a launch returns, `compiled = add_kernel[grid](...)` on a GPU or `warmup` as here, and then look
# at `compiled.asm["ptx"]`.

# %% [markdown]
# ## What makes a new entry?
#
# A second launch doesn't compile again. The `JITFunction` keeps compiled kernels in dictionaries, one per device, and
# the keys of their entries say what the code depends on.
#
# **Predict:** for each call of `compile_again` below, is the kernel compiled again? And are its loads wide (`v4.b32`,
# 16 bytes at once) or narrow (`b32`)?


# %%
def entries():
    return len(add_kernel.device_caches[0][0])


def compile_again(title, x, y, out, n, **constants):
    before = entries()
    compiled = add_kernel.warmup(x, y, out, n, **constants, grid=(1,))
    load = lines(compiled, "ld.global")[0].split()[1]
    print(f"{'new' if entries() > before else 'known':5}  {load:16}  {title}")


half = torch.rand(1024).half()
compile_again("the same again", x, y, out, 1024, BLOCK_SIZE=1024)
compile_again("other values, n = 2048", torch.rand(2048), y, out, 2048, BLOCK_SIZE=1024)
compile_again("n = 1000, no multiple of 16", x, y, out, 1000, BLOCK_SIZE=1024)
compile_again("n = 1001, nor is this", x, y, out, 1001, BLOCK_SIZE=1024)
compile_again("n = 1", x, y, out, 1, BLOCK_SIZE=1024)
compile_again("n = 2**31, too large for 32 bits", x, y, out, 2**31, BLOCK_SIZE=1024)
compile_again("x starts 4 bytes later", x[1:], y, out, 1024, BLOCK_SIZE=1024)
compile_again("float16", half, half, half, 1024, BLOCK_SIZE=1024)
compile_again("BLOCK_SIZE = 512", x, y, out, 1024, BLOCK_SIZE=512)
compile_again("num_warps = 8", x, y, out, 1024, BLOCK_SIZE=1024, num_warps=8)

# %% [markdown]
# The code depends on
#
# - the dtype of each tensor, and whether its address is a multiple of 16 bytes;
# - for each integer: whether it is 1, whether it is a multiple of 16, and whether it fits in 32 bits;
# - the value of each constexpr;
# - the options of the launch.
#
# Shapes don't matter, and neither does anything else about the value of `n`. An `n` or an address that isn't a
# multiple of 16 costs you the wide loads, because one instruction can load four elements only if the compiler knows
# two things: that their address is a multiple of 16 bytes, and that the mask is the same for all four.
#
# Here are the first three keys, without quotation marks and options. `*fp32` is a pointer to float32, and `D` means
# *divisible by 16*. In the third key, `n = 1` has become a constant:

# %%
for key in list(add_kernel.device_caches[0][0])[:3]:
    print(key.split("]")[0].replace("'", "") + "]")

# %% [markdown]
# ## The cache on disk
#
# A second process doesn't have to compile either, because everything is also stored in `TRITON_CACHE_DIR`, which is
# `~/.triton/cache` unless you set it.
#
# **Predict:** how many folders contain an `add_kernel`? Count the lines above that said *new*, and add one for the
# compilation before them.

# %%
cache = Path(os.environ["TRITON_CACHE_DIR"])


def folders():
    return {path.parent for path in cache.glob("*/add_kernel.ptx")}


print("in memory:", entries(), " on disk:", len(folders()))
print(*sorted(path.name for path in min(folders()).iterdir()), sep="\n")

# %% [markdown]
# There is one folder for each entry, named after a hash of the source, the key, the target and the version of Triton.
# The stages are files that you can open in any editor.
#
# Now throw away everything in memory, as if this were a new process.
#
# **Predict:** will the next `warmup` add a folder?

# %%
add_kernel.device_caches.clear()
add_kernel.warmup(x, y, out, 1024, BLOCK_SIZE=1024, grid=(1,))
print("in memory:", entries(), " on disk:", len(folders()))

# %% [markdown]
# It didn't, because the kernel was read from disk. If you change a kernel, its hash changes too, so you never get an
# outdated entry. Deleting the folder is safe, too: all it costs you is compiling again.

# %% [markdown]
# ## Try it
#
# 1. What does `add_kernel.constexprs` hold for a kernel with two constexprs?
# 2. Make `n` a `tl.constexpr`. What gets compiled again now, and why wouldn't you want that?
# 3. Mark `n` with `@triton.jit(do_not_specialize=["n"])`. Which of the calls above change from *new* to *known*?
# 4. Compile for an AMD MI300: return `GPUTarget("hip", "gfx942", 64)` from a class like `NoGPU`, call `set_active`
#    with it, then `add_kernel.device_caches.clear()`. Which stages does `add_kernel.warmup(...).asm` have? And what
#    if you don't clear?
# 5. Let `peek` look at what `tl.store` returns. What is its dtype, and why is there no handle?
#
# The answers follow. Write down yours first.


# %% tags=["solution"] jupyter={"source_hidden": true, "outputs_hidden": true}
@triton.jit(do_not_specialize=["n"])
def unspecialized_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + offsets, 0.0, mask=offsets < n)


for n in (1024, 1000, 1001, 1, 2**31):
    compiled = unspecialized_kernel.warmup(x, n, BLOCK_SIZE=1024, grid=(1,))
    store = lines(compiled, "st.global")[0].split()[1]
    print(f"n = {n:<10}  entries: {len(unspecialized_kernel.device_caches[0][0])}  {store}")


@triton.jit
def storing_kernel(x_ptr, value):
    peek("stored", tl.store(x_ptr, value))


compiled = storing_kernel.warmup(x, 0.5, grid=(1,))


class NoMI300(NoGPU):
    def get_current_target(self):
        return GPUTarget("hip", "gfx942", 64)


triton.runtime.driver.set_active(NoMI300())
for what in ("not cleared", "cleared"):
    print(what, list(add_kernel.warmup(x, y, out, 1024, BLOCK_SIZE=1024, grid=(1,)).asm))
    add_kernel.device_caches.clear()

# 1. Their positions among the arguments, such as [4, 5].
# 2. Every new value of n compiles the kernel again. If n is the size of a tensor, that means nearly every call.
# 3. The calls with n = 1000 and n = 1 are now known. 2**31 is still new, because it has another type. The price is
#    that every store is narrow, even for n = 1024.
# 4. After clearing: AMD's assembly language, amdgcn, and its machine code, hsaco. Without clearing, you get what was
#    compiled for the H200, because these keys don't name the target.
# 5. void. A store returns no value, so there is nothing to have a handle on.

# %% [markdown] of="programs/vector_add" view="file"
# ## The kernel's file
#
# The kernel in the picture, as the course has it.

# %% [markdown]
# ## Next
#
# [From Python to machine code](stages.md) shows every stage of vector add's kernel beside its source. [Interpreter
# and GPU](../reference/interpreter.md) asks four versions of the compiler what they accept, without a GPU, as in this
# notebook.
