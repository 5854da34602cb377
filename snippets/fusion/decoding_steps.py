# SPDX-License-Identifier: Apache-2.0
"""Attention for decoding step by step: two parts combined, keys found in pages, how many parts, and torch's results.

The small kernels do what those of ``decoding.py`` do, for one query whose scores are given.

Run it on a GPU with ``python decoding_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.decoding import choose_splits, decode_attention, default_tile, in_torch


# --8<-- [start:toy_part]
@triton.jit
def toy_part_kernel(score_ptr, value_ptr, parts_ptr, BLOCK: tl.constexpr):
    part = tl.program_id(axis=0)
    offsets = part * BLOCK + tl.arange(0, BLOCK)
    score = tl.load(score_ptr + offsets)
    value = tl.load(value_ptr + offsets)
    maximum = tl.max(score, axis=0)
    weight = tl.exp(score - maximum)
    tl.store(parts_ptr + 3 * part, maximum)
    tl.store(parts_ptr + 3 * part + 1, tl.sum(weight, axis=0))
    tl.store(parts_ptr + 3 * part + 2, tl.sum(weight * value, axis=0))
# --8<-- [end:toy_part]


# --8<-- [start:toy_combine]
@triton.jit
def toy_combine_kernel(parts_ptr, out_ptr, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    maximum = tl.load(parts_ptr + 3 * part)
    total = tl.load(parts_ptr + 3 * part + 1)
    accumulator = tl.load(parts_ptr + 3 * part + 2)
    factor = tl.exp(maximum - tl.max(maximum, axis=0))
    tl.store(out_ptr, tl.sum(factor * total, axis=0))
    tl.store(out_ptr + 1, tl.sum(factor * accumulator, axis=0))
# --8<-- [end:toy_combine]


# --8<-- [start:toy_pages]
@triton.jit
def toy_pages_kernel(table_ptr, out_ptr, table_row, keys, PAGE_SIZE: tl.constexpr, BLOCK: tl.constexpr):
    sequence, key = tl.program_id(axis=0), tl.arange(0, BLOCK)
    inside = key < keys
    page = tl.load(table_ptr + sequence * table_row + key // PAGE_SIZE, mask=inside)
    tl.store(out_ptr + sequence * keys + key, page * PAGE_SIZE + key % PAGE_SIZE, mask=inside)
# --8<-- [end:toy_pages]


# --8<-- [start:toy]
def toy(device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores of one query with eight keys, and a value of each key."""
    return torch.tensor([1.0, 3, 2, 0, 2, 5, 4, 1], device=device), torch.arange(1.0, 9, device=device)


def in_parts(scores: torch.Tensor, values: torch.Tensor, parts: int) -> tuple[list[list[float]], list[float]]:
    """Return maximum, sum and accumulator of each part, and sum and accumulator of all together.

    >>> stored, (total, accumulator) = in_parts(*toy("cpu"), parts=2)
    >>> [maximum for maximum, *_ in stored], round(accumulator / total, 4)
    ([3.0, 5.0], 5.7321)
    """
    stored, out = torch.empty(parts, 3, device=scores.device), torch.empty(2, device=scores.device)
    toy_part_kernel[(parts,)](scores, values, stored, BLOCK=len(scores) // parts)
    toy_combine_kernel[(1,)](stored, out, PARTS=parts)
    return stored.tolist(), out.tolist()


def toy_table(device) -> torch.Tensor:
    """Return the pages of two sequences: three of each, in a table that has room for four."""
    return torch.tensor([[4, 0, 2, 6], [1, 5, 3, 7]], dtype=torch.int32, device=device)[:, :3]


def rows_of_keys(kernel, table: torch.Tensor, table_row: int) -> list[list[int]]:
    """Return in which row of a cache each of six keys of a sequence lies, in pages of two."""
    out = torch.empty(len(table), 6, dtype=torch.int32, device=table.device)
    kernel[(len(table),)](table, out, table_row, 6, PAGE_SIZE=2, BLOCK=8)
    return out.tolist()
# --8<-- [end:toy]


def main():
    device = "cuda" if isinstance(toy_part_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## two parts")
    scores, values = toy(device)
    stored, (total, accumulator) = in_parts(scores, values, 2)
    for number, (maximum, part_sum, part_accumulator) in enumerate(stored, 1):
        print(f"part {number}, maximum: {maximum:.0f}")
        print(f"part {number}, sum: {part_sum:.4f}")
        print(f"part {number}, accumulator: {part_accumulator:.4f}")
    print(f"combined, sum: {total:.4f}")
    print(f"combined, accumulator: {accumulator:.4f}")
    print(f"result: {accumulator / total:.4f}")
    print(f"torch: {scores.softmax(0) @ values:.4f}")

    print("## pages")
    table = toy_table(device)
    for sequence, rows in enumerate(rows_of_keys(toy_pages_kernel, table, table.stride(0))):
        print(f"sequence {sequence}: pages", *table[sequence].tolist(), "rows", *rows)

    print("## splits")
    for batch, kv_heads, keys in ((1, 8, 65536), (16, 8, 8192), (1, 8, 1024), (64, 8, 8192)):
        splits = choose_splits(batch * kv_heads, keys // default_tile(torch.bfloat16, 128, 4)[1])
        print(f"{batch} x {kv_heads} heads, {keys} keys, parts: {splits}")

    print("## as torch")
    torch.manual_seed(0)
    for queries, splits, dtype, tolerance in (
        (1, 1, torch.float64, 1e-12),
        (1, 5, torch.float32, 1e-5),
        (3, 5, torch.float16, 1e-2),
    ):  # fmt: skip
        q = torch.randn(2, 8, queries, 16).to(device, dtype)
        cache_k, cache_v = torch.randn(2, 64, 16, 2, 16).to(device, dtype)
        table = torch.randperm(64).view(2, 32).to(device, torch.int32)
        options = {"lengths": torch.tensor([500, 77], device=device), "page_table": table, "causal": True}
        found = decode_attention(q, cache_k, cache_v, splits=splits, **options)
        wanted = in_torch(q.double(), cache_k.double(), cache_v.double(), **options)
        alike = torch.allclose(found.double(), wanted, rtol=tolerance, atol=tolerance)
        print(f"{queries} queries a sequence, {splits} parts, {dtype}: {alike}")


if __name__ == "__main__":
    main()
