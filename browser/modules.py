# SPDX-License-Identifier: Apache-2.0
"""Put the model where ``import torch`` and ``import triton`` find it, and run files on it."""

import contextlib
import functools
import linecache
import math
import os
import sys
import types

from . import (
    access,
    arithmetic,
    autograd,
    block,
    compiler,
    dtypes,
    functions,
    language,
    launch,
    layout,
    memory,
    philox,
    reductions,
    tensor,
)  # fmt: skip
from .compiler import meant
from .coverage import LIKE_MODELED, NOT_MODELED

ROOTS = ("torch", "triton")
HOOKED: list[bool] = []


class _Module(types.ModuleType):
    """A module that says of a name that it is misspelt, or that it is not modeled."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        exact = self.__name__ == "triton.language" and name not in NOT_MODELED  # else there may be more than is here
        hint = (
            meant(name, vars(self), cutoff=0.6 if exact else 0.75)
            if name not in {*NOT_MODELED, *LIKE_MODELED.split()}
            else ""
        )
        if exact or hint:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'{hint}")
        where = self.__name__.replace("triton.language", "tl")
        raise NotImplementedError(f"{where}.{name} is not modeled in the browser; run this with torch and Triton")


class _NotModeled(NotImplementedError, AttributeError):
    """An attribute is not modeled; ``hasattr`` says that it is not there."""


_NotModeled.__name__ = "NotImplementedError"


def _of_tensor(self, name):
    if name.startswith("__"):
        raise AttributeError(name)
    known = {each for each in dir(tensor.Tensor) if not each.startswith("_")}
    if (
        hint := meant(name, known, cutoff=0.75)
        if name not in LIKE_MODELED.split() and name.rstrip("_") not in known
        else ""
    ):
        raise AttributeError(f"'Tensor' object has no attribute '{name}'{hint}")
    raise _NotModeled(f"torch.Tensor.{name} is not modeled in the browser; run this with torch and Triton")


tensor.Tensor.__getattr__ = _of_tensor


def _inside(name: str, function):
    """Let a function of ``triton.language`` run in kernels alone."""

    @functools.wraps(function)
    def call(*args, **options):
        if memory.MEMORY.launch is None:
            raise RuntimeError(f"Cannot call @triton.jit'd outside of the scope of a kernel: tl.{name}")
        return function(*args, **options)

    return call


class _Layer:
    """May be inherited from, but no more."""

    def __init__(self):
        raise NotImplementedError("torch.nn.Module is not modeled in the browser; run this with torch and Triton")


def _module(name: str, **names) -> types.ModuleType:
    made = _Module(name)
    made.__path__ = []
    vars(made).update(names)
    return made


def language_names() -> dict:
    """Return what ``triton.language`` has here."""
    names = {of.label: of for of in (*dtypes.ALL, dtypes.void)}
    names |= {"pointer_type": dtypes.pointer_type, "block_type": dtypes.block_type, "dtype": dtypes.dtype}
    names |= {"pi32_t": dtypes.pointer_type(dtypes.int32), "tensor": block.tensor, "tuple": tuple}
    names |= {"PropagateNan": block.PropagateNan, "TRITON_MAX_TENSOR_NUMEL": block.MAX_NUMEL}
    for module in (language, arithmetic, access, reductions, philox):
        names |= {name: _inside(name, of) if isinstance(of, types.FunctionType) else of
                  for name in module.__all__ for of in [getattr(module, name)]}  # fmt: skip
    return names


def _finfo(of):
    kind = of.of
    largest = (2 - 2.0**-kind.fp_mantissa_width) * 2.0 ** {"fp16": 15, "fp64": 1023}.get(kind.name, 127)
    tiny = 2.0 ** {"fp16": -14, "fp64": -1022}.get(kind.name, -126)
    return types.SimpleNamespace(
        max=largest, min=-largest, eps=2.0**-kind.fp_mantissa_width, tiny=tiny, smallest_normal=tiny, bits=8 * kind.size
    )


def _iinfo(of):
    return types.SimpleNamespace(max=of.of.high, min=of.of.low, bits=8 * of.of.size)


def _torch() -> dict[str, types.ModuleType]:
    named = ("softmax", "log_softmax", "relu", "silu", "gelu", "pad", "linear", "sigmoid", "tanh")
    alone = {
        "silu",
        "gelu",
        "pad",
        "linear",
        "assert_close",
        "creates",
        "given",
    }  # torch itself has these elsewhere, or not
    own = lambda name, value: (
        getattr(value, "__module__", "") == functions.__name__ and name.strip("_") == name and name not in alone
    )
    plain = {name: value for name, value in vars(functions).items() if callable(value) and own(name, value)}
    views = ("reshape", "permute", "transpose", "flatten", "unsqueeze", "squeeze", "split", "chunk", "movedim",
             "unbind", "unflatten", "clone", "t", "is_floating_point", "numel")  # fmt: skip
    plain |= {name: getattr(tensor.Tensor, name) for name in views}
    numbers = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "strided": "torch.strided"}
    dtypes_ = {**tensor.DTYPES, **{short: tensor.DTYPES[name] for short, name in tensor.ALIASES.items()}}
    grads = {n: getattr(autograd, n) for n in ("no_grad", "enable_grad", "is_grad_enabled", "set_grad_enabled")}
    of_torch = _module("torch", __version__="2.13.0+browser", Tensor=tensor.Tensor, Size=tensor.Size,
                       device=tensor.device, tensor=functions.given, dtype=tensor.torch_dtype,
                       finfo=_finfo, iinfo=_iinfo, all=functions.all_,
                       any=functions.any_, inference_mode=autograd.no_grad, mm=functions.matmul, **plain, **numbers,
                       **dtypes_, **grads)  # fmt: skip
    of_torch.set_float32_matmul_precision = lambda precision: None
    of_torch.is_autocast_enabled = lambda *device: False
    of_torch.get_float32_matmul_precision = lambda: "highest"
    nothing = lambda *args, **options: contextlib.nullcontext()
    functional = _module("torch.nn.functional", **{name: getattr(functions, name) for name in named})
    made = {
        "torch": of_torch,
        "torch.nn": _module("torch.nn", functional=functional, Module=_Layer),
        "torch.nn.functional": functional,
        "torch.autograd": _module("torch.autograd", Function=autograd.Function, grad=autograd.grad),
        "torch.library": _module("torch.library", custom_op=autograd.custom_op),
        "torch.testing": _module("torch.testing", assert_close=functions.assert_close),
        "torch.cuda": _module("torch.cuda", is_available=lambda: False, device_of=nothing, device=nothing,
                              device_count=lambda: 0),
        "torch.version": _module("torch.version", cuda=None, hip=None),
        "torch.compiler": _module("torch.compiler", is_compiling=lambda: False,
                                  disable=lambda fn=None, **options: fn or (lambda f: f)),
    }  # fmt: skip
    made["torch.autograd.function"] = _module("torch.autograd.function", FunctionCtx=autograd.FunctionCtx,
                                              once_differentiable=lambda fn: fn)  # fmt: skip
    return made


def _triton() -> dict[str, types.ModuleType]:
    elementwise = ("abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt",
                   "sin", "sqrt", "sqrt_rn", "umulhi", "sigmoid", "softmax")  # fmt: skip
    names = language_names()
    math_ = _module("triton.language.math", **{name: names[name] for name in elementwise})
    of_device = {name: names[name] for name in elementwise if name not in ("sigmoid", "softmax", "umulhi")}
    libdevice = _module("triton.language.extra.libdevice", tanh=arithmetic.tanh, **of_device)
    alone = lambda: None  # one launch after another: there is none to wait for
    cuda = _module("triton.language.extra.cuda", libdevice=libdevice, gdc_wait=alone, gdc_launch_dependents=alone)
    extra = _module("triton.language.extra", libdevice=libdevice, cuda=cuda)
    tl = _module("triton.language", math=math_, extra=extra, **names)
    tl.core = tl
    host = ("jit", "cdiv", "next_power_of_2", "autotune", "Config", "heuristics", "JITFunction", "InterpreterError",
            "constexpr_function")  # fmt: skip
    descriptors = _module("triton.tools.tensor_descriptor", TensorDescriptor=launch.TensorDescriptor)
    decorate = lambda *args, **options: lambda function: function
    testing = _module("triton.testing", perf_report=decorate, Benchmark=types.SimpleNamespace,
                      assert_close=functions.assert_close)  # fmt: skip
    errors = {"OutOfResources": type("OutOfResources", (Exception,), {}), "CompilationError": compiler.CompilationError}
    runtime = _module("triton.runtime", JITFunction=launch.JITFunction, **errors)
    made = {
        "triton.language": tl, "triton.language.core": tl,
        "triton.language.math": math_, "triton.language.extra": extra,
        "triton.language.extra.libdevice": libdevice, "triton.language.extra.cuda": cuda,
        "triton.language.extra.cuda.libdevice": libdevice, "triton.testing": testing,
        "triton.tools": _module("triton.tools", tensor_descriptor=descriptors),
        "triton.tools.tensor_descriptor": descriptors, "triton.runtime": runtime,
        "triton.runtime.errors": _module("triton.runtime.errors", InterpreterError=launch.InterpreterError, **errors),
    }  # fmt: skip
    triton = _module("triton", __version__="3.7.1", language=tl, testing=testing, tools=made["triton.tools"],
                     runtime=runtime, set_allocator=lambda allocator: None, **errors,
                     **{name: getattr(launch, name) for name in host})  # fmt: skip
    return {"triton": triton} | made


@functools.cache
def _modules() -> dict[str, types.ModuleType]:
    made = _torch() | _triton()
    for name, module in made.items():
        parent, _, last = name.rpartition(".")
        if parent in made and last not in vars(made[parent]):
            setattr(made[parent], last, module)
    return made


def install():
    """Put the model into ``sys.modules``, for good."""
    os.environ.setdefault("TRITON_INTERPRET", "1")  # so that scripts know that no GPU is asked for
    if not HOOKED:
        sys.addaudithook(compiler.remember)
        HOOKED.append(True)
    sys.modules.update(_modules())


@contextlib.contextmanager
def installed():
    """Put the model into ``sys.modules`` for a while, where torch and Triton themselves may be, too."""
    taken = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ROOTS}
    main = sys.modules["__main__"]  # in whose place a script may run
    for name in taken:
        del sys.modules[name]
    install()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ROOTS]:
            del sys.modules[name]
        sys.modules.update(taken | {"__main__": main})


def load(source: str, name: str = "kernel.py", module: str = "__lesson__") -> dict:
    """Run a file's text, under a name that messages and lines refer to, and return its names."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = types.ModuleType(module)
    names.__file__ = name
    sys.modules[module] = names
    exec(compile(source, name, "exec"), vars(names))
    return vars(names)


def place(values: list, dtype: str, shape, strides) -> tensor.Tensor:
    """Return a tensor with these numbers, row by row, in memory of its own, in which nothing lies between elements.

    What a kernel touches between the elements is outside of the tensor, then.
    """
    kind, places = tensor.DTYPES[dtype], layout.indices(tuple(shape), tuple(strides))
    span = max(places, default=-1) + 1
    made = tensor.fresh((span,), kind)
    made.storage.elements = None if len({*places}) == span else frozenset(places)
    return made.as_strided(shape, strides).write(values)
