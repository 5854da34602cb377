# SPDX-License-Identifier: Apache-2.0
"""Numbers of 4 bits, unpacked wrong on purpose, in two ways that a kind test doesn't catch. Do not copy this.

- ``highest_part_bug``: the highest part of a word is shifted to the right end and not masked. A word is signed, so the
  shift fills up with its highest bit. Right for numbers up to 7.
- ``pack_neighbors_bug``: a word holds four neighbors, as one would expect, and the kernel multiplies its parts by
  numbers of ``x`` that are 32 apart. Right for an ``x`` whose numbers are all alike.

Run it on a GPU with ``python int4_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.models.int4 import Packed, int4_kernel, int4_matmul, pack, unpacked


# --8<-- [start:sign]
@triton.jit
def highest_part_bug(words_ptr, q_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    words = tl.load(words_ptr + lanes)
    # Nothing is left above the highest part, so why mask?
    tl.store(q_ptr + lanes, words >> 12)
# --8<-- [end:sign]


# --8<-- [start:neighbors]
def pack_neighbors_bug(
    q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
) -> Packed:
    n, k = q.shape
    # Word j of a block gets numbers 4 * j to 4 * j + 3.
    q = q.view(n, k // 128, 32, 4).transpose(2, 3)
    return pack(q.reshape(n, k), scale, zero)
# --8<-- [end:neighbors]


def main():
    device = "cuda" if isinstance(int4_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## No mask")
    q = torch.tensor([0, 3, 7, 8, 9, 12, 14, 15], dtype=torch.int32)
    words = (q << 12).to(torch.int16).to(device)
    found = torch.empty_like(words)
    highest_part_bug[(1,)](words, found, BLOCK=8)
    print("packed:  ", *(f"{x:3}" for x in q.tolist()))
    print("unpacked:", *(f"{x:3}" for x in found.tolist()))
    print("## Neighbors in a word")
    torch.manual_seed(0)
    q = torch.randint(16, (4, 256), device=device)
    scale, zero = torch.ones(4, 2, device=device), torch.full((4, 2), 8, device=device)
    exact = unpacked(pack(q, scale, zero)).double()
    for name, x in (("ones", torch.ones(1, 256)), ("0 1 2 0 1 2 …", torch.arange(256.0)[None] % 3)):
        x = x.to(device).half()
        y = int4_matmul(x, pack_neighbors_bug(q, scale, zero))
        print(f"x is {name}:", "right" if torch.equal(y.double(), x.double() @ exact.t()) else "WRONG")


if __name__ == "__main__":
    main()
