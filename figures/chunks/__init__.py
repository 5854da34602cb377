# SPDX-License-Identifier: Apache-2.0
"""`<logit-chunks>`: the memory of a last layer and its loss, to scale, all at once and in chunks, chunk by chunk.

It takes the sizes that a run printed, in GB, and the rows of a chunk. Every tensor is drawn by one scale: its area is
its size. What is allocated at the most is the sum of the parts; a test compares both sums with what was measured.
"""

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

STEPS = ("scores", "gradient", "used")  # of a chunk
COPIES = 3  # tensors as large as the logits that PyTorch holds at once


@figure(of="output")
def chunks(recording: Recording, *, rows=32768, columns=128256, id="chunks"):
    """``rows`` tokens with ``columns`` scores each, as in the run."""
    numbers = printed.numbers(recording.output)

    def read(label: str) -> float:
        if label not in numbers:
            raise RecorderError(f"the run printed no {label!r}{nearest(label, numbers)}")
        return numbers[label]

    whole, chunk = read("logits of all rows, GB"), read("logits of a chunk, GB")
    held = {
        "gradient of weight": read("gradient of weight in float32, GB"),
        "gradient of hidden": read("gradient of hidden, GB"),
    }
    of_chunk = read(f"rows of a chunk, of {rows}")
    if rows % of_chunk or abs(whole * of_chunk / rows - chunk) > 0.01 or abs(2 * rows * columns / 1e9 - whole) > 0.01:
        raise RecorderError(f"{rows} rows of {columns} in chunks of {of_chunk} take other GB than the run printed")
    count = rows // of_chunk
    return render(
        "chunks/template.html",
        id=id,
        whole=whole,
        chunk=chunk,
        held=held,
        least=chunk + sum(held.values()),
        copies=COPIES,
        count=count,
        rows=rows,
        columns=columns,
        of_chunk=of_chunk,
        last=count * len(STEPS) - 1,
        rest=len(STEPS) * (count // 2) + STEPS.index("gradient"),
        table_rows=[
            *((f"PyTorch: as large as the scores, {i + 1} of {COPIES}", f"{whole:.2f}") for i in range(COPIES)),
            ("in chunks: scores of a chunk, then their gradient", f"{chunk:.2f}"),
            *((f"in chunks: {name}", f"{gb:.2f}") for name, gb in held.items()),
        ],
    )
