# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter without work that changes nothing, which is up to half of the time of a test of a kernel.

For kernels that tests launch themselves. Scripts that tests of snippets run as a reader would have it as it is.
"""

import dataclasses
import functools
import inspect
import math
from typing import NamedTuple


def spare_work():
    from triton import language as tl
    from triton.runtime import interpreter

    # Each sum, difference and product of integers is checked for overflow, by an assertion that it then leaves out.
    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)

    # Each launch, and each call of a function by a kernel, goes through all names of the language to replace some.
    packages = (tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base)
    is_builtin = tl.core.is_builtin
    names = {package: [name for name, of in inspect.getmembers(package) if is_builtin(of)] for package in packages}

    asks_for_semantic = tl.load.__code__  # which is given it here

    @functools.cache
    def replacement(member):
        run = inspect.unwrap(member, stop=lambda of: of.__code__ is not asks_for_semantic)

        def replaced(*arguments, **options):
            options["_semantic"] = interpreter.interpreter_semantic
            return run(*arguments, **options)

        return replaced

    def patch_builtin(package, builder, scope):
        for name in names[package]:
            if is_builtin(member := getattr(package, name)):  # neither replaced already nor by a test
                scope.set_attr(package, name, replacement(member))

    assert inspect.isfunction(interpreter._patch_builtin), "this Triton does it otherwise"
    interpreter._patch_builtin = patch_builtin

    # The table of NumPy's names for Triton's dtypes is built for each look into it.
    look_up = functools.cache(interpreter._get_np_dtype)
    pointer = interpreter._get_np_dtype(tl.pointer_type(tl.int8))
    interpreter._get_np_dtype = lambda of: pointer if of.scalar.is_ptr() else look_up(of.scalar)

    # A kernel's call of a function replaces the names again, though its launch, or an earlier call, has replaced them.
    @functools.cache
    def languages(fn):
        return [language for language in (tl, tl.core) if any(of is language for of in fn.__globals__.values())]

    def call(self, *arguments, **options):
        if any(language.static_print is not print for language in languages(self.fn)):
            interpreter._patch_lang(self.fn)
        try:
            return self.rewrite()(*arguments, **options)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter.InterpretedFunction.__call__ = call

    # Each value and each type of a block builds its shape anew, of objects that are alike for all of that shape.
    build_type = tl.block_type.__init__

    class Shape(NamedTuple):
        of_type: tl.tuple
        numel_of_type: int
        text: str
        of_value: tl.tuple
        numel_of_value: tl.constexpr

    @functools.cache
    def shape(*sizes):
        build_type(of := object.__new__(tl.block_type), tl.int8, [*sizes])
        of_value = tl.core.tuple([tl.constexpr(size) for size in sizes])
        of.shape.known = Shape(of.shape, of.numel, str(of.shape), of_value, tl.constexpr(math.prod(sizes)))
        return of.shape.known

    def known(of):  # getattr would ask for a field of that name
        return vars(of).get("known") if type(of) is tl.core.tuple else None

    def init_type(self, element_ty, sizes):
        of = known(sizes) or shape(*tl.core._unwrap_shape(sizes))
        self.element_ty, self.shape, self.numel = element_ty, of.of_type, of.numel_of_type
        self.name = f"<{of.text}, {element_ty}>"

    no_shape = tl.core.tuple([]), tl.constexpr(1)

    def init_value(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        if type.is_block():
            *_, self.shape, self.numel = known(type.shape) or shape(*type.shape)
        else:
            self.shape, self.numel = no_shape

    tl.block_type.__init__, tl.tensor.__init__ = init_type, init_value

    # Two values that are of one dtype, and perhaps of one shape, are compared in every way in which they could differ.
    semantic = type(interpreter.interpreter_semantic)
    check, broadcast, cast = semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value, semantic.cast

    @functools.cache
    def joint(left, right):
        """Return the shape of two that are broadcast, or None where that takes more: other ranks, or an error."""
        fits = len(left) == len(right) and all(a == b or 1 in (a, b) for a, b in zip(left, right, strict=True))
        return [b if a == 1 else a for a, b in zip(left, right, strict=True)] if fits else None

    def broadcast_one(self, value, sizes):
        if [*value.type.shape] == sizes:
            return value
        of = tl.block_type(value.dtype, sizes)
        return self.tensor(self.builder.create_broadcast(value.handle, [*sizes]), of)

    def broadcast_both(self, left, right):
        if left.type.is_block() and right.type.is_block():
            if left.type.shape is right.type.shape:
                return left, right
            if sizes := joint((*left.type.shape,), (*right.type.shape,)):
                return broadcast_one(self, left, sizes), broadcast_one(self, right, sizes)
        return broadcast(self, left, right)

    def check_both(self, lhs, rhs, allow_lhs_ptr=False, allow_rhs_ptr=False, arithmetic_check=True, div_or_mod=False):
        alike = type(lhs) is type(rhs) is tl.tensor and lhs.dtype is rhs.dtype
        if alike and not (div_or_mod or lhs.dtype.is_ptr()):
            return self.broadcast_impl_value(lhs, rhs)
        return check(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)

    def cast_to(self, value, dtype, fp_downcast_rounding=None):
        return value if value.dtype is dtype.scalar else cast(self, value, dtype, fp_downcast_rounding)

    semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value = check_both, broadcast_both
    semantic.cast = cast_to

    # Most values are no constants, most dtypes have no parts, and most arrays are as wide as their dtype.
    unwrap, equal, init_handle = tl.core._unwrap_if_constexpr, tl.dtype.__eq__, interpreter.TensorHandle.__init__
    plain = frozenset([tl.tensor, tl.dtype, int, float, bool, str, type(None)])

    def unwrap_constexpr(value):
        return value if type(value) in plain else unwrap(value)

    def is_equal(self, other):
        return self is other or (self.name == other.name if type(other) is tl.dtype else equal(self, other))

    def init_fitting(self, data, dtype, **attr):
        if attr or data.itemsize * 8 > vars(dtype).get("primitive_bitwidth", 0):
            init_handle(self, data, dtype, **attr)
        else:
            self.data, self.dtype, self.attr = data, dtype, {}

    tl.core._unwrap_if_constexpr, tl.dtype.__eq__ = unwrap_constexpr, is_equal
    interpreter.TensorHandle.__init__ = init_fitting
