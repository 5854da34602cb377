# SPDX-License-Identifier: Apache-2.0
"""Attention over sequences of many lengths, packed one after another, without padding.

The rows of all sequences lie in one tensor; ``cu_seqlens``, the running sum of their lengths, says where each begins.
A program holds a tile of queries of one sequence and goes through the keys of that sequence. It is told the number of
its tile, among the tiles of all sequences, and looks up in ``cu_seqlens`` which one that is. So the host needs to know
no length, and does not wait for the GPU. The loop over keys is that of ``attention.py``.

- :func:`attention_variable`: the function to call, without a gradient

``snippets/library/attention.py`` is the file to copy into a model: with gradients, every ``head_dim``, options,
tensor descriptors, ``torch.compile``.

Shapes: ``q``, result ``(total_q, heads, head_dim)``; ``k``, ``v`` ``(total_k, kv_heads, head_dim)``;
``cu_seqlens_q``, ``cu_seqlens_k`` ``(sequences + 1,)``, int32, as ``flash_attn_varlen_func`` and
``torch.nn.attention.varlen.varlen_attn`` take them.
Traffic, in elements: that of ``attention.py`` for each sequence, and each program reads ``cu_seqlens_q``.
Source: Dao, *FlashAttention-2*, 2023, whose code has such a function.

Run it on a GPU with ``python attention_variable.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion import attention as dense
from snippets.fusion.attention import attend, default_tile, in_torch, load_rows, served, store_rows

MOST_SEQUENCES = 4096  # each program goes through all of their beginnings


# --8<-- [start:find]
@triton.jit
def sequence_of(
    cu_ptr,
    sequences,
    total,
    tile,
    BLOCK: tl.constexpr,
    SEQUENCES: tl.constexpr,
):
    """Return a tile's sequence, its begin and length, and the first row.

    What follows the last sequence counts as one more, with the number
    ``sequences``. If there is no such tile, all four are 0.
    """
    sequence = tl.arange(0, SEQUENCES)
    begin = tl.load(
        cu_ptr + sequence, mask=(sequence > 0) & (sequence <= sequences),
        other=0
    )  # fmt: skip
    end = tl.load(
        cu_ptr + sequence + 1, mask=sequence < sequences, other=total
    )  # fmt: skip
    # stays inside, whatever cu_seqlens says
    begin, end = tl.maximum(begin, 0), tl.minimum(tl.maximum(end, 0), total)
    length = tl.where(sequence <= sequences, end - begin, 0)
    tiles = tl.cdiv(tl.maximum(length, 0), BLOCK)
    # 64 bits, because wrong lengths may add up to anything
    before = tl.cumsum(tl.cast(tiles, tl.int64), axis=0) - tiles
    # true for at most one sequence
    here = (before <= tile) & (tile < before + tiles)
    first = tl.cast(
        tile - tl.sum(tl.where(here, before, 0), axis=0), tl.int32
    ) * BLOCK  # fmt: skip
    length = tl.sum(tl.where(here, length, 0), axis=0)
    sequence = tl.sum(tl.where(here, sequence, 0), axis=0)
    return (
        sequence, tl.sum(tl.where(here, begin, 0), axis=0), length,
        tl.where(length > 0, first, 0)
    )  # fmt: skip


@triton.jit
def rows_of_sequence(cu_ptr, sequence, sequences, total):
    """Return where the other rows of a sequence begin, and their number."""
    is_one = sequence < sequences
    begin = tl.maximum(
        tl.load(cu_ptr + sequence, mask=is_one & (sequence > 0), other=0), 0
    )  # fmt: skip
    end = tl.minimum(
        tl.maximum(tl.load(cu_ptr + sequence + 1, mask=is_one, other=0), 0),
        total
    )  # fmt: skip
    return begin, tl.where(is_one, tl.maximum(end - begin, 0), 0)
# --8<-- [end:find]


# --8<-- [start:kernel]
@triton.jit
def head_at(ptr, strides, begin, head):
    """Return where a sequence's rows of a head begin."""
    _, stride_head, stride_row = strides
    ptr += tl.cast(begin, tl.int64) * stride_row
    return ptr + tl.cast(head, tl.int64) * stride_head


@triton.jit(
    do_not_specialize=[
        "sequences", "total_q", "total_k", "group", "tiles"
    ]
)  # fmt: skip
def variable_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    cu_q_ptr,
    cu_k_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    sequences,
    total_q,
    total_k,
    group,
    tiles,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SEQUENCES: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the result of a tile of queries of one head of one sequence.

    Parameters, beside those of ``attention_kernel``:
        cu_q_ptr, cu_k_ptr: Where each sequence begins; contiguous.
        q_strides, k_strides, v_strides, out_strides: As if all sequences
            were one, in a batch of one.
        total_q, total_k: Rows of ``q`` and of ``k``, of all sequences.
        tiles: How many there may be of one head.
        SEQUENCES: A power of two above ``sequences``.
    """
    head = tl.program_id(axis=0) // tiles
    # if causal, the last tile of a sequence sees most keys: it begins first
    tile = tiles - 1 - tl.program_id(axis=0) % tiles
    sequence, begin_q, queries, first = sequence_of(
        cu_q_ptr, sequences, total_q, tile, BLOCK_Q, SEQUENCES
    )
    if first < queries:
        begin_k, keys = rows_of_sequence(
            cu_k_ptr, sequence, sequences, total_k
        )
        q_ptr = head_at(q_ptr, q_strides, begin_q, head)
        k_ptr = head_at(k_ptr, k_strides, begin_k, head // group)
        v_ptr = head_at(v_ptr, v_strides, begin_k, head // group)
        out_ptr = head_at(out_ptr, out_strides, begin_q, head)
        # --8<-- [start:as_before]
        q = load_rows(
            q_ptr, q_strides, 0, 0, first, queries,
            BLOCK_Q, HEAD_DIM, False,
        )  # fmt: skip
        out, _ = attend(
            q, k_ptr, v_ptr, k_strides, v_strides, 0, 0,
            first, queries, keys,
            SCALE, CAUSAL, False, HEAD_DIM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        store_rows(
            out_ptr, out_strides, 0, 0, first, queries, out,
            BLOCK_Q, HEAD_DIM,
        )  # fmt: skip
        # --8<-- [end:as_before]
# --8<-- [end:kernel]


# --8<-- [start:launch]
def forward(q, k, v, cu_q, cu_k, scale: float, causal: bool) -> torch.Tensor:
    check_arguments(scale, cu_q, cu_k, q=q, k=k, v=v)
    (total_q, heads, head_dim), (total_k, kv_heads, _) = q.shape, k.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    tile = default_tile(q.dtype, head_dim, described=False)
    sequences = len(cu_q) - 1
    tiles = most_tiles(total_q, sequences, tile["BLOCK_Q"])
    if tiles * heads >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(q.shape)} takes {tiles * heads} programs, of 2**31 - 1 at most; split the heads")
    if not tiles * heads:
        return out
    loaded = [served(as_batch(x)) for x in (q, k, v)]
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        variable_kernel[(tiles * heads,)](
            *loaded,
            out,
            cu_q,
            cu_k,
            *(x.stride()[:3] for x in (*loaded, as_batch(out))),
            sequences,
            total_q,
            total_k,
            heads // kv_heads,
            tiles,
            SCALE=scale,
            CAUSAL=causal,
            HEAD_DIM=head_dim,
            SEQUENCES=triton.next_power_of_2(sequences + 1),
            **tile,
        )
    return out


def as_batch(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, heads, head_dim)`` as ``(1, heads, rows, head_dim)``."""
    return x.transpose(0, 1)[None]


def most_tiles(rows: int, sequences: int, block: int) -> int:
    """Return the most tiles that sequences have: each, and the rows after the last one, may end in a partial tile.

    >>> most_tiles(100, sequences=3, block=16)  # as many as 1, 1 and 1 row have, and 97 after them
    10
    """
    return min(rows, rows // block + sequences + 1)
# --8<-- [end:launch]


# --8<-- [start:host]
def attention_variable(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head of each sequence.

    Args:
        q: ``(total_q, heads, head_dim)``; dtypes, devices, head_dim and strides are those of ``attention.py``.
        k: ``(total_k, kv_heads, head_dim)``, likewise. heads is a multiple of kv_heads.
        v: Of the shape of ``k``.
        cu_seqlens_q: ``(sequences + 1,)``, int32, on the device of ``q``: the lengths of all sequences before each.
            Sequence i has the rows from ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``; it may have none. The first
            number is taken as 0, and no number may be less than the one before. The values stay on the GPU, so nobody
            checks that; wrong ones make wrong results, but nothing outside of the tensors is read or written.
        cu_seqlens_k: Of the same length, for ``k`` and ``v``.
        causal: Whether a query sees only keys that are no later. The last query and the last key of a sequence are of
            the same time (the mask is aligned to the bottom right, as in flash-attention since 2.1).
        scale: Of the scores, above 0; ``head_dim ** -0.5`` unless told. Each value is compiled anew.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, as from ``attention.py``. A query that sees no key gets
        zeros; so do rows after the last sequence. What a query does not see must still be finite, as must rows after
        the last sequence. The kernel may still be running when the result is returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve, such as a tensor that requires a gradient.

    >>> q = k = torch.zeros(5, 1, 16)
    >>> v = torch.arange(5.0).view(5, 1, 1).expand(5, 1, 16)
    >>> lengths = torch.tensor([0, 2, 5], dtype=torch.int32)  # rows 0 and 1; rows 2, 3 and 4
    >>> attention_variable(q, k, v, lengths, lengths, causal=True)[:, 0, 0]
    tensor([0.0000, 0.5000, 2.0000, 2.5000, 3.0000])
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError(
            "q, k or v requires a gradient, which library/attention.py has; for the result alone use torch.no_grad()"
        )
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    return forward(q, k, v, cu_seqlens_q, cu_seqlens_k, scale, bool(causal))
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(scale: float, cu_q: torch.Tensor, cu_k: torch.Tensor, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    for name, x in tensors.items():
        if x.ndim != 3:
            raise ValueError(f"{name} must be (rows, heads, head_dim); got the shape {tuple(x.shape)}")
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
    dense.check_arguments(scale, **{name: as_batch(x) for name, x in tensors.items()})
    device = tensors["q"].device
    for name, cu in {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k}.items():
        if cu.ndim != 1 or not len(cu) or cu.dtype != torch.int32 or not cu.is_contiguous() or cu.device != device:
            raise ValueError(
                f"{name} must be int32, contiguous, of one axis with a number or more, and on {device}; got "
                f"{cu.dtype}, shape {tuple(cu.shape)}, strides {cu.stride()}, on {cu.device}"
            )
    if len(cu_q) != len(cu_k):
        raise ValueError(f"cu_seqlens_q has {len(cu_q)} numbers and cu_seqlens_k {len(cu_k)}: not as many sequences")
    if len(cu_q) - 1 > MOST_SEQUENCES:
        raise ValueError(f"{len(cu_q) - 1} sequences are too many for one launch, which serves {MOST_SEQUENCES}")
# --8<-- [end:check]


def by_sequence(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False, scale=None):
    """Compute the same by torch, sequence by sequence. Queries that see no key, and rows after the last, get zeros."""
    out = torch.zeros_like(q)
    of_q, of_k = ([0, *cu.tolist()[1:]] for cu in (cu_seqlens_q, cu_seqlens_k))
    for i in range(len(of_q) - 1):
        queries, keys = slice(of_q[i], of_q[i + 1]), slice(of_k[i], of_k[i + 1])
        count, of = queries.stop - queries.start, keys.stop - keys.start
        blind = max(0, count - of) if causal else 0 if of else count  # the first ones see no key
        rows = slice(queries.start + blind, queries.stop)
        one = (x.transpose(0, 1)[None] for x in (q[rows], k[keys], v[keys]))
        out[rows] = in_torch(*one, causal=causal, scale=scale)[0].transpose(0, 1)
    return out


# --8<-- [start:toy]
@triton.jit
def toy_kernel(
    cu_ptr,
    out_ptr,
    sequences,
    total,
    tile,
    BLOCK: tl.constexpr,
    SEQUENCES: tl.constexpr,
):
    sequence, begin, length, first = sequence_of(cu_ptr, sequences, total, tile, BLOCK, SEQUENCES)
    tl.store(out_ptr, sequence)
    tl.store(out_ptr + 1, begin)
    tl.store(out_ptr + 2, length)
    tl.store(out_ptr + 3, first)


def toy(device) -> list[tuple[int, ...]]:
    """Return sequences of 3, 0 and 6 rows, and a row after the last, in tiles of 4: what each program finds."""
    cu, found = torch.tensor([0, 3, 3, 9], dtype=torch.int32, device=device), []
    for tile in range(most_tiles(10, sequences=3, block=4)):
        out = torch.empty(4, dtype=torch.int32, device=device)
        toy_kernel[(1,)](cu, out, 3, 10, tile, BLOCK=4, SEQUENCES=4)
        found.append(tuple(out.tolist()))
    return found


def drawn(found: list[tuple[int, ...]], rows: int, block: int) -> list[str]:
    """Return a line for each program: the rows that it has, by the number of their sequence."""
    lines = []
    for sequence, begin, length, first in found:
        mine = range(begin + first, begin + min(first + block, length))
        lines.append(" ".join(str(sequence) if row in mine else "." for row in range(rows)))
    return lines
# --8<-- [end:toy]


def main():
    device = "cuda" if isinstance(variable_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## which program has which rows")
    for tile, line in enumerate(drawn(toy(device), rows=10, block=4)):
        print(f"program {tile}: {line}")

    print("## three sequences")
    q, k = torch.zeros(5, 1, 16, device=device), torch.zeros(6, 1, 16, device=device)
    v = torch.arange(1.0, 7, device=device).view(6, 1, 1).expand(6, 1, 16)
    cu_q, cu_k = (torch.tensor(cu, dtype=torch.int32, device=device) for cu in ([0, 2, 2, 5], [0, 1, 3, 6]))
    for causal in (False, True):
        out = attention_variable(q, k, v, cu_q, cu_k, causal=causal)
        print("causal:  " if causal else "all keys:", " ".join(f"{value:.1f}" for value in out[:, 0, 0].tolist()))

    print("## as torch")
    lengths = torch.tensor([0, 40, 41, 41, 90], dtype=torch.int32, device=device)
    q = torch.randn(90, 2, 32, device=device)
    k, v = torch.randn(2, 90, 1, 32, device=device)
    found, wanted = (each(q, k, v, lengths, lengths, causal=True) for each in (attention_variable, by_sequence))
    print("4 sequences of 40, 1, 0 and 49 rows:", torch.allclose(found, wanted, rtol=1e-4, atol=1e-4))


if __name__ == "__main__":
    main()
