# SPDX-License-Identifier: Apache-2.0
"""One query and sixteen keys, split among one to sixteen programs, and combined: the same result each time.

The kernels are the small ones of ``decoding_steps.py``. A program takes its part of the keys at once.

Source: Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023.

Run it on a GPU with ``python decoding_parts.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.fusion.decoding_steps import in_parts, toy_part_kernel

SCORES = (1, 3, 2, 0, 2, 5, 4, 1, 3, 0, 2, 6, 1, 4, 3, 2)
SPLITS = (1, 2, 4, 8, 16)


def main():
    device = "cuda" if isinstance(toy_part_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("scores:", *SCORES)
    scores = torch.tensor(SCORES, dtype=torch.float32, device=device)
    values = torch.arange(1.0, len(scores) + 1, device=device)
    for parts in SPLITS:
        print(f"## {parts} parts")
        stored, (total, accumulator) = in_parts(scores, values, parts)
        for number, (maximum, part_sum, part_accumulator) in enumerate(stored):
            print(f"part {number}: {maximum:.0f} {part_sum:.4f} {part_accumulator:.4f}")
        print(f"together: {total:.4f} {accumulator:.4f}")
        print(f"result: {accumulator / total:.4f}")
    print(f"torch: {scores.softmax(0) @ values:.4f}")


if __name__ == "__main__":
    main()
