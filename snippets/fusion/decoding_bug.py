# SPDX-License-Identifier: Apache-2.0
"""Attention for decoding, wrong on purpose. Do not copy this.

- ``toy_combine_bug``: adds up sums and accumulators of parts that have different maxima, without a factor
- ``toy_pages_bug``: finds the row of a sequence in the page table by the number of columns, not by the stride

The right kernels are those of ``decoding_steps.py``.

Run it on a GPU with ``python decoding_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.decoding_steps import (
    rows_of_keys,
    toy,
    toy_combine_kernel,
    toy_pages_kernel,
    toy_part_kernel,
    toy_table,
)


# --8<-- [start:combine]
@triton.jit
def toy_combine_bug(parts_ptr, out_ptr, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    total = tl.load(parts_ptr + 3 * part + 1)
    accumulator = tl.load(parts_ptr + 3 * part + 2)
    tl.store(out_ptr, tl.sum(total, axis=0))
    tl.store(out_ptr + 1, tl.sum(accumulator, axis=0))
# --8<-- [end:combine]


# --8<-- [start:pages]
@triton.jit
def toy_pages_bug(table_ptr, out_ptr, pages, keys, PAGE_SIZE: tl.constexpr, BLOCK: tl.constexpr):
    sequence, key = tl.program_id(axis=0), tl.arange(0, BLOCK)
    inside = key < keys
    page = tl.load(table_ptr + sequence * pages + key // PAGE_SIZE, mask=inside)
    tl.store(out_ptr + sequence * keys + key, page * PAGE_SIZE + key % PAGE_SIZE, mask=inside)
# --8<-- [end:pages]


def combined(kernel, scores: torch.Tensor, values: torch.Tensor) -> float:
    """Return the result of two parts, which are right, as ``kernel`` combines them."""
    parts, out = torch.empty(2, 3, device=scores.device), torch.empty(2, device=scores.device)
    toy_part_kernel[(2,)](scores, values, parts, BLOCK=len(scores) // 2)
    kernel[(1,)](parts, out, PARTS=2)
    total, accumulator = out.tolist()
    return accumulator / total


def main():
    device = "cuda" if isinstance(toy_combine_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## no factor")
    scores, values = toy(device)
    alike = scores.clamp(max=3)  # 3 is now the maximum of both parts
    for name, case in {"as in the lesson": scores, "equal maxima": alike}.items():
        print(f"{name}, toy_combine_bug: {combined(toy_combine_bug, case, values):.4f}")
        print(f"{name}, toy_combine_kernel: {combined(toy_combine_kernel, case, values):.4f}")
        print(f"{name}, torch: {case.softmax(0) @ values:.4f}")

    print("## wrong stride")
    table = toy_table(device)
    for name, case in {"3 of 4 columns": table, "copied": table.contiguous()}.items():
        wrong, right = (
            rows_of_keys(toy_pages_bug, case, case.shape[1]),
            rows_of_keys(toy_pages_kernel, case, case.stride(0)),
        )
        for sequence in range(2):
            print(f"{name}, sequence {sequence}, toy_pages_bug:", *wrong[sequence])
            print(f"{name}, sequence {sequence}, toy_pages_kernel:", *right[sequence])


if __name__ == "__main__":
    main()
