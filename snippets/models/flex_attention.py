# SPDX-License-Identifier: Apache-2.0
"""FlexAttention, PyTorch's own way to windows, softcap, ALiBi and sinks: a line of Python for each.

``mask_mod`` says who sees whom, ``score_mod`` changes a score, and a *block mask* holds, for each block of queries,
which blocks of keys to visit: what ``window_attention.py`` computes from two numbers. Without ``torch.compile``, as
here, ``flex_attention`` stores all scores, and tells whether a line means what it should.

Shapes: as ``window_attention``; a block mask has four tensors of int32, of the numbers of blocks.
Source: PyTorch, ``torch.nn.attention.flex_attention``.

Run it on a GPU with ``python flex_attention.py``, or with ``TRITON_INTERPRET=1 python flex_attention.py``.
"""

import itertools
import warnings

import torch
import triton
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from snippets.library.attention import attention
from snippets.models.window_attention import window_attention, window_attention_kernel


# --8<-- [start:mods]
def window_mod(window):
    return lambda batch, head, query, key: (
        (query >= key) & (query - key < window)
    )


def softcap_mod(softcap):
    return lambda score, batch, head, query, key: (
        softcap * torch.tanh(score / softcap)
    )


def alibi_mod(slopes):
    return lambda score, batch, head, query, key: (
        score - slopes[head] * (query - key)
    )
# --8<-- [end:mods]


# --8<-- [start:sinks]
def with_sinks(flex, q, k, v, sinks, **options):
    """Scale the result afterwards: a sink only adds to what it is divided by."""
    out, aux = flex(q, k, v, return_aux=AuxRequest(lse=True), **options)
    share = torch.sigmoid(aux.lse - sinks[:, None])
    return out * share[..., None].to(out.dtype)
# --8<-- [end:sinks]


# --8<-- [start:refused]
def one_for_another_length(q, k, v, mask):
    return flex_attention(q[:, :, :48], k[:, :, :48], v[:, :, :48], block_mask=mask)


def fewer_heads_of_keys(q, k, v, mask):
    return flex_attention(q, k[:, :2], v[:, :2], block_mask=mask)


def an_if(q, k, v, mask):
    def seen(batch, head, query, key):
        return query >= key if head < 2 else query - key < 3

    return create_block_mask(seen, None, 4, 64, 64, device=q.device)


def sinks_as_an_argument(q, k, v, mask):
    return flex_attention(q, k, v, block_mask=mask, sinks=torch.zeros(4, device=q.device))
# --8<-- [end:refused]


def blocks_of(mask) -> tuple[int, int]:
    """Return how many blocks of a mask are visited with the mask, and how many without."""
    return tuple(int(count.sum()) for count in (mask.kv_num_blocks, mask.full_kv_num_blocks))


def picture(mask) -> list[str]:
    """Return a row of characters for each block of queries: # for whole, / for masked, · for left out."""
    rows, columns = mask.kv_num_blocks.shape[2], mask.kv_indices.shape[3]
    marks = [["·"] * columns for _ in range(rows)]
    for row, (counts, indices, mark) in itertools.product(
        range(rows),
        ((mask.kv_num_blocks, mask.kv_indices, "/"), (mask.full_kv_num_blocks, mask.full_kv_indices, "#")),
    ):
        for column in indices[0, 0, row, : int(counts[0, 0, row])].tolist():
            marks[row][column] = mark
    return [" ".join(row) for row in marks]


def bytes_of(mask) -> int:
    """Return the bytes of a mask's tensors, those for the backward among them."""
    return sum(x.nbytes for x in mask.as_tuple() if isinstance(x, torch.Tensor))


def main():
    device = "cuda" if isinstance(window_attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    warnings.filterwarnings("ignore")  # that it is not compiled
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 4, 64, 32).to(device)
    slopes, sinks = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=device), torch.randn(4).to(device)
    make = lambda window, n=64, **options: create_block_mask(window_mod(window), None, None, n, n, device, **options)
    mask = make(17)

    print("## the same")
    for name, found, wanted in (
        ("window", flex_attention(q, k, v, block_mask=mask), window_attention(q, k, v, window=17)),
        ("softcap", flex_attention(q, k, v, softcap_mod(2.0), mask), window_attention(q, k, v, window=17, softcap=2.0)),
        ("sinks", with_sinks(flex_attention, q, k, v, sinks, block_mask=mask),
         window_attention(q, k, v, window=17, sinks=sinks)),
        ("ALiBi", flex_attention(q, k, v, alibi_mod(slopes), mask),
         attention(q, k, v, window=(16, 0), alibi_slopes=slopes)),
    ):  # fmt: skip
        print(f"{name}: {torch.allclose(found, wanted, rtol=1e-3, atol=1e-3)}")

    print("## block mask")
    toy = make(3, 8, BLOCK_SIZE=2)
    print(*picture(toy), sep="\n")
    print(f"visited with the mask: {blocks_of(toy)[0]}")
    print(f"visited without: {blocks_of(toy)[1]}")

    print("## its size")
    for n in (16384, 131072):
        # 128 by 128, as flex_attention has it; here made from a mask of blocks, one number for each
        blocks = make(1, n // 128, BLOCK_SIZE=1)
        print(f"MB for {n} tokens: {bytes_of(blocks) / 1e6:.2f}")

    for refused in (one_for_another_length, fewer_heads_of_keys, an_if, sinks_as_an_argument):
        print(f"## {refused.__name__.replace('_', ' ')}")
        try:
            refused(q, k, v, mask)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
