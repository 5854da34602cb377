# SPDX-License-Identifier: Apache-2.0
"""Specify an exercise: ``exercises/NAME/spec.py`` ends in ``SPEC = Spec(…)``, and needs no other code.

How to write one: (1) ``solution.py``, with ``# gap 1: what goes here`` and ``# end of gap 1`` around what the reader
writes; (2) ``spec.py``; (3) ``wrong.toml``, whose table ``[skeleton]`` makes the file that readers begin with: each gap
holds ``...`` or, by ``gap1 = "pass"``, another placeholder (``return None``, a name set to a neutral value), or to find
a bug or to make it faster, the code that is to go; (4) there, too, at least four tables of wrong solutions, each with
``why``, the ``stage`` that must catch it (a key of ``finding.STAGES``), a piece of the ``message``, and ``replace =
["old", "new"]``, one or more pairs of what it has in place of pieces of the solution; (5) ``python -m recorder run
practice/NAME``, which refuses a wrong solution that is not caught as it should be; read the messages: where one is
vague, give ``mistaken`` a sentence, or ``mistakes`` a rule; (6) ``python -m render.practice.handout``, which writes the
notebook. A wrong solution that is right, and too slow, which only a GPU can tell, has ``gpu = true``: on a machine with
a GPU the same command times the solution, and such ones.

The first five fields are the card. They are literals, for lists and the site read them without importing torch. A
lambda or a function of ``spec.py`` does the rest::

    SPEC = Spec(
        title="Scale a vector", kind="scratch", lesson="programs/vector-add.md", goal="…", hints=("…?", "…", "…"),
        function="scale", signature=("x", "a"),
        inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng), "a": 2.5},
        reference=lambda x, a: x * a,
        sizes=({"n": 10},), awkward=("n",), strides="refused",
    )

How to specify other kinds:

- **Matmul**: ``sizes=({"m": 5, "n": 7, "k": 9},)``, ``blocks={"m": 16, "n": 16, "k": 16}``, ``awkward`` of all three,
  ``rtol`` and ``atol`` for the sums, ``layouts=("spread", "transposed")``, and
  ``speed=Speed(size={…}, least=0.8, against=torch.matmul)``. Let ``reference`` compute in float64 and cast.
- **A backward**: ``gradients=("x", "w")``. The function is then also differentiated, with a gradient of its output that
  is not contiguous, and compared with torch's gradient of ``reference``, which must be differentiable.
  ``mistaken_gradient`` is as ``mistaken``: ``{"Where is the slope?": lambda grad, x: grad}``.
- **Random numbers**: ``reference=None``, ``result_like="x"``, and ``properties``: functions of ``(result, inputs,
  again)`` that return what is wrong, or None. ``again(**changes)`` calls the function once more, so that "the same seed
  drops the same elements" is ``torch.equal(result, again())``, and another seed is ``again(seed=8)``.
- **A reduction**: give ``mistaken`` the results that people get: ``{"Is that the sum of each column?": lambda x: …}``.
- **Make it faster**: ``kind="faster"``, and ``most_reads={"x": 1}`` (of each element, over all programs, the median
  over the elements), ``most_launches=1``, ``least_used={"x": 0.9}`` (of the sectors of 32 bytes that loads fetch),
  ``most_moved=1`` (bytes, of those of inputs and results),
  ``in_blocks=("x",)`` (not an element at a time); or ``speed`` on a GPU. A skeleton of this kind is right, and
  too slow.
- **Find the bug**: ``kind="bug"``. The gap is the lines with the fault.
- **Histograms, atomics**: an atomic may touch an element twice, a plain store may not, unless ``twice=True``. Where the
  result has to be the same each time, ``ordered`` says what to do instead of adding floats by atomics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Size = dict[str, int]
Inputs = dict[str, Any]
KINDS = {
    "gap": "fill in the gap",
    "bug": "find the bug",
    "faster": "make it faster",
    "scratch": "write it from scratch",
}
FINISHED = ("bug", "faster")  # kinds whose skeleton holds code in its gaps: wrong, or slow


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The least speed on a GPU, as a share of something that does as much."""

    size: Size
    least: float  # share: 0.9 is nine tenths as fast
    against: Literal["copy"] | Callable[..., Any] = "copy"  # of as many bytes as inputs and result; or of the inputs


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Say what to check, in the order of the stages; see the module for examples."""

    title: str
    kind: Literal["gap", "bug", "faster", "scratch"]
    lesson: str  # its page, such as "programs/masks.md"
    also: tuple[str, ...] = ()  # other lessons that lead to it
    goal: str  # one or two sentences
    hints: tuple[str, str, str]  # a question; where to read, with the address of a page's part; a line of code

    function: str  # the host function
    signature: tuple[str, ...]  # its parameters; ``inputs`` names the same
    inputs: Callable[[Size, torch.Generator], Inputs]  # on the CPU; the coach moves the tensors
    reference: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]] | None
    sizes: tuple[Size, ...]  # the first is small, for it is what pictures show
    last: tuple[Size, ...] = ()  # tried once all else is right, for what is wrong may take long at them
    another: Callable[..., Inputs] | None = None  # of the inputs, what else differs with another seed, such as a number
    result_like: str = ""  # without a reference: the input whose shape and dtype the result has

    awkward: tuple[str, ...] = ()  # names in a size that are tried at 0, 1, block ± 1, a prime, …
    blocks: Size = field(default_factory=dict)  # of those names; if not here: the lanes of the reader's widest store
    smallest: int = 0  # of an awkward size: 1 where nothing is not allowed

    strides: Literal["served", "refused", "either"] = "served"  # refused: by a ValueError
    layouts: tuple[str, ...] = ("spread",)  # of LAYOUTS, for all tensors; none: not checked

    rtol: float = 0.0
    atol: float = 0.0
    gradients: tuple[str, ...] = ()
    properties: tuple[Callable[..., str | None], ...] = ()
    mistaken: dict[str, Callable[..., Any]] = field(default_factory=dict)  # what a wrong result says about its mistake
    mistaken_gradient: dict[str, Callable[..., Any]] = field(default_factory=dict)  # the same, for the first gradient

    writes: tuple[str, ...] = ()  # inputs that a kernel may write, as for work in place
    twice: bool = False  # whether a launch may store an element twice
    shared: str = ""  # what to say where programs store the same element, which they should share by atomics
    ordered: str = ""  # what to do instead of letting several programs add to one float; without it they may
    covers: bool = True  # whether a kernel must store every element of the result
    stored: bool = True  # whether a kernel makes the result at all; not where it is a time, as in clock
    torch_ops: tuple[str, ...] = ()  # what torch may do beside allocate and view, such as "clone"

    most_reads: dict[str, float] = field(default_factory=dict)
    least_used: dict[str, float] = field(default_factory=dict)  # share of the sectors loaded, at the last of ``sizes``
    in_blocks: tuple[str, ...] = ()  # inputs of which no program may load one element at a time
    most_moved: float | None = None  # bytes loaded and stored, as a multiple of those of inputs and result
    most_launches: int | None = None
    lanes: int = 0  # of each load and store, where the exercise says how many
    most_blocks: int | None = None  # that a program stores, one after another; 1 where each program takes a block
    idle: bool = False  # whether programs may store nothing, as where there are more of them than blocks
    programs: str = ""  # the parameter that says how many programs each launch has
    speed: Speed | None = None

    limit_s: float = 60  # for each of the two or three processes; a literal, too


def spread(x: torch.Tensor) -> torch.Tensor:
    """Return the same values; another element, not of the tensor, lies between any two of the last dimension."""
    if x.ndim == 0:
        return x
    wide = x.new_zeros(*x.shape[:-1], 2 * x.shape[-1] + 1)[..., : 2 * x.shape[-1] : 2]
    return wide.copy_(x)


def transposed(x: torch.Tensor) -> torch.Tensor:
    """Return the same values, stored by columns."""
    return x.mT.contiguous().mT if x.ndim > 1 else x


def rows_apart(x: torch.Tensor) -> torch.Tensor:
    """Return the same values; elements that are not of the tensor follow each row."""
    if x.ndim < 2:
        return x
    return x.new_zeros(*x.shape[:-1], x.shape[-1] + 3)[..., : x.shape[-1]].copy_(x)


LAYOUTS = {"spread": spread, "transposed": transposed, "rows_apart": rows_apart}
LAYOUT_WORDS = {
    "spread": "every second element of a wider tensor",
    "transposed": "stored by columns",
    "rows_apart": "rows of a wider tensor",
}
