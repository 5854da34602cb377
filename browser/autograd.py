# SPDX-License-Identifier: Apache-2.0
"""Model gradients as far as ``torch.autograd.Function`` goes: a backward pass runs what functions of the reader's say.

What torch itself computes has no gradient here; asking for one raises an error that names the operation.
"""

import contextlib
import functools
import inspect

from . import block
from .derivatives import RULES, Derivative
from .launch import caller
from .tensor import Tensor


class _State:
    enabled = True
    computed: list[tuple[str, int]] | None = None  # what torch computes, and in which line, where that is watched


@contextlib.contextmanager
def watching(computed: list | None):
    """Put into a list what torch computes meanwhile, or into none."""
    before, _State.computed = _State.computed, computed
    try:
        yield
    finally:
        _State.computed = before


def is_grad_enabled() -> bool:
    return _State.enabled


def _note(name: str):
    if _State.computed is not None:
        _State.computed.append((name, caller()))


class _Mode:
    """A context manager, and a decorator, that turns the recording of gradients on or off."""

    def __init__(self, on: bool):
        self.on = on

    def __enter__(self):
        self.before, _State.enabled = _State.enabled, self.on

    def __exit__(self, *error):
        _State.enabled = self.before

    def __call__(self, function=None):
        if function is None:
            return self

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with _Mode(self.on):
                return function(*args, **kwargs)

        return wrapped


def no_grad(function=None):
    return _Mode(False)(function) if function else _Mode(False)


def enable_grad(function=None):
    return _Mode(True)(function) if function else _Mode(True)


def set_grad_enabled(on):
    return _Mode(on)


class Unmodeled:
    """Stands where torch would record one of its own operations."""

    def __init__(self, name: str):
        self.name = name

    def gradients(self, grads):
        raise NotImplementedError(f"the gradient of torch's {self.name} is not modeled in the browser; write a "
                                  "torch.autograd.Function, or run this with torch")  # fmt: skip


def tracked(function):
    """Have a result require a gradient where an operand does."""

    @functools.wraps(function)
    def apply(*args, out=None, **kwargs):
        if out is not None:
            return out.copy_(function(*args, **kwargs))
        if any(isinstance(v, block.tensor) for v in args):
            raise TypeError(f"{function.__name__}(): argument 'input' (position 1) must be Tensor, not tensor")
        out = function(*args, **kwargs)
        if isinstance(out, Tensor) and out.storage not in [v.storage for v in args if isinstance(v, Tensor)]:
            name = function.__name__
            _note({"contiguous": "clone", "reshape": "clone", "to": "_to_copy"}.get(name, name))
        if _State.enabled and isinstance(out, Tensor) and out.dtype.is_floating_point:
            given = [v for a in (*args, *kwargs.values()) for v in (a if isinstance(a, (list, tuple)) else (a,))]
            if any(isinstance(v, Tensor) and v.requires_grad for v in given) and all(out is not v for v in given):
                name = getattr(function, "__name__", "operation")
                out.requires_grad = True
                out.node = Derivative(RULES[name], args, kwargs, out) if name in RULES else Unmodeled(name)
        return out

    return apply


for _name in (
    "view", "reshape", "permute", "transpose", "t", "flatten", "unflatten", "unsqueeze", "squeeze", "expand",
    "__getitem__", "clone", "contiguous", "to", "as_strided",
):  # fmt: skip
    setattr(Tensor, _name, tracked(getattr(Tensor, _name)))


def _copied(self, other, non_blocking=False):
    _note("copy_")
    return self._copy(other)


Tensor.copy_ = _copied


class FunctionCtx:
    def __init__(self, function, inputs):
        self.function, self.inputs, self.outputs = function, inputs, 0
        self.needs_input_grad = tuple(isinstance(v, Tensor) and v.requires_grad for v in inputs)
        self.saved_tensors: tuple = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *outputs):
        for out in outputs:
            out.fixed = True

    def mark_dirty(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        pass

    def gradients(self, grads: list):
        from .functions import zeros

        if any(g is None for g in grads):
            grads = [zeros(*shape, dtype=of) if g is None else g
                     for g, (shape, of) in zip(grads, self.kinds, strict=True)]  # fmt: skip
        with _Mode(False):
            got = self.function.backward(self, *grads)
        got = got if isinstance(got, tuple) else (got,)
        if len(got) != len(self.inputs):
            raise RuntimeError(f"function {self.function.__name__}Backward returned an incorrect number of gradients "
                               f"(expected {len(self.inputs)}, got {len(got)})")  # fmt: skip
        return got


class Function:
    @classmethod
    def apply(cls, *inputs):
        ctx = FunctionCtx(cls, inputs)
        separate = "setup_context" in vars(cls) or len(inspect.signature(cls.forward).parameters) == len(inputs)
        with _Mode(False):
            result = cls.forward(*inputs) if separate else cls.forward(ctx, *inputs)
            if separate and "setup_context" in vars(cls):
                cls.setup_context(ctx, inputs, result)
        outputs = result if isinstance(result, tuple) else (result,)
        if _State.enabled and any(ctx.needs_input_grad):
            ctx.kinds = [(out.shape, out.dtype) for out in outputs if isinstance(out, Tensor)]
            outputs = tuple(_output(out, ctx, i) for i, out in enumerate(outputs))
        return outputs if isinstance(result, tuple) else outputs[0]


class CustomOp:
    """An operation of ``torch.library.custom_op``."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn, self.run = fn, fn

    def __call__(self, *args, **kwargs):
        bound = inspect.signature(self.fn).bind(*args, **kwargs)
        bound.apply_defaults()
        return self.run(*bound.args)

    def register_fake(self, fn):
        return fn

    def register_autograd(self, backward, *, setup_context=None):
        prepare = setup_context or (lambda ctx, inputs, output: None)
        parts = {"forward": self.fn, "backward": backward, "setup_context": prepare}
        self.run = type(self.fn.__name__, (Function,), {name: staticmethod(fn) for name, fn in parts.items()}).apply


def custom_op(name, fn=None, *, mutates_args=(), **options):
    return CustomOp if fn is None else CustomOp(fn)


def _output(out, ctx, place: int):
    if not isinstance(out, Tensor) or not out.dtype.is_floating_point or getattr(out, "fixed", False):
        return out
    out = out.detach() if any(out is v for v in ctx.inputs) else out
    out.requires_grad, out.node, out.place = True, ctx, place
    return out


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False):
    """Return the gradients of some outputs for some inputs."""
    if create_graph:
        raise NotImplementedError("create_graph=True is not modeled in the browser: gradients have no gradients here")
    outputs, inputs = ([v] if isinstance(v, Tensor) else list(v) for v in (outputs, inputs))
    given = [None] * len(outputs) if grad_outputs is None else grad_outputs
    found = _backward(outputs, [given] if isinstance(given, Tensor) else list(given))
    gradients = tuple(found.get(id(x)) for x in inputs)
    if not allow_unused and any(g is None for g in gradients):
        raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. "
                           "Set allow_unused=True if this is the desired behavior.")  # fmt: skip
    return gradients


def _backward(outputs, grads) -> dict[int, Tensor]:
    """Return gradients by the identity of the tensor: those of outputs, and of all that these were made of."""
    from .functions import add_, ones_like

    found: dict[int, Tensor] = {}
    for out, given in zip(outputs, grads, strict=True):
        if given is None and out.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        _gather(found, out, ones_like(out) if given is None else given, add_)
    order: list = []
    _visit(outputs, order, set())
    for node, tensors in reversed(order):
        grads_of = [None] * len(getattr(node, "kinds", [0]))
        for x in tensors:
            if id(x) in found:
                grads_of[getattr(x, "place", 0)] = found[id(x)]
        for x, gradient in zip(getattr(node, "inputs", ()), node.gradients(grads_of), strict=True):
            if isinstance(x, Tensor) and x.requires_grad and gradient is not None:
                _gather(found, x, gradient, add_)
    return found


def _gather(found, x, gradient, add):
    found[id(x)] = add(found[id(x)], gradient) if id(x) in found else gradient


def _visit(tensors, order: list, seen: set):
    """List the nodes behind some tensors, each after those of its inputs."""
    for x in tensors:
        if not isinstance(x, Tensor) or x.node is None:
            continue
        if id(x.node) not in seen:
            seen.add(id(x.node))
            _visit(getattr(x.node, "inputs", ()), order, seen)
            order.append((x.node, []))
        next(entry for entry in order if entry[0] is x.node)[1].append(x)


def backward(self, gradient=None, retain_graph=None):
    """Add the gradients to those of the leaves."""
    from .functions import add_

    leaves: dict[int, Tensor] = {}

    def collect(x):
        if x.node is None and x.requires_grad:
            leaves[id(x)] = x
        for part in getattr(x.node, "inputs", ()):
            if isinstance(part, Tensor):
                collect(part)

    collect(self)
    for key, value in _backward([self], [gradient]).items():
        if (leaf := leaves.get(key)) is not None:
            leaf.grad = value if leaf.grad is None else add_(leaf.grad, value)


Tensor.backward = backward
