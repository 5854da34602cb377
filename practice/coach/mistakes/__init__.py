# SPDX-License-Identifier: Apache-2.0
"""Say what is probably wrong, where it is a known mistake: a sentence, as a question or with "looks as if".

Each rule looks at one thing and returns its sentence, or None. The first that says something is taken, so the surest
come first: their order stands here, each rule in the module of what a mistake is about.

- ``names``: functions and other names
- ``shapes``: shapes and dtypes of blocks
- ``launches``: arguments, grids, programs
- ``masks``: lanes that are on, or off
- ``offsets``: strides, rows, directions
- ``sharing``: memory that several programs, or a program twice, touch
- ``values``: results that are known, rounded, or lack something
- ``accesses``: what these share

They need no NumPy, and of torch little more than the shapes of tensors: the site's model of both has what they ask for.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..errors import explained
from ..launch import Access, Trouble
from . import accesses, launches, masks, names, offsets, shapes, sharing, values

if TYPE_CHECKING:
    from ..run import Run


def about_error(message: str, file: str = "", line: int = 0, node: ast.AST | None = None) -> str:
    """Explain what Triton or Python raised, in a line (0: unknown, as in a kernel) or at a node of a kernel."""
    rules = (
        names.function_of_torch,
        names.made_of_others,
        names.undefined_name,
        shapes.changes_shape,
        shapes.two_branches,
        shapes.arange_of_variables,
        shapes.shape_of_a_block,
        shapes.brackets_around_an_address,
        shapes.one_address,
        names.larger_of_two,
        shapes.product_by_star,
        shapes.two_shapes,
        shapes.two_dtypes,
        launches.too_few,
        launches.exchanged_in,
        launches.grid_of_a_launch,
        names.tl_outside_a_kernel,
    )
    if tip := next((tip for rule in rules if (tip := rule(message, file, line, node))), ""):
        return tip
    return explained(message)


def about_trouble(run: Run, trouble: Trouble) -> str:
    """Explain an access that is not allowed."""
    rules = (
        launches.exchanged,
        sharing.overwritten_input,
        sharing.unordered,
        masks.joined_masks,
        sharing.shared_element,
        launches.same_offsets,
        masks.no_mask,
        offsets.exchanged_strides,
        offsets.backward_offsets,
        masks.beside_the_tile,
        masks.one_too_many,
        offsets.ignores_strides,
        offsets.row_begins,
        masks.mask_says_on,
        sharing.race,
        sharing.overlap,
    )
    return next((message for rule in rules if (message := rule(run, trouble))), "")


def about_values(
    run: Run, name: str, at: tuple[int, ...], got, want, owner: Access | None, missed: int
) -> tuple[str, Access | None]:
    """Explain a wrong element at ``at``, ``missed`` being how many nobody stored; and return a load to draw, if any."""
    rules = (
        launches.exchanged,
        launches.other_number,
        values.known_result,
        launches.never_launched,
        masks.dark_load,
        offsets.diagonal_lanes,
        launches.axes_of_the_grid,
        launches.short_row,
        launches.too_few_programs,
        launches.wrong_step,
        masks.undefined_memory,
        values.rounded_sum,
        offsets.wrong_with_strides,
        offsets.transposed_result,
        launches.same_loads,
        values.multiplied_as_tf32,
        launches.never_stored,
        values.unread_element,
    )
    given = (run, name, at, got, want, owner, missed)
    message = next((message for rule in rules if (message := rule(*given))), "")
    if isinstance(message, tuple):
        return message
    unread = values.unread_element(*given) if owner is not None and not run.case.fill and not run.case.layout else None
    if not isinstance(unread, tuple) or any(len(many) > 1 for many in accesses.siblings(unread[1]).values()):
        return message, None  # of a loop, a picture of the first step shows little
    return message, unread[1]
