# SPDX-License-Identifier: Apache-2.0
"""One query and sixteen keys, split among one to sixteen programs, and combined: the same result each time.

The kernels are the small ones of ``decoding.py``. A program takes its part of the keys at once.

Source: Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023.

Run it on a GPU with ``python decoding_parts.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.fusion.decoding import toy_combine_kernel, toy_part_kernel

SCORES = (1, 3, 2, 0, 2, 5, 4, 1, 3, 0, 2, 6, 1, 4, 3, 2)
SPLITS = (1, 2, 4, 8, 16)


def split(parts: int, device: str) -> tuple[list[list[float]], list[float]]:
    """Return maximum, sum and accumulator of each part, and sum and accumulator of all together."""
    scores = torch.tensor(SCORES, dtype=torch.float32, device=device)
    values = torch.arange(1.0, len(scores) + 1, device=device)
    stored, out = torch.empty(parts, 3, device=device), torch.empty(2, device=device)
    toy_part_kernel[(parts,)](scores, values, stored, BLOCK=len(scores) // parts)
    toy_combine_kernel[(1,)](stored, out, PARTS=parts)
    return stored.tolist(), out.tolist()


def main():
    device = "cuda" if isinstance(toy_part_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("scores:", *SCORES)
    for parts in SPLITS:
        print(f"## {parts} parts")
        stored, (total, accumulator) = split(parts, device)
        for number, (maximum, part_sum, part_accumulator) in enumerate(stored):
            print(f"part {number}: {maximum:.0f} {part_sum:.4f} {part_accumulator:.4f}")
        print(f"together: {total:.4f} {accumulator:.4f}")
        print(f"result: {accumulator / total:.4f}")
    scores = torch.tensor(SCORES, dtype=torch.float32)
    print(f"torch: {scores.softmax(0) @ torch.arange(1.0, len(scores) + 1):.4f}")


if __name__ == "__main__":
    main()
