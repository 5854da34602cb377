# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise any_length."""

import inspect

import torch
import triton.language as tl
from coach.spec import Spec

BLOCK = 64  # of the solution
LENGTHS = 1, 7, 64, 200  # of which Triton's questions have all answers, and no two have the same power of two


class Log:
    """Notes of each launch what Triton compiles a version of the kernel for."""

    def __init__(self):
        self.launches = []

    def watch(self, kernel):
        return Watched(kernel, self.launches)


class Watched:
    """A kernel whose launches are noted: constants, launch options such as num_warps, and which integers are 1 or
    multiples of 16, unless `do_not_specialize` names them."""

    def __init__(self, kernel, launches):
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid):
        def launch(*arguments, **named):
            parameters = inspect.signature(self.kernel.fn).parameters
            given = dict(zip(parameters, arguments, strict=False)) | named
            options = getattr(self.kernel, "kwargs", {})  # of an interpreted kernel; a compiled one has them itself
            skipped = getattr(self.kernel, "do_not_specialize", options.get("do_not_specialize")) or ()
            noted = {}
            for place, (name, value) in enumerate(given.items()):
                if name not in parameters or parameters[name].annotation is tl.constexpr:
                    noted[name] = value
                elif isinstance(value, int) and name not in skipped and place not in skipped:
                    noted[name] = ASKED[value == 1, value % 16 == 0]
            self.launches.append(noted)
            return self.kernel[grid](*arguments, **named)

        return launch


ASKED = {(True, False): "1", (False, True): "a multiple of 16", (False, False): "neither"}


def one_version(out, inputs, again):
    """Refuse what makes Triton compile the kernel again for rows of another length."""
    log = Log()
    for columns in LENGTHS:
        again(x=torch.ones(2, columns), log=log)
    for name in log.launches[0] if log.launches else ():
        values = [launch.get(name) for launch in log.launches]
        if all(value == values[0] for value in values):
            continue
        said = f"Rows of {listed(LENGTHS)} columns need more than one version: "
        if values[0] in ASKED.values():
            return (
                f"{said}for an ordinary integer such as {name}, Triton compiles one for 1, one for multiples of 16, "
                "and one for the rest. It does not look at an argument that `do_not_specialize` names."
            )
        return f"{said}the launches pass {name} = {listed(values)}, and Triton compiles one for each of these values."
    return None


def listed(values):
    return ", ".join(map(str, values[:-1])) + f" and {values[-1]}"


def inputs(size, rng):
    """Rows whose largest magnitude is that of the last column, a negative one, and in every second row of the first."""
    x = torch.randn(size["rows"], size["columns"], generator=rng)
    x[::2, -1] -= 6
    x[1::2, 0] += 6
    return {"x": x, "log": Log()}


SPEC = Spec(
    title="One version for every length",
    kind="bug",
    lesson="pytorch/compile-once.md",
    goal="Triton compiles this kernel again for each length of a row. Make a single compiled version serve any length.",
    hints=(
        "Which of the kernel's constants depend on the length, and what needs to be known when the kernel is compiled?",
        "What makes Triton compile again: pytorch/compile-once.md#again. A loop over the blocks of a row: "
        "fusion/long-softmax.md#the-first-pass-maximum-and-sum",
        "for start in range(0, columns, BLOCK):",
    ),
    function="largest",
    signature=("x", "log"),
    inputs=inputs,
    reference=lambda x, log: x.abs().amax(1),
    another=lambda x, log: {"x": 64 * x},
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 300}, {"rows": 2, "columns": 1100}),
    last=({"rows": 2, "columns": 4099},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": BLOCK},
    smallest=1,
    strides="refused",
    properties=(one_version,),
    mistaken={
        "That is the largest of the first block. Where is the loop over the others?": lambda x, log: (
            x[:, :BLOCK].abs().amax(1)
        ),
        "That is the largest of the first 1024 columns. Is every row that short?": lambda x, log: (
            x[:, :1024].abs().amax(1)
        ),
        "That is the largest of the last block. Does each step keep what it had?": lambda x, log: (
            x.split(BLOCK, dim=1)[-1].abs().amax(1)
        ),
        "The last, partial block is missing. Does the loop round up?": lambda x, log: torch.cat(
            [x.new_zeros(len(x), 1), x[:, : x.shape[1] // BLOCK * BLOCK].abs()], dim=1
        ).amax(1),
        "That is the largest element. Which magnitude does -4 have?": lambda x, log: x.amax(1),
        "That is the largest element, or 0. Which magnitude does -4 have?": lambda x, log: torch.relu(x.amax(1)),
    },
    most_reads={"x": 1},
    in_blocks=("x",),
    most_launches=1,
)
