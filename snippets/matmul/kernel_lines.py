# SPDX-License-Identifier: Apache-2.0
"""Count the lines of the chapter's matmul kernels, each with the functions that it calls.

Counted as they stand in the files, without blank lines, comments and docstrings. The host functions, the checks of
their arguments and the choice of a config are not counted.

Units: lines as they stand, few of more than 76 columns; words of Python, such as names, numbers and signs, which no
line break changes.
Source: the claim that a matmul as fast as cuBLAS takes fewer than 25 lines of Triton, in OpenAI's announcement of 2021.

Run it with ``python kernel_lines.py``. It launches nothing.
"""

import ast
import inspect
import io
import textwrap
import tokenize

from snippets.matmul import autotuned, grouped, naive, persistent

STEPS = {
    "naive": naive.matmul_kernel,
    "grouped": grouped.matmul_kernel,
    "autotuned": autotuned.matmul_kernel,
    "persistent": persistent.matmul_kernel,
}
WORDS = (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)


# --8<-- [start:count]
def plain(function):
    """The Python function inside a kernel, which ``triton.jit``, the interpreter or ``triton.autotune`` has wrapped."""
    while hasattr(function, "fn"):
        function = function.fn
    return function


def reached(kernel) -> list:
    """The functions of a kernel: its own, and those of the same file that it calls, directly or not."""
    found, waiting = [], [plain(kernel)]
    while waiting:
        function = waiting.pop()
        found.append(function)
        names = {word.string for word in words(function)} & set(function.__globals__)
        called = [plain(function.__globals__[name]) for name in sorted(names)]
        mine = [each for each in called if inspect.isfunction(each) and each.__module__ == function.__module__]
        waiting += [each for each in mine if each not in found + waiting]
    return found


def words(function) -> list[tokenize.TokenInfo]:
    """The words of a function, in order, without comments and the docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    parsed = ast.parse(source).body[0]
    head = parsed.body[0] if ast.get_docstring(parsed) is not None else None
    rows = range(head.lineno, head.end_lineno + 1) if head else ()
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [word for word in found if word.type in WORDS and word.start[0] not in rows]


def lines(function) -> int:
    """
    >>> def three(x):
    ...     '''Not counted.'''
    ...
    ...     # nor this
    ...     return (
    ...         x + 1)
    >>> lines(three), len(words(three))
    (3, 12)
    """
    return len({row for word in words(function) for row in range(word.start[0], word.end[0] + 1)})
# --8<-- [end:count]


def main():
    for step, kernel in STEPS.items():
        functions = reached(kernel)
        print(f"{step}, functions: {len(functions)}")
        print(f"{step}, lines: {sum(map(lines, functions))}")
        print(f"{step}, words: {sum(len(words(each)) for each in functions)}")


if __name__ == "__main__":
    main()
