# SPDX-License-Identifier: Apache-2.0
"""Launch kernels: ``triton.jit``, grids, arguments, and the tuner, which takes a config without timing any."""

import functools
import inspect
import operator
import random
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from . import access, compiler, language
from .block import constexpr, tensor, unwrap
from .dtypes import dtype, float32, int1, int32, int64, pointer_type, uint64
from .memory import MEMORY, Launch, Origin

OPTIONS = {
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug", "warmup", "launch_pdl",
    "launch_cooperative_grid", "sanitize_overflow", "max_num_imprecise_acc_default", "ir_override",
}  # fmt: skip
WARPS = 32  # of a program, at most


class SETTINGS:
    """How programs are run. ``seed``: None runs them in order, a number in a random one. ``configs``: which of a
    tuner's configs a call takes, "first" (that the kernel can be run with) or "in turn", so that each gets tried."""

    seed: int | None = None
    configs = "first"


class InterpreterError(Exception):
    """A kernel raised an error, which is its cause."""


class JITFunction:
    """What a compiled kernel is. None is here: scripts ask for this class to know whether kernels are compiled."""


class Kernel:
    """A function of ``triton.jit``: launched by ``kernel[grid](…)``, or called by another one."""

    def __init__(self, fn, **options):
        functools.update_wrapper(self, fn)
        self.fn, self.kwargs = fn, options  # as the interpreter's kernels call the options of triton.jit
        self.parameters = inspect.signature(fn).parameters
        self.arg_names = list(self.parameters)
        self.constexprs = {name for name, of in self.parameters.items() if _is_constexpr(of.annotation)}

    @functools.cached_property
    def compiled(self):
        return compiler.compiled(self.fn)

    def __getitem__(self, grid):
        return functools.partial(self.run, grid=grid)

    def __call__(self, *args, **kwargs):
        if MEMORY.launch is None:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return self.compiled(*args, **kwargs)

    def run(self, *args, grid, warmup=False, **kwargs):
        for name in kwargs:
            if name not in self.parameters and name not in OPTIONS:
                hint = compiler.meant(name, {*self.parameters, *OPTIONS})
                raise KeyError(f"Keyword argument {name} was specified but unrecognised{hint}")
        if (warps := unwrap(kwargs.get("num_warps", 4))) > WARPS or warps & (warps - 1):
            raise ValueError(f"num_warps={warps} are {32 * warps} threads, and a program has at most {32 * WARPS}"
                             if warps > WARPS else "num_warps must be a power of 2")  # fmt: skip
        given = {name: value for name, value in kwargs.items() if name in self.parameters}
        bound = inspect.getcallargs(self.fn, *args, **given)
        size = grid(bound) if callable(grid) else grid
        assert len(size) <= 3, "grid must have at most 3 dimensions"
        size = tuple(operator.index(unwrap(n)) for n in size)
        launch = Launch(self.fn.__name__, (*size, 1, 1, 1)[:3], caller(), self.arg_names)
        values = {
            name: unwrap(value) if name in self.constexprs else argument(value, name, launch)
            for name, value in bound.items()
        }
        launch.given = {name: value for name, value in bound.items() if not hasattr(value, "data_ptr")}
        of_file = self.fn.__globals__
        launch.constants = {n: of_file[n] for n in launch.given if isinstance(of_file.get(n), int | float)}
        file, function = self.fn.__code__.co_filename, self.compiled
        for name, line in function.lost.items():
            if name in launch.origins:
                told = f"the name {name} gets another value here, and no tensor changes: to write to it, use "
                warnings.warn_explicit(f"{told}tl.store({name} + offsets, value)", UserWarning, file, line)
        compiler.BRANCHES.clear()
        with MEMORY.launching(launch):
            MEMORY.line = lambda: _line(file)
            try:
                for MEMORY.program in programs(launch.grid):
                    function(**values)
            except Exception as error:
                raise InterpreterError(repr(error)) from error


def _is_constexpr(annotation) -> bool:
    return annotation is constexpr or (isinstance(annotation, str) and annotation.split(".")[-1] == "constexpr")


def programs(grid: tuple[int, int, int]):
    """Return the programs in the order in which they run: as the interpreter's, the last axis fastest; or at random."""
    order = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    if SETTINGS.seed is not None:
        random.Random(SETTINGS.seed).shuffle(order)
    return order


def _line(file: str) -> int:
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def caller() -> int:
    """Return the line that called into this package."""
    frame = sys._getframe(1)
    while frame and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def argument(value, name: str, launch: Launch):
    """Return what a kernel gets for an argument: a pointer for a tensor, a scalar for a number."""
    value = unwrap(value)
    if hasattr(value, "data_ptr"):
        of, storage = value.dtype.of, value.storage
        origin = Origin(name, storage, (value.data_ptr() - storage.address) // of.size, of, tuple(value.shape))
        launch.origins.setdefault(name, origin)
        return tensor([0], pointer_type(of, origin=origin))
    if isinstance(value, TensorDescriptor):
        base = argument(value.base, name, launch)
        return access.tensor_descriptor(base, value.shape, value.strides, value.block_shape, value.padding)
    if isinstance(value, tuple):
        parts = [argument(part, name, launch) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, bool):
        return tensor([value], int1)
    if isinstance(value, int):
        of = int32 if -1 << 31 <= value < 1 << 31 else int64 if value < 1 << 63 else uint64
        return tensor([value], of)
    if isinstance(value, float):
        return tensor(float32.round([value]), float32)
    if value is None or isinstance(value, (Kernel, dtype)):
        return value
    raise TypeError(f"failed to specialize argument of type: {type(value).__name__}")


def jit(fn=None, **options):
    return functools.partial(Kernel, **options) if fn is None else Kernel(fn, **options)


def constexpr_function(fn):
    return lambda *args, **kwargs: fn(*map(unwrap, args), **{name: unwrap(v) for name, v in kwargs.items()})


# The tuner


class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs, self.pre_hook = kwargs, pre_hook
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg

    def all_kwargs(self) -> dict:
        options = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg")}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def __str__(self):
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class Autotuner:
    """Runs a kernel with one of its configs. Nothing is timed here, so none is called the fastest."""

    def __init__(self, fn, configs, key):
        functools.update_wrapper(self, fn)
        self.fn, self.configs, self.keys, self.turn = fn, configs or [Config({})], key, -1
        self.arg_names, self.cache, self.best_config = fn.arg_names, {}, None

    def __getitem__(self, grid):
        return functools.partial(self.run, grid=grid)

    def run(self, *args, grid, **kwargs):
        self.turn += SETTINGS.configs == "in turn" or self.turn < 0
        config = self.best_config = self.configs[self.turn % len(self.configs)]
        options = config.all_kwargs()
        if both := sorted(options.keys() & kwargs.keys()):
            raise ValueError(f"Conflicting meta-parameters: {', '.join(both)}. Make sure that you don't re-define "
                             "auto-tuned symbols.")  # fmt: skip
        if config.pre_hook:
            config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **kwargs, **options})
        return self.fn.run(*args, grid=grid, **kwargs, **options)


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
             warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False):  # fmt: skip
    return lambda fn: Autotuner(fn, configs, key)


class Heuristics:
    """Works out some arguments from the others, before each launch."""

    def __init__(self, fn, values):
        functools.update_wrapper(self, fn)
        self.fn, self.values, self.arg_names = fn, values, fn.arg_names

    def __getitem__(self, grid):
        return functools.partial(self.run, grid=grid)

    def run(self, *args, grid, **kwargs):
        for name, compute in self.values.items():
            kwargs[name] = compute({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, grid=grid, **kwargs)


def heuristics(values):
    return lambda fn: Heuristics(fn, values)


# What host functions use


def cdiv(x, y):
    if isinstance(x, tensor) or isinstance(y, tensor):
        raise ValueError("Did you forget to add @triton.jit ? In a kernel, `triton.cdiv` is `tl.cdiv`.")
    return (unwrap(x) + unwrap(y) - 1) // unwrap(y)


def next_power_of_2(n):
    """Return the smallest power of 2 that is at least n."""
    n = unwrap(n)
    return 1 << (n - 1).bit_length() if n > 0 else 0


@dataclass
class TensorDescriptor:
    """What a host function passes for a tensor whose tiles a kernel loads and stores."""

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self):
        rank = len(self.shape)
        assert len(self.strides) == len(self.block_shape) == rank, f"rank mismatch: {self}"
        assert rank > 0, "rank must not be zero"
        assert rank <= 5, "rank cannot be more than 5"
        assert self.base.data_ptr() % 16 == 0, "base must be 16-byte aligned"
        language.sizes(self.block_shape)
        size = self.base.dtype.itemsize
        assert all(stride * size % 16 == 0 for stride in self.strides[:-1]), "strides must be 16-byte aligned"
        assert all(n > 0 for n in self.shape), "shape must be positive"
        assert self.strides[-1] == 1, "Last dimension must be contiguous"
        assert self.padding in ("zero", "nan"), "Illegal value for padding"
        if self.padding == "nan":
            floats = self.base.dtype.is_floating_point
            assert floats, "Padding option `nan` is only supported for floating point tensors"

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero", round_f32_to_tf32=False):
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding, round_f32_to_tf32)
