# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter without work that changes nothing, which is up to half of the time of a test of a kernel.

For kernels that tests launch themselves. Scripts that tests of snippets run as a reader would have it as it is.
"""

import dataclasses
import functools
import inspect
import math


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

    def patch_builtin(package, builder, scope):
        for name in names[package]:
            if is_builtin(member := getattr(package, name)):  # neither replaced already nor by a test
                interpreter._patch_attr(package, name, member, builder, scope)

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

    @functools.cache
    def shape_of_type(*shape):
        build_type(of := object.__new__(tl.block_type), tl.int8, [*shape])
        return of.shape, of.numel, str(of.shape)

    @functools.cache
    def shape_of_value(*shape):
        return tl.core.tuple([tl.constexpr(size) for size in shape]), tl.constexpr(math.prod(shape))

    def init_type(self, element_ty, shape):
        self.element_ty = element_ty
        self.shape, self.numel, text = shape_of_type(*tl.core._unwrap_shape(shape))
        self.name = f"<{text}, {element_ty}>"

    def init_value(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = shape_of_value(*(type.shape if type.is_block() else ()))

    tl.block_type.__init__, tl.tensor.__init__ = init_type, init_value
