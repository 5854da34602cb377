# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter without work that changes nothing, which is up to half of the time of a test of a kernel.

For kernels that tests launch themselves. Scripts that tests of snippets run as a reader would have it as it is.
"""

import dataclasses
import functools
import inspect


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
